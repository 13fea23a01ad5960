//! The only way out: an HTTP client that refuses private and reserved addresses.
//!
//! A URL is judged before the request (scheme, user info, port, and the address when it is written as one, since the
//! resolver is never asked about those); a name is resolved once a connection, every answer is judged, and the connection
//! goes to exactly these addresses; the address that answered is judged once more. Redirects come back as they are, but to
//! whoever wants them followed (`hop`): a few, each judged as if it had been asked for.
//!
//! An origin that the administrator wrote into the settings (a sign-in's provider) is admitted by name: there, and only
//! there, private addresses and plain `http:` are right. Where addresses come from people rather than from lists (webhooks), the
//! client is held to the hosts of the settings on top of all that.
//!
//! Invariant: no byte is sent to an address that [`crate::address`] refuses, however the URL or the name service spells it,
//! but to an admitted origin; and to a cloud's metadata address not even there.

mod hop;
mod host;

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::wire::http::{HttpClient, HttpError};
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use url::{Host, Url};

pub use host::AllowedHost;

use crate::address::{AddressRules, Network, Verdict};

/// How the crawler names itself to servers.
pub const USER_AGENT: &str = concat!(
    "mcpindex-crawler/",
    env!("CARGO_PKG_VERSION"),
    " (+",
    env!("CARGO_PKG_REPOSITORY"),
    ")"
);

/// Addresses of one name; whoever has more is refused.
const MAX_ADDRESSES: usize = 16;
/// Headers of one answer.
const MAX_HEADERS: usize = 100;
/// Bytes of the headers of one answer.
const MAX_HEADER_BYTES: u32 = 64 << 10;
/// Redirects that are followed for one request, where they are.
pub const MAX_HOPS: usize = 3;

/// How long each step to an answer may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// For the name, the connection and the TLS handshake together (5 s).
    pub connect: Duration,
    /// For the name alone (5 s).
    pub resolve: Duration,
    /// From the request to the head of the answer (15 s), for each hop.
    pub head: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            connect: Duration::from_secs(5),
            resolve: Duration::from_secs(5),
            head: Duration::from_secs(15),
        }
    }
}

/// Ports from 1024 on that belong to services which take what an HTTP request says for commands, or guard nothing else.
const SERVICE_PORTS: [u16; 41] = [
    1080, 1433, 1434, 1521, 1723, 2049, 2181, 2375, 2376, 2379, 2380, 3128, 3306, 3389, 4369, 5432, 5433,
    5672, 5900, 5984, 5985, 5986, 6000, 6379, 6380, 6443, 6667, 6697, 7001, 9042, 9092, 9100, 9200, 9300,
    10250, 10255, 11211, 27017, 27018, 27019, 50070,
];

/// Turns a host name into addresses. A parameter, so that tests can be a hostile name service.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host`, in the order to try them.
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's own name service.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    #[expect(
        clippy::disallowed_methods,
        reason = "what comes of it is judged by `JudgedResolver`"
    )]
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    }
}

/// The guarded client.
pub struct GuardedClient {
    rules: Arc<AddressRules>,
    allow_http: bool,
    secure: reqwest::Client,
    plain: reqwest::Client,
    /// The origins that the administrator wrote into the settings.
    admitted: Vec<url::Origin>,
    /// For these alone: judges no answer of the name service but for metadata addresses.
    to_admitted: reqwest::Client,
    /// The only hosts, and the name of the list that they stand in; `None`: any.
    only: Option<(&'static str, Vec<AllowedHost>)>,
    /// How many redirects are followed.
    hops: usize,
    head_time: Duration,
}

impl GuardedClient {
    /// A client that also admits these networks (`10.1.0.0/16`), and `http:` where `allow_http` or the address is in one of
    /// them. The process must have installed a rustls crypto provider. Errors are one line.
    pub fn new(allow_networks: &[String], allow_http: bool) -> Result<GuardedClient, String> {
        GuardedClient::with_resolver(allow_networks, allow_http, Arc::new(SystemResolver))
    }

    /// The same, with another name service.
    pub fn with_resolver(
        allow_networks: &[String],
        allow_http: bool,
        resolver: Arc<dyn Resolver>,
    ) -> Result<GuardedClient, String> {
        GuardedClient::with_times(allow_networks, allow_http, resolver, &Times::default())
    }

    /// The same, with another patience.
    pub fn with_times(
        allow_networks: &[String],
        allow_http: bool,
        resolver: Arc<dyn Resolver>,
        times: &Times,
    ) -> Result<GuardedClient, String> {
        let networks: Result<Vec<Network>, _> = allow_networks.iter().map(|text| text.parse()).collect();
        let rules = AddressRules::new(networks.map_err(|error| error.to_string())?);
        let client = |rules: &AddressRules, public: bool| {
            let resolver = JudgedResolver {
                resolver: Arc::clone(&resolver),
                rules: Arc::new(rules.clone()),
                public,
                time: times.resolve,
            };
            build(resolver, times.connect)
        };
        Ok(GuardedClient {
            secure: client(&rules, true)?,
            plain: client(&rules, allow_http)?,
            admitted: Vec::new(),
            only: None,
            hops: 0,
            head_time: times.head,
            to_admitted: client(&AddressRules::everywhere(), true)?,
            rules: Arc::new(rules),
            allow_http,
        })
    }

