//! What holds whatever the order of things: random interleavings against models of the server and of the pins.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use mcpindex::approvals::Approvals;
use mcpindex::clock::Clock as _;
use mcpindex::gate::{Channel, Gate, Output};
use mcpindex::pins::Pins;
use mcpindex_contract::approval::Decision;
use mcpindex_contract::definition::Definition;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::session::{LIST_CHANGED, Session, Still, options};
use crate::approvals::chain::Chain;

#[derive(Debug, Clone)]
enum Passing {
    /// A request of the client, in some spelling of its envelope.
    Request(usize, usize),
    Notification(usize),
    /// The server answers the request that waits longest; an error when the flag is set.
    Answer(bool),
    ServerRequest,
    ServerNotification(usize),
    Noise(usize),
    ClientAnswer,
}

fn passing() -> impl Strategy<Value = Passing> {
    prop_oneof![
        4 => (0..8_usize, 0..3_usize).prop_map(|(method, spelling)| Passing::Request(method, spelling)),
        1 => (0..3_usize).prop_map(Passing::Notification),
        4 => any::<bool>().prop_map(Passing::Answer),
        1 => Just(Passing::ServerRequest),
        1 => (0..4_usize).prop_map(Passing::ServerNotification),
        1 => (0..4_usize).prop_map(Passing::Noise),
        1 => Just(Passing::ClientAnswer),
    ]
}

const METHODS: [&str; 8] = [
    "ping",
    "resources/read",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
    "unheard/of",
    "tools/call",
];

