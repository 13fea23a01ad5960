//! What a failed server's own words say about why: the table that turns stderr and error messages into an outcome.
//!
//! The phrases were taken from what published servers print when they lack a key, an argument, the network or a native
//! add-on. The order is the order of trust: a phrase about the network outranks one about settings, since a server that
//! can't reach its service often blames the key.
//!
//! Invariant: no phrase, no claim: a text that says nothing of the kind gives `None`, and the caller says `crashed`.

use mcpindex_contract::outcome::Outcome;

use crate::visible::visible_within;

/// The longest line of a server that a reason quotes.
const QUOTED: usize = 300;

/// Lower-case phrases, and what a text with one of them says.
const PHRASES: &[(Outcome, &[&str])] = &[
    (
        Outcome::NeedsInstallScript,
        &[
            "could not locate the bindings file",
            "was compiled against a different node.js version",
            "no native build was found",
            "build/release/",
            "prebuild-install",
            "node-gyp",
        ],
    ),
    (
        Outcome::NeedsNetwork,
        &[
            "fetch failed",
            "enotfound",
            "econnrefused",
            "eai_again",
            "enetunreach",
            "etimedout",
            "getaddrinfo",
            "name resolution",
            "name or service not known",
            "nodename nor servname",
            "network is unreachable",
            "connection refused",
            "connecterror",
            "connection error",
            "max retries exceeded",
            "dns error",
            "could not resolve host",
        ],
    ),
    (
        Outcome::NeedsConfig,
        &[
            "api key",
            "api_key",
            "apikey",
            "access token",
            "auth token",
            "api token",
            "credentials",
            "unauthorized",
            "environment variable",
            "env var",
            "is not set",
            "must be set",
            "not configured",
            "missing required",
            "is required",
            "are required",
            "field required",
            "usage:",
            "missing argument",
            "the following arguments",
            "please provide",
            "must provide",
            "must specify",
            "connection string",
        ],
    ),
];

/// What a text says about the cause, when it says anything.
pub(super) fn cause(text: &str) -> Option<Outcome> {
    let text = text.to_lowercase();
    PHRASES
        .iter()
        .find(|(_, phrases)| phrases.iter().any(|phrase| text.contains(phrase)))
        .map(|(outcome, _)| *outcome)
}

/// Whether a text says that the network is what is missing.
pub(super) fn is_network(text: &str) -> bool {
    cause(text) == Some(Outcome::NeedsNetwork)
}

/// The line of a stderr that says most: the last that names a cause, else the last that is no part of a stack trace.
/// Safe to show.
pub(super) fn telling_line(stderr: &str) -> Option<String> {
    let lines = || {
        stderr
            .lines()
            .rev()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    lines()
        .find(|line| cause(line).is_some() && !is_trace(line))
        .or_else(|| lines().find(|line| !is_trace(line)))
        .or_else(|| lines().next())
        .map(|line| visible_within(line, QUOTED))
}

/// A line that says where, not what.
fn is_trace(line: &str) -> bool {
    line.starts_with("at ")
        || line.starts_with("File \"")
        || line.starts_with("Traceback")
        || line.starts_with("node:")
        || line.starts_with("Node.js v")
        || line.chars().all(|character| "^~{}[]()|+-=, ".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &str, outcome: Option<Outcome>, line: &str) {
        assert_eq!(cause(stderr), outcome, "{stderr}");
        assert_eq!(telling_line(stderr).unwrap_or_default(), line, "{stderr}");
    }

    #[test]
    fn a_missing_key_or_argument_needs_config() {
        check(
            "Error: DEMO_API_KEY is missing\n    at main (index.js:3:9)\n\nNode.js v20.1.0\n",
            Some(Outcome::NeedsConfig),
            "Error: DEMO_API_KEY is missing",
        );
        check(
            "Usage: demo-server <directory>\n",
            Some(Outcome::NeedsConfig),
            "Usage: demo-server <directory>",
        );
        check(
            "usage: demo [-h] --path PATH\ndemo: error: the following arguments are required: --path\n",
            Some(Outcome::NeedsConfig),
            "demo: error: the following arguments are required: --path",
        );
    }

    #[test]
    fn a_network_that_is_not_there_needs_network_even_when_a_key_is_blamed() {
        check(
            "Could not check the API key\nTypeError: fetch failed\n  cause: getaddrinfo EAI_AGAIN api.example.com",
            Some(Outcome::NeedsNetwork),
            "cause: getaddrinfo EAI_AGAIN api.example.com",
        );
    }

    #[test]
    fn a_native_part_that_was_never_built_needs_its_script() {
        check(
            "Error: Cannot find module '../build/Release/keytar.node'",
            Some(Outcome::NeedsInstallScript),
            "Error: Cannot find module '../build/Release/keytar.node'",
        );
    }

    #[test]
    fn any_other_end_claims_nothing() {
        check("", None, "");
        check(
            "Traceback (most recent call last):\n  File \"a.py\", line 1\nImportError: cannot import name 'McpError'\n",
            None,
            "ImportError: cannot import name 'McpError'",
        );
        check("Segmentation fault\n}\n", None, "Segmentation fault");
    }

    #[test]
    fn the_line_is_safe_to_show_and_short() {
        assert_eq!(
            telling_line("\u{1b}[31mbad\u{1b}[0m\n").unwrap(),
            "\\u{1b}[31mbad\\u{1b}[0m"
        );
        assert_eq!(telling_line(&"x".repeat(1_000)).unwrap().chars().count(), 301);
    }
}
