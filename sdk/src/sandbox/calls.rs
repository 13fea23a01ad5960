//! The wall around system calls: what no server needs in order to say what it declares, refused by seccomp.
//!
//! It is a list of what is refused, since servers are of every language; what a runtime asks for and can do without gets the answer
//! that it knows how to take. Without namespaces the list is longer: there it is all that stands between a server and the other
//! processes of its user, which Landlock does not know.
//!
//! Invariant: the filter can't be walked round by another numbering of the same calls, and is there for every process of the jail.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, apply_filter, sock_filter,
};

use super::orders::Orders;

/// Calls that reach into the kernel or into other processes, whatever the arguments.
const NEVER: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Where the machine's other processes are in sight: what Landlock does not rule over. Who can't leave its process group ends with it.
const NOT_BESIDE_OTHERS: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_ioprio_set,
    libc::SYS_kill,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_mq_open,
    libc::SYS_msgget,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_removexattr,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_semget,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_setsid,
    libc::SYS_setxattr,
    libc::SYS_shmget,
    libc::SYS_tkill,
    libc::SYS_truncate,
    libc::SYS_utimensat,
];

/// The older forms of the same, which newer machines don't have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_futimesat,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Ways into the hardware that only this machine has.
#[cfg(target_arch = "x86_64")]
const HARDWARE: &[c_long] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const HARDWARE: &[c_long] = &[];

/// Namespaces that a clone may not make.
const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Typing for whoever sits at the terminal.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];

/// Whom a signal goes to when a file is ready, and which: a way to send any signal that is no call of its own.
const SIGNALS_OF_FILES: [c_int; 3] = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX];
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

/// The same by `ioctl`.
const SIGNALS_OF_SOCKETS: [u64; 2] = [0x8901, 0x8902];

/// Sockets of a pair that can be given another partner afterwards, by its path; what is asked for as raw is one of datagrams.
const MOVABLE_SOCKETS: [c_int; 2] = [libc::SOCK_DGRAM, libc::SOCK_RAW];

/// The part of a socket's type that is not a flag.
const SOCKET_TYPE: u64 = 0xf;

/// The last call that was looked at for these lists (`mseal`). What came after it programs can do without; it could be anything, such as
/// a new form of one that is refused here. The second number that the x32 ABI gives to every call is above it too.
const LAST_KNOWN: c_long = 462;

pub(super) fn put_up(orders: &Orders) -> Result<(), String> {
    for filter in filters(orders)? {
        apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))?;
    }
    Ok(())
}

type Rules = BTreeMap<c_long, Vec<Rule>>;

