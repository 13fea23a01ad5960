//! One configuration file on the disk: read whole, and replaced only if it is still what was read.
//!
//! Invariant: the bytes are compared right before the new file takes the old one's place; a link stays a link, and the
//! mode and the owner of the file stay what they were.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use crate::state::sync_directory;

use super::document::{Document, Fault, Format, position};

/// The largest file that is read, in bytes. Claude Code's own grows to some megabytes.
pub const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

const BOM: &str = "\u{feff}";

/// A file that could be read.
pub struct ConfigFile {
    path: PathBuf,
    target: PathBuf,
    has_bom: bool,
    pub(super) document: Document,
}

/// Why a file can't be read, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", path.display(), at(*position))]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// Line and column, both from 1, when one place is at fault.
    pub position: Option<(usize, usize)>,
    /// What is wrong and, where that is not plain, what to do.
    pub reason: String,
}

fn at(position: Option<(usize, usize)>) -> String {
    position.map_or_else(String::new, |(line, column)| format!(":{line}:{column}"))
}

/// Why a file was not replaced. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Somebody else wrote it in the meantime.
    #[error("{}: it changed since it was shown, so nothing was written: run the command again", .0.display())]
    Changed(PathBuf),
    /// The file or its folder is not to be written.
    #[error("{}: it or its folder is read-only, so nothing was written: change that first, if it is meant to be wired", .0.display())]
    ReadOnly(PathBuf),
    /// The system refused.
    #[error("{}: nothing was written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ConfigFile {
    /// Reads and parses a file.
    pub fn read(path: &Path) -> Result<ConfigFile, Unreadable> {
        let unreadable = |position, reason: String| Unreadable {
            path: path.to_owned(),
            position,
            reason,
        };
        let target = path
            .canonicalize()
            .map_err(|error| unreadable(None, why(&error, path)))?;
        let bytes = read_bytes(&target).map_err(|error| unreadable(None, why(&error, path)))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(unreadable(
                None,
                format!("it is larger than {MAX_FILE_BYTES} bytes, which no host's configuration is"),
            ));
        }
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return Err(unreadable(None, "it is UTF-16: save it as UTF-8".to_owned()));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
            unreadable(
                Some(position(&before, before.len())),
                "it is not UTF-8 from here on".to_owned(),
            )
        })?;
        let (has_bom, text) = match text.strip_prefix(BOM) {
            Some(text) => (true, text.to_owned()),
            None => (false, text),
        };
        let format = Format::of(path, &text);
        let for_position = text.clone();
        let document = Document::parse(format, text).map_err(|Fault { offset, problem }| {
            unreadable(Some(position(&for_position, offset)), problem)
        })?;
        Ok(ConfigFile {
            path: path.to_owned(),
            target,
            has_bom,
            document,
        })
    }

    /// The path under which it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself, links followed.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.document.format
    }

    pub(super) fn content(&self) -> String {
        self.with_bom(&self.document.text)
    }

    pub(super) fn with_bom(&self, text: &str) -> String {
        if self.has_bom {
            format!("{BOM}{text}")
        } else {
            text.to_owned()
        }
    }

    pub(super) fn unreadable(&self, fault: Fault) -> Unreadable {
        Unreadable {
            path: self.path.clone(),
            position: Some(self.document.position(fault.offset)),
            reason: fault.problem,
        }
    }

    /// Puts `content` in the file's place, if the file still holds what was read.
    pub fn replace(&self, content: &str) -> Result<(), WriteError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                WriteError::ReadOnly(self.path.clone())
            }
            _ => WriteError::Io {
                path: self.path.clone(),
                source,
            },
        };
        let folder = self.target.parent().unwrap_or(Path::new("."));
        let metadata = self.target.metadata().map_err(failed)?;
        let mode = metadata.permissions();
        // Whoever may write all the same (an administrator) is not meant to by this command.
        if mode.readonly() || folder.metadata().map_err(failed)?.permissions().readonly() {
            return Err(WriteError::ReadOnly(self.path.clone()));
        }
        let mut file = tempfile::Builder::new()
            .prefix(".mcpindex-")
            .tempfile_in(folder)
            .map_err(failed)?;
        file.write_all(content.as_bytes()).map_err(failed)?;
        keep_owner(file.as_file(), &metadata).map_err(failed)?;
        file.as_file().set_permissions(mode).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        if read_bytes(&self.target).map_err(failed)? != self.content().as_bytes() {
            return Err(WriteError::Changed(self.path.clone()));
        }
        file.persist(&self.target).map_err(|error| failed(error.error))?;
        sync_directory(folder).map_err(failed)
    }
}

/// A file's bytes, at most one more than [`MAX_FILE_BYTES`].
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // A pipe would never end.
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An administrator who wires somebody's file does not come to own it.
fn keep_owner(file: &File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    fchown(file, Some(before.uid()), Some(before.gid()))
}

fn why(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if path.symlink_metadata().is_ok() => {
            "it is a link that leads to no file".to_owned()
        }
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::IsADirectory => "it is no file".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be read by this user".to_owned(),
        _ => error.to_string(),
    }
}
