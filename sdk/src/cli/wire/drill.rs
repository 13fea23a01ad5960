//! `wire --drill`: the next tool call that passes any gate of this machine is answered by a staged hold.
//!
//! Invariant: a file says that it is armed, and nothing else changes; the gate that answers takes the file away.

use std::io;

use mcpindex::state::{StateDirectory, write_atomically};
use serde_json::json;

use super::super::exit::Exit;
use super::super::output::{Output, Style};

pub(super) fn run(state: &StateDirectory, off: bool, as_json: bool, output: &mut Output) -> Exit {
    let armed = state.gate().join("drill-armed");
    let done = if off {
        std::fs::remove_file(&armed).map(|()| true)
    } else {
        write_atomically(&armed, b"").map(|()| true)
    };
    let was_there = match done {
        Ok(done) => done,
        Err(error) if off && error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            output.error(&format!("mcpindex: {}: {error}", armed.display()));
            return Exit::Internal;
        }
    };
    if as_json {
        output.document(&json!({"schema": "mcpindex.drill/1", "armed": !off}).to_string());
        return Exit::Ok;
    }
    let lines: &[&str] = match (off, was_there) {
        (true, true) => &["The drill is off. No call will be held for it."],
        (true, false) => &["No drill was armed, or a gate has answered it already."],
        (false, _) => &[
            "The drill is armed.",
            "The next tool call that goes through any gate of this machine is held: it does not reach the server, and the agent",
            "gets an answer that says it is a drill. Nothing is pinned, refused or changed by it, and the call after it passes.",
            "To take it back: mcpindex wire --drill --off",
        ],
    };
    for line in lines {
        output.line(Style::Plain, line);
    }
    Exit::Ok
}
