//! Has this tool been vetted? What this machine knows of a server and its tools, without contacting either; below it, what an
//! index that was chosen says (`online`), in the shape that client and server share (`shape`).
//!
//! Pure here: whoever asks reads the record first. What a person has to mend (pins that are gone, altered, not to be read, or
//! of a newer version) needs a person; only pins that can't be had at the moment are worth another try.
//!
//! Invariant: a pin that can't be read is never an answer of "fine", nor is a definition that is held.

pub mod online;
pub mod shape;

use crate::gate::refusal::named;
use crate::pins::{PinsError, Record, ToolPin, Via};

/// One word for all that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A gate lets it through: it is pinned, and nothing of it waits for a person.
    Ready,
    /// Nothing was ever seen of it.
    Unknown,
    /// A person has to decide or to mend something first.
    NeedsPerson,
    /// There is no such server or tool among what is known.
    NoSuch,
    /// It can't be said at the moment.
    TryLater,
}

impl Answer {
    /// For programs: `ready`, `unknown`, `needs-person`, `no-such`, `try-later`.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Ready => "ready",
            Answer::Unknown => "unknown",
            Answer::NeedsPerson => "needs-person",
            Answer::NoSuch => "no-such",
            Answer::TryLater => "try-later",
        }
    }
}

/// The codes of reasons, which stay what they are; each with what it means.
pub const CODES: &[(&str, &str)] = &[
    ("approved", "A person approved exactly this definition."),
    (
        "approved-by-index",
        "The organisation approved exactly this definition, at its index.",
    ),
    (
        "pinned-aged",
        "Let through without a person: an index knows exactly this definition for long, and independent installs see it.",
    ),
    (
        "pinned-first-sight",
        "Pinned when the server was first seen; no person has approved it.",
    ),
    (
        "pinned-new-tool",
        "Pinned as a new tool without review (`--new-tools tofu`).",
    ),
    (
        "pinned-imported",
        "Taken over from the pins of the published client.",
    ),
    (
        "tools-pinned",
        "Every tool that was seen of the server is pinned, and none is held.",
    ),
    (
        "accepted-since",
        "The server declared it differently since, and the gate judged the difference benign.",
    ),
    ("held", "The server declared what nobody has approved yet."),
    ("refused", "A person refused what the server declared."),
    (
        "instructions-held",
        "The server's instructions to the model changed, and nobody has approved them yet.",
    ),
    ("never-seen", "No gate of this machine has seen the server."),
    (
        "no-tool-seen",
        "A gate has seen the server, and no tool of it yet.",
    ),
    ("no-such-server", "No server goes by this name here."),
    ("no-such-tool", "The server never listed a tool of this name."),
    (
        "pins-gone",
        "The server was pinned before, and its pins are gone.",
    ),
    ("pins-unreadable", "The pins can't be read."),
    (
        "pins-altered",
        "The pins were altered by something else than mcpindex.",
    ),
    ("pins-newer", "The pins were written by a newer mcpindex."),
    ("pins-not-saved", "The pins can't be saved at the moment."),
    ("pins-busy", "Another process is at the pins."),
];

/// One reason for the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// One of [`CODES`].
    pub code: &'static str,
    /// One line for people; a name in it is the server's, quoted where it is no plain one.
    pub sentence: String,
}

/// The answer and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// Why; never empty, what decided first.
    pub reasons: Vec<Reason>,
}

/// What is known of a server, or of one of its tools, by its record.
pub fn check(record: Result<&Record, &PinsError>, tool: Option<&str>) -> Verdict {
    match (record, tool) {
        (Err(error), _) => of_error(error),
        (Ok(record), _) if record.tools.is_empty() => nothing_seen(record),
        (Ok(record), Some(tool)) => match record.tools.get(tool) {
            Some(pin) => of_tool(record, pin),
            None => Verdict::of(Answer::NoSuch, "no-such-tool", sentence_of("no-such-tool")),
        },
        (Ok(record), None) => of_server(record),
    }
}

/// The answer where no server goes by the name that was given.
pub fn no_such_server(why: String) -> Verdict {
    Verdict::of(Answer::NoSuch, "no-such-server", why)
}

impl Verdict {
    fn of(answer: Answer, code: &'static str, sentence: String) -> Verdict {
        Verdict {
            answer,
            reasons: vec![Reason { code, sentence }],
        }
    }

    fn and(mut self, code: &'static str, sentence: String) -> Verdict {
        self.reasons.push(Reason { code, sentence });
        self
    }
}

fn sentence_of(code: &str) -> String {
    let row = CODES.iter().find(|(name, _)| *name == code);
    row.map_or("", |(_, sentence)| sentence).to_owned()
}

