//! The gate on the wire: moves bytes between a client, a [`crate::gate::Gate`] and a server.
//!
//! Invariant: nothing here judges. What the gate does not ask to be sent is not sent, and what it asks is sent whole and in
//! order, or the exchange ends with an error.

pub mod attach;
pub mod drill;
pub mod http;
mod lines;
pub mod listen;
pub mod own_process;
pub mod pump;
pub mod stdio;
