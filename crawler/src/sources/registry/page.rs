//! A page of a registry's list of servers, in today's form and the older ones.
//!
//! Invariant: an entry that can't be read is counted and named, and hides no other; a body that is no page is an error, never an
//! empty page.

use std::fmt;

use mcpindex::visible::{is_dangerous, visible_within};
use mcpindex_contract::identity::is_server_name;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::input::{member, shown_label, text};
use super::reached::{MAX_REASON, Reached, reached};

/// Entries of one page; a registry that is a file gives all that it has at once.
pub const MAX_ENTRIES: usize = 20_000;
/// Bytes of one entry.
pub const MAX_ENTRY_BYTES: usize = 256 << 10;
/// Characters of an entry's version.
const MAX_VERSION: usize = 255;
/// Characters of an entry's name where it is shown as it was sent.
const MAX_SHOWN_NAME: usize = 100;
/// Where the official registry, and those that speak as it does, say how an entry stands.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
/// The same in entries of summer 2025.
const OLDER_OFFICIAL: &str = "x-io.modelcontextprotocol.registry";

/// What one answer holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// What could be read, in the registry's order.
    pub entries: Vec<Entry>,
    /// What could not.
    pub skipped: Vec<Skipped>,
    /// Where the next page begins; `None` at the end.
    pub next_cursor: Option<String>,
}

/// One version of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// By the official grammar.
    pub name: String,
    /// As the entry writes it.
    pub version: String,
    /// How the registry stands to it.
    pub status: Status,
    /// Whether it is the newest version of its server. Registries that don't say list one version of each.
    pub is_latest: bool,
    /// When the registry changed it last, in unix seconds.
    pub updated_at: Option<i64>,
    /// Its packages and remotes, each once.
    pub reached: Vec<Reached>,
}

/// How a registry stands to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is listed.
    Active,
    /// It is listed, and its publisher advises against it.
    Deprecated,
    /// It is listed no more.
    Deleted,
}

/// An entry that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its name, in text that can be shown, or its place on the page: `entry 3`.
    pub entry: String,
    /// One line.
    pub reason: String,
}

/// Why a body is no page of a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// It is a page for people.
    #[error("it is HTML, not JSON")]
    Html,
    /// It is something else.
    #[error("it is not JSON: {reason}")]
    NotJson {
        /// The parser's words.
        reason: String,
    },
    /// It is JSON of something else.
    #[error("it is no page of a registry: {reason}")]
    NotAPage {
        /// What is wrong.
        reason: &'static str,
    },
    /// It has more than [`MAX_ENTRIES`].
    #[error("it has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
}

/// Reads one page of `/v0.1/servers` or `/v0/servers`.
pub fn read_page(bytes: &[u8]) -> Result<Page, PageError> {
    // A broken letter is its entry's business: it makes no name and no address, and the others stay readable.
    let body = String::from_utf8_lossy(bytes);
    let body = body.trim_start_matches('\u{feff}').trim_start();
    if body.starts_with('<') {
        return Err(PageError::Html);
    }
    let no_page = |reason| PageError::NotAPage { reason };
    let not_json = |error: serde_json::Error| PageError::NotJson {
        reason: error.to_string(),
    };
    if !body.starts_with('{') {
        serde_json::from_str::<IgnoredAny>(body).map_err(not_json)?;
        return Err(no_page("it is no object"));
    }
    let parts: Body<'_> = serde_json::from_str(body).map_err(|error| match error.is_data() {
        true => no_page("a member of it is there twice"),
        false => not_json(error),
    })?;
    let servers = match parts.servers.ok_or(no_page("it has no `servers`"))?.get() {
        // The way in which some write an empty list.
        "null" => Servers::default(),
        list => serde_json::from_str(list).map_err(|_| no_page("its `servers` is no list"))?,
    };
    if servers.has_more {
        return Err(PageError::TooManyEntries);
    }
    let mut page = Page {
        next_cursor: parts.next_cursor()?,
        ..Page::default()
    };
    for (number, raw) in servers.entries.into_iter().enumerate() {
        match entry(raw.get()) {
            Ok(entry) => page.entries.push(entry),
            Err(Unread { name, reason }) => page.skipped.push(Skipped {
                entry: name.unwrap_or_else(|| format!("entry {}", number + 1)),
                reason: visible_within(&reason, MAX_REASON),
            }),
        }
    }
    Ok(page)
}

/// What is looked at of a body. Entries are taken apart later and one by one, so that the depth and the mistakes of one are its own.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default, deserialize_with = "as_written")]
    servers: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    metadata: Option<&'a RawValue>,
}

