//! What a tool can do, by its declaration: the classes that a person reviews before approving a server.
//!
//! Seven base classes are ranked from *deletes* down to *unknown*; further classes each count as one of them. It is
//! inference from words and schemas, not observation, and every finding carries its evidence and confidence.
//!
//! Invariant: a server's hints raise and never lower; where nothing matched the class is *unknown*, which is never
//! shown as read-only or low risk.

mod infer;

use crate::declaration::{
    Confidence, Declaration, Evidence, Source, credentials, is_credential_name, quoted, together,
};
use crate::definition::Definition;
use crate::words::{Sense, Words};
use std::fmt;

/// What a tool is able to do. The first seven are ranked, lowest first; each other one counts as one of those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing matched.
    Unknown,
    /// Reads files.
    FsRead,
    /// Writes files or other durable state.
    FsWrite,
    /// Makes network requests.
    Net,
    /// Runs commands or code.
    Exec,
    /// Can itself read secrets.
    Credentials,
    /// Deletes or irreversibly changes.
    FsDelete,
    /// Reads a database.
    DbRead,
    /// Writes a database, or takes statements that can.
    DbWrite,
    /// Drives a browser.
    Browser,
    /// Sends messages to people or addresses.
    MessageSend,
    /// Installs software.
    Install,
    /// Starts another agent or asks a model.
    AgentSpawn,
    /// Gives rights, or acts with others' rights.
    Privilege,
    /// Reads or writes the clipboard.
    Clipboard,
    /// Looks at the screen.
    Screen,
    /// Moves money.
    Payment,
}

/// One class of a tool, with why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The class.
    pub class: Class,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why, in a fixed order; empty for [`Class::Unknown`] alone.
    pub evidence: Vec<Evidence>,
}

/// What one tool can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The highest base class among [`Capabilities::classes`].
    pub rank: Class,
    /// Every class that was found, highest rank first; `[unknown]` when none was.
    pub classes: Vec<Capability>,
    /// Whether it deletes: by a finding of medium confidence or more, or by its own hint.
    pub destructive: bool,
    /// What a person should know that is no class, for example a parameter that takes a credential.
    pub notes: Vec<String>,
    /// Hints that what was found contradicts, and what could not be looked at.
    pub warnings: Vec<String>,
}

/// A promise that a server makes with an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// `readOnlyHint: true`
    ReadOnly,
    /// `destructiveHint: false`
    NotDestructive,
    /// `openWorldHint: false`
    ClosedWorld,
}

/// What a tool is able to do that it was not before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gained {
    /// Classes that its words and schemas now show, highest rank first.
    pub classes: Vec<Class>,
    /// Classes that only its own hints now show.
    pub by_hint_alone: Vec<Class>,
    /// Whether it became destructive, by whatever evidence.
    pub destructive: bool,
}

/// What one tool can do, by its definition.
pub fn classify(definition: &Definition) -> Capabilities {
    of(&Declaration::of(definition))
}

/// What one tool can do, by a declaration that was read already.
pub fn of(declaration: &Declaration<'_>) -> Capabilities {
    let findings = infer::findings(declaration);
    let mut notes: Vec<String> = credentials(&declaration.parameters)
        .map(|parameter| format!("takes a credential: {}", parameter.describe()))
        .collect();
    notes.dedup();
    let mut capabilities = from_findings(findings, notes);
    capabilities.warnings = contradictions(&capabilities, declaration);
    capabilities.warnings.extend(declaration.warnings.iter().cloned());
    capabilities
}

/// What reading one resource or resource template gives access to, by its address.
pub fn classify_resource(definition: &Definition) -> Capabilities {
    let address = ["uri", "uriTemplate"]
        .into_iter()
        .find_map(|member| definition.member(member)?.as_str());
    let Some(address) = address else {
        return from_findings(Vec::new(), Vec::new());
    };
    let add = |class, detail: String| {
        let evidence = Evidence {
            source: Source::Address,
            detail,
            confidence: Confidence::High,
        };
        vec![(class, evidence)]
    };
    let scheme = address
        .split_once(':')
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    let findings = match scheme.as_deref() {
        Some("file") => add(Class::FsRead, format!("address {}", quoted(address))),
        Some("http" | "https" | "ftp") => add(Class::Net, format!("address {}", quoted(address))),
        _ => Vec::new(),
    };
    let is_secret = address.split('/').any(names_secret_place);
    let notes = is_secret.then(|| format!("names a place where credentials lie: {}", quoted(address)));
    from_findings(findings, notes.into_iter().collect())
}

