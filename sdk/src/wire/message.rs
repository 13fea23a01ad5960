//! Reading and writing JSON-RPC 2.0 envelopes without touching what is inside.
//!
//! Only the outermost level of a message is looked at; whatever is nested stays a slice of the text that came, skipped
//! without recursion, whatever its depth.
//!
//! Invariant: two readers that disagree about a text (a member given twice) are never given the chance: such an
//! envelope is refused, not resolved.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;

use crate::wire::error::ServerError;
use crate::wire::scan::{Malformed, Scanner};

/// The longest id that we send back in an answer; a server's request with a longer one is ignored, a client's refused.
pub const MAX_REQUEST_ID_BYTES: usize = 1_024;

/// One message from a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// An answer.
    Response {
        /// The id's JSON text: `1`, `1.0` and `"1"` are three different ids.
        id: &'a str,
        /// What was answered.
        answer: Answer<'a>,
    },
    /// The server asks us.
    Request {
        /// The id's JSON text.
        id: &'a str,
        /// The method.
        method: Cow<'a, str>,
    },
    /// The server tells us.
    Notification {
        /// The method.
        method: Cow<'a, str>,
    },
    /// An array of messages. We send none, so none is an answer to us.
    Batch,
    /// Meant as an answer, but no reader could be sure what it says.
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// No JSON-RPC at all.
    Noise,
}

/// What a response says.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The result's JSON text.
    Result(&'a str),
    /// The error.
    Error(ServerError),
}

/// Says what kind of message `text` is.
pub fn read(text: &str) -> Message<'_> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    if text.starts_with('[') {
        return match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Message::Batch,
            Err(_) => Message::Noise,
        };
    }
    let [jsonrpc, id, method, result, error] =
        match members(text, ["jsonrpc", "id", "method", "result", "error"]) {
            Ok(found) => found,
            Err(MembersError::Twice(name)) => {
                return Message::Unusable {
                    reason: format!("it has two members `{name}`"),
                };
            }
            Err(_) => return Message::Noise,
        };
    if jsonrpc.and_then(string).as_deref() != Some("2.0") {
        return Message::Noise;
    }
    match (method.and_then(string), id, result, error) {
        (Some(method), None, None, None) => Message::Notification { method },
        (Some(method), Some(id), None, None) if id.len() <= MAX_REQUEST_ID_BYTES => {
            Message::Request { id, method }
        }
        (None, Some(_), Some(_), Some(_)) => Message::Unusable {
            reason: "it has both a result and an error".to_owned(),
        },
        (None, Some(id), Some(result), None) => Message::Response {
            id,
            answer: Answer::Result(result),
        },
        (None, id, None, Some(error)) => match server_error(error) {
            Some(error) => Message::Response {
                id: id.unwrap_or("null"),
                answer: Answer::Error(error),
            },
            None => Message::Unusable {
                reason: "its error is no object".to_owned(),
            },
        },
        _ => Message::Noise,
    }
}

fn server_error(text: &str) -> Option<ServerError> {
    let [code, message, data] = members(text, ["code", "message", "data"]).ok()?;
    Some(ServerError {
        code: code.and_then(|code| code.parse().ok()),
        message: message.and_then(string).map(Cow::into_owned).unwrap_or_default(),
        data: data.map(str::to_owned),
    })
}

/// Why the members of a text could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// The text is no JSON object.
    #[error("it is no object")]
    NoObject,
    /// One of the members asked for is there twice.
    #[error("it has two members `{0}`")]
    Twice(&'static str),
    /// A member is spelt as one of those asked for but for upper and lower case; readers in some languages take it for that
    /// one.
    #[error("it has a member that differs from `{0}` only in upper and lower case")]
    Lookalike(&'static str),
}

/// The JSON text of these members of an object; the others, and all that is nested, are skipped.
pub fn members<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
) -> Result<[Option<&'a str>; N], MembersError> {
    let Found { members, flaw } = find(text, names, Spelling::Exact);
    flaw.map_or(Ok(members), Err)
}

