//! `admin approvals`: the chain of what was approved, verified, written out and taken in.
//!
//! An export is JSON lines: the head, then each record in the form that is hashed.
//!
//! Invariant: what is exported and imported was verified whole; a file has its name when it is whole, and a chain takes all of a
//! file or nothing of it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::Path;

use anyhow::Context as _;
use mcpindex_contract::approval::{ChainFlaw, DEFAULT_TENANT, Head, Record, Verifier, verify};
use mcpindex_store::approvals::{ChainState, Imported};
use mcpindex_store::{Store, StoreError, audit};
use serde::{Deserialize, Serialize};

use super::super::now;
use crate::args::AdminApprovals;
use crate::exit::{Exit, Failure};
use crate::output::{self, Ink};

/// The first line's form.
const FORMAT: &str = "mcpindex-approvals/1";
/// Records of one reading.
const PAGE: i64 = 2_000;
/// The most bytes of a line: no record has more.
const MAX_LINE: u64 = 128 * 1024;
/// The most records of one file.
const MAX_RECORDS: u64 = 200_000;

/// The first line of an export.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstLine {
    format: String,
    head: HeadJson,
    tenant: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadJson {
    hash: String,
    sequence: u64,
}

/// Does it and says what came of it.
pub(super) async fn run(store: &Store, command: AdminApprovals) -> anyhow::Result<Exit> {
    match command {
        AdminApprovals::Verify { json } => verified(store, json).await,
        AdminApprovals::Export { output: None } => {
            let mut stdout = BufWriter::new(io::stdout().lock());
            export(store, &mut stdout).await?;
            stdout.flush()?;
            Ok(Exit::Done)
        }
        AdminApprovals::Export { output: Some(path) } => export_to(store, &path).await,
        AdminApprovals::Import { file } => import(store, &file).await,
    }
}

async fn verified(store: &Store, json: bool) -> anyhow::Result<Exit> {
    let state = store.verify_approvals(DEFAULT_TENANT, now()).await?;
    let exit = if state.flaw.is_some() {
        Exit::Failed
    } else {
        Exit::Done
    };
    if json {
        output::json(&state_json(&state))?;
        return Ok(exit);
    }
    match &state.flaw {
        None if state.head.sequence == 0 => output::plain("the chain is whole: nothing was decided yet")?,
        None => output::plain(&format!(
            "the chain is whole: {}, head {}",
            counted(state.head.sequence),
            state.head.hash
        ))?,
        Some(flaw) => {
            output::line(&[(Ink::Bad, flaw.to_string())])?;
            output::plain(&match state.good {
                0 => "no approval is obeyed".to_owned(),
                good => format!(
                    "approvals from record {} on are not obeyed, those up to record {good} are",
                    good.saturating_add(1)
                ),
            })?;
            output::plain(
                "nothing is added to the chain until it is as it was: `admin restore` brings back a copy of the index",
            )?;
        }
    }
    Ok(exit)
}

fn state_json(state: &ChainState) -> serde_json::Value {
    let flaw = state.flaw.as_ref().map(|flaw| {
        serde_json::json!({
            "name": flaw.name(),
            "first_bad": flaw.first_bad(),
            "text": flaw.to_string(),
        })
    });
    serde_json::json!({
        "whole": state.flaw.is_none(),
        "head": { "sequence": state.head.sequence, "hash": state.head.hash.to_string() },
        "obeyed": state.good,
        "flaw": flaw,
    })
}

/// `1 record`, `2 records`
fn counted(records: u64) -> String {
    match records {
        1 => "1 record".to_owned(),
        records => format!("{records} records"),
    }
}

async fn export_to(store: &Store, path: &Path) -> anyhow::Result<Exit> {
    let unwritten = || format!("`{}` can't be written", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).with_context(unwritten)?;
    let mut written = BufWriter::new(file);
    let records = export(store, &mut written).await?;
    let file = written
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .with_context(unwritten)?;
    file.as_file().sync_all().with_context(unwritten)?;
    file.persist(path)
        .map_err(|error| error.error)
        .with_context(unwritten)?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(unwritten)?;
    output::plain(&format!("{} in `{}`", counted(records), path.display()))?;
    Ok(Exit::Done)
}

