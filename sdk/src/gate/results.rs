//! Results of calls, searched for text that addresses the model.
//!
//! Invariant: all text of a result that a model reads is searched as one, so that a sentence cut into blocks is found; a
//! search that met a bound says so.

use mcpindex_contract::json::{self, Value};
use mcpindex_contract::markers::{self, Level, Scan};
use mcpindex_contract::posture::{Decision, Posture};

use crate::gate::event::Event;
use crate::gate::hold::{Hold, HoldClass};
use crate::gate::{Gate, Output};
use crate::wire::message::members;

impl Gate {
    /// The hold that the client gets in place of this result of a call; `None` when the result passes.
    pub(super) fn scan_result(&self, tool: &str, result: &str, outputs: &mut Vec<Output>) -> Option<Hold> {
        self.scan_answer(tool, result, texts, outputs)
    }

    /// The same for a message that answers the call with an error: the model reads that as well.
    pub(super) fn scan_error(&self, tool: &str, message: &str, outputs: &mut Vec<Output>) -> Option<Hold> {
        let body = message.trim_start_matches('\u{feff}');
        let [error] = members(body, ["error"]).ok()?;
        let all = |error: &Value| {
            let mut texts = Vec::new();
            collect(error, &mut texts);
            texts.join("\n")
        };
        self.scan_answer(tool, error?, all, outputs)
    }

    fn scan_answer(
        &self,
        tool: &str,
        answer: &str,
        texts: impl Fn(&Value) -> String,
        outputs: &mut Vec<Output>,
    ) -> Option<Hold> {
        let scan = json::read(answer)
            .ok()
            .map(|document| markers::scan_text(&texts(&document.value)));
        let is_marked = scan.as_ref().is_some_and(|scan| scan.level == Level::High);
        let is_incomplete = scan.as_ref().is_none_or(|scan| scan.incomplete);
        let is_withheld = match self.options.posture {
            Posture::Monitor => false,
            // What can't be read here at all, others read: no result of use nests so deep.
            Posture::Guard => is_marked || scan.is_none(),
            Posture::Strict => is_marked || is_incomplete,
        };
        if is_marked || is_withheld {
            outputs.push(Output::from(Event::ResultMarked {
                tool: tool.to_owned(),
                withheld: is_withheld,
            }));
        }
        is_withheld.then(|| self.result_hold(tool, is_marked, scan))
    }

    fn result_hold(&self, tool: &str, is_marked: bool, scan: Option<Scan>) -> Hold {
        let sentence = match is_marked {
            true => {
                "The call ran, and its result carries text that addresses the model or points to a way out for data."
            }
            false => {
                "The call ran, and its result is too large or too deep to be searched for markers to its end."
            }
        };
        let mut hold = self.gate_hold(tool, HoldClass::Result, Decision::Hold, sentence);
        hold.markers = scan.map(|scan| scan.markers).unwrap_or_default();
        hold
    }
}

/// What a model reads of a result. Of a member that is there twice, readers take the one or the other: both are read here.
fn texts(answer: &Value) -> String {
    let mut texts = Vec::new();
    // What a task came to stands one level deeper in its state.
    for result in [answer].into_iter().chain(named(answer, "result")) {
        texts_of_result(result, &mut texts);
    }
    for error in named(answer, "error") {
        collect(error, &mut texts);
    }
    texts.join("\n")
}

fn texts_of_result<'v>(result: &'v Value, texts: &mut Vec<&'v str>) {
    for blocks in named(result, "content") {
        let Value::Array(blocks) = blocks else {
            continue;
        };
        for block in blocks {
            let of_block = ["text", "name", "title", "description"]
                .into_iter()
                .flat_map(|name| named(block, name));
            let of_resource = named(block, "resource").flat_map(|resource| named(resource, "text"));
            texts.extend(of_block.chain(of_resource).filter_map(Value::as_str));
        }
    }
    for content in named(result, "structuredContent") {
        collect(content, texts);
    }
}

/// Every string in a value, names of members among them.
fn collect<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    let mut unread = vec![value];
    while let Some(value) = unread.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => unread.extend(items.iter().rev()),
            Value::Object(members) => {
                texts.extend(members.iter().map(|(name, _)| name.as_str()));
                unread.extend(members.iter().rev().map(|(_, value)| value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The members of this name, however many.
fn named<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    let members = match value {
        Value::Object(members) => members.as_slice(),
        _ => &[],
    };
    members
        .iter()
        .filter(move |(key, _)| key == name)
        .map(|(_, value)| value)
}
