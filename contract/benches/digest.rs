//! How fast a definition digest comes from raw text, beside parsing the same text to `serde_json::Value`.
//!
//! Both run over the same generated tools in turns, and the best round of each counts, so that the ratio
//! holds on a busy machine where absolute figures don't. Run by `cargo bench -p mcpindex-contract`.

use mcpindex_contract::definition::Definition;
use mcpindex_contract::json::read;
use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

const TOOLS: usize = 500;
const ROUNDS: usize = 60;

/// The speed that design asks for, as a share of serde_json's.
const TARGET: f64 = 0.7;

/// A tool of about 2 KB, with what real ones are made of: long prose, nested schemas, a few numbers.
fn tool(index: usize) -> String {
    let properties: Vec<String> = (0..8)
        .map(|property| {
            let limit = (index * 37 + property * 11) % 1_000;
            format!(
                r#""argument_{property}":{{"type":"string","description":"What argument {property} of tool {index} says:\n- one \"quoted\" word\n- and prose that goes on for a line or so","maxLength":{limit},"enum":["first","second","third"],"default":"first"}}"#
            )
        })
        .collect();
    let prose = "Looks something up and returns what was found, newest first, as one text. ".repeat(4);
    format!(
        r#"{{"name":"tool_{index}","title":"Tool {index}","description":"{prose}\n\nReturns nothing when nothing was found.","inputSchema":{{"type":"object","properties":{{{}}},"required":["argument_0","argument_1"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}}}}"#,
        properties.join(",")
    )
}

/// How long one pass over all tools takes.
fn time<T>(tools: &[String], work: impl Fn(&str) -> T) -> Duration {
    let start = Instant::now();
    for tool in tools {
        black_box(work(black_box(tool)));
    }
    start.elapsed()
}

fn main() -> std::io::Result<()> {
    let tools: Vec<String> = (0..TOOLS).map(tool).collect();
    let bytes: usize = tools.iter().map(String::len).sum();
    let [mut parse, mut digest, mut value] = [Duration::MAX; 3];
    for _ in 0..ROUNDS {
        parse = parse.min(time(&tools, |text| {
            serde_json::from_str::<serde_json::Value>(text)
        }));
        digest = digest.min(time(&tools, |text| Definition::read(text).digest()));
        value = value.min(time(&tools, read));
    }
    let mut out = std::io::stdout().lock();
    let mut line = |what: &str, time: Duration| {
        let speed = bytes as f64 / time.as_secs_f64() / 1e6;
        let ratio = parse.as_secs_f64() / time.as_secs_f64();
        writeln!(out, "{what:<40} {speed:>7.0} MB/s  {ratio:.2} x")
    };
    line("serde_json::Value from text", parse)?;
    line("definition digest from text", digest)?;
    line("strict value from text", value)?;
    writeln!(
        out,
        "{TOOLS} tools of {} bytes; the target is {TARGET} x",
        bytes / TOOLS
    )
}
