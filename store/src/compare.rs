//! Drifts from a new observation's place in the timeline: against the neighbour before it, and the neighbours after it
//! against their new past.
//!
//! Each kind of list is compared by itself: one that could not be read is compared with nothing, and the next good one
//! with the last good one before it. Only texts of members that differ are loaded.
//!
//! Invariant: at most one drift stands for each observation, and it says what that observation changed against the
//! timeline as it is known now; whatever said something else is marked as replaced, never edited.

use std::collections::BTreeMap;

use mcpindex_contract::change::Change;
use mcpindex_contract::diff::diff;
use mcpindex_contract::surface::{Listing, MemberKind, Surface};

use crate::session::{Session, on};
use crate::surfaces::{self, MemberRow};
use crate::{StoreError, drifts};

/// How many observations are searched, in each direction, for the last good list of a kind. A list that failed for
/// longer than this starts afresh.
pub(crate) const WALK: i64 = 50;

/// Where an observation stands, and among which others.
pub(crate) struct Timeline<'a> {
    /// Stored form of the server's identity.
    pub(crate) identity: &'a str,
    /// Stored form of the auth context.
    pub(crate) context: &'a str,
    /// When the new observation was made, for what follows from it.
    pub(crate) now: i64,
}

/// What came of comparing.
pub(crate) struct Compared {
    pub(crate) compared: bool,
    pub(crate) drift: Option<i64>,
    pub(crate) changes: usize,
}

/// A determined observation, as far as comparing needs it; texts are in their stored form.
struct Side {
    id: i64,
    version_key: String,
    version: Option<String>,
    integrity: Option<String>,
    dependencies: Option<String>,
    record: String,
    instructions_digest: Option<String>,
    listings: [Listing; 4],
}

impl Side {
    fn failed(&self, kind: MemberKind) -> bool {
        matches!(self.listings[kind as usize], Listing::Failed { .. })
    }
}

/// Records the drifts that follow from the new determined observation `id`.
pub(crate) async fn compare_neighbours(
    session: &mut Session,
    timeline: &Timeline<'_>,
    id: i64,
) -> Result<Compared, StoreError> {
    let new = side(session, id).await?;
    let previous = before(session, timeline, &new, 1).await?.pop();
    let says_nothing_new =
        |previous: &Side| previous.record == new.record && previous.version_key == new.version_key;
    if previous.as_ref().is_some_and(says_nothing_new) {
        // The usual daily look. An old version looked at again leaves the drifts after it as they are, too.
        return Ok(Compared {
            compared: true,
            drift: None,
            changes: 0,
        });
    }
    let (drift, changes) = match &previous {
        Some(previous) => settle(session, timeline, previous, &new).await?,
        None => (None, 0),
    };
    settle_following(session, timeline, new).await?;
    Ok(Compared {
        compared: previous.is_some(),
        drift,
        changes,
    })
}

/// The next observation has a new neighbour. Those after it are compared again only as long as a list that the new
/// observation holds is one they have to reach back to, since it failed in between.
async fn settle_following(
    session: &mut Session,
    timeline: &Timeline<'_>,
    new: Side,
) -> Result<(), StoreError> {
    let following = after(session, timeline, &new).await?;
    let mut reaching: Vec<MemberKind> = MemberKind::ALL
        .into_iter()
        .filter(|kind| !new.failed(*kind))
        .collect();
    let mut previous = new;
    for (index, next) in following.into_iter().enumerate() {
        if index == 0 || reaching.iter().any(|kind| !next.failed(*kind)) {
            settle(session, timeline, &previous, &next).await?;
        }
        reaching.retain(|kind| next.failed(*kind));
        if reaching.is_empty() {
            break;
        }
        previous = next;
    }
    Ok(())
}

/// Makes the standing drift that leads to `next` say what there is to say now; gives it and its number of changes.
async fn settle(
    session: &mut Session,
    timeline: &Timeline<'_>,
    previous: &Side,
    next: &Side,
) -> Result<(Option<i64>, usize), StoreError> {
    let changes = changes_between(session, timeline, previous, next).await?;
    if let Some((standing, before)) = drifts::standing(session, next.id).await? {
        if before == previous.id && drifts::says(session, standing, &changes).await? {
            return Ok((Some(standing), changes.len()));
        }
        drifts::replace(session, standing, timeline.now).await?;
    }
    if changes.is_empty() {
        return Ok((None, 0));
    }
    let drift = drifts::NewDrift {
        identity: timeline.identity,
        before: previous.id,
        after: next.id,
        version_key: &next.version_key,
        cause: cause(previous, next),
        found_at: timeline.now,
        changes: &changes,
    };
    Ok((Some(drifts::insert(session, &drift).await?), changes.len()))
}

