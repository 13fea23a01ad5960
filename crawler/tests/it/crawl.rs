//! Crawls of real processes and servers on loopback, on both databases where it matters.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse};
use axum::routing::post;
use futures::stream;
use mcpindex_contract::outcome::Outcome;
use mcpindex_crawler::CrawlError;
use mcpindex_crawler::backfill::enqueue;
use mcpindex_crawler::event::Event;
use mcpindex_crawler::target::TargetSpec;
use mcpindex_store::testing::{TestStore, on_each_backend};
use tokio::sync::Semaphore;

use crate::desk::{DAY, Desk, NOW, as_version, fixture};

/// A small server on loopback; its base URL.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn url(base: &str, path: &str) -> TargetSpec {
    TargetSpec::from_reference(&format!("{base}{path}"), &[]).unwrap()
}

#[tokio::test]
async fn every_bad_process_ends_as_its_own_outcome_and_the_crawl_goes_on() {
    on_each_backend(async |store| {
        let desk = Desk::new(&store);
        let scenarios = [
            "crash",
            "silent-exit",
            "needs-key",
            "usage",
            "offline-exit",
            "cursor-loop",
            "twenty-megabytes",
            "endless-pages",
            "list-failed",
            "needs-network",
            "exits-mid-session",
            "resources-failed",
            "noise",
            "no-tools",
            "escapes",
        ];
        let mut added = Vec::new();
        for scenario in scenarios {
            added.push((scenario, desk.add(&fixture(&[scenario]), "shell").await));
        }
        let nowhere = TargetSpec::from_command(&["mcpindex-no-such-program".to_owned()]).unwrap();
        added.push(("no such program", desk.add(&nowhere, "shell").await));
        added.push((
            "from a list",
            desk.add(&fixture(&["good", "listed"]), "list").await,
        ));

        assert_eq!(desk.crawl().await, added.len());

        let mut table = Vec::new();
        for (scenario, identity) in &added {
            let server = desk.server(identity).await;
            let outcome = server.outcome.unwrap();
            assert_eq!(
                outcome.has_surface(),
                server.current_observation.is_some(),
                "{scenario}"
            );
            assert_eq!(outcome.has_surface(), server.tools.is_some(), "{scenario}");
            table.push(format!(
                "{scenario:<18} {:<20} {:<5} {}",
                outcome.name(),
                server
                    .tools
                    .map_or_else(|| "-".to_owned(), |tools| tools.to_string()),
                server.detail.unwrap_or_default()
            ));
        }
        insta::assert_snapshot!("bad_processes", table.join("\n"));
    })
    .await;
}

#[tokio::test]
async fn every_bad_remote_server_ends_as_its_own_outcome() {
    let base = serve(
        Router::new()
            .route("/sign-in", post(|| async { StatusCode::UNAUTHORIZED }))
            .route("/page", post(|| async { Html("<h1>hello</h1>") }))
            .route("/broken", post(|| async { StatusCode::INTERNAL_SERVER_ERROR }))
            .route(
                "/moved",
                post(|| async { (StatusCode::FOUND, [("location", "http://10.0.0.1/")]) }),
            )
            .route(
                "/endless",
                post(|| async {
                    let comments =
                        stream::repeat_with(|| Ok::<_, std::io::Error>(": still here\n\n".repeat(1_000)));
                    (
                        [("content-type", "text/event-stream")],
                        Body::from_stream(comments),
                    )
                        .into_response()
                }),
            ),
    )
    .await;
    let database = TestStore::sqlite().await;
    let desk = Desk::new(&database.store);
    let mut added = Vec::new();
    for path in ["/sign-in", "/page", "/broken", "/moved", "/endless", "/nowhere"] {
        added.push((path, desk.add(&url(&base, path), "list").await));
    }
    assert_eq!(desk.crawl().await, added.len());
    let mut table = Vec::new();
    for (path, identity) in &added {
        let server = desk.server(identity).await;
        assert_eq!(server.tools, None, "{path}");
        let outcome = server.outcome.map_or("-", Outcome::name);
        table.push(format!(
            "{path:<10} {outcome:<14} {}",
            server.detail.unwrap_or_default()
        ));
    }
    insta::assert_snapshot!(table.join("\n"));
}

#[tokio::test]
async fn servers_that_hang_time_out() {
    let silent =
        serve(Router::new().route("/mcp", post(|| async { std::future::pending::<()>().await }))).await;
    let database = TestStore::sqlite().await;
    let desk = Desk::impatient(&database.store);
    for spec in [
        fixture(&["hang"]),
        fixture(&["silent-tools"]),
        url(&silent, "/mcp"),
    ] {
        let identity = desk.add(&spec, "shell").await;
        assert_eq!(desk.crawl().await, 1);
        assert_eq!(
            desk.server(&identity).await.outcome,
            Some(Outcome::TimedOut),
            "{identity}"
        );
    }
}

