//! The record's file: read when it moved, written whole under a lock, missed when it is gone.
//!
//! Every text is hashed when a file is read (what was verified before and did not change is not hashed again), so whoever
//! has a record may trust all of it.
//!
//! Invariant: see [`super`].

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::PinsError;
use super::document::{Document, DocumentError};
use super::index::{Entry, Index, IndexError};
use super::key::ServerKey;
use super::lock::{Lock, LockError, lock};
use super::record::Record;
use crate::state::{
    NotRead, StateDirectory, make_directory, read_own_file, said, sync_directory, write_atomically_with,
};

/// The largest record that is read or written.
pub(super) const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// How much of a record is written at once.
const PIECE_BYTES: usize = 64 << 10;

/// How long another process may take for an update.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// What one `stat` says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    Absent,
    Failed(io::ErrorKind),
    There {
        device: u64,
        inode: u64,
        size: u64,
        /// Seconds and nanoseconds of the last change of the content and of the file.
        times: [i64; 4],
    },
}

impl Mark {
    fn at(path: &Path) -> Mark {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Mark::of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Mark::Absent,
            Err(error) => Mark::Failed(error.kind()),
        }
    }

    fn of(metadata: &Metadata) -> Mark {
        Mark::There {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            times: [
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ],
        }
    }
}

/// What was read last.
struct Seen {
    mark: Mark,
    /// The list's, where there was no record and the list said that there need be none.
    index_mark: Option<Mark>,
    /// `None` when it could not be read.
    record: Option<Arc<Record>>,
    /// Open, so that no file that replaces this one can have its inode number: marks of clocks are coarse.
    _file: Option<File>,
}

/// The record of one server in a state directory.
pub(super) struct RecordFile {
    state: StateDirectory,
    key: ServerKey,
    path: PathBuf,
    index: Index,
    lock_limit: Duration,
    seen: Option<Seen>,
    notice: Option<String>,
}

impl RecordFile {
    pub(super) fn new(state: &StateDirectory, key: &ServerKey) -> RecordFile {
        RecordFile {
            state: state.clone(),
            path: state.gate().join(key.file_name()),
            key: key.clone(),
            index: Index::of(state, LOCK_LIMIT),
            lock_limit: LOCK_LIMIT,
            seen: None,
            notice: None,
        }
    }

    pub(super) fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    pub(super) fn has_moved(&self) -> bool {
        self.seen.as_ref().is_none_or(|seen| {
            seen.mark != Mark::at(&self.path)
                || (seen.index_mark.as_ref()).is_some_and(|mark| *mark != Mark::at(&self.index.path()))
        })
    }

    pub(super) fn record(&mut self) -> Result<Arc<Record>, PinsError> {
        if let Some(Seen {
            record: Some(record), ..
        }) = &self.seen
            && !self.has_moved()
        {
            return Ok(Arc::clone(record));
        }
        // Before they are read, so that what comes between is a move.
        let (mark, index_mark) = (Mark::at(&self.path), Mark::at(&self.index.path()));
        match self.read() {
            Ok(read) => {
                let record = Arc::clone(&read.record);
                self.seen = Some(Seen {
                    index_mark: read.file.is_none().then_some(index_mark),
                    mark: read.mark,
                    record: Some(read.record),
                    _file: read.file,
                });
                Ok(record)
            }
            Err(error) => {
                self.seen = Some(Seen {
                    mark,
                    index_mark: Some(index_mark),
                    record: None,
                    _file: None,
                });
                Err(error)
            }
        }
    }

    pub(super) fn update(&mut self, change: impl FnOnce(&mut Record)) -> Result<Arc<Record>, PinsError> {
        let _lock = self.lock()?;
        let record = self.record()?;
        let mut changed = (*record).clone();
        change(&mut changed);
        changed.trim();
        if changed == *record {
            return Ok(record);
        }
        self.index.prepare().map_err(|error| self.index_error(error))?;
        let written = write_atomically_with(&self.path, |file| {
            let bounded = Bounded {
                file,
                left: MAX_BYTES,
            };
            let mut pieces = BufWriter::with_capacity(PIECE_BYTES, bounded);
            Document::write(&self.key, &changed, &mut pieces)?;
            pieces.flush()
        });
        written.map_err(|error| self.not_saved(&not_written(&error)))?;
        let record = Arc::new(changed);
        self.seen = match File::open(&self.path).and_then(|file| Ok((Mark::of(&file.metadata()?), file))) {
            Ok((mark, file)) => Some(Seen {
                mark,
                index_mark: None,
                record: Some(Arc::clone(&record)),
                _file: Some(file),
            }),
            // It is read again when it is asked for.
            Err(_) => None,
        };
        self.list(&record).map_err(|error| self.index_error(error))?;
        Ok(record)
    }

