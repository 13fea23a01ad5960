//! The registry as hosts ask it: in the official form, for those who may, and only with what the organisation allows.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Method;
use mcpindex_contract::approval::Decision;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;
use mcpindex_crawler::sources::registry::{Reached, read_page};
use mcpindex_server::access::{Access, AccessRules, Read};
use mcpindex_server::app::App;
use mcpindex_server::registry::Policy;
use mcpindex_server::router::router;
use mcpindex_store::Store;
use mcpindex_store::accounts::Scope;
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::testing::{TestStore, on_each_backend};
use serde_json::{Value, json};

use crate::access::key;
use crate::client::{Answer, NOW, answer, app, clock, request};
use crate::seed::{Look, found, look, seed, surface, tool};

const NOTES: &str = "npm:notes";

/// Asks a registry with this policy, which everybody may read.
async fn ask_with(
    store: &Store,
    policy: Policy,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let app = App {
        registry: policy,
        ..app(store.clone())
    };
    answer(router(app), request(method, path, headers, Body::empty())).await
}

async fn ask(store: &Store, policy: Policy, path: &str) -> Answer {
    ask_with(store, policy, Method::GET, path, &[]).await
}

async fn ok(store: &Store, policy: Policy, path: &str) -> Value {
    let answer = ask(store, policy, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// The status and the official error.
async fn error(store: &Store, policy: Policy, path: &str) -> String {
    let answer = ask(store, policy, path).await;
    assert_eq!(answer.header("content-type"), "application/json");
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    format!("{} {}", answer.status.as_u16(), body["error"].as_str().unwrap())
}

/// Name, version, whether it is the latest, and status, of each entry.
fn shown(page: &Value) -> Vec<String> {
    let entries = page["servers"].as_array().unwrap();
    assert_eq!(page["metadata"]["count"], entries.len());
    entries.iter().map(entry).collect()
}

/// One entry, which must have the official form.
fn entry(entry: &Value) -> String {
    let server = &entry["server"];
    let official = &entry["_meta"]["io.modelcontextprotocol.registry/official"];
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{entry}")).to_owned();
    for time in ["publishedAt", "updatedAt", "statusChangedAt"] {
        assert!(text(&official[time]).ends_with('Z'), "{entry}");
    }
    assert!(text(&server["$schema"]).ends_with("/2025-12-11/server.schema.json"));
    assert!((1..=100).contains(&text(&server["description"]).chars().count()));
    let transports = server["packages"]
        .as_array()
        .into_iter()
        .chain(server["remotes"].as_array())
        .flatten();
    assert_eq!(transports.count(), 1, "{entry}");
    format!(
        "{} {} {} {}",
        text(&server["name"]),
        text(&server["version"]),
        official["isLatest"],
        text(&official["status"])
    )
}

/// What the crawler of another index reads of a page: each entry leads to the server that it was made of.
fn check_is_read(page: &Value) {
    let read = read_page(page.to_string().as_bytes()).unwrap();
    assert_eq!(read.skipped, []);
    let written = page["servers"].as_array().unwrap();
    assert_eq!(read.entries.len(), written.len());
    for (entry, written) in read.entries.iter().zip(written) {
        let [reached] = entry.reached.as_slice() else {
            panic!("{:?}", entry.reached);
        };
        let identity = match reached {
            Reached::Target { spec } => &spec.identity,
            Reached::NeedsContainerRuntime { identity, .. } => identity,
            other => panic!("{other:?}"),
        };
        let ours = &written["_meta"]["dev.mcpindex/verdict"];
        assert_eq!(ours["identity"], identity.to_string());
        assert!(entry.updated_at.is_some(), "{written}");
    }
}

async fn decide(store: &Store, tools: &[(&Value, Decision)]) {
    let decisions: Vec<NewDecision> = tools
        .iter()
        .map(|(tool, decision)| NewDecision {
            identity: NOTES.to_owned(),
            tool: tool["name"].as_str().unwrap().to_owned(),
            digest: Definition::read(&tool.to_string()).digest(),
            decision: *decision,
            reason: None,
            reference: None,
            expires_at: None,
        })
        .collect();
    let seen = store.approvals_head("default").await.unwrap();
    let appended = store.append_approvals("default", &decisions, "ada@local", 1, seen, NOW);
    assert!(matches!(appended.await.unwrap(), Appended::Done(_)));
}

#[tokio::test]
async fn servers_and_their_versions_are_told_in_the_official_form() {
    on_each_backend(async |store| {
        seed(&store).await;
        let remote = Look {
            version: None,
            at: NOW - 50,
            outcome: Outcome::Ok,
            detail: None,
            surface: Some(surface(&[tool("read", "Reads.")])),
        };
        look(&store, "https://notes.example.com/mcp", remote).await;
        let page = ok(&store, Policy::All, "/v0.1/servers").await;
        check_is_read(&page);
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&page).join("\n"), @r#"
            com.example.notes/mcp-319f79b4f36e2059 0.0.0-7dd057834e20 true active
            io.github.example/files 2.0.0 true active
            io.github.example/files 1.1.0 false active
            io.github.example/files 1.0.0 false active
            pypi/example-weather 0.4.1 true active
            "#);
        }
        let latest = ok(
            &store,
            Policy::All,
            "/v0.1/servers?version=latest&search=Example%2FFiles",
        )
        .await;
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(latest, @r#"
            {
              "metadata": {
                "count": 1
              },
              "servers": [
                {
                  "_meta": {
                    "dev.mcpindex/verdict": {
                      "approval": "none",
                      "declaredSince": "2026-11-28T17:04:05Z",
                      "identity": "npm:@example/files",
                      "lastLookGood": false,
                      "page": "http://127.0.0.1:8080/servers/0791c44a3bc1ff48",
                      "policy": "all",
                      "tools": 10
                    },
                    "io.modelcontextprotocol.registry/official": {
                      "isLatest": true,
                      "publishedAt": "2026-11-28T16:54:05Z",
                      "status": "active",
                      "statusChangedAt": "2026-11-28T17:04:05Z",
                      "updatedAt": "2026-11-28T17:04:05Z"
                    }
                  },
                  "server": {
                    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
                    "description": "The npm package @example/files",
                    "name": "io.github.example/files",
                    "packages": [
                      {
                        "identifier": "@example/files",
                        "registryType": "npm",
                        "runtimeHint": "npx",
                        "transport": {
                          "type": "stdio"
                        },
                        "version": "2.0.0"
                      }
                    ],
                    "version": "2.0.0"
                  }
                }
              ]
            }
            "#);
        }
        let versions = ok(
            &store,
            Policy::All,
            "/v0.1/servers/io.github.example%2Ffiles/versions",
        )
        .await;
        assert_eq!(shown(&versions).len(), 3);
        let one = "/v0.1/servers/io.github.example%2Ffiles/versions/1.0.0";
        assert_eq!(
            entry(&ok(&store, Policy::All, one).await),
            "io.github.example/files 1.0.0 false active"
        );
        let latest = "/v0.1/servers/io.github.example%2Ffiles/versions/latest";
        assert!(entry(&ok(&store, Policy::All, latest).await).contains(" true active"));
        let ours = &ok(&store, Policy::All, latest).await["_meta"]["dev.mcpindex/verdict"];
        assert_eq!(
            (&ours["verdict"], &ours["reasons"][0]),
            (&json!("needs-person"), &json!("changed-lately"))
        );
        let remote = ok(&store, Policy::All, "/v0.1/servers?search=com.example.notes").await;
        let expected = json!([{"type": "streamable-http", "url": "https://notes.example.com/mcp"}]);
        assert_eq!(remote["servers"][0]["server"]["remotes"], expected);
    })
    .await;
}