#[tokio::test]
async fn packages_and_versions_that_don_t_exist_are_said_not_to() {
    let database = TestStore::sqlite().await;
    let desk = Desk::new(&database.store);
    for (reference, outcome) in [
        ("npm:@mcpindex-test/no-such-package", Outcome::PackageNotFound),
        (
            "npm:@modelcontextprotocol/server-everything@0.0.999",
            Outcome::VersionNotFound,
        ),
        ("pypi:mcp-server-time@0.0.999", Outcome::VersionNotFound),
    ] {
        let spec = TargetSpec::from_reference(reference, &[]).unwrap();
        let identity = desk.add(&spec, "shell").await;
        assert_eq!(desk.crawl().await, 1);
        let mut server = desk.server(&identity).await;
        if server.outcome == Some(Outcome::InstallFailed) {
            // The registry may be out of reach for a moment; the second time the detail below says that it is.
            desk.add(&spec, "shell").await;
            desk.crawl().await;
            server = desk.server(&identity).await;
        }
        assert_eq!(server.outcome, Some(outcome), "{reference}: {:?}", server.detail);
        assert_eq!(server.tools, None);
    }
}

#[tokio::test]
async fn a_private_url_is_blocked_and_only_the_rule_is_told() {
    let database = TestStore::sqlite().await;
    let desk = Desk::with(&database.store, |settings| settings.allow_networks.clear());
    let identity = desk.add(&url("https://10.20.30.40", "/mcp"), "shell").await;
    assert_eq!(desk.crawl().await, 1);
    let server = desk.server(&identity).await;
    assert_eq!(server.outcome, Some(Outcome::BlockedAddress));
    assert_eq!(
        server.detail.as_deref(),
        Some("blocked address (private network 10.0.0.0/8)")
    );
}

#[tokio::test]
async fn where_this_machine_keeps_things_is_not_told() {
    let database = TestStore::sqlite().await;
    let mut cache = None;
    let desk = Desk::with(&database.store, |settings| cache = Some(settings.cache.clone()));
    let elsewhere = tempfile::tempdir().unwrap();
    for (folder, told) in [
        (cache.unwrap().as_path(), "<cache>"),
        (elsewhere.path(), "<folder>"),
    ] {
        let missing = folder.join("server.js").to_str().unwrap().to_owned();
        let command = TargetSpec::from_command(&["cat".to_owned(), missing]).unwrap();
        let identity = desk.add(&command, "shell").await;
        assert_eq!(desk.crawl().await, 1);
        let detail = desk.server(&identity).await.detail.unwrap();
        assert!(detail.contains(&format!(" {told}/server.js")), "{detail}");
    }
}

#[tokio::test]
async fn where_a_cache_is_kept_that_was_named_from_here_is_not_told() {
    let database = TestStore::sqlite().await;
    let here = std::env::current_dir().unwrap();
    let cache = tempfile::tempdir_in(&here).unwrap();
    let name = cache.path().file_name().unwrap().to_owned();
    let desk = Desk::with(&database.store, |settings| settings.cache = name.into());
    let missing = cache.path().join("server.js").to_str().unwrap().to_owned();
    let command = TargetSpec::from_command(&["cat".to_owned(), missing]).unwrap();
    let identity = desk.add(&command, "shell").await;
    assert_eq!(desk.crawl().await, 1);
    let detail = desk.server(&identity).await.detail.unwrap();
    assert!(detail.contains(" <cache>/server.js"), "{detail}");
}

#[tokio::test]
async fn a_server_that_names_its_directory_does_not_drift_by_that() {
    let database = TestStore::sqlite().await;
    let desk = Desk::new(&database.store);
    // Two versions at once: each has the directory in its turn.
    for version in ["1.0.0", "1.1.0"] {
        let target = as_version(version, &["names-home"]);
        desk.store.add_target(&target, NOW).await.unwrap();
    }
    assert_eq!(desk.crawl().await, 2);
    let drifts = desk.store.drifts(None, None, 10).await.unwrap();
    assert_eq!(drifts, []);
}

