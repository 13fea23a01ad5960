//! What a message says in its headers: from 2026-07-28 on a POST names its version, its method, what it is about
//! (`Mcp-Name`) and those arguments that a tool's schema marks with `x-mcp-header` (`Mcp-Param-*`).
//!
//! Invariant: a header says what the body says, read from the same bytes.

use std::borrow::Cow;
use std::collections::HashMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::wire::http::{METHOD, VERSION};
use crate::wire::message::{elements, members, string};

const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The mark in a schema.
const MARK: &str = "x-mcp-header";

/// How deep a marked property may lie.
const MAX_DEPTH: usize = 32;

/// Tools of one listing that are looked at.
const MAX_TOOLS: usize = 20_000;

/// A message's outermost members, as far as a transport has to know them.
#[derive(Debug, Default)]
pub(crate) struct Posting<'a> {
    /// The id's JSON text.
    pub(crate) id: Option<&'a str>,
    pub(crate) method: Option<Cow<'a, str>>,
    params: Option<&'a str>,
}

impl<'a> Posting<'a> {
    /// Of a text that is no JSON object nothing is known.
    pub(crate) fn read(message: &'a [u8]) -> Posting<'a> {
        let Some([id, method, params]) = std::str::from_utf8(message)
            .ok()
            .and_then(|text| members(text, ["id", "method", "params"]).ok())
        else {
            return Posting::default();
        };
        Posting {
            id,
            method: method.and_then(string),
            params,
        }
    }

    /// Whether an answer is due.
    pub(crate) fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// The version that a message of the new era names in itself.
    pub(crate) fn modern_version(&self) -> Option<Cow<'a, str>> {
        let [meta] = members(self.params?, ["_meta"]).ok()?;
        let [version] = members(meta?, ["io.modelcontextprotocol/protocolVersion"]).ok()?;
        version.and_then(string)
    }

    /// Who says it is asking, in the new era: the JSON text.
    pub(crate) fn client_info(&self) -> Option<&'a str> {
        let [meta] = members(self.params?, ["_meta"]).ok()?;
        members(meta?, ["io.modelcontextprotocol/clientInfo"]).ok()?[0]
    }

    /// The id's JSON text of the request that a cancellation is about.
    pub(crate) fn cancelled(&self) -> Option<&'a str> {
        members(self.params?, ["requestId"]).ok()?[0]
    }

    fn parameter(&self, name: &'static str) -> Option<Cow<'a, str>> {
        members(self.params?, [name]).ok()?[0].and_then(string)
    }

    /// The headers of the new era for this message.
    pub(crate) fn modern_headers(&self, version: &str, marked: &MarkedArguments) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut say = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(&fit_for_a_header(value)) {
                headers.insert(name, value);
            }
        };
        say(VERSION, version);
        let Some(method) = self.method.as_deref() else {
            return headers;
        };
        say(METHOD, method);
        let about = match method {
            "tools/call" | "prompts/get" => self.parameter("name"),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => self.parameter("uri"),
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.parameter("taskId"),
            _ => None,
        };
        if let Some(about) = about {
            say(NAME, &about);
            if method == "tools/call"
                && let Some(marks) = marked.tools.get(&*about)
                && let Some(params) = self.params
                && let Ok([Some(arguments)]) = members(params, ["arguments"])
                && let Ok(arguments) = serde_json::from_str::<Value>(arguments)
            {
                for mark in marks {
                    if let Some(value) = mark.value(&arguments) {
                        say(mark.header.clone(), &value);
                    }
                }
            }
        }
        headers
    }
}

/// Makes a client's own headers say what its body says where either speaks of a call: a server that believes them would
/// else run another tool than the one that was judged. A client that says none of it is left without, and any other
/// difference is the server's to refuse.
pub(crate) fn mend(headers: &mut HeaderMap, posting: &Posting<'_>) {
    let is_call = |method: &HeaderValue| method.as_bytes() == b"tools/call";
    if !posting.is("tools/call") && !headers.get_all(METHOD).iter().any(is_call) {
        return;
    }
    let meant = posting.modern_headers("", &MarkedArguments::default());
    for name in [METHOD, NAME] {
        if !headers.contains_key(&name) {
            continue;
        }
        match meant.get(&name) {
            Some(value) => headers.insert(name, value.clone()),
            None => headers.remove(name),
        };
    }
}

/// The arguments that tools want mirrored, from the listings that went by.
#[derive(Debug, Default)]
pub(crate) struct MarkedArguments {
    tools: HashMap<String, Vec<Mark>>,
}

#[derive(Debug)]
struct Mark {
    path: Vec<String>,
    header: HeaderName,
}

