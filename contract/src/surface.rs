//! All that one server declares at one time, and its digest.
//!
//! Invariant: a listing that failed is [`Listing::Failed`] and never an empty one; whoever compares two
//! surfaces can see which parts of each were determined.

use crate::canonical::{canonical, write_string};
use crate::definition::Definition;
use crate::digest::Digest;
use crate::json::{self, Value};
use crate::markers::{Scan, scan_read};

/// The kinds of things a server declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberKind {
    /// A tool; its key is `name`.
    Tool,
    /// A prompt; its key is `name`.
    Prompt,
    /// A resource; its key is `uri`.
    Resource,
    /// A resource template; its key is `uriTemplate`.
    ResourceTemplate,
}

impl MemberKind {
    /// Every kind, in the order shown.
    pub const ALL: [MemberKind; 4] = [
        MemberKind::Tool,
        MemberKind::Prompt,
        MemberKind::Resource,
        MemberKind::ResourceTemplate,
    ];

    /// `tool`, `prompt`, `resource` or `resource-template`.
    pub fn name(self) -> &'static str {
        match self {
            MemberKind::Tool => "tool",
            MemberKind::Prompt => "prompt",
            MemberKind::Resource => "resource",
            MemberKind::ResourceTemplate => "resource-template",
        }
    }

    /// The kind of this [`MemberKind::name`].
    pub fn from_name(name: &str) -> Option<MemberKind> {
        MemberKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The member that names a definition of this kind: `name`, `uri` or `uriTemplate`.
    pub fn key(self) -> &'static str {
        match self {
            MemberKind::Tool | MemberKind::Prompt => "name",
            MemberKind::Resource => "uri",
            MemberKind::ResourceTemplate => "uriTemplate",
        }
    }
}

/// One declared thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What it is.
    pub kind: MemberKind,
    /// Its key; empty when it has none that is a string.
    pub name: String,
    /// The definition as sent.
    pub definition: Definition,
}

impl Member {
    /// A member of this kind from its exact text.
    pub fn read(kind: MemberKind, text: &str) -> Member {
        Member::of(kind, Definition::read_with_key(text, kind.key()))
    }

    /// The same with the markers in it, for whoever needs both: the text is read once.
    pub fn read_and_scan(kind: MemberKind, text: &str) -> (Member, Scan) {
        let read = json::read_borrowed(text);
        let member = Member::of(kind, Definition::of(text, read.as_ref(), kind.key()));
        (member, scan_read(text, read.as_ref()))
    }

    fn of(kind: MemberKind, (definition, name): (Definition, Option<String>)) -> Member {
        Member {
            kind,
            name: name.unwrap_or_default(),
            definition,
        }
    }
}

/// What became of one list request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// Read to its end.
    Complete,
    /// The server declares no such capability, or answers that the method doesn't exist.
    NotDeclared,
    /// Declared, but it could not be read to its end: nothing may be concluded from what is missing.
    Failed {
        /// One line for people.
        reason: String,
    },
}

/// The server's instructions as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// The text, unescaped.
    pub text: String,
    /// RFC 8785 of the string, or the raw digest where it has half a surrogate pair.
    pub digest: Digest,
}

impl Instructions {
    /// Instructions from their JSON text (a string literal, as it stood in the answer); `None` for JSON `null`
    /// or anything that is not a string.
    pub fn read(json_text: &str) -> Option<Instructions> {
        let document = json::read(json_text).ok()?;
        let canonical = match document.flaws.is_empty() {
            true => canonical(&document.value, None).ok(),
            false => None,
        };
        let digest = match canonical {
            Some(canonical) => Digest::of_canonical(&canonical),
            None => Digest::of_raw(json_text),
        };
        match document.value {
            Value::String(text) => Some(Instructions { text, digest }),
            _ => None,
        }
    }
}

/// All that one server declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surface {
    /// The protocol version that the two sides settled on.
    pub protocol_version: String,
    /// `serverInfo` as sent (JSON text).
    pub server_info: Option<String>,
    /// `capabilities` as sent (JSON text).
    pub capabilities: Option<String>,
    /// The instructions, when there are any.
    pub instructions: Option<Instructions>,
    /// Everything listed, in the order sent, kinds in the order of [`MemberKind::ALL`].
    pub members: Vec<Member>,
    /// What became of each list, in the order of [`MemberKind::ALL`].
    pub listings: [Listing; 4],
}

impl Surface {
    /// "Did anything change?" in one compare. Order of listing, `_meta`, server info, capabilities and what
    /// became of the listings are not covered.
    ///
    /// SHA-256 of the RFC 8785 text of
    /// `{"instructions":I,"members":[{"digest":D,"kind":K,"name":N},…]}`, where `I` is the instructions digest's
    /// written form or `null`; `D` is the written form of a member's definition digest (raw ones included), `K` its
    /// [`MemberKind::name`] and `N` its [`Member::name`]; and the members are sorted by `K`, then `N`, then `D`, each
    /// by its UTF-8 bytes.
    pub fn digest(&self) -> Digest {
        let mut members: Vec<(&str, &str, String)> = self
            .members
            .iter()
            .map(|member| {
                let digest = member.definition.digest().to_string();
                (member.kind.name(), member.name.as_str(), digest)
            })
            .collect();
        members.sort_unstable();

        let mut text = String::from("{\"instructions\":");
        match &self.instructions {
            Some(instructions) => write_string(&mut text, &instructions.digest.to_string()),
            None => text.push_str("null"),
        }
        text.push_str(",\"members\":[");
        for (index, (kind, name, digest)) in members.into_iter().enumerate() {
            text.push_str(if index == 0 {
                "{\"digest\":"
            } else {
                ",{\"digest\":"
            });
            write_string(&mut text, &digest);
            text.push_str(",\"kind\":");
            write_string(&mut text, kind);
            text.push_str(",\"name\":");
            write_string(&mut text, name);
            text.push('}');
        }
        text.push_str("]}");
        Digest::of_canonical(&text)
    }

    /// What became of the list of this kind.
    pub fn listing(&self, kind: MemberKind) -> &Listing {
        &self.listings[kind as usize]
    }

    /// Whether some list could not be read, so that nothing may be concluded from what is missing there.
    pub fn is_partial(&self) -> bool {
        self.listings
            .iter()
            .any(|listing| matches!(listing, Listing::Failed { .. }))
    }

    /// The members of one kind, in the order sent.
    pub fn members_of(&self, kind: MemberKind) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.kind == kind)
    }
}
