//! `admin backup` and `admin restore`: a SQLite index as one file. Postgres has programs of its own for this, and the commands say
//! the line to run.
//!
//! Invariant: neither makes a database nor changes a schema.

use std::path::Path;

use mcpindex_store::backup::{BackupError, Copied, restore as bring_back};
use mcpindex_store::{Location, SchemaState, Store, StoreError};

use super::super::now;
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::output;

/// Copies the index that is in use to a new file.
pub(super) async fn back_up(settings: &Settings, path: &Path) -> anyhow::Result<Exit> {
    let location = settings.location();
    match &location {
        Location::Postgres(_) => {
            return Err(Failure::Usage(format!(
                "{location} is on Postgres; run: pg_dump --format=custom --file='{}' '{location}'",
                path.display()
            ))
            .into());
        }
        Location::Sqlite(database) if !database.exists() => {
            return Err(Failure::Usage(format!(
                "there is no index at `{location}`; --data or --database says where it is"
            ))
            .into());
        }
        Location::Sqlite(_) => {}
    }
    let store = Store::open(&location).await?;
    let copied = store.back_up(path, now()).await;
    store.close().await;
    let copied = copied.map_err(refused)?;
    output::plain(&format!(
        "`{}` holds the index: {}",
        path.display(),
        told(&copied)
    ))?;
    Ok(Exit::Done)
}

/// Puts a copy in the place of the index.
pub(super) async fn restore(settings: &Settings, path: &Path, replace: bool) -> anyhow::Result<Exit> {
    let location = settings.location();
    if matches!(location, Location::Postgres(_)) {
        return Err(Failure::Usage(format!(
            "{location} is on Postgres; stop the servers, make an empty database, and run: pg_restore --exit-on-error \
             --single-transaction --no-owner --dbname='{location}' '{}'",
            path.display()
        ))
        .into());
    }
    let restored = bring_back(path, &location, replace, now())
        .await
        .map_err(refused)?;
    output::plain(&format!("`{location}` is the copy: {}", told(&restored.copy)))?;
    if let Some(kept) = restored.kept {
        output::plain(&format!("what was there is kept as `{}`", kept.display()))?;
    }
    Ok(Exit::Done)
}

/// `81920 bytes, 3 approvals, verified`
fn told(copied: &Copied) -> String {
    let approvals = match copied.approvals {
        1 => "1 approval".to_owned(),
        approvals => format!("{approvals} approvals"),
    };
    let schema = match copied.schema {
        SchemaState::Behind { .. } => {
            ", of an older schema, which the next start of a server brings up to date"
        }
        SchemaState::Current | SchemaState::Ahead => "",
    };
    format!("{} bytes, read whole, {approvals} verified{schema}", copied.bytes)
}

/// What the caller can mend is their matter, all else a failure.
fn refused(error: BackupError) -> anyhow::Error {
    match error {
        BackupError::Store(error @ StoreError::NewerSchema { .. }) => error.into(),
        BackupError::Exists { .. }
        | BackupError::NotAnIndex { .. }
        | BackupError::InUse { .. }
        | BackupError::HasData { .. }
        | BackupError::OnPostgres => Failure::Usage(error.to_string()).into(),
        BackupError::Store(error) => error.into(),
        error => error.into(),
    }
}
