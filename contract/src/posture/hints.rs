//! Whether our own classes agree with a hint that makes a tool look more harmless.
//!
//! Invariant: what is not understood agrees with nothing.

use super::gains::Side;
use crate::action::{ActionType, Egress, SideEffect};
use crate::change::Change;

/// Whether what the tool is seen to do, hints aside, agrees with the hint that this change declares.
pub(super) fn agrees(change: &Change, side: &Side) -> bool {
    let action = &side.action;
    let is_known = action.effective != ActionType::Unknown;
    let destroys = side.capabilities.destructive
        || matches!(
            action.effective,
            ActionType::Delete | ActionType::Execute | ActionType::Admin | ActionType::Payment
        );
    match change.pointer.as_str() {
        "/annotations/readOnlyHint" => is_known && !destroys && action.side_effect == SideEffect::None,
        "/annotations/destructiveHint" => is_known && !destroys,
        "/annotations/openWorldHint" => is_known && action.egress != Egress::External,
        "/annotations/idempotentHint" => is_known && !destroys && action.effective != ActionType::Send,
        _ => false,
    }
}
