//! What is held, release by release, and a person's decision on each.
//!
//! Line by line, so that it works over any connection: a row is shown, a letter is typed. `--json` prints what is held and
//! asks nothing.
//!
//! Invariant: what is approved is the digest that was shown, never what is there by then.

mod columns;
mod document;
mod organisation;
mod release;
mod screen;
mod session;
mod submit;

use std::io::{self, IsTerminal};

use clap::Args;
use mcpindex::clock::{Clock, SystemClock};
use mcpindex::pins::Pins;

use super::exit::Exit;
use super::output::Output;
use super::pins::{Mistake, state};
use super::server_name::named;
use organisation::Organisation;
use session::{Desk, Session};
use submit::Queue;

#[derive(Args)]
pub(super) struct ReviewArguments {
    /// What is held, as JSON; asks nothing
    #[arg(long)]
    json: bool,

    /// Asks the organisation to decide about all that is held: sends each definition to the queue of the index; asks nothing
    #[arg(long, conflicts_with = "json")]
    submit: bool,

    /// With --submit: what the approvers should know
    #[arg(long, value_name = "TEXT", requires = "submit", value_parser = submit::note)]
    note: Option<String>,

    /// One server alone: npm:NAME, pypi:NAME, oci:NAME, a URL, or what `mcpindex pins list` calls it
    #[arg(value_name = "SERVER")]
    server: Option<String>,

    /// Seen with which credentials, where it has pins under more than one
    #[arg(long, value_name = "CONTEXT", requires = "server")]
    context: Option<String>,
}

pub(super) fn run(arguments: ReviewArguments, output: &mut Output) -> Exit {
    match review(&arguments, output) {
        Ok(exit) => exit,
        Err(mistake) => mistake.tell(arguments.json, output),
    }
}

fn review(arguments: &ReviewArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    let (servers, strays) = match &arguments.server {
        None => (Pins::all(&state), Pins::strays(&state)),
        Some(server) => {
            let key = named(server, arguments.context.as_deref(), &state)
                .map_err(|text| Mistake::new(Exit::Usage, text))?;
            let pins = Pins::open(&state, &key);
            (vec![(key, pins)], Vec::new())
        }
    };
    let organisation = Organisation::known(&state, SystemClock.unix_seconds());
    if arguments.json {
        return Ok(document::print(servers, &strays, &organisation, output));
    }
    if arguments.submit {
        let queue = Queue::of(&state)?;
        return submit::all(servers, &organisation, &queue, arguments.note.as_deref(), output);
    }
    if !io::stdin().is_terminal() {
        let text = "review asks questions, and stdin is no terminal: `mcpindex review --json` and `mcpindex pending` say what is \
                    held, `mcpindex approve SERVER TOOL DIGEST` approves it";
        return Err(Mistake::new(Exit::Usage, text));
    }
    for stray in &strays {
        output.error(&format!("`{}` does not say whose pins it holds", stray.display()));
    }
    if let Some(problem) = &organisation.problem {
        output.error(problem);
    }
    let queue = Queue::of(&state).ok();
    let desk = Desk {
        clock: &SystemClock,
        organisation: &organisation,
        queue: queue.as_ref(),
    };
    Ok(Session::new(servers, desk, io::stdin().lock(), output).run())
}