    /// Admits the origins (scheme, host and port) of these URLs too, wherever their hosts lead.
    #[must_use]
    pub fn admitting<'u>(mut self, urls: impl IntoIterator<Item = &'u Url>) -> GuardedClient {
        self.admitted.extend(urls.into_iter().map(Url::origin));
        self
    }

    /// Refuses every host that is not in this list, on top of all other rules. `name` is what the list is called in the settings.
    #[must_use]
    pub fn only(mut self, name: &'static str, hosts: Vec<AllowedHost>) -> GuardedClient {
        self.only = Some((name, hosts));
        self
    }

    /// Follows up to [`MAX_HOPS`] redirects, each by all rules.
    #[must_use]
    pub fn following_redirects(mut self) -> GuardedClient {
        self.hops = MAX_HOPS;
        self
    }

    fn admits(&self, url: &Url) -> bool {
        self.admitted.contains(&url.origin())
    }

    /// Judges a URL as far as that goes without asking the name service.
    pub fn check(&self, url: &Url) -> Result<(), HttpError> {
        let plain = match url.scheme() {
            "https" => false,
            "http" => true,
            other => return Err(blocked(format!("scheme `{other}`: only https is contacted"))),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(blocked("a user name or password in the URL"));
        }
        if let Some((name, hosts)) = &self.only
            && !hosts.iter().any(|host| host.admits(url))
        {
            return Err(blocked(format!("a host that {name} does not name")));
        }
        if self.admits(url) {
            return match url.host() {
                Some(Host::Ipv4(address)) => check_admitted(address.into()),
                Some(Host::Ipv6(address)) => check_admitted(address.into()),
                _ => Ok(()),
            };
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.check_address(address.into(), plain)?,
            Some(Host::Ipv6(address)) => self.check_address(address.into(), plain)?,
            Some(Host::Domain(_)) => {}
            None => return Err(blocked("no host in the URL")),
        }
        match url.port_or_known_default() {
            Some(443 | 80) => Ok(()),
            Some(port) if port >= 1024 && !SERVICE_PORTS.contains(&port) => Ok(()),
            port => Err(blocked(format!("port {}", port.unwrap_or_default()))),
        }
    }

    fn check_address(&self, address: IpAddr, plain: bool) -> Result<(), HttpError> {
        judge(&self.rules, address, !plain || self.allow_http).map_err(blocked)
    }

    async fn send_followed(&self, mut request: reqwest::Request) -> Result<reqwest::Response, HttpError> {
        let mut hops = 0;
        loop {
            // A body that comes as a stream is sent once; none of ours does.
            let again = request.try_clone().filter(|_| self.hops > 0);
            let from = request.url().clone();
            let answer = self.send_checked(request).await;
            let response = match hops {
                0 => answer?,
                _ => answer.map_err(by_redirect)?,
            };
            let status = response.status();
            let (Some(again), Some(to)) = (again, hop::target(&from, status, response.headers())) else {
                return Ok(response);
            };
            hops += 1;
            if hops > self.hops {
                return Err(HttpError::NotFollowed {
                    reason: format!(
                        "more than {} redirects, the last to {}",
                        self.hops,
                        to.origin().ascii_serialization()
                    ),
                });
            }
            // Also where it is not followed: where a server tries to send others says what it is.
            self.check(&to).map_err(by_redirect)?;
            request = hop::next(again, status, to)?;
        }
    }

    async fn send_checked(&self, request: reqwest::Request) -> Result<reqwest::Response, HttpError> {
        self.check(request.url())?;
        let plain = request.url().scheme() == "http";
        let admitted = self.admits(request.url());
        let client = match (admitted, plain) {
            (true, _) => &self.to_admitted,
            (false, true) => &self.plain,
            (false, false) => &self.secure,
        };
        let response = tokio::time::timeout(self.head_time, client.execute(request))
            .await
            .map_err(|_| HttpError::TimedOut)?
            // The URL may hold a secret.
            .map_err(|error| translate(&error.without_url()))?;
        // Resolver and connector should have seen to this; the socket has the last word.
        if let Some(peer) = response.remote_addr() {
            match admitted {
                true => check_admitted(peer.ip())?,
                false => self.check_address(peer.ip(), plain)?,
            }
        }
        check_head(response.headers())?;
        Ok(response)
    }
}

impl HttpClient for GuardedClient {
    fn send(&self, request: reqwest::Request) -> BoxFuture<'_, Result<reqwest::Response, HttpError>> {
        self.send_followed(request).boxed()
    }
}

/// The rule that refuses this address, if any. `public` says whether public addresses may be contacted at all, which over
/// plain `http:` they may not by default.
fn judge(rules: &AddressRules, address: IpAddr, public: bool) -> Result<(), String> {
    match rules.judge(address) {
        Verdict::Allowed => Ok(()),
        Verdict::Public if public => Ok(()),
        Verdict::Public => Err("http outside the allowed networks: only https is contacted".to_owned()),
        Verdict::Blocked(rule) => Err(rule),
    }
}

