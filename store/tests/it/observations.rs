//! Recording looks and reading them back.

use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Listing, MemberKind, Surface};
use mcpindex_store::StoreError;
use mcpindex_store::observations::{NewObservation, Recorded};
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{
    START, add, failed_look, failing, look, member, record, remote_look, surface, with_instructions,
    with_prompts,
};

/// Everything that a surface is known by.
fn described(surface: &Surface) -> Vec<String> {
    let mut lines = vec![
        surface.digest().to_string(),
        format!("{:?}", surface.instructions),
        format!("{:?}", surface.listings),
        format!(
            "{} {:?} {:?}",
            surface.protocol_version, surface.server_info, surface.capabilities
        ),
    ];
    for member in &surface.members {
        let meta = member
            .definition
            .meta()
            .map(|meta| (meta.digest, meta.text.clone()));
        lines.push(format!(
            "{:?} {:?} {} {meta:?}",
            member.kind,
            member.name,
            member.definition.digest()
        ));
    }
    lines
}

#[tokio::test]
async fn what_was_observed_is_read_back() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let observation = NewObservation {
            detail: Some("one line of noise".to_owned()),
            ..look("npm:a", "1.0", surface(&[("t", "d"), ("u", "d")]))
        };
        let recorded = record(&store, &observation).await;
        assert_eq!(
            (recorded.drift, recorded.changes, recorded.compared),
            (None, 0, false)
        );
        let read = store.observation(recorded.observation).await.unwrap().unwrap();
        assert_eq!(read.identity, "npm:a");
        assert_eq!(read.artifact, observation.artifact);
        assert_eq!(
            (read.context.as_str(), read.observed_at, read.outcome),
            ("local", START, Outcome::Ok)
        );
        assert_eq!(read.detail, observation.detail);
        assert_eq!(
            read.surface_digest,
            Some(observation.surface.as_ref().unwrap().digest().to_string())
        );
        assert_eq!(read.protocol_version.as_deref(), Some("2025-11-25"));
        assert_eq!(read.server_info.as_deref(), Some(r#"{"name":"example"}"#));
        assert_eq!(read.tools, Some(2));
        assert_eq!(store.observation(recorded.observation + 1).await.unwrap(), None);
        assert!(store.has_version("npm:a", "1.0").await.unwrap());
        assert!(!store.has_version("npm:a", "1.1").await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_surface_comes_back_with_every_digest_in_the_order_sent() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let mut sent = with_prompts(
            with_instructions(surface(&[("z", "last"), ("a", "first")]), "Be \"kind\"\n"),
            &["p"],
        );
        sent.members.splice(
            0..0,
            [
                // With `_meta`, without anything else, with an empty name, and each kind of flaw.
                member(MemberKind::Tool, r#"{"_meta":{"v":1.50},"name":"m"}"#),
                member(
                    MemberKind::Tool,
                    r#"{"_meta":{"big":9007199254740993},"name":"raw meta"}"#,
                ),
                member(MemberKind::Tool, r#"{"_meta":{"a":1}}"#),
                member(
                    MemberKind::Tool,
                    r#"{ "name":"n", "x": 12345678901234567890, "_meta": {} }"#,
                ),
                member(MemberKind::Tool, r#"{"name":"twice","a":1,"a":2}"#),
                member(MemberKind::Tool, r#"{"name":"half \ud800"}"#),
                member(MemberKind::Tool, r#"["no object"]"#),
                member(MemberKind::Tool, "no JSON"),
            ],
        );
        let recorded = record(&store, &look("npm:a", "1.0", sent.clone())).await;
        let read = store.surface(recorded.observation).await.unwrap().unwrap();
        assert_eq!(described(&read), described(&sent));
        assert_eq!(
            store
                .observation(recorded.observation)
                .await
                .unwrap()
                .unwrap()
                .tools,
            Some(10)
        );
    })
    .await;
}

#[tokio::test]
async fn instructions_with_half_a_surrogate_pair_keep_their_raw_digest() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let mut sent = surface(&[]);
        sent.instructions = mcpindex_contract::surface::Instructions::read(r#""half \ud800""#);
        assert!(sent.instructions.as_ref().unwrap().digest.is_raw());
        let recorded = record(&store, &look("npm:a", "1.0", sent.clone())).await;
        let read = store.surface(recorded.observation).await.unwrap().unwrap();
        assert_eq!(read.instructions, sent.instructions);
    })
    .await;
}

#[tokio::test]
async fn a_look_that_determined_nothing_has_no_surface_and_no_number_of_tools() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let failed = record(&store, &failed_look("npm:a", "1.0", Outcome::NeedsConfig)).await;
        assert!(!failed.compared);
        assert_eq!(store.surface(failed.observation).await.unwrap(), None);
        let read = store.observation(failed.observation).await.unwrap().unwrap();
        assert_eq!((read.outcome, read.tools, read.surface_digest), (Outcome::NeedsConfig, None, None));
        assert_eq!(read.artifact.unwrap().version, "1.0");
        assert!(!store.has_version("npm:a", "1.0").await.unwrap());

        let partial = failing(with_prompts(surface(&[]), &["p"]), MemberKind::Tool);
        let partial = record(&store, &look("npm:a", "1.0", partial)).await;
        assert_eq!(store.observation(partial.observation).await.unwrap().unwrap().tools, None);
        let read = store.surface(partial.observation).await.unwrap().unwrap();
        assert!(matches!(read.listing(MemberKind::Tool), Listing::Failed { reason } if reason == "page 2 timed out"));
    })
    .await;
}

