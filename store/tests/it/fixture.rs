//! The smallest servers, surfaces and observations that the tests are made of.

use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Instructions, Listing, Member, MemberKind, Surface};
use mcpindex_store::Store;
use mcpindex_store::observations::{Artifact, NewObservation, Recorded};
use mcpindex_store::targets::NewTarget;

/// How many migrations there are; the last has this number.
pub(crate) const MIGRATIONS: usize = 21;

/// When every test begins.
pub(crate) const START: i64 = 1_000;

pub(crate) fn identity(reference: &str) -> Identity {
    Identity::from_reference(reference).unwrap().identity
}

pub(crate) async fn add(store: &Store, reference: &str) {
    store.add_server(&identity(reference), START).await.unwrap();
}

pub(crate) fn target(reference: &str) -> NewTarget {
    NewTarget {
        identity: identity(reference),
        version: None,
        launch: r#"{"package":"x"}"#.to_owned(),
        source: "shell".to_owned(),
        every: Some(100),
        due: START,
    }
}

/// A surface with these tools, by name and description.
pub(crate) fn surface(tools: &[(&str, &str)]) -> Surface {
    let members = tools
        .iter()
        .map(|(name, description)| tool(name, description))
        .collect();
    Surface {
        protocol_version: "2025-11-25".to_owned(),
        server_info: Some(r#"{"name":"example"}"#.to_owned()),
        capabilities: Some(r#"{"tools":{}}"#.to_owned()),
        instructions: None,
        members,
        listings: [
            Listing::Complete,
            Listing::NotDeclared,
            Listing::NotDeclared,
            Listing::NotDeclared,
        ],
    }
}

pub(crate) fn tool(name: &str, description: &str) -> Member {
    member(
        MemberKind::Tool,
        &format!(
            r#"{{"name": {}, "description": {}, "inputSchema": {{"type": "object"}}}}"#,
            json_string(name),
            json_string(description)
        ),
    )
}

pub(crate) fn member(kind: MemberKind, text: &str) -> Member {
    Member::read(kind, text)
}

/// JSON text of a string, every character that is not plain ASCII escaped.
pub(crate) fn json_string(text: &str) -> String {
    let mut written = String::from("\"");
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\' => {
                written.push(char::from(byte));
            }
            _ => written.push_str(&format!("\\u{unit:04x}")),
        }
    }
    written.push('"');
    written
}

pub(crate) fn with_prompts(mut surface: Surface, names: &[&str]) -> Surface {
    let prompts = names
        .iter()
        .map(|name| member(MemberKind::Prompt, &format!(r#"{{"name":"{name}"}}"#)));
    surface.members.extend(prompts);
    surface.listings[MemberKind::Prompt as usize] = Listing::Complete;
    surface
}

pub(crate) fn with_instructions(mut surface: Surface, text: &str) -> Surface {
    surface.instructions = Instructions::read(&json_string(text));
    surface
}

/// The same surface with one list that could not be read.
pub(crate) fn failing(mut surface: Surface, kind: MemberKind) -> Surface {
    surface.members.retain(|member| member.kind != kind);
    surface.listings[kind as usize] = Listing::Failed {
        reason: "page 2 timed out".to_owned(),
    };
    surface
}

/// One look at a version of a package.
pub(crate) fn look(reference: &str, version: &str, surface: Surface) -> NewObservation {
    NewObservation {
        identity: identity(reference).to_string(),
        version_key: Some(version.to_owned()),
        artifact: Some(Artifact {
            version: version.to_owned(),
            integrity: Some(format!("sha512-of-{version}")),
            dependencies: Some("sha256:dependencies".to_owned()),
            runtime: Some("node v20.20.2".to_owned()),
            published_at: Some(500),
        }),
        context: "local".to_owned(),
        observed_at: START,
        outcome: if surface.is_partial() {
            Outcome::Partial
        } else {
            Outcome::Ok
        },
        detail: None,
        surface: Some(surface),
        sandbox: Some("ns+landlock+seccomp".to_owned()),
    }
}

/// One look at a server without versions.
pub(crate) fn remote_look(reference: &str, surface: Surface) -> NewObservation {
    NewObservation {
        version_key: None,
        artifact: None,
        context: "anonymous".to_owned(),
        ..look(reference, "", surface)
    }
}

/// One look that determined nothing.
pub(crate) fn failed_look(reference: &str, version: &str, outcome: Outcome) -> NewObservation {
    NewObservation {
        outcome,
        detail: Some(format!("because of {}", outcome.name())),
        surface: None,
        ..look(reference, version, surface(&[]))
    }
}

pub(crate) async fn record(store: &Store, observation: &NewObservation) -> Recorded {
    store.record_observation(observation, None).await.unwrap()
}

/// Each change of a drift as `kind subject`.
pub(crate) async fn changes(store: &Store, drift: i64) -> Vec<String> {
    use mcpindex_contract::change::Subject;
    let (_, changes) = store.drift(drift).await.unwrap().unwrap();
    let written = changes.iter().map(|change| match &change.subject {
        Subject::Server => format!("{} server", change.kind.name()),
        Subject::Instructions => format!("{} instructions", change.kind.name()),
        Subject::Member(kind, name) => format!("{} {} {name}", change.kind.name(), kind.name()),
    });
    written.collect()
}

/// The drifts that stand, newest in the timeline first, each as `before→after: changes`.
pub(crate) async fn story(store: &Store, reference: &str) -> Vec<String> {
    let identity = identity(reference).to_string();
    let mut lines = Vec::new();
    for drift in store.drifts(Some(&identity), None, 100).await.unwrap() {
        let version = |version: &Option<String>, id: i64| version.clone().unwrap_or_else(|| format!("#{id}"));
        lines.push(format!(
            "{}→{}: {}",
            version(&drift.before_version, drift.before_observation),
            version(&drift.after_version, drift.after_observation),
            changes(store, drift.id).await.join(", ")
        ));
    }
    lines
}
