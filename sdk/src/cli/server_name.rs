//! Which server a person means: `npm:NAME`, a URL, a short id, a `cmd:…` as it is shown, or the name of an entry in a
//! host's configuration.
//!
//! Invariant: a name that fits two servers is a mistake that names both, never a guess.

use clap::Args;
use mcpindex::clients::{Environment, configurations};
use mcpindex::pins::{AuthContext, Pins, ServerKey};
use mcpindex::state::StateDirectory;
use mcpindex_contract::identity::Identity;

/// A server on the command line.
#[derive(Args)]
pub(super) struct ServerArguments {
    /// npm:NAME, pypi:NAME, oci:NAME, a URL, what `mcpindex pins list` calls it, or its name in a host's configuration
    #[arg(value_name = "SERVER")]
    server: String,

    /// Seen with which credentials, where it has pins under more than one: local, anonymous, header:NAME, oauth:ISSUER, or
    /// the name given to `gate --context`
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
}

impl ServerArguments {
    /// As it was typed.
    pub(super) fn text(&self) -> &str {
        &self.server
    }

    /// The server meant. An error is one line for the person.
    pub(super) fn key(&self, state: &StateDirectory) -> Result<ServerKey, String> {
        named(&self.server, self.context.as_deref(), state)
    }
}

/// The server of this name, seen with these credentials where they are given.
pub(super) fn named(
    text: &str,
    context_text: Option<&str>,
    state: &StateDirectory,
) -> Result<ServerKey, String> {
    let context = context_text.map(context).transpose()?;
    resolve_in(text, context.as_ref(), &known(state), entries)
}

/// A place in a host's configuration, and the server that it starts (`None` where that can't be said).
type Configured = (String, Option<Identity>);

/// The entries of this name in the configurations of all hosts. One that can't be read names nothing.
fn entries(name: &str) -> Vec<Configured> {
    let Some(environment) = Environment::from_process() else {
        return Vec::new();
    };
    configurations(&environment)
        .into_iter()
        .flat_map(|configuration| {
            let path = configuration.path.display().to_string();
            let entries = configuration.entries().unwrap_or_default().into_iter();
            entries
                .filter(|entry| entry.name == name)
                .map(move |entry| (format!("{path}:{}", entry.line), entry.identity))
        })
        .collect()
}

/// The one server that all entries of this name start.
fn configured(name: &str, entries: Vec<Configured>) -> Option<Result<Identity, String>> {
    let mut found: Option<(String, Identity)> = None;
    let mut unknown = None;
    for (place, identity) in entries {
        match (identity, &found) {
            (None, _) => unknown = Some(place),
            (Some(identity), None) => found = Some((place, identity)),
            (Some(identity), Some((first, known))) if identity != *known => {
                return Some(Err(format!(
                    "`{name}` is {known} in {first} and {identity} in {place}: say which"
                )));
            }
            (Some(_), Some(_)) => {}
        }
    }
    match (found, unknown) {
        (Some((_, identity)), _) => Some(Ok(identity)),
        (None, Some(place)) => Some(Err(format!(
            "the entry `{name}` in {place} does not say which server it starts: name the server itself"
        ))),
        (None, None) => None,
    }
}

fn known(state: &StateDirectory) -> Vec<ServerKey> {
    Pins::all(state).into_iter().map(|(key, _)| key).collect()
}

/// A written auth context, or the plain name of one.
fn context(text: &str) -> Result<AuthContext, String> {
    match text.parse() {
        Ok(context) => Ok(context),
        Err(_) if !text.contains(':') => format!("context:{text}")
            .parse()
            .map_err(|_| "--context needs a name".to_owned()),
        Err(error) => Err(format!("--context: {error}")),
    }
}

