//! An inspection as a few lines, for snapshots.

use std::fmt::Write;
use std::time::Duration;

use mcpindex::inspect::Inspection;
use mcpindex::wire::limits::Limits;
use mcpindex_contract::surface::{Listing, MemberKind};

/// The desk's limits, but for a server that never answers.
pub(crate) fn limits() -> Limits {
    Limits {
        era_probe: Duration::from_secs(3),
        ..Limits::desk()
    }
}

/// What was found, without digests and times.
pub(crate) fn report(inspection: &Inspection) -> String {
    let mut text = format!("{}\n", inspection.outcome().name());
    // Writing to a String can't fail.
    let _ = match &inspection.result {
        Err(failure) => writeln!(text, "reason: {}", failure.reason),
        Ok(surface) => {
            let _ = writeln!(text, "protocol: {}", surface.protocol_version);
            if let Some(instructions) = &surface.instructions {
                let _ = writeln!(text, "instructions: {}", instructions.text);
            }
            for kind in MemberKind::ALL {
                let names: Vec<_> = surface
                    .members_of(kind)
                    .map(|member| match member.definition.no_digest() {
                        None => member.name.clone(),
                        Some(reason) => format!("{} ({})", member.name, reason.name()),
                    })
                    .collect();
                let listing = match surface.listing(kind) {
                    Listing::Complete => names.join(", "),
                    Listing::NotDeclared => "not declared".to_owned(),
                    Listing::Failed { reason } => format!("failed: {reason}"),
                };
                let _ = writeln!(text, "{}s: {listing}", kind.name());
            }
            Ok(())
        }
    };
    for note in &inspection.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if !inspection.server_asked.is_empty() {
        let _ = writeln!(text, "server asked: {}", inspection.server_asked.join(", "));
    }
    text
}
