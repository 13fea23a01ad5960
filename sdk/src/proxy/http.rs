//! `mcpindex gate --url URL`: the client on our own stdin and stdout, the server over streamable HTTP or, where it is an
//! older one, HTTP+SSE (2024-11-05).
//!
//! Invariant: the credentials given go to the origin that was named and to no other.
