//! The closed vocabulary of changes, from the contract's own table.

use axum::Json;
use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::outcome::Outcome;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct VocabularyBody {
    kinds: Vec<KindBody>,
    states: Vec<StateBody>,
}

#[derive(Debug, Serialize)]
struct KindBody {
    kind: &'static str,
    direction: &'static str,
    safety_relevant: bool,
    /// What guard and strict do about it.
    guard: &'static str,
    strict: &'static str,
    /// The published clients' kind that stands for it in telemetry.
    published: &'static str,
    sentence: &'static str,
}

#[derive(Debug, Serialize)]
struct StateBody {
    state: &'static str,
    determined: bool,
    sentence: &'static str,
}

/// `GET /api/v1/vocabulary`
pub(crate) async fn vocabulary() -> Json<VocabularyBody> {
    let kind = |kind: &ChangeKind| KindBody {
        kind: kind.name(),
        direction: kind.direction().name(),
        safety_relevant: kind.safety_relevant(),
        guard: kind.guard().name(),
        strict: kind.guard().under_strict().name(),
        published: kind.published(),
        sentence: kind.sentence(),
    };
    let state = |outcome: &Outcome| StateBody {
        state: outcome.name(),
        determined: outcome.has_surface(),
        sentence: outcome.sentence(),
    };
    Json(VocabularyBody {
        kinds: ChangeKind::all().iter().map(kind).collect(),
        states: Outcome::all().iter().map(state).collect(),
    })
}
