//! `migrate`: the schema, and nothing else. `serve` does the same at its start.

use mcpindex_store::Store;

use super::prepare_data_folder;
use crate::config::Settings;
use crate::exit::Exit;
use crate::output;

/// Applies what is missing and says how much that was.
pub async fn run(settings: Settings) -> anyhow::Result<Exit> {
    prepare_data_folder(&settings.data)?;
    let location = settings.location();
    let store = Store::open(&location).await?;
    let applied = store.migrate().await?;
    output::plain(&match applied {
        0 => format!("{location}: the schema is up to date"),
        1 => format!("{location}: 1 migration applied"),
        count => format!("{location}: {count} migrations applied"),
    })?;
    store.close().await;
    Ok(Exit::Done)
}