/// The server with pins that `text` names, or the identity under its usual context when it has none.
fn resolve_in(
    text: &str,
    context: Option<&AuthContext>,
    known: &[ServerKey],
    entries: impl FnOnce(&str) -> Vec<Configured>,
) -> Result<ServerKey, String> {
    let shown = known.iter().find(|key| {
        let identity = &key.identity;
        identity.short_id() == text || identity.to_string() == text
    });
    let identity = match shown {
        Some(key) => key.identity.clone(),
        None => match Identity::from_reference(text) {
            Ok(launched) => launched.identity,
            Err(error) => configured(text, entries(text)).unwrap_or_else(|| {
                Err(format!(
                    "{error}; no host's configuration has an entry of that name, and `mcpindex pins list` shows the servers that \
                     have pins, each with its short id"
                ))
            })?,
        },
    };
    if let Some(context) = context {
        let context = context.clone();
        return Ok(ServerKey { identity, context });
    }
    let mut with_pins = known.iter().filter(|key| key.identity == identity);
    match (with_pins.next(), with_pins.next()) {
        (None, _) => Ok(ServerKey::usual(identity)),
        (Some(key), None) => Ok(key.clone()),
        (Some(first), Some(second)) => Err(format!(
            "`{text}` has pins under {} and {}: say which with --context",
            first.context, second.context
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(reference: &str) -> ServerKey {
        ServerKey::usual(Identity::from_reference(reference).unwrap().identity)
    }

    #[test]
    fn a_server_is_found_by_every_name_it_is_shown_under() {
        let command = ServerKey::usual(Identity::Command {
            command: "server".to_owned(),
            args: Vec::new(),
        });
        let known = [command.clone(), key("npm:docs")];
        let check = |text: &str, expected: &ServerKey| {
            assert_eq!(
                resolve_in(text, None, &known, |_| Vec::new()).as_ref(),
                Ok(expected)
            );
        };
        check(&command.identity.to_string(), &command);
        check(&command.identity.short_id(), &command);
        check("npm:docs@1.2", &key("npm:docs"));
        check("npm:other", &key("npm:other"));
        check("https://mcp.example.com/", &key("https://mcp.example.com/"));
        let error = resolve_in("docs", None, &known, |_| Vec::new()).unwrap_err();
        assert!(error.starts_with("`docs` names no server"), "{error}");
    }

    #[test]
    fn the_name_of_an_entry_is_the_server_that_it_starts() {
        let check = |entries: &[(&str, Option<&str>)], expected: Result<&str, &str>| {
            let entries = entries
                .iter()
                .map(|(place, reference)| {
                    let identity = reference.map(|reference| key(reference).identity);
                    ((*place).to_owned(), identity)
                })
                .collect();
            let resolved = resolve_in("docs", None, &[], |_| entries);
            assert_eq!(resolved, expected.map(key).map_err(str::to_owned));
        };
        check(
            &[("/a:3", Some("npm:docs")), ("/b:1", Some("npm:docs"))],
            Ok("npm:docs"),
        );
        check(
            &[("/a:3", Some("npm:docs")), ("/b:1", Some("pypi:docs"))],
            Err("`docs` is npm:docs in /a:3 and pypi:docs in /b:1: say which"),
        );
        check(
            &[("/a:3", None)],
            Err("the entry `docs` in /a:3 does not say which server it starts: name the server itself"),
        );
    }

    #[test]
    fn two_contexts_of_one_server_are_never_guessed_between() {
        let work = ServerKey {
            context: context("work").unwrap(),
            ..key("npm:docs")
        };
        let known = [key("npm:docs"), work.clone()];
        assert_eq!(
            resolve_in("npm:docs", None, &known, |_| Vec::new()),
            Err("`npm:docs` has pins under local and context:work: say which with --context".to_owned())
        );
        let local = resolve_in("npm:docs", Some(&AuthContext::Local), &known, |_| Vec::new());
        assert_eq!(local, Ok(key("npm:docs")));
        assert_eq!(
            resolve_in("npm:docs", Some(&work.context), &known, |_| Vec::new()),
            Ok(work.clone())
        );
        assert!(
            context("token:x")
                .unwrap_err()
                .starts_with("--context: `token:x` is no auth context")
        );
    }
}