#[tokio::test]
async fn two_versions_make_a_drift_whichever_is_looked_at_first() {
    on_each_backend(async |store| {
        let mut desk = Desk::with(&store, |settings| settings.workers = 1);
        for (version, scenario) in [("2.0.0", "2"), ("1.0.0", "1")] {
            store
                .add_target(&as_version(version, &["drifting", scenario]), NOW)
                .await
                .unwrap();
        }
        assert_eq!(desk.crawl().await, 2);
        let drifts = store.drifts(Some("npm:@demo/server"), None, 10).await.unwrap();
        assert_eq!(drifts.len(), 1);
        assert_eq!(drifts[0].before_version.as_deref(), Some("1.0.0"));
        assert_eq!(drifts[0].after_version.as_deref(), Some("2.0.0"));
        let mut kinds = drifts[0].kinds.clone();
        kinds.sort();
        let expected = [("description-only", 1), ("tool-added", 1), ("tool-removed", 1)];
        assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)));
        assert_eq!(
            desk.server("npm:@demo/server").await.current_version.as_deref(),
            Some("2.0.0")
        );

        let mut told = Vec::new();
        while let Ok(event) = desk.events.try_recv() {
            if let Event::Looked {
                version,
                outcome,
                tools,
                ..
            } = event
            {
                told.push((version.unwrap(), outcome, tools));
            }
        }
        assert_eq!(
            told,
            ["2.0.0", "1.0.0"].map(|version| (version.to_owned(), Outcome::Ok, Some(2)))
        );
    })
    .await;
}

#[tokio::test]
async fn a_later_version_tells_its_drift() {
    let database = TestStore::sqlite().await;
    let mut desk = Desk::with(&database.store, |settings| settings.workers = 1);
    for (version, scenario) in [("1.0.0", "1"), ("1.1.0", "1"), ("2.0.0", "2")] {
        desk.store
            .add_target(&as_version(version, &["drifting", scenario]), NOW)
            .await
            .unwrap();
    }
    assert_eq!(desk.crawl().await, 3);
    let mut told = Vec::new();
    while let Ok(event) = desk.events.try_recv() {
        if let Event::Looked {
            drift,
            kinds,
            compared,
            ..
        } = event
        {
            told.push((
                drift.is_some(),
                kinds.iter().map(|(_, count)| count).sum::<i64>(),
                compared,
            ));
        }
    }
    assert_eq!(told, [(false, 0, false), (false, 0, true), (true, 3, true)]);
}

#[tokio::test]
async fn a_regular_target_is_due_again_and_a_one_off_is_done() {
    let database = TestStore::sqlite().await;
    let desk = Desk::new(&database.store);
    for (scenario, every) in [
        ("good", Some(DAY)),
        ("crash", Some(DAY)),
        ("list-failed", Some(DAY)),
        ("noise", None),
    ] {
        let target = fixture(&[scenario]).to_new_target("shell", every, NOW);
        desk.store.add_target(&target, NOW).await.unwrap();
    }
    assert_eq!(desk.crawl().await, 4);
    let due: Vec<Option<i64>> = desk
        .store
        .targets(None)
        .await
        .unwrap()
        .into_iter()
        .map(|target| target.due)
        .collect();
    // Each pause is up to a tenth shorter, so that what was added together comes apart.
    for (due, pause) in due.iter().zip([DAY, DAY, 3_600]) {
        let pauses = (NOW + pause - pause / 10)..=(NOW + pause);
        assert!(due.is_some_and(|due| pauses.contains(&due)), "{due:?} {pause}");
    }
    assert_eq!(due[3], None);
}

#[tokio::test]
async fn a_crawl_that_is_stopped_gives_its_targets_back() {
    on_each_backend(async |store| {
        let mut desk = Desk::new(&store);
        desk.add(&fixture(&["hang"]), "shell").await;
        let (crawler, stop) = (Arc::clone(&desk.crawler), desk.stop.clone());
        let running = tokio::spawn(async move { crawler.run(&stop).await });
        desk.started().await;
        assert!(
            store
                .claim_targets("another", NOW, 60, 10, None)
                .await
                .unwrap()
                .is_empty()
        );
        desk.stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(
            store
                .claim_targets("another", NOW, 60, 10, None)
                .await
                .unwrap()
                .len(),
            1
        );
    })
    .await;
}

#[tokio::test]
async fn a_result_made_under_a_lost_lease_is_refused() {
    on_each_backend(async |store| {
        let gate = Arc::new(Semaphore::new(0));
        let waiting = Arc::clone(&gate);
        let answer = move || async move {
            let _open = waiting.acquire().await.unwrap();
            StatusCode::UNAUTHORIZED
        };
        let base = serve(Router::new().route("/mcp", post(answer))).await;
        let mut desk = Desk::new(&store);
        let spec = url(&base, "/mcp");
        let identity = desk.add(&spec, "shell").await;
        let (crawler, stop) = (Arc::clone(&desk.crawler), desk.stop.clone());
        let running = tokio::spawn(async move { crawler.run_until_idle(&stop).await });
        desk.started().await;
        // Asked for again meanwhile, for a later time: what is being looked at is no longer what was asked for.
        store
            .add_target(&spec.to_new_target("shell", None, NOW + DAY), NOW)
            .await
            .unwrap();
        gate.add_permits(1_000);
        assert_eq!(running.await.unwrap().unwrap(), 0);
        assert!(store.observations(&identity, None, 10).await.unwrap().is_empty());
        assert_eq!(desk.server(&identity).await.outcome, None);
    })
    .await;
}