/// Like [`members`], and refuses a member that only some readers would take for one of these.
pub fn clear_members<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
) -> Result<[Option<&'a str>; N], MembersError> {
    let Found { members, flaw } = find(text, names, Spelling::Clear);
    flaw.map_or(Ok(members), Err)
}

/// The outermost members of one message, for whoever passes it on and must be sure what its receiver will read. Each is a
/// slice of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// `id`.
    pub id: Option<&'a str>,
    /// `method`.
    pub method: Option<&'a str>,
    /// `params`.
    pub params: Option<&'a str>,
    /// `result`.
    pub result: Option<&'a str>,
    /// `error`.
    pub error: Option<&'a str>,
    /// Why two readers could take the message differently; the members are then those met first. A text that is no JSON
    /// object has no members.
    pub flaw: Option<MembersError>,
}

/// Reads the envelope of a message.
pub fn envelope(text: &str) -> Envelope<'_> {
    let names = ["jsonrpc", "id", "method", "params", "result", "error"];
    let Found { members, flaw } = find(text, names, Spelling::Clear);
    let [_, id, method, params, result, error] = members;
    Envelope {
        id,
        method,
        params,
        result,
        error,
        flaw,
    }
}

/// The id of a message that can't be read to its end (`NaN` in a result is a common one), where it stands before what is
/// broken: whoever asked can be told.
pub fn id_before_damage(text: &str) -> Option<&str> {
    let mut id = None;
    let mut object = Scanner::object(text).ok()?;
    while let Ok(Some(name)) = object.name()
        && let Ok(value) = object.value()
    {
        if string(name).as_deref() == Some("id") {
            id = Some(value);
        }
    }
    id
}

/// Whether a reader that ends a line at a carriage return too would find a message of its own inside this one. In JSON the
/// character stands between values only, so that whole pieces can be valid by themselves.
pub fn hides_a_message(text: &str) -> bool {
    let is_message = |piece: &str| {
        let found = envelope(piece);
        found.method.is_some()
            || found.result.is_some()
            || found.error.is_some()
            || found.flaw.is_some_and(|flaw| flaw != MembersError::NoObject)
    };
    if memchr::memchr(b'\r', text.as_bytes()).is_none() {
        return false;
    }
    text.split('\r').any(|piece| match elements(piece, usize::MAX) {
        Some(batch) => batch.texts.into_iter().any(is_message),
        None => is_message(piece),
    })
}

struct Found<'a, const N: usize> {
    members: [Option<&'a str>; N],
    flaw: Option<MembersError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// Other spellings are other members.
    Exact,
    /// Other spellings are a flaw.
    Clear,
}

fn find<'a, const N: usize>(text: &'a str, names: [&'static str; N], spelling: Spelling) -> Found<'a, N> {
    let mut found = Found {
        members: [None; N],
        flaw: None,
    };
    if read_members(text, names, spelling, &mut found).is_err() {
        found.members = [None; N];
        found.flaw.get_or_insert(MembersError::NoObject);
    }
    found
}

fn read_members<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
    spelling: Spelling,
    found: &mut Found<'a, N>,
) -> Result<(), Malformed> {
    let mut object = Scanner::object(text)?;
    while let Some(name) = object.name()? {
        // Between its quotes: no name that is asked for needs an escape, so most are found as they stand.
        let raw = name.get(1..name.len() - 1).unwrap_or_default();
        let mut place = names.iter().position(|asked| *asked == raw);
        let name = match place {
            Some(_) => Cow::Borrowed(raw),
            None => string(name).ok_or(Malformed)?,
        };
        if place.is_none() && name != raw {
            place = names.iter().position(|asked| *asked == name);
        }
        let Some(place) = place else {
            if spelling == Spelling::Clear
                && let Some(asked) = names.iter().find(|asked| is_lookalike(&name, asked))
            {
                found.flaw.get_or_insert(MembersError::Lookalike(asked));
            }
            object.value()?;
            continue;
        };
        let value = object.value()?;
        match found.members[place] {
            None => found.members[place] = Some(value),
            Some(_) => {
                found.flaw.get_or_insert(MembersError::Twice(names[place]));
            }
        }
    }
    Ok(())
}

