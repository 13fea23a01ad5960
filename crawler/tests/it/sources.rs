//! Lists of targets: what they may hold, and what a mistake in one is answered with.

use std::path::Path;

use mcpindex_contract::identity::Identity;
use mcpindex_crawler::CrawlError;
use mcpindex_crawler::sources::{Listed, known_args, read_list, starter};
use mcpindex_crawler::target::Reach;

fn read(text: &str) -> Result<Vec<Listed>, CrawlError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("targets.toml");
    std::fs::write(&file, text).unwrap();
    read_list(&file)
}

/// The complaint about a list, without the folder that the test made.
fn complaint(text: &str) -> String {
    let error = read(text).unwrap_err().to_string();
    let (_, reason) = error.split_once("targets.toml: ").unwrap();
    reason.to_owned()
}

#[test]
fn a_list_names_packages_urls_and_commands() {
    let listed = read(
        r#"
        [[target]]
        package = "npm:@demo/server@1.0.0"
        args = ["."]
        backfill = 3
        about = "a demo"
        [[target]]
        url = "https://mcp.example.com/mcp"
        [[target]]
        command = ["demo-server", "--stdio"]
        "#,
    )
    .unwrap();
    let shown: Vec<String> = listed
        .iter()
        .map(|one| format!("{} {} {:?}", one.spec.reach.to_json(), one.backfill, one.about))
        .collect();
    assert_eq!(
        shown,
        [
            r#"{"package":{"registry":"npm","name":"@demo/server","args":["."]}} 3 Some("a demo")"#,
            r#"{"url":"https://mcp.example.com/mcp"} 0 None"#,
            r#"{"command":["demo-server","--stdio"]} 0 None"#,
        ]
    );
}

#[test]
fn a_mistake_is_answered_with_its_line_and_what_was_expected() {
    let check = |text: &str, expected: &str| assert_eq!(complaint(text), expected);
    check("", "holds no target: expected at least one `[[target]]`");
    check(
        "[[target]]\npakage = \"npm:demo\"\n",
        "line 2: unknown key `pakage`: did you mean `package`?",
    );
    check(
        "[[targets]]\nurl = \"x\"\n",
        "line 1: unknown key `targets`: did you mean `target`?",
    );
    check(
        "[[target]]\nschedule = 3\n",
        "line 2: unknown key `schedule`: expected `package`, `url`, `command`, `args`, `backfill`, `about`",
    );
    check(
        "\n\n[[target]]\nabout = \"nothing\"\n",
        "line 3: a target has one of `package`, `url` and `command`",
    );
    check(
        "[[target]]\nurl = \"https://a.example.com/\"\n\n[[target]]\npackage = \"npm:demo\"\nurl = \"https://a.example.com/\"\n",
        "line 4: a target has one of `package`, `url` and `command`",
    );
    check(
        "[[target]]\npackage = \"https://a.example.com/mcp\"\n",
        "line 1: `package` is `https://a.example.com/mcp`: expected `npm:NAME` or `pypi:NAME`",
    );
    check(
        "[[target]]\nurl = \"npm:demo\"\n",
        "line 1: `url` is `npm:demo`: expected `https://…`",
    );
    check(
        "[[target]]\nurl = \"https://a.example.com/mcp\"\nbackfill = 2\n",
        "line 1: `backfill` is for packages: nothing else has published versions",
    );
    check(
        "[[target]]\npackage = \"npm:demo\"\nbackfill = 1000\n",
        "line 1: `backfill` is 1000: expected at most 100",
    );
    check(
        "[[target]]\npackage = \"npm:demo\"\nargs = [\"--token\", \"abc\"]\n",
        "line 1: a part of this target looks like a credential, and the index stores none: leave it out",
    );
    assert!(complaint("[[target]]\npackage = \n").starts_with("line 2: "));
    assert!(complaint("[[target]]\nbackfill = -1\n").starts_with("line 2: "));
}

#[test]
fn a_list_that_is_not_there_is_named() {
    let error = read_list(Path::new("/nowhere/targets.toml"))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("/nowhere/targets.toml: "), "{error}");
}

#[test]
fn the_starter_list_has_packages_of_both_registries_with_a_history_and_a_sentence() {
    let listed = starter();
    assert_eq!(listed.len(), 8);
    for one in &listed {
        assert!(matches!(one.spec.reach, Reach::Package { .. }), "{:?}", one.spec);
        assert!(one.backfill >= 2 && one.spec.version.is_none(), "{:?}", one.spec);
        assert!(
            one.about.as_ref().is_some_and(|about| about.len() > 10),
            "{:?}",
            one.spec
        );
    }
    for form in ["npm", "pypi"] {
        assert!(
            listed
                .iter()
                .filter(|one| one.spec.identity.form() == form)
                .count()
                >= 2,
            "{form}"
        );
    }
}

#[test]
fn arguments_are_known_for_servers_that_don_t_start_without() {
    let args = |reference: &str| known_args(&Identity::from_reference(reference).unwrap().identity);
    assert_eq!(args("npm:@modelcontextprotocol/server-filesystem"), ["."]);
    assert!(args("npm:@demo/server").is_empty());
}
