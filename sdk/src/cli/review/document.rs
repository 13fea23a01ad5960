//! The JSON of `review`: everything that is held, with all that a program needs to judge it.
//!
//! Invariant: a record that can't be read stands there with its error, never as one that holds nothing.

use std::path::PathBuf;

use mcpindex::gate::step::Step;
use mcpindex::pins::{Pins, PinsError, ServerKey};
use mcpindex_contract::posture::{Posture, Reason};
use serde::Serialize;

use super::super::exit::Exit;
use super::super::explain::document::{
    ActionPart, CapabilitiesPart, ChangePart, MarkerPart, ReasonPart, action_part, capabilities_part,
    change_part, marker_part, reason_part,
};
use super::super::output::Output;
use super::super::pins::{moment, print_document};
use super::organisation::Organisation;
use super::release::{Baseline, Item, Release, Row, Steps, What};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    servers: Vec<ServerPart<'a>>,
    /// Files among the pins that don't say whose they are.
    strays: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerPart<'a> {
    server: String,
    short_id: String,
    context: String,
    /// Why the record can't be read; then nothing else is known.
    error: Option<String>,
    pinned_tools: Option<usize>,
    /// Rows as a person decides them, the most dangerous first.
    rows: Vec<RowPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RowPart<'a> {
    section: &'static str,
    /// Whether it can be approved; a definition without a digest can't.
    approvable: bool,
    /// More than one: the same change in each.
    held: Vec<HeldPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldPart<'a> {
    /// `tool` or `instructions`.
    kind: &'static str,
    name: Option<&'a str>,
    digest: &'a str,
    no_definition_digest: Option<&'a str>,
    first_seen: String,
    /// What it was held for when it was seen.
    codes: &'a [String],
    /// What guard holds it for by the rules of this version; strict, where guard would not.
    reasons: Vec<ReasonPart<'a>>,
    changes: Vec<ChangePart<'a>>,
    markers: Vec<MarkerPart<'a>>,
    action: Option<ActionPart<'a>>,
    capabilities: Option<CapabilitiesPart<'a>>,
    baseline: Option<BaselinePart<'a>>,
    /// What the organisation decided about it; absent where nothing of that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    organisation: Option<OrganisationPart<'a>>,
    /// The exact text that was declared.
    definition: &'a str,
}

#[derive(Serialize)]
struct OrganisationPart<'a> {
    /// `approved`, `proposed`, `refused`, `withdrawn` or `expired`.
    state: &'static str,
    decision: u64,
    sentence: &'a str,
}

#[derive(Serialize)]
struct BaselinePart<'a> {
    digest: &'a str,
    via: &'static str,
    at: String,
    definition: &'a str,
}

/// All that is held of these servers; undetermined when one of them can't be read.
pub(super) fn print(
    servers: Vec<(ServerKey, Pins)>,
    strays: &[PathBuf],
    organisation: &Organisation,
    output: &mut Output,
) -> Exit {
    let read: Vec<_> = servers
        .into_iter()
        .map(|(key, mut pins)| {
            let release = pins.record().map(|record| {
                Release::of(&record, &mut Steps::default()).with(organisation, &key.identity.to_string())
            });
            (key, release)
        })
        .collect();
    let is_whole = strays.is_empty() && read.iter().all(|(_, release)| release.is_ok());
    let document = Document {
        schema: "mcpindex.review/1",
        servers: read.iter().map(server_part).collect(),
        strays: strays.iter().map(|path| path.display().to_string()).collect(),
    };
    print_document(output, &document);
    match is_whole {
        true => Exit::Ok,
        false => Exit::Undetermined,
    }
}

fn server_part((key, release): &(ServerKey, Result<Release, PinsError>)) -> ServerPart<'_> {
    let rows = release.iter().flat_map(|release| &release.rows);
    ServerPart {
        server: key.identity.to_string(),
        short_id: key.identity.short_id(),
        context: key.context.to_string(),
        error: release.as_ref().err().map(ToString::to_string),
        pinned_tools: release.as_ref().ok().map(|release| release.pinned),
        rows: rows.map(row_part).collect(),
    }
}

fn row_part(row: &Row) -> RowPart<'_> {
    RowPart {
        section: row.section.name(),
        approvable: row.is_approvable(),
        held: row.items.iter().map(held_part).collect(),
    }
}

fn held_part(item: &Item) -> HeldPart<'_> {
    let step = &*item.step;
    let (kind, name) = match &item.what {
        What::Tool(name) => ("tool", Some(name.as_str())),
        What::Instructions => ("instructions", None),
    };
    HeldPart {
        kind,
        name,
        digest: &item.digest,
        no_definition_digest: step.no_digest.as_deref(),
        first_seen: moment(item.held.first_seen),
        codes: &item.held.codes,
        reasons: step
            .reasons
            .iter()
            .map(|reason| reason_with_postures(reason, step))
            .collect(),
        changes: step.changes.iter().map(change_part).collect(),
        markers: step
            .markers
            .iter()
            .map(|marker| marker_part(marker, true))
            .collect(),
        action: step
            .examination
            .as_ref()
            .map(|examination| action_part(&examination.action)),
        capabilities: step
            .examination
            .as_ref()
            .map(|examination| capabilities_part(&examination.capabilities)),
        baseline: item.baseline.as_ref().map(baseline_part),
        organisation: item.said.as_ref().map(|said| OrganisationPart {
            state: said.state,
            decision: said.decision,
            sentence: &said.sentence,
        }),
        definition: &item.held.definition,
    }
}

fn reason_with_postures<'a>(reason: &'a Reason, step: &Step) -> ReasonPart<'a> {
    let holds = |posture: &&Posture| {
        let verdict = step
            .examination
            .as_ref()
            .map(|examination| examination.verdict(**posture));
        verdict.is_some_and(|verdict| verdict.reasons.contains(reason))
    };
    reason_part(reason, Posture::ALL.iter().filter(holds))
}

fn baseline_part(baseline: &Baseline) -> BaselinePart<'_> {
    BaselinePart {
        digest: &baseline.digest,
        via: baseline.via,
        at: moment(baseline.at),
        definition: &baseline.text,
    }
}
