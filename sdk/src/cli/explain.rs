//! `mcpindex explain`: what a change of a tool means, and what a gate in each posture would do about it.
//!
//! Nothing is contacted: the definitions come from files. A server's author asks it before a release, whoever reviews one
//! asks it after.
//!
//! Invariant: whatever the verdict, an explanation that could be given ends with exit code 0; a definition that can't be
//! read without doubt is explained as such and is no error of ours.

mod batch;
pub(super) mod document;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::posture::{Examination, Posture, Verdict, examine, first_sight};

use super::exit::Exit;
use super::output::Output;

/// The longest definition, in bytes.
const MAX_DEFINITION: u64 = 16 * 1024 * 1024;

#[derive(Args)]
pub(super) struct ExplainArguments {
    /// JSON instead of text
    #[arg(long)]
    json: bool,

    /// Many at once: a file of lines {"id", "before", "after"}, one JSON answer a line; `-` is stdin
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "definitions")]
    batch: Option<PathBuf>,

    /// A tool's definition before and after (`null` for none), or one alone as if seen for the first time; `-` is stdin
    #[arg(value_name = "TOOL.json", num_args = 1..=2, required_unless_present = "batch")]
    definitions: Vec<PathBuf>,
}

/// All there is to say about one tool.
struct Explanation {
    before: Option<Definition>,
    after: Option<Definition>,
    /// Whether it is judged as a tool of a server that nothing is pinned of.
    is_first_sight: bool,
    examination: Examination,
    /// In the order of [`Posture::ALL`].
    verdicts: [Verdict; 3],
}

impl Explanation {
    /// One step from a baseline.
    fn of_step(before: Option<Definition>, after: Option<Definition>) -> Explanation {
        let examination = examine(before.as_ref(), after.as_ref());
        let verdicts = Posture::ALL.map(|posture| examination.verdict(posture));
        Explanation {
            before,
            after,
            is_first_sight: false,
            examination,
            verdicts,
        }
    }

    fn of_first_sight(definition: Definition) -> Explanation {
        let mut examination = examine(None, Some(&definition));
        // Nothing was there that it could be a change of.
        examination.changes.clear();
        let verdict = first_sight(&definition);
        Explanation {
            before: None,
            after: Some(definition),
            is_first_sight: true,
            examination,
            verdicts: [verdict.clone().under_monitor(), verdict.clone(), verdict],
        }
    }

    fn verdict(&self, posture: Posture) -> &Verdict {
        &self.verdicts[posture as usize]
    }

    fn name(&self) -> &str {
        let definition = self.after.as_ref().or(self.before.as_ref());
        definition.and_then(Definition::name).unwrap_or_default()
    }
}

pub(super) fn run(arguments: &ExplainArguments, output: &mut Output) -> Exit {
    if let Some(file) = &arguments.batch {
        return batch::run(file, output);
    }
    let read: Result<Vec<Option<Definition>>, String> = arguments
        .definitions
        .iter()
        .map(|file| definition(file))
        .collect();
    let explanation = match read.map(<[_; 2]>::try_from) {
        Ok(Ok([before, after])) => Explanation::of_step(before, after),
        Ok(Err(mut single)) => match single.pop().flatten() {
            Some(definition) => Explanation::of_first_sight(definition),
            None => {
                return refuse(
                    "`null` is no tool; give it beside one that came or went",
                    arguments,
                    output,
                );
            }
        },
        Err(mistake) => return refuse(&mistake, arguments, output),
    };
    if arguments.json {
        output.document(&document::pretty(&explanation));
    } else {
        text::print(&explanation, output);
    }
    Exit::Ok
}

/// The document for arguments that can't be used.
pub(super) fn print_usage_error(output: &mut Output, mistake: &str) {
    output.document(&document::mistake(mistake));
}

fn refuse(mistake: &str, arguments: &ExplainArguments, output: &mut Output) -> Exit {
    if arguments.json {
        output.document(&document::mistake(mistake));
    }
    output.error(&format!("error: {mistake}"));
    Exit::Usage
}

/// The definition in a file; `None` where it says `null`.
fn definition(file: &Path) -> Result<Option<Definition>, String> {
    let name = file.display();
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        io::stdin()
            .lock()
            .take(MAX_DEFINITION + 1)
            .read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|opened| opened.take(MAX_DEFINITION + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| format!("{name} can't be read: {error}"))?;
    if bytes.len() as u64 > MAX_DEFINITION {
        return Err(format!("{name} is larger than {MAX_DEFINITION} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8"))?;
    let text = text.trim();
    Ok((text != "null").then(|| Definition::read(text)))
}
