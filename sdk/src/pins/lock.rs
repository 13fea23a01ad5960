//! A lock among processes, waited for with a limit.
//!
//! Invariant: it is the system's own lock on an open file, so one whose holder was killed is free again; the lock's file is
//! never removed, since whoever waits for it holds it open.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::state::open_lock;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process held it all the time.
    Busy,
    /// It can't be locked at all.
    Failed(io::Error),
}

/// Locks `path`, which is made when it is missing (its directory must be there), waiting for at most `limit`.
pub(crate) fn lock(path: &Path, limit: Duration) -> Result<Lock, LockError> {
    let file = open_lock(path).map_err(LockError::Failed)?;
    match file.try_lock() {
        Ok(()) => return Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(LockError::Failed(error)),
    }
    // The system's lock can't be waited for with a limit, so another thread waits. When nobody listens any more, what it
    // gets in the end is dropped with the message.
    let (sender, receiver) = mpsc::sync_channel(1);
    let wait = move || {
        let locked = file.lock().map(|()| Lock(file));
        drop(sender.send(locked));
    };
    let waiting = thread::Builder::new().name("pins-lock".to_owned()).spawn(wait);
    waiting.map_err(LockError::Failed)?;
    match receiver.recv_timeout(limit) {
        Ok(locked) => locked.map_err(LockError::Failed),
        Err(_) => Err(LockError::Busy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_lock_that_is_held_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.lock");
        let held = lock(&path, LONG).unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiter = thread::spawn({
            let path = path.clone();
            move || {
                sender.send("waiting").unwrap();
                lock(&path, LONG).map(|_| sender.send("locked").unwrap()).unwrap();
            }
        });
        assert_eq!(receiver.recv_timeout(LONG), Ok("waiting"));
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(held);
        assert_eq!(receiver.recv_timeout(LONG), Ok("locked"));
        waiter.join().unwrap();
    }

    #[test]
    fn waiting_has_an_end_and_whoever_gave_up_holds_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.lock");
        let held = lock(&path, LONG).unwrap();
        let gave_up = lock(&path, Duration::ZERO);
        assert!(matches!(gave_up, Err(LockError::Busy)), "{gave_up:?}");
        drop(held);
        lock(&path, LONG).unwrap();
    }
}
