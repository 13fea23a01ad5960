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

impl Gate {
    /// The hold that the client gets in place of this result of a call; `None` when the result passes.
    pub(super) fn scan_result(&self, tool: &str, result: &str, outputs: &mut Vec<Output>) -> Option<Hold> {
        let scan = json::read(result)
            .ok()
            .map(|document| markers::scan_text(&texts(&document.value)));
        let is_marked = scan.as_ref().is_some_and(|scan| scan.level == Level::High);
        let is_incomplete = scan.as_ref().is_none_or(|scan| scan.incomplete);
        let is_withheld = match self.options.posture {
            Posture::Monitor => false,
            Posture::Guard => is_marked,
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

/// What a model reads of a result.
fn texts(result: &Value) -> String {
    let mut texts = Vec::new();
    if let Some(Value::Array(blocks)) = result.get("content") {
        for block in blocks {
            let of_block = ["text", "name", "title", "description"].map(|name| block.get(name));
            let of_resource = block.get("resource").and_then(|resource| resource.get("text"));
            let found = of_block.into_iter().chain([of_resource]).flatten();
            texts.extend(found.filter_map(Value::as_str));
        }
    }
    let mut unread: Vec<&Value> = result.get("structuredContent").into_iter().collect();
    while let Some(value) = unread.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => unread.extend(items.iter().rev()),
            Value::Object(members) => unread.extend(members.iter().rev().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    texts.join("\n")
}
