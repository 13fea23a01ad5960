//! Published versions, oldest first, so that a fresh index has a history.
//!
//! Invariant: the order is that of the versions, never that of their publication dates, which mirrors make up.

use mcpindex_store::Store;

use crate::CrawlError;
use crate::package::{Packages, PublishedVersion};
use crate::target::TargetSpec;
use crate::version::sort_key;

/// Which versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Versions {
    /// Exactly these (pre-releases too), taken in version order.
    Named(Vec<String>),
    /// The last so many published ones, pre-releases left out.
    Last(usize),
}

/// The versions to look at, oldest first. A named version that isn't published is kept: looking at it records `version_not_found`.
/// Where every published version is a pre-release, the last of these are taken.
pub async fn plan(
    packages: &Packages,
    spec: &TargetSpec,
    versions: &Versions,
) -> Result<Vec<String>, CrawlError> {
    let refuse = |reason| CrawlError::Target {
        target: spec.identity.to_string(),
        reason,
    };
    let Some(package) = spec.reach.package() else {
        return Err(refuse(
            "only npm and PyPI packages have published versions to backfill",
        ));
    };
    if spec.version.is_some() {
        return Err(refuse(
            "a backfill takes its versions from `--versions` or `--last`, not from the name",
        ));
    }
    match versions {
        Versions::Named(named) => {
            let mut named = named.clone();
            // Texts that are no version come last; looking at them says that there is no such version.
            named.sort_by_cached_key(|version| {
                let key = sort_key(package.registry, version);
                (key.is_none(), key, version.clone())
            });
            named.dedup();
            Ok(named)
        }
        Versions::Last(count) => {
            let published = packages.versions(&package).await?;
            let (last, prereleases) = last(&published, *count);
            if prereleases {
                tracing::warn!(identity = %spec.identity, "every published version is a pre-release; taking those");
            }
            Ok(last)
        }
    }
}

/// The last `count` releases, or pre-releases where there is nothing else; and whether that was so.
fn last(published: &[PublishedVersion], count: usize) -> (Vec<String>, bool) {
    let only_prereleases = !published.is_empty() && published.iter().all(|version| version.prerelease);
    let eligible: Vec<&PublishedVersion> = published
        .iter()
        .filter(|version| only_prereleases || !version.prerelease)
        .collect();
    let from = eligible.len().saturating_sub(count);
    let last = eligible[from..]
        .iter()
        .map(|version| version.version.clone())
        .collect();
    (last, only_prereleases)
}

/// Puts the planned versions of several servers down as one-off targets, interleaved so that each server has a history soon,
/// all due at `now`. Versions that the index has determined already are left out. Gives how many were put down.
pub async fn enqueue(
    store: &Store,
    planned: &[(TargetSpec, Vec<String>)],
    source: &str,
    now: i64,
) -> Result<usize, CrawlError> {
    let rounds = planned
        .iter()
        .map(|(_, versions)| versions.len())
        .max()
        .unwrap_or(0);
    let mut added = 0;
    for round in 0..rounds {
        for (spec, versions) in planned {
            let Some(version) = versions.get(round) else {
                continue;
            };
            if store.has_version(&spec.identity.to_string(), version).await? {
                continue;
            }
            let one = TargetSpec {
                version: Some(version.clone()),
                ..spec.clone()
            };
            store
                .add_target(&one.to_new_target(source, None, now), now)
                .await?;
            added += 1;
        }
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(published: &[&str], count: usize, expected: &[&str]) {
        let published: Vec<PublishedVersion> = published
            .iter()
            .map(|version| PublishedVersion {
                version: (*version).to_owned(),
                published_at: None,
                prerelease: version.contains('-'),
            })
            .collect();
        assert_eq!(last(&published, count).0, expected, "{published:?}");
    }

    #[test]
    fn the_last_versions_leave_pre_releases_out_unless_there_is_nothing_else() {
        check(
            &["1.0.0", "1.1.0-rc.1", "1.1.0", "2.0.0-beta.1"],
            2,
            &["1.0.0", "1.1.0"],
        );
        check(&["1.0.0", "1.1.0"], 1, &["1.1.0"]);
        check(&["1.0.0"], 4, &["1.0.0"]);
        check(&["1.0.0-a", "1.0.0-b"], 1, &["1.0.0-b"]);
        check(&[], 3, &[]);
        check(&["1.0.0"], 0, &[]);
    }
}
