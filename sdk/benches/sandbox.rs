//! What a jail costs: an inspection of the same server without one, and in one of each level, by turns.
//!
//! The figure is the median of what a jail adds; the baseline is measured in the same run. A level that this machine does not have is
//! left out.

use std::path::Path;
use std::time::{Duration, Instant};

use mcpindex::inspect::inspect_stdio;
use mcpindex::sandbox::{Jail, JailLimits, Level, Sandbox};
use mcpindex::wire::limits::Limits;
use mcpindex::wire::stdio::Launch;

const ROUNDS: usize = 40;

fn main() {
    let server = Path::new(env!("CARGO_BIN_EXE_fixture-server"));
    let mut ways: Vec<(&str, Option<Jail>)> = vec![("no jail", None)];
    for level in Level::ALL {
        match Sandbox::at(level, server) {
            Ok(sandbox) => {
                let mut jail = sandbox.jail(JailLimits::listing());
                jail.read.push(server.to_owned());
                ways.push((level.name(), Some(jail)));
            }
            Err(reason) => say(&format!("{}: {reason}", level.name())),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut taken: Vec<Vec<Duration>> = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, jail), taken) in ways.iter().zip(&mut taken) {
            let launch = Launch {
                program: server.display().to_string(),
                args: vec!["plain".to_owned()],
                env: Vec::new(),
                cwd: None,
                label: None,
                jail: jail.clone().map(Box::new),
            };
            let begun = Instant::now();
            let inspection = runtime.block_on(inspect_stdio(&launch, &Limits::crawl()));
            taken.push(begun.elapsed());
            assert!(inspection.result.is_ok(), "{:?}", inspection.result);
        }
    }
    let baseline = median(&mut taken[0]);
    for ((name, _), taken) in ways.iter().zip(&mut taken) {
        let median = median(taken);
        let added = median.saturating_sub(baseline);
        say(&format!(
            "{name:<22} {:>7.1} ms a look, {:>6.1} ms more than without",
            median.as_secs_f64() * 1e3,
            added.as_secs_f64() * 1e3
        ));
    }
}

fn median(taken: &mut [Duration]) -> Duration {
    taken.sort_unstable();
    taken[taken.len() / 2]
}

fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{line}");
}
