//! An MCP registry of the official API as a source of targets: what servers there are, and how each is reached.
//!
//! [`read_page`] reads one answer, [`Registry::read`] reads a registry to its end and hands its pages on one by one. All versions
//! of a server are asked for and not just the latest: a mirror learns only so that an older one was deprecated or deleted, and not
//! every registry knows `version=latest`; which one is the latest the entries say. Deleted ones are asked for with them.
//!
//! Invariant: what a registry says decides on no request but the next page's, at its own origin; a reading that did not come to
//! its end says so and gives no mark from which the next could go on.

mod answer;
mod input;
mod page;
mod reached;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::BoxFuture;
use mcpindex::wire::http::{HttpClient, HttpError};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;
use url::Url;

use crate::CrawlError;
use answer::Answer;

pub use input::{MAX_ARGUMENTS, MAX_FILLED};
pub use page::{Entry, MAX_ENTRIES, MAX_ENTRY_BYTES, Page, PageError, Skipped, Status, read_page};
pub use reached::{MAX_REACHED, Reached};

/// Entries that are asked for at once: the most that the official registry gives.
pub const PAGE_ENTRIES: usize = 100;
/// How far before a mark the next reading begins, in seconds. What a registry writes gets its time before others can read it, and
/// two machines' clocks differ; so what was changed shortly before the mark is read once more, which does no harm: an entry that
/// is read twice says the same twice.
pub const OVERLAP: i64 = 600;

/// Bounds on one reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Pages (10,000): the official registry had 84,000 versions in the summer of 2026, and doubles in months.
    pub pages: usize,
    /// Bytes of one page (8 MiB).
    pub page_bytes: usize,
    /// Bytes in all (2 GiB), one page of which is in memory at a time.
    pub total_bytes: usize,
    /// Bytes of a cursor (4 KiB).
    pub cursor_bytes: usize,
    /// Pages without any entry, one after the other, that are followed to the next (1).
    pub empty_pages: usize,
    /// How long one page may take, to its last byte (30 s).
    pub page_time: Duration,
    /// How long all may take, with what becomes of the pages (4 h).
    pub whole: Duration,
}

impl Default for RegistryLimits {
    fn default() -> RegistryLimits {
        RegistryLimits {
            pages: 10_000,
            page_bytes: 8 << 20,
            total_bytes: 2 << 30,
            cursor_bytes: 4 << 10,
            empty_pages: 1,
            page_time: Duration::from_secs(30),
            whole: Duration::from_secs(4 * 60 * 60),
        }
    }
}

/// Who takes the pages, each before the next one is asked for.
pub trait Sink: Send {
    /// Takes one page.
    fn take(&mut self, page: Page) -> BoxFuture<'_, Result<(), CrawlError>>;
}

/// What a complete reading came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pages.
    pub pages: usize,
    /// Entries that could be read. None at all is a registry that lists nothing, and no reason to believe that what it listed
    /// before is gone.
    pub entries: usize,
    /// Entries that could not be read.
    pub skipped: usize,
    /// The mark for the next reading: the newest time at which an entry was changed, but none after the beginning of this reading.
    /// What was changed while it went on may have been on a page that was read already, though a later page told of a newer change;
    /// and a time in the future would hide all changes until then. `None` where no entry had a time: keep the mark there was.
    pub newest: Option<i64>,
}

/// Why a registry was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// An address that can't be a registry's.
    #[error("`{base}` can't be a registry's address: {reason}")]
    Address {
        /// As given, but for credentials.
        base: String,
        /// One line.
        reason: &'static str,
    },
    /// No answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A page or all of it took too long.
    #[error("{what} took longer than {limit:?}")]
    TooSlow {
        /// `a page` or `the registry`.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// More than is read.
    #[error("more than {limit} {what}")]
    OverLimit {
        /// `pages`, `bytes in a page`, `bytes in all`, `bytes in a cursor`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A page leads back to one that was read.
    #[error("page {page} names a next page that was read before")]
    CursorLoop {
        /// Which, from 1.
        page: usize,
    },
    /// Pages without entries lead on and on.
    #[error("page {page} has no entry, as the one before it, and yet names a next one")]
    EmptyPages {
        /// Which, from 1.
        page: usize,
    },
    /// It asks to come again later.
    #[error("it asks to come again in {after} s")]
    RetryLater {
        /// In so many seconds.
        after: u64,
    },
    /// It points elsewhere, and redirects are not followed.
    #[error("it points to `{to}` (status {status}): give that address if it is right")]
    Redirected {
        /// The status.
        status: u16,
        /// Where to, without user and query, in text that can be shown.
        to: String,
    },
    /// It refuses.
    #[error("it answered with status {status}{}", said(.words))]
    Status {
        /// The status.
        status: u16,
        /// Its words, in text that can be shown.
        words: Option<String>,
    },
    /// What answers there is no registry.
    #[error("page {page} can't be read: {error}")]
    NotARegistry {
        /// Which, from 1.
        page: usize,
        /// Why not.
        error: PageError,
    },
    /// A page was read and could not be kept.
    #[error(transparent)]
    NotKept(Box<CrawlError>),
}

fn said(words: &Option<String>) -> String {
    words
        .as_ref()
        .map_or_else(String::new, |words| format!(": \"{words}\""))
}

/// One registry.
pub struct Registry<'c> {
    client: &'c dyn HttpClient,
    base: Url,
    limits: RegistryLimits,
}

