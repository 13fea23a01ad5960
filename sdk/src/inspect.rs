//! Connects to a server, lists everything it declares, and says exactly what could not be determined.
//!
//! Prompts, resources and templates that can't be listed leave a partial surface; without its handshake or its tools
//! there is none, and [`Failure`] says why: from the wire, and for a process from how it ended and its last words.
//!
//! Invariant: a list is in the result only when it was read to its end, and "not declared" is said only when the server
//! said so. A tool list that a server declares and then doesn't know is a failure, not an empty one.

mod cause;
mod handshake;
mod listing;
mod redact;

use std::time::Duration;

use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Instructions, Listing, Member, MemberKind, Surface};

use crate::visible::visible_within;
use crate::wire::error::WireError;
use crate::wire::http::{Endpoint, HttpClient, HttpError};
use crate::wire::limits::Limits;
use crate::wire::message::members;
use crate::wire::read_only::{ReadOnly, Traffic, list_method};
use crate::wire::stdio::{Ending, Launch};

use handshake::{Hello, handshake};
use listing::read_list;
use redact::Redactor;

/// How often a list that is announced to have changed is read again.
const REREADS: usize = 3;

/// How long a server that announces changes may take to announce one after its last answer.
const QUIET: Duration = Duration::from_millis(150);

/// The longest text of a server in a reason or a note, in characters.
const QUOTED: usize = 300;

/// What one inspection found.
#[derive(Debug)]
pub struct Inspection {
    /// The surface, or why there is none.
    pub result: Result<Surface, Failure>,
    /// Oddities worth a line: noise on stdout, a capability without its method, a list that changed while read.
    /// Safe to show.
    pub notes: Vec<String>,
    /// Methods that the server asked of us (`ping`, `sampling/createMessage`, …), each once. Safe to show.
    pub server_asked: Vec<String>,
    /// The last lines of stderr, for people: as sent, but for values that we handed the server.
    pub stderr: String,
}

impl Inspection {
    /// The state that this look is recorded as.
    pub fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(surface) if surface.is_partial() => Outcome::Partial,
            Ok(_) => Outcome::Ok,
            Err(failure) => failure.outcome,
        }
    }
}

/// Why nothing could be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The state it is recorded as.
    pub outcome: Outcome,
    /// One line: what happened, where. Safe to show.
    pub reason: String,
    /// When the server may be asked again, by its own word; at most a day.
    pub retry_after: Option<Duration>,
}

/// Starts a server, lists what it declares, ends it.
///
/// Takes at most `limits.whole`, and a few seconds more for a process that doesn't end by itself. When the future is
/// dropped, the process group is killed. Needs a Tokio runtime with time and I/O.
pub async fn inspect_stdio(launch: &Launch, limits: &Limits) -> Inspection {
    let redactor = Redactor::for_env(&launch.env);
    match ReadOnly::start(launch, limits) {
        Ok(wire) => look(wire, limits, &redactor).await,
        Err(error) => Inspection {
            result: Err(failure(&error, None, "", &redactor)),
            notes: Vec::new(),
            server_asked: Vec::new(),
            stderr: String::new(),
        },
    }
}

/// Asks a remote server what it declares. `client` decides which addresses may be contacted.
pub async fn inspect_http(client: &dyn HttpClient, endpoint: &Endpoint, limits: &Limits) -> Inspection {
    let redactor = Redactor::for_headers(&endpoint.headers);
    look(ReadOnly::connect(client, endpoint, limits), limits, &redactor).await
}

async fn look(mut wire: ReadOnly<'_>, limits: &Limits, redactor: &Redactor) -> Inspection {
    let mut notes = Vec::new();
    let surveyed = survey(&mut wire, limits, redactor, &mut notes).await;
    let home = wire
        .home()
        .map(|(home, is_lasting)| (home.to_string_lossy().into_owned(), is_lasting));
    traffic_notes(wire.traffic(), redactor, &mut notes);
    let server_asked = wire
        .traffic()
        .server_asked
        .iter()
        .map(|method| shown(method, redactor))
        .collect();

    let ending = wire.close().await;
    let said = ending.as_ref().map_or("", |ending| &ending.stderr);
    let stderr = redactor.text(said).into_owned();
    let result = surveyed.map_err(|error| failure(&error, ending.as_ref(), &stderr, redactor));
    if let (Ok(surface), Some((home, is_lasting))) = (&result, &home)
        && names(surface, home)
    {
        let note = if *is_lasting {
            "the server names the directory that it ran in: its digest holds where that is called the same"
        } else {
            "the server names the directory that it ran in, which is new for this look: its digest will differ"
        };
        notes.push(note.to_owned());
    }
    for name in redactor.met() {
        notes.push(format!(
            "the server echoed a value that it was given: shown and digested as `{name}`"
        ));
    }
    Inspection {
        result,
        notes,
        server_asked,
        stderr,
    }
}

