//! The client that asks an index: its bounds, and where a key goes.

use mcpindex::index::{Base, Chosen, IndexClient};
use secrecy::SecretString;

use crate::login_index::{StandIn, key_text};

fn client(base: &str, key: Option<&str>) -> IndexClient {
    IndexClient::new(&Chosen {
        base: Base::parse(base).unwrap(),
        key: key.map(SecretString::from),
    })
    .unwrap()
}

#[tokio::test]
async fn the_key_goes_along_and_is_shown_nowhere() {
    let index = StandIn::start();
    let key = index.state().add_key("a");
    let client = client(&index.base, Some(&key));
    let answer = client.get("api/v1/whoami", 10_000).await.unwrap();
    assert_eq!(answer.status, 200);
    let body: serde_json::Value = answer.json().unwrap();
    assert_eq!(body["login"], "ann");
    assert_eq!(index.state().requests, ["GET /api/v1/whoami a key"]);
    for shown in [format!("{client:?}"), format!("{answer:?}")] {
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let index = StandIn::start();
    let key = index.state().add_key("a");
    let answer = client(&index.base, Some(&key))
        .get("api/v1/moved", 10_000)
        .await
        .unwrap();
    assert_eq!(answer.status, 302);
    assert_eq!(index.state().requests, ["GET /api/v1/moved a key"]);
}

#[tokio::test]
async fn an_answer_is_as_long_as_the_caller_admits() {
    let index = StandIn::start();
    let client = client(&index.base, None);
    assert_eq!(client.get("api/v1/long", 1001).await.unwrap().body.len(), 1001);
    let error = client.get("api/v1/long", 1000).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{} gave no usable answer: more than 1000 bytes", index.base)
    );
}

#[tokio::test]
async fn nobody_there_is_no_answer() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let error = client(&base, None)
        .get("api/v1/whoami", 10)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("{base} gave no usable answer: unreachable: ")),
        "{error}"
    );
}

#[test]
fn a_key_is_not_sent_over_plain_http_to_another_machine() {
    let chosen = Chosen {
        base: Base::parse("http://index.example").unwrap(),
        key: Some(key_text(1).into()),
    };
    assert_eq!(
        IndexClient::new(&chosen).unwrap_err().to_string(),
        "http://index.example/ would get the key over plain HTTP, where others can read it: use its https:// address"
    );
    IndexClient::new(&Chosen { key: None, ..chosen }).unwrap();
}
