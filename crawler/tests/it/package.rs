//! Real packages through the real clients and the user's registry: few, small, and asked for again once when the registry
//! is out of reach.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcpindex::wire::stdio::Launch;
use mcpindex_contract::identity::Registry;
use mcpindex_contract::outcome::Outcome;
use mcpindex_crawler::package::{Installed, PackageError, PackageName, Packages, PublishedVersion};
use secrecy::ExposeSecret;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::desk::settings;

fn npm(name: &str) -> PackageName {
    PackageName {
        registry: Registry::Npm,
        name: name.to_owned(),
        alternative: None,
    }
}

fn pypi(name: &str) -> PackageName {
    PackageName {
        registry: Registry::Pypi,
        ..npm(name)
    }
}

fn packages(cache: &Path) -> Packages {
    Packages::new(&settings(cache))
}

async fn versions_of(package: &PackageName) -> Result<Vec<PublishedVersion>, PackageError> {
    let cache = tempfile::tempdir().unwrap();
    let packages = packages(cache.path());
    match packages.versions(package).await {
        Err(error) if error.is_transient() => packages.versions(package).await,
        answer => answer,
    }
}

async fn installed(package: &PackageName, version: &str, cache: &Path) -> Result<Installed, PackageError> {
    let packages = packages(cache);
    match packages.install(package, version).await {
        Err(error) if error.is_transient() => packages.install(package, version).await,
        answer => answer,
    }
}

/// Starts what was installed in its jail, and gives its answer to `initialize`.
async fn first_answer(installed: &Installed) -> String {
    let home = tempfile::tempdir().unwrap();
    let Launch { program, args, .. } = &installed.launch;
    let jail = installed.launch.jail.as_ref().unwrap();
    let environment = installed
        .launch
        .env
        .iter()
        .map(|(name, value)| (name, value.expose_secret()));
    let command = jail.command(home.path(), home.path(), program, args);
    let mut server = tokio::process::Command::from(command)
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let initialize = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
        r#""capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#,
        "\n"
    );
    server
        .stdin
        .as_mut()
        .unwrap()
        .write_all(initialize.as_bytes())
        .await
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let answer = async {
        loop {
            let line = lines
                .next_line()
                .await
                .unwrap()
                .expect("the server ended without an answer");
            if line.contains(r#""id":1"#) {
                return line;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), answer)
        .await
        .expect("the server answers within a minute")
}

#[tokio::test]
async fn npm_versions_come_oldest_first() {
    let found = versions_of(&npm("@modelcontextprotocol/server-everything"))
        .await
        .unwrap();
    let place = |version: &str| found.iter().position(|published| published.version == version);
    assert!(place("2025.7.1").is_some());
    assert!(
        place("2025.7.1") < place("2025.11.25") && place("2025.11.25") < place("2026.8.31"),
        "{found:?}"
    );
}

#[tokio::test]
async fn pypi_versions_come_oldest_first() {
    let found = versions_of(&pypi("mcp-server-time")).await.unwrap();
    let place = |version: &str| found.iter().position(|published| published.version == version);
    assert!(place("0.6.2").is_some());
    assert!(
        place("0.6.2") < place("2025.7.1") && place("2025.7.1") < place("2025.9.25"),
        "{found:?}"
    );
}

#[tokio::test]
async fn two_versions_of_an_npm_server_start_side_by_side() {
    let cache = tempfile::tempdir().unwrap();
    let package = npm("@modelcontextprotocol/server-everything");
    let mut sets = Vec::new();
    for version in ["2025.7.1", "2026.8.31"] {
        let first = installed(&package, version, cache.path()).await.unwrap();
        assert_eq!(first.artifact.version, version);
        assert!(
            first.artifact.integrity.as_ref().unwrap().starts_with("sha512-"),
            "{:?}",
            first.artifact
        );
        assert!(
            first.artifact.runtime.as_ref().unwrap().starts_with("node v"),
            "{:?}",
            first.artifact
        );
        assert!(first_answer(&first).await.contains("serverInfo"));

        let second = packages(cache.path()).install(&package, version).await.unwrap();
        assert_eq!(second.artifact, first.artifact);
        assert_eq!(
            (second.launch.program, second.launch.args),
            (first.launch.program, first.launch.args)
        );
        sets.push(first.artifact.dependencies.unwrap());
    }
    assert_ne!(sets[0], sets[1], "they resolve to different dependencies");
}