    pub(super) fn reset(&mut self) -> Result<(), PinsError> {
        let _lock = self.lock()?;
        self.seen = None;
        match fs::remove_file(&self.path).and_then(|()| sync_directory(&self.state.gate())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.not_saved(&not_written(&error)));
            }
            _ => {}
        }
        let removed = self.index.remove(&self.key.file_name());
        removed.map_err(|error| self.index_error(error))
    }

    fn lock(&self) -> Result<Lock, PinsError> {
        self.refuse_link()?;
        make_directory(&self.state.gate()).map_err(|error| self.not_saved(&not_written(&error)))?;
        let path = self.path.with_extension("lock");
        lock(&path, self.lock_limit).map_err(|error| match error {
            LockError::Busy => self.busy(&path),
            LockError::Failed(error) => self.not_saved(&not_written(&error)),
        })
    }

    /// A link in place of the records' directory would lead elsewhere what is read and written.
    fn refuse_link(&self) -> Result<(), PinsError> {
        match fs::symlink_metadata(self.state.gate()) {
            Ok(gate) if gate.is_symlink() => Err(self.unreadable(
                "its directory is a symbolic link, which is not followed: set MCPINDEX_STATE_DIR instead",
            )),
            _ => Ok(()),
        }
    }

    /// The record as it is, and whether it has to be there.
    fn read(&mut self) -> Result<Read, PinsError> {
        self.refuse_link()?;
        let own = read_own_file(&self.path, MAX_BYTES).map_err(|error| {
            let reason = error.to_string();
            match error {
                // There is nothing wrong with the record itself.
                NotRead::OtherOwner { .. } => self.unreadable(&reason),
                NotRead::Failed(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.unreadable(&format!("{reason}: let this user read it"))
                }
                _ => self.damaged(&self.path, &reason),
            }
        })?;
        let record = match &own {
            Some(own) => Some(self.parse(&own.bytes)?),
            None => None,
        };
        let file_name = self.key.file_name();
        let (listed, notice) = self
            .index
            .entry(&file_name)
            .map_err(|error| self.index_error(error))?;
        if notice.is_some() {
            self.notice = notice;
        }
        let Some((own, record)) = own.zip(record) else {
            return match listed {
                Some(_) => Err(PinsError::Gone {
                    server: self.key.identity.to_string(),
                    path: self.path.display().to_string(),
                }),
                None => Ok(Read {
                    mark: Mark::Absent,
                    record: Arc::default(),
                    file: None,
                }),
            };
        };
        let is_listed = listed.is_some();
        let tools_listed = listed.is_some_and(|entry| entry.tools);
        if tools_listed && record.is_empty() {
            return Err(self.altered("it has no pins, and tools of this server were pinned before"));
        }
        if !is_listed || tools_listed == record.is_empty() {
            // A crash came between the two writes. Where it can't be mended now, the next update says so.
            drop(self.list(&record));
        }
        Ok(Read {
            mark: Mark::of(&own.metadata),
            record: Arc::new(record),
            file: Some(own.file),
        })
    }

    fn parse(&self, bytes: &[u8]) -> Result<Record, PinsError> {
        let document = Document::read(bytes).map_err(|error| match error {
            DocumentError::Newer(version) => PinsError::Newer {
                server: self.key.identity.to_string(),
                version,
            },
            DocumentError::Damaged(reason) => self.damaged(&self.path, &reason),
        })?;
        match document.key() {
            Some(key) if key == self.key => {}
            Some(key) => {
                let reason = format!("it is the record of {} ({})", key.identity, key.context);
                return Err(self.altered(&reason));
            }
            None => return Err(self.altered("it does not say whose record it is")),
        }
        let known = self.seen.as_ref().and_then(|seen| seen.record.clone());
        let verified = document.record.verify(&known.unwrap_or_default());
        verified.map_err(|reason| self.altered(&reason))?;
        Ok(document.record)
    }

    /// Puts the server onto the list of those that were pinned, unless all that is known of it stands there.
    fn list(&self, record: &Record) -> Result<(), IndexError> {
        let file_name = self.key.file_name();
        let tools = !record.is_empty();
        match self.index.entry(&file_name)? {
            (Some(entry), _) if entry.tools == tools => Ok(()),
            _ => self.index.insert(&file_name, Entry::of(&self.key, tools)),
        }
    }

    fn unreadable(&self, reason: &str) -> PinsError {
        PinsError::Unreadable {
            server: self.key.identity.to_string(),
            path: self.path.display().to_string(),
            reason: reason.to_owned(),
        }
    }

    fn damaged(&self, path: &Path, reason: &str) -> PinsError {
        let server = self.key.identity.to_string();
        let reason = format!("{reason}; restore it, or `mcpindex pins reset {server}` to trust it anew");
        let path = path.display().to_string();
        PinsError::Unreadable { server, path, reason }
    }

    fn altered(&self, reason: &str) -> PinsError {
        PinsError::Altered {
            server: self.key.identity.to_string(),
            path: self.path.display().to_string(),
            reason: reason.to_owned(),
        }
    }

    fn not_saved(&self, reason: &str) -> PinsError {
        PinsError::NotSaved {
            server: self.key.identity.to_string(),
            path: self.path.display().to_string(),
            reason: reason.to_owned(),
        }
    }

    fn busy(&self, path: &Path) -> PinsError {
        PinsError::Busy {
            server: self.key.identity.to_string(),
            path: path.display().to_string(),
            seconds: self.lock_limit.as_secs(),
        }
    }

    fn index_error(&self, error: IndexError) -> PinsError {
        let server = self.key.identity.to_string();
        let path = self.index.path();
        match error {
            IndexError::Busy => self.busy(&path.with_extension("lock")),
            IndexError::Newer(version) => PinsError::Newer { server, version },
            IndexError::Unreadable(reason) => self.damaged(&path, &reason),
            IndexError::NotSaved(reason) => PinsError::NotSaved {
                server,
                path: path.display().to_string(),
                reason,
            },
        }
    }
}

