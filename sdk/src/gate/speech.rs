//! How the client speaks: which of the protocol's two lives it leads, and what its requests carry.
//!
//! Invariant: nothing of the gate's own goes out before [`Speech::may_ask`], which in the older life is the client's
//! `notifications/initialized` (real servers list more after it).

use crate::wire::message::members;

/// What a request of the newer protocol carries in `_meta`.
const META: [&str; 3] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];

/// The one version that knows batches.
const BATCHES: &str = "2025-03-26";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Speech {
    life: Life,
    /// What both sides settled on in the older protocol.
    version: Option<String>,
}

#[derive(Debug, Default)]
enum Life {
    #[default]
    Unknown,
    /// `initialize` was sent; whether `notifications/initialized` was.
    Legacy { initialized: bool },
    /// The client's last `_meta`, as far as requests of ours carry it.
    Modern { members: [Option<String>; 3] },
}

impl Speech {
    /// The client asked to initialize.
    pub(super) fn initialize(&mut self) {
        self.life = Life::Legacy { initialized: false };
        self.version = None;
    }

    /// The client says that it is initialized.
    pub(super) fn initialized(&mut self) {
        if let Life::Legacy { initialized } = &mut self.life {
            *initialized = true;
        }
    }

    /// The server's answer to `initialize` names this version.
    pub(super) fn settled(&mut self, version: String) {
        self.version = Some(version);
    }

    /// A request of the client has these `params`. One that is initialized speaks the older protocol to the end.
    pub(super) fn heard(&mut self, params: &str) {
        if matches!(self.life, Life::Legacy { initialized: true }) {
            return;
        }
        // Nearly every request of the older life carries none of it, and this is asked of each.
        if memchr::memmem::find(params.as_bytes(), b"protocolVersion\"").is_none() {
            return;
        }
        let Ok([Some(meta)]) = members(params, ["_meta"]) else {
            return;
        };
        let Ok(found) = members(meta, META) else {
            return;
        };
        if found[0].is_none() {
            return;
        }
        match &self.life {
            Life::Modern { members } if members.each_ref().map(Option::as_deref) == found => {}
            _ => {
                self.life = Life::Modern {
                    members: found.map(|member| member.map(str::to_owned)),
                }
            }
        }
    }

    /// Whether requests of the gate's own may go out.
    pub(super) fn may_ask(&self) -> bool {
        match self.life {
            Life::Unknown => false,
            Life::Legacy { initialized } => initialized,
            Life::Modern { .. } => true,
        }
    }

    /// Whether arrays of messages are part of the protocol that was settled on.
    pub(super) fn has_batches(&self) -> bool {
        self.version.as_deref() == Some(BATCHES)
    }

    /// The `_meta` that requests of ours carry.
    pub(super) fn own_meta(&self) -> Option<String> {
        let Life::Modern { members } = &self.life else {
            return None;
        };
        let members: Vec<String> = META
            .iter()
            .zip(members)
            .filter_map(|(name, value)| Some(format!(r#""{name}":{}"#, value.as_ref()?)))
            .collect();
        Some(format!("{{{}}}", members.join(",")))
    }
}