#[tokio::test]
async fn a_pypi_server_starts_from_an_environment_of_its_own() {
    let cache = tempfile::tempdir().unwrap();
    let package = pypi("mcp-server-time");
    let published = versions_of(&package).await.unwrap();
    let newest = &published
        .iter()
        .rfind(|published| !published.prerelease)
        .unwrap()
        .version;
    // Two at once: one installs, the other waits and finds it done.
    let (first, second) = tokio::join!(
        installed(&package, newest, cache.path()),
        installed(&package, newest, cache.path()),
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.artifact, second.artifact);
    assert_eq!(&first.artifact.version, newest);
    assert!(
        first.artifact.integrity.as_ref().unwrap().starts_with("sha256:"),
        "{:?}",
        first.artifact
    );
    assert!(
        first.artifact.runtime.as_ref().unwrap().starts_with("python 3."),
        "{:?}",
        first.artifact
    );
    assert!(first_answer(&first).await.contains("serverInfo"));
}

#[tokio::test]
async fn a_package_that_does_not_exist_is_not_found() {
    for package in [
        npm("mcpindex-absent-zq7x-9471-none"),
        pypi("mcpindex-absent-zq7x-9471-none"),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let error = versions_of(&package).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::PackageNotFound, "{error}");
        let error = installed(&package, "1.0.0", cache.path()).await.err().unwrap();
        assert_eq!(error.outcome(), Outcome::PackageNotFound, "{error}");
    }
}

#[tokio::test]
async fn a_version_that_does_not_exist_is_not_found() {
    for package in [
        npm("@modelcontextprotocol/server-everything"),
        pypi("mcp-server-time"),
    ] {
        let cache = tempfile::tempdir().unwrap();
        for version in ["999.0.0", "latest", "^1.0.0", "--help"] {
            let error = installed(&package, version, cache.path()).await.err().unwrap();
            assert_eq!(error.outcome(), Outcome::VersionNotFound, "{version}: {error}");
        }
    }
}

#[tokio::test]
async fn a_package_without_a_wheel_is_not_built() {
    let cache = tempfile::tempdir().unwrap();
    let error = installed(&pypi("docopt"), "0.6.2", cache.path())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, PackageError::NeedsBuild { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NeedsInstallScript);
}

#[tokio::test]
async fn a_name_that_is_none_never_reaches_a_client() {
    let cache = tempfile::tempdir().unwrap();
    for package in [
        npm("--registry=x"),
        npm("../x"),
        npm("user/repo"),
        pypi("-r"),
        pypi("./x"),
    ] {
        let error = packages(cache.path()).versions(&package).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::PackageNotFound, "{error}");
        let error = packages(cache.path())
            .install(&package, "1.0.0")
            .await
            .err()
            .unwrap();
        assert_eq!(error.outcome(), Outcome::PackageNotFound, "{error}");
    }
}

#[tokio::test]
async fn a_registry_out_of_reach_is_a_passing_failure() {
    let cache = tempfile::tempdir().unwrap();
    // A port of this machine that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let package = PackageName {
        alternative: Some(closed),
        ..pypi("mcp-server-time")
    };
    let error = packages(cache.path()).versions(&package).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert_eq!(error.outcome(), Outcome::InstallFailed);
    let error = packages(cache.path())
        .install(&package, "2025.7.1")
        .await
        .err()
        .unwrap();
    assert!(error.is_transient(), "{error}");

    let package = PackageName {
        alternative: Some("file:///x".to_owned()),
        ..package
    };
    let error = packages(cache.path()).versions(&package).await.unwrap_err();
    insta::assert_snapshot!(error, @"pip failed: `file:///x` is no http(s) URL of a registry");
}