#[tokio::test]
async fn a_look_that_contradicts_itself_or_names_no_server_is_refused() {
    on_each_backend(async |store| {
        let unknown = look("npm:a", "1.0", surface(&[]));
        let refused = store.record_observation(&unknown, None).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "refused: no server `npm:a` is known, add it first"
        );
        add(&store, "npm:a").await;
        let lacking = NewObservation {
            surface: None,
            ..unknown.clone()
        };
        let beyond = NewObservation {
            outcome: Outcome::Crashed,
            ..unknown.clone()
        };
        let mut long = unknown.clone();
        long.version_key = Some("9".repeat(10_000));
        for contradiction in [lacking, beyond, long] {
            let refused = store.record_observation(&contradiction, None).await.unwrap_err();
            assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
        }
        assert_eq!(store.observations("npm:a", None, 9).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn the_timeline_is_by_version_and_then_by_look_and_can_be_paged() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        for version in ["2.0", "1.0", "3.0", "2.0"] {
            record(&store, &look("npm:a", version, surface(&[(version, "d")]))).await;
        }
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = store.observations("npm:a", before, 3).await.unwrap();
            before = page.last().map(|observation| observation.id);
            seen.push(
                page.iter()
                    .map(|one| one.artifact.clone().unwrap().version)
                    .collect::<Vec<_>>(),
            );
            if page.is_empty() {
                break;
            }
        }
        assert_eq!(seen, [vec!["3.0", "2.0", "2.0"], vec!["1.0"], vec![]]);
        assert_eq!(store.observations("npm:b", None, 3).await.unwrap(), []);
        assert_eq!(store.observations("npm:a", None, -1).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn how_a_server_stands_is_its_last_look_in_the_timeline() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let mut now = START;
        let mut check =
            async |observation: NewObservation, outcome: Outcome, version: Option<&str>, is_state: bool| {
                now += 10;
                record(
                    &store,
                    &NewObservation {
                        observed_at: now,
                        ..observation
                    },
                )
                .await;
                let server = store.find_server("npm:a").await.unwrap().unwrap();
                assert_eq!(
                    (server.outcome, server.current_version.as_deref()),
                    (Some(outcome), version)
                );
                assert_eq!(server.looked_at == Some(now), is_state, "{server:?}");
            };
        let missing = failed_look("npm:a", "9.9", Outcome::VersionNotFound);
        // Nothing else is known, so even a version that doesn't exist says how it stands.
        check(missing.clone(), Outcome::VersionNotFound, None, true).await;
        check(
            failed_look("npm:a", "2.0", Outcome::Crashed),
            Outcome::Crashed,
            None,
            true,
        )
        .await;
        // Backfilled: the newer version's crash is still how it stands, but what it declares is known now.
        check(
            look("npm:a", "1.0", surface(&[])),
            Outcome::Crashed,
            Some("1.0"),
            false,
        )
        .await;
        check(look("npm:a", "2.0", surface(&[])), Outcome::Ok, Some("2.0"), true).await;
        check(
            failed_look("npm:a", "1.1", Outcome::TimedOut),
            Outcome::Ok,
            Some("2.0"),
            false,
        )
        .await;
        check(missing, Outcome::Ok, Some("2.0"), false).await;
        // A look at the newest that did not get as far as its version.
        let unreachable = NewObservation {
            version_key: None,
            artifact: None,
            ..failed_look("npm:a", "", Outcome::InstallFailed)
        };
        check(unreachable, Outcome::InstallFailed, Some("2.0"), true).await;
        check(look("npm:a", "2.0", surface(&[])), Outcome::Ok, Some("2.0"), true).await;
    })
    .await;
}

#[tokio::test]
async fn a_server_without_versions_is_ordered_by_look_and_compared_within_one_context() {
    on_each_backend(async |store| {
        let url = "https://mcp.example/one";
        add(&store, url).await;
        record(&store, &remote_look(url, surface(&[("t", "one")]))).await;
        let mut other = remote_look(url, surface(&[("secret", "for those who sign in")]));
        other.context = "header:Authorization".to_owned();
        assert!(!record(&store, &other).await.compared);
        let changed = record(&store, &remote_look(url, surface(&[("t", "two")]))).await;
        let drift = store.drift(changed.drift.unwrap()).await.unwrap().unwrap().0;
        assert_eq!((drift.cause.as_str(), drift.before_version), ("unknown", None));
        let Recorded { compared, drift, .. } =
            record(&store, &remote_look(url, surface(&[("t", "two")]))).await;
        assert_eq!((compared, drift), (true, None));
    })
    .await;
}
