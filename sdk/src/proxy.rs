//! The gate on the wire: moves bytes between a client, a [`crate::gate::Gate`] and a server.
//!
//! Invariant: nothing here judges. What the gate does not ask to be sent is not sent, and what it asks is sent whole and in
//! order, or the exchange ends with an error.

pub mod attach;
pub mod http;
mod lines;
pub mod listen;
mod own_stdio;
pub mod pump;
pub mod stdio;

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What tells a program to end: SIGINT, SIGTERM, and SIGHUP when its terminal is closed.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// From now on these signals don't end the process by themselves.
    pub(crate) fn listen() -> io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
