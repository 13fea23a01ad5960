//! The guarded client against name services and servers that mean no good.

use std::future::pending;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::sync::Mutex;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::Redirect;
use axum::routing::get;
use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::wire::http::{HttpClient, HttpError};
use mcpindex_crawler::guarded_client::{GuardedClient, Resolver};
use reqwest::{Method, Request};
use url::Url;

use crate::install_tls_provider;

/// A name service that gives its answers one after the other, and stays silent after the last.
struct Scripted(Mutex<Vec<io::Result<Vec<IpAddr>>>>);

impl Scripted {
    fn new(answers: &[&[&str]]) -> Arc<Scripted> {
        let answers = answers
            .iter()
            .map(|answer| Ok(answer.iter().map(|ip| ip.parse().unwrap()).collect()));
        Arc::new(Scripted(Mutex::new(answers.rev().collect())))
    }
}

impl Resolver for Scripted {
    fn resolve(&self, _host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        match self.0.lock().unwrap().pop() {
            Some(answer) => async { answer }.boxed(),
            None => pending().boxed(),
        }
    }
}

fn loopback_client(resolver: Arc<dyn Resolver>) -> GuardedClient {
    install_tls_provider();
    GuardedClient::with_resolver(&["127.0.0.0/8".to_owned()], false, resolver).unwrap()
}

async fn fetch(client: &GuardedClient, url: &str) -> Result<(u16, String), HttpError> {
    let response = client
        .send(Request::new(Method::GET, url.parse().unwrap()))
        .await?;
    let status = response.status().as_u16();
    Ok((status, response.text().await.unwrap()))
}

/// A small server on loopback; its port.
async fn serve(router: Router) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn blocked(rule: &str) -> Result<(u16, String), HttpError> {
    Err(HttpError::Blocked {
        rule: rule.to_owned(),
    })
}

