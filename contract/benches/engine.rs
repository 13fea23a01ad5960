//! How long a judgement takes: a changed tool of about 2 KB (read, diff, markers, classes, the verdict of each posture),
//! and a listing of 100 tools of about 100 KB of which every tenth changed.
//!
//! The same texts are parsed to `serde_json::Value` in the same rounds, as a baseline that moves with the machine. Medians
//! count. Run by `cargo bench -p mcpindex-contract --bench engine`.

use mcpindex_contract::declaration::Declaration;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::diff::{diff, diff_member};
use mcpindex_contract::markers::scan_definition;
use mcpindex_contract::posture::{Posture, examine};
use mcpindex_contract::surface::{Listing, Member, MemberKind, Surface};
use mcpindex_contract::{action, capability};
use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

const ROUNDS: usize = 2_001;
const LISTING_ROUNDS: usize = 201;

/// A tool with so many arguments, of which the last may be left out; `extra` adds an optional one.
fn tool(index: usize, arguments: usize, extra: bool) -> String {
    let mut properties: Vec<String> = (0..arguments)
        .map(|argument| {
            format!(
                r#""argument_{argument}":{{"type":"string","description":"What argument {argument} of tool {index} says, in prose that goes on for a line or so","maxLength":{},"enum":["first","second","third"],"default":"first"}}"#,
                40 + argument
            )
        })
        .collect();
    if extra {
        properties.push(r#""extra":{"type":"integer","minimum":1,"maximum":100}"#.to_owned());
    }
    let prose = "Looks something up and returns what was found, newest first, as one text. ".repeat(3);
    format!(
        r#"{{"name":"tool_{index}","title":"Tool {index}","description":"{prose}","inputSchema":{{"type":"object","properties":{{{}}},"required":["argument_0","argument_1"],"additionalProperties":false}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}}}}"#,
        properties.join(",")
    )
}

fn surface(tools: &[String]) -> Surface {
    Surface {
        protocol_version: "2025-11-25".to_owned(),
        server_info: None,
        capabilities: None,
        instructions: None,
        members: tools
            .iter()
            .map(|text| Member::read(MemberKind::Tool, text))
            .collect(),
        listings: [
            Listing::Complete,
            Listing::NotDeclared,
            Listing::NotDeclared,
            Listing::NotDeclared,
        ],
    }
}

/// Every verdict on a change, from the two texts.
fn judge(before: &str, after: &str) -> usize {
    let (before, after) = (Definition::read(before), Definition::read(after));
    let examination = examine(Some(&before), Some(&after));
    Posture::ALL
        .into_iter()
        .map(|posture| examination.verdict(posture).reasons.len())
        .sum()
}

fn median(rounds: usize, work: impl Fn()) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[rounds / 2]
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let (before, after) = (tool(1, 9, false), tool(1, 9, true));
    // The rules are compiled once, at the first scan; that is no part of a judgement.
    black_box(judge(&before, &after));
    let parse = median(ROUNDS, || {
        black_box(serde_json::from_str::<serde_json::Value>(black_box(&before)).is_ok());
        black_box(serde_json::from_str::<serde_json::Value>(black_box(&after)).is_ok());
    });
    let judged = median(ROUNDS, || {
        black_box(judge(black_box(&before), black_box(&after)));
    });
    let [old, new] = [&before, &after].map(|text| Member::read(MemberKind::Tool, text));
    black_box((old.definition.value(), new.definition.value()));
    let looked_at = median(ROUNDS, || {
        black_box(diff_member(black_box(&old), black_box(&new)).len());
        black_box(scan_definition(&new.definition).level);
        let declaration = Declaration::of(&new.definition);
        black_box((
            action::of(&declaration).effective,
            capability::of(&declaration).rank,
        ));
    });
    for (what, time, target) in [
        ("diff, markers and classes", looked_at, "; the target is 100 µs"),
        ("both sides judged whole from text", judged, ""),
    ] {
        writeln!(
            out,
            "a changed tool of {} bytes, {what}: median {time:?}, {:.1} x parsing both sides{target}",
            before.len(),
            time.as_secs_f64() / parse.as_secs_f64()
        )?;
    }

    let old: Vec<String> = (0..100).map(|index| tool(index, 3, false)).collect();
    let new: Vec<String> = (0..100).map(|index| tool(index, 3, index % 10 == 0)).collect();
    let bytes: usize = new.iter().map(String::len).sum();
    let baseline = surface(&old);
    let parse = median(LISTING_ROUNDS, || {
        for tool in &new {
            black_box(serde_json::from_str::<serde_json::Value>(black_box(tool)).is_ok());
        }
    });
    let compared = median(LISTING_ROUNDS, || {
        let listing = surface(black_box(&new));
        black_box(listing.digest());
        black_box(diff(&baseline, &listing).len());
    });
    let judged = median(LISTING_ROUNDS, || {
        for (before, after) in old.iter().zip(&new) {
            let (before, after) = (Definition::read(before), Definition::read(after));
            if before.digest() != after.digest() {
                black_box(
                    examine(Some(&before), Some(&after))
                        .verdict(Posture::Guard)
                        .reasons
                        .len(),
                );
            }
        }
    });
    for (what, time) in [
        ("read, digested, compared", compared),
        ("judged against its pins", judged),
    ] {
        writeln!(
            out,
            "a listing of 100 tools, {bytes} bytes, {what}: median {time:?}, {:.1} x parsing it; the target is 5 ms",
            time.as_secs_f64() / parse.as_secs_f64()
        )?;
    }
    Ok(())
}
