//! What a running jail uses, sampled: memory, processor time, processes, disk.
//!
//! The kernel's own limits count by user or by process, and not at all for the administrator; so the tree of processes is looked at
//! five times a second, and whoever runs it ends it when it goes beyond.
//!
//! Invariant: nothing is ended here; [`Watch::exceeded`] says what was exceeded, and its caller ends what it started.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::{Jail, JailLimits, Level};

const PACE: Duration = Duration::from_millis(200);

/// Folders take longer to look through: every so many samples.
const DISK_EVERY: u32 = 10;

/// Files below a folder that may be written, whatever their sizes: each costs the kernel memory where the folder is memory, and us time.
pub(super) const MAX_FILES: usize = 200_000;

/// What went beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// As in "more than 64 …": `processes at once`.
    pub what: &'static str,
    /// The limit.
    pub limit: usize,
}

/// Watches one jail.
#[derive(Debug, Clone)]
pub struct Watch {
    leader: u32,
    limits: JailLimits,
    /// Those that the kernel does not keep small by itself.
    folders: Vec<PathBuf>,
    /// Those that are memory of a size, where only the number of files is open. They are seen through a process of the jail.
    in_memory: Vec<PathBuf>,
}

impl Watch {
    /// Watches the processes below `leader`: what [`Jail::command`] started with this home, as the leader of a process group.
    pub fn new(jail: &Jail, home: &Path, leader: u32) -> Watch {
        let mut folders = jail.write.clone();
        let mut in_memory = Vec::new();
        match jail.sandbox.level() {
            Level::Landlock => folders.push(home.to_owned()),
            Level::Namespaces => {
                in_memory.push(PathBuf::from("/tmp"));
                if !folders.iter().any(|folder| home.starts_with(folder)) {
                    in_memory.push(home.to_owned());
                }
            }
        }
        Watch {
            leader,
            limits: jail.limits,
            folders,
            in_memory,
        }
    }

    /// Waits until a limit is exceeded; never ends otherwise. May be dropped and asked again.
    pub async fn exceeded(&self) -> Exceeded {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sample = 0_u32;
        loop {
            pace.tick().await;
            let watch = self.clone();
            let with_disk = sample.is_multiple_of(DISK_EVERY);
            sample = sample.wrapping_add(1);
            let looked = tokio::task::spawn_blocking(move || watch.look(with_disk)).await;
            if let Ok(Some(exceeded)) = looked {
                return exceeded;
            }
        }
    }

    fn look(&self, with_disk: bool) -> Option<Exceeded> {
        let table = table();
        let members = table.members(self.leader);
        let used = table.used(&members);
        let memory = members.iter().map(|id| hidden_memory(*id)).sum::<usize>();
        let limits = &self.limits;
        let checks = [
            ("processes at once", used.processes, limits.processes),
            (
                "bytes of memory",
                used.memory.saturating_add(memory),
                limits.memory,
            ),
            ("seconds of processor time", used.processor, limits.processor),
            ("files", self.files_in_memory(&members), MAX_FILES),
        ];
        let over = |(what, used, limit)| (used > limit).then_some(Exceeded { what, limit });
        checks.into_iter().find_map(over).or_else(|| {
            let full = with_disk
                && (self
                    .folders
                    .iter()
                    .any(|folder| is_larger(folder, bytes(limits.disk)))
                    || held_open(&members) > limits.disk);
            full.then_some(Exceeded {
                what: "bytes on disk",
                limit: limits.disk,
            })
        })
    }

    /// The most files in one of the folders that are memory.
    fn files_in_memory(&self, members: &HashSet<u32>) -> usize {
        if self.in_memory.is_empty() {
            return 0;
        }
        // Who enters the jail is a process of the machine first, to whom these are other folders.
        let Ok(outside) = fs::metadata("/") else { return 0 };
        let root = members.iter().find_map(|id| {
            let root = Path::new("/proc").join(id.to_string()).join("root");
            let inside = fs::metadata(root.join(".")).ok()?;
            (inside.dev() != outside.dev() && root.join(".mcpindex").exists()).then_some(root)
        });
        let files = |root: &PathBuf| {
            let counts = self.in_memory.iter().filter_map(|folder| {
                let below = folder.strip_prefix("/").ok()?;
                let found = rustix::fs::statvfs(root.join(below)).ok()?;
                usize::try_from(found.f_files.saturating_sub(found.f_ffree)).ok()
            });
            counts.max().unwrap_or(0)
        };
        root.as_ref().map_or(0, files)
    }
}

fn bytes(limit: usize) -> u64 {
    u64::try_from(limit).unwrap_or(u64::MAX)
}

/// Memory that a process has beside what is resident: what was swapped out, and what it takes to say where its pages are.
fn hidden_memory(id: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let kilobytes = status.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_hidden = matches!(name, "VmPTE" | "VmSwap");
        is_hidden.then(|| value.trim().trim_end_matches(" kB").parse::<usize>().ok())?
    });
    kilobytes.sum::<usize>().saturating_mul(1 << 10)
}

/// Bytes of files that have no name any more, and are there as long as one of these processes has them open.
fn held_open(members: &HashSet<u32>) -> usize {
    let mut seen = HashSet::new();
    let mut bytes = 0_u64;
    for id in members {
        let open = fs::read_dir(format!("/proc/{id}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        for file in open.filter_map(|entry| fs::metadata(entry.path()).ok()) {
            if file.is_file() && file.nlink() == 0 && seen.insert((file.dev(), file.ino())) {
                bytes = bytes.saturating_add(file.blocks().saturating_mul(512));
            }
        }
    }
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Whether the files below this folder take more than `limit` bytes on disk. What can't be looked into may hold anything, and does; so
/// do more than 200,000 files.
pub fn is_larger(folder: &Path, limit: u64) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let (mut bytes, mut files) = (0_u64, 0_usize);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // Removed while we looked.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => continue,
            // Too deep for a path, or closed to us.
            Err(_) => return true,
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            files += 1;
            // What is allotted, not what a file with holes says.
            bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            if files > MAX_FILES || bytes > limit {
                return true;
            }
        }
    }
    false
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    processes: usize,
    memory: usize,
    processor: usize,
}

