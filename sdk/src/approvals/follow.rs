//! The thread that follows an index's chain of decisions: what is kept, what came since, and what is wrong with either.
//!
//! Invariant: the head only ever moves on, by records that were verified from the head before up to the one that the index
//! stated. An index that says less, or something else, than it said before moves nothing.

use std::sync::Arc;
use std::time::Duration;

use mcpindex_contract::approval::{ChainFlaw, DEFAULT_TENANT, Head, Record, Verifier};
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::cache::{Cache, CacheError, Saved, WrittenHead};
use super::{FollowOptions, Shared, View};
use crate::index::{Answer, IndexClient, IndexError, MAX_ANSWER_BYTES};
use crate::wire::http::HttpError;

/// Seconds for which the index is asked to keep a question open.
const WAIT: u64 = 25;
/// How long an answer may take that is kept back.
const KEPT_BACK: Duration = Duration::from_secs(40);
/// An answer that came sooner was not kept back.
const SOON: Duration = Duration::from_secs(1);
/// Records of one answer, where they are of usual length.
const PAGE: usize = 1_000;
/// As many of the longest records fit into an answer.
const SMALLEST_PAGE: usize = 16;
/// The most records of an index that are followed at all.
const MOST: u64 = 2_000_000;

/// See the module.
pub(super) struct Follower {
    shared: Arc<Shared>,
    options: FollowOptions,
    cache: Cache,
    /// What gates are shown.
    view: View,
    /// Whether the index is asked to keep questions open.
    waits: bool,
    page: usize,
    /// What was said last of trouble that is not over.
    trouble: Option<String>,
    cache_trouble: Option<String>,
    is_age_said: bool,
}

/// Why a question came to nothing.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("it does not take the key ({0}): `mcpindex login` gets another one")]
    Key(String),
    #[error("it has no decisions to follow (it answered {0})")]
    None(u16),
    #[error("it answered {0}")]
    Status(String, Option<u64>),
    #[error("its answer can't be read: {0}")]
    Unreadable(String),
    #[error("what it says does not continue what was verified before: {0}")]
    Flaw(#[from] ChainFlaw),
}

#[derive(Deserialize)]
struct Page<'a> {
    head: WrittenHead,
    #[serde(borrow)]
    records: Vec<&'a RawValue>,
    next: bool,
}

