//! `backfill`: published versions of one package, oldest first, now and in this process.
//!
//! Invariant: versions are looked at one after the other in their own order, so that each is compared with the one before it;
//! a package that doesn't exist is recorded like any other look that failed.

use mcpindex_crawler::CrawlError;
use mcpindex_crawler::backfill::{self, Versions};
use mcpindex_crawler::package::{PackageError, Packages};
use mcpindex_crawler::target::TargetSpec;

use super::{Looker, open_store, page_of};
use crate::args::Backfill;
use crate::config::Settings;
use crate::exit::Exit;
use crate::output::{self, Ink};
use crate::progress::Look;

/// What became of one version.
enum Version {
    /// It is in the index already.
    Known(String),
    /// It was looked at.
    Looked(Look),
}

/// Plans, looks, prints.
pub async fn run(settings: Settings, backfill: Backfill) -> anyhow::Result<Exit> {
    let spec = TargetSpec::from_reference(&backfill.package, &backfill.arguments)?;
    let versions = match backfill.last {
        Some(count) => Versions::Last(usize::from(count)),
        None => Versions::Named(backfill.versions.clone()),
    };
    let store = open_store(&settings).await?;
    let looker = Looker::new(&store, &settings)?;
    let planned = plan(looker.packages(), &spec, &versions).await?;
    let identity = spec.identity.to_string();
    if !backfill.json {
        output::line(&[(Ink::Strong, identity.clone())])?;
    }
    let mut results = Vec::new();
    for version in planned {
        let known = match &version {
            Some(version) if !backfill.again && store.has_version(&identity, version).await? => {
                Some(Version::Known(version.clone()))
            }
            _ => None,
        };
        let result = match known {
            Some(known) => known,
            None => Version::Looked(looker.look(&spec, version.as_deref(), "shell").await?),
        };
        if !backfill.json {
            show(&result)?;
        }
        results.push(result);
    }
    let followed = store
        .targets(Some(&identity))
        .await?
        .iter()
        .any(|target| target.every.is_some());
    store.close().await;
    let page = page_of(&settings, &spec.identity.short_id());
    let totals = Totals::of(&results);
    if backfill.json {
        output::json(&json(&identity, &page, &results))?;
    } else {
        output::plain(&totals.sentence())?;
        output::line(&[(Ink::Dim, format!("page: {page}"))])?;
        if !followed && totals.determined > 0 {
            output::line(&[(
                Ink::Dim,
                format!("`mcpindex-server add {identity}` follows its new versions too"),
            )])?;
        }
    }
    Ok(if totals.failed > 0 || results.is_empty() {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// The versions; for a package that doesn't exist one look without a version, which records just that.
async fn plan(
    packages: &Packages,
    spec: &TargetSpec,
    versions: &Versions,
) -> Result<Vec<Option<String>>, CrawlError> {
    match backfill::plan(packages, spec, versions).await {
        Ok(planned) => Ok(planned.into_iter().map(Some).collect()),
        Err(CrawlError::Package(PackageError::NotFound { .. })) => Ok(vec![None]),
        Err(error) => Err(error),
    }
}

fn show(result: &Version) -> anyhow::Result<()> {
    match result {
        Version::Known(version) => output::line(&[
            (Ink::Strong, format!("  {version}")),
            (
                Ink::Dim,
                "  in the index already (--again looks again)".to_owned(),
            ),
        ])?,
        Version::Looked(look) => {
            let mut line = vec![(Ink::Plain, "  ".to_owned())];
            line.extend(look.version_line());
            output::line(&line)?;
            if let Some(way_out) = look.way_out() {
                output::line(&[(Ink::Warn, format!("    {way_out}"))])?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    determined: usize,
    failed: usize,
    known: usize,
    drifts: usize,
}

impl Totals {
    fn of(results: &[Version]) -> Totals {
        let mut totals = Totals::default();
        for result in results {
            match result {
                Version::Known(_) => totals.known += 1,
                Version::Looked(look) if look.determined() => {
                    totals.determined += 1;
                    totals.drifts += usize::from(look.drift.is_some());
                }
                Version::Looked(_) => totals.failed += 1,
            }
        }
        totals
    }

    fn sentence(&self) -> String {
        let versions = self.determined + self.failed + self.known;
        let mut parts = vec![format!("{} determined", self.determined)];
        if self.known > 0 {
            parts.push(format!("{} in the index already", self.known));
        }
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        let drifts = match self.drifts {
            1 => "1 drift".to_owned(),
            count => format!("{count} drifts"),
        };
        match versions {
            0 => "no published version to look at".to_owned(),
            1 => format!("1 version: {}; {drifts}", parts.join(", ")),
            count => format!("{count} versions: {}; {drifts}", parts.join(", ")),
        }
    }
}

fn json(identity: &str, page: &str, results: &[Version]) -> serde_json::Value {
    let versions: Vec<serde_json::Value> = results
        .iter()
        .map(|result| match result {
            Version::Known(version) => serde_json::json!({ "version": version, "known": true }),
            Version::Looked(look) => look.json(),
        })
        .collect();
    serde_json::json!({ "identity": identity, "page": page, "versions": versions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_every_version_once() {
        let totals = Totals {
            determined: 2,
            failed: 1,
            known: 1,
            drifts: 1,
        };
        assert_eq!(
            totals.sentence(),
            "4 versions: 2 determined, 1 in the index already, 1 failed; 1 drift"
        );
        assert_eq!(Totals::default().sentence(), "no published version to look at");
    }
}