fn of_error(error: &PinsError) -> Verdict {
    let (answer, code) = match error {
        PinsError::Gone { .. } => (Answer::NeedsPerson, "pins-gone"),
        PinsError::Newer { .. } => (Answer::NeedsPerson, "pins-newer"),
        PinsError::Altered { .. } => (Answer::NeedsPerson, "pins-altered"),
        PinsError::NotSaved { .. } => (Answer::TryLater, "pins-not-saved"),
        PinsError::Busy { .. } => (Answer::TryLater, "pins-busy"),
        _ => (Answer::NeedsPerson, "pins-unreadable"),
    };
    Verdict::of(answer, code, error.to_string())
}

fn nothing_seen(record: &Record) -> Verdict {
    let code = match *record == Record::default() {
        true => "never-seen",
        false => "no-tool-seen",
    };
    Verdict::of(Answer::Unknown, code, sentence_of(code))
}

fn of_tool(record: &Record, pin: &ToolPin) -> Verdict {
    let verdict = match (waiting(pin), &pin.baseline) {
        (0, _) if pin.is_refused_now() => Verdict::of(Answer::NeedsPerson, "refused", sentence_of("refused")),
        (0, Some(baseline)) => {
            let code = via_code(baseline.via);
            let ready = Verdict::of(Answer::Ready, code, sentence_of(code));
            match &pin.last_seen {
                Some(_) => ready.and("accepted-since", sentence_of("accepted-since")),
                None => ready,
            }
        }
        // Refused, and nothing else was ever there.
        (0, None) => Verdict::of(Answer::NeedsPerson, "refused", sentence_of("refused")),
        (_, baseline) => Verdict::of(
            Answer::NeedsPerson,
            "held",
            held_sentence(pin, baseline.is_some()),
        ),
    };
    match instructions_wait(record) {
        true => verdict.and("instructions-held", sentence_of("instructions-held")),
        false => verdict,
    }
}

/// What is held of a tool and for what.
fn held_sentence(pin: &ToolPin, is_pinned: bool) -> String {
    let mut codes: Vec<&str> = Vec::new();
    if let Some((_, held)) = pin.waiting() {
        for code in &held.codes {
            if !codes.contains(&code.as_str()) {
                codes.push(code);
            }
        }
    }
    let what = match is_pinned {
        true => "The server declared it differently than it is pinned, and nobody has approved that",
        false => "The server declared it, and nobody has approved it",
    };
    match codes.is_empty() {
        true => format!("{what}."),
        false => format!("{what}: {}.", some(&codes)),
    }
}

fn of_server(record: &Record) -> Verdict {
    let held: Vec<&str> = names(record, |pin| waiting(pin) > 0);
    let refused: Vec<&str> = names(record, |pin| pin.baseline.is_none() && waiting(pin) == 0);
    let pinned = names(record, |pin| pin.baseline.is_some()).len();
    let mut reasons: Vec<Reason> = Vec::new();
    let mut add = |code, sentence| reasons.push(Reason { code, sentence });
    if !held.is_empty() {
        add(
            "held",
            format!(
                "{} of {} tools held: {}.",
                held.len(),
                record.tools.len(),
                some(&held)
            ),
        );
    }
    if instructions_wait(record) {
        add("instructions-held", sentence_of("instructions-held"));
    }
    if !reasons.is_empty() {
        return Verdict {
            answer: Answer::NeedsPerson,
            reasons,
        };
    }
    let ready = match pinned {
        0 => {
            return Verdict::of(
                Answer::NeedsPerson,
                "refused",
                format!("Refused: {}.", some(&refused)),
            );
        }
        1 => "The one tool that was seen of it is pinned, and not held.".to_owned(),
        many => format!("{many} tools are pinned, and none is held."),
    };
    let verdict = Verdict::of(Answer::Ready, "tools-pinned", ready);
    match refused.is_empty() {
        true => verdict,
        false => verdict.and(
            "refused",
            format!("Refused by a person, and left out: {}.", some(&refused)),
        ),
    }
}

fn names(record: &Record, is_meant: impl Fn(&ToolPin) -> bool) -> Vec<&str> {
    let meant = record.tools.iter().filter(|(_, pin)| is_meant(pin));
    meant.map(|(name, _)| name.as_str()).collect()
}

/// The first of some names.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(|name| named(name));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        rest => format!("{shown} and {rest} more"),
    }
}

fn waiting(pin: &ToolPin) -> usize {
    usize::from(pin.waiting().is_some())
}

fn instructions_wait(record: &Record) -> bool {
    record.waiting_instructions().is_some()
}

fn via_code(via: Via) -> &'static str {
    match via {
        Via::Approved => "approved",
        Via::NewTool => "pinned-new-tool",
        Via::Imported => "pinned-imported",
        Via::Index => "approved-by-index",
        Via::Aged => "pinned-aged",
        // An accepted step is never a baseline.
        Via::FirstSight | Via::AutoAccept => "pinned-first-sight",
    }
}
