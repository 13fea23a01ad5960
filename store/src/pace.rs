//! Turns: no domain is contacted more often than its pace allows, by all workers together.
//!
//! A target that comes up before its domain's turn is put off to the next free turn, in a row with all others of that domain, so that
//! those of other domains need not wait behind them.
//!
//! Invariant: two looks at one domain begin at least the gap apart, and no day has more than so many.

use crate::StoreError;
use crate::session::{Session, on};
use crate::text::indexed;

const DAY: i64 = 86_400;
/// Bytes of a domain.
const MAX_DOMAIN: usize = 300;

/// How often one domain is contacted.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Seconds between the beginnings of two looks, at least.
    pub gap: i64,
    /// Looks a day, at most.
    pub per_day: i64,
    /// Whose turn a look at this identity takes; `None`: nobody's.
    pub domain_of: fn(&str) -> Option<String>,
}

/// Whether it is a target's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is, and it is taken.
    Now,
    /// It is at this time.
    Later(i64),
}

/// Takes the domain's turn, or gives out a later one.
pub(crate) async fn take_turn(
    session: &mut Session,
    pace: &Pace,
    domain: &str,
    now: i64,
) -> Result<Turn, StoreError> {
    let domain = indexed("domain", domain, MAX_DOMAIN)?;
    let statement = if session.is_postgres() {
        "SELECT free_at, booked_until, day, looks FROM pace WHERE domain = $1 FOR UPDATE"
    } else {
        "SELECT free_at, booked_until, day, looks FROM pace WHERE domain = $1"
    };
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO pace (domain, free_at, booked_until, day, looks) VALUES ($1, 0, 0, 0, 0)
             ON CONFLICT (domain) DO NOTHING",
        )
        .bind(&*domain).execute(connection).await?;
    });
    let (free_at, booked_until, day, looks): (i64, i64, i64, i64) = on!(*session, connection => {
        sqlx::query_as(statement).bind(&*domain).fetch_one(connection).await?
    });
    let today = now.div_euclid(DAY);
    let looks = if day == today { looks } else { 0 };
    if free_at <= now && looks < pace.per_day {
        on!(*session, connection => {
            sqlx::query("UPDATE pace SET free_at = $2, day = $3, looks = $4 WHERE domain = $1")
                .bind(&*domain).bind(now + pace.gap).bind(today).bind(looks + 1).execute(connection).await?;
        });
        return Ok(Turn::Now);
    }
    let earliest = if looks < pace.per_day {
        free_at.max(now)
    } else {
        (today + 1) * DAY
    };
    let turn = earliest.max(booked_until + pace.gap);
    on!(*session, connection => {
        sqlx::query("UPDATE pace SET booked_until = $2 WHERE domain = $1")
            .bind(&*domain).bind(turn).execute(connection).await?;
    });
    Ok(Turn::Later(turn))
}
