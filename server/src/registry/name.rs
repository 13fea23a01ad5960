//! The name of a server in this registry: its own in the official one where an alias says so that leads to no other server, else one
//! that is made of its identity.
//!
//! Made names: `npm/NAME`, `npm.SCOPE/NAME`, `pypi/NAME`, `oci.HOST/PATH`, and of a remote server its host turned round, its path and
//! its short id (`com.example.mcp/v1-mcp-0123456789abcdef`). Where a letter can't stand in a name it is a hyphen, and the short id
//! follows.
//!
//! Invariant: a name follows the official grammar (`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`, 3 to 200 characters), is the same each time, and
//! no two servers have the same one.

pub(crate) use mcpindex_contract::identity::is_server_name as is_name;
use mcpindex_contract::identity::{Identity, LONGEST_SERVER_NAME, Registry};
use mcpindex_store::registry::RegistryFilter;
use url::Url;

/// Digits of a short id.
const SHORT_ID: usize = 16;

/// Whether the official form has words for it.
pub(crate) fn can_be_listed(server: &Identity) -> bool {
    match server {
        Identity::Remote { .. } => true,
        Identity::Package { alternative, .. } => alternative.is_none(),
        Identity::Command { .. } => false,
    }
}

/// Its name.
pub(crate) fn name_of(server: &Identity, aliases: &[String], short_id: &str) -> String {
    if let Some(alias) = aliases.iter().find(|alias| is_name(alias) && !is_made(alias)) {
        return alias.clone();
    }
    let (space, name, is_exact) = match server {
        Identity::Package { registry, name, .. } => of_package(*registry, name),
        Identity::Remote { url } => of_url(url),
        Identity::Command { command, .. } => ("cmd".to_owned(), command.clone(), false),
    };
    let made = format!("{}/{}", fitting(&space, false), fitting(&name, true));
    match is_exact && is_name(&made) && made == format!("{space}/{name}") {
        true => made,
        false => {
            let room = LONGEST_SERVER_NAME - SHORT_ID - 1;
            let beginning: String = made.chars().take(room).collect();
            let beginning = beginning.trim_end_matches(['-', '.', '_']);
            match beginning.contains('/') {
                true => format!("{beginning}-{short_id}"),
                false => format!("server/{short_id}"),
            }
        }
    }
}

fn of_package(registry: Registry, name: &str) -> (String, String, bool) {
    let space = match registry {
        Registry::Npm => "npm",
        Registry::Pypi => "pypi",
        Registry::Oci => "oci",
    };
    let name = name
        .strip_prefix('@')
        .filter(|_| registry == Registry::Npm)
        .unwrap_or(name);
    match name.split_once('/') {
        Some((scope, name)) if !name.contains('/') => (format!("{space}.{scope}"), name.to_owned(), true),
        Some((host, path)) => (format!("{space}.{host}"), path.to_owned(), false),
        None => (space.to_owned(), name.to_owned(), true),
    }
}

/// Two addresses may come to the same words, so the short id always follows.
fn of_url(url: &str) -> (String, String, bool) {
    let Ok(url) = Url::parse(url) else {
        return ("remote".to_owned(), "mcp".to_owned(), false);
    };
    let host = url.host_str().unwrap_or("remote");
    let turned: Vec<&str> = host.split('.').rev().collect();
    let path = url.path().trim_matches('/');
    let path = if path.is_empty() { "mcp" } else { path };
    (turned.join("."), path.to_owned(), false)
}

fn fitting(text: &str, is_name: bool) -> String {
    let fits = |letter: char| {
        letter.is_ascii_alphanumeric() || letter == '.' || letter == '-' || (is_name && letter == '_')
    };
    let fitting: String = text
        .chars()
        .map(|letter| if fits(letter) { letter } else { '-' })
        .collect();
    match fitting.is_empty() {
        true => "-".to_owned(),
        false => fitting,
    }
}

/// Whether it could be a name that is made here: an alias must not take another server's place.
fn is_made(text: &str) -> bool {
    let space = text.split('/').next().unwrap_or_default();
    let is_ours = ["npm", "pypi", "oci"]
        .iter()
        .any(|ours| space == *ours || space.starts_with(&format!("{ours}.")));
    is_ours || short_id_at_end(text).is_some()
}

fn short_id_at_end(text: &str) -> Option<&str> {
    let start = text.len().checked_sub(SHORT_ID)?;
    let id = text.get(start..)?;
    let is_id = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let before = text.get(..start)?.bytes().next_back()?;
    (is_id && matches!(before, b'-' | b'/')).then_some(id)
}

