//! The one exception to exact bytes: a value that we handed the server and that it echoes is replaced by its name.
//!
//! Without this a listing would carry a secret into every store and page, and would differ from one person to the next.
//! Only string literals are touched, each as a whole: what they say is searched, not how they are escaped.
//!
//! Invariant: a text in which nothing was found comes back unchanged to the byte, and a replaced JSON text is still JSON.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use secrecy::{ExposeSecret, SecretString};

use crate::wire::message;

/// Values shorter than this are too common to be told from ordinary text.
const SHORTEST: usize = 6;

/// Replaces values by names.
#[derive(Default)]
pub(super) struct Redactor {
    /// Longest value first, so that one value inside another can't leave a rest behind.
    values: Vec<(String, SecretString)>,
    met: Mutex<Vec<String>>,
}

impl Redactor {
    /// For the variables handed to a process: `{env:NAME}`.
    pub(super) fn for_env(env: &[(String, SecretString)]) -> Redactor {
        Redactor::new(
            env.iter()
                .map(|(name, value)| (format!("{{env:{name}}}"), value.clone())),
        )
    }

    /// For the headers sent to a remote server: `{header:NAME}`, the credential after a scheme too.
    pub(super) fn for_headers(headers: &[(String, SecretString)]) -> Redactor {
        Redactor::new(headers.iter().flat_map(|(name, value)| {
            let name = format!("{{header:{name}}}");
            let credential = value
                .expose_secret()
                .split_once(' ')
                .map(|(_, credential)| credential.trim().to_owned());
            credential
                .map(|credential| (name.clone(), SecretString::from(credential)))
                .into_iter()
                .chain([(name.clone(), value.clone())])
        }))
    }

    fn new(values: impl Iterator<Item = (String, SecretString)>) -> Redactor {
        // A value of several lines may come back a line at a time.
        let lines = values.flat_map(|(name, value)| {
            let lines: Vec<_> = value
                .expose_secret()
                .lines()
                .filter(|line| line.len() < value.expose_secret().len())
                .map(|line| (name.clone(), SecretString::from(line)))
                .collect();
            lines.into_iter().chain([(name, value)])
        });
        let mut values: Vec<_> = lines
            .filter(|(_, value)| value.expose_secret().len() >= SHORTEST)
            .collect();
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.expose_secret().len()));
        Redactor {
            values,
            met: Mutex::default(),
        }
    }

    /// The names whose values were met, each once.
    pub(super) fn met(&self) -> Vec<String> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Plain text without the values.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for (name, value) in &self.values {
            if clean.contains(value.expose_secret()) {
                clean = Cow::Owned(clean.replace(value.expose_secret(), name));
                self.note(name);
            }
        }
        clean
    }

    /// JSON text whose strings are without the values.
    pub(super) fn json(&self, json: String) -> String {
        if self.values.is_empty() {
            return json;
        }
        let mut clean = String::new();
        let mut copied = 0;
        for (start, end) in string_literals(&json) {
            if let Some(literal) = self.literal(&json[start..end]) {
                clean.push_str(&json[copied..start]);
                clean.push_str(&literal);
                copied = end;
            }
        }
        if copied == 0 {
            return json;
        }
        clean.push_str(&json[copied..]);
        clean
    }

    /// The new literal, when the old one says a value.
    fn literal(&self, literal: &str) -> Option<String> {
        match message::string(literal) {
            Some(said) => match self.text(&said) {
                Cow::Borrowed(_) => None,
                Cow::Owned(clean) => Some(serde_json::Value::String(clean).to_string()),
            },
            // Half a surrogate pair: no string of ours, so the literal is searched as it stands.
            None => match self.text(literal) {
                Cow::Borrowed(_) => None,
                Cow::Owned(clean) => Some(clean),
            },
        }
    }

    fn note(&self, name: &str) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if !met.iter().any(|known| known == name) {
            met.push(name.to_owned());
        }
    }
}

