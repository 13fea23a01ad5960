//! Certificates of an issuer that the machine trusts, and what else can be wrong with them.
//!
//! Whom a machine trusts is read from its environment, which is a process's own: the look is made by this program started
//! anew.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::wire::limits::Limits;
use mcpindex_crawler::guarded_client::{GuardedClient, Resolver};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::stub::{look_with, told};
use crate::install_tls_provider;

/// Where the process that looks is told what to look at.
const LOOK_AT: &str = "HOSTILE_CERTIFICATE_URL";

/// Everybody lives here.
struct Here;

impl Resolver for Here {
    fn resolve(&self, _host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        async { Ok(vec![[127, 0, 0, 1].into()]) }.boxed()
    }
}

/// A server with a certificate for `notes.test` that ends with the year before `end`, which wants a sign-in of everybody.
async fn serve(issuer: &Issuer<'_, KeyPair>, end: i32) -> u16 {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["notes.test".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(end, 1, 1);
    let certificate = params.signed_by(&key, issuer).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream
                    .write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                    .await;
            }
        }
    });
    port
}

#[tokio::test]
async fn a_trusted_issuer_makes_up_for_neither_time_nor_name() {
    install_tls_provider();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    let mut trusted = tempfile::NamedTempFile::new().unwrap();
    trusted.write_all(pem(certificate.der()).as_bytes()).unwrap();
    let issuer = Issuer::new(params, key);

    let check = async |port: u16, url: &str, expected: &str| {
        let look = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "hostile::certificates::the_look_itself",
                "--ignored",
                "--nocapture",
            ])
            .env("SSL_CERT_FILE", trusted.path())
            .env(LOOK_AT, format!("{url}:{port}/"))
            .output();
        let output = look.await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find_map(|line| line.strip_prefix("told: "));
        // Behind that it may name the present time.
        assert!(line.unwrap_or_default().starts_with(expected), "{url}: {said}");
    };
    let (well, expired) = (serve(&issuer, 4_000).await, serve(&issuer, 2_021).await);
    check(
        well,
        "https://notes.test",
        "auth_required: HTTP 401: a sign-in is needed",
    )
    .await;
    check(
        well,
        "https://other.test",
        "tls_invalid: TLS certificate not valid: certificate not valid for name \"other.test\"",
    )
    .await;
    check(
        expired,
        "https://notes.test",
        "tls_invalid: TLS certificate not valid: certificate expired",
    )
    .await;
}

#[tokio::test]
#[ignore = "started by the test above, in an environment of its own"]
async fn the_look_itself() {
    let Ok(url) = std::env::var(LOOK_AT) else {
        return;
    };
    install_tls_provider();
    let networks = ["127.0.0.0/8".to_owned()];
    let client = GuardedClient::with_resolver(&networks, false, Arc::new(Here)).unwrap();
    let inspection = look_with(&client, &url, &[], &Limits::crawl()).await;
    let told = format!("told: {}\n", told(&inspection));
    std::io::stderr().write_all(told.as_bytes()).unwrap();
}

/// The text form of a certificate.
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}
