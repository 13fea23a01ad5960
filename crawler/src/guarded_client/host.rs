//! A host as a list in the settings writes it.
//!
//! Invariant: what is read is a host as URLs write it and at most a port; no pattern, no path, no user.

use std::str::FromStr;

use url::Url;

/// A host of an allow-list: `hooks.example.com`, or one port of it, `hooks.example.com:8443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    /// As a URL writes it.
    host: String,
    /// `None`: any port that may be contacted.
    port: Option<u16>,
}

impl AllowedHost {
    /// The host and port that this URL names.
    pub fn of(url: &Url) -> Option<AllowedHost> {
        Some(AllowedHost {
            host: url.host_str()?.to_owned(),
            port: url.port_or_known_default(),
        })
    }

    pub(super) fn admits(&self, url: &Url) -> bool {
        url.host_str() == Some(self.host.as_str())
            && self
                .port
                .is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedHost, String> {
        let no_host = || {
            format!(
                "`{text}` is no host: write it as hooks.example.com, or with a port as hooks.example.com:8443"
            )
        };
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => {
                (host, Some(port.parse().map_err(|_| no_host())?))
            }
            _ => (text, None),
        };
        let url = Url::parse(&format!("https://{host}/")).map_err(|_| no_host())?;
        // What a URL would read as more than a host is none; a host is written as URLs write it but for its case.
        let is_host = url.username().is_empty()
            && url.password().is_none()
            && url.port().is_none()
            && url.path() == "/";
        let host_str = url.host_str().unwrap_or_default();
        if !is_host
            || url.query().is_some()
            || url.fragment().is_some()
            || host.contains(['*', '%', '/', '\\', ' '])
            || host.ends_with(':')
        {
            return Err(no_host());
        }
        Ok(AllowedHost {
            host: host_str.to_owned(),
            port,
        })
    }
}
