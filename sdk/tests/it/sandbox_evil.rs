//! Programs in jails that want out, or want the machine for themselves: each comes to nothing, and leaves nothing.
//!
//! What the shell can't say is said in Perl, which makes any system call by its number.
//!
//! Invariant: whatever is attacked here was laid out for it by the test.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use mcpindex::inspect::inspect_stdio;
use mcpindex::sandbox::{JailLimits, Level};
use mcpindex::wire::limits::Limits;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::outcome::Outcome;

use crate::sandbox::{is_running, jail, until};
use crate::stdio::launch;

/// Runs a program to its end in a jail that reads `package`.
fn run(level: Level, package: &Path, program: &str, args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut jail = jail(level, |_| {});
    jail.read.push(package.to_owned());
    let args: Vec<String> = args.iter().map(|argument| (*argument).to_owned()).collect();
    jail.command(home.path(), home.path(), program, &args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What a Perl script in a jail at this level writes.
fn perl(level: Level, package: &Path, script: &str) -> String {
    let output = run(level, package, "perl", &["-MSocket", "-e", script]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    String::from_utf8(output.stdout).unwrap() + &errors
}

#[test]
fn a_file_that_may_be_read_keeps_its_mode() {
    for level in Level::ALL {
        let package = tempfile::tempdir().unwrap();
        let file = package.path().join("file");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        // By its path, and by a handle that was opened for reading.
        let script = format!(
            "my $path = '{}'; chmod 0777, $path; open my $file, '<', $path or die; chmod 0777, $file; print 'tried'",
            file.display()
        );
        assert_eq!(perl(level, package.path(), &script), "tried");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{}", level.name());
    }
}

#[test]
fn nothing_is_sent_to_a_socket_by_its_path() {
    for level in Level::ALL {
        let outside = tempfile::tempdir().unwrap();
        let path = outside.path().join("socket");
        let listener = UnixDatagram::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let package = tempfile::tempdir().unwrap();
        for kind in ["SOCK_DGRAM", "SOCK_RAW"] {
            // One of a pair needs no socket to be made, and takes another partner.
            let script = format!(
                "my $to = pack_sockaddr_un('{}'); socketpair(A, B, AF_UNIX, {kind}, 0) and \
                 (send(A, 'out', 0, $to), connect(A, $to), send(A, 'out', 0)); print 'tried'",
                path.display()
            );
            assert_eq!(perl(level, package.path(), &script), "tried");
            let arrived = listener.recv(&mut [0; 8]).is_ok();
            assert!(!arrived, "{}: {kind}", level.name());
        }
        let stream = perl(
            level,
            package.path(),
            "socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; syswrite A, 'x'; sysread B, my $got, 1; print $got",
        );
        assert_eq!(stream, "x", "pairs of streams are what runtimes use");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_that_reach_others_or_that_nobody_has_looked_at_are_refused() {
    let package = tempfile::tempdir().unwrap();
    let check = |level: Level, what: &str, call: &str| {
        let script =
            format!("$! = 0; my $made = {call}; print defined $made && $made != -1 ? 'made' : 'refused'");
        assert_eq!(
            perl(level, package.path(), &script),
            "refused",
            "{what}, {}",
            level.name()
        );
    };
    for level in Level::ALL {
        check(
            level,
            "memory that counts as nobody's",
            "do { my $name = 'x'; syscall(319, $name, 0) }",
        );
        check(
            level,
            "a folder's attributes by the newest call",
            "do { my ($path, $buffer) = ('/', 'x' x 64); syscall(468, -100, $path, $buffer, 24, 0) }",
        );
        check(
            level,
            "a process's number by its x32 number",
            "syscall(0x4000_0000 + 39)",
        );
        check(
            level,
            "io_uring",
            "do { my $buffer = \"\\0\" x 120; syscall(425, 8, $buffer) }",
        );
        check(
            level,
            "a file system",
            "do { my $kind = 'tmpfs'; syscall(430, $kind, 0) }",
        );
        check(
            level,
            "a clone that says its arguments in memory",
            "do { my $buffer = \"\\0\" x 88; syscall(435, $buffer, 88) }",
        );
        check(level, "being hidden from its user", "syscall(157, 4, 0)");
        check(level, "a keyring", "syscall(250, 0, -3, 1)");
        check(
            level,
            "typing for the terminal",
            "do { my $typed = 'x'; ioctl(STDOUT, 0x5412, $typed) }",
        );
    }
    // In a process namespace of its own there is nobody to signal, and another parent is one of the jail.
    let level = Level::Landlock;
    check(
        level,
        "a child of our parent",
        "syscall(56, 0x8000 | 17, 0, 0, 0, 0)",
    );
    check(
        level,
        "a signal when a file is ready",
        "syscall(72, 1, 8, getppid)",
    );
    check(level, "the kind of that signal", "syscall(72, 1, 10, 9)");
    check(level, "a session of its own", "syscall(112)");
}

/// Limits that are over soon: what is tried here goes on for longer than any.
fn impatient() -> Limits {
    let soon = Duration::from_secs(1);
    Limits {
        handshake: 6 * soon,
        request: 3 * soon,
        era_probe: 2 * soon,
        whole: 15 * soon,
        ..Limits::crawl()
    }
}

/// How long a look may take in all: its own limit, the patience with its end, and what a busy machine adds.
const LONGEST: Duration = Duration::from_secs(40);

/// A look at a program that is evil, and what is to come of it. The program has `mark` in its line.
struct Evil {
    name: &'static str,
    program: &'static str,
    script: &'static str,
    outcomes: [Outcome; 2],
    said: &'static str,
}

async fn look(level: Level, evil: &Evil, change: impl FnOnce(&mut JailLimits)) {
    let label = format!("evil {} {}", evil.name, level.name());
    let mark = format!("mark-{}", &Digest::of_raw(&label).hex()[..12]);
    let option = if evil.program == "perl" { "-e" } else { "-c" };
    let mut launch = launch(evil.program, &[option, evil.script, &mark]);
    launch.jail = Some(Box::new(jail(level, change)));
    launch.label = Some(label.clone());
    let began = Instant::now();
    let inspection = inspect_stdio(&launch, &impatient()).await;
    let took = began.elapsed();
    let reason = inspection
        .result
        .as_ref()
        .err()
        .map(|failure| failure.reason.clone());
    let reason = reason.unwrap_or_default();
    assert!(
        evil.outcomes.contains(&inspection.outcome()) && reason.contains(evil.said),
        "{label}: {:?}: {reason}",
        inspection.outcome()
    );
    assert!(took < LONGEST, "{label}: {took:?}");
    until(|| !is_running(&mark)).await;
    let home = std::env::temp_dir().join(format!("mcpindex-{}", &Digest::of_raw(&label).hex()[..16]));
    until(|| !home.exists()).await;
}

const EVILS: &[Evil] = &[
    Evil {
        name: "stdout without a line's end",
        program: "sh",
        script: "tr '\\0' x </dev/zero",
        outcomes: [Outcome::OverLimit; 2],
        said: "bytes in one message",
    },
    Evil {
        name: "stderr without end",
        program: "sh",
        script: "tr '\\0' x </dev/zero >&2",
        outcomes: [Outcome::TimedOut, Outcome::OverLimit],
        said: "",
    },
    Evil {
        name: "ten thousand lines of junk",
        program: "perl",
        script: "$| = 1; print qq(junk\n) x 10000; sleep 3600",
        outcomes: [Outcome::OverLimit, Outcome::NotMcp],
        said: "",
    },
    Evil {
        name: "deaf to all",
        program: "perl",
        script: "$SIG{$_} = 'IGNORE' for qw(TERM INT HUP PIPE); sleep 1 while 1",
        outcomes: [Outcome::TimedOut; 2],
        said: "",
    },
    Evil {
        name: "a grandchild with the pipes",
        program: "perl",
        script: "exit if fork; sleep 1 while 1",
        outcomes: [Outcome::Crashed, Outcome::Crashed],
        said: "",
    },
    Evil {
        name: "forks that end at once",
        program: "perl",
        script: "while (1) { my $child = fork; exit if defined $child && !$child; wait }",
        outcomes: [Outcome::TimedOut, Outcome::OverLimit],
        said: "",
    },
    Evil {
        name: "open files",
        program: "perl",
        script: "my @open; while (open my $one, '<', '/dev/null') { push @open, $one } print STDERR @open < 1024 ? 'bounded' : 'unbounded'",
        outcomes: [Outcome::Crashed, Outcome::Crashed],
        said: ": bounded",
    },
    Evil {
        name: "every folder to the brim",
        program: "perl",
        script: "my $block = 'x' x (1 << 20); for my $folder ('/tmp', '/dev/shm', '/var/tmp', '/run', $ENV{HOME}) { for my $file (1 .. 4) { \
                 open my $out, '>', qq($folder/mcpindex-evil-$file) or next; for (1 .. 60) { syswrite $out, $block or last } } } sleep 1 while 1",
        outcomes: [Outcome::TimedOut, Outcome::OverLimit],
        said: "",
    },
    Evil {
        name: "death to everybody",
        program: "perl",
        script: "kill 'KILL', -1; kill 'KILL', getppid; kill 'KILL', 1; sleep 1 while 1",
        outcomes: [Outcome::TimedOut, Outcome::Crashed],
        said: "",
    },
    Evil {
        name: "the last to be ended for want of memory",
        program: "sh",
        script: "echo 1000 2>/dev/null >/proc/self/oom_score_adj && echo written >&2 || echo refused >&2",
        outcomes: [Outcome::Crashed; 2],
        said: "refused",
    },
    Evil {
        name: "the terminal",
        program: "sh",
        script: "exec 2>/dev/stderr; (: </dev/tty) 2>/dev/null && echo opened >&2 || echo refused >&2",
        outcomes: [Outcome::Crashed; 2],
        said: "refused",
    },
    Evil {
        name: "files without number",
        program: "perl",
        script: "chdir $ENV{HOME}; my $number = 0; while (1) { open my $file, '>', $number++ }",
        // In memory they are made faster than on a disk.
        outcomes: [Outcome::OverLimit, Outcome::TimedOut],
        said: "",
    },
    Evil {
        name: "folders without a bottom",
        program: "perl",
        script: "chdir $ENV{HOME}; for (1 .. 60000) { mkdir 'deeper' and chdir 'deeper' or last } sleep 1 while 1",
        outcomes: [Outcome::TimedOut, Outcome::OverLimit],
        said: "",
    },
];

#[tokio::test]
async fn whatever_a_program_tries_its_look_ends_and_nothing_is_left() {
    for evil in EVILS {
        let (first, second) = (Level::Namespaces, Level::Landlock);
        tokio::join!(look(first, evil, |_| {}), look(second, evil, |_| {}));
    }
}

#[tokio::test]
async fn files_without_a_name_and_folders_too_deep_are_over_the_limit_where_they_are_on_disk() {
    let held = Evil {
        name: "files without a name",
        program: "perl",
        script: "chdir $ENV{HOME}; my @held; for (1 .. 8) { open my $file, '+>', 'x'; unlink 'x'; syswrite $file, 'x' x (1 << 20); \
                 push @held, $file } sleep 1 while 1",
        outcomes: [Outcome::OverLimit; 2],
        said: "4194304 bytes on disk",
    };
    look(Level::Landlock, &held, |limits| limits.disk = 4 << 20).await;
    let deep = Evil {
        name: "folders too deep",
        program: "perl",
        script: "chdir $ENV{HOME}; for (1 .. 2000) { mkdir 'deeper' and chdir 'deeper' or last } sleep 1 while 1",
        outcomes: [Outcome::OverLimit; 2],
        said: "bytes on disk",
    };
    look(Level::Landlock, &deep, |_| {}).await;
}

#[tokio::test]
async fn files_without_number_are_over_the_limit_where_they_are_memory() {
    let many = Evil {
        name: "files in memory",
        program: "perl",
        script: "chdir '/tmp'; my $number = 0; for (1 .. 250000) { open my $file, '>', $number++ } sleep 1 while 1",
        outcomes: [Outcome::OverLimit; 2],
        said: "200000 files",
    };
    look(Level::Namespaces, &many, |_| {}).await;
}

#[tokio::test]
async fn what_is_left_of_a_server_that_ended_is_watched_too() {
    // It keeps the pipe open, and says something before anybody loses patience.
    let heir = Evil {
        name: "an heir that grows",
        program: "perl",
        script: "exit if fork; $| = 1; my @grown; while (1) { push @grown, 'x' x (16 << 20); print '{'; select undef, undef, undef, 0.1 }",
        outcomes: [Outcome::OverLimit; 2],
        said: "134217728 bytes of memory",
    };
    look(Level::Landlock, &heir, |limits| limits.memory = 128 << 20).await;
}