async fn changes_between(
    session: &mut Session,
    timeline: &Timeline<'_>,
    previous: &Side,
    next: &Side,
) -> Result<Vec<Change>, StoreError> {
    let reaches_back = MemberKind::ALL
        .into_iter()
        .any(|kind| previous.failed(kind) && !next.failed(kind));
    let earlier = if reaches_back {
        before(session, timeline, previous, WALK).await?
    } else {
        Vec::new()
    };
    let mut older = nothing_listed();
    let mut newer = nothing_listed();
    for kind in MemberKind::ALL {
        let base = std::iter::once(previous)
            .chain(&earlier)
            .find(|side| !side.failed(kind));
        let Some(base) = base.filter(|_| !next.failed(kind)) else {
            continue;
        };
        older.listings[kind as usize] = base.listings[kind as usize].clone();
        newer.listings[kind as usize] = next.listings[kind as usize].clone();
        if base.record == next.record {
            continue;
        }
        let rows_before = surfaces::member_rows(session, &base.record, kind).await?;
        let rows_after = surfaces::member_rows(session, &next.record, kind).await?;
        let (gone, come) = differing(rows_before, rows_after);
        for row in &gone {
            older.members.push(surfaces::load_member(session, row).await?);
        }
        for row in &come {
            newer.members.push(surfaces::load_member(session, row).await?);
        }
    }
    if previous.instructions_digest != next.instructions_digest {
        for (side, surface) in [(previous, &mut older), (next, &mut newer)] {
            if let Some(digest) = &side.instructions_digest {
                surface.instructions = Some(surfaces::load_instructions(session, digest).await?);
            }
        }
    }
    Ok(diff(&older, &newer))
}

/// What is left of two lists when every name that stands for the same definitions in both is taken out, in whatever
/// order they were sent.
fn differing(before: Vec<MemberRow>, after: Vec<MemberRow>) -> (Vec<MemberRow>, Vec<MemberRow>) {
    type Sides = (Vec<MemberRow>, Vec<MemberRow>);
    let mut names: BTreeMap<String, Sides> = BTreeMap::new();
    for row in before {
        names.entry(row.name.clone()).or_default().0.push(row);
    }
    for row in after {
        names.entry(row.name.clone()).or_default().1.push(row);
    }
    let sorted = |rows: &[MemberRow]| {
        let mut digests: Vec<_> = rows
            .iter()
            .map(|row| (row.digest.clone(), row.meta_digest.clone()))
            .collect();
        digests.sort();
        digests
    };
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    for (before, after) in names.into_values() {
        if sorted(&before) != sorted(&after) {
            gone.extend(before);
            come.extend(after);
        }
    }
    (gone, come)
}

fn nothing_listed() -> Surface {
    let not_compared = || Listing::Failed {
        reason: "not compared".to_owned(),
    };
    Surface {
        protocol_version: String::new(),
        server_info: None,
        capabilities: None,
        instructions: None,
        members: Vec::new(),
        listings: [not_compared(), not_compared(), not_compared(), not_compared()],
    }
}

/// What else differs between the two sides, as far as it is known.
fn cause(before: &Side, after: &Side) -> &'static str {
    let differ =
        |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
    match (&before.version, &after.version) {
        (Some(one), Some(other)) if one != other => "version",
        (Some(_), Some(_)) if differ(&before.integrity, &after.integrity) => "version",
        (Some(_), Some(_)) if differ(&before.dependencies, &after.dependencies) => "dependencies",
        (Some(_), Some(_)) if before.dependencies.is_some() && after.dependencies.is_some() => "unexplained",
        _ => "unknown",
    }
}

macro_rules! side {
    ($rest:literal) => {
        concat!(
            "SELECT o.id, o.version_key, o.version, o.integrity, o.dependencies, o.record, s.instructions_digest,
                 s.tool_listing, s.prompt_listing, s.resource_listing, s.resource_template_listing
             FROM observation o JOIN surface s ON s.record = o.record
             WHERE o.record IS NOT NULL AND ",
            $rest
        )
    };
}

type SideRow = (
    i64,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
    Option<String>,
    String,
    String,
    String,
    String,
);

fn side_from_row(row: SideRow) -> Result<Side, StoreError> {
    Ok(Side {
        id: row.0,
        version_key: row.1,
        version: row.2,
        integrity: row.3,
        dependencies: row.4,
        record: row.5,
        instructions_digest: row.6,
        listings: [
            surfaces::listing_from_text(row.7)?,
            surfaces::listing_from_text(row.8)?,
            surfaces::listing_from_text(row.9)?,
            surfaces::listing_from_text(row.10)?,
        ],
    })
}

async fn side(session: &mut Session, id: i64) -> Result<Side, StoreError> {
    let row: SideRow = on!(*session, connection => {
        sqlx::query_as(side!("o.id = $1")).bind(id).fetch_one(connection).await?
    });
    side_from_row(row)
}

/// The determined observations before this one, nearest first.
async fn before(
    session: &mut Session,
    timeline: &Timeline<'_>,
    place: &Side,
    limit: i64,
) -> Result<Vec<Side>, StoreError> {
    let rows: Vec<SideRow> = on!(*session, connection => {
        sqlx::query_as(side!(
            "o.identity = $1 AND o.context = $2 AND (o.version_key, o.id) < ($3, $4)
             ORDER BY o.version_key DESC, o.id DESC LIMIT $5"
        ))
        .bind(timeline.identity).bind(timeline.context).bind(&place.version_key).bind(place.id).bind(limit)
        .fetch_all(connection).await?
    });
    rows.into_iter().map(side_from_row).collect()
}

/// The determined observations after this one, nearest first, at most [`WALK`].
async fn after(
    session: &mut Session,
    timeline: &Timeline<'_>,
    place: &Side,
) -> Result<Vec<Side>, StoreError> {
    let rows: Vec<SideRow> = on!(*session, connection => {
        sqlx::query_as(side!(
            "o.identity = $1 AND o.context = $2 AND (o.version_key, o.id) > ($3, $4)
             ORDER BY o.version_key, o.id LIMIT $5"
        ))
        .bind(timeline.identity).bind(timeline.context).bind(&place.version_key).bind(place.id).bind(WALK)
        .fetch_all(connection).await?
    });
    rows.into_iter().map(side_from_row).collect()
}
