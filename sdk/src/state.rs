//! Where mcpindex keeps what it remembers on this machine, and how a file there is read and replaced.
//!
//! Invariant: a file is written whole, to a new name in the same directory, synced and renamed over the old one, so that a
//! crash leaves the old content or the new one and never a part; directories are 0700 and files 0600. What is read is a
//! regular file of this user's, reached without following a link.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The variable that names the state directory.
const VARIABLE: &str = "MCPINDEX_STATE_DIR";

/// The state directory: `MCPINDEX_STATE_DIR`, else `~/.mcpindex`. The published client keeps its own files in the same
/// directory (`pins/`, `pending.json`, `consent.json`): they are read and never written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDirectory {
    path: PathBuf,
}

/// Why there is no state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The variable names no absolute path.
    #[error("MCPINDEX_STATE_DIR must be an absolute path, and `{0}` is none")]
    Relative(PathBuf),
    /// Neither the variable nor a home directory is there.
    #[error("there is no home directory to keep pins in: set MCPINDEX_STATE_DIR to an absolute path")]
    NoHome,
}

impl StateDirectory {
    /// From `MCPINDEX_STATE_DIR`, else the home directory. An empty variable counts as none.
    pub fn from_environment() -> Result<StateDirectory, StateError> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        StateDirectory::choose(named.map(PathBuf::from), std::env::home_dir())
    }

    fn choose(named: Option<PathBuf>, home: Option<PathBuf>) -> Result<StateDirectory, StateError> {
        if let Some(path) = named {
            return match path.is_absolute() {
                true => Ok(StateDirectory { path }),
                false => Err(StateError::Relative(path)),
            };
        }
        // An empty HOME is a relative path too.
        let home = home.filter(|home| home.is_absolute()).ok_or(StateError::NoHome)?;
        Ok(StateDirectory::at(home.join(".mcpindex")))
    }

    /// This directory.
    pub fn at(path: impl Into<PathBuf>) -> StateDirectory {
        StateDirectory { path: path.into() }
    }

    /// The directory itself. It need not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the gate's records are.
    pub fn gate(&self) -> PathBuf {
        self.path.join("gate")
    }
}

/// Replaces `path` by `bytes`: see the module. The directory is made when it is missing. What stood there, a symbolic link
/// included, is replaced and not followed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomically_with(path, |file| file.write_all(bytes))
}

/// The same with what `write` writes piece by piece, so that nobody needs all of a long content at once.
pub(crate) fn write_atomically_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    make_directory(directory)?;
    // A new name is made with mode 0600, and removed again unless it takes its place.
    let mut fresh = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
    write(fresh.as_file_mut())?;
    fresh.as_file().sync_all()?;
    fresh.persist(path).map_err(|error| error.error)?;
    sync_directory(directory)
}

/// Makes a directory and what is missing above it, for this user alone.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a rename or a removal in this directory last.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Opens a file to lock it, making it when it is missing; a link is not followed.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
}

/// A file that was read: still open, so that no other file can take its place under the same inode number.
pub(crate) struct OwnFile {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
    pub(crate) bytes: Vec<u8>,
}

/// Why there is nothing to read where a file of this user's is due.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRead {
    #[error("it is a symbolic link, which is not followed")]
    Link,
    #[error("it is a directory, not a file")]
    Directory,
    #[error("it is no regular file")]
    NoFile,
    #[error("it belongs to user {owner} and this process runs as user {user}: run it as the owner")]
    OtherOwner { owner: u32, user: u32 },
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error("{}", said(.0))]
    Failed(#[from] io::Error),
}

impl From<NotRead> for io::Error {
    fn from(error: NotRead) -> io::Error {
        match error {
            NotRead::Failed(error) => error,
            other => io::Error::other(other),
        }
    }
}

/// Reads a file of this user's; `None` when there is none.
pub(crate) fn read_own_file(path: &Path, limit: u64) -> Result<Option<OwnFile>, NotRead> {
    let opened = OpenOptions::new()
        .read(true)
        // Without waiting, since a pipe may stand there.
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(NotRead::Link);
        }
        Err(error) => return Err(NotRead::Failed(error)),
    };
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(NotRead::Directory);
    }
    if !metadata.is_file() {
        return Err(NotRead::NoFile);
    }
    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner != user {
        return Err(NotRead::OtherOwner { owner, user });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(limit)).unwrap_or_default());
    (&file).take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(NotRead::TooLarge(limit));
    }
    Ok(Some(OwnFile {
        file,
        metadata,
        bytes,
    }))
}

/// What the system said, in words that help.
pub(crate) fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::FileTooLarge => "the system allows no file of this size".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotADirectory => "a part of the path is no directory".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory, not a file".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_variable_comes_before_the_home_directory() {
        let check = |named: Option<&str>, home: Option<&str>, expected: Result<&str, &str>| {
            let chosen = StateDirectory::choose(named.map(PathBuf::from), home.map(PathBuf::from));
            let shown = chosen
                .map(|state| state.path().display().to_string())
                .map_err(|error| error.to_string());
            assert_eq!(shown, expected.map(str::to_owned).map_err(str::to_owned));
        };
        check(Some("/state"), Some("/home/a"), Ok("/state"));
        check(None, Some("/home/a"), Ok("/home/a/.mcpindex"));
        check(
            Some("state"),
            Some("/home/a"),
            Err("MCPINDEX_STATE_DIR must be an absolute path, and `state` is none"),
        );
        let no_home =
            "there is no home directory to keep pins in: set MCPINDEX_STATE_DIR to an absolute path";
        check(None, None, Err(no_home));
        check(None, Some(""), Err(no_home));
    }

    #[test]
    fn a_file_and_its_directories_are_for_this_user_alone() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("state/gate/a.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&parent.path().join("state")), 0o700);
        assert_eq!(mode(&parent.path().join("state/gate")), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a.json");
        fs::create_dir(&path).unwrap();
        assert!(write_atomically(&path, b"one").is_err());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a");
        let check = |expected: &str| {
            let error = read_own_file(&path, 3).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), Some(expected));
        };
        assert!(read_own_file(&path, 3).unwrap().is_none());
        fs::write(&path, "abcd").unwrap();
        check("it is larger than 3 bytes");
        fs::rename(&path, parent.path().join("b")).unwrap();
        symlink("b", &path).unwrap();
        check("it is a symbolic link, which is not followed");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        check("it is a directory, not a file");
        let below = read_own_file(&parent.path().join("b/c"), 3).err();
        assert_eq!(
            below.map(|error| error.to_string()).as_deref(),
            Some("a part of the path is no directory")
        );
    }
}
