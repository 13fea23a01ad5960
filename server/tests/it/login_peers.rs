//! Signing in to the program itself with foreign providers: a certified one, whose pages a person walks through, and one that
//! signs what is wrong. They run on loopback, with the machine's own clock.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use url::Url;

use crate::browser::{field, no_redirects};
use crate::peers;
use crate::programs::{Place, Served};

/// A provider that runs until it is dropped.
struct Provider {
    issuer: String,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Provider {
    async fn start(script: &str) -> Provider {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/peers")
            .join(script);
        let mut child = Command::new("node")
            .arg(script)
            .arg(peers::path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("node starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        let issuer = lines.next_line().await.expect("stdout").expect("an issuer");
        Provider {
            issuer,
            stdin: child.stdin.take().expect("its stdin"),
            lines,
            _child: child,
        }
    }

    /// Makes this member of its next tokens wrong.
    async fn wrong(&mut self, member: &str) {
        self.stdin
            .write_all(format!("{member}\n").as_bytes())
            .await
            .expect("its stdin");
        assert_eq!(
            self.lines.next_line().await.expect("stdout").as_deref(),
            Some("ok")
        );
    }

    /// An index that people sign in to with it.
    async fn index(&self, place: &Place) -> Served {
        let settings = format!(
            "[login]\nallow = [\"domain:acme.example\"]\n[oidc]\nissuer = \"{}\"\nname = \"Peer\"\nclient_id = \"mcpindex\"\n\
             client_secret_file = \"secret\"\n",
            self.issuer
        );
        place.write("secret", "a-secret-of-this-test\n");
        let settings = place.write("index.toml", &settings);
        place.serve(&["--no-crawl", "--config", &settings]).await
    }
}

/// Somebody at a browser, with the cookies of each host and port.
struct Person {
    client: reqwest::Client,
    cookies: BTreeMap<(String, String), String>,
    at: Url,
    page: String,
}

impl Person {
    fn new() -> Person {
        Person {
            client: no_redirects(),
            cookies: BTreeMap::new(),
            at: "http://127.0.0.1/".parse().unwrap(),
            page: String::new(),
        }
    }

    /// Opens an address and goes wherever it leads; the status of the page at the end.
    async fn open(&mut self, url: &str) -> u16 {
        self.ask(url, None).await
    }

    /// Sends a form to this action, with these fields.
    async fn send(&mut self, action: &str, fields: &[(&str, &str)]) -> u16 {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        self.ask(action, Some(form.finish())).await
    }

    async fn ask(&mut self, url: &str, mut form: Option<String>) -> u16 {
        let mut url = self.at.join(url).unwrap();
        for _ in 0..20 {
            let origin = url.origin().ascii_serialization();
            let cookies: Vec<String> = self
                .cookies
                .iter()
                .filter(|((of, _), _)| *of == origin)
                .map(|((_, name), value)| format!("{name}={value}"))
                .collect();
            let request = match form.take() {
                None => self.client.get(url.clone()),
                Some(form) => self
                    .client
                    .post(url.clone())
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(form),
            };
            let answer = request
                .header("cookie", cookies.join("; "))
                .header("sec-fetch-site", "same-origin")
                .send()
                .await
                .unwrap();
            for cookie in answer.headers().get_all("set-cookie") {
                let (name, value) = cookie.to_str().unwrap().split_once('=').unwrap();
                let value = value.split(';').next().unwrap();
                self.cookies
                    .insert((origin.clone(), name.to_owned()), value.to_owned());
            }
            let status = answer.status().as_u16();
            let location = answer
                .headers()
                .get("location")
                .map(|to| to.to_str().unwrap().to_owned());
            if let Some(location) = location.filter(|_| (300..400).contains(&status)) {
                url = url.join(&location).unwrap();
                continue;
            }
            self.at = url;
            self.page = answer.text().await.unwrap();
            return status;
        }
        panic!("led around without an end, last to {url}");
    }

    /// The action of the page's first form.
    fn action(&self) -> String {
        let after = self
            .page
            .split("action=\"")
            .nth(1)
            .unwrap_or_else(|| panic!("no form: {}", self.page));
        after.split('"').next().unwrap().replace("&amp;", "&")
    }

    /// Signs in at the certified provider, on its own pages.
    async fn sign_in_as(&mut self, login: &str, served: &Served) -> u16 {
        assert_eq!(
            self.open(&format!("{}/auth/oidc?next=%2Faccount", served.base))
                .await,
            200
        );
        let action = self.action();
        assert_eq!(
            self.send(
                &action,
                &[("prompt", "login"), ("login", login), ("password", "x")]
            )
            .await,
            200
        );
        let action = self.action();
        self.send(&action, &[("prompt", "consent")]).await
    }
}

#[tokio::test]
async fn somebody_signs_in_with_a_certified_provider_and_gives_a_machine_a_key() {
    let provider = Provider::start("oidc_provider.mjs").await;
    let place = Place::new();
    let served = provider.index(&place).await;
    let mut alice = Person::new();
    assert_eq!(alice.sign_in_as("alice", &served).await, 200, "{}", alice.page);
    assert_eq!(alice.at.as_str(), format!("{}/account", served.base));
    assert!(alice.page.contains("alice@acme.example"), "{}", alice.page);

    let client = no_redirects();
    let post = async |path: &str, body: serde_json::Value| {
        let request = client
            .post(format!("{}/api/v1/device/{path}", served.base))
            .json(&body);
        request
            .send()
            .await
            .unwrap()
            .json::<serde_json::Value>()
            .await
            .unwrap()
    };
    let begun = post("code", json!({"name": "build server"})).await;
    assert_eq!(
        post("token", json!({"device_code": begun["device_code"]})).await["error"],
        "authorization_pending"
    );
    alice.open("/device").await;
    let csrf = field(&alice.page, "csrf");
    let code = begun["user_code"].as_str().unwrap();
    alice.send("/device", &[("csrf", &csrf), ("code", code)]).await;
    alice
        .send(
            "/device/decision",
            &[("csrf", &csrf), ("code", code), ("decision", "allow")],
        )
        .await;
    let given = post("token", json!({"device_code": begun["device_code"]})).await;
    assert_eq!(given["login"], "alice", "{given}");

    // The provider has not verified this one's address.
    let mut mallory = Person::new();
    assert_eq!(
        mallory.sign_in_as("mallory", &served).await,
        403,
        "{}",
        mallory.page
    );
    assert!(
        mallory.page.contains("You may not use this index"),
        "{}",
        mallory.page
    );
    served.terminate().await;
}

#[tokio::test]
async fn whoever_says_no_at_the_certified_provider_gets_a_page_with_a_way_on() {
    let provider = Provider::start("oidc_provider.mjs").await;
    let place = Place::new();
    let served = provider.index(&place).await;
    let mut person = Person::new();
    person.open(&format!("{}/auth/oidc", served.base)).await;
    let abort = person
        .page
        .split("href=\"")
        .find(|part| part.contains("/abort"))
        .expect("a way out");
    let abort = abort.split('"').next().unwrap().to_owned();
    assert_eq!(person.open(&abort).await, 403);
    assert!(person.page.contains("You are not signed in"), "{}", person.page);
    assert!(
        person.page.contains("href=\"/auth/oidc?next=%2F\""),
        "{}",
        person.page
    );
    served.terminate().await;
}

#[tokio::test]
async fn a_provider_that_signs_what_is_wrong_signs_nobody_in() {
    let mut provider = Provider::start("mock_issuer.mjs").await;
    let place = Place::new();
    let served = provider.index(&place).await;
    let start = format!("{}/auth/oidc?next=%2Faccount", served.base);
    for (member, part) in [
        ("iss", "names another issuer"),
        ("aud", "made for another client"),
        ("exp", "The clocks differ"),
        ("nonce", "belongs to another sign-in"),
        ("kid", "a key that the issuer doesn&#39;t publish"),
    ] {
        provider.wrong(member).await;
        let mut person = Person::new();
        assert_eq!(person.open(&start).await, 502, "{member}");
        assert!(person.page.contains(part), "{member}: {}", person.page);
    }
    provider.wrong("nothing").await;
    let mut person = Person::new();
    assert_eq!(person.open(&start).await, 200, "{}", person.page);
    assert!(person.page.contains("alice@acme.example"), "{}", person.page);
    served.terminate().await;
}
