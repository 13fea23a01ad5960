//! The server's instructions on their way to the client: pinned when first seen, left out when they drifted.
//!
//! Invariant: under guard and strict, a text that the model would read as instructions reaches the client only when it is
//! what was pinned, or differs in nothing that matters; what stands in its place is one sentence of ours.

use std::ops::Range;

use mcpindex_contract::change::Change;
use mcpindex_contract::diff::diff;
use mcpindex_contract::markers::{self, Level};
use mcpindex_contract::posture::{self, Posture, Reason};
use mcpindex_contract::surface::{Instructions, Listing, Surface};

use crate::gate::event::Event;
use crate::gate::{Gate, Output};
use crate::pins::{PinsError, Record, Via};
use crate::wire::message::{MembersError, clear_members, place, string};

/// What becomes of the instructions.
enum Ruling {
    /// They are passed on; `changes` when they differ from the pin.
    Pass { changes: Vec<Change> },
    /// They are left out, and this stands in their place.
    LeaveOut {
        changes: Vec<Change>,
        codes: Vec<&'static str>,
        instead: &'static str,
    },
}

const CHANGED: &str = "This server's instructions changed since they were approved and were left out here. `mcpindex review` shows \
                       both versions.";
const MARKED: &str = "This server's instructions carry markers of a high level, or are too large to be searched for them; they were \
                      never approved and were left out here. `mcpindex review` shows them.";
const NO_TEXT: &str =
    "This server gave something else than a text as its instructions, and that was left out here.";
const NO_PINS: &str = "This server's instructions were left out here, since what was pinned of the server can't be read. `mcpindex \
                       status` shows why.";

impl Gate {
    /// The answer to `initialize` or `server/discover` as the client gets it; `result` is its place in the message.
    pub(super) fn handshake_answer(
        &mut self,
        message: String,
        result: Range<usize>,
        settles_version: bool,
        outputs: &mut Vec<Output>,
    ) -> Result<String, MembersError> {
        let text = message.get(result.clone()).unwrap_or_default();
        let [version, literal] = clear_members(text, ["protocolVersion", "instructions"])?;
        if settles_version && let Some(version) = version.and_then(string) {
            self.speech.settled(version.into_owned());
        }
        let instructions = literal.and_then(Instructions::read);
        let ruling = match literal {
            // Nothing to compare, and some client may make a text of it all the same.
            Some(literal)
                if instructions.is_none()
                    && literal != "null"
                    && self.options.posture != Posture::Monitor =>
            {
                Ruling::LeaveOut {
                    changes: Vec::new(),
                    codes: Vec::new(),
                    instead: NO_TEXT,
                }
            }
            _ => self.rule_instructions(instructions.as_ref(), literal, outputs),
        };
        let is_withheld = matches!(ruling, Ruling::LeaveOut { .. });
        let (changes, instead) = match ruling {
            Ruling::Pass { changes } => (changes, None),
            Ruling::LeaveOut { changes, instead, .. } => (changes, Some(instead)),
        };
        let digest = instructions.map_or_else(String::new, |instructions| instructions.digest.to_string());
        if (is_withheld || !changes.is_empty()) && self.told.first("instructions", "", &digest) {
            outputs.push(Output::from(Event::ContextDrift {
                kind: None,
                name: String::new(),
                changes,
                withheld: is_withheld,
            }));
        }
        let (Some(instead), Some(literal)) = (instead, literal) else {
            return Ok(message);
        };
        let span = place(&message, literal);
        let (before, after) = (message.get(..span.start), message.get(span.end..));
        Ok(format!(
            "{}\"{instead}\"{}",
            before.unwrap_or_default(),
            after.unwrap_or_default()
        ))
    }

