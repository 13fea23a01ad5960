//! What is told and asked, when, and when not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;
use mcpindex::clock::Clock;
use mcpindex::gate::sighting::{Sight, Sighting};
use mcpindex::index::{Base, Chosen, IndexClient, IndexError};
use mcpindex::state::StateDirectory;
use mcpindex::telemetry::kept::Kept;
use mcpindex::telemetry::{Advice, BufferLimits, Counts, Mode, Pause, Pauses, Telemetry, TelemetryOptions};
use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::signal::{Event, FingerprintKey, Signal};
use secrecy::SecretString;

use super::stand_in::{Index, Said};
use crate::proxy::until;

const HOUR: i64 = 1_796_058_000;
const KEY: &str = "mcpk_000000000000000000000000000000000000";

struct Still;

impl Clock for Still {
    fn unix_seconds(&self) -> i64 {
        HOUR + 600
    }
}

/// One machine with its index.
struct Machine {
    directory: tempfile::TempDir,
    advice: Arc<Mutex<Vec<Advice>>>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            directory: tempfile::tempdir().unwrap(),
            advice: Arc::default(),
        }
    }

    fn state(&self) -> StateDirectory {
        StateDirectory::at(self.directory.path())
    }

    fn kept(&self) -> Kept {
        Kept::of(&self.state())
    }

    fn telemetry(&self, index: &Index, mode: Mode, key: Option<&str>) -> Telemetry {
        self.with_pauses(index, mode, key, Duration::from_millis(1))
    }

    fn with_pauses(&self, index: &Index, mode: Mode, key: Option<&str>, pause: Duration) -> Telemetry {
        let advice = Arc::clone(&self.advice);
        let pause = Pause {
            from: pause,
            to: pause,
        };
        Telemetry::new(TelemetryOptions {
            mode,
            index: Chosen {
                base: index.base.clone(),
                key: key.map(SecretString::from),
            },
            state: self.state(),
            clock: Arc::new(Still),
            say: Arc::new(move |one| advice.lock().unwrap().push(one)),
            own_registries: mcpindex::telemetry::OwnRegistries::default(),
            pauses: Pauses {
                first: pause,
                between: pause,
                retry: pause,
            },
            limits: BufferLimits::default(),
        })
    }

    fn advice(&self) -> Vec<String> {
        self.advice.lock().unwrap().iter().map(Advice::line).collect()
    }
}

fn server(text: &str) -> Identity {
    Identity::from_reference(text).unwrap().identity
}

fn command() -> Identity {
    Identity::from_launch(&["./secret-project/server".to_owned()])
        .unwrap()
        .identity
}

