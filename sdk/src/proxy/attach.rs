//! The gate below a Rust client's byte streams (for example rmcp's): the same pump, inside the process.
//!
//! Invariant: see [`super`].
