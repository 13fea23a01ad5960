//! What waits for an approver, in the shape in which people decide it: by release, the same change over many tools as one row.
//!
//! It comes from two places: what the crawl sees a server declare, and what gates ask about. Page and API show the same.
//!
//! Invariant: what is grouped is grouped by the same rule as a person's review at a gate (`mcpindex::gate::step`); nothing is decided
//! here, and nothing that waits is left out without saying so.

use mcpindex::gate::step::{Step, rows};
use mcpindex_contract::approval::{DEFAULT_TENANT, Standing};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_store::approvals::ChainState;
use mcpindex_store::approvals::queue::{self as kept, Origin, Place, ToolPlace};
use mcpindex_store::approvals::requests::Request;
use mcpindex_store::servers::ServerRecord;
use mcpindex_store::signals::ToldDefinition;

use crate::app::App;
use crate::ingest::FleetRule;
use crate::problem::Problem;
use crate::vetting::{Installs, installs};

/// Tools of a release that are shown at once where several releases are.
const TOOLS: usize = 60;
/// Tools of the one release that is shown: all of them can be decided by one call.
const TOOLS_OF_ONE: usize = 200;
/// Questions of gates that are shown at once.
pub(crate) const REQUESTS: i64 = 100;

/// What waits of one server.
pub(crate) struct Release {
    pub(crate) identity: String,
    /// `None`: the index does not know the server, a gate asked.
    pub(crate) server: Option<ServerRecord>,
    /// Since when the server declares this, or when a gate asked last.
    pub(crate) since: i64,
    /// How many tools wait, those shown among them; more than a thousand are not counted.
    pub(crate) waiting: i64,
    /// The dangerous ones first; none is empty.
    pub(crate) rows: Vec<Vec<Item>>,
    /// Where the next tools begin.
    pub(crate) next: Option<ToolPlace>,
}

/// One definition that waits.
pub(crate) struct Item {
    pub(crate) tool: String,
    pub(crate) digest: Digest,
    pub(crate) definition: String,
    /// What it is compared with.
    pub(crate) before: Option<(Digest, Before)>,
    /// The step from there.
    pub(crate) step: Step,
    /// What was decided about it and does not settle it.
    pub(crate) standing: Option<Standing>,
    /// How many other definitions of the tool are refused.
    pub(crate) refused: usize,
    pub(crate) seen: Option<Seen>,
    pub(crate) asked: Option<Asked>,
}

/// Why it is compared with that.
pub(crate) enum Before {
    /// It is approved, by whom and since when.
    Approved(String, i64),
    /// The crawl saw it before, last at that time.
    Seen(i64),
    /// The tool is pinned to it at the gate that asks.
    Pinned,
}

/// Who sees it.
pub(crate) struct Seen {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Other servers that declared exactly this.
    pub(crate) elsewhere: i64,
    /// `None` where no signals are taken.
    pub(crate) installs: Option<Installs>,
    pub(crate) others: Option<Installs>,
}

/// Who asks.
pub(crate) struct Asked {
    pub(crate) by: String,
    pub(crate) at: i64,
    pub(crate) note: Option<String>,
}

/// One page of what the crawl sees.
pub(crate) struct Page {
    pub(crate) chain: ChainState,
    pub(crate) releases: Vec<Release>,
    pub(crate) next: Option<Place>,
    /// How many servers were looked at.
    pub(crate) looked_at: i64,
}

/// What waits after a place, at most so many releases.
pub(crate) async fn page(app: &App, after: Option<&Place>, releases: usize) -> Result<Page, Problem> {
    let scope = app.approvals.scope();
    let size = (releases, TOOLS);
    let found = app
        .store
        .queue(DEFAULT_TENANT, scope, after, size, app.now())
        .await?;
    Ok(Page {
        releases: weighed(app, found.releases).await?,
        chain: found.chain,
        next: found.next,
        looked_at: found.looked_at,
    })
}

/// What waits of one server, after a place among its tools.
pub(crate) async fn of_server(
    app: &App,
    identity: &str,
    after: Option<&ToolPlace>,
) -> Result<(ChainState, Option<Release>), Problem> {
    let (chain, release) = app
        .store
        .waiting_of(DEFAULT_TENANT, identity, after, TOOLS_OF_ONE, app.now())
        .await?;
    let mut releases = weighed(app, release.into_iter().collect()).await?;
    Ok((chain, releases.pop()))
}

