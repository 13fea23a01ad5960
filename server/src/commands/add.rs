//! `add`: puts servers into the index and looks at each right away.
//!
//! Invariant: a server is put down before it is looked at, due again soon, so that a look that is cut off is made up for by
//! the next crawl; after the look it is due at its usual time.

use mcpindex_contract::identity::Identity;
use mcpindex_crawler::sources::{self, Listed};
use mcpindex_crawler::target::TargetSpec;

use super::{Looker, now, open_store, page_of};
use crate::args::Add;
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::output::{self, Ink};
use crate::progress::Look;

/// What `add` was given.
struct Asked {
    listed: Vec<Listed>,
    /// Decides whether packages may run: `shell` was named by a person, `list` was not.
    source: &'static str,
}

/// Adds, looks, prints.
pub async fn run(settings: Settings, add: Add) -> anyhow::Result<Exit> {
    let asked = asked(&add)?;
    let every = add.every.unwrap_or(settings.crawl.every).seconds();
    let store = open_store(&settings).await?;
    let lease = settings.for_crawler().lease;
    let looker = Looker::new(&store, &settings)?;
    let mut results = Vec::new();
    for listed in &asked.listed {
        let spec = &listed.spec;
        let due = if add.later { now() } else { now() + lease };
        let new = store
            .add_target(&spec.to_new_target(asked.source, Some(every), due), now())
            .await?;
        let look = if add.later {
            None
        } else {
            let look = looker.look(spec, spec.version.as_deref(), asked.source).await?;
            let due = now() + every;
            store
                .add_target(&spec.to_new_target(asked.source, Some(every), due), now())
                .await?;
            Some(look)
        };
        if !add.json {
            show(&settings, spec, new, look.as_ref())?;
        }
        results.push((spec.identity.clone(), new, look));
    }
    store.close().await;
    if add.json {
        output::json(&json(&settings, &results))?;
    }
    let failed = results
        .iter()
        .any(|(_, _, look)| look.as_ref().is_some_and(|look| !look.determined()));
    Ok(if failed { Exit::Failed } else { Exit::Done })
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

fn show(settings: &Settings, spec: &TargetSpec, new: bool, look: Option<&Look>) -> anyhow::Result<()> {
    match look {
        None => {
            let identity = (Ink::Strong, spec.identity.to_string());
            let state = if new { "added" } else { "known; it is due now" };
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
        format!("  page: {}", page_of(settings, &spec.identity.short_id())),
    )])?;
    Ok(())
}

fn json(settings: &Settings, results: &[(Identity, bool, Option<Look>)]) -> serde_json::Value {
    let servers: Vec<serde_json::Value> = results
        .iter()
        .map(|(identity, new, look)| {
            serde_json::json!({
                "identity": identity.to_string(),
                "short_id": identity.short_id(),
                "page": page_of(settings, &identity.short_id()),
                "added": new,
                "look": look.as_ref().map(Look::json),
            })
        })
        .collect();
    serde_json::json!({ "servers": servers })
}
