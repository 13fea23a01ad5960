//! Has this tool been vetted? What this machine knows of a server and its tools, without contacting either.
//!
//! Invariant: a pin that can't be read is never an answer of "fine".