#[tokio::test]
async fn a_look_is_dropped_when_its_lease_is_lost_and_the_crawl_goes_on() {
    let database = TestStore::sqlite().await;
    let mut desk = Desk::with(&database.store, |settings| settings.lease = 1);
    let spec = fixture(&["hang"]);
    let identity = desk.add(&spec, "shell").await;
    let (crawler, stop) = (Arc::clone(&desk.crawler), desk.stop.clone());
    let running = tokio::spawn(async move { crawler.run_until_idle(&stop).await });
    desk.started().await;
    desk.store
        .add_target(&spec.to_new_target("shell", None, NOW + DAY), NOW)
        .await
        .unwrap();
    let good = desk.add(&fixture(&["good"]), "shell").await;
    assert_eq!(running.await.unwrap().unwrap(), 1);
    assert_eq!(desk.server(&good).await.outcome, Some(Outcome::Ok));
    assert!(
        desk.store
            .observations(&identity, None, 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn two_crawlers_share_one_store_and_look_at_each_target_once() {
    on_each_backend(async |store| {
        let (one, other) = (Desk::new(&store), Desk::new(&store));
        let mut identities = Vec::new();
        for number in 0..8 {
            identities.push(one.add(&fixture(&["good", &number.to_string()]), "shell").await);
        }
        let (first, second) = tokio::join!(one.crawl(), other.crawl());
        assert_eq!(first + second, 8);
        for identity in &identities {
            assert_eq!(store.observations(identity, None, 10).await.unwrap().len(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn backfills_take_turns_and_leave_out_what_is_known() {
    let database = TestStore::sqlite().await;
    let desk = Desk::new(&database.store);
    desk.store
        .add_target(&as_version("1.1.0", &["good"]), NOW)
        .await
        .unwrap();
    desk.crawl().await;
    let package = |name: &str| TargetSpec::from_reference(name, &[]).unwrap();
    let versions = |versions: &[&str]| versions.iter().map(|version| (*version).to_owned()).collect();
    let planned = [
        (
            package("npm:@demo/server"),
            versions(&["1.0.0", "1.1.0", "1.2.0"]),
        ),
        (package("pypi:demo"), versions(&["0.1", "0.2"])),
    ];
    assert_eq!(enqueue(&desk.store, &planned, "shell", NOW).await.unwrap(), 4);
    let claimed = desk
        .store
        .claim_targets("a test", NOW, 60, 10, None)
        .await
        .unwrap();
    let order: Vec<String> = claimed
        .into_iter()
        .map(|(target, _)| format!("{} {}", target.identity, target.version.unwrap()))
        .collect();
    assert_eq!(
        order,
        [
            "npm:@demo/server 1.0.0",
            "pypi:demo 0.1",
            "pypi:demo 0.2",
            "npm:@demo/server 1.2.0"
        ]
    );
}

#[tokio::test]
async fn a_database_that_fails_is_waited_out_until_the_crawl_is_stopped() {
    let database = TestStore::sqlite().await;
    let desk = Desk::new(&database.store);
    desk.store.close().await;
    tokio::time::pause();
    let error = desk.crawler.run_until_idle(&desk.stop).await.unwrap_err();
    assert!(matches!(error, CrawlError::Store(_)), "{error}");

    let (crawler, stop) = (Arc::clone(&desk.crawler), desk.stop.clone());
    let running = tokio::spawn(async move { crawler.run(&stop).await });
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::task::yield_now().await;
    assert!(!running.is_finished());
    desk.stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn settings_that_can_t_work_are_named() {
    let database = TestStore::sqlite().await;
    let check = |change: fn(&mut mcpindex_crawler::settings::Settings), expected: &str| {
        let (sender, _) = tokio::sync::mpsc::unbounded_channel();
        let cache = tempfile::tempdir().unwrap();
        let mut settings = crate::desk::settings(cache.path());
        change(&mut settings);
        crate::install_tls_provider();
        let clock = Arc::new(mcpindex::clock::SystemClock);
        let crawler = mcpindex_crawler::worker::Crawler::new(database.store.clone(), settings, clock, sender);
        assert_eq!(crawler.err().unwrap().to_string(), expected);
    };
    check(
        |settings| settings.workers = 0,
        "`crawl.workers`: 0 is too small: expected at least 1",
    );
    check(
        |settings| settings.every.package = -1,
        "`crawl.every`: -1 is too small: expected at least 1",
    );
    check(
        |settings| settings.allow_networks.push("ten".to_owned()),
        "`crawl.allow_networks`: `ten` is no network: expected an address and a prefix length, as `10.1.0.0/16` or `fd00::/8`",
    );
}
