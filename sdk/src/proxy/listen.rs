//! `mcpindex gate --listen ADDR`: loopback HTTP in, HTTP out, one gate for each session of a client.
//!
//! Invariant: only loopback is listened on, and a request whose Origin or Host is not ours is refused.