/// What the index may know a server of this name by, the likeliest first. Which name it has says [`name_of`].
pub(crate) fn may_mean(name: &str) -> Vec<String> {
    let mut may = Vec::new();
    if !is_name(name) {
        return may;
    }
    may.extend(short_id_at_end(name).map(str::to_owned));
    if let Some((space, rest)) = name.split_once('/') {
        let (form, scope) = space.split_once('.').unwrap_or((space, ""));
        match (form, scope) {
            ("npm", "") => may.push(format!("npm:{rest}")),
            ("npm", scope) => may.push(format!("npm:@{scope}/{rest}")),
            ("pypi", "") => may.push(format!("pypi:{rest}")),
            ("oci", "") => may.push(format!("oci:{rest}")),
            ("oci", host) => may.push(format!("oci:{host}/{rest}")),
            _ => {}
        }
    }
    may.push(name.to_owned());
    may
}

/// The words of what is searched for by which the index can look, the longest first: names are made of the words of identities,
/// aliases and short ids. What is made up where a name has none of them is left out.
pub(crate) fn searched(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_made_up = |word: &str| {
        ["mcp", "server", "remote"]
            .iter()
            .any(|made| made.contains(&word.to_ascii_lowercase()))
    };
    let mut words: Vec<String> = words
        .filter(|word| !word.is_empty() && !is_made_up(word))
        .map(str::to_owned)
        .collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.truncate(RegistryFilter::WORDS);
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn named(reference: &str, aliases: &[&str]) -> String {
        let identity = Identity::from_reference(reference).unwrap().identity;
        let aliases: Vec<String> = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        name_of(&identity, &aliases, &identity.short_id())
    }

    #[test]
    fn a_server_has_its_official_name_or_one_that_is_made_of_its_identity() {
        let names = [
            named("npm:mcp-notes", &[]),
            named("npm:@acme/notes", &[]),
            named("npm:@acme/notes", &["no name", "io.github.acme/notes"]),
            named("npm:@acme/notes", &["npm.other/notes"]),
            named("pypi:mcp-server-time", &[]),
            named("oci:ghcr.io/acme/notes", &[]),
            named("https://mcp.example.com/v1/mcp", &[]),
            named("https://mcp.example.com/", &[]),
            named("http://127.0.0.1:8080/mcp", &[]),
        ];
        insta::assert_snapshot!(names.join("\n"), @r#"
        npm/mcp-notes
        npm.acme/notes
        io.github.acme/notes
        npm.acme/notes
        pypi/mcp-server-time
        oci.ghcr.io/acme-notes-d30d4273c8155475
        com.example.mcp/v1-mcp-022711de5f88d01f
        com.example.mcp/mcp-0f3265e4fe18bd22
        1.0.0.127/mcp-4b635f096d967759
        "#);
        for name in &names {
            assert!(is_name(name), "{name}");
        }
    }

    #[test]
    fn a_name_leads_to_what_it_was_made_of() {
        for reference in [
            "npm:mcp-notes",
            "npm:@acme/notes",
            "pypi:mcp-server-time",
            "https://mcp.example.com/v1/mcp",
        ] {
            let identity = Identity::from_reference(reference).unwrap().identity;
            let known = [identity.to_string(), identity.short_id()];
            let may = may_mean(&named(reference, &[]));
            assert!(may.iter().any(|one| known.contains(one)), "{reference}: {may:?}");
        }
        assert_eq!(may_mean("no name"), Vec::<String>::new());
    }

    #[test]
    fn names_that_differ_in_what_can_not_stand_in_them_are_different_names() {
        let servers = [
            "https://mcp.example.com/a-b",
            "https://mcp.example.com/a/b",
            "https://mcp.example.com/a~b",
            "https://mcp.example.com:444/a-b",
            "http://mcp.example.com/a-b",
        ];
        let names: BTreeSet<String> = servers.iter().map(|server| named(server, &[])).collect();
        assert_eq!(names.len(), servers.len());
    }

    proptest! {
        #[test]
        fn every_remote_has_a_name_of_the_official_grammar(host in "[a-z0-9.-]{1,80}", path in "[ -~]{0,300}") {
            if let Ok(identity) = Identity::from_url(&format!("https://{host}/{path}")) {
                let name = name_of(&identity, &[], &identity.short_id());
                prop_assert!(is_name(&name), "{name}");
                prop_assert!(may_mean(&name).contains(&identity.short_id()));
            }
        }
    }
}
