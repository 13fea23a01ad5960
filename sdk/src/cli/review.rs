//! What is held, release by release, and a person's decision on each.
//!
//! Line by line, so that it works over any connection: a row is shown, a letter is typed. `--json` prints what is held and
//! asks nothing.
//!
//! Invariant: what is approved is the digest that was shown, never what is there by then.

mod columns;
mod document;
mod release;
mod screen;
mod session;

use std::io::{self, IsTerminal};

use clap::Args;
use mcpindex::clock::SystemClock;
use mcpindex::pins::{Pins, ServerKey};
use mcpindex::state::StateDirectory;

use super::exit::Exit;
use super::output::Output;
use super::server_name::ServerArguments;
use session::Session;

#[derive(Args)]
pub(super) struct ReviewArguments {
    /// What is held, as JSON; asks nothing
    #[arg(long)]
    json: bool,

    /// Only this one
    #[command(flatten)]
    server: Option<ServerArguments>,
}

pub(super) fn run(arguments: ReviewArguments, output: &mut Output) -> Exit {
    let refuse = |mistake: String, output: &mut Output| {
        if arguments.json {
            output.document(&document::mistake(&mistake));
        }
        output.error(&format!("error: {mistake}"));
        Exit::Usage
    };
    let state = match StateDirectory::from_environment() {
        Ok(state) => state,
        Err(error) => return refuse(error.to_string(), output),
    };
    let servers: Vec<(ServerKey, Pins)> = match &arguments.server {
        None => Pins::all(&state),
        Some(server) => match server.key(&state) {
            Ok(key) => {
                let pins = Pins::open(&state, &key);
                vec![(key, pins)]
            }
            Err(mistake) => return refuse(mistake, output),
        },
    };
    if arguments.json {
        return document::print(servers, &Pins::strays(&state), output);
    }
    if !io::stdin().is_terminal() {
        let mistake = "review asks questions, and stdin is no terminal: `mcpindex review --json` and `mcpindex pending --json` \
                       say what is held, `mcpindex approve SERVER TOOL DIGEST` approves it";
        return refuse(mistake.to_owned(), output);
    }
    for stray in Pins::strays(&state) {
        output.error(&format!(
            "`{}` is among the pins and can't be read as some: `mcpindex status` says more",
            stray.display()
        ));
    }
    Session::new(servers, &SystemClock, io::stdin().lock(), output).run()
}
