//! Taking away a folder that somebody else filled: however deep it is, whatever its modes, wherever its links lead.
//!
//! A program in a jail can make folders within folders by the hundred thousand. Who descends into them needs a frame of the stack and an
//! open file for each, so nobody descends: what is inside of a folder's folders is moved up, one level at a time.
//!
//! Invariant: no link is followed, and depth costs neither stack nor open files.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

/// How often it is begun anew where something appears meanwhile: what was killed a moment ago may still end a call.
const ATTEMPTS: usize = 3;

/// Removes the folder and all that is below it. One that is not there is none to remove.
pub fn remove_all(folder: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for _ in 0..ATTEMPTS {
        outcome = match empty(folder).and_then(|()| Ok(rustix::fs::rmdir(folder)?)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other,
        };
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn empty(folder: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let top = rustix::fs::open(folder, flags, Mode::empty()).or_else(|error| match error {
        rustix::io::Errno::ACCESS => {
            rustix::fs::chmod(folder, Mode::RWXU)?;
            rustix::fs::open(folder, flags, Mode::empty())
        }
        error => Err(error),
    })?;
    let _ = rustix::fs::fchmod(&top, Mode::RWXU);
    let mut moved = 0_u64;
    loop {
        let folders = remove_files(&top)?;
        if folders.is_empty() {
            return Ok(());
        }
        for name in folders {
            let inner = open(&top, &name)?;
            for below in remove_files(&inner)? {
                // It says in itself what is above it, so it has to be writable.
                drop(open(&inner, &below)?);
                moved = move_up(&inner, &below, &top, moved)?;
            }
            rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

/// Moves a folder to a free name of the top folder; gives back the next number to try.
fn move_up(from: &OwnedFd, name: &CString, top: &OwnedFd, mut number: u64) -> io::Result<u64> {
    loop {
        let target = format!("moved-{number}");
        number += 1;
        match rustix::fs::renameat(from, name, top, target.as_str()) {
            Ok(()) => return Ok(number),
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST | rustix::io::Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A folder that refused its owner something, made to refuse nothing.
fn open(above: &OwnedFd, name: &CString) -> io::Result<OwnedFd> {
    // What is called so was a folder a moment ago, and those who could have put a link there are gone.
    let _ = rustix::fs::chmodat(above, name, Mode::RWXU, AtFlags::empty());
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(above, name, flags, Mode::empty())?)
}

/// Removes what is no folder, and names the folders.
fn remove_files(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Unknown => {
                let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(found.st_mode) == FileType::Directory
            }
            kind => kind == FileType::Directory,
        };
        if is_folder {
            folders.push(name.to_owned());
        } else {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// More than a stack or a path can hold, or than files can be open.
    const DEPTH: usize = 30_000;

    #[test]
    fn depth_costs_neither_stack_nor_open_files() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("deep");
        fs::create_dir(&folder).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut inner = rustix::fs::open(&folder, flags, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            rustix::fs::mkdirat(&inner, "moved-1", Mode::RWXU).unwrap();
            inner = rustix::fs::openat(&inner, "moved-1", flags, Mode::empty()).unwrap();
        }
        drop(inner);
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let removed = small.spawn(move || remove_all(&folder)).unwrap().join().unwrap();
        removed.unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_removed_and_not_what_they_lead_to() {
        let (parent, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("kept"), "").unwrap();
        let folder = parent.path().join("folder");
        fs::create_dir_all(folder.join("inner/moved-0")).unwrap();
        fs::write(folder.join("moved-0"), "a file where a folder would go").unwrap();
        for link in ["link", "inner/link", "inner/moved-0/link"] {
            std::os::unix::fs::symlink(elsewhere.path(), folder.join(link)).unwrap();
        }
        remove_all(&folder).unwrap();
        assert!(!folder.exists() && elsewhere.path().join("kept").exists());
        // A link in place of the folder itself stays, and so does what it leads to.
        std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
        assert!(remove_all(&folder).is_err());
        assert!(elsewhere.path().join("kept").exists());
    }

    #[test]
    fn modes_are_no_hindrance_and_what_is_not_there_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        fs::create_dir_all(folder.join("outer/inner")).unwrap();
        for name in ["outer/inner", "outer", ""] {
            fs::set_permissions(folder.join(name), Permissions::from_mode(0o000)).unwrap();
        }
        remove_all(&folder).unwrap();
        assert!(!folder.exists());
        remove_all(&folder).unwrap();
    }
}
