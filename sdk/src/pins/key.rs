//! Whose pins: a server and the credentials that its listing was obtained with, as a file name and as JSON.
//!
//! Invariant: two keys never share a file name unless their hashes collide, and then each refuses the other's record,
//! since the key stands in it.

use std::fmt;
use std::str::FromStr;

use mcpindex_contract::digest::Digest;
use mcpindex_contract::identity::Identity;
use serde_json::Value;

use super::PinsError;

/// The longest slug, in characters (lock format §1).
const MAX_SLUG: usize = 48;
/// The longest part of a file name that stands for an auth context, without its hash.
const MAX_CONTEXT_SLUG: usize = 32;

/// With which credentials a listing was obtained: never derived from a credential's value, since those rotate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthContext {
    /// A process of this machine.
    Local,
    /// HTTP without credentials.
    Anonymous,
    /// HTTP with a credential in this header (lower case).
    Header(String),
    /// HTTP with a token of this issuer.
    OAuth(String),
    /// As the person named it (`--context`).
    Named(String),
}

impl AuthContext {
    /// The usual one: `local` for what runs on this machine, `anonymous` for a URL.
    pub fn usual(identity: &Identity) -> AuthContext {
        match identity {
            Identity::Remote { .. } => AuthContext::Anonymous,
            Identity::Package { .. } | Identity::Command { .. } => AuthContext::Local,
        }
    }

    /// Whether what was listed so is listed so to anybody: an index can compare it with what others see.
    pub fn is_anybodys(&self) -> bool {
        matches!(self, AuthContext::Local | AuthContext::Anonymous)
    }
}

impl fmt::Display for AuthContext {
    /// `local`, `anonymous`, `header:NAME`, `oauth:ISSUER`, `context:NAME`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthContext::Local => formatter.write_str("local"),
            AuthContext::Anonymous => formatter.write_str("anonymous"),
            AuthContext::Header(name) => write!(formatter, "header:{name}"),
            AuthContext::OAuth(issuer) => write!(formatter, "oauth:{issuer}"),
            AuthContext::Named(name) => write!(formatter, "context:{name}"),
        }
    }
}

impl FromStr for AuthContext {
    type Err = PinsError;

    fn from_str(text: &str) -> Result<AuthContext, PinsError> {
        let refuse = || PinsError::Context(text.to_owned());
        if text.contains(char::is_control) {
            return Err(refuse());
        }
        match text.split_once(':') {
            None if text == "local" => Ok(AuthContext::Local),
            None if text == "anonymous" => Ok(AuthContext::Anonymous),
            Some((_, "")) => Err(refuse()),
            Some(("header", name)) => Ok(AuthContext::Header(name.to_ascii_lowercase())),
            Some(("oauth", issuer)) => Ok(AuthContext::OAuth(issuer.to_owned())),
            Some(("context", name)) => Ok(AuthContext::Named(name.to_owned())),
            _ => Err(refuse()),
        }
    }
}

/// Whose pins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerKey {
    /// Which server.
    pub identity: Identity,
    /// Seen how.
    pub context: AuthContext,
}

impl ServerKey {
    /// The key under the usual auth context.
    pub fn usual(identity: Identity) -> ServerKey {
        let context = AuthContext::usual(&identity);
        ServerKey { identity, context }
    }

    /// Whether the auth context is the one that goes without saying.
    pub fn is_usual(&self) -> bool {
        self.context == AuthContext::usual(&self.identity)
    }

    /// The name of the record's file: `<slug>--<h16>.json` as a lock's shard (lock format §1). Where the auth context is not
    /// the usual one (`local` for a process, `anonymous` for a URL), `--<its slug>-<16 hex of its SHA-256>` comes before the
    /// ending.
    pub fn file_name(&self) -> String {
        let named = match &self.identity {
            Identity::Remote { url } => url.split_once("://").map_or(url.as_str(), |(_, rest)| rest),
            Identity::Package { name, .. } => name,
            Identity::Command { command, .. } => command,
        };
        let mut file_name = format!(
            "{}--{}",
            slug(named, MAX_SLUG, "server"),
            self.identity.short_id()
        );
        if !self.is_usual() {
            let context = self.context.to_string();
            file_name.push_str("--");
            file_name.push_str(&slug(&context, MAX_CONTEXT_SLUG, "context"));
            file_name.push('-');
            file_name.push_str(&Digest::of_raw(&context).hex()[..16]);
        }
        file_name.push_str(".json");
        file_name
    }