/// One filter for each answer; every one of them is asked at each call.
fn filters(orders: &Orders) -> Result<Vec<BpfProgram>, String> {
    let beside_others = !orders.namespaces;
    let mut refused = Rules::new();
    let always = NEVER.iter().chain(HARDWARE);
    // A package client sets modes and times of what it unpacks, and runs no package's code.
    let also = NOT_BESIDE_OTHERS
        .iter()
        .chain(OLDER)
        .filter(|_| beside_others && !orders.network);
    for call in always.chain(also) {
        refused.insert(*call, Vec::new());
    }
    // Whoever watches it looks through its entry in `/proc`.
    refused.insert(libc::SYS_prctl, any_of(0, Is::Eq, [libc::PR_SET_DUMPABLE])?);
    let mut parents = NAMESPACES;
    let mut requests = TERMINAL.to_vec();
    if beside_others {
        // Who has us as its parent is nobody's to wait for but ours.
        parents |= u64::from(libc::CLONE_PARENT.unsigned_abs());
        requests.extend(SIGNALS_OF_SOCKETS);
        refused.insert(libc::SYS_fcntl, any_of(1, Is::Eq, SIGNALS_OF_FILES)?);
        refused.insert(
            libc::SYS_socketpair,
            any_of(1, Is::MaskedEq(SOCKET_TYPE), MOVABLE_SOCKETS)?,
        );
        refused.insert(libc::SYS_prlimit64, vec![only(0, Is::Ne, 0)?]);
        refused.insert(libc::SYS_sched_setaffinity, vec![only(0, Is::Ne, 0)?]);
        let us = u64::try_from(rustix::process::getpid().as_raw_nonzero().get()).unwrap_or_default();
        if !orders.network {
            refused.insert(libc::SYS_tgkill, vec![only(0, Is::Ne, us)?]);
        }
    }
    refused.insert(
        libc::SYS_clone,
        each_bit(parents)
            .map(|bit| only(0, Is::MaskedEq(bit), bit))
            .collect::<Result<_, _>>()?,
    );
    // The kernel looks at the lower half of a request alone.
    refused.insert(
        libc::SYS_ioctl,
        requests
            .iter()
            .map(|request| only(1, Is::Eq, *request))
            .collect::<Result<_, _>>()?,
    );
    let mut unreachable = Rules::new();
    let mut no_such_call = Rules::new();
    // Its arguments are in memory, where a filter can't look; runtimes go on with the older call.
    no_such_call.insert(libc::SYS_clone3, Vec::new());
    // Files without a folder: memory that counts as nobody's as long as nobody maps it.
    no_such_call.insert(libc::SYS_memfd_create, Vec::new());
    no_such_call.insert(libc::SYS_memfd_secret, Vec::new());
    let allowed: &[i32] = match (orders.network, beside_others) {
        // Within namespaces a program has a network to itself with nothing in it.
        (true, _) | (false, false) => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        (false, true) => &[],
    };
    let others = allowed
        .iter()
        .map(|family| condition(0, Length::Dword, Is::Ne, *family as u64))
        .collect::<Result<Vec<_>, _>>()?;
    let socket = match others.is_empty() {
        true => Vec::new(),
        false => vec![Rule::new(others).map_err(said)?],
    };
    unreachable.insert(libc::SYS_socket, socket);
    Ok(vec![
        unknown_refused(),
        filter(refused, libc::EPERM)?,
        filter(unreachable, libc::ENETUNREACH)?,
        filter(no_such_call, libc::ENOSYS)?,
    ]
    .into_iter()
    .filter(|filter| !filter.is_empty())
    .collect())
}

fn said(error: impl std::fmt::Display) -> String {
    format!("seccomp: {error}")
}

fn condition(argument: u8, length: Length, is: Is, value: u64) -> Result<Condition, String> {
    Condition::new(argument, length, is, value).map_err(said)
}

fn rule(argument: u8, length: Length, is: Is, value: u64) -> Result<Rule, String> {
    Rule::new(vec![condition(argument, length, is, value)?]).map_err(said)
}

fn only(argument: u8, is: Is, value: u64) -> Result<Rule, String> {
    rule(argument, Length::Dword, is, value)
}

fn any_of<const N: usize>(argument: u8, is: Is, values: [c_int; N]) -> Result<Vec<Rule>, String> {
    values
        .into_iter()
        .map(|value| only(argument, is.clone(), u64::from(value.unsigned_abs())))
        .collect()
}

fn each_bit(bits: u64) -> impl Iterator<Item = u64> {
    (0..64).map(|place| 1 << place).filter(move |bit| bits & bit != 0)
}

fn filter(rules: Rules, errno: i32) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(said)?;
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)
        .and_then(TryInto::try_into)
        .map_err(said)
}

/// `if number > LAST_KNOWN { ENOSYS }`, which the library has no rule for. Without it every other filter could be walked round by the
/// numbers of the x32 ABI, where the kernel has that. The other filters kill what comes by another architecture's numbers.
fn unknown_refused() -> BpfProgram {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let above = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    vec![
        // The number is the first member of `struct seccomp_data`.
        instruction(load, 0, 0, 0),
        instruction(above, 0, 1, u32::try_from(LAST_KNOWN).unwrap_or_default()),
        instruction(
            answer,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        ),
        instruction(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
