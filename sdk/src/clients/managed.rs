//! Which servers people may use, as files for hosts that take such a list from their administrators: Claude Code's `managed-mcp.json`
//! (these servers and no others) and the allow list of its managed settings (people add what they want of these).
//!
//! Format: Claude Code's documentation of managed MCP, as of December 2026.
//!
//! Invariant: every server stands there with one exact version or one address; a text that a program could take for an option, or that
//! holds what no name does, is refused and never written.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// How a server that may be used is started or reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// An npm package, by `npx`.
    Npm {
        /// Its name.
        name: String,
        /// The exact version.
        version: String,
    },
    /// A Python package, by `uvx`.
    Pypi {
        /// Its name.
        name: String,
        /// The exact version.
        version: String,
    },
    /// A container image with its tag, by `docker`.
    Oci {
        /// Name and tag.
        image: String,
    },
    /// A remote server.
    Remote {
        /// Its address.
        url: String,
    },
}

/// A server that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// Its name in the registry.
    pub name: String,
    /// What is started or reached.
    pub launch: Launch,
}

/// Why a server can't be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// A program could take it for something else than a name.
    #[error("`{name}` is left out: `{text}` is no {what} that could be handed to a program")]
    Unfit {
        /// The server.
        name: String,
        /// What it was, escaped.
        text: String,
        /// What it should have been.
        what: &'static str,
    },
}

impl Allowed {
    /// The same, if nothing of it could be taken for anything else.
    pub fn checked(self) -> Result<Allowed, ManagedError> {
        let unfit = |text: &str, what| ManagedError::Unfit {
            name: self.name.escape_debug().to_string(),
            text: text.escape_debug().to_string(),
            what,
        };
        match &self.launch {
            Launch::Npm { name, version } | Launch::Pypi { name, version } => {
                if !is_word(name) {
                    return Err(unfit(name, "package name"));
                }
                if !is_word(version) {
                    return Err(unfit(version, "version"));
                }
            }
            Launch::Oci { image } if !is_word(image) => return Err(unfit(image, "image")),
            Launch::Remote { url } if !is_address(url) => return Err(unfit(url, "address")),
            Launch::Oci { .. } | Launch::Remote { .. } => {}
        }
        Ok(self)
    }