/// `null` too is something that was written.
fn as_written<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Body<'_> {
    /// A cursor that can't be read is no end: whoever took it for one would call a part the whole.
    fn next_cursor(&self) -> Result<Option<String>, PageError> {
        let metadata = self.metadata.map_or("null", RawValue::get);
        let cursors: Option<Cursors> = serde_json::from_str(metadata).map_err(|_| PageError::NotAPage {
            reason: "its `metadata` can't be read",
        })?;
        let cursors = cursors.unwrap_or_default();
        let mut named = [cursors.camel, cursors.snake].into_iter().flatten();
        Ok(named.find(|cursor| !cursor.is_empty()))
    }
}

/// Today's name of the cursor, and the one of older registries.
#[derive(Default, Deserialize)]
struct Cursors {
    #[serde(rename = "nextCursor")]
    camel: Option<String>,
    #[serde(rename = "next_cursor")]
    snake: Option<String>,
}

/// The list of entries, of which no more than [`MAX_ENTRIES`] are kept in memory.
#[derive(Default)]
struct Servers<'a> {
    entries: Vec<&'a RawValue>,
    has_more: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Servers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Servers<'a>, D::Error> {
        deserializer.deserialize_seq(ServersVisitor)
    }
}

struct ServersVisitor;

impl<'de> Visitor<'de> for ServersVisitor {
    type Value = Servers<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Servers<'de>, A::Error> {
        let mut servers = Servers::default();
        while servers.entries.len() < MAX_ENTRIES {
            match list.next_element()? {
                Some(entry) => servers.entries.push(entry),
                None => return Ok(servers),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            servers.has_more = true;
        }
        Ok(servers)
    }
}

/// An entry that could not be read, with its name if that could.
struct Unread {
    name: Option<String>,
    reason: String,
}

fn entry(raw: &str) -> Result<Entry, Unread> {
    let nameless = |reason: String| Unread { name: None, reason };
    if raw.len() > MAX_ENTRY_BYTES {
        return Err(nameless(format!("larger than {} KiB", MAX_ENTRY_BYTES >> 10)));
    }
    let item: Value = serde_json::from_str(raw).map_err(|error| nameless(error.to_string()))?;
    // The older form has no wrapping: the server is the item, and says how it stands itself.
    let server = member(&item, "server").unwrap_or(&item);
    if !server.is_object() {
        return Err(nameless("it is no object".to_owned()));
    }
    let name = text(server, "name").ok_or_else(|| nameless("it has no `name`".to_owned()))?;
    read(&item, server, name).map_err(|reason| Unread {
        name: Some(shown_label(name, MAX_SHOWN_NAME)),
        reason,
    })
}

fn read(item: &Value, server: &Value, name: &str) -> Result<Entry, String> {
    if !is_server_name(name) {
        return Err("its name is not of the form `namespace/name`".to_owned());
    }
    let detail = member(server, "versionDetail");
    let version = text(server, "version").or_else(|| text(detail?, "version"));
    let version = version.ok_or("it has no `version`")?;
    if version.chars().count() > MAX_VERSION || version.contains(is_dangerous) {
        return Err("its version is too long, or holds what can't be shown".to_owned());
    }
    let said = Said::of(item, server, detail);
    let is_latest = match said.member("isLatest") {
        None => true,
        Some(Value::Bool(is_latest)) => *is_latest,
        Some(_) => return Err("its `isLatest` is neither true nor false".to_owned()),
    };
    let status = match said
        .member("status")
        .map(|status| status.as_str().unwrap_or_default())
    {
        None | Some("active") => Status::Active,
        Some("deprecated") => Status::Deprecated,
        Some("deleted") => Status::Deleted,
        Some(_) => return Err("its status is none of active, deprecated and deleted".to_owned()),
    };
    let time = said.member("updatedAt").and_then(Value::as_str);
    let updated_at = time.and_then(|time| OffsetDateTime::parse(time, &Rfc3339).ok());
    Ok(Entry {
        name: name.to_owned(),
        version: version.to_owned(),
        status,
        is_latest,
        updated_at: updated_at.map(OffsetDateTime::unix_timestamp),
        reached: reached(server)?,
    })
}

/// Where an entry may say how it stands, in the order of trust: what the registry puts around a server comes before what stands in
/// it, since publishers write that.
struct Said<'v>(Vec<&'v Value>);

impl<'v> Said<'v> {
    fn of(item: &'v Value, server: &'v Value, detail: Option<&'v Value>) -> Said<'v> {
        let meta = item.get("_meta");
        let places = [
            meta.and_then(|meta| meta.get(OFFICIAL)),
            item.get(OLDER_OFFICIAL),
            meta,
            server.get("_meta").and_then(|meta| meta.get(OFFICIAL)),
            detail,
            Some(item),
            Some(server),
        ];
        Said(places.into_iter().flatten().collect())
    }

    fn member(&self, name: &str) -> Option<&'v Value> {
        self.0.iter().find_map(|place| member(place, name))
    }
}
