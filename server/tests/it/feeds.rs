//! Feeds, badges and what an agent is told that found the address: valid, stable, cacheable, and to nobody who may not read.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use axum::http::Method;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;
use mcpindex_server::access::{AccessRules, Metrics, Rates, Read};
use mcpindex_server::login::settings::LoginSettings;
use mcpindex_store::accounts::{Role, Scope};
use mcpindex_store::testing::TestStore;
use serde_json::Value;

use crate::access::{Index, account, key};
use crate::browser;
use crate::client::{Client, NOW};
use crate::peers::path;
use crate::programs::{Place, client};
use crate::seed::{BROKEN, FILES, Look, PENDING, REMOTE, found, look, seed, surface, tool};

async fn seeded() -> (TestStore, Client) {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let client = Client(database.store.clone());
    (database, client)
}

fn short_id(reference: &str) -> String {
    Identity::from_reference(reference).unwrap().identity.short_id()
}

/// What a reader of other make finds in a feed, which it holds to RFC 4287.
fn read(feed: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/atom_reader.py");
    let mut reader = Command::new(path("venv/bin/python"))
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    reader.stdin.take().unwrap().write_all(feed.as_bytes()).unwrap();
    let read = reader.wait_with_output().unwrap();
    assert!(
        read.status.success(),
        "{}\n{feed}",
        String::from_utf8_lossy(&read.stderr)
    );
    serde_json::from_slice(&read.stdout).unwrap()
}