/// One line of `/proc/PID/stat` (proc(5)), as far as it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    group: u32,
    ticks: u64,
    pages: u64,
}

impl Process {
    fn read(stat: &str) -> Option<Process> {
        // The name before it may hold anything, brackets and spaces too.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let id = |at: usize| u32::try_from(number(at)?).ok();
        Some(Process {
            parent: id(1)?,
            group: id(2)?,
            // Its own time and that of children it has waited for.
            ticks: number(11)? + number(12)? + number(13)? + number(14)?,
            pages: number(21)?,
        })
    }
}

/// All processes of the machine at one moment.
#[derive(Debug, Default)]
struct Table {
    processes: HashMap<u32, Process>,
}

/// The table, read anew when the last one is older than half a pace: many jails look at once.
fn table() -> Arc<Table> {
    static LAST: Mutex<Option<(Instant, Arc<Table>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((read, table)) if read.elapsed() < PACE / 2 => Arc::clone(table),
        _ => {
            let table = Arc::new(Table::read());
            *last = Some((Instant::now(), Arc::clone(&table)));
            table
        }
    }
}

impl Table {
    fn read() -> Table {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((id, Process::read(&stat)?))
        });
        Table {
            processes: processes.collect(),
        }
    }

    /// The process, its group and all that descend from them.
    fn members(&self, leader: u32) -> HashSet<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut waiting = Vec::new();
        for (id, process) in &self.processes {
            children.entry(process.parent).or_default().push(*id);
            if process.group == leader {
                waiting.push(*id);
            }
        }
        let mut members = HashSet::new();
        while let Some(id) = waiting.pop() {
            if members.insert(id) {
                waiting.extend(children.get(&id).into_iter().flatten());
            }
        }
        members
    }

    fn used(&self, members: &HashSet<u32>) -> Used {
        let mut used = Used::default();
        let (mut ticks, mut pages) = (0, 0);
        for process in members.iter().filter_map(|id| self.processes.get(id)) {
            used.processes += 1;
            ticks += process.ticks;
            pages += process.pages;
        }
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        used.memory = whole(pages).saturating_mul(rustix::param::page_size());
        used.processor = whole(ticks / rustix::param::clock_ticks_per_second().max(1));
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(processes: &[(u32, u32, u32)]) -> Table {
        let one = |(id, parent, group): &(u32, u32, u32)| {
            let process = Process {
                parent: *parent,
                group: *group,
                ticks: 1,
                pages: 1,
            };
            (*id, process)
        };
        Table {
            processes: processes.iter().map(one).collect(),
        }
    }

    #[test]
    fn a_stat_line_is_read_whatever_the_process_calls_itself() {
        let line = "77 (a) R (b c) S 5 77 77 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 3 0 9 1000 250 18446744073709551615";
        let expected = Process {
            parent: 5,
            group: 77,
            ticks: 100,
            pages: 250,
        };
        assert_eq!(Process::read(line), Some(expected));
        assert_eq!(Process::read("77 (half"), None);
        assert_eq!(Process::read("77 (short) S 1"), None);
    }

    #[test]
    fn the_group_and_all_descendants_count_and_nobody_else() {
        let table = table(&[
            (1, 0, 1),
            (10, 1, 10),
            (11, 10, 10),
            // Left the group, but not its parent.
            (12, 11, 12),
            // Left its parent, but not the group.
            (13, 1, 10),
            (20, 1, 20),
        ]);
        let below = |leader| table.used(&table.members(leader));
        assert_eq!(below(10).processes, 4);
        assert_eq!(below(20).processes, 1);
        assert_eq!(below(99), Used::default());
    }

    #[test]
    fn a_folder_is_over_its_limit_by_what_is_allotted() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), vec![1; 64 << 10]).unwrap();
        assert!(is_larger(folder.path(), 32 << 10));
        assert!(!is_larger(folder.path(), 1 << 20));
        assert!(!is_larger(&folder.path().join("missing"), 1));
    }

    #[test]
    fn a_folder_too_deep_to_look_into_is_over_its_limit() {
        use rustix::fs::{Mode, OFlags};
        let folder = tempfile::tempdir().unwrap();
        let mut inner = rustix::fs::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        // Longer than a path can be: reached by one step after the other.
        for _ in 0..40 {
            let name = "d".repeat(200);
            rustix::fs::mkdirat(&inner, &name, Mode::RWXU).unwrap();
            inner = rustix::fs::openat(&inner, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        assert!(is_larger(folder.path(), 1 << 20));
        super::super::remove_all(folder.path()).unwrap();
    }

    #[test]
    fn a_file_without_a_name_counts_as_long_as_it_is_open() {
        use std::io::{BufRead as _, BufReader};
        use std::process::{Command, Stdio};
        let folder = tempfile::tempdir().unwrap();
        let mut holder = Command::new("sh")
            .args([
                "-c",
                "exec 3>held; rm held; head -c 1048576 /dev/zero >&3; echo; cat",
            ])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = holder.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(!is_larger(folder.path(), 64 << 10), "the folder is empty");
        let held = held_open(&HashSet::from([holder.id()]));
        assert!(held >= 1 << 20, "{held}");
        drop(holder.stdin.take());
        holder.wait().unwrap();
    }
}