#[tokio::test]
async fn a_private_address_is_refused_and_gets_no_connection() {
    install_tls_provider();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = GuardedClient::new(&[], true).unwrap();
    let rule = "loopback 127.0.0.0/8";
    assert_eq!(
        fetch(&client, &format!("http://127.0.0.1:{port}/")).await,
        blocked(rule)
    );
    assert_eq!(
        fetch(&client, &format!("https://127.0.0.1:{port}/")).await,
        blocked(rule)
    );
    let named = GuardedClient::with_resolver(&[], true, Scripted::new(&[&["127.0.0.1"]])).unwrap();
    assert_eq!(
        fetch(&named, &format!("http://inside.test:{port}/")).await,
        blocked(rule)
    );
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_machines_own_name_service_is_judged_too() {
    install_tls_provider();
    let client = GuardedClient::new(&[], true).unwrap();
    let said = fetch(&client, "http://localhost:8080/").await.unwrap_err();
    assert!(
        matches!(&said, HttpError::Blocked { rule } if rule.starts_with("loopback")),
        "{said}"
    );
}

#[tokio::test]
async fn an_allowed_network_answers_by_address_and_by_name() {
    let port = serve(hello()).await;
    let client = loopback_client(Scripted::new(&[&["127.0.0.1"]]));
    let answer = Ok((200, "hello".to_owned()));
    assert_eq!(fetch(&client, &format!("http://127.0.0.1:{port}/")).await, answer);
    assert_eq!(
        fetch(&client, &format!("http://inside.test:{port}/")).await,
        answer
    );
}

#[tokio::test]
async fn a_name_that_answers_well_once_is_judged_again_at_the_next_connection() {
    let (first, second) = (serve(hello()).await, serve(hello()).await);
    let client = loopback_client(Scripted::new(&[
        &["127.0.0.1"],
        &["169.254.169.254"],
        &["127.0.0.1"],
    ]));
    assert!(
        fetch(&client, &format!("http://rebinds.test:{first}/"))
            .await
            .is_ok()
    );
    assert_eq!(
        fetch(&client, &format!("http://rebinds.test:{second}/")).await,
        blocked("cloud metadata")
    );
    assert!(
        fetch(&client, &format!("http://rebinds.test:{second}/"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn one_bad_answer_refuses_the_whole_name() {
    let port = serve(hello()).await;
    let check = async |answer: &[&str], expected: &str| {
        let client = loopback_client(Scripted::new(&[answer]));
        let said = fetch(&client, &format!("http://mixed.test:{port}/"))
            .await
            .unwrap_err();
        assert_eq!(said.to_string(), expected, "{answer:?}");
    };
    check(
        &["127.0.0.1", "10.0.0.1"],
        "blocked address (private network 10.0.0.0/8)",
    )
    .await;
    check(
        &["10.0.0.1", "127.0.0.1"],
        "blocked address (private network 10.0.0.0/8)",
    )
    .await;
    check(
        &["127.0.0.1", "fd00:ec2::254"],
        "blocked address (cloud metadata)",
    )
    .await;
    check(
        &["127.0.0.1", "8.8.8.8"],
        "blocked address (http outside the allowed networks: only https is contacted)",
    )
    .await;
    check(
        &["127.0.0.1"; 17],
        "blocked address (a name with more than 16 addresses)",
    )
    .await;
    check(&[], "unreachable: the name has no address").await;
}

#[tokio::test]
async fn a_name_service_that_fails_is_no_answer() {
    let failing = Scripted(Mutex::new(vec![Err(io::Error::other("no such name"))]));
    let client = loopback_client(Arc::new(failing));
    let said = fetch(&client, "http://nowhere.test:8080/").await.unwrap_err();
    assert_eq!(
        said.to_string(),
        "unreachable: the name can't be resolved: no such name"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_service_that_stays_silent_times_out() {
    let client = loopback_client(Scripted::new(&[]));
    assert_eq!(
        fetch(&client, "http://silent.test:8080/").await,
        Err(HttpError::TimedOut)
    );
}

#[tokio::test]
async fn a_redirect_comes_back_and_is_not_followed() {
    let router = Router::new().route(
        "/",
        get(|| async { Redirect::temporary("http://169.254.169.254/latest") }),
    );
    let port = serve(router).await;
    let client = loopback_client(Scripted::new(&[]));
    assert_eq!(
        fetch(&client, &format!("http://127.0.0.1:{port}/")).await,
        Ok((307, String::new()))
    );
}

#[tokio::test]
async fn the_crawler_says_who_it_is_and_asks_for_plain_bytes() {
    let echo = |headers: HeaderMap| async move {
        let show = |name: &str| {
            headers
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
                .to_owned()
        };
        format!("{} | {}", show("user-agent"), show("accept-encoding"))
    };
    let port = serve(Router::new().route("/", get(echo))).await;
    let client = loopback_client(Scripted::new(&[]));
    let (_, body) = fetch(&client, &format!("http://127.0.0.1:{port}/"))
        .await
        .unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        body,
        format!("mcpindex-crawler/{version} (+https://github.com/mcpindex/mcpindex) | identity")
    );
}

#[tokio::test]
async fn nobody_at_the_port_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let client = loopback_client(Scripted::new(&[]));
    let said = fetch(&client, &format!("http://127.0.0.1:{port}/"))
        .await
        .unwrap_err();
    assert!(matches!(said, HttpError::Unreachable { .. }), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = loopback_client(Scripted::new(&[]));
    assert_eq!(
        fetch(&client, &format!("http://127.0.0.1:{port}/")).await,
        Err(HttpError::TimedOut)
    );
    drop(listener);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_its_own_failure() {
    install_tls_provider();
    let made = rcgen::generate_simple_self_signed(vec!["self-signed.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let client = loopback_client(Scripted::new(&[&["127.0.0.1"]]));
    let said = fetch(&client, &format!("https://self-signed.test:{port}/"))
        .await
        .unwrap_err();
    insta::assert_snapshot!(said, @"TLS certificate not valid: UnknownIssuer");
    assert!(matches!(said, HttpError::Tls { .. }), "{said:?}");
}

#[tokio::test]
async fn a_server_without_tls_is_unreachable_over_https() {
    let port = serve(hello()).await;
    let client = loopback_client(Scripted::new(&[]));
    let said = fetch(&client, &format!("https://127.0.0.1:{port}/"))
        .await
        .unwrap_err();
    assert!(matches!(said, HttpError::Unreachable { .. }), "{said:?}");
}

/// The client of a sign-in: it may go to the origins of these URLs wherever they lead.
fn admitting(resolver: Arc<dyn Resolver>, urls: &[&str]) -> GuardedClient {
    let urls: Vec<Url> = urls.iter().map(|url| url.parse().unwrap()).collect();
    GuardedClient::with_resolver(&[], false, resolver)
        .unwrap()
        .admitting(&urls)
}

#[tokio::test]
async fn an_origin_of_the_settings_is_admitted_by_name_and_no_other_port_or_name_is() {
    install_tls_provider();
    let port = serve(hello()).await;
    let other = serve(hello()).await;
    let resolver = || Scripted::new(&[&["127.0.0.1"], &["127.0.0.1"]]);
    let url = |host: &str, port: u16| format!("http://{host}:{port}/");
    let client = admitting(resolver(), &[&url("idp.example", port)]);
    let answer = fetch(&client, &url("idp.example", port)).await.unwrap();
    assert_eq!(answer.0, 200);
    for refused in [url("idp.example", other), url("127.0.0.1", port)] {
        let refused = fetch(&client, &refused).await;
        assert!(matches!(refused, Err(HttpError::Blocked { .. })), "{refused:?}");
    }
    let client = admitting(resolver(), &[&url("127.0.0.1", port)]);
    assert_eq!(fetch(&client, &url("127.0.0.1", port)).await.unwrap().0, 200);
    // What is written with https is not asked over http.
    let client = admitting(resolver(), &["https://idp.example/"]);
    let refused = fetch(&client, "http://idp.example/").await;
    assert!(matches!(refused, Err(HttpError::Blocked { .. })), "{refused:?}");
}

#[tokio::test]
async fn an_admitted_name_does_not_lead_to_a_metadata_address() {
    install_tls_provider();
    let client = admitting(
        Scripted::new(&[&["169.254.169.254"]]),
        &["http://idp.example/", "http://169.254.169.254/"],
    );
    for url in ["http://idp.example/", "http://169.254.169.254/"] {
        assert_eq!(fetch(&client, url).await, blocked("cloud metadata"), "{url}");
    }
}

#[tokio::test]
async fn a_client_for_some_hosts_goes_to_no_other_and_only_where_any_may_go() {
    install_tls_provider();
    let (port, other) = (serve(hello()).await, serve(hello()).await);
    let client = |networks: &[&str], hosts: &[&str], answers: &[&[&str]]| {
        let networks: Vec<String> = networks.iter().map(|network| (*network).to_owned()).collect();
        GuardedClient::with_resolver(&networks, false, Scripted::new(answers))
            .unwrap()
            .only(
                "[webhooks] hosts",
                hosts.iter().map(|host| host.parse().unwrap()).collect(),
            )
    };
    let url = |host: &str, port: u16| format!("http://{host}:{port}/");
    let refused = blocked("a host that [webhooks] hosts does not name");
    let here = client(
        &["127.0.0.0/8"],
        &["Hooks.test"],
        &[&["127.0.0.1"], &["127.0.0.1"]],
    );
    let answer = Ok((200, "hello".to_owned()));
    assert_eq!(fetch(&here, &url("hooks.test", port)).await, answer);
    assert_eq!(fetch(&here, &url("hooks.test", other)).await, answer);
    assert_eq!(fetch(&here, &url("other.test", port)).await, refused);
    assert_eq!(fetch(&here, &url("127.0.0.1", port)).await, refused);
    let one_port = format!("127.0.0.1:{port}");
    let one_port = client(&["127.0.0.0/8"], &[&one_port], &[]);
    assert_eq!(fetch(&one_port, &url("127.0.0.1", port)).await, answer);
    assert_eq!(fetch(&one_port, &url("127.0.0.1", other)).await, refused);
    // A host of the list is no reason to go to a private network.
    let private = client(&[], &["hooks.test"], &[&["10.0.0.1"]]);
    assert_eq!(
        fetch(&private, "https://hooks.test/").await,
        blocked("private network 10.0.0.0/8")
    );
}

#[test]
fn a_host_of_a_list_is_a_name_and_at_most_a_port() {
    use mcpindex_crawler::guarded_client::AllowedHost;
    for host in [
        "hooks.example.com",
        "hooks.example.com:8443",
        "127.0.0.1:9",
        "[::1]",
        "[::1]:9",
        "xn--bcher-kva.example",
    ] {
        assert!(host.parse::<AllowedHost>().is_ok(), "{host}");
    }
    for wrong in [
        "",
        "https://hooks.example.com",
        "hooks.example.com/x",
        "*.example.com",
        "a b",
        "user@hooks.example.com",
        "hooks.example.com:",
        "hooks.example.com:99999",
        "hooks.example.com?x",
        "hooks.example.com#x",
    ] {
        let said = wrong.parse::<AllowedHost>().unwrap_err();
        assert!(
            said.contains("is no host: write it as hooks.example.com"),
            "{said}"
        );
    }
}
