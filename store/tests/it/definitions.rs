//! Each text once, by digest.

use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::MemberKind;
use mcpindex_store::Location;
use mcpindex_store::testing::{TestStore, on_each_backend, on_each_database};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::fixture::{START, add, look, member, record, surface, tool, with_instructions};

async fn rows(database: &TestStore, table: &str) -> i64 {
    let statement = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
    match &database.location {
        Location::Sqlite(path) => {
            let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
            sqlx::query_scalar(statement)
                .fetch_one(&mut connection)
                .await
                .unwrap()
        }
        Location::Postgres(url) => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::query_scalar(statement)
                .fetch_one(&mut connection)
                .await
                .unwrap()
        }
    }
}

#[tokio::test]
async fn a_definition_is_kept_once_and_a_look_without_news_adds_one_row() {
    on_each_database(async |database| {
        let store = &database.store;
        let counts = async || {
            let mut counts = Vec::new();
            for table in ["observation", "definition", "surface", "surface_member", "drift"] {
                counts.push(rows(database, table).await);
            }
            counts
        };
        let declared = surface(&[("a", "d"), ("b", "d"), ("a", "d")]);
        add(store, "npm:a").await;
        add(store, "npm:b").await;
        record(store, &look("npm:a", "1.0", declared.clone())).await;
        assert_eq!(counts().await, [1, 2, 1, 3, 0]);
        record(store, &look("npm:a", "1.0", declared.clone())).await;
        assert_eq!(counts().await, [2, 2, 1, 3, 0]);
        // Another server with the same surface, and a version in which one of two changed.
        record(store, &look("npm:b", "1.0", declared)).await;
        assert_eq!(counts().await, [3, 2, 1, 3, 0]);
        record(store, &look("npm:a", "1.1", surface(&[("a", "d"), ("b", "e")]))).await;
        assert_eq!(counts().await, [4, 3, 2, 5, 1]);
    })
    .await;
}

#[tokio::test]
async fn a_definition_says_who_declares_it() {
    on_each_backend(async |store| {
        for server in ["npm:b", "npm:a", "npm:c"] {
            add(&store, server).await;
            record(
                &store,
                &look(server, "1.0", surface(&[("t", "shared"), ("u", server)])),
            )
            .await;
            record(&store, &look(server, "1.1", surface(&[]))).await;
        }
        let shared = tool("t", "shared").definition;
        let stored = store.definition(&shared.digest()).await.unwrap().unwrap();
        assert_eq!((stored.digest, stored.first_seen_at), (shared.digest(), START));
        assert_eq!(stored.text, shared.digested_text());
        assert_eq!(Digest::of_canonical(&stored.text), stored.digest);
        let declared: Vec<_> = stored
            .declared_by
            .iter()
            .map(|(identity, kind, name)| [identity, kind, name])
            .collect();
        assert_eq!(
            declared,
            [
                ["npm:a", "tool", "t"],
                ["npm:b", "tool", "t"],
                ["npm:c", "tool", "t"]
            ]
        );
        assert_eq!(store.definition(&Digest::of_canonical("{}")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn raw_definitions_meta_and_instructions_are_kept_by_their_digests_too() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let sent = r#"{ "name": "t", "a": 1, "a": 2 }"#;
        let mut declared = with_instructions(surface(&[]), "Be kind.");
        declared.members.push(member(MemberKind::Tool, sent));
        declared
            .members
            .push(member(MemberKind::Tool, r#"{"name":"m","_meta":{"b":1,"a":2}}"#));
        record(&store, &look("npm:a", "1.0", declared.clone())).await;
        let text = async |digest: Digest| store.definition(&digest).await.unwrap().unwrap().text;
        assert_eq!(text(Digest::of_raw(sent)).await, sent);
        assert_eq!(
            text(Digest::of_canonical(r#"{"a":2,"b":1}"#)).await,
            r#"{"a":2,"b":1}"#
        );
        let instructions = store
            .definition(&declared.instructions.unwrap().digest)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(instructions.text, r#""Be kind.""#);
        assert_eq!(
            instructions.declared_by,
            [("npm:a".to_owned(), "instructions".to_owned(), String::new())]
        );
    })
    .await;
}
