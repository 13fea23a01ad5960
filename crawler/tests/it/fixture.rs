//! The sdk's fixture server: a real MCP server that behaves as its argument says.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Where the fixture server is. A run of the whole workspace has built it; for one of this crate alone it is built here.
pub(crate) fn fixture_server() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
        let server = profile.join("fixture-server");
        if !server.exists() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args([
                "build",
                "--quiet",
                "-p",
                "mcpindex-sdk",
                "--bin",
                "fixture-server",
            ]);
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(
                cargo.status().unwrap().success(),
                "the fixture server can't be built"
            );
        }
        server.to_str().unwrap().to_owned()
    })
}
