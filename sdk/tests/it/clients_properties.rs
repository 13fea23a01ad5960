//! Generated configurations: wired and unwired, each is what it was, in every format.

use proptest::prelude::*;

use crate::clients::{Desk, round_trip};

/// A server as a person may have written it.
#[derive(Debug, Clone)]
struct Server {
    name: String,
    command: String,
    args: Option<Vec<String>>,
    env: Vec<(String, String)>,
    /// An address with a credential instead of a command.
    is_remote: bool,
    /// The member that stands first.
    args_first: bool,
}

/// How the file is laid out.
#[derive(Debug, Clone)]
struct Layout {
    line_end: &'static str,
    indent: &'static str,
    is_spread: bool,
    has_comments: bool,
    has_mark: bool,
    ends_with_line_end: bool,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z@/.-]{1,12}",
        "[ -~]{1,10}",
        any::<String>().prop_map(|text| text
            .chars()
            .filter(|character| !character.is_control())
            .take(8)
            .collect()),
        Just("--".to_owned()),
        Just("gate".to_owned()),
        Just("--server".to_owned()),
        Just("# no comment".to_owned()),
        Just("\\\"//\\\"".to_owned()),
        Just("mcpindex".to_owned()),
        Just("two\nlines\t".to_owned()),
    ]
}

fn server() -> impl Strategy<Value = Server> {
    (
        text().prop_filter("a name", |name| !name.is_empty()),
        prop_oneof![
            "[a-z]{1,8}",
            "npx -y [a-z]{1,5}",
            "/opt/[a-z ]{1,8}/x",
            "'[a-z]{1,3} [a-z]{1,3}'"
        ],
        proptest::option::of(prop::collection::vec(text(), 0..4)),
        prop::collection::vec(("[A-Z_]{1,6}", text()), 0..3),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(name, command, args, mut env, is_remote, args_first)| {
            env.sort();
            env.dedup_by(|one, other| one.0 == other.0);
            Server {
                name,
                command,
                args,
                env,
                is_remote,
                args_first,
            }
        })
}

fn servers() -> impl Strategy<Value = Vec<Server>> {
    prop::collection::vec(server(), 1..4).prop_map(|mut servers| {
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        servers.dedup_by(|one, other| one.name == other.name);
        servers
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    (
        prop_oneof![Just("\n"), Just("\r\n")],
        prop_oneof![Just("  "), Just("    "), Just("\t"), Just("")],
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(line_end, indent, is_spread, has_comments, has_mark, ends_with_line_end)| Layout {
                line_end,
                indent,
                is_spread,
                has_comments,
                has_mark,
                ends_with_line_end,
            },
        )
}

fn quoted(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap();
    // TOML and YAML take fewer characters raw than JSON does.
    json.chars()
        .map(|character| match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                format!("\\u{:04x}", u32::from(character))
            }
            _ => character.to_string(),
        })
        .collect()
}

impl Layout {
    /// Parts between brackets, in one line or each on its own.
    fn bracketed(&self, brackets: (char, char), parts: &[String], depth: usize, comment: &str) -> String {
        let (open, close) = brackets;
        if parts.is_empty() || !self.is_spread {
            return format!("{open}{}{close}", parts.join(", "));
        }
        let next = format!("{}{}", self.line_end, self.indent.repeat(depth + 1));
        let last = format!("{}{}", self.line_end, self.indent.repeat(depth));
        let comment = if self.has_comments { comment } else { "" };
        let trailing = if self.has_comments { "," } else { "" };
        let parts = parts.join(&format!(",{comment}{next}"));
        format!("{open}{comment}{next}{parts}{trailing}{comment}{last}{close}")
    }

    fn whole(&self, text: String) -> String {
        let mark = if self.has_mark { "\u{feff}" } else { "" };
        let end = if self.ends_with_line_end {
            self.line_end
        } else {
            ""
        };
        format!("{mark}{text}{end}")
    }

