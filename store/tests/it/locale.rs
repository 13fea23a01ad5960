//! A Postgres as companies run it: a database with a language's order, and a role that owns it and nothing else.

use mcpindex_contract::outcome::Outcome;
use mcpindex_store::servers::{ServerFilter, StandingFilter};
use mcpindex_store::testing::TestStore;
use mcpindex_store::{Location, SchemaState, Store};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use url::Url;

use crate::fixture::{START, add, failed_look, identity, look, record, story, surface};

/// The URL of another database on the same server, for another role.
fn url_of(server: &str, database: &str, role: &str) -> String {
    let mut url = Url::parse(server).unwrap();
    url.set_path(database);
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| name != "user" && name != "password")
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.query_pairs_mut()
        .clear()
        .extend_pairs(others)
        .append_pair("user", role)
        .append_pair("password", role);
    url.into()
}

async fn identities(store: &Store, search: Option<&str>) -> Vec<String> {
    let filter = ServerFilter {
        search: search.map(str::to_owned),
        standing: StandingFilter::Any,
        after: None,
        limit: 99,
    };
    let servers = store.servers(&filter).await.unwrap();
    servers.into_iter().map(|server| server.identity).collect()
}

async fn check_order(store: &Store) {
    // A language orders `a` before `B` before `c`, passes over `-` and `_`, and knows `É` as an `E`.
    let mut references = [
        "npm:B",
        "npm:a",
        "npm:c",
        "npm:a-b",
        "npm:ab",
        "npm:a_c",
        "npm:A",
        "https://mcp.example/a",
        "pypi:a",
    ];
    for reference in references {
        add(store, reference).await;
    }
    references.sort_unstable();
    assert_eq!(identities(store, None).await, references);

    let alias = "Io.Example/École";
    store
        .add_alias(alias, &identity("npm:c"), "registry", START)
        .await
        .unwrap();
    assert_eq!(identities(store, Some("éCOLE")).await, Vec::<String>::new());
    assert_eq!(identities(store, Some("ÉCOLE")).await, ["npm:c"]);
    assert_eq!(identities(store, Some("PYPI")).await, ["pypi:a"]);

    // Version keys in the order of their bytes: `-` before `.` before `0` before `B` before `a`.
    for version in ["1.0", "1-0", "1.a", "1.B", "1.0"] {
        record(store, &look("npm:a", version, surface(&[("t", version)]))).await;
    }
    record(store, &failed_look("npm:ab", "1.0", Outcome::Crashed)).await;
    assert_eq!(
        story(store, "npm:a").await,
        [
            "1.B→1.a: description-only tool t",
            "1.0→1.B: description-only tool t",
            "1-0→1.0: description-only tool t",
        ]
    );
}

#[tokio::test]
async fn a_database_with_a_locale_and_a_role_without_rights_are_enough() {
    let Some(server) = TestStore::empty_postgres().await else {
        return;
    };
    let Location::Postgres(url) = &server.location else {
        panic!("a Postgres store is on Postgres");
    };
    let mut admin = PgConnection::connect(url).await.unwrap();
    let name: String = sqlx::query_scalar("SELECT current_database()::text || '_owned'")
        .fetch_one(&mut admin)
        .await
        .unwrap();
    for statement in [
        format!("CREATE ROLE {name} LOGIN PASSWORD '{name}' NOSUPERUSER NOCREATEDB NOCREATEROLE"),
        format!(
            "CREATE DATABASE {name} OWNER {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'fr-FR' LOCALE 'C'"
        ),
    ] {
        sqlx::query(AssertSqlSafe(statement))
            .execute(&mut admin)
            .await
            .unwrap();
    }

    let owned: Location = url_of(url, &name, &name).parse().unwrap();
    let store = Store::open(&owned).await.unwrap();
    assert_eq!(store.migrate().await.unwrap(), crate::migrations::numbers().len());
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Current);
    check_order(&store).await;
    store.close().await;
    check_order(&TestStore::sqlite().await.store).await;

    for statement in [
        format!("DROP DATABASE {name} WITH (FORCE)"),
        format!("DROP ROLE {name}"),
    ] {
        sqlx::query(AssertSqlSafe(statement))
            .execute(&mut admin)
            .await
            .unwrap();
    }
}
