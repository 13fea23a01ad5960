//! Who outside is told of what happens here (webhooks), and what became of each telling.
//!
//! Events are what the database holds anyway: each target has a cursor, and `derive` makes deliveries of what lies behind it,
//! so that nothing is lost with a process. `deliveries` are leased and logged, `issues` remembers what was opened elsewhere.
//!
//! Invariant: no secret is kept here; an event becomes one delivery of a target, with one id for all its attempts, which is
//! made at least once.

mod deliveries;
mod derive;
mod issues;

pub use deliveries::{
    Claimed, Delivery, DeliveryLease, DeliveryOutcome, Ended, Finished, KEPT_DAYS, KEPT_DELIVERIES,
    Redelivery,
};
pub use derive::{Derived, MOST_WAITING};
pub use issues::Issue;

use crate::audit::{self, Action, NewLine};
use crate::session::{Session, on};
use crate::text::{SEPARATOR, indexed, restored, stored};
use crate::{Store, StoreError};

/// Targets of one index.
pub const MOST_WEBHOOKS: i64 = 1_000;
/// Bytes of a target's id and of its name.
const MAX_ID: usize = 100;
const MAX_NAME: usize = 300;
/// Bytes of a destination, and of all the servers of a target together.
const MAX_DESTINATION: usize = 2_000;
const MAX_SERVERS: usize = 20_000;

/// What may happen that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A drift of this number was recorded.
    Drift(i64),
    /// A decision was made; several of one person about one server at the same time are one event, with the sequence of the first.
    Decision(i64),
    /// Somebody wants to see whether it works.
    Test,
}

impl Event {
    /// `drift`, `decision` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Event::Drift(_) => "drift",
            Event::Decision(_) => "decision",
            Event::Test => "test",
        }
    }

    /// The number of what happened; 0 for a test.
    pub fn subject(self) -> i64 {
        match self {
            Event::Drift(number) | Event::Decision(number) => number,
            Event::Test => 0,
        }
    }

    fn read(name: &str, subject: i64) -> Result<Event, StoreError> {
        match name {
            "drift" => Ok(Event::Drift(subject)),
            "decision" => Ok(Event::Decision(subject)),
            "test" => Ok(Event::Test),
            other => Err(unknown("an event", other)),
        }
    }
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$variant_doc])* $variant),+
        }

        impl $type {
            /// All of them.
            pub const ALL: &[$type] = &[$($type::$variant),+];

            /// As it is written.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name),+
                }
            }

            /// What is written so.
            pub fn from_name(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}

named! {
    /// How a target is told.
    Form {
        /// Our own shape, signed.
        Json = "json",
        /// A message as Slack's incoming webhooks take it.
        Slack = "slack",
        /// An issue in a repository of GitHub's, one for each drift.
        GithubIssue = "github-issue",
    }
}

named! {
    /// Which drifts a target is told of.
    Severity {
        /// Every one.
        All = "all",
        /// Those with a change that is safety relevant.
        SafetyRelevant = "safety-relevant",
    }
}

/// A target to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// Random: whoever has had one of this id knows the secret that is derived from it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// How it is told.
    pub form: Form,
    /// Where: a URL without a secret in it, or `owner/repository`.
    pub destination: String,
    /// Which drifts.
    pub severity: Severity,
    /// Identities, or their beginnings with `*` behind them; empty: every server.
    pub servers: Vec<String>,
    /// Whether the servers' own words go along.
    pub untrusted: bool,
    /// Tells whether a server has the key that the secret was derived from; empty where nothing is signed.
    pub key_check: String,
    /// Who made it.
    pub created_by: String,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// What was asked for.
    pub wish: NewWebhook,
    /// When it was made. What happened before is not told.
    pub created_at: i64,
    /// Deliveries that wait, or are under way.
    pub waiting: i64,
}

impl NewWebhook {
    /// Whether drifts and decisions of this server are told.
    pub fn is_about(&self, identity: &str) -> bool {
        let fits = |entry: &String| match entry.strip_suffix('*') {
            Some(beginning) => identity.starts_with(beginning),
            None => identity == entry,
        };
        self.servers.is_empty() || self.servers.iter().any(fits)
    }
}

type WebhookRow = (
    String,
    String,
    String,
    String,
    String,
    String,
    bool,
    String,
    i64,
    String,
    i64,
);

macro_rules! webhook {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, form, destination, severity, servers, untrusted, key_check, created_at, created_by,
                 (SELECT COUNT(*) FROM webhook_delivery d WHERE d.webhook = w.id AND d.due IS NOT NULL)
             FROM webhook w ",
            $rest
        )
    };
}
use webhook;

fn unknown(what: &str, text: &str) -> StoreError {
    StoreError::Corrupt {
        what: format!("{what} `{}`", text.escape_debug()),
    }
}