    fn json(&self, servers: &[Server]) -> String {
        let comment = " // \"args\": [";
        let entries: Vec<String> = servers
            .iter()
            .map(|server| {
                let env: Vec<String> = server
                    .env
                    .iter()
                    .map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)))
                    .collect();
                let mut members = Vec::new();
                if server.is_remote {
                    members.push("\"type\": \"http\"".to_owned());
                    members.push("\"url\": \"https://a.example.com/mcp\"".to_owned());
                    let headers = [vec!["\"Authorization\": \"x\"".to_owned()], env].concat();
                    let headers = self.bracketed(('{', '}'), &headers, 3, comment);
                    members.push(format!("\"headers\": {headers}"));
                } else {
                    members.push(format!("\"command\": {}", quoted(&server.command)));
                    if let Some(args) = &server.args {
                        let args: Vec<String> = args.iter().map(|argument| quoted(argument)).collect();
                        members.push(format!(
                            "\"args\": {}",
                            self.bracketed(('[', ']'), &args, 3, comment)
                        ));
                    }
                    if server.args_first {
                        members.reverse();
                    }
                    members.push(format!(
                        "\"env\": {}",
                        self.bracketed(('{', '}'), &env, 3, comment)
                    ));
                }
                format!(
                    "{}: {}",
                    quoted(&server.name),
                    self.bracketed(('{', '}'), &members, 2, comment)
                )
            })
            .collect();
        let map = self.bracketed(('{', '}'), &entries, 1, comment);
        self.whole(self.bracketed(('{', '}'), &[format!("\"mcpServers\": {map}")], 0, comment))
    }

    fn toml(&self, servers: &[Server]) -> String {
        let comment = if self.has_comments { " # [x]" } else { "" };
        let mut lines = Vec::new();
        for server in servers {
            lines.push(format!("[mcp_servers.{}]{comment}", quoted(&server.name)));
            let values = |pairs: &[(String, String)]| -> Vec<String> {
                pairs
                    .iter()
                    .map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)))
                    .collect()
            };
            if server.is_remote {
                lines.push("url = \"https://a.example.com/mcp\"".to_owned());
                lines.push(format!("[mcp_servers.{}.http_headers]", quoted(&server.name)));
                lines.push(format!("Authorization = 'x'{comment}"));
                lines.extend(values(&server.env));
                continue;
            }
            let mut members = vec![format!("command = {}{comment}", quoted(&server.command))];
            if let Some(args) = &server.args {
                let args: Vec<String> = args.iter().map(|argument| quoted(argument)).collect();
                members.push(format!("args = {}", self.bracketed(('[', ']'), &args, 0, " # ]")));
            }
            if server.args_first {
                members.reverse();
            }
            lines.extend(members);
            lines.push(format!("env = {{ {} }}", values(&server.env).join(", ")));
        }
        self.whole(lines.join(self.line_end))
    }

    fn yaml(&self, servers: &[Server]) -> String {
        let comment = if self.has_comments { " # - x: [" } else { "" };
        let mut lines = vec!["mcpServers:".to_owned()];
        for server in servers {
            let pairs = |pad: &str| -> Vec<String> {
                server
                    .env
                    .iter()
                    .map(|(name, value)| format!("{pad}{}: {}{comment}", quoted(name), quoted(value)))
                    .collect()
            };
            lines.push(format!("  - name: {}{comment}", quoted(&server.name)));
            if server.is_remote {
                lines.push(format!("    url: https://a.example.com/mcp{comment}"));
                lines.push("    headers:".to_owned());
                lines.push(format!("      Authorization: x{comment}"));
                lines.extend(pairs("      "));
                continue;
            }
            let mut members = vec![vec![format!("    command: {}{comment}", quoted(&server.command))]];
            match &server.args {
                Some(args) if self.is_spread && !args.is_empty() => {
                    let args = args
                        .iter()
                        .map(|argument| format!("      - {}{comment}", quoted(argument)));
                    members.push([vec![format!("    args:{comment}")], args.collect()].concat());
                }
                Some(args) => {
                    let args: Vec<String> = args.iter().map(|argument| quoted(argument)).collect();
                    members.push(vec![format!("    args: [{}]{comment}", args.join(", "))]);
                }
                None => {}
            }
            if server.args_first {
                members.reverse();
            }
            lines.extend(members.concat());
            if !server.env.is_empty() {
                lines.push("    env:".to_owned());
                lines.extend(pairs("      "));
            }
        }
        self.whole(lines.join(self.line_end))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn json_is_what_it_was(servers in servers(), layout in layout()) {
        round_trip(&Desk::new("a.json", layout.json(&servers).as_bytes()));
    }

    #[test]
    fn toml_is_what_it_was(servers in servers(), layout in layout()) {
        round_trip(&Desk::new("a.toml", layout.toml(&servers).as_bytes()));
    }

    #[test]
    fn yaml_is_what_it_was(servers in servers(), layout in layout()) {
        round_trip(&Desk::new("a.yaml", layout.yaml(&servers).as_bytes()));
    }

    #[test]
    fn no_text_at_all_does_harm(text in any::<String>(), ending in prop_oneof![Just("json"), Just("toml"), Just("yaml"), Just("x")]) {
        let desk = Desk::new(&format!("a.{ending}"), text.as_bytes());
        desk.try_wire();
        prop_assert!(desk.text() == text.as_bytes());
    }

    #[test]
    fn no_cut_or_changed_file_does_harm(servers in servers(), layout in layout(), at in any::<prop::sample::Index>(), byte in any::<Option<char>>()) {
        for (name, text) in [("a.json", layout.json(&servers)), ("a.toml", layout.toml(&servers)), ("a.yaml", layout.yaml(&servers))] {
            let characters: Vec<char> = text.chars().collect();
            let at = at.index(characters.len());
            let text: String = match byte {
                None => characters[..at].iter().collect(),
                Some(byte) => characters[..at].iter().chain([&byte]).chain(&characters[at + 1..]).collect(),
            };
            let desk = Desk::new(name, text.as_bytes());
            desk.try_wire();
            if desk.text() != text.as_bytes() {
                desk.unwire(&[]);
                prop_assert_eq!(String::from_utf8(desk.text()).unwrap(), text);
            }
        }
    }
}
