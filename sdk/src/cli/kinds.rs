//! `mcpindex kinds`: the closed vocabulary of changes, with what guard and strict do.

use clap::Args;
use mcpindex_contract::change::{CamelRow, ChangeKind, Treatment};
use mcpindex_contract::posture::CODES;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, Style};

#[derive(Args)]
pub(super) struct KindsArguments {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    kinds: Vec<CamelRow>,
    treatments: Vec<Word>,
    reasons: Vec<Word>,
}

#[derive(Serialize)]
struct Word {
    name: &'static str,
    sentence: &'static str,
}

pub(super) fn run(arguments: &KindsArguments, output: &mut Output) -> Exit {
    if arguments.json {
        print_document(output);
    } else {
        print_text(output);
    }
    Exit::Ok
}

fn print_document(output: &mut Output) {
    let treatment = |treatment: &Treatment| Word {
        name: treatment.name(),
        sentence: treatment.sentence(),
    };
    let document = Document {
        schema: "mcpindex.kinds/1",
        kinds: ChangeKind::all().iter().copied().map(CamelRow::from).collect(),
        treatments: Treatment::all().iter().map(treatment).collect(),
        reasons: CODES
            .iter()
            .map(|&(name, sentence)| Word { name, sentence })
            .collect(),
    };
    // Fails only for maps with keys that are no strings; there are none.
    output.document(&serde_json::to_string_pretty(&document).unwrap_or_default());
}

fn print_text(output: &mut Output) {
    let width = |name: fn(&ChangeKind) -> &'static str| {
        ChangeKind::all()
            .iter()
            .map(|kind| name(kind).len())
            .max()
            .unwrap_or(0)
    };
    let (kinds, directions) = (width(|kind| kind.name()), width(|kind| kind.direction().name()));
    output.line(
        Style::Strong,
        &format!("{} kinds of change", ChangeKind::all().len()),
    );
    for kind in ChangeKind::all() {
        let (name, direction, guard) = (kind.name(), kind.direction().name(), kind.guard().name());
        let relevant = if kind.safety_relevant() {
            "  safety relevant"
        } else {
            ""
        };
        output.line(
            Style::Plain,
            &format!("  {name:kinds$}  {direction:directions$}  {guard}{relevant}"),
        );
        output.line(Style::Faint, &format!("    {}", kind.sentence()));
    }
    output.line(Style::Plain, "");
    output.line(Style::Strong, "under guard");
    for treatment in Treatment::all() {
        output.line(
            Style::Plain,
            &format!("  {:17}  {}", treatment.name(), treatment.sentence()),
        );
    }
    output.line(Style::Plain, "");
    output.line(Style::Strong, "other reasons to hold");
    for (code, sentence) in CODES {
        output.line(Style::Plain, &format!("  {code:20}  {sentence}"));
    }
    output.line(Style::Plain, "");
    output.line(
        Style::Faint,
        "strict holds any drift of a tool; monitor holds nothing and notes what guard would hold",
    );
}
