//! An index that people sign in to, and their browsers: each keeps its cookies and says what a browser says of where a
//! request comes from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use mcpindex::clock::Clock;
use mcpindex_crawler::guarded_client::GuardedClient;
use mcpindex_server::access::{Access, AccessRules, Metrics, Rates, Read};
use mcpindex_server::app::App;
use mcpindex_server::approvals::Approvals;
use mcpindex_server::config::ApprovalSettings;
use mcpindex_server::config::Place;
use mcpindex_server::login::settings::{ClientSettings, LoginSettings};
use mcpindex_server::login::{Login, admitted};
use mcpindex_server::router::router;
use mcpindex_server::webhooks::Webhooks;
use mcpindex_store::Store;
use mcpindex_store::approvals::queue::Scope;
use mcpindex_store::testing::TestStore;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::client::{self, Answer, NOW, app, clock};

/// Where people reach the index.
pub(crate) const BASE: &str = "https://index.example/";

/// A clock that a test moves.
pub(crate) struct Hand(AtomicI64);

impl Clock for Hand {
    fn unix_seconds(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Hand {
    pub(crate) fn forward(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

pub(crate) struct Index {
    pub(crate) router: Router,
    pub(crate) store: Store,
    pub(crate) clock: Arc<Hand>,
    base: Url,
    _database: Option<TestStore>,
}

/// What a provider knows the index by.
pub(crate) fn client_of(id: &str, secret: &str) -> ClientSettings {
    ClientSettings {
        id: Some(id.to_owned()),
        secret: Some(secret.into()),
        secret_file: None,
    }
}

impl Index {
    pub(crate) async fn start(settings: &LoginSettings) -> Index {
        let database = TestStore::sqlite().await;
        let index = Index::over(&database.store, settings, Some(BASE));
        Index {
            _database: Some(database),
            ..index
        }
    }

    /// One that only this machine reaches, over plain http.
    pub(crate) async fn on_loopback(settings: &LoginSettings) -> Index {
        let database = TestStore::sqlite().await;
        let index = Index::over(&database.store, settings, None);
        Index {
            _database: Some(database),
            ..index
        }
    }

    /// One that only its members read.
    pub(crate) fn of_members(store: &Store, settings: &LoginSettings) -> Index {
        let rules = AccessRules {
            read: Read::Members,
            registry: Read::Members,
            metrics: Metrics::Admins,
            rates: Rates::default(),
            proxies: Vec::new(),
            badges: Vec::new(),
        };
        Index::with_access(store, settings, None, Access::new(rules, clock()))
    }

    /// One where every server's tools wait for an approver.
    pub(crate) fn queueing_all(store: &Store, settings: &LoginSettings) -> Index {
        let approvals = ApprovalSettings {
            queue: Scope::All,
            ..ApprovalSettings::default()
        };
        let approvals = Approvals::new(&approvals, CancellationToken::new());
        Index::of_app(store, settings, None, Access::public(), |app| App {
            approvals: Arc::new(approvals),
            ..app
        })
    }

    /// One that tells others.
    pub(crate) fn sending(store: &Store, settings: &LoginSettings, webhooks: Arc<Webhooks>) -> Index {
        Index::of_app(store, settings, None, Access::public(), |app| App {
            webhooks: Some(webhooks),
            ..app
        })
    }

    pub(crate) fn over(store: &Store, settings: &LoginSettings, public_url: Option<&str>) -> Index {
        Index::with_access(store, settings, public_url, Access::public())
    }

    fn with_access(
        store: &Store,
        settings: &LoginSettings,
        public_url: Option<&str>,
        access: Access,
    ) -> Index {
        Index::of_app(store, settings, public_url, access, |app| app)
    }

    fn of_app(
        store: &Store,
        settings: &LoginSettings,
        public_url: Option<&str>,
        access: Access,
        with: impl FnOnce(App) -> App,
    ) -> Index {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let public_url: Option<Url> = public_url.map(|url| url.parse().unwrap());
        let base = public_url
            .clone()
            .unwrap_or_else(|| "http://127.0.0.1:8080/".parse().unwrap());
        let guarded = GuardedClient::new(&[], false).unwrap();
        let guarded = guarded.admitting(&admitted(settings, &[]).unwrap());
        let place = Place {
            listening: "127.0.0.1:8080".parse().unwrap(),
            public_url: public_url.as_ref(),
            proxies: &access.rules.proxies,
        };
        let login = Login::new(settings, &base, place, Arc::new(guarded)).unwrap();
        let clock = Arc::new(Hand(AtomicI64::new(NOW)));
        let app = App {
            base: base.clone(),
            login: Arc::new(login),
            access: Arc::new(access),
            clock: Arc::<Hand>::clone(&clock),
            ..app(store.clone())
        };
        Index {
            router: router(with(app)),
            store: store.clone(),
            clock,
            base,
            _database: None,
        }
    }

    pub(crate) fn browser(&self) -> Browser<'_> {
        Browser {
            index: self,
            address: "192.0.2.1".parse().unwrap(),
            cookies: Mutex::default(),
        }
    }

    pub(crate) async fn send(&self, from: IpAddr, request: Request<Body>) -> Answer {
        client::answer(self.router.clone(), client::from(from, request)).await
    }

    /// A program posts JSON.
    pub(crate) async fn post_json(&self, from: &str, path: &str, body: &serde_json::Value) -> Answer {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        self.send(from.parse().unwrap(), request).await
    }

    fn authority(&self) -> &str {
        &self.base[url::Position::BeforeHost..url::Position::AfterPort]
    }
}

/// A browser, with its cookies.
pub(crate) struct Browser<'i> {
    index: &'i Index,
    pub(crate) address: IpAddr,
    pub(crate) cookies: Mutex<BTreeMap<String, String>>,
}

impl Browser<'_> {
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.index.authority());
        }
        let cookies: Vec<String> = self
            .cookies
            .lock()
            .unwrap()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self
            .index
            .send(self.address, request.body(Body::from(body)).unwrap())
            .await;
        for value in answer.headers.get_all("set-cookie") {
            self.take(value.to_str().unwrap());
        }
        answer
    }

    fn take(&self, cookie: &str) {
        let (pair, attributes) = cookie.split_once(';').unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        let mut cookies = self.cookies.lock().unwrap();
        if attributes.contains("Max-Age=0") {
            cookies.remove(name);
        } else {
            cookies.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Somebody follows a link or types an address.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[("sec-fetch-site", "none")], String::new())
            .await
    }

    /// Somebody sends a form of a page of ours.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let own = [("sec-fetch-site", "same-origin"), ("origin", "null")];
        self.post_from(path, &own, fields).await
    }

    /// Somebody sends a form, from where these headers say.
    pub(crate) async fn post_from(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        fields: &[(&str, &str)],
    ) -> Answer {
        let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
        all.extend(headers);
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        self.send(Method::POST, path, &all, form.finish()).await
    }

    /// The page, which must be there.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(
            answer.status,
            200,
            "{path}: {} {}",
            answer.header("location"),
            answer.text()
        );
        answer.text()
    }

    /// Where an answer leads; it must lead somewhere.
    pub(crate) async fn leads(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.text());
        answer.header("location").to_owned()
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session().is_some()
    }

    pub(crate) fn session(&self) -> Option<String> {
        let cookies = self.cookies.lock().unwrap();
        cookies
            .get("__Host-mcpindex")
            .or(cookies.get("mcpindex-8080"))
            .cloned()
    }

    /// Goes to the provider and comes back with its answer, as a path of the index.
    pub(crate) async fn at_provider(&self, provider: &str, next: &str) -> String {
        let there = self
            .leads(&format!("/auth/{provider}?next={}", encoded(next)))
            .await;
        let answer = no_redirects().get(&there).send().await.unwrap();
        let back = answer.headers()["location"].to_str().unwrap();
        back.strip_prefix(self.index.base.as_str().trim_end_matches('/'))
            .unwrap_or_else(|| panic!("back to {back}"))
            .to_owned()
    }

    /// Signs in; where that leads.
    pub(crate) async fn sign_in(&self, provider: &str, next: &str) -> String {
        let back = self.at_provider(provider, next).await;
        self.leads(&back).await
    }

    /// The form's token of a page.
    pub(crate) async fn token(&self, path: &str) -> String {
        field(&self.page(path).await, "csrf")
    }
}

/// The value of a page's hidden field.
pub(crate) fn field(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let after = page
        .split(&start)
        .nth(1)
        .unwrap_or_else(|| panic!("no {name} in {page}"));
    after
        .split('"')
        .next()
        .unwrap()
        .replace("&amp;", "&")
        .replace("&#38;", "&")
}

pub(crate) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The parameters of a URL.
pub(crate) fn parameters(url: &str) -> BTreeMap<String, String> {
    let base: Url = BASE.parse().unwrap();
    base.join(url).unwrap().query_pairs().into_owned().collect()
}

#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
pub(crate) fn no_redirects() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

/// A small server on a loopback port; its URL without a slash at its end.
pub(crate) async fn listen(router: impl FnOnce(&str) -> Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = router(&url);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}
