//! Servers by words: of their names, of their tools' names, of what they and their tools say of themselves.
//!
//! What matches in a name comes before what matches in a tool's name, and that before what matches in a text; among equals the
//! shorter name, then the identity. Both databases give the same servers in the same order, since words are cut here (`words`)
//! and only looked up there.
//!
//! Invariant: no text that is asked reaches a query language but as words of letters and digits.

mod words;

use mcpindex_contract::json::{self, Value};
use mcpindex_contract::surface::{MemberKind, Surface};

use crate::servers::{self, ServerRecord};
use crate::session::{Session, on};
use crate::signals::fingerprints;
use crate::surfaces;
use crate::text::{restored, stored};
use crate::{Store, StoreError};
use words::Words;

/// Words that are looked at of what is asked; further ones are left out.
const MAX_ASKED: usize = 12;
/// Bytes of words that are kept of each sort; Postgres takes 1 MiB in all.
const NAMES_ROOM: usize = 32 * 1024;
const TOOLS_ROOM: usize = 128 * 1024;
const TEXTS_ROOM: usize = 256 * 1024;
/// Tools that are named with a server that was found.
const MAX_TOOLS: usize = 10;

/// Where the words of a question were all found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Matched {
    /// In the server's names.
    Name,
    /// In its names and the names of its tools.
    Tool,
    /// In those and what it and its tools say of themselves.
    Text,
}

impl Matched {
    /// From the closest on.
    pub const ALL: [Matched; 3] = [Matched::Name, Matched::Tool, Matched::Text];

    /// `name`, `tool` or `text`.
    pub fn name(self) -> &'static str {
        match self {
            Matched::Name => "name",
            Matched::Tool => "tool",
            Matched::Text => "text",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Matched> {
        Matched::ALL.into_iter().find(|matched| matched.name() == name)
    }
}

/// A server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The server.
    pub server: ServerRecord,
    /// Where all words were found.
    pub matched: Matched,
    /// Names of tools that it declares now in which a word was found, at most 10.
    pub tools: Vec<String>,
    /// Its place, to go on after.
    pub place: Place,
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where the last server's words were found.
    pub matched: Matched,
    /// Letters in its names.
    pub names_length: i64,
    /// Its identity.
    pub identity: String,
}

impl Store {
    /// Servers in which each word of a question begins a word, closest first. A question without a letter or digit finds nothing.
    pub async fn search(
        &self,
        question: &str,
        after: Option<&Place>,
        limit: i64,
    ) -> Result<Vec<Found>, StoreError> {
        let asked = words::asked(question, MAX_ASKED);
        let mut found = Vec::new();
        if asked.is_empty() {
            return Ok(found);
        }
        let mut session = self.read().await?;
        go_by_indexes(&mut session).await?;
        for matched in Matched::ALL {
            let left = limit - surfaces::count(found.len());
            let after = match after {
                Some(after) if after.matched > matched => continue,
                after => after.filter(|after| after.matched == matched),
            };
            if left <= 0 {
                break;
            }
            let rows = matching(&mut session, &asked, matched, after, left).await?;
            for (identity, names_length) in rows {
                found.push(of_row(&mut session, &asked, matched, identity, names_length).await?);
            }
        }
        Ok(found)
    }
}

/// Servers whose words match here and not already more closely: stored identity, and the length of their names.
async fn matching(
    session: &mut Session,
    asked: &[String],
    matched: Matched,
    after: Option<&Place>,
    limit: i64,
) -> Result<Vec<(String, i64)>, StoreError> {
    let length = after.map_or(-1, |after| after.names_length);
    let identity = after
        .map(|after| stored(&after.identity).into_owned())
        .unwrap_or_default();
    Ok(match session {
        Session::Sqlite(transaction) => {
            sqlx::query_as(
                "SELECT w.identity, w.names_length
                 FROM server_words_index i JOIN server_words w INDEXED BY server_words_place ON w.id = i.rowid
                 WHERE server_words_index MATCH $1 AND (w.names_length, w.identity) > ($2, $3)
                 ORDER BY w.names_length, w.identity LIMIT $4",
            )
            .bind(in_fts5(asked, matched))
            .bind(length)
            .bind(identity)
            .bind(limit)
            .fetch_all(&mut **transaction)
            .await?
        }
        Session::Postgres(transaction) => {
            sqlx::query_as(in_tsvector(matched))
                .bind(in_tsquery(asked))
                .bind(length)
                .bind(identity)
                .bind(limit)
                .fetch_all(&mut **transaction)
                .await?
        }
    })
}

