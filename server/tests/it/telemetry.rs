//! Our own client beside an index of ours, as they run: what installs tell, proved by their tokens, another one is warned of.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpindex::clock::SystemClock;
use mcpindex::gate::sighting::{Sight, Sighting};
use mcpindex::index::{Base, Chosen};
use mcpindex::state::StateDirectory;
use mcpindex::telemetry::{Advice, BufferLimits, Counts, Mode, Pause, Pauses, Telemetry, TelemetryOptions};
use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::signal::FingerprintKey;
use mcpindex_store::accounts::Scope;
use mcpindex_store::{Location, Store};
use secrecy::SecretString;
use serde_json::json;

use crate::access::key;
use crate::programs::{Place, until};

const DESTRUCTIVE: &str = r#"{"name":"tidy","annotations":{"destructiveHint":true}}"#;

/// An install with its state here, and what it is told.
fn install(base: &str, key: Option<&str>, state: &Path, mode: Mode) -> (Telemetry, Arc<Mutex<Vec<Advice>>>) {
    let advice: Arc<Mutex<Vec<Advice>>> = Arc::default();
    let told = Arc::clone(&advice);
    let soon = Pause {
        from: Duration::ZERO,
        to: Duration::ZERO,
    };
    let telemetry = Telemetry::new(TelemetryOptions {
        mode,
        index: Chosen {
            base: Base::parse(base).unwrap(),
            key: key.map(SecretString::from),
        },
        state: StateDirectory::at(state),
        clock: Arc::new(SystemClock),
        say: Arc::new(move |one| told.lock().unwrap().push(one)),
        own_registries: mcpindex::telemetry::OwnRegistries::default(),
        pauses: Pauses {
            first: soon,
            between: soon,
            retry: soon,
        },
        limits: BufferLimits::default(),
    });
    (telemetry, advice)
}

fn show(telemetry: &Telemetry, server: &Identity, definition: &str, sight: Sight) {
    telemetry.watch(server, "tidy-server").seen(Sighting {
        tool: "tidy".to_owned(),
        definition: definition.into(),
        sight,
    });
}

#[tokio::test]
async fn what_installs_of_ours_saw_another_one_is_warned_of() {
    let place = Place::new();
    let settings = "[fleet]\nauthenticated_installs = 2\nauthenticated_networks = 1\n";
    let settings = place.write("index.toml", settings);
    let served = place.serve(&["--no-crawl", "--config", &settings]).await;
    let server = Identity::from_reference("npm:tidy-server").unwrap().identity;
    for number in 0..2 {
        let state = place.path(&format!("install-{number}"));
        let (telemetry, _) = install(&served.base, None, &state, Mode::Detection);
        // Nothing that the published hash covers is another: only version 2 can tell of it.
        let drifted = Sight::Drifted {
            before: DESTRUCTIVE.replace("true", "false").into(),
            kinds: vec![ChangeKind::AnnotationFlipToDestructive],
        };
        show(&telemetry, &server, DESTRUCTIVE, drifted);
        let told = Counts {
            offered: 1,
            asked: 1,
            sent: 1,
            ..Counts::default()
        };
        until("the drift is acknowledged", async || telemetry.counts() == told).await;
    }
    let fingerprint = FingerprintKey::public().tool("npm:tidy-server", "tidy");
    let question = format!("api/v1/drift/any?fp={fingerprint}");
    until("the drift is counted", async || {
        served.json(&question).await["drifted"] == true
    })
    .await;
    let answer = served.json(&question).await;
    assert_eq!(answer["corroboration"], json!("authenticated"), "{answer}");

    let (telemetry, advice) = install(&served.base, None, &place.path("install-that-asks"), Mode::Lookup);
    show(&telemetry, &server, DESTRUCTIVE, Sight::Pinned);
    until("the advice is told", async || !advice.lock().unwrap().is_empty()).await;
    let lines: Vec<String> = advice.lock().unwrap().iter().map(Advice::line).collect();
    let expected = "mcpindex: tidy on tidy-server changed before, as seen by 2 installs, safety relevant; what is there now is pinned";
    assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    assert_eq!(telemetry.counts().sent, 0);
    served.terminate().await;
}

#[tokio::test]
async fn who_is_alone_with_a_contract_of_a_server_inside_hears_of_it_from_the_organisations_index() {
    let place = Place::new();
    let settings = "[fleet]\nauthenticated_installs = 2\nauthenticated_networks = 1\n";
    let settings = place.write("index.toml", settings);
    let served = place.serve(&["--no-crawl", "--config", &settings]).await;
    let store = Store::open(&Location::Sqlite(place.path("data/mcpindex.db")))
        .await
        .unwrap();
    let key = key(&store, &[Scope::Read, Scope::Ingest]).await;
    store.close().await;
    // Nobody outside is to guess that there is such a server, so it is named under the organisation's key alone.
    let server = Identity::from_launch(&["./tidy-server".to_owned()])
        .unwrap()
        .identity;
    let seen = |number: usize, mode| {
        let state = place.path(&format!("install-{number}"));
        install(&served.base, Some(&key.text), &state, mode)
    };
    for number in 0..2 {
        let (telemetry, _) = seen(number, Mode::Contribute);
        show(&telemetry, &server, DESTRUCTIVE, Sight::Pinned);
        until("the pin is acknowledged", async || telemetry.counts().sent == 1).await;
        assert_eq!(telemetry.counts().left_out, 0);
    }
    let targeted = r#"{"name":"tidy","description":"Tidies up, and sends what it finds."}"#;
    // What was told is counted a moment later.
    let alone = Mutex::new(None);
    until("the advice is told", async || {
        let (telemetry, advice) = seen(2, Mode::Lookup);
        show(&telemetry, &server, targeted, Sight::Withheld);
        until("it was asked", async || telemetry.counts().asked == 1).await;
        *alone.lock().unwrap() = advice.lock().unwrap().first().map(Advice::line);
        alone.lock().unwrap().is_some()
    })
    .await;
    let expected = "mcpindex: others see another contract than you of tidy on tidy-server: nobody else is known to be served this one";
    assert_eq!(alone.lock().unwrap().as_deref(), Some(expected));

    let (telemetry, advice) = seen(3, Mode::Contribute);
    show(&telemetry, &server, DESTRUCTIVE, Sight::Pinned);
    until("the pin is acknowledged", async || telemetry.counts().sent == 1).await;
    assert!(
        advice.lock().unwrap().is_empty(),
        "who sees what others see is told nothing"
    );
    served.terminate().await;
}
