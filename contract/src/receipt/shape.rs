//! The closed shape of a batch of receipts as one table, and the check of a value against it.
//!
//! The published server's sets are taken over by name. Where only the client's use of a member is known, and not the set that
//! the server takes, the member is a plain word.
//!
//! Invariant: the table is not recursive, so a check goes no deeper than the table does; an object has exactly the members of
//! its row.

use std::fmt::Write as _;

use crate::json::Value;

/// What stands at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The number 1.
    One,
    /// `true` or `false`.
    Bool,
    /// One of these texts.
    Among(&'static [&'static str]),
    /// A text that begins so, and goes on with so many of these letters.
    Text {
        /// What it begins with.
        start: &'static str,
        /// What may follow.
        letters: Letters,
        /// The fewest of them.
        least: usize,
        /// The most of them.
        most: usize,
    },
    /// A date (ten letters), `T`, and up to 32 letters of a time.
    Time,
    /// A list.
    List {
        /// The fewest items.
        least: usize,
        /// The most items.
        most: usize,
        /// What each of them is.
        item: &'static Shape,
    },
    /// An object with these members and no other.
    Object(&'static [Member]),
}

/// A member of an object: its name and what it holds. All of them are required.
pub type Member = (&'static str, Shape);

/// Letters that a text is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// `[0-9a-f]`
    Hex,
    /// `[a-z0-9]`
    Plain,
    /// `[a-z0-9_]`
    Name,
    /// `[a-z0-9_.:-]`
    Word,
}

impl Letters {
    /// As a class of a regular expression.
    pub fn class(self) -> &'static str {
        match self {
            Letters::Hex => "[0-9a-f]",
            Letters::Plain => "[a-z0-9]",
            Letters::Name => "[a-z0-9_]",
            Letters::Word => "[a-z0-9_.:-]",
        }
    }

    fn has(self, byte: u8) -> bool {
        match self {
            Letters::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Letters::Plain => byte.is_ascii_lowercase() || byte.is_ascii_digit(),
            Letters::Name => Letters::Plain.has(byte) || byte == b'_',
            Letters::Word => Letters::Name.has(byte) || b".:-".contains(&byte),
        }
    }
}

const fn text(start: &'static str, letters: Letters, least: usize, most: usize) -> Shape {
    Shape::Text {
        start,
        letters,
        least,
        most,
    }
}

const WORD: Shape = text("", Letters::Word, 1, 64);

const ACTION: Shape = Shape::Among(&[
    "unknown", "delete", "execute", "admin", "auth", "send", "write", "update", "search", "list", "read",
]);

const REFERENCE: [Member; 2] = [("ref_type", WORD), ("ref_id", WORD)];

/// A whole batch.
pub const ENVELOPE: Shape = Shape::Object(&[
    ("v", Shape::One),
    (
        "receipts",
        Shape::List {
            least: 1,
            most: super::MAX_RECEIPTS,
            item: &RECEIPT,
        },
    ),
    ("install_id", text("", Letters::Hex, 32, 32)),
]);

const RECEIPT: Shape = Shape::Object(&[
    ("receipt_id", text("rcpt_", Letters::Plain, 8, 40)),
    ("tool_hash", text("sha256:", Letters::Hex, 64, 64)),
    ("verdict_at_call", Shape::Among(&["ALLOW", "REVIEW", "DENY"])),
    (
        "action_classification",
        Shape::Object(&[
            (
                "action_types",
                Shape::List {
                    least: 1,
                    most: 8,
                    item: &ACTION,
                },
            ),
            ("effective_action_type", ACTION),
            (
                "resource",
                Shape::Object(&[
                    ("kind", text("", Letters::Name, 1, 32)),
                    ("pattern", WORD),
                    ("scope_hint", WORD),
                ]),
            ),
            (
                "side_effect_class",
                Shape::Among(&["none", "local-write", "outbound", "destructive"]),
            ),
            (
                "reversibility",
                Shape::Among(&["reversible", "hard-to-reverse", "irreversible"]),
            ),
            ("egress", Shape::Among(&["none", "internal", "external"])),
            (
                "autonomy_ceiling",
                Shape::Among(&["discovery", "reversible", "needs-approval", "never-unattended"]),
            ),
            ("autonomy_ceiling_basis", Shape::Among(&["static", "calibrated"])),
            (
                "known_risk_notes",
                Shape::List {
                    least: 0,
                    most: 16,
                    item: &Shape::Object(&[
                        ("note_class", WORD),
                        ("severity", WORD),
                        ("source", Shape::Object(&REFERENCE)),
                        ("provenance", Shape::Among(&["curated", "derived"])),
                    ]),
                },
            ),
            (
                "evidence",
                Shape::List {
                    least: 0,
                    most: 16,
                    item: &Shape::Object(&REFERENCE),
                },
            ),
        ]),
    ),
    (
        "run_context",
        Shape::Object(&[
            (
                "autonomy_level",
                Shape::Among(&["discovery", "reversible", "irreversible"]),
            ),
            (
                "task_intent_class",
                Shape::Among(&[
                    "read-summarize",
                    "search-retrieve",
                    "write-update",
                    "send-notify",
                    "code-execute",
                    "admin-ops",
                    "payment-ops",
                    "other",
                ]),
            ),
            ("human_in_loop", Shape::Bool),
            (
                "framework",
                Shape::Among(&[
                    "langchain",
                    "llamaindex",
                    "dspy",
                    "mastra",
                    "composio",
                    "custom",
                    "other",
                ]),
            ),
        ]),
    ),
    (
        "outcome",
        Shape::Object(&[
            ("executed", Shape::Bool),
            (
                "status",
                Shape::Among(&["ok", "error", "denied_by_framework", "rolled_back", "held"]),
            ),
            (
                "side_effect_observed",
                Shape::Among(&["none", "local-write", "outbound", "destructive"]),
            ),
            ("reverted", Shape::Bool),
            (
                "latency_bucket",
                Shape::Among(&["sub-100ms", "100ms-1s", "1-2s", "2-5s", "5s+"]),
            ),
        ]),
    ),
    ("justified", Shape::Among(&["yes", "no", "unclear"])),
    ("ts", Shape::Time),
]);

