//! The pages: what stands on them, that a server's text stays text, and that every link leads somewhere.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use insta::assert_snapshot;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Instructions, Listing, Member, MemberKind, Surface};
use mcpindex_store::Store;
use mcpindex_store::targets::NewTarget;
use mcpindex_store::testing::TestStore;
use serde_json::json;

use crate::client::{Client, NOW};
use crate::seed::{BROKEN, FILES, Look, PENDING, REMOTE, found, look, seed, surface, tool};

async fn seeded() -> (TestStore, Client) {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let client = Client(database.store.clone());
    (database, client)
}

fn page_of(identity: &str) -> String {
    format!("/servers/{}", identity.replace('/', "%2F"))
}

/// The main part of a page as a reader without styles sees it, one line for each block.
pub(crate) fn read(html: &str) -> String {
    let main = html.split_once("<main").unwrap().1.split_once('>').unwrap().1;
    let main = main.split_once("</main>").unwrap().0;
    let mut text = String::new();
    for piece in main.split('<') {
        let (tag, rest) = piece.split_once('>').unwrap_or(("", piece));
        match tag.trim_start_matches('/').split(' ').next().unwrap_or_default() {
            "del" => text.push_str(if tag.starts_with('/') { "-]" } else { "[-" }),
            "ins" => text.push_str(if tag.starts_with('/') { "+]" } else { "[+" }),
            "span" | "a" | "code" | "time" | "strong" | "" => {}
            "td" | "th" => text.push_str(" | "),
            _ => text.push('\n'),
        }
        text.push_str(rest);
    }
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines
        .filter(|line| !line.chars().all(|c| c == '|' || c == ' '))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every tag of a page: its name and its attributes' names, read crudely but without knowing what is ours.
fn tags(html: &str) -> Vec<(String, Vec<String>)> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let Some(first) = rest.chars().next() else { break };
        if !first.is_ascii_alphabetic() && !"/!?".contains(first) {
            panic!(
                "a bare `<` before {:?}",
                rest.chars().take(20).collect::<String>()
            );
        }
        let end = rest.find('>').expect("a tag that ends");
        let tag = &rest[..end];
        let name = tag
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .trim_start_matches('/')
            .to_owned();
        // Values are in double quotes in all our templates.
        let attributes = tag.split('"').step_by(2).flat_map(str::split_whitespace).skip(1);
        let attributes = attributes
            .filter(|word| *word != "/")
            .map(|word| word.trim_end_matches('=').to_owned());
        tags.push((name, attributes.collect()));
        rest = &rest[end..];
    }
    tags
}

/// The paths of all links of a page within the site.
fn links(html: &str) -> BTreeSet<String> {
    html.split("href=\"")
        .skip(1)
        .map(|rest| {
            rest.split('"')
                .next()
                .unwrap()
                .replace("&#38;", "&")
                .replace("&amp;", "&")
        })
        .map(|link| link.split('#').next().unwrap().to_owned())
        .filter(|link| !link.is_empty())
        .collect()
}

#[tokio::test]
async fn an_empty_index_says_what_to_do() {
    let database = TestStore::sqlite().await;
    let page = Client(database.store.clone()).ok("/").await.text();
    assert_snapshot!(read(&page));
    assert!(!page.contains("http-equiv"), "nothing to wait for");
}

#[tokio::test]
async fn home_shows_the_latest_drifts_and_how_servers_stand() {
    let (_database, client) = seeded().await;
    let page = client.ok("/").await.text();
    assert_snapshot!(read(&page));
    assert!(!page.contains("http-equiv"));
}