/// Whether the server says this path anywhere.
fn names(surface: &Surface, path: &str) -> bool {
    let instructions = surface
        .instructions
        .as_ref()
        .map(|instructions| instructions.text.as_str());
    let members = surface.members.iter().map(|member| member.definition.text());
    members.chain(instructions).any(|text| text.contains(path))
}

async fn survey(
    wire: &mut ReadOnly<'_>,
    limits: &Limits,
    redactor: &Redactor,
    notes: &mut Vec<String>,
) -> Result<Surface, WireError> {
    let hello = handshake(wire, limits, redactor).await?;
    let declared = Declared::read(hello.capabilities.as_deref().unwrap_or("{}"))?;
    let mut lists: [Result<Vec<Member>, Listing>; 4] = [const { Err(Listing::NotDeclared) }; 4];
    for kind in MemberKind::ALL {
        if declared.has(kind) {
            lists[kind as usize] = one_list(wire, kind, limits, redactor, notes).await?;
        }
    }
    reread_changed(wire, &declared, limits, redactor, &mut lists, notes).await?;
    Ok(surface(hello, lists))
}

/// One list: its items, or what became of it. An error for tools ends the inspection.
async fn one_list(
    wire: &mut ReadOnly<'_>,
    kind: MemberKind,
    limits: &Limits,
    redactor: &Redactor,
    notes: &mut Vec<String>,
) -> Result<Result<Vec<Member>, Listing>, WireError> {
    match read_list(wire, kind, limits, redactor).await {
        Ok(members) => Ok(Ok(members)),
        Err(error) if kind == MemberKind::Tool => Err(error),
        Err(WireError::Refused { method, error }) if error.is_method_not_found() => {
            // The `resources` capability hardly promises templates: no word about those.
            if kind != MemberKind::ResourceTemplate {
                notes.push(format!("declares {}s but knows no `{method}`", kind.name()));
            }
            Ok(Err(Listing::NotDeclared))
        }
        Err(error) => Ok(Err(Listing::Failed {
            reason: shown(&error.to_string(), redactor),
        })),
    }
}

/// Reads lists again that were announced to have changed since they were asked for.
async fn reread_changed(
    wire: &mut ReadOnly<'_>,
    declared: &Declared,
    limits: &Limits,
    redactor: &Redactor,
    lists: &mut [Result<Vec<Member>, Listing>; 4],
    notes: &mut Vec<String>,
) -> Result<(), WireError> {
    for reread in 0..=REREADS {
        if declared.announces_changes {
            wire.listen(QUIET).await;
        }
        let changed: Vec<_> = MemberKind::ALL
            .into_iter()
            .filter(|kind| declared.has(*kind) && wire.has_changed(*kind))
            .collect();
        for kind in changed {
            if reread == REREADS {
                notes.push(format!(
                    "`{}` was still changing after {REREADS} more readings",
                    list_method(kind)
                ));
            } else {
                lists[kind as usize] = one_list(wire, kind, limits, redactor, notes).await?;
            }
        }
    }
    Ok(())
}

fn surface(hello: Hello, lists: [Result<Vec<Member>, Listing>; 4]) -> Surface {
    let mut members = Vec::new();
    let listings = lists.map(|list| match list {
        Ok(mut listed) => {
            members.append(&mut listed);
            Listing::Complete
        }
        Err(listing) => listing,
    });
    Surface {
        protocol_version: hello.version,
        server_info: hello.server_info,
        capabilities: hello.capabilities,
        instructions: hello.instructions.as_deref().and_then(Instructions::read),
        members,
        listings,
    }
}

/// Which lists a server says it has.
struct Declared {
    kinds: [bool; 4],
    announces_changes: bool,
}

impl Declared {
    fn read(capabilities: &str) -> Result<Declared, WireError> {
        let unfit = |error| WireError::NotMcp {
            reason: format!("the server's capabilities can't be used: {error}"),
        };
        let capabilities = if capabilities == "null" {
            "{}"
        } else {
            capabilities
        };
        let [tools, prompts, resources] = members(capabilities, ["tools", "prompts", "resources"])
            .map_err(unfit)?
            .map(|capability| capability.filter(|capability| !matches!(*capability, "null" | "false")));
        let announces = |capability: Option<&str>| {
            capability
                .and_then(|capability| members(capability, ["listChanged"]).ok())
                .is_some_and(|[list_changed]| list_changed == Some("true"))
        };
        Ok(Declared {
            kinds: [
                tools.is_some(),
                prompts.is_some(),
                resources.is_some(),
                resources.is_some(),
            ],
            announces_changes: [tools, prompts, resources].into_iter().any(announces),
        })
    }