impl Shape {
    /// Refuses a value of another shape, with its place and what was expected there. `place` is where the value stands, and is
    /// as it was after a value that fits.
    pub(super) fn check(&self, value: &Value, place: &mut String) -> Result<(), (String, String)> {
        let fits = match (self, value) {
            (Shape::One, Value::Number(number)) => number.text() == "1",
            (Shape::Bool, Value::Bool(_)) => true,
            (Shape::Among(texts), Value::String(text)) => texts.contains(&text.as_str()),
            (
                Shape::Text {
                    start,
                    letters,
                    least,
                    most,
                },
                Value::String(text),
            ) => text.strip_prefix(start).is_some_and(|rest| {
                (*least..=*most).contains(&rest.len()) && rest.bytes().all(|byte| letters.has(byte))
            }),
            (Shape::Time, Value::String(text)) => is_time(text.as_bytes()),
            (Shape::List { least, most, item }, Value::Array(items))
                if (*least..=*most).contains(&items.len()) =>
            {
                return items
                    .iter()
                    .enumerate()
                    .try_for_each(|(index, value)| within(place, &format!("[{index}]"), item, value));
            }
            (Shape::Object(members), Value::Object(given)) if given.len() == members.len() => {
                // As many as there must be, none twice: so if each is there, no other is.
                return members.iter().try_for_each(|(name, shape)| {
                    let step = if place.is_empty() {
                        (*name).to_owned()
                    } else {
                        format!(".{name}")
                    };
                    match value.get(name) {
                        Some(value) => within(place, &step, shape, value),
                        None => Err((format!("{place}{step}"), "to be there".to_owned())),
                    }
                });
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let place = if place.is_empty() {
            "the body"
        } else {
            place.as_str()
        };
        Err((place.to_owned(), self.expected()))
    }

    /// In words.
    fn expected(&self) -> String {
        match self {
            Shape::One => "1".to_owned(),
            Shape::Bool => "true or false".to_owned(),
            Shape::Among(texts) => format!("one of `{}`", texts.join("`, `")),
            Shape::Text {
                start,
                letters,
                least,
                most,
            } => {
                let start = if start.is_empty() {
                    String::new()
                } else {
                    format!("`{start}` and ")
                };
                let count = if least == most {
                    least.to_string()
                } else {
                    format!("{least} to {most}")
                };
                format!("{start}{count} of {}", letters.class())
            }
            Shape::Time => "a time such as `2026-11-30T15:00:00Z`".to_owned(),
            Shape::List { least, most, .. } => format!("a list of {least} to {most}"),
            Shape::Object(members) => {
                let mut text = "an object with exactly ".to_owned();
                for (index, (name, _)) in members.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    // Writing to a text can't fail.
                    let _ = write!(text, "{comma}`{name}`");
                }
                text
            }
        }
    }
}

/// Checks a value one step further in.
fn within(place: &mut String, step: &str, shape: &Shape, value: &Value) -> Result<(), (String, String)> {
    let length = place.len();
    place.push_str(step);
    shape.check(value, place)?;
    place.truncate(length);
    Ok(())
}

/// `^\d{4}-\d{2}-\d{2}T[0-9:.+\-Z]{1,32}$`
fn is_time(text: &[u8]) -> bool {
    let Some((date, time)) = text.split_at_checked(11) else {
        return false;
    };
    let dated = date.iter().enumerate().all(|(index, byte)| match index {
        4 | 7 => *byte == b'-',
        10 => *byte == b'T',
        _ => byte.is_ascii_digit(),
    });
    dated
        && (1..=32).contains(&time.len())
        && time
            .iter()
            .all(|byte| byte.is_ascii_digit() || b":.+-Z".contains(byte))
}
