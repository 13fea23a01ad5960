//! `mcpindex gate -- COMMAND`: the client on our own stdin and stdout, the server as a child process.
//!
//! Invariant: no orphan: the server and its group end when the client goes, when we are told to end, and when we fail.
