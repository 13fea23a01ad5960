//! Tries to break out of a jail, and says what held: how the level of a machine is chosen, and what `doctor --sandbox` shows.
//!
//! The one side lays out what must not be reached (a file, a folder, sockets that listen, its own process); the other is started in the
//! jail and tries. What it says of itself is believed, since it is ours; what arrives at the sockets is counted on this side.
//!
//! Invariant: a trial that was not made does not count as held.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::orders::PROBE_ARGUMENT;
use super::{Jail, JailLimits, Sandbox};

/// How long the program in the jail may take: a machine under load needs seconds to start it.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// How long a connection may take within the jail.
const CONNECT: Duration = Duration::from_millis(500);

/// What was tried, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Trial {
    /// What was tried: `read a file outside`.
    pub what: String,
    /// Whether it is to succeed: what every server needs.
    pub wanted: bool,
    /// Whether it did.
    pub succeeded: bool,
    /// What the system said.
    pub said: String,
}

impl Trial {
    /// Whether the jail is as it should be.
    pub fn held(&self) -> bool {
        self.wanted == self.succeeded
    }
}

/// What the program in the jail is to try.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Aims {
    outside: PathBuf,
    package: PathBuf,
    home: PathBuf,
    tcp: u16,
    udp: u16,
    process: i32,
    abstract_name: String,
    file_limit: u64,
}

/// How many trials there are.
pub const TRIALS: usize = 20;

/// Builds a jail and tries to break out of it. The error is one line: the jail could not be built or entered. Blocks.
pub fn try_to_break_out(sandbox: &Sandbox) -> Result<Vec<Trial>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let outside = tempfile::Builder::new()
        .prefix("mcpindex-outside-")
        .tempdir()
        .map_err(failed)?;
    let (package, home) = (outside.path().join("package"), outside.path().join("home"));
    for folder in [&package, &home] {
        fs::create_dir(folder).map_err(failed)?;
    }
    fs::write(package.join("readable"), "package").map_err(failed)?;
    fs::write(outside.path().join("secret"), "outside").map_err(failed)?;
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    udp.set_nonblocking(true).map_err(failed)?;
    let _socket = unix_listener(&outside.path().join("socket")).map_err(failed)?;
    let abstract_name = format!("mcpindex-{}-{}", std::process::id(), fresh_number());
    let _abstract = abstract_listener(&abstract_name).map_err(failed)?;

    let limits = JailLimits::listing();
    let aims = Aims {
        outside: outside.path().to_owned(),
        package: package.clone(),
        home: home.clone(),
        tcp: port(tcp.local_addr())?,
        udp: port(udp.local_addr())?,
        process: i32::try_from(std::process::id()).unwrap_or(1),
        abstract_name,
        file_limit: u64::try_from(limits.file).unwrap_or(u64::MAX),
    };
    let jail = Jail {
        read: vec![package, sandbox.program.clone()],
        ..sandbox.jail(limits)
    };
    let aims = serde_json::to_string(&aims).map_err(|error| error.to_string())?;
    let program = sandbox.program.display().to_string();
    let mut trials = run_in(&jail, &home, &program, &[PROBE_ARGUMENT.to_owned(), aims])?;
    let mut datagram = [0; 8];
    let arrived = udp.recv(&mut datagram).is_ok();
    let made = outside.path().join("made").exists();
    for trial in &mut trials {
        // Within a network and a file system of its own it went nowhere.
        match trial.what.as_str() {
            SEND => trial.succeeded &= arrived,
            WRITE => trial.succeeded &= made,
            _ => {}
        }
    }
    match trials.len() {
        TRIALS => Ok(trials),
        made => Err(format!("only {made} of {TRIALS} trials were made")),
    }
}

fn port(address: std::io::Result<SocketAddr>) -> Result<u16, String> {
    address
        .map(|address| address.port())
        .map_err(|error| error.to_string())
}

fn fresh_number() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Runs a program of ours in the jail to its end, and reads the trials that it made.
fn run_in(jail: &Jail, home: &Path, program: &str, args: &[String]) -> Result<Vec<Trial>, String> {
    let mut command = jail.command(home, home, program, args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| error.to_string())?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (send, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    let output = match ended.recv_timeout(TIME_LIMIT) {
        Ok(output) => output.map_err(|error| error.to_string())?,
        Err(_) => {
            // Not waited for yet, so the number is still its own.
            if let Some(id) = id {
                let _ = kill_process(id, Signal::KILL);
            }
            return Err(format!("it did not end within {} s", TIME_LIMIT.as_secs()));
        }
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let line = complaint.lines().rfind(|line| !line.trim().is_empty());
        return Err(line.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned()));
    }
    let trials: Result<Vec<Trial>, _> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(serde_json::from_str)
        .collect();
    trials.map_err(|error| format!("its answer can't be read: {error}"))
}

#[cfg(unix)]
fn unix_listener(path: &Path) -> std::io::Result<std::os::unix::net::UnixListener> {
    std::os::unix::net::UnixListener::bind(path)
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &str) -> std::io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    std::os::unix::net::SocketAddr::from_abstract_name(name)
}

