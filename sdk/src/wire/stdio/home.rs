//! The directory that a server gets for its own: empty, and called the same at every look.
//!
//! Some servers name the directory that they run in within a definition (where images go, what is mounted): a new name at
//! each look would be a drift at each look. So the name follows from the caller's label alone, and a lock on the directory
//! keeps two looks apart; one that finds it in use gets a directory of a new name.
//!
//! Invariant: what is used was made empty by us, and is removed afterwards, however deep a server made it and whatever it did to its permissions.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mcpindex_contract::digest::Digest;

use crate::sandbox::remove_all;

/// For us alone: other users of the machine neither read what a server writes nor put anything there.
const MODE: u32 = 0o700;

/// One server's directory; removed when dropped.
pub(super) struct Home {
    path: PathBuf,
    /// Held as long as the directory is ours; `None` for one of a new name, which nobody else can know.
    lock: Option<File>,
}

impl Home {
    /// The directory of this label below `parent`, or one of a new name when there is no label or it is in use.
    pub(super) fn make(label: Option<&str>, parent: &Path) -> io::Result<Home> {
        if let Some(home) = label.and_then(|label| Home::of_label(label, parent)) {
            return Ok(home);
        }
        let fresh = tempfile::Builder::new()
            .prefix("mcpindex-")
            .permissions(Permissions::from_mode(MODE))
            .tempdir_in(parent)?;
        Ok(Home {
            path: fresh.keep(),
            lock: None,
        })
    }

    fn of_label(label: &str, parent: &Path) -> Option<Home> {
        let path = parent.join(format!("mcpindex-{}", &Digest::of_raw(label).hex()[..16]));
        if fs::symlink_metadata(&path).is_ok_and(|left| left.is_dir()) {
            // Nobody holds the lock of what a killed process left.
            let left = File::open(&path).ok()?;
            left.try_lock().ok()?;
            let _ = remove_all(&path);
        }
        DirBuilder::new().mode(MODE).create(&path).ok()?;
        let lock = File::open(&path).ok()?;
        lock.try_lock().ok()?;
        // Before it was locked, another process may have taken it for one that was left, and have made its own.
        let is_ours = fs::metadata(&path).ok()?.ino() == lock.metadata().ok()?.ino();
        is_ours.then_some(Home {
            path,
            lock: Some(lock),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the next look with this label gets a directory of the same name.
    pub(super) fn is_lasting(&self) -> bool {
        self.lock.is_some()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = remove_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_label_is_one_path_and_two_are_two() {
        let parent = tempfile::tempdir().unwrap();
        let path = |label| Home::make(Some(label), parent.path()).unwrap().path().to_owned();
        assert_eq!(path("a"), path("a"));
        assert_ne!(path("a"), path("b"));
        assert!(!path("a").exists(), "it is gone once nobody uses it");
    }

    #[test]
    fn two_looks_at_once_never_share_a_directory() {
        let parent = tempfile::tempdir().unwrap();
        let first = Home::make(Some("a"), parent.path()).unwrap();
        let second = Home::make(Some("a"), parent.path()).unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!((first.is_lasting(), second.is_lasting()), (true, false));
    }

    #[test]
    fn what_a_killed_process_left_is_emptied_and_used_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = Home::make(Some("a"), parent.path()).unwrap().path().to_owned();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("left"), "").unwrap();
        let home = Home::make(Some("a"), parent.path()).unwrap();
        assert_eq!((home.path(), home.is_lasting()), (path.as_path(), true));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_or_a_file_in_its_place_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let path = Home::make(Some("a"), parent.path()).unwrap().path().to_owned();
        std::os::unix::fs::symlink(elsewhere.path(), &path).unwrap();
        let home = Home::make(Some("a"), parent.path()).unwrap();
        assert_ne!(home.path(), path);
        assert!(elsewhere.path().exists());
    }

    #[test]
    fn folders_that_refuse_changes_are_removed_too() {
        let parent = tempfile::tempdir().unwrap();
        let home = Home::make(None, parent.path()).unwrap();
        let inner = home.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "").unwrap();
        for folder in [&inner, &home.path().join("outer")] {
            fs::set_permissions(folder, Permissions::from_mode(0o500)).unwrap();
        }
        drop(home);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
