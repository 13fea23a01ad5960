//! A server written with rmcp, the official Rust SDK: the same notes as the other peers have.

use std::borrow::Cow;

use rmcp::model::{
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

/// The server, speaking these versions of the protocol.
#[derive(Clone)]
pub(crate) struct Notes {
    pub(crate) versions: &'static [ProtocolVersion],
}

impl ServerHandler for Notes {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rmcp-notes", "1.0.0"))
            .with_instructions("Keep notes short.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), "object".into());
        Ok(ListToolsResult::with_all_items(vec![Tool::new(
            "read_note",
            "Reads one note.",
            schema,
        )]))
    }
}
