//! The closed vocabulary of changes, from the contract's own table.

use axum::Json;
use mcpindex_contract::change::{ChangeKind, Row};
use mcpindex_contract::outcome::Outcome;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct VocabularyBody {
    kinds: Vec<Row>,
    states: Vec<StateBody>,
}

#[derive(Debug, Serialize)]
struct StateBody {
    state: &'static str,
    determined: bool,
    sentence: &'static str,
}

/// `GET /api/v1/vocabulary`
pub(crate) async fn vocabulary() -> Json<VocabularyBody> {
    let state = |outcome: &Outcome| StateBody {
        state: outcome.name(),
        determined: outcome.has_surface(),
        sentence: outcome.sentence(),
    };
    Json(VocabularyBody {
        kinds: ChangeKind::all().iter().copied().map(Row::from).collect(),
        states: Outcome::all().iter().map(state).collect(),
    })
}
