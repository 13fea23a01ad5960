//! What can be called at `/mcp`. Each tool reads, changes nothing, and asks nobody but this index.
//!
//! Invariant: the list is the same for everybody and in the same order; a test pins its digests, since gates in front of this
//! server hold what changes.

use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool, ToolAnnotations};
use utoipa::ToSchema;

use super::answers::{
    CheckServer, CheckTool, CheckedServer, CheckedTool, Drifts, ExplainDrift, ExplainedDrift, FoundServers,
    RecentDrift, SearchServers,
};
use super::schemas;

pub(super) const CHECK_TOOL: &str = "check_tool";
pub(super) const CHECK_SERVER: &str = "check_server";
pub(super) const SEARCH_SERVERS: &str = "search_servers";
pub(super) const RECENT_DRIFT: &str = "recent_drift";
pub(super) const EXPLAIN_DRIFT: &str = "explain_drift";

/// All of them.
pub(super) fn all() -> &'static [Tool] {
    static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        vec![
            tool::<CheckTool, CheckedTool>(
                CHECK_TOOL,
                "Check a tool",
                "Says whether one tool of an MCP server has been vetted, as far as this index knows: a verdict with its reasons, what \
                 the server declares now, when that changed last, and who else sees the same definition.",
            ),
            tool::<CheckServer, CheckedServer>(
                CHECK_SERVER,
                "Check a server",
                "Says whether an MCP server as a whole has been vetted, as far as this index knows: a verdict with its reasons, when it \
                 was looked at last, and its latest drift.",
            ),
            tool::<SearchServers, FoundServers>(
                SEARCH_SERVERS,
                "Search servers",
                "Finds MCP servers of this index by words of their names, of their tools' names and of what they say of themselves.",
            ),
            tool::<RecentDrift, Drifts>(
                RECENT_DRIFT,
                "Recent drift",
                "Lists what MCP servers changed lately in what they declare, of all servers or of one, newest first.",
            ),
            tool::<ExplainDrift, ExplainedDrift>(
                EXPLAIN_DRIFT,
                "Explain a drift",
                "Says what one drift changed, kind by kind, what each kind means, and what a gate does with it.",
            ),
        ]
    });
    &ALL
}

/// A tool that takes one shape and gives another.
fn tool<Takes: ToSchema, Gives: ToSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    Tool::new(name, description, Arc::new(schemas::of::<Takes>()))
        .with_title(title)
        .with_raw_output_schema(Arc::new(schemas::of::<Gives>()))
        .with_annotations(annotations)
}
