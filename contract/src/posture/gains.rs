//! What a definition can do that the baseline could not, by its words and schemas.
//!
//! Invariant: hints have no part in it, since they have rules of their own; a rule of classification that both sides meet
//! is never a gain.

use super::{BLAST_RADIUS_GAINED, CAPABILITY_GAINED, Reason};
use crate::action::{self, Action, Escalation};
use crate::capability::{self, Capabilities};
use crate::declaration::Declaration;
use crate::definition::Definition;

/// What one definition can do.
#[derive(Debug, Clone)]
pub(super) struct Classes {
    pub(super) action: Action,
    pub(super) capabilities: Capabilities,
}

impl Classes {
    pub(super) fn of(definition: &Definition) -> Classes {
        let declaration = Declaration::of(definition);
        Classes {
            action: action::of(&declaration),
            capabilities: capability::of(&declaration),
        }
    }

    /// At most one reason for the classes and one for the blast radius.
    pub(super) fn gained_since(&self, before: &Classes) -> Vec<Reason> {
        let mut gains = Vec::new();
        if !capability::gained(&before.capabilities, &self.capabilities)
            .classes
            .is_empty()
        {
            gains.push(Reason::coded(CAPABILITY_GAINED, ""));
        }
        if let Some(escalation) = action::escalates(&before.action, &self.action) {
            let pointer = match &escalation {
                Escalation::WritePayload { pointer } | Escalation::Credential { pointer } => pointer,
                Escalation::Blast { .. } | Escalation::Action { .. } => "",
            };
            gains.push(Reason::coded(BLAST_RADIUS_GAINED, pointer));
        }
        gains
    }
}