fn tool(name: &str, more: &str) -> String {
    format!(r#"{{"name":"{name}","description":"Searches."{more}}}"#)
}

fn pinned(name: &str) -> Sighting {
    Sighting {
        tool: name.to_owned(),
        definition: tool(name, "").into(),
        sight: Sight::Pinned,
    }
}

/// A change that the published hash does not cover.
fn hint_flipped(name: &str) -> Sighting {
    Sighting {
        tool: name.to_owned(),
        definition: tool(name, r#","annotations":{"destructiveHint":true}"#).into(),
        sight: Sight::Drifted {
            before: tool(name, r#","annotations":{"destructiveHint":false}"#).into(),
            kinds: vec![ChangeKind::AnnotationFlipToDestructive],
        },
    }
}

fn show(telemetry: &Telemetry, server: &Identity, sightings: impl IntoIterator<Item = Sighting>) {
    let watch = telemetry.watch(server, &server.to_string());
    for sighting in sightings {
        watch.seen(sighting);
    }
}

/// Waits until everything that was shown has an end, and says which.
async fn settled(telemetry: &Telemetry) -> Counts {
    until("everything was told", || {
        let counts = telemetry.counts();
        counts.sent + counts.failed + counts.left_out + counts.dropped >= counts.offered
    })
    .await;
    telemetry.counts()
}

fn said(signal: &Signal) -> String {
    format!("v{} {} {:?}", signal.version(), signal.event.name(), signal.kinds)
}

#[tokio::test]
async fn pins_and_drifts_are_told_in_version_2_where_the_index_names_it() {
    let index = Index::willing().await;
    let machine = Machine::new();
    let telemetry = machine.telemetry(&index, Mode::Detection, None);
    show(&telemetry, &server("npm:docs"), [pinned("a"), hint_flipped("b")]);
    assert_eq!(settled(&telemetry).await.sent, 2);
    let signals = index.signals();
    assert_eq!(
        signals.iter().map(said).collect::<Vec<_>>(),
        ["v2 pin []", r#"v2 drift ["annotation-flip-to-destructive"]"#]
    );
    let key = FingerprintKey::public();
    assert_eq!(signals[0].server, key.server("npm:docs"));
    assert_eq!(signals[1].tool, key.tool("npm:docs", "b"));
    assert_eq!(signals[0].hour, Some(HOUR));
    let install = machine.kept().install(&index.base).unwrap();
    assert_eq!(Some(signals[0].install), install);
}

#[tokio::test]
async fn the_mode_says_what_is_asked_and_what_is_sent() {
    let known = "GET /.well-known/mcp-index.json";
    let asks = ["POST /api/v1/check", "POST /api/v1/drift/any"];
    let sends = ["POST /api/v1/drift/register", "POST /api/v1/drift"];
    for mode in Mode::ALL {
        let index = Index::willing().await;
        let telemetry = Machine::new().telemetry(&index, mode, None);
        show(&telemetry, &server("npm:docs"), [pinned("a")]);
        let expected: Vec<&str> = match mode {
            Mode::Off => Vec::new(),
            Mode::Lookup => [&[known], &asks[..]].concat(),
            Mode::Detection | Mode::Contribute => [&[known], &asks[..], &sends[..]].concat(),
        };
        if let Some(last) = expected.last() {
            index.until_asked(last, 1).await;
        }
        telemetry.finish().await;
        assert_eq!(index.questions(), expected, "{mode:?}");
    }
}

#[tokio::test]
async fn another_index_gets_version_1_and_no_drift_that_it_has_no_words_for() {
    let index = Index::start(|asked, _| {
        (asked.what == "GET /.well-known/mcp-index.json").then(|| (200, r#"{"name":"mcpindex"}"#.to_owned()))
    })
    .await;
    let telemetry = Machine::new().telemetry(&index, Mode::Contribute, None);
    show(&telemetry, &server("npm:docs"), [hint_flipped("b"), pinned("a")]);
    index.until_asked("POST /api/v1/drift", 1).await;
    assert_eq!(
        index.signals().iter().map(said).collect::<Vec<_>>(),
        ["v1 pin []"]
    );
    until("it was told", || telemetry.counts().sent == 1).await;
}

#[tokio::test]
async fn an_index_that_takes_no_signals_is_sent_none() {
    let index = Index::start(|asked, _| {
        (asked.what == "GET /.well-known/mcp-index.json").then(|| (200, r#"{"signals":null}"#.to_owned()))
    })
    .await;
    let machine = Machine::new();
    let telemetry = machine.telemetry(&index, Mode::Contribute, None);
    show(&telemetry, &server("npm:docs"), [pinned("a")]);
    until("it was noted", || {
        machine.kept().last_batch(&index.base).unwrap().is_some()
    })
    .await;
    telemetry.finish().await;
    assert!(index.bodies("/api/v1/drift").is_empty());
    assert!(index.bodies("/api/v1/drift/register").is_empty());
    let last = machine.kept().last_batch(&index.base).unwrap().unwrap();
    assert_eq!(last.failure.as_deref(), Some("it takes no signals"));
}

#[tokio::test]
async fn an_index_that_answers_400_is_sent_nothing_more_in_this_process_and_the_next() {
    let index = Index::start(|asked, _| {
        (asked.what == "POST /api/v1/drift").then(|| (400, r#"{"error":"invalid_signal"}"#.to_owned()))
    })
    .await;
    let machine = Machine::new();
    let telemetry = machine.telemetry(&index, Mode::Detection, None);
    show(&telemetry, &server("npm:docs"), [pinned("a")]);
    assert_eq!(settled(&telemetry).await.failed, 1);
    show(&telemetry, &server("npm:docs"), [pinned("b")]);
    // It is still asked about what is seen.
    index.until_asked("POST /api/v1/drift/any", 2).await;
    telemetry.finish().await;

    let next = machine.telemetry(&index, Mode::Detection, None);
    show(&next, &server("npm:docs"), [pinned("c")]);
    index.until_asked("POST /api/v1/drift/any", 3).await;
    next.finish().await;
    assert_eq!(index.bodies("/api/v1/drift").len(), 1, "400 was no invitation");
    let refused = machine.kept().refused(&index.base).unwrap().unwrap();
    assert_eq!((refused.error.as_str(), refused.version), ("invalid_signal", 2));

    machine.kept().forget().unwrap();
    let forgiven = machine.telemetry(&index, Mode::Detection, None);
    show(&forgiven, &server("npm:docs"), [pinned("d")]);
    index.until_asked("POST /api/v1/drift", 2).await;
}

/// How many times a batch is sent to an index that answers so to it.
async fn tries(answers: &'static [u16], expected: usize, sent: u64) {
    let index = Index::start(|asked, before| {
        let is_batch = asked.what == "POST /api/v1/drift";
        is_batch.then(|| -> Said { (*answers.get(before).unwrap_or(&204), String::new()) })
    })
    .await;
    let telemetry = Machine::new().telemetry(&index, Mode::Detection, None);
    show(&telemetry, &server("npm:docs"), [pinned("a")]);
    let counts = settled(&telemetry).await;
    telemetry.finish().await;
    assert_eq!(index.bodies("/api/v1/drift").len(), expected, "{answers:?}");
    assert_eq!((counts.sent, counts.failed), (sent, 1 - sent), "{answers:?}");
}

#[tokio::test]
async fn a_batch_is_tried_once_more_and_then_given_up() {
    tries(&[503], 2, 1).await;
    tries(&[429], 2, 1).await;
    tries(&[500, 502], 2, 0).await;
    // These say that another time would be no better.
    tries(&[422], 1, 0).await;
    tries(&[404], 1, 0).await;
    tries(&[401], 1, 0).await;
}

#[tokio::test]
async fn nothing_is_told_while_it_is_not_known_under_which_key() {
    let index =
        Index::start(|asked, _| (asked.what == "GET /api/v1/fingerprint-key").then(|| (500, String::new())))
            .await;
    let telemetry = Machine::new().telemetry(&index, Mode::Contribute, Some(KEY));
    show(&telemetry, &server("npm:docs"), [pinned("a")]);
    assert_eq!(settled(&telemetry).await.failed, 1);
    telemetry.finish().await;
    assert_eq!(
        index.questions(),
        [
            "GET /.well-known/mcp-index.json",
            "GET /api/v1/fingerprint-key",
            "GET /.well-known/mcp-index.json",
            "GET /api/v1/fingerprint-key",
        ]
    );
}

#[tokio::test]
async fn what_the_public_does_not_know_is_named_to_the_organisations_own_index_alone() {
    let inside = [
        command(),
        server("npm:docs?registry=https://packages.corp.example"),
        server("http://10.0.0.7/mcp"),
    ];
    let index = Index::willing().await;
    // A key of ours does not make it the organisation's: it has to hand one out for fingerprints.
    for key in [None, Some(KEY)] {
        let telemetry = Machine::new().telemetry(&index, Mode::Contribute, key);
        for server in &inside {
            show(&telemetry, server, [pinned("a")]);
        }
        assert_eq!(settled(&telemetry).await.left_out, 3);
        telemetry.finish().await;
    }
    let told: Vec<String> = index.questions();
    assert!(told.iter().all(|asked| asked.starts_with("GET ")), "{told:?}");

    let own = Index::start(|asked, _| {
        (asked.what == "GET /api/v1/fingerprint-key")
            .then(|| (200, format!(r#"{{"key":"{}"}}"#, "07".repeat(32))))
    })
    .await;
    let telemetry = Machine::new().telemetry(&own, Mode::Contribute, Some(KEY));
    for server in &inside {
        show(&telemetry, server, [pinned("a")]);
    }
    assert_eq!(settled(&telemetry).await.sent, 3);
    let key = FingerprintKey::new(&[7; 32]);
    let told: Vec<_> = own.signals().iter().map(|signal| signal.server).collect();
    let expected: Vec<_> = inside
        .iter()
        .map(|server| key.server(&server.to_string()))
        .collect();
    assert_eq!(told, expected);
    for asked in own.asked() {
        assert_eq!(asked.authorization, format!("Bearer {KEY}"), "{asked:?}");
        assert!(
            !asked.body.contains("secret-project") && !asked.body.contains("corp"),
            "{asked:?}"
        );
    }
}

/// Which headers signals and other questions come with, over two starts of a machine.
async fn proves(key: Option<&str>, of_signals: [&str; 2], of_others: [&str; 2]) {
    let index = Index::willing().await;
    let machine = Machine::new();
    for name in ["a", "b"] {
        let telemetry = machine.telemetry(&index, Mode::Detection, key);
        show(&telemetry, &server("npm:docs"), [pinned(name)]);
        assert_eq!(settled(&telemetry).await.sent, 1);
    }
    for asked in index.asked() {
        let expected = match asked.what.as_str() {
            "POST /api/v1/drift" => of_signals,
            _ => of_others,
        };
        let found = [asked.authorization.as_str(), asked.token.as_str()];
        assert_eq!(found, expected, "{asked:?}");
    }
    assert_eq!(
        index.bodies("/api/v1/drift/register").len(),
        1,
        "the token is kept"
    );
}

#[tokio::test]
async fn an_install_proves_itself_with_a_token_beside_its_key_or_in_its_place() {
    let token = "ab".repeat(32);
    proves(None, [&format!("Bearer {token}"), ""], ["", ""]).await;
    let key = format!("Bearer {KEY}");
    proves(Some(KEY), [&key, &token], [&key, ""]).await;
}

#[test]
fn a_token_is_not_sent_where_others_can_read_it() {
    let chosen = Chosen {
        base: Base::parse("http://index.example/").unwrap(),
        key: None,
    };
    let client = IndexClient::new(&chosen).unwrap();
    let refused = client.with_install_token(&SecretString::from("token"));
    assert!(matches!(refused, Err(IndexError::PlainHttp { .. })));
}

#[tokio::test]
async fn an_index_without_tokens_is_told_all_the_same() {
    let index = Index::start(|asked, _| {
        (asked.what == "POST /api/v1/drift/register").then(|| (404, r#"{"error":"not_found"}"#.to_owned()))
    })
    .await;
    let telemetry = Machine::new().telemetry(&index, Mode::Detection, None);
    show(&telemetry, &server("npm:docs"), [pinned("a")]);
    assert_eq!(settled(&telemetry).await.sent, 1);
}

#[tokio::test]
async fn two_indexes_see_two_installs() {
    let (one, other) = (Index::willing().await, Index::willing().await);
    let machine = Machine::new();
    for index in [&one, &other] {
        let telemetry = machine.telemetry(index, Mode::Detection, None);
        show(&telemetry, &server("npm:docs"), [pinned("a")]);
        assert_eq!(settled(&telemetry).await.sent, 1);
    }
    assert_ne!(one.signals()[0].install, other.signals()[0].install);
}

#[tokio::test]
async fn what_is_left_is_told_at_the_end() {
    let index = Index::willing().await;
    let hour = Duration::from_secs(3_600);
    let telemetry = Machine::new().with_pauses(&index, Mode::Detection, None, hour);
    let many = (0..300).map(|number| pinned(&format!("t{number}")));
    show(&telemetry, &server("npm:docs"), many);
    // 256 are a batch of their own, told at once.
    index.until_asked("POST /api/v1/drift", 1).await;
    telemetry.finish().await;
    assert_eq!(settled(&telemetry).await.sent, 300);
    assert_eq!(index.signals().len(), 300);
    show(&telemetry, &server("npm:docs"), [pinned("late")]);
    assert_eq!(telemetry.counts().dropped, 1);
}

#[tokio::test]
async fn the_end_does_not_wait_for_an_index_that_does_not_answer() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut index = Index::willing().await;
    let base = format!("http://{}/", dead.local_addr().unwrap());
    index.base = Base::parse(&base).unwrap();
    let telemetry = Machine::new().telemetry(&index, Mode::Detection, None);
    show(&telemetry, &server("npm:docs"), [pinned("a")]);
    // Ends by itself: the index never does, and its time-out is far longer than a test may take.
    telemetry.finish().await;
    assert_eq!(telemetry.counts().sent, 0);
}

/// An index that knows of drifts of `a` and `b`, and that nobody else sees `b` and `c` as we do.
async fn knowing() -> Index {
    Index::start(|asked, _| match asked.what.as_str() {
        "POST /api/v1/drift/any" => {
            let key = FingerprintKey::public();
            let fleet = |tool: &str, more: &str| {
                format!(r#""{0}":{{"fp":"{0}","drifted":true,{more}}}"#, key.tool("npm:docs", tool))
            };
            let a = fleet("a", r#""provenance":"installs","sources":25,"safety_relevant":false"#);
            let b = fleet("b", r#""provenance":"crawl","sources":1,"safety_relevant":true"#);
            Some((200, format!(r#"{{"results":{{{a},{b}}}}}"#)))
        }
        "POST /api/v1/check" => {
            let items: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
            let answers: Vec<String> = items["items"]
                .as_array()
                .unwrap()
                .iter()
                .enumerate()
                .map(|(place, _)| {
                    format!(
                        r#"{{"verdict":"unknown","reasons":[],"seen_by":{{}},"alone":{},"approval":"unknown"}}"#,
                        place > 0
                    )
                })
                .collect();
            Some((200, format!(r#"{{"items":[{}]}}"#, answers.join(","))))
        }
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_person_hears_what_others_see_in_one_line_each() {
    let index = knowing().await;
    let machine = Machine::new();
    let hour = Duration::from_secs(3_600);
    let telemetry = machine.with_pauses(&index, Mode::Lookup, None, hour);
    let others = (0..253).map(|number| hint_flipped(&format!("t{number}")));
    let mut withheld = pinned("c");
    withheld.sight = Sight::Withheld;
    let all = [pinned("a"), pinned("b"), withheld].into_iter().chain(others);
    show(&telemetry, &server("npm:docs"), all);
    until("two lines", || machine.advice().len() == 2).await;
    assert_snapshot!(machine.advice().join("\n"), @r#"
    mcpindex: others see another contract than you of b, c, t0 and 252 more on npm:docs: nobody else is known to be served this one
    mcpindex: a and b on npm:docs changed before, as seen by 25 installs, safety relevant; what is there now is pinned
    "#);
    let asked = index.asked();
    for asked in &asked {
        assert!(
            !asked.body.contains("docs") && !asked.body.contains("Searches"),
            "{asked:?}"
        );
    }
    assert_eq!(
        index.questions(),
        [
            "GET /.well-known/mcp-index.json",
            "POST /api/v1/check",
            "POST /api/v1/drift/any"
        ],
        "lookup asks and tells nothing"
    );
    let fps: serde_json::Value = serde_json::from_str(&asked[2].body).unwrap();
    assert_eq!(fps["fps"].as_array().unwrap().len(), 2, "only of what was pinned");
}

#[tokio::test]
async fn an_index_without_a_question_is_not_asked_it_again() {
    let index = Index::start(|asked, _| asked.what.starts_with("POST").then(|| (404, String::new()))).await;
    let machine = Machine::new();
    let telemetry = machine.telemetry(&index, Mode::Lookup, None);
    show(&telemetry, &server("npm:docs"), [pinned("a")]);
    index.until_asked("POST /api/v1/drift/any", 1).await;
    show(&telemetry, &server("npm:docs"), [pinned("b")]);
    telemetry.finish().await;
    assert_eq!(index.bodies("/api/v1/check").len(), 1);
    assert_eq!(index.bodies("/api/v1/drift/any").len(), 1);
    assert!(machine.advice().is_empty());
}

#[tokio::test]
async fn drifts_are_told_with_what_was_pinned_before() {
    let index = Index::willing().await;
    let telemetry = Machine::new().telemetry(&index, Mode::Contribute, None);
    show(&telemetry, &server("npm:docs"), [hint_flipped("a")]);
    assert_eq!(settled(&telemetry).await.sent, 1);
    let signals = index.signals();
    let [drift] = signals.as_slice() else {
        panic!("{signals:?}");
    };
    assert_eq!(drift.event, Event::Drift);
    assert_eq!(drift.hash_before.as_ref(), Some(&drift.hash_after));
    let digests = drift.digests.unwrap();
    assert_ne!(digests.before, Some(digests.after));
    assert!(drift.safety_relevant);
}