/// A record on its way into its file, unless it is too large to be read again.
struct Bounded<W> {
    file: W,
    left: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(io::Error::other(format!(
                "a record of more than {MAX_BYTES} bytes would not be read again"
            )));
        };
        self.file.write_all(bytes)?;
        self.left = left;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What the system said about a write, and what to do about it.
pub(super) fn not_written(error: &io::Error) -> String {
    let said = said(error);
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("{said}: let this user write there, or name another directory with MCPINDEX_STATE_DIR")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("{said}: free some space"),
        _ => said,
    }
}

/// What [`RecordFile::read`] found.
struct Read {
    mark: Mark,
    record: Arc<Record>,
    file: Option<File>,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use mcpindex_contract::definition::Definition;
    use mcpindex_contract::identity::Identity;

    use super::super::record::Via;
    use super::*;

    struct Bench {
        _directory: tempfile::TempDir,
        state: StateDirectory,
        key: ServerKey,
    }

    impl Bench {
        fn new() -> Bench {
            let directory = tempfile::tempdir().unwrap();
            let identity = Identity::from_reference("npm:docs").unwrap().identity;
            Bench {
                state: StateDirectory::at(directory.path().join("state")),
                _directory: directory,
                key: ServerKey::usual(identity),
            }
        }

        fn open(&self) -> RecordFile {
            RecordFile::new(&self.state, &self.key)
        }

        fn path(&self) -> PathBuf {
            self.open().path
        }

        fn index(&self) -> PathBuf {
            self.open().index.path()
        }

        fn pin(&self, tool: &str, text: &str) {
            let change = |record: &mut Record| record.pin(tool, &Definition::read(text), Via::FirstSight, 7);
            self.open().update(change).unwrap();
        }

        /// What a new look says, without what differs between machines.
        fn look(&self) -> String {
            let shown = match self.open().record() {
                Ok(record) => format!("{:?}", record.tools.keys().collect::<Vec<_>>()),
                Err(error) => error.to_string(),
            };
            shown.replace(&self.state.path().display().to_string(), "STATE")
        }
    }

