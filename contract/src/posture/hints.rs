//! Whether our own classes agree with a hint that makes a tool look more harmless.
//!
//! Invariant: what is not understood agrees with nothing.

use super::gains::Classes;
use crate::action::{ActionType, Egress};
use crate::capability::Promise;
use crate::change::Change;

/// Whether what the tool is seen to do, hints aside, agrees with the hint that this change declares.
pub(super) fn agrees(change: &Change, classes: &Classes) -> bool {
    let does = classes.action.effective_without_hints;
    if does == ActionType::Unknown {
        return false;
    }
    let keeps = |promise| classes.capabilities.contradicts(promise).is_none();
    match change.pointer.as_str() {
        "/annotations/readOnlyHint" => keeps(Promise::ReadOnly) && !does.changes(),
        "/annotations/destructiveHint" => keeps(Promise::NotDestructive) && !does.is_drastic(),
        "/annotations/openWorldHint" => {
            keeps(Promise::ClosedWorld) && classes.action.egress != Egress::External
        }
        // A call that is repeated must not be one that was better made once.
        "/annotations/idempotentHint" => !does.is_drastic() && does != ActionType::Send,
        _ => false,
    }
}
