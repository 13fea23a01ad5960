//! Opening a store: what is made, what is refused, and that no password shows.

use mcpindex_store::testing::{TestStore, on_each_backend};
use mcpindex_store::{Location, Store, StoreError};

#[tokio::test]
async fn a_store_answers_until_it_is_closed() {
    on_each_backend(async |store| {
        assert!(["sqlite", "postgres"].contains(&store.backend()));
        store.ping().await.unwrap();
        let clone = store.clone();
        store.close().await;
        assert!(matches!(clone.ping().await, Err(StoreError::Unreachable { .. })));
        assert_eq!(format!("{store:?}"), format!("Store({:?})", store.backend()));
    })
    .await;
}

#[tokio::test]
async fn a_missing_sqlite_file_and_its_folders_are_made() {
    let database = TestStore::empty_sqlite().await;
    let path = database
        .path()
        .unwrap()
        .with_file_name("deep")
        .join("er")
        .join("index.db");
    let store = Store::open(&Location::Sqlite(path.clone())).await.unwrap();
    store.migrate().await.unwrap();
    assert!(path.exists());
    store.close().await;
    assert!(
        !path.with_file_name("index.db-wal").exists(),
        "the log was not checkpointed"
    );
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let database = TestStore::empty_sqlite().await;
    let file = database.path().unwrap();
    let folder = file.parent().unwrap().to_path_buf();
    for path in [file.join("below-a-file.db"), folder] {
        let error = Store::open(&Location::Sqlite(path.clone())).await.unwrap_err();
        assert!(matches!(error, StoreError::NotWritable { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_as_it_is() {
    let database = TestStore::empty_sqlite().await;
    let path = database.path().unwrap().with_file_name("notes.txt");
    let notes = "not a database, but longer than a page header\n".repeat(200);
    std::fs::write(&path, &notes).unwrap();
    let error = Store::open(&Location::Sqlite(path.clone())).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), notes);
}

#[tokio::test]
async fn an_unreachable_postgres_is_named_without_its_password() {
    // Bound and then closed again: nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("postgres://ann:s3cret@127.0.0.1:{port}/index");
    let error = Store::open(&url.parse().unwrap()).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "the database can't be opened: postgres://ann@127.0.0.1:{port}/index: Connection refused (os error 111)"
        )
    );
}

#[tokio::test]
async fn a_postgres_that_never_answers_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://127.0.0.1:{port}/index");
    let error = Store::open(&url.parse().unwrap()).await.unwrap_err().to_string();
    assert!(error.ends_with("no answer within 5 seconds"), "{error}");
}

#[tokio::test]
async fn many_programs_open_a_new_sqlite_file_at_once() {
    let database = TestStore::empty_sqlite().await;
    for round in 0..10 {
        let name = format!("new-{round}.db");
        let path = Location::Sqlite(database.path().unwrap().with_file_name(name));
        let programs: Vec<_> = (0..8)
            .map(|_| {
                tokio::spawn({
                    let path = path.clone();
                    async move { Store::open(&path).await }
                })
            })
            .collect();
        for program in programs {
            program.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn two_programs_share_one_sqlite_file() {
    let database = TestStore::empty_sqlite().await;
    let path = Location::Sqlite(database.path().unwrap().with_file_name("shared.db"));
    // Both open and migrate a new file at once, as `add` beside `serve` may.
    let (one, other) = tokio::join!(Store::open(&path), Store::open(&path));
    let (one, other) = (one.unwrap(), other.unwrap());
    let (first, second) = tokio::join!(one.migrate(), other.migrate());
    let newest = first.unwrap().max(second.unwrap());
    assert_eq!(newest, crate::migrations::numbers().len());
    crate::fixture::add(&one, "npm:a").await;
    assert!(other.find_server("npm:a").await.unwrap().is_some());
    crate::fixture::add(&other, "npm:b").await;
    assert!(one.find_server("npm:b").await.unwrap().is_some());
}
