//! The rmcp peer over stdio; `modern` makes it speak 2026-07-28 alone.

mod rmcp_notes;

use rmcp::ServiceExt;
use rmcp::model::ProtocolVersion;
use rmcp_notes::Notes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let modern = std::env::args().nth(1).as_deref() == Some("modern");
    let versions = if modern {
        &[ProtocolVersion::V_2026_07_28]
    } else {
        ProtocolVersion::KNOWN_VERSIONS
    };
    Notes { versions }
        .serve(rmcp::transport::stdio())
        .await?
        .waiting()
        .await?;
    Ok(())
}