    /// Compares with the pin, and writes what follows from it.
    fn rule_instructions(
        &mut self,
        now: Option<&Instructions>,
        literal: Option<&str>,
        outputs: &mut Vec<Output>,
    ) -> Ruling {
        let at = self.options.clock.unix_seconds();
        let posture = self.options.posture;
        let written = self.judge.record().and_then(|record| {
            let ruling = rule(&record, now, posture);
            if !needs_writing(&record, &ruling, now) {
                return Ok(ruling);
            }
            let mut ruling = ruling;
            self.judge.update(|newest| {
                ruling = rule(newest, now, posture);
                write(newest, &ruling, now, literal, at);
            })?;
            Ok(ruling)
        });
        match written {
            Ok(ruling) if posture != Posture::Monitor => ruling,
            Ok(Ruling::Pass { changes } | Ruling::LeaveOut { changes, .. }) => Ruling::Pass { changes },
            Err(error) => {
                self.pins_unusable(&error, outputs);
                match (posture, now) {
                    (Posture::Monitor, _) | (_, None) => Ruling::Pass { changes: Vec::new() },
                    _ => Ruling::LeaveOut {
                        changes: Vec::new(),
                        codes: Vec::new(),
                        instead: NO_PINS,
                    },
                }
            }
        }
    }

    /// Tells once that there are no pins to judge by.
    pub(super) fn pins_unusable(&mut self, error: &PinsError, outputs: &mut Vec<Output>) {
        let reason = error.to_string();
        if self.told.first("pins-unusable", "", &reason) {
            outputs.push(Output::from(Event::PinsUnusable { reason }));
        }
    }
}

/// What the record says of these instructions. Monitor judges as guard does.
fn rule(record: &Record, now: Option<&Instructions>, posture: Posture) -> Ruling {
    let Some(pinned) = &record.instructions else {
        let scan = markers::scan_text(now.map_or("", |now| &now.text));
        let code = match scan.level {
            Level::High => "first-sight-marker",
            Level::None | Level::Low if scan.incomplete => "scan-incomplete",
            Level::None | Level::Low => return Ruling::Pass { changes: Vec::new() },
        };
        return Ruling::LeaveOut {
            changes: Vec::new(),
            codes: vec![code],
            instead: MARKED,
        };
    };
    let before = pinned.as_ref().and_then(|pin| Instructions::read(&pin.literal));
    let strictness = match posture {
        Posture::Monitor => Posture::Guard,
        other => other,
    };
    let verdict = posture::judge_instructions(strictness, before.as_ref(), now);
    let changes = changes_of(before, now.cloned());
    match verdict.reasons.is_empty() {
        true => Ruling::Pass { changes },
        false => Ruling::LeaveOut {
            changes,
            codes: verdict.reasons.iter().map(|Reason { code, .. }| *code).collect(),
            instead: CHANGED,
        },
    }
}

/// Whether the record has to change for this.
fn needs_writing(record: &Record, ruling: &Ruling, now: Option<&Instructions>) -> bool {
    match ruling {
        Ruling::Pass { .. } => record.instructions.is_none() || record.held_instructions_now.is_some(),
        Ruling::LeaveOut { .. } => now.is_some_and(|now| {
            let digest = now.digest.to_string();
            record.held_instructions_now != Some(digest)
        }),
    }
}

fn write(record: &mut Record, ruling: &Ruling, now: Option<&Instructions>, literal: Option<&str>, at: i64) {
    match (ruling, now, literal) {
        (Ruling::Pass { .. }, ..) if record.instructions.is_none() => {
            let literal = literal.filter(|_| now.is_some());
            record.pin_instructions(now, literal, Via::FirstSight, at);
        }
        (Ruling::Pass { .. }, ..) => record.let_instructions_through(),
        (Ruling::LeaveOut { codes, .. }, Some(now), Some(literal)) => {
            record.hold_instructions(now, literal, codes, at);
        }
        _ => {}
    }
}

/// How the instructions changed, in the vocabulary of changes.
fn changes_of(before: Option<Instructions>, after: Option<Instructions>) -> Vec<Change> {
    let surface = |instructions| Surface {
        protocol_version: String::new(),
        server_info: None,
        capabilities: None,
        instructions,
        members: Vec::new(),
        listings: [const { Listing::NotDeclared }; 4],
    };
    diff(&surface(before), &surface(after))
}