/// A part of a path where credentials are kept by custom.
fn names_secret_place(part: &str) -> bool {
    let part = part.to_ascii_lowercase();
    let known = [
        ".ssh",
        ".aws",
        ".gnupg",
        ".kube",
        ".netrc",
        ".npmrc",
        ".pgpass",
        ".docker",
        "id_rsa",
        "id_ed25519",
        "shadow",
    ];
    known.contains(&part.as_str())
        || part == ".env"
        || part.starts_with(".env.")
        || is_credential_name(&Words::of(&part))
}

fn from_findings(mut findings: Vec<(Class, Evidence)>, notes: Vec<String>) -> Capabilities {
    findings.sort_by(|left, right| (right.0.order(), &left.1).cmp(&(left.0.order(), &right.1)));
    findings.dedup();
    let mut classes: Vec<Capability> = Vec::new();
    for (class, evidence) in findings {
        match classes.last_mut().filter(|last| last.class == class) {
            Some(last) => last.evidence.push(evidence),
            None => classes.push(Capability {
                class,
                confidence: Confidence::Low,
                evidence: vec![evidence],
            }),
        }
    }
    for capability in &mut classes {
        capability.confidence = together(&capability.evidence);
    }
    let deletes = |capability: &Capability| {
        capability.class == Class::FsDelete && capability.confidence >= Confidence::Medium
    };
    let destructive = classes.iter().any(deletes);
    if classes.is_empty() {
        classes.push(Capability {
            class: Class::Unknown,
            confidence: Confidence::Low,
            evidence: Vec::new(),
        });
    }
    Capabilities {
        rank: classes[0].class.rank(),
        classes,
        destructive,
        notes,
        warnings: Vec::new(),
    }
}

/// One line for each promise that what was found contradicts.
fn contradictions(capabilities: &Capabilities, declaration: &Declaration<'_>) -> Vec<String> {
    let hints = declaration.hints;
    let promises = [
        (
            hints.read_only == Some(true),
            "readOnlyHint: true",
            Promise::ReadOnly,
        ),
        (
            hints.destructive == Some(false),
            "destructiveHint: false",
            Promise::NotDestructive,
        ),
        (
            hints.open_world == Some(false),
            "openWorldHint: false",
            Promise::ClosedWorld,
        ),
    ];
    let given = promises.into_iter().filter(|(is_given, ..)| *is_given);
    let lines = given.filter_map(|(_, text, promise)| {
        let found = capabilities.contradicts(promise)?;
        Some(format!(
            "its hint {text} contradicts what it declares: {} ({})",
            found.class.phrase(),
            found.confidence
        ))
    });
    lines.collect()
}

impl Capabilities {
    /// The capability that contradicts a promise, by evidence other than hints and of medium confidence or more.
    pub fn contradicts(&self, promise: Promise) -> Option<&Capability> {
        self.classes.iter().find(|capability| {
            let evidence: Vec<Evidence> = capability
                .evidence
                .iter()
                .filter(|one| one.source != Source::Hint)
                .cloned()
                .collect();
            let is_sure = !evidence.is_empty() && together(&evidence) >= Confidence::Medium;
            is_sure && capability.class.breaks(promise)
        })
    }

    /// The capability of a class, when it was found.
    pub fn get(&self, class: Class) -> Option<&Capability> {
        self.classes.iter().find(|capability| capability.class == class)
    }
}

/// What `after` is able to do that `before` was not.
pub fn gained(before: &Capabilities, after: &Capabilities) -> Gained {
    let mut gained = Gained {
        destructive: after.destructive && !before.destructive,
        ..Gained::default()
    };
    for capability in &after.classes {
        if capability.class == Class::Unknown {
            continue;
        }
        let earlier = before.get(capability.class);
        match (capability.is_by_hint_alone(), earlier) {
            (false, None) => gained.classes.push(capability.class),
            (false, Some(earlier)) if earlier.is_by_hint_alone() => gained.classes.push(capability.class),
            (true, None) => gained.by_hint_alone.push(capability.class),
            _ => {}
        }
    }
    gained
}

impl Gained {
    /// Whether nothing was gained.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.by_hint_alone.is_empty() && !self.destructive
    }
}

