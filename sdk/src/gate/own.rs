//! The gate's own requests: ids that no client can have made, and what they carry in the client's era.
//!
//! Invariant: whatever is answered under this prefix, now or late, is the gate's and is never forwarded.

use crate::wire::message::{named_request, string};

/// The ids of one gate's requests.
#[derive(Debug)]
pub(super) struct OwnIds {
    /// `mcpindex-<32 hex>-`, random for each gate.
    prefix: String,
    asked: u64,
}

impl OwnIds {
    /// `random` is the part that nobody can guess.
    pub(super) fn new(random: [u8; 16]) -> OwnIds {
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        OwnIds {
            prefix: format!("mcpindex-{hex}-"),
            asked: 0,
        }
    }

    /// A request for a page of the list of tools, and the number it is asked under. `meta` is the text of an object.
    pub(super) fn list_tools(&mut self, cursor: Option<&str>, meta: Option<&str>) -> (u64, Vec<u8>) {
        self.asked += 1;
        let members = [
            cursor.map(|cursor| format!(r#""cursor":{cursor}"#)),
            meta.map(|meta| format!(r#""_meta":{meta}"#)),
        ];
        let members: Vec<String> = members.into_iter().flatten().collect();
        let id = format!("{}{}", self.prefix, self.asked);
        let text = named_request(&id, "tools/list", &format!("{{{}}}", members.join(",")));
        (self.asked, text.into_bytes())
    }

    /// Whether an unescaped string is one of our ids, or would be.
    pub(super) fn is_own(&self, id: &str) -> bool {
        id.starts_with(&self.prefix)
    }

    /// The number of an own id.
    pub(super) fn number(&self, id: &str) -> Option<u64> {
        id.strip_prefix(&self.prefix)?.parse().ok()
    }

    /// Whether a JSON text is one of our ids.
    pub(super) fn is_own_text(&self, text: &str) -> bool {
        string(text).is_some_and(|id| self.is_own(&id))
    }

    /// Whether one of our ids stands anywhere in a message.
    pub(super) fn is_named_in(&self, message: &str) -> bool {
        message.contains(&self.prefix)
    }
}