/// Whether a reader that ignores case would take `key` for `name`, which is of ASCII. Unicode folds two letters beyond
/// ASCII to ASCII ones, and Go's reader does so too.
pub(super) fn is_lookalike(key: &str, name: &str) -> bool {
    let fold = |character: char| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    // Either letter takes more bytes than what it folds to.
    key.len() >= name.len() && key.chars().map(fold).eq(name.chars().map(fold))
}

/// Where the members of an object stand in its text, each from its name's quote to its value's end; `None` when the text
/// is no object.
pub fn member_spans(text: &str) -> Option<Vec<MemberSpan<'_>>> {
    let mut object = Scanner::object(text).ok()?;
    let mut spans = Vec::new();
    while let Some(name) = object.name().ok()? {
        let value = object.value().ok()?;
        let span = place(text, name).start..place(text, value).end;
        spans.push(MemberSpan { name, span });
    }
    Some(spans)
}

/// One member of an object, by its place in the text.
#[derive(Debug, PartialEq, Eq)]
pub struct MemberSpan<'a> {
    /// The name's JSON text.
    pub name: &'a str,
    /// The whole member.
    pub span: Range<usize>,
}

/// Where a slice stands in the text that it is a slice of.
pub(crate) fn place(text: &str, slice: &str) -> Range<usize> {
    let start = slice.as_ptr().addr() - text.as_ptr().addr();
    start..start + slice.len()
}

/// The elements of a JSON array as slices of its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    /// The first ones, up to the limit asked for.
    pub texts: Vec<&'a str>,
    /// How many there are.
    pub total: usize,
}

/// The first `limit` elements of an array, and how many there are; `None` when the text is no array.
pub fn elements(text: &str, limit: usize) -> Option<Elements<'_>> {
    let mut array = Scanner::array(text).ok()?;
    let mut texts = Vec::new();
    let mut total = 0;
    while let Some(element) = array.element().ok()? {
        total += 1;
        if total <= limit {
            texts.push(element);
        }
    }
    Some(Elements { texts, total })
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The items as sent, at most as many as asked for.
    pub items: Vec<&'a str>,
    /// How many the page has.
    pub total: usize,
    /// The cursor of the next page: the JSON text of a string.
    pub next_cursor: Option<&'a str>,
}

/// Reads the result of a list request. `list` is the member that holds the items (`tools`, …).
pub fn page<'a>(result: &'a str, list: &'static str, limit: usize) -> Result<Page<'a>, String> {
    let [items, next_cursor, kind] =
        members(result, [list, "nextCursor", "resultType"]).map_err(|error| error.to_string())?;
    if let Some(kind) = kind.and_then(string).filter(|kind| kind != "complete") {
        return Err(format!("it is not complete but `{kind}`"));
    }
    let items = items.ok_or_else(|| format!("it has no `{list}`"))?;
    let Elements { texts, total } = elements(items, limit).ok_or_else(|| format!("`{list}` is no array"))?;
    let next_cursor = next_cursor.filter(|cursor| *cursor != "null");
    if next_cursor.is_some_and(|cursor| !cursor.starts_with('"')) {
        return Err("`nextCursor` is no string".to_owned());
    }
    Ok(Page {
        items: texts,
        total,
        next_cursor,
    })
}

/// The string that a JSON text is; `None` for any other value, and for half a surrogate pair.
pub fn string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let is_special = |byte: &u8| matches!(*byte, b'\\' | b'"');
    let has_special = match inner.len() {
        // Most are a few letters, over before a search that works by the word has started.
        0..32 => inner.as_bytes().iter().any(is_special),
        _ => memchr::memchr2(b'\\', b'"', inner.as_bytes()).is_some(),
    };
    if has_special {
        serde_json::from_str::<String>(text).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// A request's text. `params` is the JSON text of an object.
pub fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A request's text under an id that is a string of ours (no character of it needs an escape).
pub fn named_request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#)
}

