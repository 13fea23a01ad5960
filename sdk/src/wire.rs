//! Raw JSON-RPC with an MCP server, over stdio, streamable HTTP or HTTP+SSE.
//!
//! [`message`] reads envelopes, [`stdio`] and [`http`] carry them, and [`read_only`] is all that an inspection may hold of
//! them: it asks what a server declares and can ask for nothing else. The gate passes on what others wrote, and has of its own
//! the few texts that [`message`] makes.
//!
//! Invariant: nobody else writes or reads JSON-RPC by hand, and nothing here drops or rewrites a byte of what a server declared.

pub mod error;
pub mod http;
pub mod limits;
pub mod message;
pub mod read_only;
mod scan;
pub(crate) mod sse;
pub mod stdio;
