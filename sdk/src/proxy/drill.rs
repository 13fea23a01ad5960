//! A staged hold (`mcpindex wire --drill`): armed by a file, fired by the next call that any gate of this machine sees.
//!
//! Invariant: of many gates exactly one takes the file, since taking it is a rename.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::state::StateDirectory;

/// The file is looked for at most this often, so that a call costs nothing more.
const PAUSE: Duration = Duration::from_secs(1);

/// A call is a short message; a long one need not be searched.
const SEARCHED_BYTES: usize = 64 << 10;

/// See the module.
pub struct Drill {
    armed: PathBuf,
    fired: PathBuf,
    looked: Option<Instant>,
}

impl Drill {
    /// The drill of this state directory.
    pub fn of(state: &StateDirectory) -> Drill {
        Drill {
            armed: state.gate().join("drill-armed"),
            fired: state.gate().join("drill-fired"),
            looked: None,
        }
    }

    /// Whether this message of the client is a call, as far as can be seen, and the drill is armed. It is not armed any more
    /// then: what was the file `drill-armed` is `drill-fired`.
    pub fn is_due(&mut self, message: &[u8], now: Instant) -> bool {
        if self.looked.is_some_and(|looked| now < looked + PAUSE) {
            return false;
        }
        let message = &message[..message.len().min(SEARCHED_BYTES)];
        if memchr::memmem::find(message, b"tools/call").is_none() {
            return false;
        }
        self.looked = Some(now);
        std::fs::rename(&self.armed, &self.fired).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;

    #[test]
    fn one_of_many_gates_takes_it_and_once() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let (mut one, mut other) = (Drill::of(&state), Drill::of(&state));
        let start = Instant::now();
        assert!(!one.is_due(CALL, start));
        std::fs::create_dir_all(state.gate()).unwrap();
        std::fs::write(state.gate().join("drill-armed"), "").unwrap();
        assert!(!one.is_due(b"{\"method\":\"ping\"}", start + PAUSE));
        assert!(one.is_due(CALL, start + PAUSE));
        assert!(!other.is_due(CALL, start + PAUSE));
        assert!(!one.is_due(CALL, start + 2 * PAUSE));
        assert!(state.gate().join("drill-fired").is_file());
    }
}
