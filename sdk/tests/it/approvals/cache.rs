//! What is kept on disk, and whatever may be wrong with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use mcpindex::approvals::Cache;
use mcpindex::state::StateDirectory;
use mcpindex_contract::approval::Decision;
use mcpindex_contract::digest::Digest;

use super::following::{Followed, until_head};
use super::stand_in::Index;

/// A state directory in which the decisions of an index are kept, two of them.
async fn kept(directory: &tempfile::TempDir) -> (Index, Cache) {
    let index = Index::start().await;
    for tool in ["read", "send"] {
        index.decide("npm:docs", tool, Digest::of_canonical(tool), Decision::Refuse);
    }
    let state = StateDirectory::at(directory.path());
    let followed = Followed::start(&index, &state);
    until_head(&followed.approvals, 2).await;
    let cache = Cache::of(&state, &index.base);
    crate::proxy::until("it is kept", || cache.path().exists()).await;
    (index, cache)
}

/// What is wrong with what is kept once it was changed so.
async fn check(change: impl FnOnce(String) -> String, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (index, cache) = kept(&directory).await;
    let text = fs::read_to_string(cache.path()).unwrap();
    fs::write(cache.path(), change(text)).unwrap();
    let said = match cache.read() {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    };
    let said = said.replace(cache.path().to_str().unwrap(), "FILE");
    assert_eq!(said.replace(index.base.as_str(), "INDEX/"), expected);
}

#[tokio::test]
async fn what_is_kept_comes_back_and_is_this_users_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (index, cache) = kept(&directory).await;
    let kept = cache.read().unwrap().unwrap();
    let mut expected = Vec::new();
    index.now(|says| expected.clone_from(&says.chain.records));
    assert_eq!(kept.records, expected);
    let mode = fs::metadata(cache.path()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    let document: serde_json::Value = serde_json::from_slice(&fs::read(cache.path()).unwrap()).unwrap();
    assert_eq!(document["records"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn what_was_cut_short_or_altered_is_named_and_not_obeyed() {
    check(|text| text, "nothing").await;
    check(
        |text| text[..text.len() - 20].to_owned(),
        "`FILE` is damaged: it was cut short",
    )
    .await;
    check(
        |_| String::new(),
        "`FILE` is damaged: its first line is not as it is written",
    )
    .await;
    check(
        |text| text.replacen(r#""tool":"read""#, r#""tool":"ruin""#, 1),
        "`FILE` was altered: record 1 is not as it was when record 2 was written after it: one of the two was altered, replaced \
         or moved",
    )
    .await;
    check(
        |text| text.replacen(r#""tool":"send""#, r#""tool":"sent""#, 1),
        "`FILE` was altered: the head names another hash than record 2 has: one of the two was altered",
    )
    .await;
    let without_line = |text: String, line: usize| {
        let lines = text.lines().enumerate().filter(|(number, _)| *number != line);
        lines.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    check(
        |text| without_line(text, 1),
        "`FILE` was altered: record 1 is missing, record 2 stands in its place: it was removed",
    )
    .await;
    check(
        |text| without_line(text, 2),
        "`FILE` was altered: record 2 and what came after it are missing: they were removed",
    )
    .await;
    check(
        |text| text.replacen(r#""sequence":2"#, r#""sequence":1"#, 1),
        "`FILE` was altered: the head stands at record 1, and records go on to 2: it was moved back, or records were put in past \
         it",
    )
    .await;
}

#[tokio::test]
async fn what_is_of_another_index_organisation_or_version_is_named_and_not_obeyed() {
    check(
        |text| {
            let (before, rest) = text.split_once(r#""index":""#).unwrap();
            let (_, after) = rest.split_once('"').unwrap();
            format!(r#"{before}"index":"https://other.example/"{after}"#)
        },
        "`FILE` holds the decisions of another index (`https://other.example/`)",
    )
    .await;
    check(
        |text| text.replacen(r#""tenant":"default""#, r#""tenant":"other""#, 1),
        "`FILE` holds the decisions of another organisation",
    )
    .await;
    check(
        |text| text.replacen("mcpindex-approvals/1", "mcpindex-approvals/2", 1),
        "`FILE` was written by a newer mcpindex",
    )
    .await;
}

#[tokio::test]
async fn what_others_may_write_is_not_obeyed() {
    let directory = tempfile::tempdir().unwrap();
    let (_index, cache) = kept(&directory).await;
    fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o620)).unwrap();
    let error = cache.read().unwrap_err().to_string();
    assert!(error.ends_with("is open to other users (mode 0620)"), "{error}");
}
