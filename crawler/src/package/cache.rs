//! Where installed versions are kept: `<cache>/<registry>/<name>/<version>/`, one folder a version.
//!
//! A version is installed into a folder beside its own, under a lock that holds among processes, and renamed when it is
//! complete; what is known about it is written into it before that.
//!
//! Invariant: a folder that has its record is complete and is never changed again.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpindex_store::observations::Artifact;

use super::{PackageError, PackageName};

/// The name of the record in an installed version's folder.
const RECORD: &str = "mcpindex-installed.json";

/// How long to wait for another process that installs the same version: a little longer than its calls may take together.
const LOCK_LIMIT: Duration = Duration::from_secs(600);

/// How often to look whether the lock is free.
const LOCK_PACE: Duration = Duration::from_millis(100);

/// What is known about an installed version, beside its files.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Record {
    pub version: String,
    pub integrity: Option<String>,
    pub dependencies: Option<String>,
    pub published_at: Option<i64>,
    pub has_install_script: bool,
}

impl Record {
    /// As an observation records it.
    pub(super) fn artifact(&self, runtime: String) -> Artifact {
        Artifact {
            version: self.version.clone(),
            integrity: self.integrity.clone(),
            dependencies: self.dependencies.clone(),
            runtime: Some(runtime),
            published_at: self.published_at,
        }
    }
}

/// One version's place in the cache.
pub(super) struct Place {
    /// Where it is when it is complete; absolute.
    pub folder: PathBuf,
    /// Where it is being made.
    pub partial: PathBuf,
    lock: PathBuf,
}

/// Holds the version's lock until dropped.
pub(super) struct Locked {
    _file: File,
}

impl Place {
    /// The place of one exact version; makes the folders above it.
    pub(super) fn new(cache: &Path, package: &PackageName, version: &str) -> Result<Place, PackageError> {
        let versions = std::path::absolute(cache)
            .map(|cache| cache.join(package.registry_name()).join(folder_name(package)))
            .map_err(|error| unusable(cache, &error))?;
        std::fs::create_dir_all(&versions).map_err(|error| unusable(&versions, &error))?;
        Ok(Place {
            folder: versions.join(version),
            partial: versions.join(format!("{version}.partial")),
            lock: versions.join(format!("{version}.lock")),
        })
    }

    /// Waits until no other process installs this version.
    pub(super) async fn lock(&self) -> Result<Locked, PackageError> {
        let file = File::create(&self.lock).map_err(|error| unusable(&self.lock, &error))?;
        let deadline = tokio::time::Instant::now() + LOCK_LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Locked { _file: file }),
                Err(TryLockError::Error(error)) => return Err(unusable(&self.lock, &error)),
                Err(TryLockError::WouldBlock) if tokio::time::Instant::now() >= deadline => {
                    let reason = format!(
                        "another process has held this lock for {} s",
                        LOCK_LIMIT.as_secs()
                    );
                    return Err(PackageError::Cache {
                        path: self.lock.display().to_string(),
                        reason,
                    });
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PACE).await,
            }
        }
    }

    /// What is known about the version, when it is installed; an unreadable record is none.
    pub(super) fn record(&self) -> Option<Record> {
        let text = std::fs::read_to_string(self.folder.join(RECORD)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Makes the empty folder to install into, in place of what a process that was killed left there.
    pub(super) async fn start(&self) -> Result<Partial<'_>, PackageError> {
        remove(&self.partial).await?;
        tokio::fs::create_dir(&self.partial)
            .await
            .map_err(|error| unusable(&self.partial, &error))?;
        Ok(Partial(&self.partial))
    }

    /// Puts the complete folder where it belongs.
    pub(super) async fn finish(&self, record: &Record) -> Result<(), PackageError> {
        let written = serde_json::to_vec_pretty(record).map_err(io::Error::other);
        let path = self.partial.join(RECORD);
        written
            .and_then(|text| std::fs::write(&path, text))
            .map_err(|error| unusable(&path, &error))?;
        remove(&self.folder).await?;
        tokio::fs::rename(&self.partial, &self.folder)
            .await
            .map_err(|error| unusable(&self.folder, &error))
    }
}