/// The answer to a request. `id` and `result` are JSON texts.
pub fn answer(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The answer to a request that failed. `id` and `error` are JSON texts.
pub fn error_answer(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// A notification's text. `params` is the JSON text of an object, or empty for none.
pub fn notification(method: &str, params: &str) -> String {
    if params.is_empty() {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
    } else {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
    }
}

/// The answer to a server's ping. `id` is the JSON text of its id.
pub fn pong(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

/// The refusal of any other request of a server.
pub fn refusal(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"this client only lists and declares no capabilities"}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(format!("{:?}", read(text)), expected, "{text}");
    }

    #[test]
    fn the_kinds_of_message_are_told_apart() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{"a" : 1}}"#,
            r#"Response { id: "1", answer: Result("{\"a\" : 1}") }"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":"x","result":null}"#,
            r#"Response { id: "\"x\"", answer: Result("null") }"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no\u00e9","data":[1]}}"#,
            r#"Response { id: "1", answer: Error(ServerError { code: Some(-32601), message: "noé", data: Some("[1]") }) }"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            r#"Request { id: "7", method: "ping" }"#,
        );
        check(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
            r#"Notification { method: "notifications/message" }"#,
        );
        check(r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, "Batch");
    }

    #[test]
    fn a_member_that_some_readers_take_for_another_is_a_flaw() {
        fn check(text: &str, expected: MembersError) {
            assert_eq!(envelope(text).flaw, Some(expected), "{text}");
        }
        check(r#"{"id":1,"ID":2}"#, MembersError::Lookalike("id"));
        check(r#"{"Method":"x"}"#, MembersError::Lookalike("method"));
        check("{\"param\u{17f}\":1}", MembersError::Lookalike("params"));
        check(r#"{"re\u017fult":1}"#, MembersError::Lookalike("result"));
        check(r#"{"id":1,"\u0069d":2}"#, MembersError::Twice("id"));
        check("[]", MembersError::NoObject);
        check(r#"{"id":1} x"#, MembersError::NoObject);
        let found = envelope(r#"{"ids":1,"metho":2,"\u0130d":3,"id":4,"params":{"ID":5,"id":6,"id":7}}"#);
        assert_eq!((found.flaw, found.id), (None, Some("4")));
        assert_eq!(clear_members(r#"{"kelvin":1}"#, ["kelvin"]), Ok([Some("1")]));
        let kelvin = "{\"\u{212a}elvin\":1}";
        assert_eq!(
            clear_members(kelvin, ["kelvin"]),
            Err(MembersError::Lookalike("kelvin"))
        );
    }

    #[test]
    fn a_message_between_carriage_returns_is_found() {
        for text in [
            "{\"a\":\r{\"method\":\"x\"}\r}",
            "[\r{\"result\":1}\r]",
            "{\"a\":\r[1,{\"error\":1}]\r}",
            "{\"a\":\r{\"Method\":1}\r}",
            "x\r{\"id\":1,\"id\":2}",
        ] {
            assert!(hides_a_message(text), "{text:?}");
        }
        for text in [
            "{\"method\":\"x\"}",
            "{\r\"method\":\"x\"\r}",
            "{\"a\":\r{\r\"b\":1\r}\r}",
            "{\"a\":\r{}\r}",
            "{\"a\":\r[1,2]\r}",
        ] {
            assert!(!hides_a_message(text), "{text:?}");
        }
    }

    #[test]
    fn members_are_found_by_their_place() {
        let text = r#" { "a" : 1 , "\u0062":{"c":[2]} } "#;
        let spans = member_spans(text).unwrap();
        let texts: Vec<&str> = spans.iter().map(|member| &text[member.span.clone()]).collect();
        assert_eq!(texts, [r#""a" : 1"#, r#""\u0062":{"c":[2]}"#]);
        assert_eq!(spans[1].name, r#""\u0062""#);
        assert_eq!(member_spans("[1]"), None);
    }

    #[test]
    fn ids_keep_their_type_and_spelling() {
        for id in ["1", "1.0", "1e0", "\"1\"", "null", "{}"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id": {id} ,"result":{{}}}}"#);
            assert_eq!(
                read(&text),
                Message::Response {
                    id,
                    answer: Answer::Result("{}")
                }
            );
        }
    }

    #[test]
    fn an_answer_that_two_readers_would_take_differently_is_refused() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            r#"Unusable { reason: "it has both a result and an error" }"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{"tools":[]}}"#,
            r#"Unusable { reason: "it has two members `result`" }"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"result":{}}"#,
            r#"Unusable { reason: "it has two members `id`" }"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
            r#"Unusable { reason: "its error is no object" }"#,
        );
    }

    #[test]
    fn whatever_else_is_noise() {
        for text in [
            "",
            "Listening on stdio",
            "{",
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"level":"info","id":1,"result":"ok"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}} and more"#,
            "[1",
            "3",
            "null",
        ] {
            check(text, "Noise");
        }
    }

    #[test]
    fn a_request_with_an_endless_id_is_noise() {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#,
            "x".repeat(2_000)
        );
        check(&text, "Noise");
    }

    #[test]
    fn depth_is_no_problem() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"extra":{deep},"result":{{"tools":[{deep}]}}}}"#);
        let Message::Response {
            answer: Answer::Result(result),
            ..
        } = read(&text)
        else {
            panic!("not read as a response");
        };
        let page = page(result, "tools", 10).unwrap();
        assert_eq!(page.items, [deep.as_str()]);
        assert_eq!(read(&deep), Message::Batch);
    }

    #[test]
    fn items_are_the_servers_text_to_the_byte() {
        let result = r#"{"tools":[ {"name" : "a","name":"b"}, "\ud800" ,3 ],"nextCursor":"c\u0041"}"#;
        assert_eq!(
            page(result, "tools", 10).unwrap(),
            Page {
                items: vec![r#"{"name" : "a","name":"b"}"#, r#""\ud800""#, "3"],
                total: 3,
                next_cursor: Some(r#""c\u0041""#)
            }
        );
    }

    #[test]
    fn items_beyond_the_limit_are_counted_and_not_kept() {
        let found = page(r#"{"tools":[1,2,3,4]}"#, "tools", 2).unwrap();
        assert_eq!((found.items, found.total), (vec!["1", "2"], 4));
    }

    #[test]
    fn a_page_that_is_none_says_why() {
        fn check(result: &str, expected: &str) {
            assert_eq!(page(result, "tools", 10).unwrap_err(), expected);
        }
        check("{}", "it has no `tools`");
        check(r#"{"tools":{}}"#, "`tools` is no array");
        check(r#"{"tools":[],"tools":[1]}"#, "it has two members `tools`");
        check(r#"{"tools":[],"nextCursor":3}"#, "`nextCursor` is no string");
        check(
            r#"{"tools":[],"resultType":"input_required"}"#,
            "it is not complete but `input_required`",
        );
        check("[]", "it is no object");
    }

    #[test]
    fn a_null_cursor_is_none_and_an_empty_one_is_a_cursor() {
        assert_eq!(
            page(r#"{"tools":[],"nextCursor":null}"#, "tools", 1)
                .unwrap()
                .next_cursor,
            None
        );
        assert_eq!(
            page(r#"{"tools":[],"nextCursor":""}"#, "tools", 1)
                .unwrap()
                .next_cursor,
            Some("\"\"")
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange_to_be_told_apart(text in r#"[\[\]{}:,"\\0-9.eutrnl a-e-]{0,60}"#) {
            let _ = read(&text);
            let _ = read(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#));
        }

        #[test]
        fn a_member_is_found_with_the_text_it_has(
            names in proptest::collection::vec("[a-d]{1,2}", 0..8),
            value in r#"("[a-z\\]{0,4}x"|[1-9][0-9]{0,20}|\[1, \[2\]\]|\{"a":1,"a":2\})"#,
        ) {
            let value = value.replace('\\', "\\\\");
            let members_text: Vec<_> = names.iter().map(|name| format!(r#" "{name}" : {value} "#)).collect();
            let text = format!("{{{}}}", members_text.join(","));
            let expected = match names.iter().filter(|name| *name == "a").count() {
                0 => Ok([None]),
                1 => Ok([Some(value.as_str())]),
                _ => Err(MembersError::Twice("a")),
            };
            proptest::prop_assert_eq!(members(&text, ["a"]), expected);
        }
    }
}