#[tokio::test]
async fn home_refreshes_itself_only_while_looks_are_under_way() {
    let (_database, client) = seeded().await;
    let identity = Identity::from_reference(FILES).unwrap().identity;
    let target = NewTarget {
        identity,
        version: Some("3.0.0".to_owned()),
        launch: "{}".to_owned(),
        source: "shell".to_owned(),
        every: None,
        due: NOW,
    };
    client.0.add_target(&target, NOW).await.unwrap();
    let page = client.ok("/").await.text();
    assert!(page.contains(r#"<meta http-equiv="refresh" content="5">"#));
    assert!(page.contains("0 of 1 looks done"));
}

#[tokio::test]
async fn a_search_from_the_home_page_leads_to_the_list() {
    let (_database, client) = seeded().await;
    let answer = client.get("/?q=npm%3A%40x+y").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.header("location"), "/servers?search=npm%3A%40x+y");
    let page = client.ok("/servers?search=files").await.text();
    assert_snapshot!(read(&page));
    let page = client.ok("/servers?search=nothing-like-it").await.text();
    assert!(page.contains("No server here has that in its name"));
}

#[tokio::test]
async fn a_server_page_tells_what_it_declares_and_its_timeline() {
    let (_database, client) = seeded().await;
    assert_snapshot!(read(&client.ok(&page_of(FILES)).await.text()));
}

#[tokio::test]
async fn a_failed_look_is_shown_as_what_it_is() {
    let (_database, client) = seeded().await;
    for (identity, said) in [
        (REMOTE, "The server asks for a sign-in"),
        (BROKEN, "their list could not be read to its end"),
        (PENDING, "Nobody has looked at this server yet"),
    ] {
        let page = client.ok(&page_of(identity)).await.text();
        assert!(page.contains("Tools: could not be determined"), "{identity}");
        assert!(page.contains(said), "{identity}");
        let text = read(&page);
        assert!(
            !text.contains("0 tools") && !text.contains("Tools 0") && !text.contains("no tools"),
            "{text}"
        );
    }
    assert!(read(&client.ok("/servers").await.text()).contains("unknown"));
}

#[tokio::test]
async fn a_server_that_answers_with_no_tools_has_none() {
    let database = TestStore::sqlite().await;
    look(&database.store, FILES, found("1.0.0", NOW, surface(&[]))).await;
    let page = Client(database.store.clone()).ok(&page_of(FILES)).await.text();
    assert!(page.contains("The server answered, and declares no tools."));
    assert!(!page.contains("could not be determined"));
}

#[tokio::test]
async fn an_identity_with_its_slashes_leads_to_its_page() {
    let (_database, client) = seeded().await;
    let answer = client.get("/servers/npm:@example/files").await;
    assert_eq!(answer.status, StatusCode::PERMANENT_REDIRECT);
    let page = client.ok(answer.header("location")).await.text();
    assert!(page.contains("npm:@example/files"));
}

#[tokio::test]
async fn a_drift_page_shows_each_change_and_groups_those_that_are_alike() {
    let (_database, client) = seeded().await;
    assert_snapshot!(read(&client.ok("/drifts/1").await.text()));
    assert_snapshot!(read(&client.ok("/drifts/2").await.text()));
}

#[tokio::test]
async fn a_drift_page_begins_with_tools_and_folds_the_noise_of_resources() {
    let database = TestStore::sqlite().await;
    let declared = |version: &str, resources: std::ops::Range<usize>, tools: &[&str]| {
        let tools: Vec<serde_json::Value> = tools.iter().map(|name| tool(name, version)).collect();
        let mut surface = surface(&tools);
        surface.instructions = Instructions::read(&json!(version).to_string());
        surface.listings = [const { Listing::Complete }; 4];
        surface.members.extend(resources.map(|number| {
            let resource = json!({"uri": format!("file:///{number}"), "name": version});
            Member::read(MemberKind::Resource, &resource.to_string())
        }));
        let prompt = json!({"name": "ask", "description": version});
        surface
            .members
            .push(Member::read(MemberKind::Prompt, &prompt.to_string()));
        surface
    };
    let before = declared("before", 0..40, &["kept", "gone"]);
    let after = declared("after", 20..40, &["kept", "come"]);
    look(&database.store, FILES, found("1.0.0", NOW - 2, before)).await;
    look(&database.store, FILES, found("1.0.1", NOW - 1, after)).await;
    let client = Client(database.store.clone());
    let page = client.ok("/drifts/1").await.text();
    let summary = "1 tool added, 1 removed, 1 changed (description); instructions changed; 1 prompt changed; \
                   20 resources removed, 20 changed";
    let places: Vec<usize> = [
        "<title>npm:@example/files 1.0.0 → 1.0.1 · mcpindex</title>",
        summary,
        "id=\"tools\"",
        "<h3 class=\"list-heading\">1 tool removed",
        "<h3 class=\"list-heading\">1 tool added",
        "id=\"instructions\"",
        "id=\"prompts\"",
        "id=\"resources\"",
        "<details><summary><strong>20 resources removed</strong>",
        "<details><summary><strong>20 changed</strong>",
    ]
    .iter()
    .map(|part| {
        page.find(part)
            .unwrap_or_else(|| panic!("`{part}` is not in: {page}"))
    })
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    for path in ["/", "/drifts", "/servers/npm:%40example%2Ffiles"] {
        let page = client.ok(path).await.text();
        assert!(page.contains(summary), "{path}: {page}");
        assert!(!page.contains("resource-removed"), "{path}: {page}");
    }
}

#[tokio::test]
async fn servers_that_nobody_has_looked_at_can_be_listed() {
    let (_database, client) = seeded().await;
    let home = client.ok("/").await.text();
    assert!(home.contains("href=\"/servers?state=pending\""), "{home}");
    let page = client.ok("/servers?state=pending").await.text();
    assert!(
        page.contains("npm:example-pending") && !page.contains("npm:@example/files"),
        "{page}"
    );
    assert!(page.contains("<option value=\"pending\" selected>"), "{page}");
    let answer = client.ok("/api/v1/servers?state=pending&limit=1").await.json();
    assert_eq!(answer["items"][0]["identity"], "npm:example-pending");
}

#[tokio::test]
async fn a_text_too_long_to_compare_is_linked() {
    let database = TestStore::sqlite().await;
    // They differ only past what the store keeps of a change, and must not be said to read the same.
    let tool = |name: &str, last: &str| json!({"name": name, "description": "abc".repeat(30_000) + last});
    let before = surface(&[tool("long", "d")]);
    let after = surface(&[tool("long", "e"), tool("new", "f")]);
    look(&database.store, FILES, found("1.0.0", NOW - 2, before)).await;
    look(&database.store, FILES, found("1.0.1", NOW - 1, after)).await;
    let page = Client(database.store.clone()).ok("/drifts/1").await.text();
    assert!(page.contains("too long to be compared on a page"));
    assert!(page.contains("too long to be shown here"));
    assert!(!page.contains("read the same"));
    assert!(page.len() < 20_000, "{} bytes", page.len());
}

#[tokio::test]
async fn a_page_compares_only_so_much_text() {
    let database = TestStore::sqlite().await;
    let tools = |text: &str| -> Vec<serde_json::Value> {
        let tool = |number| json!({"name": format!("t{number}"), "description": format!("{number}{}", text.repeat(10_000))});
        (0..30).map(tool).collect()
    };
    look(
        &database.store,
        FILES,
        found("1.0.0", NOW - 2, surface(&tools("abc "))),
    )
    .await;
    look(
        &database.store,
        FILES,
        found("1.0.1", NOW - 1, surface(&tools("abd "))),
    )
    .await;
    let page = Client(database.store.clone()).ok("/drifts/1").await.text();
    let compared = page.matches("<table class=\"diff\">").count();
    let left_out = page.matches("too long to be compared on a page").count();
    assert_eq!((compared, left_out), (13, 17));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[tokio::test]
async fn a_drift_that_finer_ones_replace_can_still_be_read() {
    let database = TestStore::sqlite().await;
    for (version, text) in [("1", "one"), ("3", "three"), ("2", "two")] {
        let tool = json!({"name": "t", "description": text});
        look(&database.store, FILES, found(version, NOW - 1, surface(&[tool]))).await;
    }
    let client = Client(database.store.clone());
    let drifts = client.ok("/drifts").await.text();
    assert!(!drifts.contains("\"/drifts/1\""), "{drifts}");
    let page = client.ok("/drifts/1").await.text();
    assert!(page.contains("lists show those"));
    assert_eq!(client.ok("/api/v1/drifts/1").await.json()["replaced"], true);
    // The finer ones lead to each other.
    let first = client.ok("/drifts/2").await.text();
    assert!(first.contains("rel=\"next\" href=\"/drifts/3\""), "{first}");
    let second = client.ok("/drifts/3").await.text();
    assert!(second.contains("rel=\"prev\" href=\"/drifts/2\""), "{second}");
}

#[tokio::test]
async fn a_timeline_goes_on_over_pages_with_its_drifts() {
    let database = TestStore::sqlite().await;
    let identity = Identity::from_reference(REMOTE).unwrap().identity;
    database.store.add_server(&identity, 1).await.unwrap();
    for number in 0..60 {
        let tool = json!({"name": "t", "description": format!("number {number}")});
        let one = Look {
            version: None,
            at: NOW - 100 + number,
            outcome: Outcome::Ok,
            detail: None,
            surface: Some(surface(&[tool])),
        };
        look(&database.store, REMOTE, one).await;
    }
    let client = Client(database.store.clone());
    let first = client.ok(&page_of(REMOTE)).await.text();
    assert_eq!(first.matches("class=\"drifted").count(), 50);
    let next = links(&first)
        .into_iter()
        .find(|link| link.contains("before_drift"))
        .expect("a next page");
    let second = client.ok(&next).await.text();
    assert_eq!(second.matches("class=\"drifted").count(), 9);
    assert_eq!(second.matches("class=\"look").count(), 10);
}

#[tokio::test]
async fn a_definition_is_shown_and_downloaded() {
    let (_database, client) = seeded().await;
    let server = client.ok(&page_of(FILES)).await.text();
    let path = links(&server)
        .into_iter()
        .find(|link| link.starts_with("/definitions/"))
        .unwrap();
    let page = client.ok(&path).await.text();
    assert!(page.contains("Download"));
    let text = client.ok(&format!("{path}/text")).await;
    assert_eq!(text.header("content-type"), "text/plain; charset=utf-8");
    assert!(
        text.header("content-disposition")
            .starts_with("attachment; filename=\"sha256-")
    );
    let digest = path.strip_prefix("/definitions/").unwrap();
    assert_eq!(
        mcpindex_contract::digest::Digest::of_canonical(&text.text()).to_string(),
        digest
    );
}

#[tokio::test]
async fn every_link_leads_somewhere() {
    let (_database, client) = seeded().await;
    let mut seen = BTreeSet::new();
    let mut open = BTreeSet::from(["/".to_owned()]);
    while let Some(path) = open.pop_first() {
        let answer = client.ok(&path).await;
        seen.insert(path);
        if answer.header("content-type").starts_with("text/html") {
            open.extend(
                links(&answer.text())
                    .into_iter()
                    .filter(|link| !seen.contains(link)),
            );
        }
        assert!(seen.len() < 500, "links without an end");
    }
    for part in [
        "/servers/",
        "/drifts/1",
        "/definitions/",
        "/api/v1/",
        "/vocabulary",
        "/assets/",
    ] {
        assert!(
            seen.iter().any(|path| path.starts_with(part)),
            "nothing links to {part}"
        );
    }
}

#[tokio::test]
async fn an_unknown_address_is_a_page_with_a_way_on() {
    let (_database, client) = seeded().await;
    for path in [
        "/nothing",
        "/servers/npm:nothing",
        "/servers/npm:@a/b",
        "/drifts/99",
        "/definitions/x",
        "/assets/x.css",
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.header("content-type").starts_with("text/html"));
        for link in links(&answer.text()) {
            client.ok(&link).await;
        }
    }
    let page = client.get("/servers/npm:%40example%2Ffile").await.text();
    let page = page.split("Request ").next().unwrap().to_owned() + "</main>";
    assert_snapshot!(read(&page));
    assert_eq!(
        client.get("/servers?state=x").await.status,
        StatusCode::BAD_REQUEST
    );
    let refused = client.send(Method::POST, "/", &[]).await;
    assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(refused.text().contains("<h1>"));
}

#[tokio::test]
async fn every_answer_carries_the_rules_for_browsers() {
    let (_database, client) = seeded().await;
    for path in ["/", "/nothing", "/api/v1/servers", "/api/nothing", "/healthz"] {
        let answer = client.get(path).await;
        assert_eq!(
            answer.header("content-security-policy"),
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin");
        assert!(!answer.header("permissions-policy").is_empty());
    }
}

#[tokio::test]
async fn assets_may_be_kept_for_ever() {
    let (_database, client) = seeded().await;
    let page = client.ok("/").await.text();
    let assets: Vec<String> = links(&page)
        .into_iter()
        .filter(|link| link.starts_with("/assets/"))
        .collect();
    assert_eq!(assets.len(), 2);
    for asset in assets {
        let answer = client.ok(&asset).await;
        assert_eq!(
            answer.header("cache-control"),
            "public, max-age=31536000, immutable"
        );
    }
}

const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "</title></textarea></pre><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{ 7*7 }}{% if true %}",
    "[link](javascript:alert(1)) ![i](https://tracker.example/x.png)",
    "a\u{202e}b\u{0}c\u{200b}d\u{1b}[31m\u{85}\u{2066}&lt;script&gt;",
];

/// Puts one text wherever a server can put one, on both sides of a drift.
async fn poison(store: &Store, reference: &str, text: &'static str) {
    let tool = |name: &str, round: usize| {
        let mut properties = serde_json::Map::new();
        properties.insert(text.to_owned(), json!({"description": format!("{text}{round}")}));
        json!({
            "name": format!("{name}{text}"), "title": format!("{text}{round}"), "description": format!("{text} {round}"),
            "inputSchema": {"type": "object", "properties": properties},
            "annotations": {"title": text, "readOnlyHint": round == 1}, (text): round,
        })
    };
    for round in 1..=2 {
        let mut poisoned: Surface = surface(&[tool("same", round), tool(&format!("other {round}"), round)]);
        poisoned.protocol_version = text.to_owned();
        poisoned.server_info = Some(json!({"name": text, "version": text}).to_string());
        poisoned.instructions = Instructions::read(&json!(format!("{text}{round}")).to_string());
        poisoned.listings[1] = Listing::Failed {
            reason: text.to_owned(),
        };
        poisoned.members.push(Member::read(
            MemberKind::Resource,
            &json!({"uri": format!("{text}{round}"), "name": text}).to_string(),
        ));
        poisoned.listings[2] = Listing::Complete;
        let look_at = Look {
            version: Some(text),
            at: NOW - 10 + round as i64,
            outcome: Outcome::Partial,
            detail: Some(text),
            surface: Some(poisoned),
        };
        look(store, reference, look_at).await;
    }
    let identity = Identity::from_reference(reference).unwrap().identity;
    store.add_alias(text, &identity, "registry", NOW).await.unwrap();
}

#[tokio::test]
async fn what_a_server_says_stays_text_on_every_page() {
    let allowed: BTreeSet<&str> = [
        "!doctype",
        "a",
        "article",
        "blockquote",
        "body",
        "button",
        "caption",
        "circle",
        "code",
        "dd",
        "del",
        "details",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "head",
        "header",
        "html",
        "input",
        "ins",
        "label",
        "li",
        "link",
        "main",
        "meta",
        "nav",
        "ol",
        "option",
        "p",
        "path",
        "pre",
        "section",
        "select",
        "span",
        "strong",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
    ]
    .into();
    let known_attributes: BTreeSet<&str> = [
        "action",
        "aria-current",
        "aria-hidden",
        "aria-label",
        "aria-labelledby",
        "autocomplete",
        "charset",
        "class",
        "colspan",
        "content",
        "cx",
        "cy",
        "d",
        "data-label",
        "datetime",
        "for",
        "height",
        "href",
        "html",
        "id",
        "lang",
        "maxlength",
        "method",
        "name",
        "open",
        "placeholder",
        "r",
        "rel",
        "role",
        "scope",
        "selected",
        "spellcheck",
        "tabindex",
        "title",
        "type",
        "value",
        "viewBox",
        "width",
    ]
    .into();
    let database = TestStore::sqlite().await;
    for (number, text) in HOSTILE.into_iter().enumerate() {
        poison(&database.store, &format!("npm:hostile-{number}"), text).await;
    }
    let client = Client(database.store.clone());
    let mut seen = BTreeSet::new();
    let mut open = BTreeSet::from(["/".to_owned()]);
    open.extend(HOSTILE[..8].iter().map(|text| {
        let query: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        format!("/servers?search={query}")
    }));
    while let Some(path) = open.pop_first() {
        let answer = client.ok(&path).await;
        seen.insert(path.clone());
        if !answer.header("content-type").starts_with("text/html") {
            continue;
        }
        let html = answer.text();
        for (name, attributes) in tags(&html) {
            assert!(allowed.contains(name.as_str()), "{path}: <{name}>");
            for attribute in attributes {
                assert!(
                    known_attributes.contains(attribute.as_str()),
                    "{path}: <{name} {attribute}>"
                );
            }
        }
        for link in links(&html) {
            assert!(link.starts_with('/'), "{path}: a link to {link}");
            if !seen.contains(&link) {
                open.insert(link);
            }
        }
        for hidden in ['\0', '\u{1b}', '\u{85}', '\u{202e}', '\u{200b}', '\u{2066}'] {
            assert!(!html.contains(hidden), "{path}: {hidden:?}");
        }
    }
    assert!(seen.iter().filter(|path| path.starts_with("/drifts/")).count() >= HOSTILE.len());
    // Texts arrive, as text.
    let page = client.ok("/servers/npm:hostile-0").await.text();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let error = client
        .get("/servers/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
        .await
        .text();
    assert!(!error.contains("<script"));
}

#[tokio::test]
async fn descriptions_stand_in_untrusted_members_alone() {
    let database = TestStore::sqlite().await;
    let canary = |round: i32| {
        let tool = json!({"name": "t", "title": "canary", "description": format!("canary {round}")});
        let mut told = surface(&[tool]);
        told.instructions = Instructions::read("\"canary\"");
        told
    };
    look(&database.store, FILES, found("1.0.0", NOW - 2, canary(1))).await;
    look(&database.store, FILES, found("1.0.1", NOW - 1, canary(2))).await;
    let client = Client(database.store.clone());
    let server = "/api/v1/servers/npm:%40example%2Ffiles";
    let tools = format!("{server}/tools?include=descriptions");
    let definition = client.ok(&tools).await.json()["tools"][0]["definition"]
        .as_str()
        .unwrap()
        .to_owned();
    let plain = client.ok(&format!("{server}/tools")).await.text();
    assert!(!plain.contains("canary"), "{plain}");
    let mut met = 0;
    for path in [
        server.to_owned(),
        tools,
        format!("{server}/observations"),
        "/api/v1/drifts/1".to_owned(),
        definition,
    ] {
        let mut stack = vec![("".to_owned(), client.ok(&path).await.json())];
        while let Some((key, value)) = stack.pop() {
            match value {
                serde_json::Value::Object(members) => stack.extend(members),
                serde_json::Value::Array(items) => {
                    stack.extend(items.into_iter().map(|item| (key.clone(), item)));
                }
                serde_json::Value::String(text) if text.contains("canary") => {
                    assert!(key.starts_with("untrusted_"), "{path}: {key}");
                    met += 1;
                }
                _ => {}
            }
        }
    }
    assert!(met >= 4, "{met}");
}