impl Capability {
    /// Whether nothing but the server's own hints shows this class.
    pub fn is_by_hint_alone(&self) -> bool {
        !self.evidence.is_empty()
            && self
                .evidence
                .iter()
                .all(|evidence| evidence.source == Source::Hint)
    }
}

impl Class {
    /// Every class, in the order of the enum.
    pub const ALL: [Class; 17] = [
        Class::Unknown,
        Class::FsRead,
        Class::FsWrite,
        Class::Net,
        Class::Exec,
        Class::Credentials,
        Class::FsDelete,
        Class::DbRead,
        Class::DbWrite,
        Class::Browser,
        Class::MessageSend,
        Class::Install,
        Class::AgentSpawn,
        Class::Privilege,
        Class::Clipboard,
        Class::Screen,
        Class::Payment,
    ];

    /// The base class that it counts as: one of the first seven.
    pub fn rank(self) -> Class {
        match self {
            Class::DbRead => Class::FsRead,
            Class::DbWrite => Class::FsWrite,
            Class::Browser | Class::MessageSend => Class::Net,
            Class::Install | Class::AgentSpawn | Class::Privilege => Class::Exec,
            Class::Clipboard | Class::Screen => Class::Credentials,
            Class::Payment => Class::FsDelete,
            base => base,
        }
    }

    /// Whether a reviewer should look: network rank or worse.
    pub fn is_notable(self) -> bool {
        self.rank() >= Class::Net
    }

    /// Its identifier in seals and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::Unknown => "unknown",
            Class::FsRead => "fs.read",
            Class::FsWrite => "fs.write",
            Class::Net => "net",
            Class::Exec => "exec",
            Class::Credentials => "credentials",
            Class::FsDelete => "fs.delete",
            Class::DbRead => "db.read",
            Class::DbWrite => "db.write",
            Class::Browser => "browser",
            Class::MessageSend => "message-send",
            Class::Install => "install",
            Class::AgentSpawn => "agent-spawn",
            Class::Privilege => "privilege",
            Class::Clipboard => "clipboard",
            Class::Screen => "screen",
            Class::Payment => "payment",
        }
    }

    /// The class of an identifier.
    pub fn from_name(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == name)
    }

    /// What it does, for people: `reads files`.
    pub fn phrase(self) -> &'static str {
        match self {
            Class::Unknown => "could not classify",
            Class::FsRead => "reads files",
            Class::FsWrite => "writes files or other state",
            Class::Net => "makes network requests",
            Class::Exec => "runs commands",
            Class::Credentials => "reads credentials",
            Class::FsDelete => "deletes",
            Class::DbRead => "reads a database",
            Class::DbWrite => "writes a database",
            Class::Browser => "drives a browser",
            Class::MessageSend => "sends messages",
            Class::Install => "installs software",
            Class::AgentSpawn => "starts agents or asks a model",
            Class::Privilege => "gives or uses rights",
            Class::Clipboard => "uses the clipboard",
            Class::Screen => "looks at the screen",
            Class::Payment => "moves money",
        }
    }

    /// One word for the class beside a tool's name.
    pub fn label(self) -> &'static str {
        match self.rank() {
            Class::FsDelete => "destructive",
            Class::Credentials => "credentials",
            Class::Exec => "executes",
            Class::Net => "network",
            Class::FsWrite => "writes",
            Class::FsRead => "read-only",
            _ => "unknown",
        }
    }

    /// Where it stands in a list: by rank, the base class before those that count as it.
    fn order(self) -> (Class, std::cmp::Reverse<Class>) {
        (self.rank(), std::cmp::Reverse(self))
    }

    fn breaks(self, promise: Promise) -> bool {
        match promise {
            Promise::ReadOnly => matches!(
                self,
                Class::FsWrite
                    | Class::FsDelete
                    | Class::Exec
                    | Class::DbWrite
                    | Class::MessageSend
                    | Class::Install
                    | Class::AgentSpawn
                    | Class::Privilege
                    | Class::Payment
            ),
            Promise::NotDestructive => self.rank() == Class::FsDelete,
            Promise::ClosedWorld => self.rank() == Class::Net,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether words hold a sense together with another one in the next few words.
fn near(words: &Words, sense: Sense, index: usize, within: usize) -> Option<usize> {
    (index + 1..=index + within).find(|next| words.has(*next, sense))
}
