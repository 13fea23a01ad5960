//! The text of `inspect`, for people.

use mcpindex::inspect::{Failure, Inspection};
use mcpindex::visible::visible_within;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::{Listing, Member, MemberKind, Surface};

use super::super::output::{Output, Style};
use super::Server;
use super::document::name_and_version;

/// The longest line of a description, in characters.
const LINE: usize = 160;

/// How many of a failed server's last lines are shown.
const LAST_LINES: usize = 10;

pub(super) fn print(server: &Server, inspection: &Inspection, output: &mut Output) {
    match &inspection.result {
        Ok(surface) => print_surface(server, surface, output),
        Err(failure) => print_failure(failure, &inspection.stderr, output),
    }
    section(
        "asked by the server, and refused but for ping",
        &inspection.server_asked,
        output,
    );
    section("notes", &inspection.notes, output);
}

fn print_surface(server: &Server, surface: &Surface, output: &mut Output) {
    let (name, version) = surface
        .server_info
        .as_deref()
        .map_or((None, None), name_and_version);
    let name = name.unwrap_or_else(|| "a server without a name".to_owned());
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    output.line(Style::Strong, &format!("{name}{version}"));
    if let Some(identity) = server.identity() {
        output.line(Style::Faint, &format!("  {identity}"));
    }
    output.line(Style::Faint, &format!("  protocol {}", surface.protocol_version));
    if let Server::Command { launch, .. } = server {
        let place = match &launch.cwd {
            Some(cwd) => format!("ran in {}", cwd.display()),
            None => "ran in an empty directory of its own".to_owned(),
        };
        let names: Vec<_> = launch.env.iter().map(|(name, _)| name.as_str()).collect();
        let given = if names.is_empty() {
            String::new()
        } else {
            format!(", with {}", names.join(", "))
        };
        output.line(Style::Faint, &format!("  {place}{given}"));
    }
    if let Some(instructions) = &surface.instructions {
        output.line(Style::Plain, "");
        output.line(
            Style::Strong,
            &format!("instructions  {}", short(instructions.digest)),
        );
        output.line(Style::Plain, &format!("  {}", first_line(&instructions.text)));
    }
    for kind in MemberKind::ALL {
        print_list(surface, kind, output);
    }
    let missing: Vec<_> = MemberKind::ALL
        .into_iter()
        .filter_map(|kind| match surface.listing(kind) {
            Listing::Failed { reason } => Some(format!("{}: {reason}", plural(kind))),
            Listing::Complete | Listing::NotDeclared => None,
        })
        .collect();
    section("could not be determined", &missing, output);
    output.line(Style::Plain, "");
    if missing.is_empty() {
        output.line(Style::Faint, &format!("surface {}", surface.digest()));
    }
    output.line(
        Style::Faint,
        "declarations only: no tool was called, no resource read",
    );
}

fn print_list(surface: &Surface, kind: MemberKind, output: &mut Output) {
    let members: Vec<_> = surface.members_of(kind).collect();
    match surface.listing(kind) {
        Listing::Complete => {}
        // Tools are what people come for: that there are none is worth a line.
        Listing::NotDeclared if kind == MemberKind::Tool => {
            output.line(Style::Plain, "");
            output.line(Style::Strong, "no tools declared");
            return;
        }
        Listing::NotDeclared | Listing::Failed { .. } => return,
    }
    output.line(Style::Plain, "");
    let noun = if members.len() == 1 {
        singular(kind)
    } else {
        plural(kind)
    };
    output.line(Style::Strong, &format!("{} {noun}", members.len()));
    for member in members {
        print_member(member, output);
    }
}

fn print_member(member: &Member, output: &mut Output) {
    let name = if member.name.is_empty() {
        "(no name)"
    } else {
        member.name.as_str()
    };
    let name = visible_within(name, LINE);
    output.line(
        Style::Plain,
        &format!("  {name}  {}", short(member.definition.digest())),
    );
    if let Some(reason) = member.definition.no_digest() {
        output.line(Style::Alarm, &format!("    no definition digest: {reason}"));
    }
    if let Some(description) = member.definition.description() {
        output.line(Style::Faint, &format!("    {}", first_line(description)));
    }
}

fn print_failure(failure: &Failure, stderr: &str, output: &mut Output) {
    output.line(
        Style::Alarm,
        &format!("could not be determined: {}", failure.outcome.name()),
    );
    output.line(Style::Plain, &format!("  {}", failure.reason));
    let lines: Vec<_> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let last: Vec<_> = lines[lines.len().saturating_sub(LAST_LINES)..]
        .iter()
        .map(|line| visible_within(line.trim_end(), LINE))
        .collect();
    section("last lines of its stderr", &last, output);
}

fn section(title: &str, lines: &[String], output: &mut Output) {
    if lines.is_empty() {
        return;
    }
    output.line(Style::Plain, "");
    output.line(Style::Strong, title);
    for line in lines {
        output.line(Style::Plain, &format!("  {line}"));
    }
}

/// The first line that says something.
fn first_line(text: &str) -> String {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let more = if text.len() > line.len() { " …" } else { "" };
    format!("{}{more}", visible_within(line, LINE))
}

/// Enough of a digest to compare two by eye.
fn short(digest: Digest) -> String {
    let kind = if digest.is_raw() { "raw-sha256" } else { "sha256" };
    format!("{kind}:{}", &digest.hex()[..12])
}

fn singular(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "tool",
        MemberKind::Prompt => "prompt",
        MemberKind::Resource => "resource",
        MemberKind::ResourceTemplate => "resource template",
    }
}

/// What a list is called.
pub(super) fn plural(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "tools",
        MemberKind::Prompt => "prompts",
        MemberKind::Resource => "resources",
        MemberKind::ResourceTemplate => "resource templates",
    }
}
