//! What a definition can do that the baseline could not, by its declaration.
//!
//! Invariant: hints are left out on both sides, since they have rules of their own; a rule of classification that both
//! sides meet is never a gain.

use super::{BLAST_RADIUS_GAINED, CAPABILITY_GAINED, Reason};
use crate::action::{self, Action};
use crate::canonical::canonical;
use crate::capability::{self, Capabilities};
use crate::definition::Definition;
use crate::json::Value;

/// What one definition can do, hints aside.
pub(super) struct Side {
    pub(super) action: Action,
    pub(super) capabilities: Capabilities,
}

/// Both sides of a comparison.
pub(super) struct Classes {
    pub(super) before: Side,
    pub(super) after: Side,
}

impl Classes {
    pub(super) fn without_hints(before: &Definition, after: &Definition) -> Classes {
        Classes {
            before: Side::without_hints(before),
            after: Side::without_hints(after),
        }
    }

    /// One reason for the classes and one for the blast radius.
    pub(super) fn gains(&self) -> Vec<Reason> {
        let mut gains = Vec::new();
        let (old, new) = (&self.before.capabilities, &self.after.capabilities);
        let is_new = |class| !old.classes.iter().any(|known| known.class == class);
        let gained = new.classes.iter().any(|capability| is_new(capability.class));
        if gained || new.rank > old.rank || new.destructive && !old.destructive {
            gains.push(Reason::coded(CAPABILITY_GAINED, ""));
        }
        let (old, new) = (&self.before.action, &self.after.action);
        if new.blast > old.blast
            || new.side_effect > old.side_effect
            || new.egress > old.egress
            || new.ceiling > old.ceiling
            || new.reversibility > old.reversibility
        {
            gains.push(Reason::coded(BLAST_RADIUS_GAINED, ""));
        }
        gains
    }
}

impl Side {
    fn without_hints(definition: &Definition) -> Side {
        let stripped = stripped(definition);
        let definition = stripped.as_ref().unwrap_or(definition);
        Side {
            action: action::classify(definition),
            capabilities: capability::classify(definition),
        }
    }
}

/// The definition without its annotations; `None` where it has none.
fn stripped(definition: &Definition) -> Option<Definition> {
    definition.member("annotations")?;
    let Some(Value::Object(members)) = definition.value() else {
        return None;
    };
    let members = members.iter().filter(|(name, _)| name != "annotations").cloned();
    let text = canonical(&Value::Object(members.collect()), None).ok()?;
    Some(Definition::read(&text))
}
