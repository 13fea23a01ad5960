//! Bringing a schema up to date, and that both databases come to the same one.

use mcpindex_store::testing::{TestStore, on_each_database};
use mcpindex_store::{Location, SchemaState, Store, StoreError};
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::fixture::{MIGRATIONS, add, look, record, surface};

async fn check_new_schema(database: TestStore) {
    let store = &database.store;
    assert_eq!(
        store.schema_state().await.unwrap(),
        SchemaState::Behind { missing: MIGRATIONS }
    );
    assert_eq!(store.migrate().await.unwrap(), MIGRATIONS);
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Current);
    assert_eq!(store.migrate().await.unwrap(), 0);
}

#[tokio::test]
async fn an_empty_database_is_behind_and_migrates_once() {
    check_new_schema(TestStore::empty_sqlite().await).await;
    if let Some(database) = TestStore::empty_postgres().await {
        check_new_schema(database).await;
    }
}

#[tokio::test]
async fn two_programs_that_start_at_once_migrate_once() {
    let Some(database) = TestStore::empty_postgres().await else {
        return;
    };
    let other = Store::open(&database.location).await.unwrap();
    let (one, two) = tokio::join!(database.store.migrate(), other.migrate());
    one.unwrap();
    two.unwrap();
    assert_eq!(other.schema_state().await.unwrap(), SchemaState::Current);
}

/// Takes the last migration back and gives what it says of the drifts when it is applied again.
async fn changed_members_after_migrating_again(database: &TestStore) -> Vec<String> {
    let drop = "ALTER TABLE drift DROP COLUMN changed";
    let forget = "DELETE FROM _sqlx_migrations WHERE version = 7";
    let read = "SELECT changed FROM drift ORDER BY id";
    match &database.location {
        Location::Sqlite(path) => {
            let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
            sqlx::query(drop).execute(&mut connection).await.unwrap();
            sqlx::query(forget).execute(&mut connection).await.unwrap();
            assert_eq!(database.store.migrate().await.unwrap(), 1);
            sqlx::query_scalar(read).fetch_all(&mut connection).await.unwrap()
        }
        Location::Postgres(url) => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::query(drop).execute(&mut connection).await.unwrap();
            sqlx::query(forget).execute(&mut connection).await.unwrap();
            assert_eq!(database.store.migrate().await.unwrap(), 1);
            sqlx::query_scalar(read).fetch_all(&mut connection).await.unwrap()
        }
    }
}

#[tokio::test]
async fn drifts_of_before_are_summed_up_as_new_ones_are() {
    on_each_database(async |database| {
        let store = &database.store;
        add(store, "npm:a").await;
        for (version, tools) in [
            ("1.0", vec![("one", "a"), ("two", "a")]),
            ("1.1", vec![("one", "b"), ("two", "b"), ("three", "b")]),
            ("1.2", vec![("one", "b"), ("two", "b")]),
        ] {
            record(store, &look("npm:a", version, surface(&tools))).await;
        }
        assert_eq!(
            changed_members_after_migrating_again(database).await,
            ["tool:2", ""]
        );
    })
    .await;
}

#[tokio::test]
async fn a_schema_of_a_newer_program_is_refused() {
    on_each_database(async |database| {
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                     SELECT 9999, 'from tomorrow', success, checksum, execution_time FROM _sqlx_migrations WHERE version = 1";
        match &database.location {
            Location::Sqlite(path) => {
                let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
                sqlx::query(newer).execute(&mut connection).await.unwrap();
            }
            Location::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::query(newer).execute(&mut connection).await.unwrap();
            }
        }
        assert_eq!(database.store.schema_state().await.unwrap(), SchemaState::Ahead);
        let error = database.store.migrate().await.unwrap_err();
        let newest = i64::try_from(MIGRATIONS).unwrap();
        assert!(
            matches!(error, StoreError::NewerSchema { found: 9999, known } if known == newest),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn both_databases_have_the_same_tables_columns_and_nullability() {
    let sqlite = TestStore::sqlite().await;
    let Some(postgres) = TestStore::postgres().await else {
        return;
    };
    let Location::Postgres(url) = &postgres.location else {
        panic!("a Postgres store is on Postgres");
    };
    let mut connection = SqliteConnection::connect(sqlite.path().unwrap().to_str().unwrap())
        .await
        .unwrap();
    let on_sqlite: Vec<(String, String, bool)> = sqlx::query_as(
        r#"SELECT m.name, c.name, c."notnull" = 0 FROM sqlite_master m, pragma_table_info(m.name) c
           WHERE m.type = 'table' AND m.name NOT LIKE '\_sqlx%' ESCAPE '\'
             -- What its planner knows.
             AND m.name NOT LIKE 'sqlite\_%' ESCAPE '\'
             -- Postgres has an index there that is no table.
             AND m.name NOT LIKE 'server\_words\_index%' ESCAPE '\'
           ORDER BY 1, 2"#,
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let mut connection = PgConnection::connect(url).await.unwrap();
    let on_postgres: Vec<(String, String, bool)> = sqlx::query_as(
        r#"SELECT table_name::text, column_name::text, is_nullable = 'YES' FROM information_schema.columns
           WHERE table_schema IN ('public', 'mcplock') AND table_name NOT LIKE '\_sqlx%'
           ORDER BY table_name::text COLLATE "C", column_name::text COLLATE "C""#,
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert!(on_sqlite.len() > 60, "{on_sqlite:?}");
    assert_eq!(on_sqlite, on_postgres);
}
