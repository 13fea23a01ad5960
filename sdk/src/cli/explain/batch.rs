//! `explain --batch`: one line in, one line out.
//!
//! A line is `{"id", "before", "after"}` with the definitions as raw objects, or as texts in `before_text` and `after_text`
//! where an object would not survive being a member; other members are ignored. `null` stands for no definition.
//!
//! Invariant: every line that is not blank gets exactly one answer, in order, with its `id`; a line that can't be used is
//! answered with `error`, and the rest goes on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use mcpindex_contract::definition::Definition;
use serde_json::value::RawValue;

use super::super::exit::Exit;
use super::super::output::Output;
use super::{Explanation, MAX_DEFINITION, document};

/// The longest line: two definitions as texts, and what else stands beside.
const MAX_LINE: u64 = 4 * MAX_DEFINITION;

type Members<'a> = BTreeMap<String, &'a RawValue>;

pub(super) fn run(file: &Path, output: &mut Output) -> Exit {
    let opened: io::Result<Box<dyn BufRead>> = if file.as_os_str() == "-" {
        Ok(Box::new(io::stdin().lock()))
    } else {
        File::open(file).map(|opened| Box::new(BufReader::new(opened)) as Box<dyn BufRead>)
    };
    let mut lines = match opened {
        Ok(lines) => lines,
        Err(error) => {
            output.error(&format!("error: {} can't be read: {error}", file.display()));
            return Exit::Usage;
        }
    };
    let mut exit = Exit::Ok;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        match lines.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if line.len() as u64 > MAX_LINE => {
                output.error(&format!("error: line {number} is larger than {MAX_LINE} bytes"));
                return Exit::Undetermined;
            }
            Ok(_) => {}
            Err(error) => {
                output.error(&format!("error: {} can't be read: {error}", file.display()));
                return Exit::Undetermined;
            }
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match explained(&line) {
            Ok((id, explanation)) => output.document(&document::line(id.as_deref(), &explanation)),
            Err((id, mistake)) => {
                exit = Exit::Undetermined;
                output.error(&format!("error: line {number}: {mistake}"));
                output.document(&document::line_mistake(id.as_deref(), &mistake));
            }
        }
    }
    exit
}

type Id = Option<Box<RawValue>>;

fn explained(line: &[u8]) -> Result<(Id, Explanation), (Id, String)> {
    let text = str::from_utf8(line).map_err(|_| (None, "not UTF-8".to_owned()))?;
    let members: Members<'_> =
        serde_json::from_str(text).map_err(|error| (None, format!("not a JSON object: {error}")))?;
    let id = members.get("id").map(|id| (*id).to_owned());
    match (side(&members, "before"), side(&members, "after")) {
        (Ok(before), Ok(after)) => Ok((id, Explanation::of_step(before, after))),
        (Err(mistake), _) | (_, Err(mistake)) => Err((id, mistake)),
    }
}

/// The definition of one side, to the byte.
fn side(members: &Members<'_>, name: &str) -> Result<Option<Definition>, String> {
    let named = format!("{name}_text");
    if let Some(text) = members.get(&named).filter(|text| text.get() != "null") {
        let text: String = serde_json::from_str(text.get())
            .map_err(|_| format!("`{named}` is no string of whole characters"))?;
        return Ok(Some(Definition::read(&text)));
    }
    match members.get(name) {
        Some(object) => Ok((object.get() != "null").then(|| Definition::read(object.get()))),
        None => Err(format!("`{name}` is missing (`null` stands for no definition)")),
    }
}
