//! Shapes as the API's description names them, where no type of the program has them: what programs send is read by strict
//! readers (`contract::signal`, `contract::receipt`), and a published answer is put together of several types. A test holds
//! these shapes to what those read and write.
//!
//! Invariant: nothing is ever read into these types.

use std::collections::BTreeMap;

use mcpindex_contract::receipt::{ENVELOPE, Shape};
use serde_json::{Value, json};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::state::State;

use super::signals::{RefusalBody, RevokedBody};

/// One decision in its place in the chain, as it is hashed. What is absent is left out.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalRecord {
    /// Unix seconds.
    at: i64,
    /// The hash of the record before.
    before: String,
    /// `approve`, `refuse` or `withdraw`.
    decision: String,
    #[schema(pattern = "^(raw-)?sha256:[0-9a-f]{64}$")]
    digest: String,
    /// Unix seconds: from then on it is as if nobody had decided.
    #[schema(nullable = false)]
    expires_at: Option<i64>,
    /// `mcpindex-approval/1`
    format: String,
    identity: String,
    /// How many people an approval takes.
    #[schema(minimum = 1, maximum = 2)]
    needed: u8,
    #[schema(nullable = false)]
    reason: Option<String>,
    #[schema(nullable = false)]
    reference: Option<String>,
    sequence: u64,
    /// `login@issuer`
    subject: String,
    tenant: String,
    tool: String,
}

/// A batch of signals.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalBatch {
    #[schema(min_items = 1, max_items = 256)]
    signals: Vec<SignalShape>,
}

/// What one install tells of one tool.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[schema(as = Signal)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalShape {
    /// 1: as the published clients send it. 2: with the two digests.
    #[schema(minimum = 1, maximum = 2)]
    v: u8,
    /// `pin` or `drift`.
    #[schema(pattern = "^(pin|drift)$")]
    event: String,
    #[schema(pattern = "^[0-9a-f]{32}$")]
    server_fp: String,
    #[schema(pattern = "^[0-9a-f]{32}$")]
    tool_fp: String,
    /// The contract hash that was pinned; null exactly on a pin.
    #[schema(required, pattern = "^[a-z0-9]{1,32}:[0-9a-f]{32,128}$")]
    prev_hash: Option<String>,
    /// The contract hash that was seen.
    #[schema(pattern = "^[a-z0-9]{1,32}:[0-9a-f]{32,128}$")]
    new_hash: String,
    /// The definition digest that was pinned: in version 2 alone, null exactly on a pin.
    #[schema(pattern = "^(raw-)?sha256:[0-9a-f]{64}$")]
    prev_digest: Option<String>,
    /// The definition digest that was seen: in version 2 alone.
    #[schema(nullable = false, pattern = "^(raw-)?sha256:[0-9a-f]{64}$")]
    new_digest: Option<String>,
    /// Null exactly on a pin: `published` names of `/api/v1/vocabulary` in version 1, names of `kind` there in version 2.
    #[schema(required, max_items = 64)]
    change_kinds: Option<Vec<String>>,
    /// Whether some change is safety relevant; false on a pin.
    safety_relevant: bool,
    /// A full hour of the last 7 days, as `2026-11-30T15:00:00Z`; may be empty in version 1.
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:00:00Z)?$")]
    at_hour: String,
    #[schema(pattern = "^(py|ts|rs)$")]
    sdk: String,
    #[schema(pattern = "^[0-9a-f]{32}$")]
    install_id: String,
}

/// Which install.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[schema(as = Install)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstallShape {
    #[schema(pattern = "^[0-9a-f]{32}$")]
    install_id: String,
}

/// Which tools.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[schema(as = Fingerprints)]
#[serde(deny_unknown_fields)]
pub(crate) struct FingerprintsShape {
    #[schema(min_items = 1, max_items = 256)]
    fps: Vec<FingerprintShape>,
}

/// A tool's fingerprint.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[schema(as = Fingerprint, pattern = "^[0-9A-Fa-f]{32}$")]
pub(crate) struct FingerprintShape(String);

/// The published answer to "has this tool drifted?", with one member of ours. All beside the first two are there exactly when it
/// has.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[schema(as = Answer)]
pub(crate) struct AnswerShape {
    fp: String,
    /// Null: it could not be found out.
    #[schema(required)]
    drifted: Option<bool>,
    #[schema(nullable = false, pattern = "^(crawl|installs)$")]
    provenance: Option<String>,
    /// How many agree.
    #[schema(nullable = false)]
    sources: Option<u64>,
    #[schema(nullable = false)]
    safety_relevant: Option<bool>,
    last_seen: Option<String>,
    /// `published` names of `/api/v1/vocabulary`.
    #[schema(nullable = false)]
    change_kinds: Option<Vec<String>>,
    /// Which installs agree: `authenticated` or `anonymous`.
    #[schema(nullable = false, pattern = "^(authenticated|anonymous)$")]
    corroboration: Option<String>,
}

/// An answer for each fingerprint.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[schema(as = Answers)]
pub(crate) struct AnswersShape {
    results: BTreeMap<String, AnswerShape>,
}

/// Nothing was taken back: the token is not this install's, or signals are not taken here.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a shape is described, not filled")]
#[schema(as = NotRevoked)]
#[serde(untagged)]
pub(crate) enum NotRevokedShape {
    NotIts(RevokedBody),
    Refused(RefusalBody),
}

/// How a look ended, from the table of states.
pub(crate) struct StateName;

impl PartialSchema for StateName {
    fn schema() -> RefOr<Schema> {
        let names = State::all().map(State::name);
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(names))
            .into()
    }
}

impl ToSchema for StateName {}

/// A batch of receipts, from the table that the reader follows.
pub(crate) struct ReceiptBatch;

impl PartialSchema for ReceiptBatch {
    fn schema() -> RefOr<Schema> {
        // What the table makes is always a schema: a test reads the document.
        serde_json::from_value(json_schema(&ENVELOPE)).unwrap_or_else(|_| RefOr::T(Schema::default()))
    }
}

impl ToSchema for ReceiptBatch {}

fn json_schema(shape: &Shape) -> Value {
    match shape {
        Shape::One => json!({ "type": "integer", "minimum": 1, "maximum": 1 }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Among(texts) => json!({ "type": "string", "enum": texts }),
        Shape::Text {
            start,
            letters,
            least,
            most,
        } => {
            let class = letters.class();
            json!({ "type": "string", "pattern": format!("^{start}{class}{{{least},{most}}}$") })
        }
        Shape::Time => json!({
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.+\\-Z]{1,32}$",
        }),
        Shape::List { least, most, item } => json!({
            "type": "array",
            "minItems": least,
            "maxItems": most,
            "items": json_schema(item),
        }),
        Shape::Object(members) => {
            let properties = members
                .iter()
                .map(|(name, shape)| ((*name).to_owned(), json_schema(shape)));
            let required: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
            json!({
                "type": "object",
                "properties": properties.collect::<serde_json::Map<_, _>>(),
                "required": required,
                "additionalProperties": false,
            })
        }
    }
}