    /// The identity as it stands in files: the lock format's object.
    pub(super) fn identity_json(&self) -> Value {
        // It is JSON by construction.
        serde_json::from_str(&self.identity.to_lock_json()).unwrap_or_default()
    }

    /// The key whose [`ServerKey::identity_json`] and written context these are.
    pub(super) fn from_json(identity: &Value, context: &str) -> Option<ServerKey> {
        let members = identity.as_object()?;
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let read = match (text("kind")?, members.len()) {
            ("remote", 2) => Identity::from_url(text("url")?).ok()?,
            ("stdio", 2) => Identity::from_reference(text("package")?).ok()?.identity,
            ("stdio", 3) => {
                let args = members.get("args")?.as_array()?;
                let args = args.iter().map(|arg| arg.as_str().map(str::to_owned));
                Identity::Command {
                    command: text("command")?.to_owned(),
                    args: args.collect::<Option<_>>()?,
                }
            }
            _ => return None,
        };
        let key = ServerKey {
            identity: read,
            context: context.parse().ok()?,
        };
        // One identity, one spelling: what is not in normal form was not written by us.
        (key.identity_json() == *identity && key.context.to_string() == context).then_some(key)
    }
}

/// A-Z lowered, runs of anything but letters and digits made one `-`, trimmed and cut (lock format §2).
fn slug(text: &str, longest: usize, otherwise: &str) -> String {
    let mut slug = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(longest);
    match slug.trim_end_matches('-') {
        "" => otherwise.to_owned(),
        slug => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(reference: &str, context: Option<&str>) -> ServerKey {
        let identity = Identity::from_reference(reference).unwrap().identity;
        let usual = ServerKey::usual(identity);
        match context {
            None => usual,
            Some(context) => ServerKey {
                context: context.parse().unwrap(),
                ..usual
            },
        }
    }

    #[test]
    fn a_record_is_called_as_a_shard_of_a_lock() {
        let check = |reference, context, expected: &str| {
            assert_eq!(key(reference, context).file_name(), expected);
        };
        check(
            "npm:@example/docs-server",
            None,
            "example-docs-server--95715d48fcf97a92.json",
        );
        check(
            "HTTPS://MCP.Example.com:443/v1/mcp?x=1#f",
            None,
            "mcp-example-com-v1-mcp--022711de5f88d01f.json",
        );
        check(
            "https://mcp.example.com/v1/mcp",
            Some("header:Authorization"),
            "mcp-example-com-v1-mcp--022711de5f88d01f--header-authorization-b0186705047e55e0.json",
        );
    }

    #[test]
    fn a_slug_is_cut_and_never_empty() {
        assert_eq!(slug("___", MAX_SLUG, "server"), "server");
        let long = format!("{}-x", "a".repeat(47));
        assert_eq!(slug(&long, MAX_SLUG, "server"), "a".repeat(47));
    }

    #[test]
    fn an_auth_context_is_what_it_is_written_as() {
        for text in [
            "local",
            "anonymous",
            "header:authorization",
            "oauth:https://issuer.example",
            "context:work",
        ] {
            assert_eq!(text.parse::<AuthContext>().unwrap().to_string(), text);
        }
        for text in ["", "Local", "header:", "token:x", "context:a\nb"] {
            assert_eq!(
                text.parse::<AuthContext>(),
                Err(PinsError::Context(text.to_owned()))
            );
        }
    }

    #[test]
    fn a_key_comes_back_from_json_in_its_own_spelling_only() {
        let command = ServerKey::usual(Identity::Command {
            command: "server".to_owned(),
            args: vec!["--port".to_owned(), "1".to_owned()],
        });
        for key in [
            command,
            key("npm:a", None),
            key("npm:a?registry=https://registry.example/npm", None),
            key("https://mcp.example.com/v1", Some("oauth:https://issuer.example")),
        ] {
            let back = ServerKey::from_json(&key.identity_json(), &key.context.to_string());
            assert_eq!(back.as_ref(), Some(&key));
        }
        let spelled = serde_json::json!({"kind": "remote", "url": "HTTPS://mcp.example.com/v1"});
        assert_eq!(ServerKey::from_json(&spelled, "anonymous"), None);
        let more = serde_json::json!({"kind": "remote", "url": "https://mcp.example.com/v1", "x": 1});
        assert_eq!(ServerKey::from_json(&more, "anonymous"), None);
    }
}