/// On Postgres, holds for the rest of the transaction: its planner doesn't know that to work the words of a row out takes far
/// longer than to read it, and would do so for all rows where many match.
pub(crate) async fn go_by_indexes(session: &mut Session) -> Result<(), StoreError> {
    if let Session::Postgres(transaction) = session {
        sqlx::query("SET LOCAL enable_seqscan = off")
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}

/// What a database is asked to find servers in which each word begins a word of names, tools or texts; `None`: no word is asked.
pub(crate) fn anywhere(session: &Session, question: &str) -> Option<String> {
    let asked = words::asked(question, MAX_ASKED);
    if asked.is_empty() {
        return None;
    }
    Some(match session.is_postgres() {
        true => in_tsquery(&asked),
        false => all_in_fts5(&asked),
    })
}

/// `"read"* AND "file"*`
fn all_in_fts5(asked: &[String]) -> String {
    let words: Vec<String> = asked.iter().map(|word| format!("\"{word}\"*")).collect();
    words.join(" AND ")
}

/// `{names tools} : ("read"* AND "file"*) NOT {names} : (…)`
fn in_fts5(asked: &[String], matched: Matched) -> String {
    let words = all_in_fts5(asked);
    match matched {
        Matched::Name => format!("{{names}} : ({words})"),
        Matched::Tool => format!("({{names tools}} : ({words})) NOT ({{names}} : ({words}))"),
        Matched::Text => format!("({words}) NOT ({{names tools}} : ({words}))"),
    }
}

/// `'read':* & 'file':*`
fn in_tsquery(asked: &[String]) -> String {
    let words: Vec<String> = asked.iter().map(|word| format!("'{word}':*")).collect();
    words.join(" & ")
}

/// The expressions are those of the indexes.
macro_rules! in_postgres {
    ($condition:expr) => {
        concat!(
            "SELECT identity, names_length FROM server_words WHERE ",
            $condition,
            " AND (names_length, identity) > ($2, $3) ORDER BY names_length, identity LIMIT $4"
        )
    };
}

macro_rules! names {
    () => {
        "array_to_tsvector(string_to_array(names, ' ')) @@ $1::tsquery"
    };
}

/// And not already there: a set that is found by an index too, so that no row's words are worked out.
macro_rules! but_not {
    ($condition:expr) => {
        concat!(
            " AND id NOT IN (SELECT id FROM server_words WHERE ",
            $condition,
            ")"
        )
    };
}

macro_rules! names_and_tools {
    () => {
        "array_to_tsvector(string_to_array(names, ' ') || string_to_array(tools, ' ')) @@ $1::tsquery"
    };
}

macro_rules! everywhere {
    () => {
        "array_to_tsvector(string_to_array(names, ' ') || string_to_array(tools, ' ') || string_to_array(texts, ' '))
         @@ $1::tsquery"
    };
}

fn in_tsvector(matched: Matched) -> &'static str {
    match matched {
        Matched::Name => in_postgres!(names!()),
        Matched::Tool => in_postgres!(concat!(names_and_tools!(), but_not!(names!()))),
        Matched::Text => in_postgres!(concat!(everywhere!(), but_not!(names_and_tools!()))),
    }
}

async fn of_row(
    session: &mut Session,
    asked: &[String],
    matched: Matched,
    identity: String,
    names_length: i64,
) -> Result<Found, StoreError> {
    let server = servers::by_identity(session, &identity).await?;
    let server = server.ok_or_else(|| surfaces::corrupt("words of a server that is not there", &identity))?;
    let names: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT m.name FROM server_words w JOIN surface_member m ON m.record = w.record
             WHERE w.identity = $1 AND m.kind = $2 ORDER BY m.position",
        )
        .bind(&identity).bind(MemberKind::Tool.name()).fetch_all(connection).await?
    });
    let mut tools = Vec::new();
    for name in names {
        let name = restored(name)?;
        let mut words = Words::new(NAMES_ROOM);
        words.add(&name);
        let words = words.into_text();
        let is_found = |asked: &String| words.split(' ').any(|word| word.starts_with(asked.as_str()));
        if tools.len() < MAX_TOOLS && asked.iter().any(is_found) {
            tools.push(name);
        }
    }
    Ok(Found {
        place: Place {
            matched,
            names_length,
            identity: server.identity.clone(),
        },
        server,
        matched,
        tools,
    })
}

/// Keeps the words of an identity (in its stored form): of what it declares now where that is another surface than the words
/// are of, and of its names too with `anew`.
pub(crate) async fn keep_words(session: &mut Session, identity: &str, anew: bool) -> Result<(), StoreError> {
    let (record, kept): (Option<String>, Option<String>) = on!(*session, connection => {
        sqlx::query_as(
            "SELECT o.record, w.record FROM server s
             LEFT JOIN observation o ON o.id = s.current_observation
             LEFT JOIN server_words w ON w.identity = s.identity
             WHERE s.identity = $1",
        )
        .bind(identity).fetch_one(connection).await?
    });
    if record == kept && !anew {
        return Ok(());
    }
    let mut names = Words::new(NAMES_ROOM);
    for name in fingerprints::names(session, identity).await? {
        names.add(&name);
    }
    let (tools, texts) = match &record {
        Some(record) => of_surface(&surfaces::load(session, record).await?),
        None => (String::new(), String::new()),
    };
    let names = names.into_text();
    let names_length = surfaces::count(names.chars().count());
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO server_words (identity, record, names, tools, texts, names_length) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (identity) DO UPDATE SET record = excluded.record, names = excluded.names,
                 tools = excluded.tools, texts = excluded.texts, names_length = excluded.names_length",
        )
        .bind(identity).bind(record).bind(names).bind(tools).bind(texts).bind(names_length)
        .execute(connection).await?;
    });
    Ok(())
}

/// The words of its tools' names, and those of what it says otherwise.
fn of_surface(surface: &Surface) -> (String, String) {
    let (mut names, mut texts) = (Words::new(TOOLS_ROOM), Words::new(TEXTS_ROOM));
    for text in surface.server_info.as_deref().map(strings).into_iter().flatten() {
        texts.add(&text);
    }
    for tool in surface.members_of(MemberKind::Tool) {
        names.add(&tool.name);
    }
    for tool in surface.members_of(MemberKind::Tool) {
        let said = [tool.definition.title(), tool.definition.description()];
        said.into_iter().flatten().for_each(|text| texts.add(text));
    }
    (names.into_text(), texts.into_text())
}

/// What a server says of itself: the texts of `serverInfo`'s own members.
fn strings(server_info: &str) -> Vec<String> {
    let Ok(document) = json::read(server_info) else {
        return Vec::new();
    };
    let Value::Object(members) = document.value else {
        return Vec::new();
    };
    let texts = members
        .into_iter()
        .filter_map(|(_, value)| value.as_str().map(str::to_owned));
    texts.collect()
}