    fn command(&self, gated: bool) -> Option<Vec<String>> {
        let own: Vec<String> = match &self.launch {
            Launch::Npm { name, version } => words(&["npx", "-y", &format!("{name}@{version}")]),
            Launch::Pypi { name, version } => words(&["uvx", &format!("{name}@{version}")]),
            Launch::Oci { image } => words(&["docker", "run", "-i", "--rm", image]),
            Launch::Remote { url } if gated => {
                return Some(words(&["mcpindex", "gate", "--approvals", "index", "--url", url]));
            }
            Launch::Remote { .. } => return None,
        };
        Some(match gated {
            true => [words(&["mcpindex", "gate", "--approvals", "index", "--"]), own].concat(),
            false => own,
        })
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"@/._-+:!~".contains(&byte);
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(fits)
}

fn is_address(text: &str) -> bool {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    is_web && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `managed-mcp.json`: these servers and no others, each behind a gate that obeys the organisation's index where `gated`.
pub fn managed_mcp(allowed: &[Allowed], gated: bool) -> Value {
    let mut servers: BTreeMap<String, Value> = BTreeMap::new();
    for server in allowed {
        let entry = match (server.command(gated), &server.launch) {
            (Some(command), _) => json!({"type": "stdio", "command": command[0], "args": command[1..]}),
            (None, Launch::Remote { url }) => json!({"type": "http", "url": url}),
            (None, _) => continue,
        };
        servers.insert(free_name(&servers, &server.name), entry);
    }
    json!({ "mcpServers": servers })
}

/// Managed settings that allow these servers, and let nobody allow others.
pub fn managed_settings(allowed: &[Allowed], gated: bool) -> Value {
    let entries: Vec<Value> = allowed
        .iter()
        .map(|server| match (server.command(gated), &server.launch) {
            (None, Launch::Remote { url }) => json!({"serverUrl": url}),
            (command, _) => json!({"serverCommand": command.unwrap_or_default()}),
        })
        .collect();
    json!({"allowManagedMcpServersOnly": true, "allowedMcpServers": entries})
}

/// A name that hosts take: letters, digits, hyphens and underscores, the last part of the registry's name.
fn free_name(taken: &BTreeMap<String, Value>, name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let name: String = last
        .chars()
        .map(|letter| if fits(letter) { letter } else { '-' })
        .collect();
    let mut free = name.clone();
    let mut number = 2;
    while taken.contains_key(&free) {
        free = format!("{name}-{number}");
        number += 1;
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<Allowed> {
        let server = |name: &str, launch| Allowed {
            name: name.to_owned(),
            launch,
        };
        vec![
            server(
                "npm.acme/notes",
                Launch::Npm {
                    name: "@acme/notes".to_owned(),
                    version: "1.2.3".to_owned(),
                },
            ),
            server(
                "pypi/notes",
                Launch::Pypi {
                    name: "notes".to_owned(),
                    version: "0.9".to_owned(),
                },
            ),
            server(
                "oci.ghcr.io/acme-notes",
                Launch::Oci {
                    image: "ghcr.io/acme/notes:7".to_owned(),
                },
            ),
            server(
                "com.example.mcp/v1.mcp",
                Launch::Remote {
                    url: "https://mcp.example.com/v1/mcp".to_owned(),
                },
            ),
        ]
    }

    #[test]
    fn a_managed_file_has_these_servers_and_no_others() {
        insta::assert_json_snapshot!(managed_mcp(&allowed(), false), @r#"
        {
          "mcpServers": {
            "acme-notes": {
              "args": [
                "run",
                "-i",
                "--rm",
                "ghcr.io/acme/notes:7"
              ],
              "command": "docker",
              "type": "stdio"
            },
            "notes": {
              "args": [
                "-y",
                "@acme/notes@1.2.3"
              ],
              "command": "npx",
              "type": "stdio"
            },
            "notes-2": {
              "args": [
                "notes@0.9"
              ],
              "command": "uvx",
              "type": "stdio"
            },
            "v1-mcp": {
              "type": "http",
              "url": "https://mcp.example.com/v1/mcp"
            }
          }
        }
        "#);
        insta::assert_json_snapshot!(managed_mcp(&allowed(), true), @r#"
        {
          "mcpServers": {
            "acme-notes": {
              "args": [
                "gate",
                "--approvals",
                "index",
                "--",
                "docker",
                "run",
                "-i",
                "--rm",
                "ghcr.io/acme/notes:7"
              ],
              "command": "mcpindex",
              "type": "stdio"
            },
            "notes": {
              "args": [
                "gate",
                "--approvals",
                "index",
                "--",
                "npx",
                "-y",
                "@acme/notes@1.2.3"
              ],
              "command": "mcpindex",
              "type": "stdio"
            },
            "notes-2": {
              "args": [
                "gate",
                "--approvals",
                "index",
                "--",
                "uvx",
                "notes@0.9"
              ],
              "command": "mcpindex",
              "type": "stdio"
            },
            "v1-mcp": {
              "args": [
                "gate",
                "--approvals",
                "index",
                "--url",
                "https://mcp.example.com/v1/mcp"
              ],
              "command": "mcpindex",
              "type": "stdio"
            }
          }
        }
        "#);
        assert_eq!(managed_mcp(&[], true), json!({"mcpServers": {}}));
    }

    #[test]
    fn an_allow_list_names_commands_and_addresses() {
        insta::assert_json_snapshot!(managed_settings(&allowed(), false), @r#"
        {
          "allowManagedMcpServersOnly": true,
          "allowedMcpServers": [
            {
              "serverCommand": [
                "npx",
                "-y",
                "@acme/notes@1.2.3"
              ]
            },
            {
              "serverCommand": [
                "uvx",
                "notes@0.9"
              ]
            },
            {
              "serverCommand": [
                "docker",
                "run",
                "-i",
                "--rm",
                "ghcr.io/acme/notes:7"
              ]
            },
            {
              "serverUrl": "https://mcp.example.com/v1/mcp"
            }
          ]
        }
        "#);
    }

    #[test]
    fn what_a_program_could_take_for_an_option_is_refused() {
        let check = |launch: Launch, is_good: bool| {
            let server = Allowed {
                name: "x/y".to_owned(),
                launch,
            };
            assert_eq!(server.clone().checked().is_ok(), is_good, "{server:?}");
        };
        let npm = |name: &str, version: &str| Launch::Npm {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        let oci = |image: &str| Launch::Oci {
            image: image.to_owned(),
        };
        let remote = |url: &str| Launch::Remote { url: url.to_owned() };
        check(npm("@acme/notes", "1.2.3-rc.1+b"), true);
        check(npm("--registry=https://evil.example", "1"), false);
        check(npm("notes", "1; rm -rf /"), false);
        check(npm("", "1"), false);
        check(oci("ghcr.io/acme/notes:7"), true);
        check(oci("-v/:/host"), false);
        check(remote("https://mcp.example.com/mcp?a=1"), true);
        check(remote("file:///etc/passwd"), false);
        check(remote("https://a b"), false);
    }
}
