//! Which server a person means: `npm:NAME`, a URL, a short id, or a `cmd:…` as it is shown.
//!
//! Invariant: a name that fits two servers is a mistake that names both, never a guess.

use clap::Args;
use mcpindex::pins::{AuthContext, Pins, ServerKey};
use mcpindex::state::StateDirectory;
use mcpindex_contract::identity::Identity;

/// A server on the command line.
#[derive(Args)]
pub(super) struct ServerArguments {
    /// npm:NAME, pypi:NAME, oci:NAME, a URL, or what `mcpindex pins list` calls it
    #[arg(value_name = "SERVER")]
    server: String,

    /// Seen with which credentials, where it has pins under more than one: local, anonymous, header:NAME, oauth:ISSUER, or
    /// the name given to `gate --context`
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
}

impl ServerArguments {
    /// The server meant. An error is one line for the person.
    pub(super) fn key(&self, state: &StateDirectory) -> Result<ServerKey, String> {
        let context = self.context.as_deref().map(context).transpose()?;
        resolve_in(&self.server, context.as_ref(), &known(state))
    }
}

/// The server with pins (or the identity, when it has none) that `text` names. An error is one line for the person.
pub(super) fn resolve(text: &str, state: &StateDirectory) -> Result<ServerKey, String> {
    resolve_in(text, None, &known(state))
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

fn resolve_in(text: &str, context: Option<&AuthContext>, known: &[ServerKey]) -> Result<ServerKey, String> {
    let shown = known.iter().find(|key| {
        let identity = &key.identity;
        identity.short_id() == text || identity.to_string() == text
    });
    let identity = match shown {
        Some(key) => key.identity.clone(),
        None => {
            let launched = Identity::from_reference(text).map_err(|error| {
                format!(
                    "{error}; `mcpindex pins list` shows the servers that have pins, each with its short id"
                )
            })?;
            launched.identity
        }
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
            assert_eq!(resolve_in(text, None, &known).as_ref(), Ok(expected));
        };
        check(&command.identity.to_string(), &command);
        check(&command.identity.short_id(), &command);
        check("npm:docs@1.2", &key("npm:docs"));
        check("npm:other", &key("npm:other"));
        check("https://mcp.example.com/", &key("https://mcp.example.com/"));
        let error = resolve_in("docs", None, &known).unwrap_err();
        assert!(error.starts_with("`docs` names no server"), "{error}");
    }

    #[test]
    fn two_contexts_of_one_server_are_never_guessed_between() {
        let work = ServerKey {
            context: context("work").unwrap(),
            ..key("npm:docs")
        };
        let known = [key("npm:docs"), work.clone()];
        assert_eq!(
            resolve_in("npm:docs", None, &known),
            Err("`npm:docs` has pins under local and context:work: say which with --context".to_owned())
        );
        let local = resolve_in("npm:docs", Some(&AuthContext::Local), &known);
        assert_eq!(local, Ok(key("npm:docs")));
        assert_eq!(resolve_in("npm:docs", Some(&work.context), &known), Ok(work));
        assert!(
            context("token:x")
                .unwrap_err()
                .starts_with("--context: `token:x` is no auth context")
        );
    }
}