impl Mark {
    fn value(&self, arguments: &Value) -> Option<String> {
        let found = self
            .path
            .iter()
            .try_fold(arguments, |value, step| value.get(step))?;
        match found {
            Value::String(text) => Some(text.clone()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(number) => match number.as_f64() {
                // An integer however it is spelled: `42.0` is 42.
                Some(float)
                    if !number.is_i64() && !number.is_u64() && float.fract() == 0.0 && float.abs() < 9e15 =>
                {
                    Some(format!("{float:.0}"))
                }
                _ => Some(number.to_string()),
            },
            _ => None,
        }
    }
}

impl MarkedArguments {
    /// Takes in the answer to a `tools/list`: one whole message.
    pub(crate) fn learn(&mut self, answer: &[u8]) {
        let Ok(text) = std::str::from_utf8(answer) else {
            return;
        };
        let tools = members(text, ["result"])
            .ok()
            .and_then(|[result]| members(result?, ["tools"]).ok())
            .and_then(|[tools]| elements(tools?, MAX_TOOLS));
        for tool in tools.map(|tools| tools.texts).unwrap_or_default() {
            let Ok([Some(name), schema]) = members(tool, ["name", "inputSchema"]) else {
                continue;
            };
            let Some(name) = string(name) else { continue };
            let marks = schema
                .filter(|schema| schema.contains(MARK))
                .and_then(|schema| serde_json::from_str(schema).ok())
                .map(|schema| marks(&schema))
                .unwrap_or_default();
            if marks.is_empty() {
                self.tools.remove(&*name);
            } else if self.tools.len() < MAX_TOOLS {
                self.tools.insert(name.into_owned(), marks);
            }
        }
    }
}

/// The marks of a schema; none when two of them claim one header, which no server can want.
fn marks(schema: &Value) -> Vec<Mark> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    let unique: std::collections::HashSet<_> = found.iter().map(|mark| &mark.header).collect();
    if unique.len() < found.len() {
        return Vec::new();
    }
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mark>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    if path.len() >= MAX_DEPTH {
        return;
    }
    for (name, schema) in properties {
        path.push(name.clone());
        let is_primitive = matches!(
            schema.get("type").and_then(Value::as_str),
            Some("string" | "integer" | "boolean")
        );
        if let Some(mark) = schema.get(MARK).and_then(Value::as_str)
            && is_primitive
            && !mark.is_empty()
            && let Ok(header) = HeaderName::from_bytes(format!("mcp-param-{mark}").as_bytes())
        {
            found.push(Mark {
                path: path.clone(),
                header,
            });
        }
        collect(schema, path, found);
        path.pop();
    }
}

/// As it is where a header can carry it, else `=?base64?…?=`.
fn fit_for_a_header(value: &str) -> Cow<'_, str> {
    let is_wrapped = value.starts_with("=?base64?") && value.ends_with("?=");
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value;
    if is_plain && !is_wrapped {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("=?base64?{}?=", base64(value.as_bytes())))
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = 0_u32;
        for place in 0..3 {
            bits = bits << 8 | u32::from(group.get(place).copied().unwrap_or(0));
        }
        for place in 0..4 {
            let six = (bits >> (18 - 6 * place) & 63) as usize;
            let digit = ALPHABET.get(six).copied().filter(|_| place <= group.len());
            text.push(digit.map_or('=', char::from));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

    fn check(message: &str, listing: &str, expected: &[(&str, &str)]) {
        let mut marked = MarkedArguments::default();
        marked.learn(listing.as_bytes());
        let headers = Posting::read(message.as_bytes()).modern_headers("2026-07-28", &marked);
        let mut found: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .filter(|(name, _)| *name != "mcp-protocol-version")
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{message}");
    }

    fn call(name: &str, arguments: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{name},"arguments":{arguments},{VERSION_META}}}}}"#
        )
    }

    #[test]
    fn a_request_names_its_method_and_what_it_is_about() {
        check(
            &call(r#""get""#, "{}"),
            "",
            &[("mcp-method", "tools/call"), ("mcp-name", "get")],
        );
        check(
            r#"{"id":1,"method":"resources/read","params":{"uri":"note:///1"}}"#,
            "",
            &[("mcp-method", "resources/read"), ("mcp-name", "note:///1")],
        );
        check(
            r#"{"id":1,"method":"tools/list","params":{"name":"x"}}"#,
            "",
            &[("mcp-method", "tools/list")],
        );
    }

    #[test]
    fn what_a_header_cannot_carry_is_wrapped() {
        for (value, expected) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(fit_for_a_header(value), expected);
        }
    }

    #[test]
    fn marked_arguments_are_mirrored_where_they_are_given() {
        let listing = r#"{"id":9,"result":{"tools":[{"name":"sql","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},"row":{"type":"integer","x-mcp-header":"Row"},
            "ratio":{"type":"number","x-mcp-header":"Ratio"},"bad":{"type":"string","x-mcp-header":"a b"},
            "to":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry"}}}}}}]}}"#;
        let arguments = r#"{"region":"é","row":42.0,"ratio":0.5,"bad":"x","to":{"dry":true},"other":1}"#;
        check(
            &call(r#""sql""#, arguments),
            listing,
            &[
                ("mcp-method", "tools/call"),
                ("mcp-name", "sql"),
                ("mcp-param-dry", "true"),
                ("mcp-param-region", "=?base64?w6k=?="),
                ("mcp-param-row", "42"),
            ],
        );
        let none = &[("mcp-method", "tools/call"), ("mcp-name", "sql")];
        check(&call(r#""sql""#, r#"{"region":null}"#), listing, none);
        let twice = r#"{"result":{"tools":[{"name":"sql","inputSchema":{"properties":{
            "a":{"type":"string","x-mcp-header":"X"},"b":{"type":"string","x-mcp-header":"x"}}}}]}}"#;
        check(&call(r#""sql""#, r#"{"a":"1","b":"2"}"#), twice, none);
    }
}
