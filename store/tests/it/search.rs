//! Servers are found by words: the same ones in the same order on both databases, whatever is asked.

use mcpindex_store::Store;
use mcpindex_store::search::Found;
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{START, add, identity, look, record, remote_look, surface};

async fn index(store: &Store) {
    add(store, "npm:@example/files").await;
    add(store, "npm:filesystem-tools-with-a-long-name").await;
    add(store, "https://mcp.example.com/v1").await;
    add(store, "pypi:weather").await;
    let files = surface(&[
        ("read_file", "Reads the whole text of a document."),
        ("listDirectory", "Lists 文件 and folders."),
    ]);
    record(store, &look("npm:@example/files", "1.0", files)).await;
    let remote = surface(&[("forecast", "Tells tomorrow's weather from a file.")]);
    record(store, &remote_look("https://mcp.example.com/v1", remote)).await;
    let weather = identity("pypi:weather");
    store
        .add_alias("io.github.someone/rain", &weather, "registry", START)
        .await
        .unwrap();
}

/// What is found, as `place identity [tools]`.
async fn found(store: &Store, question: &str) -> Vec<String> {
    let found = store.search(question, None, 50).await.unwrap();
    found.iter().map(shown).collect()
}

fn shown(found: &Found) -> String {
    let tools = found.tools.join(" ");
    format!("{} {} [{tools}]", found.matched.name(), found.server.identity)
}

#[tokio::test]
async fn servers_are_found_by_the_beginnings_of_words_closest_first() {
    on_each_backend(async |store| {
        index(&store).await;
        let check = async |question: &str, expected: &[&str]| {
            assert_eq!(found(&store, question).await, expected, "{question}");
        };
        check(
            "file",
            &[
                "name npm:@example/files [read_file]",
                "name npm:filesystem-tools-with-a-long-name []",
                "text https://mcp.example.com/v1 []",
            ],
        )
        .await;
        check(
            "weather",
            &["name pypi:weather []", "text https://mcp.example.com/v1 []"],
        )
        .await;
        check("RAIN", &["name pypi:weather []"]).await;
        check("example read", &["tool npm:@example/files [read_file]"]).await;
        check("list directory", &["tool npm:@example/files [listDirectory]"]).await;
        check("listdirectory", &["tool npm:@example/files [listDirectory]"]).await;
        check("文", &["text npm:@example/files []"]).await;
        check("npm:@example/files", &["name npm:@example/files []"]).await;
        check("file nothing", &[]).await;
    })
    .await;
}

#[tokio::test]
async fn no_question_is_more_than_words() {
    on_each_backend(async |store| {
        index(&store).await;
        for question in [
            "",
            "   ",
            "\"",
            "'",
            "*",
            "{names} : (\"a\"*)",
            "a\" OR \"b",
            "x' | 'y",
            "NEAR(a b)",
            "-- ; DROP TABLE server",
            "\\",
            "&&!|<->",
            "a:* & b",
            "\u{0}\u{1F}\u{FDD0}",
            "İ ß \u{300} ำ ﬁ",
            "(((((((((((((((((((((",
            &"word ".repeat(2_000),
            &"x".repeat(100_000),
        ] {
            let found = store.search(question, None, 50).await.unwrap();
            assert!(found.len() <= 4, "{question}");
        }
        // A word of every query language is a word here.
        record(
            &store,
            &look("npm:@example/files", "1.1", surface(&[("or_not_and", "near")])),
        )
        .await;
        assert_eq!(
            found(&store, "OR NOT AND NEAR").await,
            ["text npm:@example/files [or_not_and]"]
        );
    })
    .await;
}

#[tokio::test]
async fn what_is_found_comes_page_by_page() {
    on_each_backend(async |store| {
        index(&store).await;
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.search("file", after.as_ref(), 1).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.place.clone());
            seen.extend(page.iter().map(shown));
            assert!(seen.len() <= 3, "pages lead on for ever: {seen:?}");
        }
        assert_eq!(seen, found(&store, "file").await);
    })
    .await;
}

#[tokio::test]
async fn words_are_those_of_what_is_declared_now() {
    on_each_backend(async |store| {
        index(&store).await;
        assert_eq!(found(&store, "document").await.len(), 1);
        record(
            &store,
            &look("npm:@example/files", "1.1", surface(&[("open", "Opens.")])),
        )
        .await;
        assert_eq!(found(&store, "document").await, Vec::<String>::new());
        assert_eq!(found(&store, "open").await, ["tool npm:@example/files [open]"]);
        // An older version that is looked at later changes nothing.
        record(
            &store,
            &look("npm:@example/files", "0.9", surface(&[("shut", "Shuts.")])),
        )
        .await;
        assert_eq!(found(&store, "shut").await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn texts_without_bounds_are_kept_within_some() {
    on_each_backend(async |store| {
        add(&store, "npm:long").await;
        let words: Vec<String> = (0..60_000).map(|number| format!("word{number}")).collect();
        let text = words.join(" ");
        let name = "long_name ".repeat(2_000);
        record(
            &store,
            &look(
                "npm:long",
                "1.0",
                surface(&[(&name, &text), ("b", &"y".repeat(1_000_000))]),
            ),
        )
        .await;
        assert_eq!(found(&store, "word1").await.len(), 1);
        assert_eq!(
            store.search("long name", None, 5).await.unwrap()[0].tools.len(),
            1
        );
        let question = mcpindex_store::sightings::Question {
            server: mcpindex_store::sightings::Reference::Name("npm:long".to_owned()),
            tool: Some(mcpindex_store::sightings::Reference::Name(name)),
            digest: None,
            hash: None,
        };
        let found = store.sightings(&[question], 0).await.unwrap().remove(0);
        assert!(found.servers[0].current.is_some());
    })
    .await;
}

#[tokio::test]
async fn drifts_are_those_of_the_servers_that_a_search_finds() {
    on_each_backend(async |store| {
        index(&store).await;
        let files = surface(&[("read_file", "Reads a part of a document.")]);
        record(&store, &look("npm:@example/files", "2.0", files)).await;
        let remote = surface(&[("forecast", "Tells tomorrow's rain.")]);
        record(&store, &remote_look("https://mcp.example.com/v1", remote)).await;
        for question in [
            "file",
            "read part",
            "forecast",
            "example",
            "weather",
            "nothing",
            "",
            "\" OR *",
            "'",
        ] {
            let found = store.search(question, None, 50).await.unwrap();
            let mut expected: Vec<String> = Vec::new();
            for server in &found {
                let identity = &server.server.identity;
                let drifts = store.drifts(Some(identity), None, 50).await.unwrap();
                expected.extend(drifts.iter().map(|drift| format!("{:09} {identity}", drift.id)));
            }
            expected.sort();
            expected.reverse();
            let drifts = store.drifts_found(question, 50).await.unwrap();
            let drifts: Vec<String> = drifts
                .iter()
                .map(|drift| format!("{:09} {}", drift.id, drift.identity))
                .collect();
            assert_eq!(drifts, expected, "{question}");
        }
        let both = store.drifts_found("example", 50).await.unwrap();
        assert_eq!(both.len(), 2);
        let latest = store.drifts_found("example", 1).await.unwrap();
        assert_eq!(latest, both[..1]);
        assert_eq!(
            store.drifts_found("rain", 50).await.unwrap().len(),
            1,
            "what it says now"
        );
    })
    .await;
}
