//! Lists of servers in the index: each server is followed, and its last versions are looked at first.
//!
//! Invariant: a list that was taken in before changes nothing: what is followed keeps its time, what was determined is not
//! looked at again, and what a person added at the shell stays as the person wanted it.

use std::collections::HashSet;

use mcpindex_crawler::CrawlError;
use mcpindex_crawler::backfill::{self, Versions};
use mcpindex_crawler::package::Packages;
use mcpindex_crawler::sources::Listed;
use mcpindex_crawler::target::TargetSpec;
use mcpindex_store::Store;
use tokio::task::JoinSet;

use super::now;
use crate::config::Settings;

/// What is to be looked at of a list.
#[derive(Debug, Default)]
pub struct Plan {
    /// Each package with the versions that the index lacks, oldest first.
    pub history: Vec<(TargetSpec, Vec<String>)>,
    /// Packages whose versions could not be had, and why.
    pub failed: Vec<(TargetSpec, CrawlError)>,
    /// Everything else of the list, followed without a history.
    pub others: Vec<TargetSpec>,
}

impl Plan {
    /// Asks the package clients for the versions of every listed package, all at once, and leaves out what is determined.
    pub async fn make(store: &Store, packages: &Packages, listed: Vec<Listed>) -> Result<Plan, CrawlError> {
        let mut asked = JoinSet::new();
        let mut plan = Plan::default();
        for (position, listed) in listed.into_iter().enumerate() {
            if listed.backfill == 0 {
                plan.others.push(listed.spec);
                continue;
            }
            let packages = packages.clone();
            asked.spawn(async move {
                let versions =
                    backfill::plan(&packages, &listed.spec, &Versions::Last(listed.backfill)).await;
                (position, listed.spec, versions)
            });
        }
        let mut answered = asked.join_all().await;
        answered.sort_by_key(|(position, _, _)| *position);
        for (_, spec, versions) in answered {
            match versions {
                Ok(versions) => {
                    let missing = missing(store, &spec, versions).await?;
                    plan.history.push((spec, missing));
                }
                Err(error) => plan.failed.push((spec, error)),
            }
        }
        Ok(plan)
    }

    /// The looks that the history takes, as identity and version.
    pub fn looks(&self) -> HashSet<(String, String)> {
        self.history
            .iter()
            .flat_map(|(spec, versions)| {
                let identity = spec.identity.to_string();
                versions
                    .iter()
                    .map(move |version| (identity.clone(), version.clone()))
            })
            .collect()
    }

    /// Puts everything down for the crawler. A server whose history is looked at is due again after the usual time, any
    /// other one at once: that look finds out, and records, what is wrong with a package that could not be planned.
    pub async fn put_down(&self, store: &Store, settings: &Settings, source: &str) -> Result<(), CrawlError> {
        let every = settings.for_crawler().every;
        let with_history = self
            .history
            .iter()
            .map(|(spec, _)| (spec, now() + every.of(&spec.identity)));
        let failed = self.failed.iter().map(|(spec, _)| (spec, now()));
        let others = self.others.iter().map(|spec| (spec, now()));
        for (spec, due) in with_history.chain(failed).chain(others) {
            follow(store, spec, source, every.of(&spec.identity), due).await?;
        }
        backfill::enqueue(store, &self.history, source, now()).await?;
        Ok(())
    }
}

async fn missing(store: &Store, spec: &TargetSpec, versions: Vec<String>) -> Result<Vec<String>, CrawlError> {
    let identity = spec.identity.to_string();
    let mut missing = Vec::with_capacity(versions.len());
    for version in versions {
        if !store.has_version(&identity, &version).await? {
            missing.push(version);
        }
    }
    Ok(missing)
}

/// Follows one server, unless it is followed already in this way or because of somebody else.
async fn follow(
    store: &Store,
    spec: &TargetSpec,
    source: &str,
    every: i64,
    due: i64,
) -> Result<(), CrawlError> {
    let new = spec.to_new_target(source, Some(every), due);
    let stays = store
        .targets(Some(&spec.identity.to_string()))
        .await?
        .iter()
        .filter(|known| known.version == spec.version && known.every.is_some())
        .any(|known| known.source != source || (known.launch == new.launch && known.every == new.every));
    if !stays {
        store.add_target(&new, now()).await?;
    }
    Ok(())
}