/// What gates ask about, the newest first, by server; and where it goes on.
pub(crate) async fn requests(app: &App, before: Option<i64>) -> Result<(Vec<Release>, Option<i64>), Problem> {
    let found = app
        .store
        .open_requests(DEFAULT_TENANT, before, REQUESTS, app.now())
        .await?;
    let requests = found.1;
    let is_full = i64::try_from(requests.len()).is_ok_and(|length| length >= REQUESTS);
    let next = requests.last().map(|last| last.id).filter(|_| is_full);
    let mut servers: Vec<(String, Option<ServerRecord>, Vec<Request>)> = Vec::new();
    for request in requests {
        let identity = &request.request.identity;
        match servers.iter_mut().find(|(known, ..)| known == identity) {
            Some((.., requests)) => requests.push(request),
            None => {
                let server = app.store.find_server(identity).await?;
                let server = server.filter(|server| server.identity == *identity);
                servers.push((identity.clone(), server, vec![request]));
            }
        }
    }
    let weighing = tokio::task::spawn_blocking(move || servers.into_iter().map(of_requests).collect());
    let releases = weighing.await.map_err(|error| Problem::internal(&error))?;
    Ok((releases, next))
}

/// Comparing texts is work for the processor: not on the threads that answer everybody.
async fn weighed(app: &App, releases: Vec<kept::Release>) -> Result<Vec<Release>, Problem> {
    let rule = app.ingest.as_ref().map(|ingest| ingest.rules.fleet.clone());
    let weighing = tokio::task::spawn_blocking(move || {
        let releases = releases.into_iter();
        releases
            .map(|release| of_release(release, rule.as_ref()))
            .collect()
    });
    weighing.await.map_err(|error| Problem::internal(&error))
}

fn of_release(release: kept::Release, rule: Option<&FleetRule>) -> Release {
    let is_first_sight = !release.is_trusted;
    let items = release.tools.into_iter().map(|tool| {
        let baseline = tool
            .baseline
            .as_ref()
            .map(|baseline| baseline.definition.as_str());
        Item {
            step: Step::of_tool(&tool.definition, baseline, is_first_sight),
            before: tool.baseline.map(|baseline| {
                let origin = match baseline.origin {
                    Origin::Approved(record) => Before::Approved(record.subject, record.at),
                    Origin::Seen(at) => Before::Seen(at),
                };
                (baseline.digest, origin)
            }),
            seen: Some(Seen {
                first: tool.first_seen_at,
                last: tool.last_seen_at,
                elsewhere: tool.elsewhere,
                installs: rule.map(|rule| told(rule, &tool.told, tool.digest, true)),
                others: rule.map(|rule| told(rule, &tool.told, tool.digest, false)),
            }),
            tool: tool.tool,
            digest: tool.digest,
            definition: tool.definition,
            standing: tool.standing,
            refused: tool.refused,
            asked: None,
        }
    });
    Release {
        identity: release.server.identity.clone(),
        server: Some(release.server),
        since: release.since,
        waiting: release.waiting,
        rows: grouped(items.collect()),
        next: release.next,
    }
}

fn told(rule: &FleetRule, told: &[ToldDefinition], digest: Digest, same: bool) -> Installs {
    let digest = Some(digest.to_string());
    installs(
        rule,
        told.iter()
            .filter(|told| told.digest.is_some() && (told.digest == digest) == same),
    )
}

fn of_requests((identity, server, requests): (String, Option<ServerRecord>, Vec<Request>)) -> Release {
    let since = requests.iter().map(|request| request.at).max().unwrap_or(0);
    let waiting = i64::try_from(requests.len()).unwrap_or(i64::MAX);
    let items = requests.into_iter().map(
        |Request {
             request,
             by,
             at,
             standing,
             ..
         }| Item {
            step: Step::of_tool(&request.definition, request.baseline.as_deref(), false),
            before: (request.baseline.as_deref())
                .map(|baseline| (Definition::read(baseline).digest(), Before::Pinned)),
            tool: request.tool,
            digest: request.digest,
            definition: request.definition,
            standing,
            refused: 0,
            seen: None,
            asked: Some(Asked {
                by,
                at,
                note: request.note,
            }),
        },
    );
    Release {
        identity,
        server,
        since,
        waiting,
        rows: grouped(items.collect()),
        next: None,
    }
}

fn grouped(items: Vec<Item>) -> Vec<Vec<Item>> {
    rows(
        items,
        |item| &item.step,
        // What stands of it, who asks and what they say is told of a whole row.
        |item| {
            let standing = item.standing.as_ref();
            let standing = standing.map(|standing| (standing.state, standing.record.subject.clone()));
            let asked = item.asked.as_ref();
            (
                standing,
                asked.map(|asked| (asked.by.clone(), asked.note.clone())),
            )
        },
        |item| item.tool.clone(),
    )
}
