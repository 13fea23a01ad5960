//! Whether the process lives and whether it can answer, for whoever watches it.

use axum::Json;
use axum::extract::State;
use mcpindex_store::SchemaState;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Read;
use crate::app::App;
use crate::measure;
use crate::problem::Problem;

/// The process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthBody {
    status: &'static str,
    /// Only where everybody may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
}

/// The database answers and has the schema of this program.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadyBody {
    status: &'static str,
    /// Only where everybody may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    database: Option<&'static str>,
}

/// Whether the process answers.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operation",
    security(()),
    responses((status = 200, body = HealthBody))
)]
pub(crate) async fn healthz(State(app): State<App>) -> Json<HealthBody> {
    Json(HealthBody {
        status: "ok",
        version: (app.access.rules.read == Read::Public).then_some(app.version),
    })
}

/// Whether the process can answer: its database does, and has the schema of this program.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    security(()),
    responses((status = 200, body = ReadyBody))
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Json<ReadyBody>, Problem> {
    if let Err(error) = app.store.ping().await {
        measure::store_error(&error);
        tracing::error!(cause = %error, "the database doesn't answer");
        return Err(Problem::unavailable("the database doesn't answer"));
    }
    match app.store.schema_state().await? {
        SchemaState::Current => Ok(Json(ReadyBody {
            status: "ready",
            database: (app.access.rules.read == Read::Public).then_some(app.store.backend()),
        })),
        _ if app.access.rules.read == Read::Members => {
            tracing::error!(
                "the database's schema is not this program's; `mcpindex-server doctor` says more"
            );
            Err(Problem::unavailable("the index is not ready"))
        }
        SchemaState::Behind { missing } => Err(Problem::unavailable(&format!(
            "the database lacks {missing} migrations; `mcpindex-server migrate` applies them"
        ))),
        SchemaState::Ahead => Err(Problem::unavailable(
            "the database was migrated by a newer mcpindex; run that one",
        )),
    }
}
