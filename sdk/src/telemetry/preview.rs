//! What an index would be told of all that is pinned and held on this machine, as if it were seen now.
//!
//! Invariant: it is made by what the sender uses, from the same records that gates judge by, and nothing of it is sent.

use std::sync::Arc;

use mcpindex_contract::definition::Definition;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::posture;
use mcpindex_contract::signal::{FingerprintKey, InstallId, MAX_SIGNALS, Signal};

use super::greeting::{Greeting, greet};
use super::kept::{Kept, KeptError};
use super::payload::{self, Observed, Version};
use super::{Mode, OwnRegistries, scope};
use crate::gate::sighting::{Sight, Sighting};
use crate::index::{Base, Chosen, IndexClient, IndexError};
use crate::pins::{Pins, Record};
use crate::state::StateDirectory;

/// See the module.
#[derive(Debug)]
pub struct Preview {
    /// The bodies of the requests, in their order, to the byte; none when there is nothing to tell.
    pub bodies: Vec<String>,
    /// Where they would go; `None` without an index.
    pub index: Option<Base>,
    /// How that index takes signals; `None`: it takes none. Version 2 where it was not asked.
    pub version: Option<Version>,
    /// Whether its fingerprints are under the organisation's key.
    pub is_own: bool,
    /// Whether the index was asked how it takes signals. It is not while telemetry is off.
    pub is_asked: bool,
    /// Whether nothing is pinned on this machine, so that a tool was made up.
    pub is_example: bool,
    /// Servers that this index must not hear of.
    pub left_out: Vec<Identity>,
    /// Why the pins of a server can't be read.
    pub problems: Vec<String>,
}

/// Why it can't be said what would be sent.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The index can't be asked how it takes signals.
    #[error("{base} can't be asked how it takes signals: {reason}")]
    NoAnswer {
        /// The index.
        base: Base,
        /// One line.
        reason: String,
    },
    /// See [`IndexError`].
    #[error(transparent)]
    Index(#[from] IndexError),
    /// See [`KeptError`].
    #[error(transparent)]
    Kept(#[from] KeptError),
}

/// See the module. `now` is in unix seconds. Asks the index how it takes signals, unless telemetry is off. Needs a Tokio
/// runtime with time and I/O.
pub async fn preview(
    state: &StateDirectory,
    index: Option<&Chosen>,
    mode: Mode,
    now: i64,
) -> Result<Preview, PreviewError> {
    let unasked = || Greeting {
        version: Some(Version::Two),
        key: FingerprintKey::public(),
        is_own: false,
    };
    let asked = index.filter(|_| mode.asks());
    let (greeting, install) = match asked {
        None => (unasked(), InstallId::from_bytes([0; 16])),
        Some(chosen) => {
            let greeting = greet(&IndexClient::new(chosen)?).await;
            let greeting = greeting.map_err(|failure| PreviewError::NoAnswer {
                base: chosen.base.clone(),
                reason: failure.reason,
            })?;
            (greeting, Kept::of(state).install_or_new(&chosen.base)?)
        }
    };
    let mut preview = Preview {
        bodies: Vec::new(),
        index: index.map(|chosen| chosen.base.clone()),
        version: greeting.version,
        is_own: greeting.is_own,
        is_asked: asked.is_some(),
        is_example: false,
        left_out: Vec::new(),
        problems: Vec::new(),
    };
    let mut records = records(state, &mut preview);
    if records.is_empty() && preview.problems.is_empty() && preview.left_out.is_empty() {
        preview.is_example = true;
        records.extend(example());
    }
    let own_registries = OwnRegistries::of_this_process();
    let mut signals: Vec<Signal> = Vec::new();
    for (server, record) in &records {
        if !greeting.is_own && !scope::is_public(server, &own_registries).await {
            if preview.left_out.last() != Some(server) {
                preview.left_out.push(server.clone());
            }
            continue;
        }
        for sighting in sightings(record) {
            let observed = Observed::of(server, &sighting, now);
            let version = greeting.version;
            signals.extend(version.and_then(|version| observed.signal(version, &greeting.key, install)));
        }
    }
    preview.bodies = signals.chunks(MAX_SIGNALS).map(payload::body).collect();
    Ok(preview)
}

/// What is pinned, by server; what was listed to the bearer of a credential is told to nobody.
fn records(state: &StateDirectory, preview: &mut Preview) -> Vec<(Identity, Arc<Record>)> {
    let mut records = Vec::new();
    for (key, mut pins) in Pins::all(state) {
        match pins.record() {
            _ if !key.context.is_anybodys() => preview.left_out.push(key.identity),
            Ok(record) => records.push((key.identity, record)),
            Err(error) => preview.problems.push(error.to_string()),
        }
    }
    records
}

/// Each pin as it was seen first, and each held definition beside it.
fn sightings(record: &Record) -> Vec<Sighting> {
    let mut sightings = Vec::new();
    for (name, tool) in &record.tools {
        let Some(baseline) = &tool.baseline else {
            continue;
        };
        let sighting = |definition: &str, sight| Sighting {
            tool: name.clone(),
            definition: definition.into(),
            sight,
        };
        sightings.push(sighting(&baseline.definition, Sight::Pinned));
        let before = Definition::read(&baseline.definition);
        for (_, held) in tool.held.iter().filter(|(digest, _)| **digest != baseline.digest) {
            let after = Definition::read(&held.definition);
            let changes = posture::examine(Some(&before), Some(&after)).changes;
            let drifted = Sight::Drifted {
                before: baseline.definition.clone(),
                kinds: changes.iter().map(|change| change.kind).collect(),
            };
            sightings.push(sighting(&held.definition, drifted));
        }
    }
    sightings
}

/// A server that nobody has, with a tool that was pinned.
fn example() -> Option<(Identity, Arc<Record>)> {
    let identity = Identity::from_reference("npm:example").ok()?.identity;
    let tool = r#"{"name":"search","description":"Search the documents.","inputSchema":{"type":"object"}}"#;
    let mut record = Record::default();
    record.pin("search", &Definition::read(tool), crate::pins::Via::FirstSight, 0);
    Some((identity, Arc::new(record)))
}