fn webhook_from_row(row: WebhookRow) -> Result<Webhook, StoreError> {
    let servers = row.5.split_terminator(SEPARATOR);
    Ok(Webhook {
        wish: NewWebhook {
            id: restored(row.0)?,
            name: restored(row.1)?,
            form: Form::from_name(&row.2).ok_or_else(|| unknown("a webhook's form", &row.2))?,
            destination: restored(row.3)?,
            severity: Severity::from_name(&row.4).ok_or_else(|| unknown("a webhook's severity", &row.4))?,
            servers: servers
                .map(|server| restored(server.to_owned()))
                .collect::<Result<_, _>>()?,
            untrusted: row.6,
            key_check: row.7,
            created_by: restored(row.9)?,
        },
        created_at: row.8,
        waiting: row.10,
    })
}

impl Store {
    /// Adds a target, which is told of what happens from now on.
    ///
    /// [`StoreError::Refused`]: there are [`MOST_WEBHOOKS`], or a text is longer than is kept.
    pub async fn add_webhook(&self, wish: &NewWebhook, now: i64) -> Result<Webhook, StoreError> {
        let id = indexed("webhook's id", &wish.id, MAX_ID)?;
        let name = indexed("webhook's name", &wish.name, MAX_NAME)?;
        let destination = indexed("webhook's destination", &wish.destination, MAX_DESTINATION)?;
        let servers: Vec<_> = wish.servers.iter().map(|server| stored(server)).collect();
        let servers = servers.join(SEPARATOR);
        if servers.len() > MAX_SERVERS {
            return Err(StoreError::Refused {
                what: format!("the servers of a webhook are longer than {MAX_SERVERS} bytes"),
            });
        }
        let drifts_end = self.drifts_end().await?;
        let decisions_end = self.decisions_end().await?;
        let mut session = self.write().await?;
        let count: i64 = on!(session, connection => {
            sqlx::query_scalar("SELECT COUNT(*) FROM webhook").fetch_one(connection).await?
        });
        if count >= MOST_WEBHOOKS {
            return Err(StoreError::Refused {
                what: format!(
                    "there are {count} webhooks, which is the most; remove one that is not needed any more"
                ),
            });
        }
        on!(session, connection => {
            sqlx::query(
                "INSERT INTO webhook (id, name, form, destination, severity, servers, untrusted, key_check, created_at,
                     created_by, drift_cursor, decision_cursor)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            )
            .bind(&*id).bind(&*name).bind(wish.form.name()).bind(&*destination).bind(wish.severity.name())
            .bind(&servers).bind(wish.untrusted).bind(&wish.key_check).bind(now).bind(stored(&wish.created_by))
            .bind(drifts_end).bind(decisions_end)
            .execute(connection).await?;
        });
        note(&mut session, &wish.created_by, &wish.id, "made", now).await?;
        session.commit().await?;
        Ok(Webhook {
            wish: wish.clone(),
            created_at: now,
            waiting: 0,
        })
    }

    /// Every target, the oldest first.
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<WebhookRow> = on!(session, connection => {
            sqlx::query_as(webhook!("ORDER BY created_at, id")).fetch_all(connection).await?
        });
        rows.into_iter().map(webhook_from_row).collect()
    }

    /// The target of this id.
    pub async fn webhook(&self, id: &str) -> Result<Option<Webhook>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<WebhookRow> = on!(session, connection => {
            sqlx::query_as(webhook!("WHERE id = $1")).bind(stored(id)).fetch_optional(connection).await?
        });
        row.map(webhook_from_row).transpose()
    }

    /// Removes a target with its log and what waits for it; what is on its way arrives. `by` is who does it, for the audit log.
    /// False: there is none of this id.
    pub async fn remove_webhook(&self, id: &str, by: &str, now: i64) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        let gone = on!(session, connection => {
            sqlx::query("DELETE FROM webhook WHERE id = $1").bind(stored(id)).execute(connection).await?.rows_affected()
        });
        if gone == 0 {
            return Ok(false);
        }
        note(&mut session, by, id, "removed", now).await?;
        session.commit().await?;
        Ok(true)
    }
}

async fn note(session: &mut Session, by: &str, id: &str, what: &str, now: i64) -> Result<(), StoreError> {
    let detail = format!("webhook {what}");
    let line = NewLine {
        subject: by,
        action: Action::SettingChanged,
        object: id,
        detail: Some(&detail),
    };
    audit::note(session, &line, now).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_about_what_its_entries_name_or_begin() {
        let about = |servers: &[&str], identity: &str| {
            let wish = NewWebhook {
                id: String::new(),
                name: String::new(),
                form: Form::Json,
                destination: String::new(),
                severity: Severity::All,
                servers: servers.iter().map(|server| (*server).to_owned()).collect(),
                untrusted: false,
                key_check: String::new(),
                created_by: String::new(),
            };
            wish.is_about(identity)
        };
        assert!(about(&[], "npm:a"));
        assert!(about(&["npm:a"], "npm:a"));
        assert!(!about(&["npm:a"], "npm:ab"));
        assert!(about(&["npm:b", "npm:@acme/*"], "npm:@acme/files"));
        assert!(!about(&["npm:@acme/*"], "npm:@acme"));
    }
}
