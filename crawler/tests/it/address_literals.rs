//! Every spelling of an address in a URL, and what the guarded client says about it before the name service is asked.

use mcpindex_crawler::guarded_client::GuardedClient;
use url::{Host, Url};

use crate::install_tls_provider;

/// What becomes of a URL with this host: the rule that refuses it, or how it would be contacted.
fn verdict(client: &GuardedClient, host: &str) -> String {
    let Ok(url) = Url::parse(&format!("https://{host}/mcp")) else {
        return "not a URL".to_owned();
    };
    match (client.check(&url), url.host()) {
        (Err(refused), _) => refused.to_string(),
        (Ok(()), Some(Host::Domain(_))) => "a name".to_owned(),
        (Ok(()), _) => "public".to_owned(),
    }
}

#[test]
fn every_spelling_of_an_address_meets_the_rule_for_that_address() {
    install_tls_provider();
    let client = GuardedClient::new(&[], false).unwrap();
    let literals = "
        1.1.1.1  8.8.8.8  172.32.0.1  192.0.3.1  100.128.0.1  198.20.0.1  1.1.1.1.
        127.0.0.1  127.1  127.0.1  0x7f.1  0x7f000001  2130706433  017700000001  0177.0.0.1  127.0.0.1.  127.255.255.254
        0  0.0.0.0  0x0  0.1.2.3  10.0.0.1  10.255.255.255  012.0.0.1  167772161  100.64.0.1  100.127.255.255
        100.100.100.200  168.63.129.16  169.254.169.254  0xa9fea9fe  2852039166  169.254.43518  0251.0376.0251.0376
        169.254.170.2  169.254.1.1  172.16.0.1  172.31.255.255  192.0.0.1  192.0.2.1  192.88.99.1  192.168.0.1
        3232235521  198.18.0.1  198.19.255.255  198.51.100.7  203.0.113.9  224.0.0.1  239.255.255.250  240.0.0.1
        255.255.255.255  4294967295  1.2.3.256  0x1ffffffff  1.2.3.4.5  127.0.0.08  0x7g.1
        １２７.0.0.1  １２７。０。０。１  ①②⑦.0.0.1  %31%32%37.0.0.1
        [::]  [::1]  [0:0:0:0:0:0:0:1]  [::ffff:127.0.0.1]  [::ffff:7f00:1]  [::ffff:a9fe:a9fe]  [::ffff:8.8.8.8]
        [::127.0.0.1]  [::7f00:1]  [::ffff:0:127.0.0.1]  [64:ff9b::7f00:1]  [64:ff9b::808:808]  [64:ff9b:1::7f00:1]
        [2002:7f00:1::]  [2002:a00:1::1]  [2002:808:808::1]  [2001::1]  [2001:0:4136:e378:8000:63bf:3fff:fdd2]
        [2001:db8::1]  [2001:10::1]  [3fff::1]  [100::1]  [fc00::1]  [fd00::1]  [fd00:ec2::254]  [fe80::1]  [fe80::1%25eth0]
        [fe80::1%eth0]  [fec0::1]  [ff02::1]  [4000::1]  [2606:4700:4700::1111]  [2a00:1450::1]  [::1  localhost  example.com
    ";
    let table: Vec<String> = literals
        .split_whitespace()
        .map(|literal| format!("{literal:<42} {}", verdict(&client, literal)))
        .collect();
    assert!(table.len() >= 80, "{}", table.len());
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn a_url_is_refused_for_its_scheme_its_user_info_or_its_port() {
    install_tls_provider();
    let client = GuardedClient::new(&[], false).unwrap();
    let check = |url: &str, expected: &str| {
        let said = client
            .check(&Url::parse(url).unwrap())
            .map_or_else(|error| error.to_string(), |()| "fine".to_owned());
        assert_eq!(said, expected, "{url}");
    };
    check("https://example.com/mcp", "fine");
    check("https://example.com:443/mcp", "fine");
    check("https://example.com:80/mcp", "fine");
    check("https://example.com:8443/mcp", "fine");
    check(
        "ftp://example.com/",
        "blocked address (scheme `ftp`: only https is contacted)",
    );
    check(
        "file:///etc/passwd",
        "blocked address (scheme `file`: only https is contacted)",
    );
    check(
        "https://user@example.com/",
        "blocked address (a user name or password in the URL)",
    );
    check(
        "https://:word@example.com/",
        "blocked address (a user name or password in the URL)",
    );
    for port in [
        1, 22, 25, 81, 444, 1023, 1433, 2375, 3306, 5432, 6379, 6443, 9200, 11211, 27017,
    ] {
        check(
            &format!("https://example.com:{port}/"),
            &format!("blocked address (port {port})"),
        );
    }
    check(
        "http://8.8.8.8/",
        "blocked address (http outside the allowed networks: only https is contacted)",
    );
}

#[test]
fn http_is_fine_where_it_is_allowed_or_the_network_is() {
    install_tls_provider();
    let check = |networks: &[&str], allow_http: bool, url: &str, expected: bool| {
        let networks: Vec<String> = networks.iter().map(|network| (*network).to_owned()).collect();
        let client = GuardedClient::new(&networks, allow_http).unwrap();
        assert_eq!(
            client.check(&Url::parse(url).unwrap()).is_ok(),
            expected,
            "{networks:?} {allow_http} {url}"
        );
    };
    check(&[], true, "http://8.8.8.8/", true);
    check(&[], true, "http://10.0.0.1/", false);
    check(&["10.0.0.0/8"], false, "http://10.0.0.1/", true);
    check(&["10.0.0.0/8"], false, "http://8.8.8.8/", false);
    check(&["10.0.0.0/8"], false, "https://10.0.0.1/", true);
    check(&["10.0.0.0/8"], false, "https://10.0.0.1:6379/", false);
}

#[test]
fn an_allowed_network_that_is_none_is_named() {
    install_tls_provider();
    let error = GuardedClient::new(&["10.0.0.0/99".to_owned()], false)
        .err()
        .unwrap();
    insta::assert_snapshot!(
        error,
        @"`10.0.0.0/99` is no network: expected an address and a prefix length, as `10.1.0.0/16` or `fd00::/8`"
    );
}
