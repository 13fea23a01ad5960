//! A server's page: how it stands, what it declares, and its timeline of looks and drifts.

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use mcpindex_contract::approval::{DEFAULT_TENANT, Standing, State as Stood};
use mcpindex_contract::digest::{Digest, NoDigest};
use mcpindex_contract::json;
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Listing, Member, MemberKind, Surface};
use mcpindex_store::drifts::DriftRecord;
use mcpindex_store::observations::{Artifact, ObservationRecord};

use super::{DigestView, DriftView, Frame, StateView, page};
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::State as LookState;
use crate::vetting::is_stale;
use crate::when::{When, when};
use crate::words::Words;

/// Looks on a page of the timeline.
const PER_PAGE: usize = 50;
/// A description's beginning, in characters; the rest is a click away.
const BEGINNING: usize = 220;
/// The longest description on this page, in characters; the definition has the whole.
const MAX_DESCRIPTION: usize = 4_000;
/// Longer instructions than this are a click away, in characters: what changed is to be found without scrolling far.
const MAX_UNFOLDED_INSTRUCTIONS: usize = 600;
/// The longest instructions on this page, in characters.
const MAX_INSTRUCTIONS: usize = 20_000;

#[derive(Template)]
#[template(path = "server.html")]
struct ServerPage {
    frame: Frame,
    /// Its drifts, for feed readers.
    feed: String,
    /// For the title.
    title: String,
    name: Words,
    short_id: String,
    aliases: Vec<Words>,
    state: StateView,
    detail: Option<Words>,
    added: Option<When>,
    looked: Option<When>,
    declared: Option<Declared>,
    /// Whether the last look determined nothing, so that what is declared comes from an earlier one.
    /// What follows is from before the last look.
    last_look_failed: bool,
    /// What follows says nothing about today.
    stale: bool,
    /// Whether the chain of approvals is broken, so that what is said of them may be less than what was decided.
    approvals_broken: bool,
    drift_count: i64,
    /// The newest drift; not on later pages of the timeline.
    latest: Option<DriftView>,
    timeline: Vec<LookView>,
    later: bool,
    first: String,
    next: Option<String>,
    api: String,
}

/// What the server declares, by the newest look that determined it.
struct Declared {
    observed: Option<When>,
    version: Option<Words>,
    protocol: Words,
    server_info: Option<Words>,
    surface_digest: Option<String>,
    instructions: Option<Words>,
    /// Whether they are short enough to be shown at once.
    instructions_unfolded: bool,
    /// `None` when the list of tools could not be read.
    tools: Option<Vec<ToolView>>,
    tools_failure: Option<Words>,
    others: Vec<ListView>,
}

struct ToolView {
    name: Words,
    title: Option<Words>,
    description: Option<Words>,
    /// The whole description, when what is shown at first is only its beginning.
    more: Option<Words>,
    digest: DigestView,
    no_digest: Option<&'static str>,
    /// What was decided of exactly this; `None`: nothing.
    decided: Option<DecidedView>,
}

/// What stands of a definition, as everybody may see it: who decided and why is for those who sign in.
struct DecidedView {
    name: &'static str,
    /// `good`, `bad` or `waiting`.
    tone: &'static str,
    until: Option<When>,
}

/// How many of another kind are declared, or why that isn't known.
struct ListView {
    kind: &'static str,
    count: Option<usize>,
    declared: bool,
    failure: Option<Words>,
}

/// One look, with the drift that it showed.
struct LookView {
    id: i64,
    state: StateView,
    determined: bool,
    detail: Option<Words>,
    observed: Option<When>,
    version: Option<Words>,
    published: Option<When>,
    integrity: Option<Words>,
    dependencies: Option<Words>,
    runtime: Option<Words>,
    protocol: Option<Words>,
    tools: Option<i64>,
    sandbox: Option<String>,
    drift: Option<DriftView>,
}

