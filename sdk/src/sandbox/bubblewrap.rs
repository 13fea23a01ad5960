//! The namespaces of a jail, as arguments of bubblewrap: a root with nothing in it but what the program may see.
//!
//! Invariant: nothing is mounted for writing but what the jail says and memory of bounded size, and there is no network but where the
//! jail has one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Jail;

/// Where the program that enters the jail is within it.
pub(super) const ENTRY: &str = "/.mcpindex/enter";

/// What its complaints on stderr begin with.
pub(super) const COMPLAINT: &str = "bwrap: ";

/// What every program needs of the system. What is a link here is one there. Of `/etc` it is what runtimes read as they start, and says
/// nothing of this machine: to some of them a file that is there and can't be read is worse than one that is not.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/etc/alternatives",
    "/etc/host.conf",
    "/etc/ld.so.cache",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// What it takes to find an address and to check its certificate, and where the package clients' settings for the whole machine are.
pub(super) const NETWORK: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/gai.conf",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/npmrc",
    "/etc/pip.conf",
    "/etc/xdg/pip",
];

/// Who everything in the jail belongs to, as seen from within.
const NOBODY: &str = "65534";

/// Where `bwrap` is.
pub(super) fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join("bwrap"))
        .find(|program| program.is_absolute() && program.is_file())
}

/// Everything before the program that enters the jail.
pub(super) fn arguments(jail: &Jail, home: &Path, directory: &Path) -> Vec<OsString> {
    let mut line = Line::default();
    line.words(&["--unshare-all", "--unshare-user", "--disable-userns"]);
    if jail.network {
        line.words(&["--share-net"]);
    }
    line.words(&["--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    line.words(&["--uid", NOBODY, "--gid", NOBODY, "--hostname", "sandbox"]);
    line.words(&["--proc", "/proc", "--dev", "/dev"]);
    let size = jail.limits.disk.to_string();
    line.words(&["--size", &size, "--tmpfs", "/tmp"]);
    for path in SYSTEM {
        line.system(Path::new(path));
    }
    if jail.network {
        for path in NETWORK {
            line.read(Path::new(path));
        }
    }
    for path in &jail.read {
        line.read(path);
    }
    if !jail.write.iter().any(|folder| home.starts_with(folder)) {
        line.words(&["--size", &size, "--tmpfs"]).path(home);
    }
    for path in jail.write.iter().chain(&jail.share) {
        line.words(&["--bind"]).path(path).path(path);
    }
    line.words(&["--ro-bind"])
        .path(&jail.sandbox.program)
        .path(Path::new(ENTRY));
    line.words(&["--chdir"]).path(directory).words(&["--"]);
    line.0
}

#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn words(&mut self, words: &[&str]) -> &mut Line {
        self.0.extend(words.iter().map(OsString::from));
        self
    }

    fn path(&mut self, path: &Path) -> &mut Line {
        self.0.push(path.into());
        self
    }

    /// A folder or file that may be missing.
    fn read(&mut self, path: &Path) {
        self.words(&["--ro-bind-try"]).path(path).path(path);
    }

    fn system(&mut self, path: &Path) {
        match std::fs::read_link(path) {
            Ok(target) => {
                self.words(&["--symlink"]).path(&target).path(path);
            }
            Err(_) => self.read(path),
        }
    }
}
