//! The walls around files and resources: Landlock, limits of the process, no capabilities, nothing inherited.
//!
//! Within namespaces Landlock only guards against writing, since there is nothing to be read that may not be; without them it is what
//! keeps the machine's files apart.
//!
//! Invariant: on `Ok` each wall stands; a kernel without Landlock is an error.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::bubblewrap::{NETWORK, SYSTEM};
use super::orders::Orders;

/// Open files of one process.
const OPEN_FILES: u64 = 1024;

/// Seconds of processor time of one process above what the watch allows for all: it says the reason, this is for when it is late.
const GRACE: u64 = 5;

/// What of `/proc`, `/sys` and `/dev` runtimes look at to see what machine they are on; where there are no namespaces, the rest
/// tells of others.
const MACHINE: &[&str] = &[
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/dev/random",
    "/dev/urandom",
];

/// Devices that take everything and keep nothing.
const SINKS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

pub(super) fn put_up(orders: &Orders) -> Result<(), String> {
    close_inherited()?;
    limits(orders)?;
    if orders.namespaces {
        // The root is our own, empty but for what was mounted, and writable for the last time: programs that ask who they are
        // find an answer.
        let _ = fs::create_dir("/etc");
        write("/etc/passwd", "nobody:x:65534:65534:nobody:/:/bin/sh\n")?;
        write("/etc/group", "nogroup:x:65534:\n")?;
    } else {
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(said("the signal at our parent's end"))?;
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none).map_err(said("dropping capabilities"))?;
    }
    landlock(orders)
}

fn said<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

fn write(path: &'static str, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(said(path))
}

/// Whatever the process that started us left open, but for standard input, output and errors.
fn close_inherited() -> Result<(), String> {
    let open = fs::read_dir("/proc/self/fd").map_err(said("/proc/self/fd"))?;
    // Collected first: the folder itself is among them, and closed by then.
    let numbers: Vec<i32> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

fn limits(orders: &Orders) -> Result<(), String> {
    let set = |resource, value| {
        let limit = Rlimit {
            current: Some(value),
            maximum: Some(value),
        };
        setrlimit(resource, limit).map_err(|error| format!("the limit {resource:?}: {error}"))
    };
    set(Resource::Core, 0)?;
    set(Resource::Nofile, OPEN_FILES)?;
    set(Resource::Fsize, orders.file)?;
    set(Resource::Cpu, orders.processor.saturating_add(GRACE))?;
    // Threads count too: a few for each process. The kernel counts by user, and in a user namespace anew.
    let threads = orders.processes.saturating_mul(16);
    let others = if orders.namespaces { 0 } else { threads_of_ours() };
    set(Resource::Nproc, threads.saturating_add(others))
}

/// Threads that run as our user already.
fn threads_of_ours() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let ours = rustix::process::getuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = processes.filter_map(|process| {
        let is_ours = process.metadata().ok()?.uid() == ours;
        let tasks = fs::read_dir(process.path().join("task")).ok()?;
        is_ours.then(|| u64::try_from(tasks.count()).unwrap_or(0))
    });
    threads.sum()
}

/// All that this kernel knows to refuse, of what the newest we know of refuses.
fn landlock(orders: &Orders) -> Result<(), String> {
    let failed = |error: landlock::RulesetError| format!("Landlock: {error}");
    let abi = ABI::V6;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let reading = AccessFs::from_read(abi);
    let everything = AccessFs::from_all(abi);
    let sink = AccessFs::ReadFile | AccessFs::WriteFile;
    let mut rules = Rules(ruleset);
    if orders.namespaces {
        rules.add(Path::new("/"), reading)?;
        rules.add(Path::new("/tmp"), everything)?;
        rules.add(Path::new("/dev"), sink)?;
    } else {
        let system = SYSTEM.iter().chain(MACHINE);
        let network = NETWORK.iter().filter(|_| orders.network);
        for path in system.chain(network) {
            rules.add(Path::new(path), reading)?;
        }
        for path in SINKS {
            rules.add(Path::new(path), sink)?;
        }
        for path in &orders.read {
            rules.add(path, reading)?;
        }
    }
    for path in &orders.write {
        rules.add(path, everything)?;
    }
    let status = rules.0.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

struct Rules(RulesetCreated);

impl Rules {
    /// What is not there can't be opened, and needs no rule.
    fn add(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), String> {
        let Ok(opened) = PathFd::new(path) else {
            return Ok(());
        };
        // Rights that only a folder can have are an error for a file.
        let access = match path.is_dir() {
            true => access,
            false => access & AccessFs::from_file(ABI::V6),
        };
        let rule = PathBeneath::new(opened, access);
        (&mut self.0)
            .add_rule(rule)
            .map(|_| ())
            .map_err(|error| format!("Landlock on {}: {error}", path.display()))
    }
}