/// `GET /servers/{identity}?before=&before_drift=`
pub(crate) async fn server(
    State(app): State<App>,
    Path(reference): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::lenient(&uri);
    let before = query.before("before")?;
    let before_drift = query.before("before_drift")?;
    let server = app.server(&reference).await?;
    let now = app.now();

    let mut looks = app
        .store
        .observations(&server.identity, before, PER_PAGE as i64 + 1)
        .await?;
    let more = looks.len() > PER_PAGE;
    looks.truncate(PER_PAGE);
    // Each look has at most one drift, both lists run in timeline order: so many drifts are enough.
    let drifts = app
        .store
        .drifts(Some(&server.identity), before_drift, PER_PAGE as i64)
        .await?;
    let latest = drifts.first().filter(|_| before_drift.is_none());
    let latest = latest.map(|drift| DriftView::new(drift, now));
    let mut drifts: HashMap<i64, DriftRecord> = drifts
        .into_iter()
        .map(|drift| (drift.after_observation, drift))
        .collect();
    let mut last_drift = before_drift;
    let mut timeline = Vec::with_capacity(looks.len());
    for look in &looks {
        let drift = drifts.remove(&look.id);
        last_drift = drift.as_ref().map(|drift| drift.id).or(last_drift);
        timeline.push(look_view(look, drift.as_ref(), now));
    }
    let path = links::server_page(&server.short_id);
    let next = looks.last().filter(|_| more).map(|last| {
        let parameters = [
            ("before", Some(last.id.to_string())),
            ("before_drift", last_drift.map(|id| id.to_string())),
        ];
        links::with_query(&path, &parameters) + "#timeline"
    });

    let stood = app.store.standing(DEFAULT_TENANT, &server.identity, now).await?;
    let declared = match server.current_observation {
        None => None,
        Some(id) => match (app.store.observation(id).await?, app.store.surface(id).await?) {
            (Some(observation), Some(surface)) => {
                Some(declared(&observation, &surface, &stood.standing, now))
            }
            _ => None,
        },
    };
    let feed = links::server_feed(&server.short_id);
    page(&ServerPage {
        frame: Frame::new(&app, "servers").with_feed(
            format!("Drifts of {}", Words::plain(&server.identity)),
            feed.clone(),
        ),
        feed,
        title: Words::plain(&server.identity),
        name: Words::name(&server.identity),
        aliases: server.aliases.iter().map(|alias| Words::label(alias)).collect(),
        state: LookState(server.outcome).into(),
        detail: server.detail.as_deref().map(Words::text),
        added: when(server.added_at, now),
        looked: server.looked_at.and_then(|at| when(at, now)),
        last_look_failed: declared.is_some() && !server.outcome.is_some_and(Outcome::has_surface),
        stale: server.determined_at.is_some_and(|at| is_stale(at, now)),
        declared,
        approvals_broken: stood.chain.flaw.is_some(),
        drift_count: server.drifts,
        latest,
        timeline,
        later: before.is_some(),
        next,
        api: links::server_api(&server.short_id),
        first: path,
        short_id: server.short_id,
    })
}

fn declared(
    observation: &ObservationRecord,
    surface: &Surface,
    standings: &[Standing],
    now: i64,
) -> Declared {
    let tools_failure = match surface.listing(MemberKind::Tool) {
        Listing::Failed { reason } => Some(Words::text(reason)),
        Listing::Complete | Listing::NotDeclared => None,
    };
    let decided: HashMap<(&str, Digest), &Standing> = standings
        .iter()
        .map(|standing| ((standing.record.tool.as_str(), standing.record.digest), standing))
        .collect();
    let tools = surface.members_of(MemberKind::Tool).map(|tool| {
        let standing = decided.get(&(tool.name.as_str(), tool.definition.digest()));
        ToolView {
            decided: standing.map(|standing| decided_view(standing, now)),
            ..tool_view(tool)
        }
    });
    let tools: Vec<ToolView> = tools.collect();
    let others = MemberKind::ALL
        .into_iter()
        .filter(|kind| *kind != MemberKind::Tool)
        .map(|kind| list_view(kind, surface))
        .collect();
    let instructions = surface.instructions.as_ref();
    Declared {
        observed: when(observation.observed_at, now),
        version: observation
            .artifact
            .as_ref()
            .map(|artifact| Words::label(&artifact.version)),
        protocol: Words::label(&surface.protocol_version),
        server_info: surface.server_info.as_deref().map(server_info),
        surface_digest: observation.surface_digest.clone(),
        instructions_unfolded: instructions
            .is_some_and(|told| told.text.chars().nth(MAX_UNFOLDED_INSTRUCTIONS).is_none()),
        instructions: instructions.map(|told| Words::beginning(&told.text, MAX_INSTRUCTIONS)),
        tools: Some(tools).filter(|_| tools_failure.is_none()),
        tools_failure,
        others,
    }
}