proptest! {
    #[test]
    fn with_nothing_drifted_every_message_passes_to_the_byte_and_in_order(
        steps in proptest::collection::vec(passing(), 0..60)
    ) {
        let mut session = Session::legacy();
        session.list(0, r#"{"tools":[{"name":"one"}]}"#);
        session.transcript();
        let mut open = VecDeque::new();
        for (number, step) in steps.into_iter().enumerate() {
            let id = number + 1;
            let (is_client, message) = match step {
                Passing::Request(method, spelling) => {
                    let method = METHODS[method];
                    let params = r#"{"name":"one","arguments":{"x":[1.50,"\ud800"]}}"#;
                    let (id, text) = match spelling {
                        0 => (id.to_string(), format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)),
                        1 => (
                            format!("\"r{id}\""),
                            format!(" {{ \"params\" : {params}, \"x\":1, \"method\":\"{method}\", \"id\" : \"r{id}\" }}\r"),
                        ),
                        _ => (
                            format!("{id}.5"),
                            format!(r#"{{"id":{id}5e-1,"method":"{}","params":{params}}}"#, method.replace('/', r"\/")),
                        ),
                    };
                    open.push_back(id);
                    (true, text)
                }
                Passing::Notification(which) => {
                    let method = ["notifications/roots/list_changed", "notifications/progress", "x"][which];
                    (true, format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#))
                }
                Passing::ClientAnswer => (true, format!(r#"{{"jsonrpc":"2.0","id":"s{id}","result":{{}}}}"#)),
                Passing::Answer(is_error) => {
                    let Some(id) = open.pop_front() else { continue };
                    let what = match is_error {
                        true => r#""error":{"code":-1,"message":"no"}"#,
                        false => r#""result":{"content":[]}"#,
                    };
                    (false, format!(r#"{{"jsonrpc":"2.0", {what},"id":{id}}}"#))
                }
                Passing::ServerRequest => (false, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#)),
                Passing::ServerNotification(which) => {
                    let method = [
                        "notifications/message",
                        "notifications/progress",
                        "notifications/resources/updated",
                        "notifications/prompts/list_changed",
                    ][which];
                    (false, format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"progressToken":{id}}}}}"#))
                }
                Passing::Noise(which) => {
                    (false, ["ready", "[info] x", r#"{"level":"info"}"#, "0"][which].to_owned())
                }
            };
            let channel = Channel::ONLY;
            let expected = match is_client {
                true => {
                    session.client(&message);
                    Output::ToServer { channel, message: message.into_bytes() }
                }
                false => {
                    session.server(&message);
                    Output::ToClient { channel, message: message.into_bytes() }
                }
            };
            prop_assert_eq!(&session.outputs, &vec![expected]);
            session.transcript();
        }
    }
}

const NAMES: [&str; 3] = ["red", "green", "blue"];
const WORDS: [&str; 3] = ["Paints the wall.", "Paints the door.", "Paints the house."];

/// Which version of each tool is declared; `None`: it is not.
type Declared = [Option<usize>; 3];

#[derive(Debug, Clone)]
enum Step {
    List,
    /// Asks for the page behind a cursor that was shown last.
    Page,
    Call(usize),
    Cancel,
    Ping,
    /// The server answers what waits longest.
    Answer,
    /// The server answers it with an error.
    Fail,
    /// The server answers it with what nobody can be sure of.
    Muddle,
    Declare(usize, Option<usize>),
    ListChanged,
    Approve(usize),
    /// The organisation decides about this version of a tool.
    Decide(usize, usize, Decision),
    Time(u64),
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::List),
        1 => Just(Step::Page),
        6 => (0..3_usize).prop_map(Step::Call),
        1 => Just(Step::Cancel),
        1 => Just(Step::Ping),
        12 => Just(Step::Answer),
        1 => Just(Step::Fail),
        1 => Just(Step::Muddle),
        3 => (0..3_usize, proptest::option::of(0..3_usize)).prop_map(|(name, version)| Step::Declare(name, version)),
        3 => Just(Step::ListChanged),
        2 => (0..3_usize).prop_map(Step::Approve),
        2 => (0..6_000_u64).prop_map(Step::Time),
        1 => Just(Step::Reconnect),
    ]
}

/// The same, with an organisation that decides.
fn step_or_decision() -> impl Strategy<Value = Step> {
    let decision = prop_oneof![
        3 => Just(Decision::Approve),
        1 => Just(Decision::Refuse),
        2 => Just(Decision::Withdraw)
    ];
    // Few tools and versions, so that what is approved is listed, called and taken back within one case.
    prop_oneof![
        3 => step(),
        1 => Just(Step::Declare(0, Some(1))),
        1 => Just(Step::Call(0)),
        2 => (0..2_usize, 0..2_usize, decision)
            .prop_map(|(name, version, decision)| Step::Decide(name, version, decision)),
    ]
}

fn definition(name: usize, version: usize) -> String {
    format!(
        r#"{{"name":"{}","description":"{}"}}"#,
        NAMES[name], WORDS[version]
    )
}

/// One request that the server has not answered.
struct Asked {
    id: String,
    method: String,
    cursor: Option<String>,
    /// How many announcements there had been when it was asked.
    changes: usize,
    at: Instant,
}

/// A gate between a client and a server that pages one tool at a time, and what must be true of it.
struct World {
    gate: Gate,
    now: Instant,
    asked: VecDeque<Asked>,
    declared: Declared,
    changes: usize,
    /// The last whole list by when it was asked for, as the gate got it.
    whole: Option<(usize, Declared)>,
    pinned: Option<Declared>,
    /// Every request of the client: how many answers it got, and whether it was cancelled.
    requests: BTreeMap<String, (usize, bool)>,
    /// Every call by its id: the tool, and how many announcements there had been.
    calls: BTreeMap<String, (usize, usize)>,
    shown_cursor: Option<String>,
    organisation: Option<Organisation>,
}

/// What an organisation decided, and which versions of each tool are trusted here without it.
struct Organisation {
    approvals: Approvals,
    chain: Chain,
    words: BTreeMap<(usize, usize), Decision>,
    trusted: [[bool; 3]; 3],
    /// Every version that was in a list which the gate judged.
    seen: BTreeSet<(usize, usize)>,
    /// Whether something is pinned for sure.
    has_pin: bool,
}

impl Organisation {
    fn is_refused(&self, version: (usize, usize)) -> bool {
        self.words.get(&version) == Some(&Decision::Refuse)
    }

    /// What of this list may be trusted at first sight now, or when the gate looks again: all of it, while nothing is pinned and
    /// nothing that it has seen before is refused. Whether that is anything.
    fn meet(&mut self, declared: Declared) -> bool {
        let listed: Vec<(usize, usize)> = (declared.iter().enumerate())
            .filter_map(|(name, version)| Some((name, (*version)?)))
            .collect();
        let is_stranger = !self.has_pin && !self.seen.iter().any(|version| self.is_refused(*version));
        let mut trusts = false;
        for (name, version) in &listed {
            if is_stranger && !self.is_refused((*name, *version)) {
                self.trusted[*name][*version] = true;
                trusts = true;
            }
        }
        self.seen.extend(listed);
        trusts
    }
}

impl World {
    /// A world whose gate obeys an organisation.
    fn obeying() -> World {
        let chain = Chain::default();
        let approvals = Approvals::of(chain.view(Still.unix_seconds()));
        let mut world =
            World::over(Gate::new(options(), Pins::memory()).obeying(approvals.clone(), "npm:docs"));
        world.organisation = Some(Organisation {
            approvals,
            chain,
            words: BTreeMap::new(),
            trusted: [[false; 3]; 3],
            seen: BTreeSet::new(),
            has_pin: false,
        });
        world
    }

    fn new() -> World {
        World::over(Gate::new(options(), Pins::memory()))
    }

    fn over(gate: Gate) -> World {
        let mut world = World {
            gate,
            now: Instant::now(),
            asked: VecDeque::new(),
            declared: [Some(0), Some(0), None],
            changes: 0,
            whole: None,
            pinned: None,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            shown_cursor: None,
            organisation: None,
        };
        world.ask("initialize", json!({}));
        world.answer(r#""result":{"protocolVersion":"2025-06-18"}"#);
        world.client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        world
    }

    fn client(&mut self, message: &str) {
        self.act(|gate, now, outputs| gate.from_client(Channel::ONLY, message.into(), now, outputs));
    }

    fn server(&mut self, message: &str) {
        self.act(|gate, now, outputs| gate.from_server(Channel::ONLY, message.into(), now, outputs));
    }

    fn ask(&mut self, method: &str, params: Value) -> String {
        let id = format!("r{}", self.requests.len());
        self.requests.insert(id.clone(), (0, false));
        self.client(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    fn answer(&mut self, what: &str) {
        if let Some(Asked { id, .. }) = self.asked.pop_front() {
            self.server(&format!(r#"{{"jsonrpc":"2.0","id":"{id}",{what}}}"#));
        }
    }

    /// Does something to the gate and looks at all that comes out.
    fn act(&mut self, act: impl FnOnce(&mut Gate, Instant, &mut Vec<Output>)) {
        let mut outputs = Vec::new();
        act(&mut self.gate, self.now, &mut outputs);
        for output in outputs {
            match output {
                Output::ToServer { message, .. } => self.reached_server(&message),
                Output::ToClient { message, .. } => self.reached_client(&message),
                Output::Event(_) => {}
            }
        }
    }

    fn reached_server(&mut self, message: &[u8]) {
        let message: Value = serde_json::from_slice(message).unwrap();
        let Some(id) = message["id"].as_str() else { return };
        if message["method"] == "tools/call" {
            self.call_reached_server(id);
        }
        self.asked.push_back(Asked {
            id: id.to_owned(),
            method: message["method"].as_str().unwrap().to_owned(),
            cursor: message["params"]["cursor"].as_str().map(str::to_owned),
            changes: self.changes,
            at: self.now,
        });
    }

    fn call_reached_server(&self, id: &str) {
        let (name, changes) = self.calls[id];
        let (listed_at, declared) = self.whole.expect("a call before any list");
        assert!(
            listed_at >= changes,
            "a call by a list that was asked for before the announcement"
        );
        let pinned = self.pinned.expect("a call before any pin");
        assert!(declared[name].is_some(), "a call of a tool that is not listed");
        if let (Some(organisation), Some(version)) = (&self.organisation, declared[name]) {
            let word = organisation.words.get(&(name, version));
            assert_ne!(
                word,
                Some(&Decision::Refuse),
                "a call of what the organisation refused"
            );
            assert!(
                word == Some(&Decision::Approve) || organisation.trusted[name][version],
                "a call of what neither anybody here nor the organisation approves"
            );
            return;
        }
        assert_eq!(
            declared[name], pinned[name],
            "a call of a tool that is not what is pinned"
        );
    }

    fn reached_client(&mut self, message: &[u8]) {
        let message: Value = serde_json::from_slice(message).unwrap();
        if let Some(cursor) = message["result"]["nextCursor"].as_str() {
            self.shown_cursor = Some(cursor.to_owned());
        }
        let Some(id) = message["id"].as_str() else { return };
        let (answers, _) = self
            .requests
            .get_mut(id)
            .expect("an answer to what the client never asked");
        *answers += 1;
        assert_eq!(*answers, 1, "two answers to {id}");
        if self.organisation.is_some() {
            return;
        }
        // Nothing is shown that is not pinned.
        for tool in message["result"]["tools"].as_array().into_iter().flatten() {
            let name = NAMES.iter().position(|name| tool["name"] == *name).unwrap();
            let version = WORDS.iter().position(|words| tool["description"] == *words);
            assert_eq!(
                version,
                self.pinned.unwrap()[name],
                "a tool is shown that is not what is pinned"
            );
        }
    }

    /// The server answers the request that waits longest, as a server does.
    fn serve(&mut self) {
        let Some(asked) = self.asked.front() else { return };
        if asked.method != "tools/list" {
            return self.answer(r#""result":{}"#);
        }
        // A cursor carries all that the server has to know: which page, when the list was asked for, what it declares.
        let (page, changes, declared): (usize, usize, Declared) = match &asked.cursor {
            Some(cursor) => serde_json::from_str(cursor).unwrap(),
            None => (0, asked.changes, self.declared),
        };
        let tools: Vec<String> = declared
            .iter()
            .enumerate()
            .filter_map(|(name, version)| Some(definition(name, (*version)?)))
            .collect();
        let shown = tools.get(page).cloned().unwrap_or_default();
        if page + 1 < tools.len() {
            let cursor = json!([page + 1, changes, declared]).to_string();
            return self.answer(&format!(
                r#""result":{{"tools":[{shown}],"nextCursor":{}}}"#,
                Value::String(cursor)
            ));
        }
        // A question of its own the gate has given up by then; what answers it late is no list to it.
        let is_late = asked.id.starts_with("mcpindex-") && self.now >= asked.at + options().list_timeout;
        if is_late {
            return self.answer(&format!(r#""result":{{"tools":[{shown}]}}"#));
        }
        if self.whole.is_none_or(|(before, _)| before <= changes) {
            self.whole = Some((changes, declared));
        }
        if let Some(organisation) = &mut self.organisation {
            // It is judged at once.
            let trusts = organisation.meet(declared);
            organisation.has_pin |= trusts;
        }
        if self.pinned.is_none() && !tools.is_empty() {
            self.pinned = Some(declared);
        }
        self.answer(&format!(r#""result":{{"tools":[{shown}]}}"#));
    }

    fn trust(&mut self, name: usize, version: Option<usize>) {
        if let (Some(organisation), Some(version)) = (&mut self.organisation, version) {
            organisation.trusted[name][version] = true;
        }
    }

    fn decide(&mut self, name: usize, version: usize, decision: Decision) {
        let Some(organisation) = &mut self.organisation else {
            return;
        };
        let digest = Definition::read(&definition(name, version)).digest();
        organisation
            .chain
            .decide("npm:docs", NAMES[name], digest, decision);
        organisation.words.insert((name, version), decision);
        if let Some((_, declared)) = self.whole {
            organisation.meet(declared);
        }
        organisation
            .approvals
            .show(organisation.chain.view(Still.unix_seconds()));
    }

    fn approve(&mut self, name: usize) {
        let Some((_, declared)) = self.whole else { return };
        let (Some(version), Some(mut pinned)) = (declared[name], self.pinned) else {
            return;
        };
        let digest = Definition::read(&definition(name, version)).digest().to_string();
        let before = self.pinned;
        pinned[name] = Some(version);
        self.pinned = Some(pinned);
        let trusted = self
            .organisation
            .as_ref()
            .map(|organisation| organisation.trusted);
        // What follows from it may come out at once.
        self.trust(name, Some(version));
        let mut is_approved = false;
        self.act(|gate, now, outputs| {
            is_approved = gate.approve(NAMES[name], &digest, now, outputs).unwrap();
        });
        if !is_approved {
            if let (Some(organisation), Some(trusted)) = (&mut self.organisation, trusted) {
                organisation.trusted = trusted;
            }
            self.pinned = before;
        }
    }

    fn time(&mut self, time: Duration) {
        let until = self.now + time;
        let mut woken = 0;
        while let Some(due) = self.gate.next_tick().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            woken += 1;
            assert!(woken < 1_000, "the gate asks to be woken again and again");
            self.act(Gate::tick);
        }
        self.now = until;
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::List => drop(self.ask("tools/list", json!({}))),
            Step::Page => {
                if let Some(cursor) = self.shown_cursor.clone() {
                    self.ask("tools/list", json!({ "cursor": cursor }));
                }
            }
            Step::Call(name) => {
                let id = format!("r{}", self.requests.len());
                self.calls.insert(id, (name, self.changes));
                self.ask("tools/call", json!({ "name": NAMES[name] }));
            }
            Step::Cancel => {
                let newest = format!("r{}", self.requests.len() - 1);
                if let Some((_, is_cancelled)) = self.requests.get_mut(&newest) {
                    *is_cancelled = true;
                }
                self.client(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{newest}"}}}}"#
                ));
            }
            Step::Ping => drop(self.ask("ping", json!({}))),
            Step::Answer => self.serve(),
            Step::Fail => self.answer(r#""error":{"code":-1,"message":"no"}"#),
            Step::Muddle => self.answer(r#""result":{"tools":[]},"error":{"code":-1,"message":"no"}"#),
            Step::Declare(name, version) => self.declared[name] = version,
            Step::ListChanged => {
                self.changes += 1;
                self.server(LIST_CHANGED);
            }
            Step::Approve(name) => self.approve(name),
            Step::Decide(name, version, decision) => self.decide(name, version, decision),
            Step::Time(milliseconds) => self.time(Duration::from_millis(milliseconds)),
            Step::Reconnect => {
                self.asked.clear();
                self.changes += 1;
                self.act(|gate, now, outputs| {
                    gate.channel_closed(Channel::ONLY, now, outputs);
                    gate.reconnected(now, outputs);
                });
            }
        }
    }
}

proptest! {
    #[test]
    fn no_call_reaches_what_the_organisation_refused_or_nobody_approves(
        steps in proptest::collection::vec(step_or_decision(), 0..100)
    ) {
        let mut world = World::obeying();
        for step in steps {
            world.step(step);
        }
    }

    #[test]
    fn no_call_reaches_a_tool_that_is_not_what_is_pinned_and_every_request_is_answered_once(
        steps in proptest::collection::vec(step(), 0..80)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        // The server answers everything, and time runs out.
        for _ in 0..200 {
            if world.asked.is_empty() && world.gate.open_requests() == 0 {
                break;
            }
            world.serve();
            world.time(Duration::from_secs(1));
        }
        for (id, (answers, is_cancelled)) in &world.requests {
            prop_assert!(*answers == 1 || *is_cancelled, "{} has {} answers", id, answers);
        }
        prop_assert_eq!(world.gate.open_requests(), 0);
    }
}
