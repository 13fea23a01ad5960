//! Where the shared vectors and captures are, for the tests that run over them.
//!
//! Invariant: a test that finds nothing here returns early, and a case of our own covers the same code.

use std::path::PathBuf;

/// The folder that `MCPINDEX_SHARED` names.
pub(crate) fn shared() -> Option<PathBuf> {
    std::env::var_os("MCPINDEX_SHARED").map(PathBuf::from)
}
