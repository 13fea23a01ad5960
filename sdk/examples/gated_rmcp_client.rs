//! A client written with rmcp that talks to its server through a gate in the same process:
//! `cargo run -p mcpindex-sdk --example gated_rmcp_client -- COMMAND ARGUMENT…` lists the server's tools. Nothing of rmcp's
//! side changes: it gets a byte stream in place of the server's.

use std::error::Error;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use mcpindex::clock::SystemClock;
use mcpindex::gate::{Gate, GateLimits, GateOptions, NewTools};
use mcpindex::pins::Pins;
use mcpindex::proxy::attach::Attached;
use mcpindex::visible::visible;
use mcpindex_contract::posture::Posture;
use rmcp::ServiceExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let (program, arguments) = command
        .split_first()
        .ok_or("a command is needed that starts a server")?;
    let mut server = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdin = server.stdin.take().ok_or("the server has no stdin")?;
    let stdout = server.stdout.take().ok_or("the server has no stdout")?;

    // A program that runs again keeps its pins: `Pins::open(&StateDirectory::from_environment()?, &key)`.
    let options = GateOptions {
        posture: Posture::Guard,
        new_tools: NewTools::Review,
        list_timeout: Duration::from_secs(10),
        scan_results: false,
        tell_action: true,
        server: program.clone(),
        limits: GateLimits::default(),
        clock: Arc::new(SystemClock),
    };
    let Attached {
        stream,
        mut events,
        control,
    } = Gate::new(options, Pins::memory()).attach(stdout, stdin);
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            let _ = writeln!(std::io::stderr(), "{event:?}");
        }
    });

    let client = ().serve(stream).await?;
    let mut out = std::io::stdout();
    for tool in client.list_all_tools().await? {
        writeln!(out, "{}", visible(&tool.name))?;
    }
    for hold in control.pending().await? {
        writeln!(out, "withheld: {} ({})", visible(&hold.tool), hold.class.name())?;
    }
    client.cancel().await?;
    Ok(())
}
