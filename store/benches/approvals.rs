//! What the chain of approvals costs on both databases: a delta of 10,000 records read and written as an API would send it, beside
//! the same rows merely read; 1,000 decisions added in one call; what stands of 100 definitions; the chain verified whole.

use std::io::Write as _;
use std::time::{Duration, Instant};

use mcpindex_contract::approval::Decision;
use mcpindex_contract::digest::Digest;
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::testing::{TestStore, on_each_database};
use mcpindex_store::{Location, Store};
use sqlx::{Connection, PgConnection, SqliteConnection};

const TENANT: &str = "default";
const NOW: i64 = 1_764_547_200;
const RECORDS: i64 = 10_000;
const AT_ONCE: i64 = 1_000;
const RUNS: usize = 9;

fn decision(number: i64) -> NewDecision {
    NewDecision {
        identity: format!("npm:@example/server-{}", number % 200),
        tool: format!("tool_{number}"),
        digest: Digest::of_canonical(&number.to_string()),
        decision: Decision::Approve,
        reason: Some("read, and compared with the release before".to_owned()),
        reference: Some(format!("TICKET-{number}")),
        expires_at: Some(NOW + 90 * 86_400),
    }
}

/// The middle of several runs, and the longest.
async fn timed(mut run: impl AsyncFnMut()) -> (Duration, Duration) {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let start = Instant::now();
        run().await;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    (times[RUNS / 2], times[RUNS - 1])
}

fn tell(backend: &str, what: &str, (middle, longest): (Duration, Duration)) {
    let line = format!("{backend:<9} {what:<44} p50 {middle:>9.2?}   max {longest:>9.2?}\n");
    std::io::stdout().write_all(line.as_bytes()).expect("stdout");
}

/// The rows themselves, without what makes records of them.
async fn bare(location: &Location) -> usize {
    type Row = (
        i64,
        String,
        String,
        String,
        String,
        Option<String>,
        Option<String>,
        String,
    );
    const COLUMNS: &str = "sequence, subject, identity, tool, digest, reason, reference, hash_before";
    let rows: Vec<Row> = match location {
        Location::Sqlite(path) => {
            let mut connection = SqliteConnection::connect(path.to_str().expect("a path"))
                .await
                .expect("SQLite");
            let statement = format!("SELECT {COLUMNS} FROM approval_record ORDER BY sequence LIMIT 10000");
            sqlx::query_as(sqlx::AssertSqlSafe(statement))
                .fetch_all(&mut connection)
                .await
                .expect("rows")
        }
        Location::Postgres(url) => {
            let mut connection = PgConnection::connect(url).await.expect("Postgres");
            let statement =
                format!("SELECT {COLUMNS} FROM mcplock.approval_record ORDER BY sequence LIMIT 10000");
            sqlx::query_as(sqlx::AssertSqlSafe(statement))
                .fetch_all(&mut connection)
                .await
                .expect("rows")
        }
    };
    rows.len()
}

async fn append(store: &Store, from: i64) {
    let decisions: Vec<NewDecision> = (from..from + AT_ONCE).map(decision).collect();
    let seen = u64::try_from(from).expect("a number");
    let appended = store
        .append_approvals(TENANT, &decisions, "ada@https://login.example", 1, seen, NOW)
        .await;
    assert!(matches!(appended, Ok(Appended::Done(records)) if records.len() == 1_000));
}

async fn measure(database: &TestStore) {
    let store = &database.store;
    let backend = store.backend();
    let mut next = 0;
    let times = timed(async || {
        append(store, next).await;
        next += AT_ONCE;
    })
    .await;
    tell(backend, "1,000 decisions in one call", times);
    while next < RECORDS {
        append(store, next).await;
        next += AT_ONCE;
    }
    let times = timed(async || assert_eq!(bare(&database.location).await, 10_000)).await;
    tell(backend, "baseline: 10,000 rows read", times);
    let times = timed(async || {
        let (_, records) = store.approvals_since(TENANT, 0, RECORDS).await.expect("records");
        let mut body = String::from("[");
        for record in &records {
            body.push_str(&record.text());
            body.push(',');
        }
        assert!(records.len() == 10_000 && body.len() > 4_000_000);
    })
    .await;
    tell(backend, "10,000 records read and written as JSON", times);
    let asked: Vec<NewDecision> = (0..100).map(|number| decision(number * 97)).collect();
    let asked: Vec<(&str, &str, Digest)> = asked
        .iter()
        .map(|asked| (asked.identity.as_str(), asked.tool.as_str(), asked.digest))
        .collect();
    store.verify_approvals(TENANT, NOW).await.expect("a chain");
    let times = timed(async || {
        let stood = store.standing_of(TENANT, &asked, NOW).await.expect("standings");
        assert!(stood.chain.flaw.is_none() && stood.standing.iter().all(Option::is_some));
    })
    .await;
    tell(backend, "what stands of 100 definitions", times);
    let times = timed(async || {
        let state = store.verify_approvals(TENANT, NOW).await.expect("a chain");
        assert_eq!((state.good, state.flaw), (10_000, None));
    })
    .await;
    tell(backend, "10,000 records verified whole", times);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(on_each_database(measure));
}
