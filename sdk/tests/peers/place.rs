//! Where the foreign peers of the tests are, for the tests of every crate.
//!
//! `MCPINDEX_TEST_PEERS` names the directory where the script `install` has put them. Without it the script is run here, once
//! for all tests of a run; no test is left out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

static PEERS: LazyLock<PathBuf> = LazyLock::new(|| match std::env::var_os("MCPINDEX_TEST_PEERS") {
    Some(directory) => PathBuf::from(directory),
    None => install(),
});

fn install() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("peers");
    std::fs::create_dir_all(&directory).unwrap();
    // Other test processes may have come to the same idea: the lock goes when the file is closed.
    let lock = File::create(directory.join("lock")).unwrap();
    lock.lock().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/tests/peers/install");
    let status = Command::new(&script).arg(&directory).status().unwrap();
    assert!(
        status.success(),
        "`{}` failed: it needs node, npm, python3 and their registries",
        script.display()
    );
    directory
}

/// What is installed under this name.
pub(crate) fn path(name: &str) -> String {
    PEERS.join(name).to_str().unwrap().to_owned()
}