/// Where the string literals of a JSON text are, quotes included.
fn string_literals(json: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + bytes[at..].iter().position(|byte| *byte == b'"')?;
        let mut end = start + 1;
        while *bytes.get(end)? != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        at = end + 1;
        Some((start, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(env: &[(&str, &str)]) -> Redactor {
        let env: Vec<_> = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), SecretString::from(*value)))
            .collect();
        Redactor::for_env(&env)
    }

    fn check(env: &[(&str, &str)], json: &str, expected: &str) {
        assert_eq!(redactor(env).json(json.to_owned()), expected);
    }

    #[test]
    fn an_echoed_value_becomes_its_name_and_all_else_stays_to_the_byte() {
        check(
            &[("TOKEN", "canary-1")],
            r#"{ "a" : "uses canary-1!", "n": 1.0, "b":"caf\u00e9" }"#,
            r#"{ "a" : "uses {env:TOKEN}!", "n": 1.0, "b":"caf\u00e9" }"#,
        );
    }

    #[test]
    fn escapes_do_not_hide_a_value() {
        check(
            &[("TOKEN", "a/b\"c\u{e9}d")],
            r#"["x\u0061\/b\"c\u00e9d\\"]"#,
            r#"["x{env:TOKEN}\\"]"#,
        );
    }

    #[test]
    fn a_member_name_can_echo_too() {
        check(
            &[("TOKEN", "canary-1")],
            r#"{"canary-1":1}"#,
            r#"{"{env:TOKEN}":1}"#,
        );
    }

    #[test]
    fn numbers_and_short_values_are_left_alone() {
        check(
            &[("PORT", "123456"), ("LEVEL", "debug")],
            r#"[123456,"debug"]"#,
            r#"[123456,"debug"]"#,
        );
    }

    #[test]
    fn a_value_inside_another_leaves_no_rest() {
        check(
            &[("A", "secret"), ("B", "secret-longer")],
            r#"["secret-longer"]"#,
            r#"["{env:B}"]"#,
        );
    }

    #[test]
    fn half_a_surrogate_pair_does_not_shield_a_value() {
        check(
            &[("A", "secret")],
            r#"["\ud800 secret"]"#,
            r#"["\ud800 {env:A}"]"#,
        );
    }

    #[test]
    fn one_line_of_a_value_of_many_is_known_too() {
        let redactor = redactor(&[("KEY", "-----BEGIN-----\nabcdef\nxyz\n")]);
        assert_eq!(redactor.text("got abcdef"), "got {env:KEY}");
        assert_eq!(
            redactor.text("got xyz"),
            "got xyz",
            "too short to be told from other text"
        );
        assert_eq!(redactor.text("-----BEGIN-----\nabcdef\nxyz\n!"), "{env:KEY}!");
    }

    #[test]
    fn the_credential_of_a_header_is_known_without_its_scheme() {
        let headers = [("Authorization".to_owned(), SecretString::from("Bearer abcdef123"))];
        let redactor = Redactor::for_headers(&headers);
        assert_eq!(
            redactor.text("bad token abcdef123"),
            "bad token {header:Authorization}"
        );
        assert_eq!(redactor.met(), ["{header:Authorization}"]);
    }

    proptest::proptest! {
        #[test]
        fn no_string_says_the_value_afterwards_and_the_text_is_still_json(
            before in ".{0,10}",
            after in ".{0,10}",
            value in "[a-z\"\\\\/\u{e9}\u{1f389}]{6,12}",
        ) {
            let said = serde_json::Value::from(format!("{before}{value}{after}"));
            let json = serde_json::json!({"name": said, "nested": [said, 1]}).to_string();
            let clean = redactor(&[("A", &value)]).json(json);
            let clean: serde_json::Value = serde_json::from_str(&clean).unwrap();
            proptest::prop_assert!(!clean["name"].as_str().unwrap().contains(&value));
            let name = "{env:A}";
            proptest::prop_assert!(clean["nested"][0].as_str().unwrap().contains(name));
        }
    }
}
