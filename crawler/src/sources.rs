//! Where targets come from: the shell, a TOML list, the starter list that ships with the program, an MCP registry ([`registry`]).
//!
//! Invariant: a list is taken whole or not at all; its first mistake is named with file, line and what was expected.

pub mod reading;
pub mod registry;

use std::ops::Range;
use std::path::Path;

use mcpindex_contract::identity::Identity;
use serde::Deserialize;
use toml::Spanned;

use crate::CrawlError;
use crate::target::{Reach, TargetSpec};

/// The starter list's text, as it can be printed for people.
pub const STARTER: &str = include_str!("starter.toml");

/// A list larger than this is a mistake.
const MAX_LIST_BYTES: u64 = 4 << 20;
/// More versions than this of one package are asked for by name.
const MAX_BACKFILL: usize = 100;

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What to look at.
    pub spec: TargetSpec,
    /// How many of the last published versions to backfill.
    pub backfill: usize,
    /// A sentence for people, in the starter list.
    pub about: Option<String>,
}

/// Reads a TOML list of targets.
pub fn read_list(path: &Path) -> Result<Vec<Listed>, CrawlError> {
    let problem = |reason: String| CrawlError::TargetList {
        path: path.display().to_string(),
        reason,
    };
    let size = std::fs::metadata(path)
        .map_err(|error| problem(error.to_string()))?
        .len();
    if size > MAX_LIST_BYTES {
        return Err(problem(format!("larger than {} MiB", MAX_LIST_BYTES >> 20)));
    }
    let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    parse(&text, TargetSpec::from_reference).map_err(problem)
}

/// The starter list: reference servers that need no credentials.
pub fn starter() -> Vec<Listed> {
    parse(STARTER, TargetSpec::from_reference_exactly)
        .expect("a test reads the starter list that is built in")
}

/// The arguments that the starter list gives this server; some don't start without.
pub fn known_args(identity: &Identity) -> Vec<String> {
    starter()
        .into_iter()
        .filter(|listed| listed.spec.identity == *identity)
        .find_map(|listed| match listed.spec.reach {
            Reach::Package { args, .. } => Some(args),
            _ => None,
        })
        .unwrap_or_default()
}

const LIST_KEYS: [&str; 1] = ["target"];
const ENTRY_KEYS: [&str; 6] = ["package", "url", "command", "args", "backfill", "about"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    target: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    package: Option<String>,
    url: Option<String>,
    command: Option<Vec<String>>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    backfill: usize,
    about: Option<String>,
}

type FromReference = fn(&str, &[String]) -> Result<TargetSpec, CrawlError>;

fn parse(text: &str, from_reference: FromReference) -> Result<Vec<Listed>, String> {
    let list: List =
        toml::from_str(text).map_err(|error| at_line(text, error.span(), &explain(error.message())))?;
    if list.target.is_empty() {
        return Err("holds no target: expected at least one `[[target]]`".to_owned());
    }
    list.target
        .into_iter()
        .map(|entry| {
            let span = entry.span();
            listed(entry.into_inner(), from_reference).map_err(|reason| at_line(text, Some(span), &reason))
        })
        .collect()
}

fn listed(entry: Entry, from_reference: FromReference) -> Result<Listed, String> {
    let one_line = |error: CrawlError| error.to_string();
    let is_package = entry.package.is_some();
    let spec = match (entry.package, entry.url, entry.command) {
        (Some(package), None, None) => match from_reference(&package, &entry.args).map_err(one_line)? {
            spec if spec.reach.package().is_some() => spec,
            _ => {
                return Err(format!(
                    "`package` is `{package}`: expected `npm:NAME` or `pypi:NAME`"
                ));
            }
        },
        (None, Some(url), None) => match from_reference(&url, &entry.args).map_err(one_line)? {
            spec if matches!(spec.reach, Reach::Url(_)) => spec,
            _ => return Err(format!("`url` is `{url}`: expected `https://…`")),
        },
        (None, None, Some(command)) => {
            let line: Vec<String> = command.into_iter().chain(entry.args).collect();
            TargetSpec::from_command(&line).map_err(one_line)?
        }
        _ => return Err("a target has one of `package`, `url` and `command`".to_owned()),
    };
    if entry.backfill > 0 && !is_package {
        return Err("`backfill` is for packages: nothing else has published versions".to_owned());
    }
    if entry.backfill > MAX_BACKFILL {
        return Err(format!(
            "`backfill` is {}: expected at most {MAX_BACKFILL}",
            entry.backfill
        ));
    }
    Ok(Listed {
        spec,
        backfill: entry.backfill,
        about: entry.about,
    })
}

fn at_line(text: &str, span: Option<Range<usize>>, reason: &str) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else {
        return reason.to_owned();
    };
    format!("line {}: {reason}", before.matches('\n').count() + 1)
}

/// A parser's message in one line; an unknown key also gets the nearest known one.
fn explain(message: &str) -> String {
    let line = message.lines().collect::<Vec<_>>().join(", ");
    let Some(key) = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split('`').next())
    else {
        return line;
    };
    let known: &[&str] = if message.contains("`package`") {
        &ENTRY_KEYS
    } else {
        &LIST_KEYS
    };
    let nearest = known.iter().min_by_key(|name| edits(key, name));
    match nearest.filter(|name| edits(key, name) <= 1 + name.len() / 3) {
        Some(nearest) => format!("unknown key `{key}`: did you mean `{nearest}`?"),
        None => format!("unknown key `{key}`: expected `{}`", known.join("`, `")),
    }
}

/// How many characters to insert, delete or replace to get from one text to the other.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, left) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
