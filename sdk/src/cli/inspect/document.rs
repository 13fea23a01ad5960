//! The JSON document of `inspect`, schema `mcpindex.inspect/1`.
//!
//! Where a definition has no digest its text is a string (`definitionText`): what two readers take differently must not
//! make the document one of those texts.
//!
//! Invariant: a `definition` is the server's text, only that characters which a terminal obeys may be written as escapes;
//! no value of a variable or header, nor an argument that looks like a credential, is in the document. A list that could
//! not be determined is `null`, never empty.

use mcpindex::inspect::Inspection;
use mcpindex::wire::message::members;
use mcpindex_contract::digest::NoDigest;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::json::read;
use mcpindex_contract::surface::{Listing, Member, MemberKind, Surface};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::exit::Exit;
use super::Server;

const SCHEMA: &str = "mcpindex.inspect/1";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    schema: &'static str,
    status: &'static str,
    exit: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invocation: Option<Invocation<'a>>,
    env: Vec<&'a str>,
    server: Option<ServerPart<'a>>,
    instructions: Option<InstructionsPart<'a>>,
    tools: Option<Vec<MemberPart<'a>>>,
    prompts: Option<Vec<MemberPart<'a>>>,
    resources: Option<Vec<MemberPart<'a>>>,
    resource_templates: Option<Vec<MemberPart<'a>>>,
    missing: Vec<Missing<'a>>,
    warnings: &'a [String],
    server_asked: &'a [String],
    surface_digest: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
enum Invocation<'a> {
    #[serde(rename = "stdio")]
    Stdio {
        command: Vec<String>,
        cwd: Option<String>,
    },
    #[serde(rename = "http", rename_all = "camelCase")]
    Http { url: String, header_names: Vec<&'a str> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerPart<'a> {
    protocol_version: &'a str,
    info: Option<&'a RawValue>,
    capabilities: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct InstructionsPart<'a> {
    text: &'a str,
    digest: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberPart<'a> {
    name: &'a str,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_digest: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition_text: Option<&'a str>,
}

#[derive(Serialize)]
struct Missing<'a> {
    what: &'static str,
    reason: &'a str,
}

/// The document of one look.
pub(super) fn document(server: &Server, inspection: &Inspection, exit: Exit) -> String {
    let surface = inspection.result.as_ref().ok();
    let failure = inspection.result.as_ref().err();
    let listed = |kind| surface.and_then(|surface| parts(surface, kind));
    write(&Document {
        schema: SCHEMA,
        status: inspection.outcome().name(),
        exit: exit.code(),
        reason: failure.map(|failure| failure.reason.as_str()),
        identity: server.identity().map(|identity| identity.to_string()),
        invocation: Some(invocation(server)),
        env: match server {
            Server::Command { launch, .. } => launch.env.iter().map(|(name, _)| name.as_str()).collect(),
            Server::Remote(_) => Vec::new(),
        },
        server: surface.map(|surface| ServerPart {
            protocol_version: &surface.protocol_version,
            info: surface.server_info.as_deref().and_then(raw),
            capabilities: surface.capabilities.as_deref().and_then(raw),
        }),
        instructions: surface
            .and_then(|surface| surface.instructions.as_ref())
            .map(|instructions| InstructionsPart {
                text: &instructions.text,
                digest: instructions.digest.to_string(),
            }),
        tools: listed(MemberKind::Tool),
        prompts: listed(MemberKind::Prompt),
        resources: listed(MemberKind::Resource),
        resource_templates: listed(MemberKind::ResourceTemplate),
        missing: match (surface, failure) {
            (Some(surface), _) => missing(surface),
            (None, Some(failure)) => vec![Missing {
                what: "everything",
                reason: &failure.reason,
            }],
            (None, None) => Vec::new(),
        },
        warnings: &inspection.notes,
        server_asked: &inspection.server_asked,
        surface_digest: surface
            .filter(|surface| !surface.is_partial())
            .map(|surface| surface.digest().to_string()),
    })
}

/// The document of a run that looked at nothing.
pub(super) fn bare(status: &'static str, exit: Exit, reason: &str) -> String {
    write(&Document {
        schema: SCHEMA,
        status,
        exit: exit.code(),
        reason: Some(reason),
        identity: None,
        invocation: None,
        env: Vec::new(),
        server: None,
        instructions: None,
        tools: None,
        prompts: None,
        resources: None,
        resource_templates: None,
        missing: vec![Missing {
            what: "everything",
            reason,
        }],
        warnings: &[],
        server_asked: &[],
        surface_digest: None,
    })
}

fn write(document: &Document<'_>) -> String {
    // Fails only for maps with keys that are no strings; there are none.
    serde_json::to_string_pretty(document).unwrap_or_default()
}

fn invocation(server: &Server) -> Invocation<'_> {
    match server {
        Server::Command { given, launch } => Invocation::Stdio {
            command: without_credentials(given),
            cwd: launch.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
        },
        Server::Remote(endpoint) => {
            // A query may carry a key.
            let mut url = endpoint.url.clone();
            url.set_query(None);
            Invocation::Http {
                url: url.to_string(),
                header_names: endpoint.headers.iter().map(|(name, _)| name.as_str()).collect(),
            }
        }
    }
}

/// The command as given, but for arguments that look like credentials, which become `<secret>`.
fn without_credentials(given: &[String]) -> Vec<String> {
    // As the arguments of a program that is no launcher, all of them are in the identity.
    let line: Vec<String> = std::iter::once("command")
        .map(str::to_owned)
        .chain(given.to_vec())
        .collect();
    match Identity::from_launch(&line).map(|launched| launched.identity) {
        Ok(Identity::Command { args, .. }) => args,
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The members of one kind; `None` where their list failed.
fn parts(surface: &Surface, kind: MemberKind) -> Option<Vec<MemberPart<'_>>> {
    let failed = matches!(surface.listing(kind), Listing::Failed { .. });
    (!failed).then(|| surface.members_of(kind).map(part).collect())
}

fn part(member: &Member) -> MemberPart<'_> {
    let definition = &member.definition;
    MemberPart {
        name: &member.name,
        digest: definition.digest().to_string(),
        no_digest: definition.no_digest().map(NoDigest::name),
        meta_digest: definition.meta().map(|meta| meta.digest.to_string()),
        description: definition.description(),
        definition: if definition.no_digest().is_none() {
            raw(definition.text())
        } else {
            None
        },
        definition_text: definition.no_digest().map(|_| definition.text()),
    }
}

/// The lists that could not be read to their end.
fn missing(surface: &Surface) -> Vec<Missing<'_>> {
    MemberKind::ALL
        .into_iter()
        .filter_map(|kind| match surface.listing(kind) {
            Listing::Failed { reason } => Some(Missing {
                what: super::text::plural(kind),
                reason,
            }),
            Listing::Complete | Listing::NotDeclared => None,
        })
        .collect()
}

/// Text of a server as it came, unless readers differ about it.
fn raw(text: &str) -> Option<&RawValue> {
    let is_plain = read(text).is_ok_and(|document| document.flaws.is_empty());
    if is_plain {
        serde_json::from_str(text).ok()
    } else {
        None
    }
}

/// `name` and `version` of a `serverInfo`.
pub(super) fn name_and_version(info: &str) -> (Option<String>, Option<String>) {
    let string = |text: Option<&str>| serde_json::from_str::<String>(text?).ok();
    match members(info, ["name", "version"]) {
        Ok([name, version]) => (string(name), string(version)),
        Err(_) => (None, None),
    }
}
