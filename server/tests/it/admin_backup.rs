//! `mcpindex-server admin backup` and `admin restore`, tried while a server runs and writes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mcpindex_store::testing::TestStore;
use mcpindex_store::{Location, Store};

use crate::admin_approvals::approve;
use crate::client::NOW;
use crate::programs::{Ended, Place};

fn done(ended: &Ended) -> String {
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    ended.stdout()
}

fn refused(ended: &Ended, line: &str) {
    assert_eq!(ended.code(), Some(2), "{}{}", ended.stdout(), ended.stderr());
    assert_eq!(ended.stderr(), format!("mcpindex-server: {line}\n"));
}

async fn approvals(path: &Path) -> u64 {
    let store = Store::open(&Location::Sqlite(path.to_owned())).await.unwrap();
    let state = store.verify_approvals("default", NOW).await.unwrap();
    assert_eq!(state.flaw, None);
    store.close().await;
    state.good
}

#[tokio::test]
async fn an_index_is_copied_while_a_server_writes_and_brought_back_when_it_is_stopped() {
    let place = Place::new();
    let server = place.serve(&["--no-crawl"]).await;
    let database = place.path("data").join("mcpindex.db");
    let store = Store::open(&Location::Sqlite(database.clone())).await.unwrap();
    let copy = place.path("copy.db").display().to_string();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let writing = async {
        while !stop.load(Ordering::Acquire) {
            let next = written.load(Ordering::Acquire) + 1;
            approve(&store, next..=next).await;
            written.store(next, Ordering::Release);
        }
    };
    let copying = async {
        while written.load(Ordering::Acquire) == 0 {
            tokio::task::yield_now().await;
        }
        let said = done(&place.run(&["admin", "backup", &copy]).await);
        stop.store(true, Ordering::Release);
        said
    };
    let ((), said) = tokio::join!(writing, copying);
    assert!(said.starts_with(&format!("`{copy}` holds the index: ")), "{said}");
    assert!(said.ends_with(" verified\n"), "{said}");
    assert_eq!(
        Path::new(&copy).metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let in_copy = approvals(Path::new(&copy)).await;
    let written = written.load(Ordering::Acquire);
    assert!((1..=written).contains(&in_copy), "{in_copy} of {written}");
    // It is never written over.
    let there = format!("`{copy}` is there already, nothing was written: choose another name");
    refused(&place.run(&["admin", "backup", &copy]).await, &there);
    // The server goes on, and its database is left alone.
    assert_eq!(server.get("readyz").await.0, 200);
    let in_use = format!(
        "`{}` is in use: stop the server that has it open first",
        database.canonicalize().unwrap().display()
    );
    store.close().await;
    refused(
        &place.run(&["admin", "restore", &copy, "--replace"]).await,
        &in_use,
    );
    assert_eq!(server.get("readyz").await.0, 200);
    assert_eq!(server.terminate().await, Some(0));
    let has_data = format!(
        "`{}` has data: --replace puts the copy in its place and keeps it beside",
        database.canonicalize().unwrap().display()
    );
    refused(&place.run(&["admin", "restore", &copy]).await, &has_data);
    assert_eq!(approvals(&database).await, written);
    let said = done(&place.run(&["admin", "restore", &copy, "--replace"]).await);
    assert_eq!(approvals(&database).await, in_copy);
    let kept = said.rsplit('`').nth(1).expect("a name").to_owned();
    assert_eq!(approvals(Path::new(&kept)).await, written);
    // A server takes it from there.
    let server = place.serve(&["--no-crawl"]).await;
    assert_eq!(server.get("readyz").await.0, 200);
    let verified = done(&place.run(&["admin", "approvals", "verify"]).await);
    assert!(
        verified.starts_with(&format!("the chain is whole: {in_copy} record")),
        "{verified}"
    );
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn what_can_not_be_done_is_refused_with_what_to_do() {
    let place = Place::new();
    let database = place.path("data").join("mcpindex.db");
    let copy = place.path("copy.db").display().to_string();
    let nothing = format!(
        "there is no index at `{}`; --data or --database says where it is",
        database.display()
    );
    refused(&place.run(&["admin", "backup", &copy]).await, &nothing);
    assert!(!database.exists());
    let other = place.write("other", "not an index");
    let no_copy = format!("`{other}` is no copy of an index: file is not a database");
    refused(&place.run(&["admin", "restore", &other]).await, &no_copy);
    assert!(!database.exists());
    let Some(postgres) = TestStore::postgres().await else {
        return;
    };
    let Location::Postgres(url) = &postgres.location else {
        panic!("a Postgres store is on Postgres");
    };
    let shown = postgres.location.to_string();
    let place = Place::with_database(url.clone());
    let dump = format!("{shown} is on Postgres; run: pg_dump --format=custom --file='{copy}' '{shown}'");
    refused(&place.run(&["admin", "backup", &copy]).await, &dump);
    let load = format!(
        "{shown} is on Postgres; stop the servers, make an empty database, and run: pg_restore --exit-on-error \
         --single-transaction --no-owner --dbname='{shown}' '{copy}'"
    );
    refused(&place.run(&["admin", "restore", &copy]).await, &load);
}
