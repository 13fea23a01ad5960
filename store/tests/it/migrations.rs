//! Bringing a schema up to date, and that both databases come to the same one.

use mcpindex_store::testing::{TestStore, on_each_database};
use mcpindex_store::{Location, SchemaState, Store, StoreError};
use sqlx::{Connection, PgConnection, SqliteConnection};

async fn check_new_schema(database: TestStore) {
    let store = &database.store;
    assert_eq!(
        store.schema_state().await.unwrap(),
        SchemaState::Behind { missing: 5 }
    );
    assert_eq!(store.migrate().await.unwrap(), 5);
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
        assert!(matches!(error, StoreError::NewerSchema { found: 9999, known: 5 }), "{error}");
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
           WHERE m.type = 'table' AND m.name NOT LIKE '\_sqlx%' ESCAPE '\' ORDER BY 1, 2"#,
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let mut connection = PgConnection::connect(url).await.unwrap();
    let on_postgres: Vec<(String, String, bool)> = sqlx::query_as(
        r#"SELECT table_name::text, column_name::text, is_nullable = 'YES' FROM information_schema.columns
           WHERE table_schema = 'public' AND table_name NOT LIKE '\_sqlx%'
           ORDER BY table_name::text COLLATE "C", column_name::text COLLATE "C""#,
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert!(on_sqlite.len() > 60, "{on_sqlite:?}");
    assert_eq!(on_sqlite, on_postgres);
}