/// What one question brought.
struct News {
    records: Vec<Record>,
    head: Head,
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>, options: FollowOptions) -> Follower {
        Follower {
            cache: Cache::of(&options.state, &options.index.base),
            view: View::unheard(options.max_age),
            waits: true,
            page: PAGE,
            trouble: None,
            cache_trouble: None,
            is_age_said: false,
            shared,
            options,
        }
    }

    /// Shows what was kept of the index.
    pub(super) fn read_kept(&mut self) {
        match self.cache.read() {
            Ok(None) => {}
            Ok(Some(kept)) => {
                let wanted = kept.records.iter().filter(|record| self.is_wanted(record));
                self.view = View::of(wanted, kept.head, kept.heard_at, self.options.max_age);
                self.shared.show(self.view.clone(), true);
            }
            Err(error) => self.say_of_cache(&error),
        }
        self.say_age();
    }

    /// Follows until nobody wants it any more.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<()>) {
        let client = match IndexClient::new(&self.options.index) {
            Ok(client) => client,
            Err(error) => {
                return self.say(&format!("the organisation's decisions are not followed: {error}"));
            }
        };
        let mut retry = self.options.pauses.retry;
        loop {
            let asked = Instant::now();
            let answered = tokio::select! {
                answered = self.round(&client) => answered,
                _ = stop.changed() => return,
            };
            let pause = match answered {
                Ok(has_news) => {
                    retry = self.options.pauses.retry;
                    match has_news || self.waits && asked.elapsed() >= SOON {
                        true => Duration::ZERO,
                        false => self.options.pauses.between,
                    }
                }
                Err(trouble) => {
                    let pause = retry.max(trouble.pause());
                    retry = (retry * 2).min(self.options.pauses.longest);
                    self.say_trouble(&trouble);
                    pause.min(self.options.pauses.longest)
                }
            };
            self.say_age();
            tokio::select! {
                () = sleep(pause) => {}
                _ = stop.changed() => return,
            }
        }
    }

    /// Asks once and shows what came; whether anything did.
    async fn round(&mut self, client: &IndexClient) -> Result<bool, Trouble> {
        let before = self.view.head().unwrap_or(Head::empty(DEFAULT_TENANT));
        // The first answer is wanted at once.
        let waits = self.waits && self.view.head().is_some() && self.trouble.is_none();
        let News { records, head } = self.fetch(client, before, waits).await?;
        let now = self.options.clock.unix_seconds();
        let is_news = self.view.head() != Some(head);
        let is_fresh_again = !self.view.is_fresh(now);
        let wanted = records.iter().filter(|record| self.is_wanted(record));
        self.view = self.view.clone().and(wanted, head, now);
        self.shared.show(self.view.clone(), is_news || is_fresh_again);
        self.trouble_is_over();
        self.keep(client, before, records, head, now).await;
        Ok(is_news)
    }

    /// All records after a head, verified up to the head that the index states.
    async fn fetch(&mut self, client: &IndexClient, before: Head, waits: bool) -> Result<News, Trouble> {
        let mut verifier = Verifier::after(DEFAULT_TENANT, before);
        let mut records: Vec<Record> = Vec::new();
        let mut waits = waits;
        loop {
            let answer = self.ask(client, verifier.head().sequence, waits).await?;
            waits = false;
            let page: Page<'_> = serde_json::from_slice(&answer.body)
                .map_err(|error| Trouble::Unreadable(error.to_string()))?;
            let stated = page.head.read();
            let stated = stated.ok_or_else(|| Trouble::Unreadable("its head is none".to_owned()))?;
            for text in &page.records {
                let sequence = verifier.head().sequence.saturating_add(1);
                let record = Record::read(text.get()).map_err(|error| ChainFlaw::Unreadable {
                    sequence,
                    what: error.to_string(),
                })?;
                verifier.push(&record)?;
                records.push(record);
            }
            if !page.next {
                let head = verifier.finish(&stated)?;
                return Ok(News { records, head });
            }
            if page.records.is_empty() {
                return Err(Trouble::Unreadable(
                    "it says that there is more and gives nothing".to_owned(),
                ));
            }
            if verifier.head().sequence > MOST {
                return Err(Trouble::Unreadable(format!("it has more than {MOST} decisions")));
            }
        }
    }

    async fn ask(&mut self, client: &IndexClient, since: u64, waits: bool) -> Result<Answer, Trouble> {
        loop {
            let mut path = format!("api/v1/approvals?since={since}&limit={}", self.page);
            let waits = waits && self.waits;
            if waits {
                path.push_str(&format!("&wait={WAIT}"));
            }
            let answer = client.get_within(&path, MAX_ANSWER_BYTES, KEPT_BACK).await;
            match answer {
                Err(IndexError::NoAnswer {
                    source: HttpError::OverLimit { .. },
                    ..
                }) if self.page > SMALLEST_PAGE => {
                    self.page = (self.page / 8).max(SMALLEST_PAGE);
                }
                Err(error) => return Err(error.into()),
                // An index that knows no such parameter is asked now and then.
                Ok(answer) if answer.status == StatusCode::BAD_REQUEST && waits => self.waits = false,
                Ok(answer) => return judged(answer),
            }
        }
    }

    /// Keeps what came, for the next start and for being without the index.
    async fn keep(&mut self, client: &IndexClient, before: Head, records: Vec<Record>, head: Head, now: i64) {
        let texts: Vec<String> = records.iter().map(Record::text).collect();
        drop(records);
        let mut saved = self.cache.save(before, &texts, head, now);
        if matches!(saved, Ok(Saved::NotContinued)) {
            // The file was lost or is of another time: it is made anew of the whole chain.
            let start = Head::empty(DEFAULT_TENANT);
            match self.fetch(client, start, false).await {
                Ok(whole) => {
                    let texts: Vec<String> = whole.records.iter().map(Record::text).collect();
                    saved = self.cache.save(start, &texts, whole.head, now);
                }
                Err(trouble) => return self.say_trouble(&trouble),
            }
        }
        match saved {
            Ok(_) => self.cache_trouble = None,
            Err(error) => self.say_of_cache(&error),
        }
    }

    fn is_wanted(&self, record: &Record) -> bool {
        self.options.identities.contains(&record.identity)
    }

    fn say(&self, line: &str) {
        (self.options.say)(line);
    }

    fn say_of_cache(&mut self, error: &CacheError) {
        let line = match error {
            CacheError::NotSaved { .. } | CacheError::TooMany { .. } => error.to_string(),
            _ => format!("{error}: it is not obeyed, and the index is asked for all of it"),
        };
        if self.cache_trouble.as_ref() != Some(&line) {
            self.say(&format!("what is kept of the organisation's decisions: {line}"));
            self.cache_trouble = Some(line);
        }
    }

    /// Says what is wrong with the index, once for as long as it is the same.
    fn say_trouble(&mut self, trouble: &Trouble) {
        let text = trouble.to_string();
        if self.trouble.as_ref() == Some(&text) {
            return;
        }
        let base = &self.options.index.base;
        let line = match (trouble, self.view.head()) {
            (Trouble::Flaw(_), Some(head)) => format!(
                "ALARM: {base}: {text}. Decisions up to #{} are obeyed as they were, nothing newer is. If the index was brought \
                 back from a backup on purpose, remove `{}` and start again",
                head.sequence,
                self.cache.path().display()
            ),
            (_, Some(head)) => format!(
                "{base} is not heard: {text}. Decisions up to #{} are obeyed as they are known",
                head.sequence
            ),
            (_, None) => format!("{base} is not heard: {text}. No decision of the organisation is known"),
        };
        self.say(&line);
        self.trouble = Some(text);
    }

    fn trouble_is_over(&mut self) {
        if self.trouble.take().is_some() {
            self.say(&format!("{} is heard again", self.options.index.base));
        }
        self.is_age_said = false;
    }

    /// Says once that the index has not been heard for too long.
    fn say_age(&mut self) {
        let is_old = self.view.head().is_some() && !self.view.is_fresh(self.options.clock.unix_seconds());
        if is_old && !self.is_age_said {
            self.say(&format!(
                "{} has not been heard for longer than `--approvals-max-age` admits: its approvals set nothing more free, its \
                 refusals count",
                self.options.index.base
            ));
            self.is_age_said = true;
        }
    }
}

impl Trouble {
    /// How long the index asks us to wait.
    fn pause(&self) -> Duration {
        match self {
            Trouble::Status(_, Some(seconds)) => Duration::from_secs(*seconds),
            _ => Duration::ZERO,
        }
    }
}

fn judged(answer: Answer) -> Result<Answer, Trouble> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let status = answer.status.as_u16();
    let words = answer.problem().map(|problem| problem.words());
    let said = match words {
        Some(words) => format!("{status}: {words}"),
        None => status.to_string(),
    };
    Err(match answer.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Trouble::Key(said),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => Trouble::None(status),
        _ => Trouble::Status(said, answer.retry_after()),
    })
}