impl<'c> Registry<'c> {
    /// A registry by its address, which may end in the API's version. The client judges whether it may be contacted.
    pub fn new(
        client: &'c dyn HttpClient,
        base: &str,
        limits: RegistryLimits,
    ) -> Result<Registry<'c>, RegistryError> {
        let base = answer::base(base)?;
        Ok(Registry { client, base, limits })
    }

    /// Reads all of it, or what was changed since the mark of an earlier reading. `now` is when the reading begins.
    pub async fn read(
        &self,
        since: Option<i64>,
        now: i64,
        sink: &mut dyn Sink,
    ) -> Result<Summary, RegistryError> {
        let mut reading = Reading {
            registry: self,
            since: since.and_then(|since| rfc3339(since.saturating_sub(OVERLAP))),
            version: "v0.1",
            deadline: Instant::now() + self.limits.whole,
            bytes: 0,
            now,
        };
        let mut summary = Summary::default();
        let mut seen = BTreeSet::new();
        let mut empty = 0;
        let mut cursor: Option<String> = None;
        loop {
            let number = summary.pages + 1;
            if number > self.limits.pages {
                return Err(over("pages", self.limits.pages));
            }
            let page = reading.page(cursor.as_deref(), number).await?;
            let next = page.next_cursor.clone();
            let count = page.entries.len() + page.skipped.len();
            summary.pages = number;
            summary.entries += page.entries.len();
            summary.skipped += page.skipped.len();
            let newest = page.entries.iter().filter_map(|entry| entry.updated_at).max();
            summary.newest = summary.newest.max(newest.map(|newest| newest.min(now)));
            sink.take(page)
                .await
                .map_err(|error| RegistryError::NotKept(Box::new(error)))?;
            let Some(next) = next else { return Ok(summary) };
            if next.len() > self.limits.cursor_bytes {
                return Err(over("bytes in a cursor", self.limits.cursor_bytes));
            }
            if !seen.insert(next.clone()) {
                return Err(RegistryError::CursorLoop { page: number });
            }
            empty = if count == 0 { empty + 1 } else { 0 };
            if empty > self.limits.empty_pages {
                return Err(RegistryError::EmptyPages { page: number });
            }
            cursor = Some(next);
        }
    }
}

/// A reading under way.
struct Reading<'r> {
    registry: &'r Registry<'r>,
    since: Option<String>,
    version: &'static str,
    deadline: Instant,
    bytes: usize,
    now: i64,
}

impl Reading<'_> {
    async fn page(&mut self, cursor: Option<&str>, number: usize) -> Result<Page, RegistryError> {
        let mut answer = self.answer(cursor).await?;
        // Registries from before the API was frozen know only the older path.
        if matches!(answer, Answer::Failed { status: 404, .. }) && cursor.is_none() {
            self.version = "v0";
            answer = self.answer(None).await?;
        }
        match answer {
            Answer::Page(body) => {
                self.bytes += body.len();
                read_page(&body).map_err(|error| RegistryError::NotARegistry { page: number, error })
            }
            Answer::Failed { status, words } => Err(RegistryError::Status { status, words }),
        }
    }

    async fn answer(&self, cursor: Option<&str>) -> Result<Answer, RegistryError> {
        let limits = &self.registry.limits;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (time, what, limit) = match left < limits.page_time {
            true => (left, "the registry", limits.whole),
            false => (limits.page_time, "a page", limits.page_time),
        };
        let room = limits.total_bytes.saturating_sub(self.bytes);
        let (room, of_what, bytes) = match room < limits.page_bytes {
            true => (room, "bytes in all", limits.total_bytes),
            false => (limits.page_bytes, "bytes in a page", limits.page_bytes),
        };
        let asked = answer::ask(self.registry.client, self.url(cursor), room, self.now);
        match tokio::time::timeout(time, asked).await {
            Ok(Err(RegistryError::Http(HttpError::OverLimit { .. }))) => Err(over(of_what, bytes)),
            Ok(answer) => answer,
            Err(_) => Err(RegistryError::TooSlow { what, limit }),
        }
    }

    fn url(&self, cursor: Option<&str>) -> Url {
        let mut url = self.registry.base.clone();
        let path = format!("{}/{}/servers", url.path().trim_end_matches('/'), self.version);
        url.set_path(&path);
        let mut query = url.query_pairs_mut();
        query.append_pair("limit", &PAGE_ENTRIES.to_string());
        query.append_pair("include_deleted", "true");
        if let Some(since) = &self.since {
            query.append_pair("updated_since", since);
        }
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        drop(query);
        url
    }
}

fn over(what: &'static str, limit: usize) -> RegistryError {
    RegistryError::OverLimit { what, limit }
}

/// A time that no calendar has asks for all.
fn rfc3339(seconds: i64) -> Option<String> {
    let moment = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    moment.format(&Rfc3339).ok()
}