/// An installation under way: what is not finished when this is dropped, by a failure or because the crawl is stopped, is
/// taken away.
pub(super) struct Partial<'a>(&'a Path);

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        // Not there once it is finished. The next attempt removes it too, and says so when it can't.
        let _ = mcpindex::sandbox::remove_all(self.0);
    }
}

async fn remove(folder: &Path) -> Result<(), PackageError> {
    let gone = folder.to_owned();
    let removing = tokio::task::spawn_blocking(move || mcpindex::sandbox::remove_all(&gone));
    removing
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| unusable(folder, &error))
}

fn unusable(path: &Path, error: &io::Error) -> PackageError {
    PackageError::Cache {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// The package as one folder name. `+` is in no package name, so two packages never share a folder; another registry's
/// packages are kept apart by a part of its URL's digest.
fn folder_name(package: &PackageName) -> String {
    let name = package.name.replace('/', "+");
    match &package.alternative {
        None => name,
        Some(url) => {
            let digest = mcpindex_contract::digest::Digest::of_raw(url).hex();
            format!("{name}+{}", &digest[..16])
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpindex_contract::identity::Registry;

    use super::*;

    fn place(cache: &Path) -> Place {
        let package = PackageName {
            registry: Registry::Npm,
            name: "@scope/name".to_owned(),
            alternative: None,
        };
        Place::new(cache, &package, "1.0.0").unwrap()
    }

    fn record() -> Record {
        Record {
            version: "1.0.0".to_owned(),
            integrity: None,
            dependencies: None,
            published_at: Some(7),
            has_install_script: true,
        }
    }

    #[test]
    fn packages_of_two_registries_are_kept_apart() {
        let package = |alternative: Option<&str>| PackageName {
            registry: Registry::Npm,
            name: "@scope/name".to_owned(),
            alternative: alternative.map(str::to_owned),
        };
        assert_eq!(folder_name(&package(None)), "@scope+name");
        let one = folder_name(&package(Some("https://one.example/")));
        assert!(one.starts_with("@scope+name+"), "{one}");
        assert_ne!(one, folder_name(&package(Some("https://two.example/"))));
    }

    #[tokio::test]
    async fn a_version_is_there_only_when_it_is_complete() {
        let cache = tempfile::tempdir().unwrap();
        let place = place(cache.path());
        let killed = place.start().await.unwrap();
        std::fs::write(place.partial.join("half"), "").unwrap();
        std::mem::forget(killed);
        assert_eq!(place.record(), None);
        let partial = place.start().await.unwrap();
        assert!(
            !place.partial.join("half").exists(),
            "what a killed process left is taken away"
        );
        place.finish(&record()).await.unwrap();
        drop(partial);
        assert_eq!(place.record(), Some(record()));
        assert!(place.folder.is_dir() && !place.partial.exists());
    }

    #[tokio::test]
    async fn an_installation_that_is_given_up_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let place = place(cache.path());
        let partial = place.start().await.unwrap();
        std::fs::write(place.partial.join("half"), "").unwrap();
        drop(partial);
        assert!(!place.partial.exists());
    }

    #[tokio::test]
    async fn an_unreadable_record_is_none_and_is_replaced() {
        let cache = tempfile::tempdir().unwrap();
        let place = place(cache.path());
        std::fs::create_dir(&place.folder).unwrap();
        std::fs::write(place.folder.join(RECORD), "{").unwrap();
        assert_eq!(place.record(), None);
        let _partial = place.start().await.unwrap();
        place.finish(&record()).await.unwrap();
        assert_eq!(place.record(), Some(record()));
    }

    #[tokio::test]
    async fn one_version_is_installed_by_one_at_a_time() {
        let cache = tempfile::tempdir().unwrap();
        let place = place(cache.path());
        let first = place.lock().await.unwrap();
        let second = place.lock();
        tokio::pin!(second);
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_cache_that_can_not_be_made_is_named() {
        let cache = tempfile::tempdir().unwrap();
        let file = cache.path().join("file");
        std::fs::write(&file, "").unwrap();
        let package = PackageName {
            registry: Registry::Npm,
            name: "x".to_owned(),
            alternative: None,
        };
        let error = Place::new(&file, &package, "1.0.0").err().unwrap();
        assert!(matches!(error, PackageError::Cache { .. }), "{error}");
    }
}
