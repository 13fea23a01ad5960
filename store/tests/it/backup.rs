//! Copies of an index while it is in use, and bringing them back: nothing is lost, nothing half done, whatever lies in the way.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mcpindex_contract::approval::Decision;
use mcpindex_contract::digest::Digest;
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::backup::{BackupError, restore};
use mcpindex_store::testing::TestStore;
use mcpindex_store::{Location, SchemaState, Store};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::fixture::{START, add};

const TENANT: &str = "default";

async fn approve(store: &Store, number: u64) {
    let tool = number.to_string();
    let decisions = [NewDecision {
        identity: "npm:a".to_owned(),
        digest: Digest::of_canonical(&tool),
        tool,
        decision: Decision::Approve,
        reason: None,
        reference: None,
        expires_at: None,
    }];
    let appended = store.append_approvals(TENANT, &decisions, "ann@local", 1, number, START);
    assert!(matches!(appended.await.unwrap(), Appended::Done(_)));
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The names in a folder, in their order.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

async fn length(path: &Path) -> u64 {
    let store = Store::open(&Location::Sqlite(path.to_owned())).await.unwrap();
    let state = store.verify_approvals(TENANT, START).await.unwrap();
    assert_eq!(state.flaw, None);
    store.close().await;
    state.good
}

/// An index with so many approvals, closed, in a folder of its own.
async fn index(folder: &Path, name: &str, approvals: u64) -> PathBuf {
    let path = folder.join(name);
    let store = Store::open(&Location::Sqlite(path.clone())).await.unwrap();
    store.migrate().await.unwrap();
    for number in 0..approvals {
        approve(&store, number).await;
    }
    store.close().await;
    path
}

#[tokio::test]
async fn a_copy_is_whole_while_others_write() {
    let database = TestStore::sqlite().await;
    let (folder, stop, written) = (folder(), AtomicBool::new(false), AtomicU64::new(0));
    let writing = async {
        while !stop.load(Ordering::Acquire) {
            let number = written.load(Ordering::Acquire);
            approve(&database.store, number).await;
            written.store(number + 1, Ordering::Release);
        }
    };
    let copying = async {
        let other = Store::open(&database.location).await.unwrap();
        let mut last = 0;
        for number in 0..5 {
            // Something new each time.
            while written.load(Ordering::Acquire) <= last {
                tokio::task::yield_now().await;
            }
            let path = folder.path().join(format!("copy-{number}"));
            let before = written.load(Ordering::Acquire);
            let copied = other.back_up(&path, START).await.unwrap();
            // What was acknowledged before is in it.
            assert!(copied.approvals >= before, "{copied:?} {before}");
            assert_eq!(copied.schema, SchemaState::Current);
            assert_eq!(copied.bytes, path.metadata().unwrap().len());
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            last = copied.approvals;
        }
        other.close().await;
        stop.store(true, Ordering::Release);
    };
    tokio::join!(writing, copying);
    assert_eq!(
        names(folder.path()),
        ["copy-0", "copy-1", "copy-2", "copy-3", "copy-4"]
    );
}

#[tokio::test]
async fn a_copy_takes_the_place_of_nothing() {
    let database = TestStore::sqlite().await;
    let folder = folder();
    let path = folder.path().join("there");
    std::fs::write(&path, "mine").unwrap();
    let error = database.store.back_up(&path, START).await.unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let error = database
        .store
        .back_up(&folder.path().join("no/where"), START)
        .await
        .unwrap_err();
    assert!(
        matches!(error, BackupError::File { done: "written", .. }),
        "{error}"
    );
    assert_eq!(names(folder.path()), ["there"]);
    if let Some(postgres) = TestStore::postgres().await {
        let error = postgres
            .store
            .back_up(&folder.path().join("x"), START)
            .await
            .unwrap_err();
        assert!(matches!(error, BackupError::OnPostgres), "{error}");
        let error = restore(&path, &postgres.location, true, START).await.unwrap_err();
        assert!(matches!(error, BackupError::OnPostgres), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_as_it_was_written_is_neither_copied_nor_brought_back() {
    let folder = folder();
    let path = index(folder.path(), "index.db", 3).await;
    let alter = async |path: &Path, statement: &str| {
        let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
        let statement = AssertSqlSafe(statement.to_owned());
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    };
    let copy = |name: &str| {
        let copy = folder.path().join(name);
        std::fs::copy(&path, &copy).unwrap();
        copy
    };
    let altered = copy("altered");
    alter(
        &altered,
        "UPDATE approval_record SET tool = 'x' WHERE sequence = 2",
    )
    .await;
    let newer = copy("newer");
    alter(
        &newer,
        "UPDATE _sqlx_migrations SET version = 9999 WHERE version = 1",
    )
    .await;
    let damaged = copy("damaged");
    let mut bytes = std::fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x55);
    std::fs::write(&damaged, bytes).unwrap();
    let cut = copy("cut");
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let other = folder.path().join("other");
    std::fs::write(
        &other,
        "not a database, but long enough to be read as one ".repeat(100),
    )
    .unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let here = folder.path().display().to_string();
    let target = Location::Sqlite(folder.path().join("new.db"));
    let refused = async |from: &Path| {
        let error = restore(from, &target, false, START)
            .await
            .unwrap_err()
            .to_string();
        error.replace(&here, "HERE")
    };
    let before = names(folder.path());
    let mut lines = vec![
        refused(&altered).await,
        refused(&newer).await,
        refused(&other).await,
        refused(&empty).await,
        refused(&folder.path().join("gone")).await,
    ];
    for broken in [&damaged, &cut] {
        let error = restore(broken, &target, false, START).await.unwrap_err();
        assert!(
            matches!(
                error,
                BackupError::Damaged { .. } | BackupError::NotAnIndex { .. }
            ),
            "{error}"
        );
    }
    let store = Store::open(&Location::Sqlite(altered.clone())).await.unwrap();
    let error = store
        .back_up(&folder.path().join("copy"), START)
        .await
        .unwrap_err()
        .to_string();
    lines.push(error.replace(&here, "HERE"));
    store.close().await;
    let newest = format!("knows {}", crate::migrations::numbers().len());
    insta::assert_snapshot!(lines.join("\n").replace(&newest, "knows NEWEST"), @r#"
    the approvals in `HERE/altered` are not as they were written: record 2 is not as it was when record 3 was written after it: one of the two was altered, replaced or moved
    the database was migrated by a newer mcpindex (schema 9999, this program knows NEWEST)
    `HERE/other` is no copy of an index: file is not a database
    `HERE/empty` is no copy of an index: no migration was ever applied to it
    `HERE/gone` can't be read: No such file or directory (os error 2)
    the approvals in `HERE/copy` are not as they were written: record 2 is not as it was when record 3 was written after it: one of the two was altered, replaced or moved
    "#);
    assert_eq!(names(folder.path()), before);
}

#[tokio::test]
async fn a_copy_comes_back_where_nothing_was_and_beside_what_was() {
    let folder = folder();
    let old = index(folder.path(), "old.db", 2).await;
    let target = folder.path().join("data").join("index.db");
    let location = Location::Sqlite(target.clone());
    let restored = restore(&old, &location, false, START).await.unwrap();
    assert_eq!((restored.copy.approvals, restored.kept), (2, None));
    assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(length(&target).await, 2);
    // It is in use from here on.
    let store = Store::open(&location).await.unwrap();
    approve(&store, 2).await;
    let new = folder.path().join("new.db");
    store.back_up(&new, START).await.unwrap();
    approve(&store, 3).await;
    for replace in [false, true] {
        let error = restore(&new, &location, replace, START).await.unwrap_err();
        assert!(matches!(error, BackupError::InUse { .. }), "{error}");
    }
    store.close().await;
    let error = restore(&new, &location, false, START).await.unwrap_err();
    assert!(matches!(error, BackupError::HasData { .. }), "{error}");
    assert_eq!(length(&target).await, 4);
    let restored = restore(&new, &location, true, START).await.unwrap();
    let kept = restored.kept.unwrap();
    assert_eq!(length(&target).await, 3);
    assert_eq!(length(&kept).await, 4);
    assert_eq!(
        names(target.parent().unwrap()),
        ["index.db", "index.db.replaced-1000"]
    );
    // A second one in the same second finds the name taken, and takes nothing.
    let error = restore(&new, &location, true, START).await.unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert_eq!(length(&target).await, 3);
}

#[tokio::test]
async fn a_damaged_index_is_replaced_and_kept() {
    let folder = folder();
    let old = index(folder.path(), "old.db", 1).await;
    let target = folder.path().join("index.db");
    std::fs::write(&target, "no database any more ".repeat(300)).unwrap();
    std::fs::write(folder.path().join("index.db-wal"), "its log").unwrap();
    let location = Location::Sqlite(target.clone());
    let error = restore(&old, &location, false, START).await.unwrap_err();
    assert!(matches!(error, BackupError::HasData { .. }), "{error}");
    restore(&old, &location, true, START).await.unwrap();
    assert_eq!(length(&target).await, 1);
    let kept = std::fs::read_to_string(folder.path().join("index.db.replaced-1000")).unwrap();
    assert!(kept.starts_with("no database any more"));
    // One that is only being set up has nothing to lose.
    let fresh = index(folder.path(), "fresh.db", 0).await;
    let restored = restore(&old, &Location::Sqlite(fresh.clone()), false, START)
        .await
        .unwrap();
    assert_eq!(restored.kept, None);
    assert_eq!(length(&fresh).await, 1);
    let error = restore(&fresh, &Location::Sqlite(fresh.clone()), true, START)
        .await
        .unwrap_err();
    assert!(error.to_string().ends_with("it is the index itself"), "{error}");
    let served = TestStore::sqlite().await;
    add(&served.store, "npm:a").await;
    let from = served.path().unwrap();
    let error = restore(&from, &location, true, START + 1).await.unwrap_err();
    assert!(error.to_string().contains("a database in use"), "{error}");
}