/// Writes the whole chain as it stands when this begins, and gives how many records that is.
async fn export(store: &Store, writer: &mut impl Write) -> anyhow::Result<u64> {
    let broken = |flaw: ChainFlaw| StoreError::ChainBroken { flaw };
    // Before the first line is written; what is read then is verified again as it goes.
    let state = store.verify_approvals(DEFAULT_TENANT, now()).await?;
    state.flaw.map_or(Ok(()), |flaw| Err(broken(flaw)))?;
    let (head, _) = store.approvals_since(DEFAULT_TENANT, 0, 0).await?;
    let first = FirstLine {
        format: FORMAT.to_owned(),
        head: HeadJson {
            hash: head.hash.to_string(),
            sequence: head.sequence,
        },
        tenant: DEFAULT_TENANT.to_owned(),
    };
    write_line(writer, &serde_json::to_string(&first)?)?;
    let mut verifier = Verifier::after(DEFAULT_TENANT, Head::empty(DEFAULT_TENANT));
    while verifier.head().sequence < head.sequence {
        let known = verifier.head().sequence;
        let (_, page) = store.approvals_since(DEFAULT_TENANT, known, PAGE).await?;
        // What was added since this began belongs to the next export.
        let page: Vec<&Record> = page
            .iter()
            .filter(|record| record.sequence <= head.sequence)
            .collect();
        if page.is_empty() {
            break;
        }
        for record in page {
            verifier.push(record).map_err(broken)?;
            write_line(writer, &record.text())?;
        }
    }
    verifier.finish(&head).map_err(broken)?;
    Ok(head.sequence)
}

fn write_line(writer: &mut impl Write, json: &str) -> io::Result<()> {
    // A tool's name may hold anything, and the file may be looked at on a terminal.
    writer.write_all(output::escaped_json(json).as_bytes())?;
    writer.write_all(b"\n")
}

async fn import(store: &Store, path: &Path) -> anyhow::Result<Exit> {
    let (head, records) = read(path)?;
    let refused = |reason: String| Failure::Usage(format!("nothing was imported: {reason}"));
    verify(DEFAULT_TENANT, Head::empty(DEFAULT_TENANT), &records, &head)
        .map_err(|flaw| refused(format!("`{}` is not as it was written: {flaw}", path.display())))?;
    let imported = store
        .import_approvals(DEFAULT_TENANT, &head, &records, audit::SHELL, now())
        .await?;
    match imported {
        Imported::Done { there: 0, added } => output::plain(&format!("{} imported", counted(added)))?,
        Imported::Done { there, added: 0 } => {
            output::plain(&format!("the index has these {} already", counted(there)))?;
        }
        Imported::Done { there, added } => {
            output::plain(&format!(
                "{} imported after the {there} that were there",
                counted(added)
            ))?;
        }
        Imported::Differs { sequence } => {
            return Err(refused(format!(
                "record {sequence} is another one in this index, and two chains can't be made one; import into an empty index"
            ))
            .into());
        }
        Imported::GoesOn { here } => {
            return Err(refused(format!(
                "the index has all {} of `{}`, and goes on to record {here}",
                counted(head.sequence),
                path.display()
            ))
            .into());
        }
    }
    Ok(Exit::Done)
}

/// An export as it lies in a file.
fn read(path: &Path) -> anyhow::Result<(Head, Vec<Record>)> {
    let shown = path.display();
    let wrong = |line: u64, reason: &str| Failure::Usage(format!("`{shown}`, line {line}: {reason}"));
    let file =
        File::open(path).map_err(|error| Failure::Usage(format!("`{shown}` can't be read: {error}")))?;
    let mut reader = BufReader::new(file);
    let mut text = String::new();
    let mut next = |number: u64| -> Result<Option<String>, Failure> {
        text.clear();
        match reader.by_ref().take(MAX_LINE).read_line(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(wrong(number, "not UTF-8")),
            Err(error) => Err(Failure::Usage(format!("`{shown}` can't be read: {error}"))),
            Ok(0) => Ok(None),
            Ok(_) if !text.ends_with('\n') => Err(wrong(
                number,
                "the line has no end: the file was cut short, or is no export of approvals",
            )),
            Ok(_) => Ok(Some(text.trim_end_matches('\n').to_owned())),
        }
    };
    let not_an_export = || {
        wrong(
            1,
            "expected the head of an export, as `admin approvals export` writes it",
        )
    };
    let first = next(1)?.ok_or_else(not_an_export)?;
    let first: FirstLine = serde_json::from_str(&first).map_err(|_| not_an_export())?;
    if first.format != FORMAT {
        return Err(wrong(
            1,
            "expected the format `mcpindex-approvals/1`, a newer mcpindex may know others",
        )
        .into());
    }
    if first.tenant != DEFAULT_TENANT {
        return Err(wrong(1, "the records are of another organisation than `default`").into());
    }
    let head = Head {
        sequence: first.head.sequence,
        hash: first
            .head
            .hash
            .parse()
            .map_err(|_| wrong(1, "head.hash: expected `sha256:` and 64 hex digits"))?,
    };
    if head.sequence > MAX_RECORDS {
        return Err(wrong(1, "more than 200,000 records: restore a backup instead").into());
    }
    let mut records = Vec::new();
    let mut number = 1;
    loop {
        number += 1;
        let Some(line) = next(number)? else { break };
        if number > MAX_RECORDS + 1 {
            return Err(wrong(number, "more records than the head says").into());
        }
        records.push(Record::read(&line).map_err(|error| wrong(number, &error.to_string()))?);
    }
    Ok((head, records))
}
