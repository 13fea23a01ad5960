//! What is known of a tool: by name and by every fingerprint, now and before, and what installs told of it.

use mcpindex_contract::digest::Digest;
use mcpindex_contract::signal::{Digests, Event, FingerprintKey, InstallId, Sdk, Signal};
use mcpindex_store::Store;
use mcpindex_store::sightings::{Question, Reference, Sightings};
use mcpindex_store::signals::{Network, Received};
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{START, add, identity, look, record, surface, tool};

const SERVER: &str = "npm:docs";
const ALIAS: &str = "io.github.example/docs";

fn digest(description: &str) -> Digest {
    tool("search", description).definition.digest()
}

/// Three versions: `old`, `old`, `new`.
async fn index(store: &Store) {
    add(store, SERVER).await;
    for (version, description, at) in [("1.0", "old", 1), ("1.1", "old", 2), ("2.0", "new", 3)] {
        let mut look = look(
            SERVER,
            version,
            surface(&[("search", description), ("other", "same")]),
        );
        look.observed_at = START + at;
        record(store, &look).await;
    }
    store
        .add_alias(ALIAS, &identity(SERVER), "registry", START)
        .await
        .unwrap();
}

fn by_name(digest: Option<Digest>) -> Question {
    Question {
        server: Reference::Name(SERVER.to_owned()),
        tool: Some(Reference::Name("search".to_owned())),
        digest,
        hash: None,
    }
}

fn by_fingerprint(key: &FingerprintKey, name: &str, digest: Option<Digest>) -> Question {
    Question {
        server: Reference::Fingerprint(key.server(name)),
        tool: Some(Reference::Fingerprint(key.tool(name, "search"))),
        digest,
        hash: None,
    }
}

async fn ask(store: &Store, question: Question) -> Sightings {
    let mut found = store.sightings(&[question], START).await.unwrap().remove(0);
    assert!(!found.more);
    assert_eq!(found.servers.len(), 1);
    found.servers.remove(0)
}

#[tokio::test]
async fn a_tool_is_known_with_all_that_was_ever_declared_under_its_name() {
    on_each_backend(async |store| {
        index(&store).await;
        let now = ask(&store, by_name(None)).await;
        assert_eq!(now.current, Some(digest("new")));
        assert_eq!(now.artifact.as_ref().unwrap().version, "2.0");
        assert_eq!(now.left_at, None);
        let declared: Vec<_> = now
            .declared
            .iter()
            .map(|sighting| (sighting.digest, sighting.first_seen_at, sighting.last_seen_at))
            .collect();
        assert_eq!(
            declared,
            [
                (digest("new"), START + 3, START + 3),
                (digest("old"), START + 1, START + 2)
            ]
        );
        let drift = now.drift.clone().unwrap();
        assert_eq!((drift.found_at, drift.kinds.len()), (START + 3, 1));
        assert!(now.definition.as_ref().unwrap().contains("new"));

        let before = ask(&store, by_name(Some(digest("old")))).await;
        assert_eq!(before.left_at, Some(START + 3));
        assert_eq!(before.artifact.unwrap().version, "1.1");
        assert!(before.definition.unwrap().contains("old"));

        let never = ask(&store, by_name(Some(digest("never")))).await;
        assert_eq!(
            (never.artifact, never.definition, never.left_at),
            (None, None, None)
        );
        assert_eq!(never.current, Some(digest("new")));
    })
    .await;
}

#[tokio::test]
async fn a_tool_is_known_by_fingerprint_under_each_name_and_each_key() {
    on_each_backend(async |store| {
        index(&store).await;
        let expected = ask(&store, by_name(None)).await;
        let public = FingerprintKey::public();
        for name in [SERVER, ALIAS] {
            assert_eq!(
                ask(&store, by_fingerprint(&public, name, None)).await,
                expected,
                "{name}"
            );
        }
        let key = [7; 32];
        let own = FingerprintKey::new(&key);
        let unknown = ask(&store, by_fingerprint(&own, SERVER, None)).await;
        assert_eq!(unknown, Sightings::default());
        // What was there before the organisation had a key is made up for, and what comes later is kept under it at once.
        store.organisation_key(key).await.unwrap();
        assert_eq!(store.keep_older_servers().await.unwrap(), 1);
        assert_eq!(store.keep_older_servers().await.unwrap(), 0);
        for name in [SERVER, ALIAS] {
            assert_eq!(
                ask(&store, by_fingerprint(&own, name, None)).await,
                expected,
                "{name}"
            );
        }
        record(
            &store,
            &look(SERVER, "3.0", surface(&[("search", "new"), ("third", "new")])),
        )
        .await;
        let third = Question {
            tool: Some(Reference::Fingerprint(own.tool(ALIAS, "third"))),
            ..by_fingerprint(&own, ALIAS, None)
        };
        assert!(ask(&store, third).await.current.is_some());
        assert_eq!(store.keep_older_servers().await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn of_servers_that_share_a_name_the_one_that_declares_the_digest_is_meant() {
    on_each_backend(async |store| {
        index(&store).await;
        // Before `npm:docs` in order, and without the tool.
        add(&store, "npm:another").await;
        store
            .add_alias(ALIAS, &identity("npm:another"), "registry", START)
            .await
            .unwrap();
        let public = FingerprintKey::public();
        let found = ask(&store, by_fingerprint(&public, ALIAS, Some(digest("old")))).await;
        assert_eq!(found.server.unwrap().identity, SERVER);
    })
    .await;
}

#[tokio::test]
async fn what_installs_told_counts_under_every_fingerprint_of_the_tool() {
    on_each_backend(async |store| {
        index(&store).await;
        let hash = |letter: char| format!("sha256:{}", letter.to_string().repeat(64));
        let public = FingerprintKey::public();
        let told = |install: u8, name: &str, digest: Option<Digest>, letter| Received {
            signal: Signal {
                event: Event::Pin,
                server: public.server(name),
                tool: public.tool(name, "search"),
                hash_before: None,
                hash_after: hash(letter),
                digests: digest.map(|after| Digests { before: None, after }),
                kinds: Vec::new(),
                safety_relevant: false,
                hour: Some(0),
                sdk: Sdk::Rs,
                install: InstallId::from_bytes([install; 16]),
            },
            network: Network::of([192, 0, install, 1].into()),
            authenticated: false,
        };
        let batch = [
            told(1, SERVER, Some(digest("old")), 'a'),
            told(2, ALIAS, Some(digest("old")), 'a'),
            told(2, SERVER, Some(digest("old")), 'a'),
            // Of the published client, which knows no digest.
            told(3, ALIAS, None, 'a'),
            told(4, ALIAS, Some(digest("else")), 'b'),
        ];
        store.record_signals(&batch, 0).await.unwrap();
        store.count_signals().await.unwrap();
        let question = Question {
            hash: Some(hash('a')),
            ..by_name(Some(digest("old")))
        };
        let told = ask(&store, question).await.told;
        let counted: Vec<(Option<String>, u64, u64)> = told
            .into_iter()
            .map(|told| (told.digest, told.anonymous, told.anonymous_networks))
            .collect();
        assert_eq!(
            counted,
            [
                (None, 1, 1),
                (Some(digest("old").to_string()), 2, 2),
                (Some(digest("else").to_string()), 1, 1)
            ]
        );
    })
    .await;
}