fn ids(feed: &Value) -> Vec<&str> {
    let entries = feed["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_feed_is_what_readers_take() {
    let (_database, client) = seeded().await;
    let answer = client.ok("/feeds/drifts.atom").await;
    assert_eq!(
        answer.header("content-type"),
        "application/atom+xml; charset=utf-8"
    );
    insta::assert_snapshot!("feed", answer.text());
    let all = read(&answer.text());
    assert_eq!(all["links"]["self"], "http://127.0.0.1:8080/feeds/drifts.atom");
    assert_eq!(all["updated"], all["entries"][0]["updated"]);

    let one = read(
        &client
            .ok(&format!("/feeds/servers/{}.atom", short_id(FILES)))
            .await
            .text(),
    );
    assert_eq!(ids(&one), ids(&all), "an entry is the same wherever it is read");
    assert_ne!(one["id"], all["id"]);
    assert_eq!(
        one["links"]["alternate"],
        format!("http://127.0.0.1:8080/servers/{}", short_id(FILES))
    );
    let empty = read(
        &client
            .ok(&format!("/feeds/servers/{}.atom", short_id(PENDING)))
            .await
            .text(),
    );
    assert_eq!(ids(&empty), Vec::<&str>::new());
}

#[tokio::test]
async fn a_search_has_a_feed_too() {
    let (database, client) = seeded().await;
    let other = |description: &str| surface(&[tool("read_weather", description)]);
    look(
        &database.store,
        "npm:clouds",
        found("1.0.0", NOW - 50, other("Tells the weather.")),
    )
    .await;
    look(
        &database.store,
        "npm:clouds",
        found("2.0.0", NOW - 40, other("Tells tomorrow's weather.")),
    )
    .await;
    let entries = async |path: &str| {
        let feed = read(&client.ok(path).await.text());
        ids(&feed).len()
    };
    assert_eq!(entries("/feeds/drifts.atom").await, 3);
    assert_eq!(entries("/feeds/drifts.atom?q=weather").await, 1);
    assert_eq!(entries("/feeds/drifts.atom?q=DIRECTORY&from=elsewhere").await, 2);
    assert_eq!(entries("/feeds/drifts.atom?q=read").await, 3);
    assert_eq!(entries("/feeds/drifts.atom?q=nothing-of-it").await, 0);
    assert_eq!(entries("/feeds/drifts.atom?q=%22%20*%20%26%20%3C").await, 0);
    let feed = read(&client.ok("/feeds/drifts.atom?q=a%26b%3C%22").await.text());
    assert_eq!(
        feed["links"]["self"],
        "http://127.0.0.1:8080/feeds/drifts.atom?q=a%26b%3C%22"
    );
    assert_eq!(feed["title"], "Drifts of “a&b<\"” · mcpindex");
    assert_eq!(
        client
            .get(&format!("/feeds/drifts.atom?q={}", "x".repeat(201)))
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn a_feed_has_the_latest_entries_and_no_word_of_a_server() {
    let (database, client) = seeded().await;
    for number in 0..60 {
        let hostile = format!("]]></summary><script>alert({number})</script>\u{1b}");
        let tools = surface(&[tool(&format!("evil_{number}"), &hostile)]);
        let version = ["1.0.0-<b>&\u{202e}", "2.0.0"][number % 2];
        let remote = Look {
            version: None,
            ..found(version, NOW - 1_000 + i64::try_from(number).unwrap(), tools)
        };
        look(&database.store, "https://many.example/mcp", remote).await;
    }
    let versions = [("1.0.0-<b>&\u{202e}", "First."), ("1.0.1", "Second.")];
    for (version, description) in versions {
        let tools = surface(&[tool("x", description)]);
        look(&database.store, "npm:odd-version", found(version, NOW - 5, tools)).await;
    }
    let text = client.ok("/feeds/drifts.atom").await.text();
    let feed = read(&text);
    assert_eq!(ids(&feed).len(), 50);
    assert!(!text.contains("evil_") && !text.contains("alert"), "{text}");
    let summary = feed["entries"][0]["summary"].as_str().unwrap();
    assert!(summary.starts_with("1.0.0-<b>&\\u{202e} → 1.0.1. "), "{summary}");
}

#[tokio::test]
async fn a_feed_that_a_reader_has_is_not_sent_again() {
    let (database, client) = seeded().await;
    let paths = [
        "/feeds/drifts.atom".to_owned(),
        "/feeds/drifts.atom?q=files".to_owned(),
        format!("/feeds/servers/{}.atom", short_id(FILES)),
    ];
    let mut tags = Vec::new();
    for path in &paths {
        let first = client.ok(path).await;
        assert_eq!(first.header("cache-control"), "no-cache");
        let tag = first.header("etag").to_owned();
        let again = client.send(Method::GET, path, &[("if-none-match", &tag)]).await;
        assert_eq!((again.status.as_u16(), again.bytes.len()), (304, 0), "{path}");
        tags.push(tag);
    }
    let again = surface(&[tool("read_file", "Reads.")]);
    look(&database.store, FILES, found("3.0.0", NOW - 5, again)).await;
    for (path, tag) in paths.iter().zip(&tags) {
        let answer = client.send(Method::GET, path, &[("if-none-match", tag)]).await;
        assert_eq!(answer.status, 200, "{path}");
    }
}

#[tokio::test]
async fn pages_lead_feed_readers_to_their_feeds() {
    let (_database, client) = seeded().await;
    let server = short_id(FILES);
    for (page, feed) in [
        ("/".to_owned(), "/feeds/drifts.atom".to_owned()),
        ("/drifts".to_owned(), "/feeds/drifts.atom".to_owned()),
        (
            "/servers?search=a%26b".to_owned(),
            "/feeds/drifts.atom?q=a%26b".to_owned(),
        ),
        (
            format!("/servers/{server}"),
            format!("/feeds/servers/{server}.atom"),
        ),
    ] {
        let text = client.ok(&page).await.text();
        let link = text
            .lines()
            .find(|line| line.contains(r#"rel="alternate" type="application/atom+xml""#))
            .unwrap_or_else(|| panic!("{page} has no feed"));
        assert!(link.contains(&format!(r#"href="{feed}""#)), "{page}: {link}");
        client.ok(&feed).await;
    }
    assert!(!client.ok("/servers").await.text().contains("atom+xml"));
    for missing in [
        "/feeds/servers/0123456789abcdef.atom",
        "/feeds/servers/x",
        "/feeds/drifts",
        "/feeds/",
    ] {
        assert_eq!(client.get(missing).await.status, 404, "{missing}");
    }
}

#[tokio::test]
async fn a_members_only_index_shows_its_feeds_to_members_and_at_their_own_paths() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let index = Index::members(&database.store);
    let of_files = format!("servers/{}.atom", short_id(FILES));
    let strange = format!("/feeds/t/mcpf_{}/drifts.atom", "0".repeat(36));
    for path in [
        "/feeds/drifts.atom",
        &format!("/feeds/{of_files}"),
        "/feeds/servers/0123456789abcdef.atom",
        "/feeds/no-such-feed",
        "/feeds/t/drifts.atom",
        "/feeds/t/0/drifts.atom",
        &strange,
    ] {
        let refused = index.get(path).await;
        assert_eq!(refused.status, 401, "{path}: {}", refused.text());
        assert_eq!(refused.header("www-authenticate"), "Bearer realm=\"mcpindex\"");
        assert!(!refused.text().contains("mcpf_0"), "{}", refused.text());
    }
    let reads = key(&database.store, &[Scope::Read]).await.text;
    assert_eq!(index.get_with(&reads, "/feeds/drifts.atom").await.status, 200);

    let state = index.get_with(&reads, "/api/v1/feed-path").await.json();
    assert_eq!(state["exists"], false);
    let made = index.ask(&reads, Method::POST, "/api/v1/feed-path", "").await;
    assert_eq!(
        (made.status.as_u16(), made.header("cache-control")),
        (201, "private, no-store")
    );
    let own = made.json()["path"].as_str().unwrap().to_owned();
    assert_eq!(
        made.json()["drifts"],
        format!("http://127.0.0.1:8080{own}drifts.atom")
    );
    let answer = index.get(&format!("{own}drifts.atom")).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (200, "private, no-cache")
    );
    let feed = read(&answer.text());
    assert_eq!(
        feed["links"]["self"],
        format!("http://127.0.0.1:8080{own}drifts.atom")
    );
    let plain = read(&index.get_with(&reads, "/feeds/drifts.atom").await.text());
    assert_eq!((&feed["id"], ids(&feed)), (&plain["id"], ids(&plain)));
    assert_eq!(index.get(&format!("{own}{of_files}")).await.status, 200);
    assert_eq!(index.get(&format!("{own}drifts.atom?q=files")).await.status, 200);
    // It opens nothing else, and is no key.
    assert_eq!(index.get(&format!("{own}servers")).await.status, 401);
    let token = own.trim_end_matches('/').rsplit('/').next().unwrap();
    assert_eq!(index.get_with(token, "/api/v1/servers").await.status, 401);
    let state = index.get_with(&reads, "/api/v1/feed-path").await.json();
    assert_eq!(
        (&state["exists"], &state["last_used_on"]),
        (&true.into(), &"2026-11-30".into())
    );

    let sends = key(&database.store, &[Scope::Ingest]).await.text;
    assert_eq!(
        index
            .ask(&sends, Method::POST, "/api/v1/feed-path", "")
            .await
            .status,
        403
    );
    let another = index
        .ask(&reads, Method::POST, "/api/v1/feed-path", "")
        .await
        .json();
    assert_eq!(
        index.get(&format!("{own}drifts.atom")).await.status,
        401,
        "it was replaced"
    );
    let own = another["path"].as_str().unwrap().to_owned();
    assert_eq!(index.get(&format!("{own}drifts.atom")).await.status, 200);
    assert_eq!(
        index
            .ask(&reads, Method::DELETE, "/api/v1/feed-path", "")
            .await
            .status,
        204
    );
    assert_eq!(index.get(&format!("{own}drifts.atom")).await.status, 401);
    index.stop().await;
}

#[tokio::test]
async fn a_disabled_accounts_feed_path_ends_and_guessing_is_held_up() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let index = Index::members(&database.store);
    let store = &database.store;
    let root = account(store, "root").await;
    store.set_role(root.id, Role::Admin, NOW).await.unwrap();
    let reads = key(store, &[Scope::Read]).await.text;
    let made = index
        .ask(&reads, Method::POST, "/api/v1/feed-path", "")
        .await
        .json();
    let own = format!("{}drifts.atom", made["path"].as_str().unwrap());
    assert_eq!(index.get(&own).await.status, 200);
    let ada = account(store, "ada").await;
    store.disable_account(ada.id, NOW).await.unwrap();
    assert_eq!(index.get(&own).await.status, 401);
    let mut statuses = Vec::new();
    for number in 0..61 {
        let guess = format!("/feeds/t/mcpf_{number:036}/drifts.atom");
        let answer = index.send("198.51.100.7", Method::GET, &guess, &[], "").await;
        statuses.push(answer.status.as_u16());
    }
    assert_eq!((statuses[0], statuses[59], statuses[60]), (401, 401, 429));
    assert_eq!(index.get(&own).await.status, 401, "others are not held up");
    index.stop().await;
}

#[tokio::test]
async fn somebody_makes_a_feed_path_on_their_page_and_ends_it() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let settings = LoginSettings {
        dev: true,
        ..LoginSettings::default()
    };
    let index = browser::Index::of_members(&database.store, &settings);
    let browser = index.browser();
    browser.post("/auth/dev", &[("login", "ada")]).await;
    assert_eq!(
        browser.get("/feeds/drifts.atom").await.status,
        200,
        "signed in is enough"
    );
    let page = browser.page("/account").await;
    assert!(
        page.contains("reads the feeds at an address of your own"),
        "{page}"
    );
    let token = browser.token("/account").await;
    let fields = [("csrf", token.as_str())];
    assert_eq!(
        browser
            .post("/account/feed-path", &[("csrf", "wrong")])
            .await
            .status,
        403
    );
    let made = browser.post("/account/feed-path", &fields).await;
    assert_eq!(
        (made.status.as_u16(), made.header("cache-control")),
        (200, "no-store")
    );
    let text = made.text();
    let at = text
        .find("http://127.0.0.1:8080/feeds/t/mcpf_")
        .expect("the address");
    let address = text[at..].split('<').next().unwrap();
    let own = address.strip_prefix("http://127.0.0.1:8080").unwrap();
    let stranger = index.browser();
    assert_eq!(stranger.get(own).await.status, 200);
    let page = browser.page("/account").await;
    assert!(page.contains("last used") && !page.contains("mcpf_"), "{page}");
    let ended = browser.post("/account/feed-path/end", &fields).await;
    assert_eq!(
        (ended.status.as_u16(), ended.header("location")),
        (303, "/account#feeds")
    );
    assert_eq!(stranger.get(own).await.status, 401);
}

#[tokio::test]
async fn no_feed_path_is_in_the_programs_log() {
    let place = Place::new();
    let made = place.run(&["admin", "create-key", "ci", "--json"]).await.json();
    let key = made["key"].as_str().unwrap().to_owned();
    let log = place.path("log");
    let file = std::fs::File::create(&log).unwrap();
    let settings = place.write("index.toml", "[access]\nread = \"members\"\n");
    let arguments = ["--no-crawl", "--log", "trace", "--config", &settings];
    let served = place.serve_logging(&arguments, file.into()).await;
    let client = client();
    let asked = client
        .post(format!("{}/api/v1/feed-path", served.base))
        .bearer_auth(&key);
    let made: Value = asked.send().await.unwrap().json().await.unwrap();
    let own = made["path"].as_str().unwrap().to_owned();
    let token = own.trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
    let mut statuses = Vec::new();
    for path in [
        format!("{own}drifts.atom"),
        format!("{own}no-such-feed"),
        own.replace("mcpf_", "mcpf%5f") + "drifts.atom",
        format!("/servers/{token}"),
    ] {
        let answer = client
            .get(format!("{}{path}", served.base))
            .bearer_auth(&key)
            .send()
            .await;
        statuses.push(answer.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 404, 401, 404]);
    served.terminate().await;
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("/feeds/t/…"), "the requests are in the log");
    assert!(!log.contains(&token[5..30]), "the token is in the log");
}

#[tokio::test]
async fn a_badge_says_how_a_server_stands() {
    let (database, client) = seeded().await;
    let calm = surface(&[tool("read_file", "Reads the whole text of one file.")]);
    look(&database.store, "npm:calm", found("1.0.0", NOW - 50, calm)).await;
    let mut shown = Vec::new();
    for reference in [FILES, REMOTE, BROKEN, PENDING, "npm:calm"] {
        let answer = client.ok(&format!("/badges/{}.svg", short_id(reference))).await;
        assert_eq!(answer.header("content-type"), "image/svg+xml");
        assert_eq!(answer.header("cache-control"), "public, max-age=300");
        assert_eq!(answer.header("cross-origin-resource-policy"), "cross-origin");
        assert!(!answer.header("etag").is_empty() && answer.bytes.len() < 1_500);
        let text = answer.text();
        for foreign in ["http://127", "url(", "style=", "<script", "@import", "xlink"] {
            assert!(!text.contains(foreign), "{text}");
        }
        let title = text.split("<title id=\"title\">").nth(1).unwrap();
        shown.push(title.split("</title>").next().unwrap().to_owned());
    }
    insta::assert_snapshot!("badge_titles", shown.join("\n"));
    insta::assert_snapshot!(
        "badge",
        client
            .ok(&format!("/badges/{}.svg", short_id(FILES)))
            .await
            .text()
    );
    for missing in [
        "0123456789abcdef.svg",
        "x.svg",
        &short_id(FILES),
        "npm%3Acalm.svg",
    ] {
        assert_eq!(
            client.get(&format!("/badges/{missing}")).await.status,
            404,
            "{missing}"
        );
    }
}

#[tokio::test]
async fn a_members_only_index_has_the_badges_that_were_made_public() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let rules = AccessRules {
        read: Read::Members,
        registry: Read::Members,
        rates: Rates::default(),
        proxies: Vec::new(),
        metrics: Metrics::Admins,
        badges: vec![short_id(FILES), short_id("npm:not-here")],
    };
    let index = Index::with(&database.store, rules, false);
    let public = index.get(&format!("/badges/{}.svg", short_id(FILES))).await;
    assert_eq!(
        (public.status.as_u16(), public.header("cache-control")),
        (200, "public, max-age=300")
    );
    let reads = key(&database.store, &[Scope::Read]).await.text;
    let mut bodies = Vec::new();
    for reference in [REMOTE, "npm:not-here", "npm:nowhere"] {
        let path = format!("/badges/{}.svg", short_id(reference));
        assert_eq!(index.get_with(&reads, &path).await.status, 404);
        let answer = index.get(&path).await;
        assert_eq!(answer.status, 404, "{reference}");
        let id = answer.header("x-request-id").to_owned();
        bodies.push(answer.text().replace(&id, "ID"));
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    index.stop().await;
}

#[tokio::test]
async fn an_agent_that_finds_the_address_is_told_how_to_ask() {
    let (database, client) = seeded().await;
    let answer = client.ok("/llms.txt").await;
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    insta::assert_snapshot!("llms", answer.text());
    let index = Index::members(&database.store);
    let answer = index.get("/llms.txt").await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(
        text.contains("needs a key in a header") && !text.contains("example/files"),
        "{text}"
    );
    assert!(
        text.contains("`mcpindex-server admin create-key`"),
        "nobody can sign in here: {text}"
    );
    index.stop().await;
    assert_eq!(
        database.store.find_server(FILES).await.unwrap().unwrap().outcome,
        Some(Outcome::Crashed)
    );
}
