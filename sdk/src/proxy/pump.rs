//! Two byte streams of lines with a gate between them: framing, back-pressure, timers.
//!
//! Invariant: a side that does not read stops only what is meant for it; neither direction waits for the other.