    const A: &str = r#"{"name":"a"}"#;
    const B: &str = r#"{"name":"b","_meta":{"k":1}}"#;

    #[test]
    fn what_is_pinned_is_there_for_the_next_process() {
        let bench = Bench::new();
        assert_eq!(bench.look(), "[]");
        assert!(!bench.state.path().exists(), "looking makes nothing");
        bench.pin("a", A);
        bench.pin("b", B);
        assert_eq!(bench.look(), r#"["a", "b"]"#);
        let mode = fs::metadata(bench.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        insta::assert_snapshot!(fs::read_to_string(bench.path()).unwrap());
        insta::assert_snapshot!(fs::read_to_string(bench.index()).unwrap());
    }

    #[test]
    fn every_prefix_of_a_record_is_a_named_damage() {
        let bench = Bench::new();
        bench.pin("a", A);
        let whole = fs::read(bench.path()).unwrap();
        for length in 0..whole.len() {
            fs::write(bench.path(), &whole[..length]).unwrap();
            let read = bench.open().record();
            if length == whole.len() - 1 {
                assert!(read.is_ok(), "only the last line end is missing");
            } else {
                assert!(
                    matches!(read, Err(PinsError::Unreadable { .. })),
                    "{length}: {read:?}"
                );
                let update = bench.open().update(|record| record.tools.clear());
                assert_eq!(update.map(drop), read.map(drop));
                assert_eq!(
                    fs::read(bench.path()).unwrap(),
                    whole[..length],
                    "nothing is written over"
                );
            }
        }
    }

    #[test]
    fn a_record_that_is_gone_is_missed() {
        let bench = Bench::new();
        bench.pin("a", A);
        fs::remove_file(bench.path()).unwrap();
        let gone = "the pins of npm:docs are gone, though it was pinned before: restore `STATE/gate/docs--1ab25d99ecf1907e.json`, or `mcpindex pins reset npm:docs` to trust it anew";
        assert_eq!(bench.look(), gone);
        fs::remove_dir_all(bench.state.gate()).unwrap();
        assert_eq!(bench.look(), gone);
        let update = bench
            .open()
            .update(|record| record.pin("b", &Definition::read(B), Via::FirstSight, 8));
        assert!(matches!(update, Err(PinsError::Gone { .. })));
        bench.open().reset().unwrap();
        assert_eq!(bench.look(), "[]");
    }

    #[test]
    fn a_record_that_lost_its_pins_is_missed() {
        let bench = Bench::new();
        bench.pin("a", A);
        let mut empty = Vec::new();
        Document::write(&bench.key, &Record::default(), &mut empty).unwrap();
        fs::write(bench.path(), empty).unwrap();
        assert_eq!(
            bench.look(),
            "the pins of npm:docs were altered: `STATE/gate/docs--1ab25d99ecf1907e.json`: it has no pins, and tools of this server were pinned before; restore it, or `mcpindex pins reset npm:docs` to trust it anew"
        );
    }

    #[test]
    fn a_first_approval_taken_back_is_no_lost_pin() {
        let bench = Bench::new();
        let tool = Definition::read(A);
        let digest = tool.digest().to_string();
        let held = bench
            .open()
            .update(|record| record.hold("a", &tool, &[], 7))
            .unwrap();
        bench
            .open()
            .update(|record| assert!(record.approve("a", &digest, 8)))
            .unwrap();
        bench.open().update(|record| *record = (*held).clone()).unwrap();
        assert_eq!(bench.open().record().unwrap(), held);
    }

    #[test]
    fn without_record_and_list_the_machine_is_new() {
        let bench = Bench::new();
        bench.pin("a", A);
        fs::remove_dir_all(bench.state.path()).unwrap();
        assert_eq!(bench.look(), "[]");
    }

    #[test]
    fn a_list_that_is_lost_is_made_anew_from_the_records_and_said() {
        for damage in [None, Some("{"), Some(r#"{"version":0,"servers":{}}"#)] {
            let bench = Bench::new();
            bench.pin("a", A);
            let list = fs::read(bench.index()).unwrap();
            match damage {
                None => fs::remove_file(bench.index()).unwrap(),
                Some(text) => fs::write(bench.index(), text).unwrap(),
            }
            let mut file = bench.open();
            assert_eq!(file.record().unwrap().tools.len(), 1);
            let notice = file.take_notice().unwrap();
            assert!(notice.contains("was made anew"), "{notice}");
            assert_eq!(fs::read(bench.index()).unwrap(), list);
            assert_eq!(bench.open().take_notice(), None);
            let aside = bench.index().with_extension("json.damaged");
            assert_eq!(fs::read_to_string(aside).ok().as_deref(), damage);
        }
    }

    #[test]
    fn a_damaged_list_without_any_record_holds() {
        let bench = Bench::new();
        bench.pin("a", A);
        fs::remove_file(bench.path()).unwrap();
        fs::write(bench.index(), "{").unwrap();
        assert_eq!(
            bench.look(),
            "the pins of npm:docs can't be read: `STATE/gate-servers.json`: EOF while parsing an object at line 1 column 1; restore it, or `mcpindex pins reset npm:docs` to trust it anew"
        );
        bench.open().reset().unwrap();
        assert_eq!(bench.look(), "[]");
    }

    #[test]
    fn a_crash_between_the_record_and_the_list_is_mended_by_the_next_look() {
        let bench = Bench::new();
        bench.pin("a", A);
        fs::write(bench.index(), r#"{"version":1,"servers":{}}"#).unwrap();
        let mut file = bench.open();
        file.record().unwrap();
        assert_eq!(file.take_notice(), None);
        fs::remove_file(bench.path()).unwrap();
        assert!(matches!(bench.open().record(), Err(PinsError::Gone { .. })));
    }

    #[test]
    fn a_newer_version_is_neither_read_nor_written_over() {
        let newer = "the pins of npm:docs were written by a newer mcpindex (version 9): update this one";
        let bench = Bench::new();
        bench.pin("a", A);
        for path in [bench.path(), bench.index()] {
            let before = fs::read(&path).unwrap();
            fs::write(&path, r#"{"version":9,"new":true}"#).unwrap();
            assert_eq!(bench.look(), newer);
            let update = bench.open().update(|record| record.tools.clear());
            assert_eq!(update.unwrap_err().to_string(), newer);
            assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"version":9,"new":true}"#);
            fs::write(&path, before).unwrap();
        }
    }

    #[test]
    fn a_text_that_does_not_hash_to_its_digest_is_named() {
        let check = |from: &str, to: &str, reason: &str| {
            let bench = Bench::new();
            let change = |record: &mut Record| {
                record.pin("a", &Definition::read(A), Via::FirstSight, 7);
                record.pin("b", &Definition::read(B), Via::FirstSight, 7);
                record.hold("a", &Definition::read(r#"{"name":"a","title":"T"}"#), &[], 8);
            };
            bench.open().update(change).unwrap();
            let mut reader = bench.open();
            reader.record().unwrap();
            let text = fs::read_to_string(bench.path()).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(bench.path(), text.replacen(from, to, 1)).unwrap();
            let expected = format!(
                "the pins of npm:docs were altered: `STATE/gate/docs--1ab25d99ecf1907e.json`: {reason}; restore it, or `mcpindex pins reset npm:docs` to trust it anew"
            );
            assert_eq!(bench.look(), expected);
            let again = reader.record();
            assert!(matches!(again, Err(PinsError::Altered { .. })), "{again:?}");
        };
        let a = Definition::read(A).digest();
        check(
            r#"{\"name\":\"a\"}"#,
            r#"{\"name\":\"A\"}"#,
            &format!("the pin of `a` does not hash to {a}"),
        );
        check(
            r#"{\"k\":1}"#,
            r#"{\"k\":2}"#,
            "the `_meta` of `b` does not hash to its digest",
        );
        check(
            r#""a": {"#,
            r#""c": {"#,
            "the pin of `c` is a definition of another tool",
        );
        let held = Definition::read(r#"{"name":"a","title":"T"}"#).digest();
        check(
            r#"\"T\""#,
            r#"\"U\""#,
            &format!("what is held of `a` does not hash to {held}"),
        );
        check("npm:docs", "npm:dogs", "it is the record of npm:dogs (local)");
        check("local", "context:x", "it is the record of npm:docs (context:x)");
        check("npm:docs", "docs", "it does not say whose record it is");
    }

    #[test]
    fn a_link_or_a_directory_in_place_of_the_record_is_refused_and_left_alone() {
        let bench = Bench::new();
        bench.pin("a", A);
        let elsewhere = bench.state.path().join("elsewhere");
        fs::rename(bench.path(), &elsewhere).unwrap();
        let check = |reason: &str| {
            let look = bench.look();
            assert!(look.contains(reason), "{look}");
            let update = bench.open().update(|record| record.tools.clear());
            assert!(matches!(update, Err(PinsError::Unreadable { .. })), "{update:?}");
        };
        symlink(&elsewhere, bench.path()).unwrap();
        check("it is a symbolic link, which is not followed");
        fs::remove_file(bench.path()).unwrap();
        fs::create_dir(bench.path()).unwrap();
        check("it is a directory, not a file");
        fs::remove_dir_all(bench.state.gate()).unwrap();
        symlink(&elsewhere, bench.state.gate()).unwrap();
        assert!(
            bench.look().contains("its directory is a symbolic link"),
            "{}",
            bench.look()
        );
    }

    #[test]
    fn nothing_is_read_or_written_twice_without_need() {
        let bench = Bench::new();
        bench.pin("a", A);
        let mut file = bench.open();
        assert!(file.has_moved());
        let first = file.record().unwrap();
        assert!(!file.has_moved());
        assert!(Arc::ptr_eq(&first, &file.record().unwrap()));
        let before = Mark::at(&bench.path());
        assert!(Arc::ptr_eq(&first, &file.update(|_| {}).unwrap()));
        assert_eq!(Mark::at(&bench.path()), before);
        bench.pin("b", B);
        assert!(file.has_moved());
        assert_eq!(file.record().unwrap().tools.len(), 2);
        file.update(|record| record.pin("c", &Definition::read(r#"{"name":"c"}"#), Via::FirstSight, 9))
            .unwrap();
        assert!(!file.has_moved(), "its own write is no move");
    }

    #[test]
    fn a_first_pin_of_another_process_is_a_move_and_so_is_a_repaired_record() {
        let bench = Bench::new();
        let mut file = bench.open();
        file.record().unwrap();
        assert!(!file.has_moved());
        bench.pin("a", A);
        assert!(file.has_moved());
        let whole = fs::read(bench.path()).unwrap();
        fs::write(bench.path(), "").unwrap();
        file.record().unwrap_err();
        assert!(!file.has_moved());
        fs::write(bench.path(), whole).unwrap();
        assert!(file.has_moved());
        assert_eq!(file.record().unwrap().tools.len(), 1);
    }

    #[test]
    fn a_lock_that_stays_held_is_an_error_of_its_own() {
        let bench = Bench::new();
        bench.pin("a", A);
        let mut file = bench.open();
        let _held = file.lock().unwrap();
        file.lock_limit = Duration::ZERO;
        let error = file
            .update(|record| record.tools.clear())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("the pins of npm:docs are locked by another process"),
            "{error}"
        );
    }

    #[test]
    fn many_updates_at_once_lose_nothing() {
        const WRITERS: usize = 8;
        const UPDATES: usize = 25;
        let bench = Bench::new();
        let bench = &bench;
        let write = |writer: usize| {
            let mut file = bench.open();
            // The machine may be slow, and that is not what is tested.
            file.lock_limit = Duration::from_secs(600);
            file.index = Index::of(&bench.state, file.lock_limit);
            for update in 0..UPDATES {
                let name = format!("{writer}-{update}");
                let definition = Definition::read(&format!(r#"{{"name":"{name}"}}"#));
                file.update(|record| record.pin(&name, &definition, Via::NewTool, 7))
                    .unwrap();
            }
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || write(writer)))
                .collect();
            // Whoever reads meanwhile sees whole records, each with all that the one before had.
            let mut file = bench.open();
            let mut most = 0;
            while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let tools = file.record().unwrap().tools.len();
                assert!(tools >= most, "{tools} after {most}");
                most = tools;
            }
        });
        assert_eq!(bench.open().record().unwrap().tools.len(), WRITERS * UPDATES);
    }
}