    fn has(&self, kind: MemberKind) -> bool {
        self.kinds[kind as usize]
    }
}

fn traffic_notes(traffic: &Traffic, redactor: &Redactor, notes: &mut Vec<String>) {
    if let Some(first) = &traffic.first_noise {
        let lines = match traffic.noise {
            1 => "1 line that is".to_owned(),
            many => format!("{many} lines that are"),
        };
        notes.push(format!(
            "{lines} no JSON-RPC, the first: `{}`",
            shown(first, redactor)
        ));
    }
    if traffic.stray_answers > 0 {
        notes.push(format!(
            "{} answers to no open question were ignored",
            traffic.stray_answers
        ));
    }
    if traffic.batches > 0 {
        notes.push(format!("{} batches were ignored", traffic.batches));
    }
}

/// A server's text as part of a line for people.
fn shown(text: &str, redactor: &Redactor) -> String {
    visible_within(&redactor.text(text), QUOTED)
}

/// What an error means, with what is known of the end of the process, when there was one. `stderr` is free of values.
fn failure(error: &WireError, ending: Option<&Ending>, stderr: &str, redactor: &Redactor) -> Failure {
    let said = |outcome: Outcome| Failure {
        outcome,
        reason: shown(&error.to_string(), redactor),
        retry_after: None,
    };
    match error {
        WireError::NotStarted { .. } => said(Outcome::Crashed),
        WireError::Ended { method } => match ending {
            Some(ending) => ended(method, ending, stderr),
            None => said(Outcome::NotMcp),
        },
        WireError::TimedOut { .. } if ending.is_some_and(|ending| cause::is_network(&ending.stderr)) => {
            Failure {
                outcome: Outcome::NeedsNetwork,
                reason: with_last_words(error.to_string(), stderr),
                retry_after: None,
            }
        }
        WireError::TimedOut { .. } | WireError::TooSlow { .. } => said(Outcome::TimedOut),
        WireError::OverLimit { .. } => said(Outcome::OverLimit),
        WireError::CursorLoop { .. } => said(Outcome::CursorLoop),
        WireError::Refused { method, error } => said(match (*method, cause::cause(&error.message)) {
            (_, Some(Outcome::NeedsNetwork)) => Outcome::NeedsNetwork,
            ("initialize", Some(Outcome::NeedsConfig)) => Outcome::NeedsConfig,
            ("initialize", _) => Outcome::NotMcp,
            _ => Outcome::ListFailed,
        }),
        WireError::Unusable {
            method: "initialize" | "server/discover",
            ..
        } => said(Outcome::NotMcp),
        WireError::Unusable { .. } => said(Outcome::ListFailed),
        WireError::AuthRequired { .. } => said(Outcome::AuthRequired),
        WireError::NotMcp { .. } => said(Outcome::NotMcp),
        WireError::Unavailable { retry_after, .. } => Failure {
            retry_after: *retry_after,
            ..said(Outcome::Unreachable)
        },
        WireError::Http(HttpError::Blocked { .. }) => said(Outcome::BlockedAddress),
        WireError::Http(HttpError::Tls { .. }) => said(Outcome::TlsInvalid),
        WireError::Http(HttpError::Unreachable { .. }) => said(Outcome::Unreachable),
        WireError::Http(HttpError::TimedOut) => said(Outcome::TimedOut),
        WireError::Http(HttpError::OverLimit { .. }) => said(Outcome::OverLimit),
        WireError::Http(HttpError::NotFollowed { .. }) => said(Outcome::NotMcp),
    }
}

fn ended(method: &str, ending: &Ending, stderr: &str) -> Failure {
    if ending.never_entered {
        return Failure {
            outcome: Outcome::SandboxUnavailable,
            retry_after: None,
            reason: with_last_words("the jail could not be entered".to_owned(), stderr),
        };
    }
    let how = match ending.exit {
        Some(status) => format!("the process ended ({status}) before `{method}` was answered"),
        None => format!("the connection ended before `{method}` was answered"),
    };
    Failure {
        // Of the words as sent: the name of a variable that stands for its value would be taken for a complaint.
        outcome: cause::cause(&ending.stderr).unwrap_or(Outcome::Crashed),
        reason: with_last_words(how, stderr),
        retry_after: None,
    }
}

fn with_last_words(what: String, stderr: &str) -> String {
    match cause::telling_line(stderr) {
        Some(line) => format!("{what}: {line}"),
        None => what,
    }
}