#[tokio::test]
async fn pages_follow_each_other_over_servers_and_versions_without_gap() {
    on_each_backend(async |store| {
        seed(&store).await;
        let whole = shown(&ok(&store, Policy::All, "/v0.1/servers?limit=100").await);
        assert!(whole.len() > 3, "{whole:?}");
        for limit in [1, 2, 3] {
            let (mut cursor, mut all) = (None::<String>, Vec::new());
            loop {
                let mut query = url::form_urlencoded::Serializer::new(String::new());
                query.append_pair("limit", &limit.to_string());
                if let Some(cursor) = &cursor {
                    query.append_pair("cursor", cursor);
                }
                let page = ok(&store, Policy::All, &format!("/v0.1/servers?{}", query.finish())).await;
                let entries = shown(&page);
                assert!(entries.len() <= limit);
                all.extend(entries);
                cursor = page["metadata"]["nextCursor"].as_str().map(str::to_owned);
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(all, whole, "{limit}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_drifted_since_it_was_approved_is_delisted_and_mirrors_learn_it() {
    on_each_backend(async |store| {
        let (read, list) = (tool("read", "Reads."), tool("list", "Lists."));
        let reworded = tool("list", "Lists everything that is there.");
        let mut narrower = list.clone();
        narrower["inputSchema"]["properties"]["page"] = json!({"type": "integer"});
        let names = async |policy: Policy, path: &str| shown(&ok(&store, policy, path).await);
        let list_path = "/v0.1/servers?version=latest";
        look(
            &store,
            NOTES,
            found("1.0.0", NOW - 500, surface(&[read.clone(), list.clone()])),
        )
        .await;
        // Nobody has decided about it.
        assert_eq!(
            names(Policy::All, list_path).await,
            ["npm/notes 1.0.0 true active"]
        );
        assert!(names(Policy::Approved, list_path).await.is_empty());
        assert!(names(Policy::NotDrifted, list_path).await.is_empty());
        decide(&store, &[(&read, Decision::Approve)]).await;
        assert!(names(Policy::Approved, list_path).await.is_empty());
        decide(&store, &[(&list, Decision::Approve)]).await;
        for policy in [Policy::Approved, Policy::NotDrifted] {
            assert_eq!(names(policy, list_path).await, ["npm/notes 1.0.0 true active"]);
        }
        // What gates let through by themselves is no drift that matters.
        look(
            &store,
            NOTES,
            found("1.1.0", NOW - 400, surface(&[read.clone(), narrower])),
        )
        .await;
        assert!(names(Policy::Approved, list_path).await.is_empty());
        assert_eq!(
            names(Policy::NotDrifted, list_path).await,
            ["npm/notes 1.1.0 true active"]
        );
        // What they hold is, and so the whole server is gone: hosts match it by its name.
        look(
            &store,
            NOTES,
            found("2.0.0", NOW - 300, surface(&[read.clone(), reworded.clone()])),
        )
        .await;
        for policy in [Policy::Approved, Policy::NotDrifted] {
            assert!(names(policy, list_path).await.is_empty());
            let gone = error(&store, policy, "/v0.1/servers/npm%2Fnotes/versions/latest").await;
            assert_eq!(gone, "404 no server of that name is listed");
            let told = names(policy, "/v0.1/servers?version=latest&include_deleted=true").await;
            assert_eq!(told, ["npm/notes 2.0.0 true deleted"]);
            let told = names(
                policy,
                "/v0.1/servers?version=latest&updated_since=2026-11-30T16:50:00Z",
            )
            .await;
            assert_eq!(told, ["npm/notes 2.0.0 true deleted"]);
            let told = names(policy, "/v0.1/servers?updated_since=2026-11-30T17:30:00Z").await;
            assert!(told.is_empty(), "{told:?}");
        }
        decide(&store, &[(&reworded, Decision::Approve)]).await;
        assert_eq!(
            names(Policy::Approved, list_path).await,
            ["npm/notes 2.0.0 true active"]
        );
        decide(&store, &[(&read, Decision::Refuse)]).await;
        for policy in [Policy::Approved, Policy::NotDrifted] {
            assert!(names(policy, list_path).await.is_empty());
        }
        assert_eq!(
            names(Policy::All, list_path).await,
            ["npm/notes 2.0.0 true active"]
        );
    })
    .await;
}

#[tokio::test]
async fn what_can_not_be_told_in_the_official_form_is_not_listed() {
    on_each_backend(async |store| {
        let tools = [tool("read", "Reads.")];
        look(
            &store,
            "npm:notes?registry=https://npm.acme.example/",
            found("1.0.0", NOW - 500, surface(&tools)),
        )
        .await;
        look(&store, "pypi:notes", found("1.0.0", NOW - 500, surface(&tools))).await;
        assert_eq!(
            shown(&ok(&store, Policy::All, "/v0.1/servers").await),
            ["pypi/notes 1.0.0 true active"]
        );
        let about = "/v0.1/servers?search=";
        for (search, found) in [
            ("pypi", 1),
            ("PyPI%2Fno", 1),
            ("notes", 1),
            ("npm", 0),
            ("%25", 0),
            ("otes%2F", 0),
        ] {
            assert_eq!(
                shown(&ok(&store, Policy::All, &format!("{about}{search}")).await).len(),
                found,
                "{search}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn what_can_not_be_meant_is_told_in_the_official_form() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    seed(store).await;
    let mut lines = Vec::new();
    for path in [
        "servers?limit=0",
        "servers?limit=many",
        "servers?updated_since=yesterday",
        "servers?include_deleted=perhaps",
        "servers?cursor=x",
        "servers/no-name/versions",
        "servers/npm%2Fnothing/versions",
        "servers/npm%2Fnothing/versions/latest",
        "servers/io.github.example%2Ffiles/versions/9.9.9",
        "nothing",
    ] {
        lines.push(error(store, Policy::All, &format!("/v0.1/{path}")).await);
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    400 the parameter `limit` can't be used: expected a whole number from 1 to 100
    400 the parameter `limit` can't be used: expected a whole number from 1 to 100
    400 the parameter `updated_since` can't be used: expected a time like 2026-12-31T00:00:00Z
    400 the parameter `include_deleted` can't be used: expected `true` or `false`
    400 the parameter `cursor` can't be used: expected `nextCursor` of the page before
    404 that is no server's name
    404 no server of that name is listed
    404 no server of that name is listed
    404 no such version of the server is listed
    404 no page or call has this address
    "#);
    // Parameters of later versions are nobody's business.
    assert_eq!(ask(store, Policy::All, "/v0.1/servers?later=1").await.status, 200);
    assert_eq!(
        ask_with(store, Policy::All, Method::POST, "/v0.1/servers", &[])
            .await
            .status,
        405
    );
}

/// As the host's documentation has its requests: a preflight from its page, the list, one server's latest version and one named.
#[tokio::test]
async fn a_host_that_enforces_a_registry_gets_what_it_asks_for() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    seed(store).await;
    let origin = ("origin", "https://vscode.dev");
    let preflight = [
        origin,
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "authorization"),
    ];
    let answer = ask_with(store, Policy::All, Method::OPTIONS, "/v0.1/servers", &preflight).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(
        answer.header("access-control-allow-methods"),
        "GET, HEAD, OPTIONS"
    );
    assert!(
        answer
            .header("access-control-allow-headers")
            .contains("Authorization")
    );
    let name = "io.github.example%2Ffiles";
    for path in [
        "/v0.1/servers?limit=50&version=latest".to_owned(),
        format!("/v0.1/servers/{name}/versions/latest"),
        format!("/v0.1/servers/{name}/versions/1.0.0"),
    ] {
        let answer = ask_with(store, Policy::All, Method::GET, &path, &[origin]).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        let known = [origin, ("if-none-match", answer.header("etag"))];
        assert_eq!(
            ask_with(store, Policy::All, Method::GET, &path, &known)
                .await
                .status,
            304
        );
    }
}

#[tokio::test]
async fn who_may_read_the_registry_is_a_switch_of_its_own() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    seed(store).await;
    let reader = key(store, &[Scope::Read]).await;
    let sender = key(store, &[Scope::Ingest]).await;
    let status = async |read: Read, registry: Read, key: Option<&str>, method: Method, path: &str| {
        let rules = AccessRules {
            read,
            registry,
            ..Access::public().rules
        };
        let app = App {
            access: Arc::new(Access::new(rules, clock())),
            ..app(store.clone())
        };
        let bearer = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<(&str, &str)> = bearer
            .iter()
            .map(|bearer| ("authorization", bearer.as_str()))
            .collect();
        let answer = answer(router(app), request(method, path, &headers, Body::empty())).await;
        if answer.status == 401 {
            assert!(
                answer.json()["error"].is_string() || !path.starts_with("/v0.1"),
                "{}",
                answer.text()
            );
        }
        answer.status.as_u16()
    };
    let (list, pages) = ("/v0.1/servers", "/api/v1/servers");
    let get = Method::GET;
    assert_eq!(
        status(Read::Members, Read::Public, None, get.clone(), list).await,
        200
    );
    assert_eq!(
        status(Read::Members, Read::Public, None, get.clone(), pages).await,
        401
    );
    assert_eq!(
        status(Read::Public, Read::Members, None, get.clone(), list).await,
        401
    );
    assert_eq!(
        status(Read::Public, Read::Members, None, get.clone(), pages).await,
        200
    );
    assert_eq!(
        status(
            Read::Members,
            Read::Members,
            Some(&reader.text),
            get.clone(),
            list
        )
        .await,
        200
    );
    assert_eq!(
        status(Read::Members, Read::Members, Some(&sender.text), get, list).await,
        403
    );
    assert_eq!(
        status(Read::Members, Read::Members, None, Method::OPTIONS, list).await,
        204
    );
}

#[tokio::test]
async fn a_name_that_leads_to_several_servers_is_the_name_of_none() {
    on_each_backend(async |store| {
        let tools = [tool("read", "Reads.")];
        for reference in ["npm:one", "npm:two"] {
            look(&store, reference, found("1.0.0", NOW - 500, surface(&tools))).await;
        }
        let alias = async |reference: &str| {
            let identity = Identity::from_reference(reference).unwrap().identity;
            store
                .add_alias("io.github.example/both", &identity, "test", NOW)
                .await
                .unwrap();
        };
        alias("npm:one").await;
        let names = async || shown(&ok(&store, Policy::All, "/v0.1/servers").await);
        assert_eq!(
            names().await,
            [
                "io.github.example/both 1.0.0 true active",
                "npm/two 1.0.0 true active"
            ]
        );
        // The refused one of two forms must not pass under the name of the other.
        alias("npm:two").await;
        assert_eq!(
            names().await,
            ["npm/one 1.0.0 true active", "npm/two 1.0.0 true active"]
        );
        let gone = error(
            &store,
            Policy::All,
            "/v0.1/servers/io.github.example%2Fboth/versions/latest",
        )
        .await;
        assert_eq!(gone, "404 no server of that name is listed");
    })
    .await;
}

#[tokio::test]
async fn mirrors_learn_that_an_approval_has_ended() {
    on_each_backend(async |store| {
        let read = tool("read", "Reads.");
        look(
            &store,
            NOTES,
            found("1.0.0", NOW - 90_000, surface(std::slice::from_ref(&read))),
        )
        .await;
        let approval = NewDecision {
            identity: NOTES.to_owned(),
            tool: "read".to_owned(),
            digest: Definition::read(&read.to_string()).digest(),
            decision: Decision::Approve,
            reason: None,
            reference: None,
            expires_at: Some(NOW - 600),
        };
        let decided_at = NOW - 80_000;
        let approval = [approval];
        let appended = store.append_approvals("default", &approval, "ada@local", 1, 0, decided_at);
        assert!(matches!(appended.await.unwrap(), Appended::Done(_)));
        // Half an hour ago it was listed; the approval ended ten minutes ago.
        let since = "/v0.1/servers?updated_since=2026-11-30T16:34:05Z";
        let told = shown(&ok(&store, Policy::Approved, since).await);
        assert_eq!(told, ["npm/notes 1.0.0 true deleted"]);
        let later = "/v0.1/servers?updated_since=2026-11-30T17:00:00Z";
        assert!(shown(&ok(&store, Policy::Approved, later).await).is_empty());
    })
    .await;
}
