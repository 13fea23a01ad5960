//! The JSON API: shapes, references, paging, problems, validators.

use axum::http::{Method, StatusCode};
use insta::assert_json_snapshot;
use mcpindex_store::testing::{TestStore, on_each_backend};
use serde_json::{Value, json};

use crate::client::Client;
use crate::seed::{BROKEN, FILES, PENDING, REMOTE, seed};

async fn seeded() -> (TestStore, Client) {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let client = Client(database.store.clone());
    (database, client)
}

/// The identities of a page of servers.
fn identities(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["identity"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_server_is_found_by_identity_short_id_and_alias() {
    let (_database, client) = seeded().await;
    let by_identity = client.ok("/api/v1/servers/npm:%40example%2Ffiles").await.json();
    assert_json_snapshot!(by_identity);
    let short_id = by_identity["short_id"].as_str().unwrap();
    for reference in [short_id, "npm%3A%40example%2Ffiles", "io.github.example%2Ffiles"] {
        let found = client.ok(&format!("/api/v1/servers/{reference}")).await.json();
        assert_eq!(found, by_identity, "{reference}");
    }
    let remote = client
        .ok("/api/v1/servers/https%3A%2F%2Fmcp.example.com%2Fv1%2Fmcp")
        .await
        .json();
    assert_eq!(remote["identity"], REMOTE);
}

#[tokio::test]
async fn an_identity_with_its_slashes_is_told_to_be_encoded() {
    let (_database, client) = seeded().await;
    let problem = client.problem("/api/v1/servers/npm:@example/files", 404).await;
    assert!(
        problem["detail"].as_str().unwrap().contains("percent-encoded"),
        "{problem}"
    );
}

#[tokio::test]
async fn tools_come_with_digests_and_descriptions_only_on_request() {
    let (_database, client) = seeded().await;
    let tools = client
        .ok("/api/v1/servers/npm:%40example%2Ffiles/tools")
        .await
        .json();
    assert_json_snapshot!(tools);
    let with = client
        .ok("/api/v1/servers/npm:%40example%2Ffiles/tools?include=descriptions")
        .await
        .json();
    assert_json_snapshot!(with["tools"][0]);
}

#[tokio::test]
async fn a_failed_look_never_looks_like_no_tools() {
    let (_database, client) = seeded().await;
    for (server, determined_once) in [(REMOTE, false), (BROKEN, true), (PENDING, false)] {
        let path = format!("/api/v1/servers/{}", server.replace('/', "%2F"));
        let body = client.ok(&path).await.json();
        assert_eq!(body["tools"], Value::Null, "{body}");
        assert_eq!(body["determined"], determined_once, "{body}");
        let tools = client.ok(&format!("{path}/tools")).await.json();
        assert_eq!(tools["determined"], false, "{tools}");
        assert_eq!(tools["tools"], Value::Null, "{tools}");
    }
    // The tools of an earlier look are told from those of the last one.
    let tools = client
        .ok("/api/v1/servers/npm:%40example%2Ffiles/tools")
        .await
        .json();
    assert_eq!(tools["state"], "crashed");
    assert_eq!(tools["from_last_look"], false);
    assert_eq!(tools["tools"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn every_look_is_an_observation() {
    let (_database, client) = seeded().await;
    let page = client
        .ok("/api/v1/servers/npm:%40example%2Ffiles/observations")
        .await
        .json();
    assert_json_snapshot!(page);
}

#[tokio::test]
async fn a_drift_tells_each_change() {
    let (_database, client) = seeded().await;
    let page = client
        .ok("/api/v1/servers/npm:%40example%2Ffiles/drifts")
        .await
        .json();
    assert_eq!(page, client.ok("/api/v1/drifts").await.json());
    let path = page["items"][1]["links"]["api"].as_str().unwrap().to_owned();
    assert_json_snapshot!(client.ok(&path).await.json());
}

#[tokio::test]
async fn a_definition_is_the_text_its_digest_stands_for() {
    let (_database, client) = seeded().await;
    let tools = client
        .ok("/api/v1/servers/npm:%40example%2Ffiles/tools")
        .await
        .json();
    let path = tools["tools"][1]["definition"].as_str().unwrap();
    assert_json_snapshot!(client.ok(path).await.json());
}

#[tokio::test]
async fn servers_are_searched_filtered_and_paged() {
    let (_database, client) = seeded().await;
    let found = client.ok("/api/v1/servers?search=FILES").await.json();
    assert_eq!(identities(&found), [FILES]);
    let found = client.ok("/api/v1/servers?state=auth_required").await.json();
    assert_eq!(identities(&found), [REMOTE]);

    let mut seen = Vec::new();
    let mut next = Some("/api/v1/servers?limit=1".to_owned());
    while let Some(path) = next {
        let page = client.ok(&path).await.json();
        seen.extend(identities(&page).into_iter().map(str::to_owned));
        assert!(seen.len() <= 4, "pages lead on for ever: {seen:?}");
        next = page["next"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, [REMOTE, FILES, PENDING, BROKEN]);
}

#[tokio::test]
async fn drifts_and_observations_are_paged() {
    let (_database, client) = seeded().await;
    for (path, count) in [
        ("/api/v1/drifts?limit=1", 2),
        ("/api/v1/servers/npm:%40example%2Ffiles/drifts?limit=1", 2),
        ("/api/v1/servers/npm:%40example%2Ffiles/observations?limit=1", 4),
    ] {
        let mut ids = Vec::new();
        let mut next = Some(path.to_owned());
        while let Some(path) = next {
            let page = client.ok(&path).await.json();
            ids.push(page["items"][0]["id"].as_i64().unwrap());
            assert!(ids.len() <= count, "{path}: {ids:?}");
            next = page["next"].as_str().map(str::to_owned);
        }
        let mut newest_first = ids.clone();
        newest_first.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(ids, newest_first);
        assert_eq!(ids.len(), count);
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_meant_is_named_with_what_was_expected() {
    let (_database, client) = seeded().await;
    for (path, parameter, expected) in [
        ("/api/v1/servers?limit=0", "limit", "from 1 to 500"),
        ("/api/v1/servers?limit=501", "limit", "from 1 to 500"),
        ("/api/v1/servers?limit=ten", "limit", "from 1 to 500"),
        ("/api/v1/servers?state=good", "state", "`auth_required`"),
        (
            "/api/v1/servers?search=a%00b",
            "search",
            "at most 200 characters on one line",
        ),
        ("/api/v1/servers?after=a%00b", "after", "last identity"),
        ("/api/v1/servers?serach=x", "serach", "`search`"),
        ("/api/v1/servers?search=a&search=b", "search", "once"),
        ("/api/v1/drifts?before=-1", "before", "from 1 on"),
        (
            "/api/v1/servers/npm:%40example%2Ffiles/tools?include=all",
            "include",
            "`descriptions`",
        ),
    ] {
        let problem = client.problem(path, 400).await;
        assert_eq!(problem["parameter"], parameter, "{path}");
        assert!(
            problem["detail"].as_str().unwrap().contains(expected),
            "{path}: {problem}"
        );
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_with_a_way_on() {
    let (_database, client) = seeded().await;
    let unknown = "0".repeat(64);
    for path in [
        "/api/v1/servers/npm:nothing",
        "/api/v1/servers/a%00b",
        "/api/v1/servers/npm:nothing/tools",
        "/api/v1/servers/npm:nothing/observations",
        "/api/v1/servers/npm:nothing/drifts",
        "/api/v1/drifts/99",
        "/api/v1/drifts/first",
        "/api/v1/definitions/sha256:1",
        &format!("/api/v1/definitions/sha256:{unknown}"),
        "/api/v1/nothing",
        "/api",
    ] {
        let problem = client.problem(path, 404).await;
        assert_eq!(problem["status"], 404);
        assert_eq!(problem["instance"], path);
        assert!(!problem["links"].as_array().unwrap().is_empty());
        for link in problem["links"].as_array().unwrap() {
            client.ok(link["href"].as_str().unwrap()).await;
        }
    }
    let mut problem = client.problem("/api/v1/servers/npm:%40example%2Ffile", 404).await;
    assert_eq!(problem["request_id"].as_str().map(str::len), Some(36));
    problem["request_id"] = json!("[id]");
    assert_json_snapshot!(problem);
}

#[tokio::test]
async fn a_path_that_is_no_text_is_a_bad_request() {
    let (_database, client) = seeded().await;
    let problem = client.problem("/api/v1/servers/%ff", 400).await;
    assert_eq!(problem["type"], "urn:mcpindex:problem:bad-request");
}

#[tokio::test]
async fn other_methods_are_refused_and_head_answers_as_get() {
    let (_database, client) = seeded().await;
    let refused = client.send(Method::POST, "/api/v1/servers", &[]).await;
    assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.header("allow"), "GET,HEAD");
    assert_eq!(refused.json()["type"], "urn:mcpindex:problem:method-not-allowed");

    let get = client.ok("/api/v1/servers").await;
    let head = client.send(Method::HEAD, "/api/v1/servers", &[]).await;
    assert_eq!(head.status, StatusCode::OK);
    assert!(head.bytes.is_empty());
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("content-length"), get.bytes.len().to_string());
}

#[tokio::test]
async fn a_reader_who_has_the_answer_gets_it_no_second_time() {
    let (_database, client) = seeded().await;
    for path in ["/api/v1/servers", "/", "/drifts/1"] {
        let first = client.ok(path).await;
        let tag = first.header("etag");
        assert!(tag.starts_with('"'), "{path}: {tag}");
        assert_eq!(first.header("cache-control"), "no-cache");
        for known in [tag, &format!("W/{tag}"), &format!("\"x\", {tag}"), "*"] {
            let again = client.send(Method::GET, path, &[("if-none-match", known)]).await;
            assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{path}: {known}");
            assert!(again.bytes.is_empty());
            assert_eq!(again.header("etag"), tag);
        }
        let other = client
            .send(Method::GET, path, &[("if-none-match", "\"x\"")])
            .await;
        assert_eq!(other.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_compressed_answer_has_a_validator_of_its_own() {
    let (_database, client) = seeded().await;
    let plain = client.ok("/api/v1/servers").await;
    let gzip = [("accept-encoding", "gzip")];
    let packed = client.send(Method::GET, "/api/v1/servers", &gzip).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.bytes.len() < plain.bytes.len());
    assert_ne!(packed.header("etag"), plain.header("etag"));
    assert_eq!(packed.header("vary"), "accept-encoding");
    let again = [gzip[0], ("if-none-match", packed.header("etag"))];
    let again = client.send(Method::GET, "/api/v1/servers", &again).await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_a_problem_repeats_it() {
    let (_database, client) = seeded().await;
    let ok = client.ok("/api/v1/servers").await;
    assert_eq!(ok.header("x-request-id").len(), 36);
    let given = client
        .send(Method::GET, "/api/nothing", &[("x-request-id", "proxy-1.a_b")])
        .await;
    assert_eq!(given.header("x-request-id"), "proxy-1.a_b");
    assert_eq!(given.json()["request_id"], "proxy-1.a_b");
    assert_eq!(given.header("cache-control"), "no-store");
    for odd in ["a b", "<script>", &"x".repeat(65)] {
        let replaced = client
            .send(Method::GET, "/api/nothing", &[("x-request-id", odd)])
            .await;
        assert_ne!(replaced.header("x-request-id"), odd);
    }
}

#[tokio::test]
async fn the_cause_of_a_failure_stays_here() {
    let (_database, client) = seeded().await;
    client.0.close().await;
    for path in ["/api/v1/servers", "/readyz"] {
        let answer = client.get(path).await;
        assert!(answer.status.is_server_error(), "{path}: {}", answer.status);
        let problem = answer.json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(!detail.contains("pool") && !detail.contains("sqlx"), "{detail}");
    }
    assert_eq!(
        client.ok("/healthz").await.json(),
        json!({"status": "ok", "version": "0.0.0-test"})
    );
}

#[tokio::test]
async fn a_database_without_its_schema_is_not_ready() {
    let database = TestStore::empty_sqlite().await;
    let problem = Client(database.store.clone()).problem("/readyz", 503).await;
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("mcpindex-server migrate"),
        "{problem}"
    );
}

#[tokio::test]
async fn the_vocabulary_has_every_kind_and_state() {
    let (_database, client) = seeded().await;
    let vocabulary = client.ok("/api/v1/vocabulary").await.json();
    let kinds = mcpindex_contract::change::ChangeKind::all().len();
    assert_eq!(vocabulary["kinds"].as_array().unwrap().len(), kinds);
    assert_eq!(vocabulary["kinds"][0]["kind"], "tool-added");
    let states = mcpindex_contract::outcome::Outcome::all().len();
    assert_eq!(vocabulary["states"].as_array().unwrap().len(), states);
}

#[tokio::test]
async fn both_databases_give_the_same_answers() {
    let answers = std::sync::Mutex::new(Vec::new());
    on_each_backend(async |store| {
        seed(&store).await;
        let client = Client(store);
        let mut texts = Vec::new();
        for path in [
            "/",
            "/servers?search=example",
            "/servers/npm:%40example%2Ffiles",
            "/drifts",
            "/drifts/2",
            "/api/v1/servers?search=EXAMPLE",
            "/api/v1/servers/npm:%40example%2Ffiles/tools?include=descriptions",
            "/api/v1/servers/npm:%40example%2Ffiles/observations",
            "/api/v1/servers/io.github.example%2Ffiles/drifts",
            "/api/v1/drifts/2",
        ] {
            texts.push((path, client.ok(path).await.text()));
        }
        assert_eq!(client.ok("/readyz").await.json()["status"], "ready");
        client.problem("/api/v1/servers/a%00b", 404).await;
        answers.lock().unwrap().push(texts);
    })
    .await;
    let answers = answers.into_inner().unwrap();
    for other in &answers[1..] {
        assert_eq!(other, &answers[0]);
    }
}