/// The name and version that the server gives itself, or all of what it sent in their place.
fn server_info(text: &str) -> Words {
    let document = json::read(text).ok();
    let member = |name: &str| {
        let value = document.as_ref()?.value.get(name)?;
        value.as_str().map(str::to_owned)
    };
    match (member("name"), member("version")) {
        (Some(name), Some(version)) => Words::label(&format!("{name} {version}")),
        (Some(name), None) => Words::label(&name),
        _ => Words::beginning(text, BEGINNING),
    }
}

fn tool_view(tool: &Member) -> ToolView {
    let definition = &tool.definition;
    let description = definition.description();
    let beginning = description.map(|text| Words::beginning(text, BEGINNING));
    let is_cut = beginning.as_ref().is_some_and(Words::is_cut);
    ToolView {
        name: Words::label(&tool.name),
        title: definition.title().map(Words::label),
        description: beginning,
        more: description
            .filter(|_| is_cut)
            .map(|text| Words::beginning(text, MAX_DESCRIPTION)),
        digest: definition.digest().into(),
        no_digest: definition.no_digest().map(NoDigest::name),
        decided: None,
    }
}

fn decided_view(standing: &Standing, now: i64) -> DecidedView {
    DecidedView {
        name: match standing.state {
            Stood::Approved => "approved",
            Stood::Refused => "refused",
            Stood::Proposed => "approved by one of two",
            Stood::Expired => "decision is over",
            Stood::Withdrawn => "decision withdrawn",
            Stood::Doubtful => "approval in doubt",
        },
        tone: match standing.state {
            Stood::Approved => "good",
            Stood::Refused | Stood::Doubtful => "bad",
            Stood::Proposed | Stood::Expired | Stood::Withdrawn => "waiting",
        },
        until: standing.until.and_then(|until| when(until, now)),
    }
}

fn list_view(kind: MemberKind, surface: &Surface) -> ListView {
    let count = surface.members_of(kind).count();
    let listing = surface.listing(kind);
    ListView {
        kind: match kind {
            MemberKind::Tool => "Tools",
            MemberKind::Prompt => "Prompts",
            MemberKind::Resource => "Resources",
            MemberKind::ResourceTemplate => "Resource templates",
        },
        count: matches!(listing, Listing::Complete).then_some(count),
        declared: !matches!(listing, Listing::NotDeclared),
        failure: match listing {
            Listing::Failed { reason } => Some(Words::text(reason)),
            Listing::Complete | Listing::NotDeclared => None,
        },
    }
}

fn look_view(look: &ObservationRecord, drift: Option<&DriftRecord>, now: i64) -> LookView {
    let artifact = look.artifact.as_ref();
    let part = |part: fn(&Artifact) -> Option<&str>| artifact.and_then(part).map(Words::label);
    LookView {
        id: look.id,
        state: LookState(Some(look.outcome)).into(),
        determined: look.outcome.has_surface(),
        detail: look.detail.as_deref().map(Words::text),
        observed: when(look.observed_at, now),
        version: part(|artifact| Some(&artifact.version)),
        published: artifact
            .and_then(|artifact| artifact.published_at)
            .and_then(|at| when(at, now)),
        integrity: part(|artifact| artifact.integrity.as_deref()),
        dependencies: part(|artifact| artifact.dependencies.as_deref()),
        runtime: part(|artifact| artifact.runtime.as_deref()),
        protocol: look.protocol_version.as_deref().map(Words::label),
        tools: look.tools,
        sandbox: look.sandbox.clone(),
        drift: drift.map(|drift| DriftView::new(drift, now)),
    }
}
