//! `add`: puts servers into the index and looks at each right away.
//!
//! Invariant: a server is put down before it is looked at, due again soon, so that a look that is cut off is made up for by
//! the next crawl; after the look it is due at its usual time.

use mcpindex_contract::identity::Identity;
use mcpindex_crawler::backfill::{self, Versions};
use mcpindex_crawler::package::Packages;
use mcpindex_crawler::sources::{self, Listed};
use mcpindex_crawler::target::TargetSpec;

use mcpindex_store::Store;

use super::{Looker, now, open_store, page_of};
use crate::args::Add;
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::output::{self, Ink};
use crate::progress::Look;

/// What `add` was given.
struct Asked {
    listed: Vec<Listed>,
    /// `shell` was named by a person, `list` stood in one.
    source: &'static str,
}

/// What became of one server.
struct Added {
    identity: Identity,
    new: bool,
    /// Looks at versions before the newest, oldest first.
    history: Vec<Look>,
    /// `None` when it is to be looked at later.
    look: Option<Look>,
}

/// Adds, looks, prints.
pub async fn run(settings: Settings, add: Add) -> anyhow::Result<Exit> {
    let asked = asked(&add)?;
    let store = open_store(&settings).await?;
    let lease = settings.for_crawler().lease;
    let looker = Looker::new(&store, &settings)?;
    let mut results = Vec::new();
    for listed in &asked.listed {
        let spec = &listed.spec;
        let every = match add.every {
            Some(every) => every.seconds(),
            None => settings.for_crawler().every.of(&spec.identity),
        };
        let due = if add.later { now() } else { now() + lease };
        let new = store
            .add_target(&spec.to_new_target(asked.source, Some(every), due), now())
            .await?;
        let mut added = Added {
            identity: spec.identity.clone(),
            new,
            history: Vec::new(),
            look: None,
        };
        let earlier = earlier_versions(&store, looker.packages(), listed).await?;
        if add.later {
            backfill::enqueue(&store, &[(spec.clone(), earlier)], asked.source, now()).await?;
        } else {
            for version in earlier {
                let look = looker.look(spec, Some(&version), asked.source).await?;
                if !add.json {
                    output::line(&look.line())?;
                }
                added.history.push(look);
            }
            let look = looker.look(spec, spec.version.as_deref(), asked.source).await?;
            let due = now() + every;
            store
                .add_target(&spec.to_new_target(asked.source, Some(every), due), now())
                .await?;
            added.look = Some(look);
        }
        if !add.json {
            show(&settings, &added)?;
        }
        results.push(added);
    }
    store.close().await;
    if add.json {
        output::json(&json(&settings, &results))?;
    }
    let failed = results
        .iter()
        .flat_map(|added| added.history.iter().chain(&added.look))
        .any(|look| !look.determined());
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// The versions that the list wants looked at before the newest one, oldest first, without those that the index has.
async fn earlier_versions(
    store: &Store,
    packages: &Packages,
    listed: &Listed,
) -> anyhow::Result<Vec<String>> {
    // Where nothing can run, a history would be one of looks that were refused.
    if listed.backfill == 0 || packages.jails().level().await.is_err() {
        return Ok(Vec::new());
    }
    let mut versions = match backfill::plan(packages, &listed.spec, &Versions::Last(listed.backfill)).await {
        Ok(versions) => versions,
        Err(error) => {
            // The look at the newest version finds out, and records, what is wrong with the package.
            tracing::warn!(identity = %listed.spec.identity, %error, "no history");
            return Ok(Vec::new());
        }
    };
    versions.pop();
    let identity = listed.spec.identity.to_string();
    let mut missing = Vec::with_capacity(versions.len());
    for version in versions {
        if !store.has_version(&identity, &version).await? {
            missing.push(version);
        }
    }
    Ok(missing)
}

fn asked(add: &Add) -> anyhow::Result<Asked> {
    if let Some(path) = &add.list {
        return Ok(Asked {
            listed: sources::read_list(path)?,
            source: "list",
        });
    }
    let spec = match &add.server {
        Some(server) => TargetSpec::from_reference(server, &add.rest)?,
        None if add.rest.is_empty() => {
            return Err(Failure::Usage(
                "name a server: `add npm:NAME`, `add https://…`, `add -- COMMAND`, or `add --list FILE`"
                    .to_owned(),
            )
            .into());
        }
        None => TargetSpec::from_command(&add.rest)?,
    };
    Ok(Asked {
        listed: vec![Listed {
            spec,
            backfill: 0,
            about: None,
        }],
        source: "shell",
    })
}

fn show(settings: &Settings, added: &Added) -> anyhow::Result<()> {
    match &added.look {
        None => {
            let identity = (Ink::Strong, added.identity.to_string());
            let state = if added.new {
                "added"
            } else {
                "known; it is due now"
            };
            output::line(&[identity, (Ink::Plain, format!("  {state}"))])?;
        }
        Some(look) => {
            output::line(&look.line())?;
            if let Some(way_out) = look.way_out() {
                output::line(&[(Ink::Warn, format!("  {way_out}"))])?;
            }
        }
    }
    output::line(&[(
        Ink::Dim,
        format!("  page: {}", page_of(settings, &added.identity.short_id())),
    )])?;
    Ok(())
}

fn json(settings: &Settings, results: &[Added]) -> serde_json::Value {
    let servers: Vec<serde_json::Value> = results
        .iter()
        .map(|added| {
            serde_json::json!({
                "identity": added.identity.to_string(),
                "short_id": added.identity.short_id(),
                "page": page_of(settings, &added.identity.short_id()),
                "added": added.new,
                "history": added.history.iter().map(Look::json).collect::<Vec<_>>(),
                "look": added.look.as_ref().map(Look::json),
            })
        })
        .collect();
    serde_json::json!({ "servers": servers })
}
