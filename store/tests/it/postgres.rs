//! The test Postgres itself: it goes when the process that started it goes, however that ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcpindex_store::testing::TestStore;

/// Starts the program for whole test runs; gives it, its URL and its folder. `None` when Postgres is left out.
fn start() -> Option<(Child, String, PathBuf)> {
    if std::env::var("MCPINDEX_TEST_PG").is_ok_and(|value| value == "off") {
        return None;
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_test-postgres"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(program.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let folder = url.split("host=").nth(1).unwrap().split('&').next().unwrap();
    let folder = PathBuf::from(folder);
    Some((program, url.trim().to_owned(), folder))
}

fn server_process(folder: &Path) -> PathBuf {
    let pid_file = std::fs::read_to_string(folder.join("data").join("postmaster.pid")).unwrap();
    Path::new("/proc").join(pid_file.lines().next().unwrap())
}

async fn assert_gone(paths: [&Path; 2]) {
    let all_gone = async {
        while paths.iter().any(|path| path.exists()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_gone)
        .await
        .expect("the server and its folder go within a minute");
}

#[tokio::test]
async fn a_server_for_a_whole_run_stops_when_its_input_ends() {
    let Some((mut program, url, folder)) = start() else {
        return;
    };
    let server = server_process(&folder);
    assert!(server.exists());
    mcpindex_store::Store::open(&url.parse().unwrap())
        .await
        .unwrap()
        .ping()
        .await
        .unwrap();
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    assert_gone([&server, &folder]).await;
}

#[tokio::test]
async fn a_server_goes_when_its_starter_is_killed() {
    let Some((mut program, _, folder)) = start() else {
        return;
    };
    let server = server_process(&folder);
    program.kill().unwrap();
    program.wait().unwrap();
    assert_gone([&server, &folder]).await;
}

#[tokio::test]
async fn a_database_goes_with_its_test_store() {
    let Some(database) = TestStore::postgres().await else {
        return;
    };
    let location = database.location.clone();
    drop(database);
    let error = mcpindex_store::Store::open(&location)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("does not exist"), "{error}");
}
