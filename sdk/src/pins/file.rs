//! The record's file: read when it moved, written whole under a lock, missed when it is gone.
//!
//! Invariant: see [`super`].
