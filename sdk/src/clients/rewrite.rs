//! What `wire` and `unwire` make of one file: the new content, what becomes of each entry, and the write itself.
//!
//! Invariant: every edit is tried in memory before it is offered. The wired text has to read as the gate in front of the
//! very same line, and taking it back has to give the original text to the byte; an entry that fails is left alone.

use mcpindex_contract::posture::Posture;

use super::document::Document;
use super::edit::{GateLine, wire};
use super::entry::{Entry, Launch, Site, Wiring, read, sites};
use super::file::{ConfigFile, Unreadable, WriteError};
use super::record::{EntryRecord, FileRecord, Record, RecordError, digest};
use super::shown::shown;
use super::text::{Edit, apply};
use super::undo::{Undo, unwire};

/// What becomes of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The gate comes in front of it.
    Wired,
    /// The gate is taken away.
    Unwired,
    /// The gate is in front of it already.
    AlreadyWired,
    /// No gate of ours is in front of it.
    NotWired,
    /// Nothing is done, and why.
    LeftAlone(String),
}

/// A file as it would become.
pub struct Rewrite {
    /// Each entry that was asked for, in the file's order.
    pub entries: Vec<(Entry, Fate)>,
    /// After `unwire`: whether the content is, to the byte, what it was before anything was wired.
    pub is_original: bool,
    content: String,
    shown: (String, String),
    record: FileRecord,
}

