//! What the program that enters a jail is told by the one that started it, as one argument.
//!
//! Invariant: no value of a variable and no secret is in it, since other users of the machine can read arguments.

use std::path::{Path, PathBuf};

use super::{Jail, JailLimits, Level};

/// The hidden first argument by which a program knows that it is to enter a jail.
pub(super) const FIRST_ARGUMENT: &str = "--mcpindex-enter-jail";

/// The same for the program that tries to break out of one.
pub(super) const PROBE_ARGUMENT: &str = "--mcpindex-probe-jail";

/// How to restrict oneself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Orders {
    pub(super) namespaces: bool,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) network: bool,
    pub(super) processor: u64,
    pub(super) processes: u64,
    pub(super) file: u64,
}

impl Orders {
    pub(super) fn of(jail: &Jail, home: &Path) -> Orders {
        let JailLimits {
            processor,
            processes,
            file,
            ..
        } = jail.limits;
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let mut write = jail.write.clone();
        write.extend_from_slice(&jail.share);
        write.push(home.to_owned());
        Orders {
            namespaces: jail.sandbox.level == Level::Namespaces,
            read: jail.read.clone(),
            write,
            network: jail.network,
            processor: number(processor),
            processes: number(processes),
            file: number(file),
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Paths that are no text have none; the entry then refuses an empty order.
        serde_json::to_string(self).unwrap_or_default()
    }
}
