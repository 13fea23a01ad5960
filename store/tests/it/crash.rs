//! Other processes on the same database: killed in the middle of writing, or writing at the same time.
//!
//! The other process is this test program, started again for [`writes_until_it_is_killed`] alone.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use mcpindex_store::testing::on_each_database;
use mcpindex_store::{Location, Store};
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::fixture::{add, failed_look, look, record, surface};

/// What the other process is told: the database, the server to write, and how many observations.
const DATABASE: &str = "MCPINDEX_TEST_WRITER_DATABASE";
const SERVER: &str = "MCPINDEX_TEST_WRITER_SERVER";
const OBSERVATIONS: &str = "MCPINDEX_TEST_WRITER_OBSERVATIONS";

fn writer(location: &Location, server: &str, observations: usize) -> Child {
    let database = match location {
        Location::Sqlite(path) => path.display().to_string(),
        Location::Postgres(url) => url.clone(),
    };
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::writes_until_it_is_killed", "--nocapture"])
        .env(DATABASE, database)
        .env(SERVER, server)
        .env(OBSERVATIONS, observations.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn version(number: usize) -> String {
    format!("1.{number:06}")
}

/// Not a test of its own: the other process. Says `acknowledged ID` after each observation.
#[tokio::test]
async fn writes_until_it_is_killed() {
    let Ok(database) = std::env::var(DATABASE) else {
        return;
    };
    let server = std::env::var(SERVER).unwrap();
    let observations: usize = std::env::var(OBSERVATIONS).unwrap().parse().unwrap();
    let store = Store::open(&database.parse().unwrap()).await.unwrap();
    add(&store, &server).await;
    for number in 0..observations {
        let version = version(number);
        let tools = [("changing", version.as_str()), ("staying", "always")];
        let recorded = record(&store, &look(&server, &version, surface(&tools))).await;
        writeln!(std::io::stdout(), "acknowledged {}", recorded.observation).unwrap();
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_the_writer_was_killed() {
    on_each_database(async |database| {
        let mut writer = writer(&database.location, "npm:a", usize::MAX);
        let mut acknowledged: Vec<i64> = Vec::new();
        // It is killed in the middle; what it had said before comes after that still.
        for line in BufReader::new(writer.stdout.take().unwrap()).lines() {
            // The harness may have begun the line.
            if let Some((_, id)) = line.unwrap().split_once("acknowledged ") {
                acknowledged.push(id.parse().unwrap());
            }
            if acknowledged.len() == 40 {
                writer.kill().unwrap();
            }
        }
        assert!(!writer.wait().unwrap().success());
        assert!(acknowledged.len() >= 40, "{acknowledged:?}");

        let store = Store::open(&database.location).await.unwrap();
        let kept = store.observations("npm:a", None, i64::MAX).await.unwrap();
        // At most the one that was under way is there without having been acknowledged.
        assert!(
            (0..=1).contains(&(kept.len() - acknowledged.len())),
            "{}",
            kept.len()
        );
        for id in &acknowledged {
            let surface = store.surface(*id).await.unwrap().unwrap();
            assert_eq!(surface.members.len(), 2);
        }
        // Each observation came with all that follows from it.
        let server = store.find_server("npm:a").await.unwrap().unwrap();
        assert_eq!(server.current_observation, Some(kept[0].id));
        assert_eq!(store.count_drifts().await.unwrap(), kept.len() as i64 - 1);
        record(&store, &look("npm:a", "2.0", surface(&[]))).await;
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn two_processes_write_one_database_and_neither_is_refused() {
    on_each_database(async |database| {
        let mut writers = ["npm:a", "npm:b"].map(|server| writer(&database.location, server, 60));
        for writer in &mut writers {
            let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
            let lines: Vec<String> = lines.map(Result::unwrap).collect();
            assert!(writer.wait().unwrap().success(), "{lines:?}");
        }
        for server in ["npm:a", "npm:b"] {
            let server = database.store.find_server(server).await.unwrap().unwrap();
            assert_eq!(server.drifts, 59);
        }
    })
    .await;
}

/// Everything that pages and the API read, beside a transaction of another connection that writes for as long as it takes.
async fn check_reads(store: &Store) {
    let server = store.find_server("npm:a").await.unwrap().unwrap();
    assert_eq!((server.tools, server.drifts), (Some(1), 1));
    assert_eq!(store.servers(&limit()).await.unwrap().len(), 1);
    assert_eq!(store.observations("npm:a", None, 9).await.unwrap().len(), 2);
    assert_eq!(store.drifts(None, None, 9).await.unwrap().len(), 1);
    assert_eq!(store.count_by_outcome().await.unwrap().len(), 1);
    store.ping().await.unwrap();
}

fn limit() -> mcpindex_store::servers::ServerFilter {
    mcpindex_store::servers::ServerFilter {
        limit: 9,
        ..Default::default()
    }
}

#[tokio::test]
async fn readers_do_not_wait_for_a_write_transaction() {
    const WRITES: &str = "UPDATE server SET detail = 'not committed', outcome = 'crashed', added_at = 0";
    on_each_database(async |database| {
        let store = &database.store;
        add(store, "npm:a").await;
        record(store, &look("npm:a", "1.0", surface(&[("t", "one")]))).await;
        record(store, &look("npm:a", "1.1", surface(&[("t", "two")]))).await;
        match &database.location {
            Location::Sqlite(path) => {
                let mut writer = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
                let mut writing = writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
                sqlx::query(WRITES).execute(&mut *writing).await.unwrap();
                check_reads(store).await;
                writing.rollback().await.unwrap();
            }
            Location::Postgres(url) => {
                let mut writer = PgConnection::connect(url).await.unwrap();
                let mut writing = writer.begin().await.unwrap();
                sqlx::query(WRITES).execute(&mut *writing).await.unwrap();
                check_reads(store).await;
                writing.rollback().await.unwrap();
            }
        }
        record(
            store,
            &failed_look("npm:a", "1.2", mcpindex_contract::outcome::Outcome::Crashed),
        )
        .await;
    })
    .await;
}
