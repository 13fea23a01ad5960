//! Text that databases like to refuse or to change.

use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::MemberKind;
use mcpindex_store::observations::Artifact;
use mcpindex_store::servers::ServerFilter;
use mcpindex_store::targets::NewTarget;
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{
    START, add, failed_look, failing, identity, look, record, surface, target, with_instructions,
};

const ODD: &[&str] = &[
    "nul \0 inside",
    "\0",
    "\u{1F}\u{FDD0}z\u{FDD0}",
    "\u{FFFE}\u{FFFF}\u{10FFFF}",
    "right \u{202E}to left, zero\u{200B}width, \u{E0041}tag",
    "é and e\u{301} differ",
    "'; DROP TABLE server; --",
    "\r\n\t\u{7F}\u{1B}[31m",
];

#[tokio::test]
async fn names_descriptions_and_instructions_survive_to_the_byte() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let tools: Vec<(&str, &str)> = ODD.iter().map(|text| (*text, *text)).collect();
        let sent = with_instructions(surface(&tools), &ODD.join("|"));
        let recorded = record(&store, &look("npm:a", "1.0", sent.clone())).await;
        let read = store.surface(recorded.observation).await.unwrap().unwrap();
        assert_eq!(read.digest(), sent.digest());
        assert_eq!(read.instructions, sent.instructions);
        let names: Vec<&str> = read.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ODD);

        let drift = record(&store, &look("npm:a", "1.1", surface(&[])))
            .await
            .drift
            .unwrap();
        let (_, changes) = store.drift(drift).await.unwrap().unwrap();
        assert_eq!(changes[0].before.as_deref(), Some(ODD.join("|").as_str()));
        assert_eq!(changes, mcpindex_contract::diff::diff(&read, &surface(&[])));
        let declared_by = store
            .definition(&sent.members[1].definition.digest())
            .await
            .unwrap()
            .unwrap()
            .declared_by;
        assert_eq!(declared_by[0].2, "\0");
    })
    .await;
}

#[tokio::test]
async fn everything_else_that_comes_from_outside_survives_too() {
    on_each_backend(async |store| {
        for (number, odd) in ODD.iter().enumerate() {
            let odd = (*odd).to_owned();
            let reference = format!("npm:server-{number}");
            add(&store, &reference).await;
            let mut sent = failing(surface(&[]), MemberKind::Resource);
            sent.protocol_version = odd.clone();
            sent.server_info = Some(odd.clone());
            sent.capabilities = Some(odd.clone());
            sent.listings[MemberKind::Resource as usize] =
                mcpindex_contract::surface::Listing::Failed { reason: odd.clone() };
            let mut observation = look(&reference, "1.0", sent.clone());
            observation.version_key = Some(odd.clone());
            observation.context = odd.clone();
            observation.detail = Some(odd.clone());
            observation.artifact = Some(Artifact {
                version: odd.clone(),
                integrity: Some(odd.clone()),
                dependencies: Some(odd.clone()),
                runtime: Some(odd.clone()),
                published_at: None,
            });
            let recorded = record(&store, &observation).await;
            let read = store.observation(recorded.observation).await.unwrap().unwrap();
            assert_eq!(read.artifact, observation.artifact);
            assert_eq!((read.detail.as_ref(), &read.context), (Some(&odd), &odd));
            assert_eq!(
                (read.protocol_version.as_ref(), read.server_info.as_ref()),
                (Some(&odd), Some(&odd))
            );
            assert_eq!(store.surface(recorded.observation).await.unwrap().unwrap(), sent);
            assert!(store.has_version(&reference, &odd).await.unwrap());
            let server = store.find_server(&reference).await.unwrap().unwrap();
            assert_eq!(
                (server.detail.as_ref(), server.current_version.as_ref()),
                (Some(&odd), Some(&odd))
            );

            store
                .add_alias(&odd, &identity(&reference), &odd, START)
                .await
                .unwrap();
            assert_eq!(
                store.find_server(&odd).await.unwrap().unwrap().aliases,
                std::slice::from_ref(&odd)
            );
            let search = ServerFilter {
                search: Some(odd.clone()),
                limit: 9,
                ..ServerFilter::default()
            };
            assert_eq!(
                store.servers(&search).await.unwrap().len(),
                if odd == "\0" { 2 } else { 1 }
            );

            let new = NewTarget {
                version: Some(odd.clone()),
                launch: odd.clone(),
                source: odd.clone(),
                ..target(&reference)
            };
            store.add_target(&new, START).await.unwrap();
            let (claimed, _) = store
                .claim_targets(&odd, START, 60, 1, None)
                .await
                .unwrap()
                .remove(0);
            assert_eq!(
                (claimed.version.as_ref(), &claimed.launch, &claimed.source),
                (Some(&odd), &odd, &odd)
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_odd_command_is_a_server_like_any_other() {
    on_each_backend(async |store| {
        let command = Identity::Command {
            command: "nul\0command".to_owned(),
            args: vec![],
        };
        store.add_server(&command, START).await.unwrap();
        let written = command.to_string();
        assert_eq!(
            store.find_server(&written).await.unwrap().unwrap().identity,
            written
        );
        let mut observation = failed_look("npm:a", "1.0", Outcome::Crashed);
        observation.identity = written.clone();
        record(&store, &observation).await;
        assert_eq!(
            store.observations(&written, None, 9).await.unwrap()[0].identity,
            written
        );
        // What is asked for may be odd as well.
        for odd in ODD {
            assert_eq!(store.find_server(odd).await.unwrap(), None);
            assert_eq!(store.drifts(Some(odd), None, 9).await.unwrap(), []);
            assert!(!store.has_version(odd, odd).await.unwrap());
            assert_eq!(store.targets(Some(odd)).await.unwrap(), []);
        }
    })
    .await;
}
