//! Prints how often the engine is right over a folder of recorded data; see `scripts/accuracy`.

#[path = "../tests/it/figures.rs"]
mod figures;

use figures::{Disagreement, Drifts, Figures, Golden, Tally, measure};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let mut out = io::stdout().lock();
    let Some(folder) = arguments.next() else {
        writeln!(out, "usage: accuracy FOLDER [--disagreements]")?;
        return Ok(ExitCode::from(2));
    };
    let all = arguments.next().is_some();
    let figures = measure(Path::new(&folder));
    print(&figures, all, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

fn print(figures: &Figures, all: bool, out: &mut impl Write) -> io::Result<()> {
    match &figures.golden {
        Some(golden) => print_golden(golden, out)?,
        None => writeln!(
            out,
            "no vectors/golden.jsonl: the published client's cases are left out"
        )?,
    }
    match &figures.drifts {
        Some(drifts) => print_drifts(drifts, all, out)?,
        None => writeln!(out, "no vectors/real-drifts.jsonl: labelled drifts are left out")?,
    }
    match &figures.corpus {
        Some(corpus) => {
            writeln!(out, "markers in {} tools of real servers", corpus.tools)?;
            let high = corpus.high.len();
            writeln!(out, "  high  {}", share(high, corpus.tools))?;
            for name in &corpus.high {
                writeln!(out, "    {}", printable(name))?;
            }
            writeln!(out, "  low   {}", share(corpus.low, corpus.tools))?;
            writeln!(
                out,
                "  asks for context  {}",
                share(corpus.asking_for_context, corpus.tools)
            )?;
        }
        None => writeln!(out, "no corpus/: false alarms of markers are left out")?,
    }
    Ok(())
}

fn print_golden(golden: &Golden, out: &mut impl Write) -> io::Result<()> {
    let cases = golden.cases;
    writeln!(out, "the published client's {cases} recorded cases")?;
    let same = golden.values - golden.different_values.len();
    writeln!(
        out,
        "  digests and contract hashes equal  {}",
        share(same, golden.values)
    )?;
    for value in &golden.different_values {
        writeln!(out, "    differs: {}", printable(value))?;
    }
    writeln!(
        out,
        "  kinds equal, in the published words  {}",
        share(golden.same_kinds, cases)
    )?;
    let mut explained: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for difference in &golden.different_kinds {
        let why = difference.explanation().unwrap_or("NOT EXPLAINED");
        explained.entry(why).or_default().push(&difference.id);
    }
    for (why, ids) in explained {
        writeln!(out, "    {}: {why} ({})", ids.len(), printable(&ids.join(" ")))?;
    }
    writeln!(
        out,
        "  decision under guard equal  {}",
        share(golden.same_decisions, cases)
    )
}

fn print_drifts(drifts: &Drifts, all: bool, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} labelled drifts of real servers", drifts.rows)?;
    writeln!(
        out,
        "  with something undecided  {}",
        share(drifts.opaque, drifts.rows)
    )?;
    for (name, tally) in [
        ("guard", &drifts.clear),
        ("guard, labelled ambiguous", &drifts.ambiguous),
        ("strict", &drifts.strict),
    ] {
        writeln!(out, "  {name}")?;
        print_tally(tally, all, out)?;
    }
    Ok(())
}

fn print_tally(tally: &Tally, all: bool, out: &mut impl Write) -> io::Result<()> {
    let held = tally.false_holds.len();
    writeln!(
        out,
        "    labelled hold, let through  {}",
        share(tally.let_through.len(), tally.labelled_hold)
    )?;
    writeln!(
        out,
        "    labelled proceed, held      {}",
        share(held, tally.labelled_proceed)
    )?;
    writeln!(
        out,
        "      of those that changed     {}",
        share(held, tally.labelled_proceed_changed)
    )?;
    if all {
        for (what, list) in [("let through", &tally.let_through), ("held", &tally.false_holds)] {
            for one in list {
                print_disagreement(what, one, out)?;
            }
        }
    }
    Ok(())
}

fn print_disagreement(what: &str, one: &Disagreement, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "      {what}: {}", printable(&one.id))?;
    writeln!(out, "        label: {}", printable(&one.why))?;
    for change in &one.changes {
        writeln!(
            out,
            "        {} {}",
            change.kind.name(),
            printable(&change.pointer)
        )?;
    }
    for reason in &one.reasons {
        writeln!(out, "        for {} {}", reason.code, printable(&reason.pointer))?;
    }
    Ok(())
}

fn share(part: usize, whole: usize) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    format!("{part} of {whole} ({percent:.1} %)")
}

/// The data holds servers' words.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|character| match character {
            control if control.is_control() => {
                control.escape_unicode().to_string().chars().collect::<Vec<_>>()
            }
            other => vec![other],
        })
        .collect()
}