/// What an admitted origin's address is held to.
fn check_admitted(address: IpAddr) -> Result<(), HttpError> {
    judge(&AddressRules::everywhere(), address, true).map_err(blocked)
}

fn by_redirect(error: HttpError) -> HttpError {
    match error {
        HttpError::Blocked { rule } => blocked(format!("by a redirect: {rule}")),
        other => other,
    }
}

/// Whether the head of an answer is of a size that anybody needs.
fn check_head(headers: &HeaderMap) -> Result<(), HttpError> {
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    match headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES as usize {
        true => Err(head_too_large()),
        false => Ok(()),
    }
}

fn head_too_large() -> HttpError {
    HttpError::OverLimit {
        what: "headers, or 64 KiB of them, in one answer",
        limit: MAX_HEADERS,
    }
}

fn blocked(rule: impl Into<String>) -> HttpError {
    HttpError::Blocked { rule: rule.into() }
}

#[expect(clippy::disallowed_methods, reason = "this is the client with the rules")]
fn build(resolver: JudgedResolver, connect_time: Duration) -> Result<reqwest::Client, String> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err("no TLS provider is installed in this process".to_owned());
    }
    let mut headers = HeaderMap::new();
    // A body that arrives compressed could grow without bound. What is sent so nevertheless is not unpacked here: the wire
    // does that, within its limits.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .default_headers(headers)
        .no_gzip()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(connect_time)
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .pool_max_idle_per_host(1)
        .pool_idle_timeout(Duration::from_secs(10))
        .dns_resolver(resolver)
        .build()
        .map_err(|error| format!("the HTTP client can't be made: {}", innermost(&error)))
}

/// Answers only with addresses that may be contacted: one that may not refuses the whole name, since a name that leads to a
/// good and to a bad address is either an attack or a mistake.
struct JudgedResolver {
    resolver: Arc<dyn Resolver>,
    rules: Arc<AddressRules>,
    public: bool,
    time: Duration,
}

/// Why a name gave no address to connect to.
#[derive(Debug, thiserror::Error)]
enum ResolveError {
    #[error("{0}")]
    Blocked(String),
    #[error("the name service did not answer in time")]
    TimedOut,
    #[error("the name has no address")]
    NoAddress,
    #[error("the name can't be resolved: {0}")]
    Failed(io::Error),
}

impl reqwest::dns::Resolve for JudgedResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let answer = self.resolver.resolve(name.as_str());
        let (rules, public, time) = (Arc::clone(&self.rules), self.public, self.time);
        async move {
            let addresses = judged_answer(answer, &rules, public, time).await?;
            let sockets = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(sockets) as reqwest::dns::Addrs)
        }
        .boxed()
    }
}

async fn judged_answer(
    answer: BoxFuture<'static, io::Result<Vec<IpAddr>>>,
    rules: &AddressRules,
    public: bool,
    time: Duration,
) -> Result<Vec<IpAddr>, ResolveError> {
    let addresses = tokio::time::timeout(time, answer)
        .await
        .map_err(|_| ResolveError::TimedOut)?
        .map_err(ResolveError::Failed)?;
    if addresses.is_empty() {
        return Err(ResolveError::NoAddress);
    }
    if addresses.len() > MAX_ADDRESSES {
        return Err(ResolveError::Blocked(format!(
            "a name with more than {MAX_ADDRESSES} addresses"
        )));
    }
    for address in &addresses {
        judge(rules, *address, public).map_err(ResolveError::Blocked)?;
    }
    Ok(addresses)
}

/// What a failed request means, from the innermost cause that says something.
fn translate(error: &reqwest::Error) -> HttpError {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(resolve) = current.downcast_ref::<ResolveError>() {
            return match resolve {
                ResolveError::Blocked(rule) => blocked(rule.as_str()),
                ResolveError::TimedOut => HttpError::TimedOut,
                other => HttpError::Unreachable {
                    reason: other.to_string(),
                },
            };
        }
        if current
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_parse_too_large)
        {
            return head_too_large();
        }
        if let Some(tls) = current.downcast_ref::<rustls::Error>() {
            return match tls {
                rustls::Error::InvalidCertificate(reason) => HttpError::Tls {
                    reason: reason.to_string(),
                },
                rustls::Error::NoCertificatesPresented => HttpError::Tls {
                    reason: tls.to_string(),
                },
                other => HttpError::Unreachable {
                    reason: format!("TLS failed: {other}"),
                },
            };
        }
        cause = next_cause(current);
    }
    if error.is_timeout() {
        return HttpError::TimedOut;
    }
    HttpError::Unreachable {
        reason: innermost(error),
    }
}

/// The cause below. An `io::Error` that wraps an error skips it in `source`, and the wrapped one is the one that matters.
fn next_cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// The words of the last cause: the outer ones repeat the URL and say no more than that it failed.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = next_cause(last) {
        last = cause;
    }
    last.to_string()
}
