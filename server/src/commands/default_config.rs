//! `default-config`: the embedded file as it is, which a test holds to the defaults.

use crate::config::DEFAULT_FILE;
use crate::exit::Exit;
use crate::output;

/// Prints the file.
pub fn run() -> anyhow::Result<Exit> {
    output::document(DEFAULT_FILE)?;
    Ok(Exit::Done)
}
