//! `openapi`: the API's description, the text that `/api/openapi.json` serves.

use crate::exit::Exit;
use crate::openapi;
use crate::output;

/// Prints it.
pub fn run() -> anyhow::Result<Exit> {
    output::document(openapi::text())?;
    Ok(Exit::Done)
}
