//! A drift as it is read, and what it says about its cause.

use mcpindex_contract::surface::MemberKind;
use mcpindex_store::drifts::MAX_EXCERPT;
use mcpindex_store::observations::NewObservation;
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{START, add, look, member, record, surface, tool, with_instructions};

#[tokio::test]
async fn a_drift_is_read_with_its_changes() {
    on_each_backend(async |store| {
        add(&store, "npm:@example/echo").await;
        let first = with_instructions(surface(&[("echo", "Says it."), ("old", "Goes.")]), "Be brief.");
        record(&store, &look("npm:@example/echo", "1.0", first)).await;
        let mut second = with_instructions(surface(&[("new", "Comes.")]), "Be thorough.");
        second.members.push(member(
            MemberKind::Tool,
            r#"{
            "name": "echo", "description": "Repeats it.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}
        }"#,
        ));
        let observation = NewObservation {
            observed_at: START + 60,
            ..look("npm:@example/echo", "1.1", second)
        };
        let recorded = record(&store, &observation).await;
        let drift = store.drift(recorded.drift.unwrap()).await.unwrap().unwrap();
        assert_eq!(drift.1.len(), recorded.changes);
        assert_eq!(
            store.drifts(None, None, 9).await.unwrap(),
            std::slice::from_ref(&drift.0)
        );
        insta::assert_debug_snapshot!("a_drift_is_read_with_its_changes", drift);
        assert_eq!(store.drift(99).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_drift_says_what_else_differs() {
    on_each_backend(async |store| {
        let mut number = 0;
        let mut check = async |change: &dyn Fn(&mut NewObservation, &mut NewObservation), cause: &str| {
            number += 1;
            let server = format!("npm:server-{number}");
            add(&store, &server).await;
            let mut before = look(&server, "1.0", surface(&[("t", "one")]));
            let mut after = look(&server, "1.0", surface(&[("t", "two")]));
            change(&mut before, &mut after);
            record(&store, &before).await;
            let drift = record(&store, &after).await.drift.unwrap();
            assert_eq!(store.drift(drift).await.unwrap().unwrap().0.cause, cause);
        };
        check(&|_, _| {}, "unexplained").await;
        check(
            &|_, after| after.artifact.as_mut().unwrap().version = "1.1".to_owned(),
            "version",
        )
        .await;
        check(
            &|_, after| after.artifact.as_mut().unwrap().integrity = Some("another".to_owned()),
            "version",
        )
        .await;
        check(
            &|_, after| after.artifact.as_mut().unwrap().dependencies = Some("others".to_owned()),
            "dependencies",
        )
        .await;
        check(
            &|_, after| after.artifact.as_mut().unwrap().dependencies = None,
            "unknown",
        )
        .await;
        check(&|_, after| after.artifact = None, "unknown").await;
    })
    .await;
}

#[tokio::test]
async fn a_long_text_is_kept_whole_as_a_definition_and_cut_in_the_change() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "1.0", surface(&[("t", "short")]))).await;
        let long = "ü".repeat(MAX_EXCERPT);
        let drift = record(&store, &look("npm:a", "1.1", surface(&[("t", &long)])))
            .await
            .drift
            .unwrap();
        let (_, changes) = store.drift(drift).await.unwrap().unwrap();
        let after = changes[0].after.as_ref().unwrap();
        assert!(after.len() <= MAX_EXCERPT && after.ends_with("ü…"));
        let whole = store
            .definition(&changes[0].after_digest.unwrap())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(whole.text, tool("t", &long).definition.digested_text());
    })
    .await;
}

#[tokio::test]
async fn meta_alone_is_a_change() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let with_meta = |meta: &str| {
            let mut surface = surface(&[("t", "d")]);
            surface.members.push(member(
                MemberKind::Tool,
                &format!(r#"{{"name":"m","_meta":{{"v":{meta}}}}}"#),
            ));
            surface
        };
        record(&store, &look("npm:a", "1.0", with_meta("1"))).await;
        let drift = record(&store, &look("npm:a", "1.1", with_meta("2")))
            .await
            .drift
            .unwrap();
        let (drift, changes) = store.drift(drift).await.unwrap().unwrap();
        assert_eq!(drift.kinds, [("meta-changed".to_owned(), 1)]);
        assert_eq!(drift.changed, [(MemberKind::Tool, 1)]);
        assert!(
            changes[0].before.as_ref().unwrap().contains("\"v\": 1"),
            "{changes:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_tool_with_many_changes_is_counted_once() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let declared = |description: &str, hint: bool, resource: &str| {
            let mut surface = surface(&[("kept", "same")]);
            for name in ["one", "two"] {
                surface.members.push(member(
                    MemberKind::Tool,
                    &format!(r#"{{"name":"{name}","description":"{description}","annotations":{{"readOnlyHint":{hint}}}}}"#),
                ));
            }
            surface.members.push(member(
                MemberKind::Resource,
                &format!(r#"{{"uri":"file:///a","name":"{resource}","title":"{resource}"}}"#),
            ));
            surface
        };
        record(&store, &look("npm:a", "1.0", declared("a", false, "b"))).await;
        let mut after = declared("c", true, "d");
        after.members.push(member(MemberKind::Tool, r#"{"name":"new"}"#));
        let drift = record(&store, &look("npm:a", "1.1", after)).await.drift.unwrap();
        let (drift, changes) = store.drift(drift).await.unwrap().unwrap();
        assert_eq!(changes.len(), 7);
        assert_eq!(drift.changed, [(MemberKind::Tool, 2), (MemberKind::Resource, 1)]);
    })
    .await;
}
