//! The closed vocabulary of changes, from the contract's own table.

use axum::Json;
use axum::http::Uri;
use mcpindex_contract::change::{ChangeKind, Row};
use mcpindex_contract::outcome::Outcome;
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::query::Query;

/// Every kind of change, and every way that a look ends.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VocabularyBody {
    kinds: Vec<KindBody>,
    states: Vec<StateBody>,
}

/// A kind of change.
#[derive(Debug, Serialize, ToSchema)]
struct KindBody {
    kind: &'static str,
    /// `widening`, `narrowing`, `meaning`, `hint` or `opaque`.
    direction: &'static str,
    safety_relevant: bool,
    /// What a gate under guard does about it.
    guard: &'static str,
    /// What a gate under strict does about it.
    strict: &'static str,
    /// The kind that stands for it in signals of version 1.
    published: &'static str,
    sentence: &'static str,
}

impl From<Row> for KindBody {
    fn from(row: Row) -> KindBody {
        KindBody {
            kind: row.kind,
            direction: row.direction,
            safety_relevant: row.safety_relevant,
            guard: row.guard,
            strict: row.strict,
            published: row.published,
            sentence: row.sentence,
        }
    }
}

/// A way that a look ends.
#[derive(Debug, Serialize, ToSchema)]
struct StateBody {
    state: &'static str,
    determined: bool,
    sentence: &'static str,
}

/// The closed vocabularies: kinds of change, and ways that a look ends.
#[utoipa::path(
    get,
    path = "/api/v1/vocabulary",
    tag = "index",
    responses((status = 200, body = VocabularyBody))
)]
pub(crate) async fn vocabulary(uri: Uri) -> Result<Json<VocabularyBody>, Problem> {
    Query::strict(&uri, &[])?;
    let state = |outcome: &Outcome| StateBody {
        state: outcome.name(),
        determined: outcome.has_surface(),
        sentence: outcome.sentence(),
    };
    Ok(Json(VocabularyBody {
        kinds: ChangeKind::all()
            .iter()
            .map(|kind| Row::from(*kind).into())
            .collect(),
        states: Outcome::all().iter().map(state).collect(),
    }))
}
