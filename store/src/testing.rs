//! Temporary databases for tests: a SQLite file, and a Postgres database.
//!
//! [`on_each_backend`] runs one body on both. Postgres is the server that `MCPINDEX_TEST_PG_URL` names, else one that is
//! started from local binaries, once for each test process. `MCPINDEX_TEST_PG=off` is the one way to leave it out; a
//! machine without Postgres fails its tests and says what to install.
//!
//! Invariant: every database is dropped with its [`TestStore`], and no process or folder outlives the test process.

mod cluster;

pub use cluster::Cluster;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection};
use tempfile::TempDir;

use crate::{Location, Store};

/// Runs `body` on a migrated, empty SQLite store and then on a Postgres one. A panic says on which.
pub async fn on_each_backend(body: impl AsyncFn(Store)) {
    on_each_database(async |database| body(database.store.clone()).await).await;
}

/// [`on_each_backend`] for a body that needs the place too.
pub async fn on_each_database(body: impl AsyncFn(&TestStore)) {
    body(&TestStore::sqlite().await).await;
    if let Some(database) = TestStore::postgres().await {
        body(&database).await;
    }
}

/// A database of its own, gone when this is dropped.
#[derive(Debug)]
pub struct TestStore {
    /// Migrated and empty.
    pub store: Store,
    /// Where it is, for a second connection or another process.
    pub location: Location,
    // Dropped last: the file or database goes when nothing uses it any more.
    place: Place,
}

#[derive(Debug)]
enum Place {
    Sqlite(#[expect(dead_code, reason = "held for its drop, which removes the folder")] TempDir),
    Postgres { server: String, name: String },
}

impl TestStore {
    /// On SQLite.
    pub async fn sqlite() -> TestStore {
        TestStore::migrated(TestStore::empty_sqlite().await).await
    }

    /// On Postgres; `None` when `MCPINDEX_TEST_PG=off` leaves it out.
    pub async fn postgres() -> Option<TestStore> {
        Some(TestStore::migrated(TestStore::empty_postgres().await?).await)
    }

    /// On SQLite, without a schema.
    pub async fn empty_sqlite() -> TestStore {
        let folder = tempfile::Builder::new()
            .prefix("mcpindex-test-")
            .tempdir()
            .expect("a temporary folder");
        let location = Location::Sqlite(folder.path().join("index.db"));
        TestStore::open(location, Place::Sqlite(folder)).await
    }

    /// On Postgres, without a schema.
    pub async fn empty_postgres() -> Option<TestStore> {
        Some(TestStore::on(postgres_url()?).await)
    }

    async fn on(server: String) -> TestStore {
        let name = unique_name();
        administer(&server, format!("CREATE DATABASE {name}"))
            .await
            .expect("a Postgres database");
        let location = Location::Postgres(with_database(&server, &name));
        TestStore::open(location, Place::Postgres { server, name }).await
    }

    /// On a server of the test's own; `None` when `MCPINDEX_TEST_PG=off` leaves out the tests on Postgres.
    pub async fn on_durable_postgres() -> Option<(Cluster, TestStore)> {
        if is_off() {
            return None;
        }
        let cluster = Cluster::durable();
        let server = cluster.url().to_owned();
        Some((cluster, TestStore::migrated(TestStore::on(server).await).await))
    }

    async fn open(location: Location, place: Place) -> TestStore {
        let store = Store::open(&location).await.expect("a store");
        TestStore {
            store,
            location,
            place,
        }
    }

    async fn migrated(database: TestStore) -> TestStore {
        database.store.migrate().await.expect("a migrated store");
        database
    }

    /// Runs a statement over a connection of its own, as somebody might who goes around the store.
    pub async fn execute(&self, statement: &str) {
        let statement = AssertSqlSafe(statement.to_owned());
        match &self.location {
            Location::Sqlite(path) => {
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .busy_timeout(Duration::from_secs(10));
                let mut connection = SqliteConnection::connect_with(&options).await.expect("the file");
                sqlx::query(statement)
                    .execute(&mut connection)
                    .await
                    .expect("a statement");
            }
            Location::Postgres(url) => {
                let options: PgConnectOptions = url.parse().expect("a URL");
                let options = options.options([("search_path", "public,mcplock")]);
                let mut connection = PgConnection::connect_with(&options).await.expect("the server");
                sqlx::query(statement)
                    .execute(&mut connection)
                    .await
                    .expect("a statement");
            }
        }
    }

    /// The path of the SQLite file.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.location {
            Location::Sqlite(path) => Some(path.clone()),
            Location::Postgres(_) => None,
        }
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the test failed on {}", self.store.backend());
        }
        if let Place::Postgres { server, name } = &self.place {
            // On a thread of its own, since a runtime can't be waited for inside another. The connections that the
            // store still holds are ended by the server.
            let (server, statement) = (
                server.clone(),
                format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            );
            let dropping = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(administer(&server, statement))
            });
            if let Ok(Err(error)) = dropping.join() {
                let _ = writeln!(std::io::stderr(), "a test database was not dropped: {error}");
            }
        }
    }
}

/// The server to make databases on; its URL leads to an existing database.
fn postgres_url() -> Option<String> {
    if is_off() {
        return None;
    }
    if let Ok(url) = std::env::var("MCPINDEX_TEST_PG_URL") {
        return Some(url);
    }
    // One for the process. Never dropped: its watchdog sees the process end.
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    Some(CLUSTER.get_or_init(Cluster::start).url().to_owned())
}

fn is_off() -> bool {
    std::env::var("MCPINDEX_TEST_PG").is_ok_and(|value| value == "off")
}

/// Several test processes may share one server.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Processes of one number, in different containers, may share a server too.
    let salt = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), next);
    format!("mcpindex_test_{}_{next}_{salt:016x}", std::process::id())
}

async fn administer(server: &str, statement: String) -> Result<(), sqlx::Error> {
    let options: PgConnectOptions = server.parse()?;
    let connecting = PgConnection::connect_with(&options);
    let mut connection = tokio::time::timeout(Duration::from_secs(10), connecting)
        .await
        .map_err(|_| sqlx::Error::PoolTimedOut)??;
    // The statement holds nothing but a name made here.
    sqlx::query(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await?;
    connection.close().await
}

/// The same server's URL for another database.
fn with_database(server: &str, name: &str) -> String {
    let (address, query) = server.split_once('?').unwrap_or((server, ""));
    let scheme_end = address.find("://").map_or(0, |start| start + 3);
    let host_end = address[scheme_end..]
        .find('/')
        .map_or(address.len(), |slash| scheme_end + slash);
    format!("{}/{name}?{query}", &address[..host_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_url_is_turned_to_another_database() {
        let check = |server: &str, url: &str| assert_eq!(with_database(server, "t"), url);
        check(
            "postgres:///postgres?host=/s&user=u",
            "postgres:///t?host=/s&user=u",
        );
        check("postgres://u:p@h:1/postgres", "postgres://u:p@h:1/t?");
        check("postgres://h", "postgres://h/t?");
    }
}