/// Why a file was not rewritten. It is what it was.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// See [`WriteError`].
    #[error(transparent)]
    Write(#[from] WriteError),
    /// See [`RecordError`].
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Rewrite {
    /// Puts the gate in front of the entries that `is_meant` picks.
    pub fn wire(
        file: &ConfigFile,
        record: &Record,
        line: &GateLine,
        is_meant: &dyn Fn(&Entry) -> bool,
    ) -> Result<Rewrite, Unreadable> {
        let document = &file.document;
        let mut entries = Vec::new();
        let mut edits = Vec::new();
        let mut records = Vec::new();
        for site in sites(document).map_err(|fault| file.unreadable(fault))? {
            let entry = read(document, &site);
            if !is_meant(&entry) {
                continue;
            }
            let fate = match &entry.wiring {
                Wiring::Gate { posture, obeys } => already(posture.as_deref(), *obeys, line),
                Wiring::Published => Fate::LeftAlone(
                    "the published client's proxy is in front of it: take that away with `mcpindex-config-wire unwire` first"
                        .to_owned(),
                ),
                Wiring::Direct => match wire(document, &site, line) {
                    Ok(change) if is_sound(document, &site, &entry, &change.edits, &change.undo) => {
                        edits.extend(change.edits);
                        records.push(EntryRecord {
                            path: site.path.clone(),
                            undo: change.undo,
                        });
                        Fate::Wired
                    }
                    Ok(_) => Fate::LeftAlone(
                        "an edit of it could not be taken back to the byte: wire it by hand".to_owned(),
                    ),
                    Err(reason) => Fate::LeftAlone(reason),
                },
            };
            entries.push((entry, fate));
        }
        let was = file.content();
        let known = record.of(file.target());
        let before = match known {
            Some(known) if known.after == digest(&was) => known.before.clone(),
            Some(known) if is_any_wired(document, known) => None,
            _ => Some(digest(&was)),
        };
        let mut kept = known.map(|known| known.entries.clone()).unwrap_or_default();
        kept.retain(|kept| records.iter().all(|new| new.path != kept.path));
        kept.extend(records);
        Ok(Rewrite::of(file, entries, edits, before, kept))
    }

    /// Takes the gate away from the entries that `is_meant` picks.
    pub fn unwire(
        file: &ConfigFile,
        record: &Record,
        is_meant: &dyn Fn(&Entry) -> bool,
    ) -> Result<Rewrite, Unreadable> {
        let document = &file.document;
        let known = record.of(file.target());
        let mut kept = known.map(|known| known.entries.clone()).unwrap_or_default();
        let mut entries = Vec::new();
        let mut edits = Vec::new();
        for site in sites(document).map_err(|fault| file.unreadable(fault))? {
            let entry = read(document, &site);
            if !is_meant(&entry) {
                continue;
            }
            let fate = match &entry.wiring {
                Wiring::Direct => Fate::NotWired,
                Wiring::Published => Fate::LeftAlone(
                    "the published client wired it: `mcpindex-config-wire unwire` takes that away".to_owned(),
                ),
                Wiring::Gate { .. } => match taken_back(document, &site, &entry, &kept) {
                    Ok(change) => {
                        edits.extend(change);
                        kept.retain(|kept| kept.path != site.path);
                        Fate::Unwired
                    }
                    Err(reason) => Fate::LeftAlone(reason),
                },
            };
            entries.push((entry, fate));
        }
        let before = known
            .filter(|known| known.after == digest(&file.content()))
            .and_then(|known| known.before.clone());
        Ok(Rewrite::of(file, entries, edits, before, kept))
    }

    fn of(
        file: &ConfigFile,
        entries: Vec<(Entry, Fate)>,
        edits: Vec<Edit>,
        before: Option<String>,
        kept: Vec<EntryRecord>,
    ) -> Rewrite {
        let text = apply(&file.document.text, edits);
        let content = file.with_bom(&text);
        let after = digest(&content);
        let new = Document::parse(file.format(), text);
        let shown = (
            shown(&file.document),
            new.map_or_else(|_| String::new(), |new| shown(&new)),
        );
        Rewrite {
            entries,
            is_original: before.as_ref() == Some(&after),
            content,
            shown,
            record: FileRecord {
                before,
                after,
                entries: kept,
            },
        }
    }

    /// Whether anything of the file changes.
    pub fn changes(&self) -> bool {
        self.entries
            .iter()
            .any(|(_, fate)| matches!(fate, Fate::Wired | Fate::Unwired))
    }

    /// The file's text before and after, fit for a diff: every value that may hold a credential is left out.
    pub fn shown(&self) -> (&str, &str) {
        (&self.shown.0, &self.shown.1)
    }

    /// Writes the file, and remembers how it was.
    pub fn write(&self, file: &ConfigFile, record: &mut Record) -> Result<(), RewriteError> {
        let wires = self.entries.iter().any(|(_, fate)| *fate == Fate::Wired);
        if !wires {
            // What is remembered is needed until the file is what it was.
            file.replace(&self.content)?;
            record.set(file.target(), Some(self.record.clone()))?;
            return Ok(());
        }
        let earlier = record.set(file.target(), Some(self.record.clone()))?;
        if let Err(error) = file.replace(&self.content) {
            record.set(file.target(), earlier)?;
            return Err(error.into());
        }
        Ok(())
    }
}

fn already(posture: Option<&str>, obeys: bool, line: &GateLine) -> Fate {
    let now = posture.unwrap_or(Posture::Guard.name());
    match line.posture {
        Some(asked) if asked.name() != now => Fate::LeftAlone(format!(
            "it is behind the gate already, under {now}: unwire it first to have it under {}",
            asked.name()
        )),
        _ if line.obeys && !obeys => Fate::LeftAlone(
            "it is behind the gate already, without --approvals: unwire it first to have it obey the index"
                .to_owned(),
        ),
        _ => Fate::AlreadyWired,
    }
}

fn is_any_wired(document: &Document, known: &FileRecord) -> bool {
    let sites = sites(document).unwrap_or_default();
    sites.iter().any(|site| {
        matches!(read(document, site).wiring, Wiring::Gate { .. })
            && known.entries.iter().any(|entry| entry.path == site.path)
    })
}

/// See the module.
fn is_sound(document: &Document, site: &Site<'_>, entry: &Entry, edits: &[Edit], undo: &[Undo]) -> bool {
    let wired = apply(&document.text, edits.to_vec());
    let Ok(wired) = Document::parse(document.format, wired) else {
        return false;
    };
    let Some(node) = wired.root.as_ref().and_then(|root| root.at(&site.path)) else {
        return false;
    };
    let new = Site { node, ..site.clone() };
    let found = read(&wired, &new);
    let is_gated = matches!(found.wiring, Wiring::Gate { .. }) && found.launch == entry.launch;
    let taken_back = unwire(&wired, node, undo).map(|edits| apply(&wired.text, edits));
    is_gated && taken_back.as_ref() == Ok(&document.text)
}

/// The edits that take the gate away from one entry, tried.
fn taken_back(
    document: &Document,
    site: &Site<'_>,
    entry: &Entry,
    known: &[EntryRecord],
) -> Result<Vec<Edit>, String> {
    let by_hand = match &entry.launch {
        Launch::Url(_) => "the address behind its `--url`",
        _ => "what stands behind its `--`",
    };
    let Some(known) = known.iter().find(|known| known.path == site.path) else {
        return Err(format!(
            "there is no record of how it was written: put back {by_hand} by hand"
        ));
    };
    let changed = |reason: String| {
        format!("it was edited since it was wired, and {reason}: put back {by_hand} by hand")
    };
    let edits = unwire(document, site.node, &known.undo).map_err(changed)?;
    let result = Document::parse(document.format, apply(&document.text, edits.clone()));
    let is_direct = result.is_ok_and(|result| {
        let node = result.root.as_ref().and_then(|root| root.at(&site.path));
        node.is_some_and(|node| {
            let new = Site { node, ..site.clone() };
            let found = read(&result, &new);
            found.wiring == Wiring::Direct && !matches!(found.launch, Launch::Other(_))
        })
    });
    if is_direct {
        Ok(edits)
    } else {
        Err(changed("what it was does not fit any more".to_owned()))
    }
}