#[cfg(target_os = "linux")]
fn abstract_listener(name: &str) -> std::io::Result<std::os::unix::net::UnixListener> {
    std::os::unix::net::UnixListener::bind_addr(&abstract_address(name)?)
}

#[cfg(not(target_os = "linux"))]
fn abstract_listener(_: &str) -> std::io::Result<()> {
    Ok(())
}

const SEND: &str = "send a datagram to this machine";
const WRITE: &str = "write a file outside";

/// In the jail: tries everything, one line on stdout each.
pub(super) fn run(aims: &str) {
    #[cfg(target_os = "linux")]
    if let Ok(aims) = serde_json::from_str(aims) {
        for trial in trials(&aims) {
            let line = serde_json::to_string(&trial).unwrap_or_default();
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = aims;
}

#[cfg(target_os = "linux")]
fn trials(aims: &Aims) -> Vec<Trial> {
    use std::os::unix::net::UnixStream;

    use nix::sched::CloneFlags;
    use rustix::process::{Resource, getrlimit, test_kill_process};

    let trial = |what: &str, wanted: bool, result: Result<(), String>| Trial {
        what: what.to_owned(),
        wanted,
        succeeded: result.is_ok(),
        said: result.err().unwrap_or_default(),
    };
    let refused = |what: &str, result: Result<(), String>| trial(what, false, result);
    let needed = |what: &str, result: Result<(), String>| trial(what, true, result);
    let secret = aims.outside.join("secret");
    let proc = Path::new("/proc").join(aims.process.to_string());
    let other = Pid::from_raw(aims.process);
    let unlimited = |resource, limit: u64| match getrlimit(resource).maximum {
        Some(maximum) if maximum <= limit => Err(format!("at most {maximum}")),
        _ => Ok(()),
    };
    vec![
        needed("read its package", said(fs::read(aims.package.join("readable")))),
        needed(
            "write into its own folder",
            said(fs::write(aims.home.join("own"), "own")),
        ),
        needed("start a program", starts("/bin/sh")),
        refused("read a file outside", said(fs::read(&secret))),
        refused("read the machine's own files", said(fs::read("/etc/hostname"))),
        refused(WRITE, said(fs::write(aims.outside.join("made"), "x"))),
        refused("cut a file outside", said(nix::unistd::truncate(&secret, 0))),
        refused("change a file's mode outside", mode(&secret)),
        refused(
            "change its package",
            said(fs::write(aims.package.join("made"), "x")),
        ),
        refused("connect to this machine", connect(aims.tcp)),
        refused(SEND, send(aims.udp)),
        refused(
            "connect to a socket by its path",
            said(UnixStream::connect(aims.outside.join("socket"))),
        ),
        refused(
            "connect to a socket by its name",
            said(
                abstract_address(&aims.abstract_name).and_then(|address| UnixStream::connect_addr(&address)),
            ),
        ),
        refused(
            "signal a process outside",
            match other {
                Some(other) => said(test_kill_process(other).or_else(|_| kill_process(other, Signal::CONT))),
                None => Err("there is none".to_owned()),
            },
        ),
        refused(
            "read another process's variables",
            said(fs::read(proc.join("environ"))),
        ),
        refused("trace a process", said(nix::sys::ptrace::traceme())),
        refused(
            "make a namespace",
            said(nix::sched::unshare(CloneFlags::CLONE_NEWUSER)),
        ),
        refused("mount a file system", mount(&aims.home)),
        refused(
            "write files without bound",
            unlimited(Resource::Fsize, aims.file_limit),
        ),
        refused("keep an administrator's powers", powers()),
    ]
}

#[cfg(target_os = "linux")]
fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<(), String> {
    result.map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(target_os = "linux")]
fn starts(program: &str) -> Result<(), String> {
    let status = std::process::Command::new(program)
        .args(["-c", "exit 0"])
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(target_os = "linux")]
fn mode(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    said(fs::set_permissions(path, fs::Permissions::from_mode(0o600)))
}

#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "tries what must fail, and only at a port of this machine that listens for it"
)]
fn connect(port: u16) -> Result<(), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    said(TcpStream::connect_timeout(&address, CONNECT))
}

#[cfg(target_os = "linux")]
fn send(port: u16) -> Result<(), String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    said(socket.and_then(|socket| socket.send_to(b"out", (Ipv4Addr::LOCALHOST, port))))
}

#[cfg(target_os = "linux")]
fn mount(at: &Path) -> Result<(), String> {
    let none: Option<&str> = None;
    said(nix::mount::mount(
        Some("tmpfs"),
        at,
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        none,
    ))
}

#[cfg(target_os = "linux")]
fn powers() -> Result<(), String> {
    match rustix::thread::capabilities(None) {
        Ok(sets) if sets.permitted.is_empty() && sets.effective.is_empty() => Err("it has none".to_owned()),
        _ => Ok(()),
    }
}
