//! Keys where they don't belong: in addresses, in ids, in what is logged.
//!
//! A key in an address ends up in histories, proxies' logs and `Referer`, so a request with one is refused whatever it asks
//! for. What is logged and what problems say passes [`redacted`], so that not even a dependency's words hold a key.
//!
//! The token of a feed path belongs in its address, and is cut out of what is logged all the same.
//!
//! Invariant: a text that was redacted holds no key of ours and none of the published clients', nor the token of a feed path.

use std::borrow::Cow;
use std::io;

use mcpindex::index::key::PREFIX;

use super::feed_path;

/// Characters after the prefix that make a text a key, or what is left of one. Lists show four.
const LEAST: usize = 8;
/// What every secret begins with, and what stands in its place.
const SECRETS: [(&str, &str); 2] = [(PREFIX, "mcpk_…"), (feed_path::PREFIX, "mcpf_…")];
/// What stands in the place of a path that a secret was part of.
const SHOWN_FEED_PATH: &str = "/feeds/t/…";

/// Where the first secret in this text begins and ends, and what stands in its place.
fn first(text: &[u8]) -> Option<(usize, usize, &'static str)> {
    let found = SECRETS.into_iter().filter_map(|(prefix, shown)| {
        let (start, end) = first_of(prefix, text)?;
        Some((start, end, shown))
    });
    found.min()
}

/// Where the first secret with this prefix begins and ends.
fn first_of(prefix: &str, text: &[u8]) -> Option<(usize, usize)> {
    let prefix = prefix.as_bytes();
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let start = from + rest.windows(prefix.len()).position(|window| window == prefix)?;
        let secret = start + prefix.len();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let length = text[secret..].iter().take_while(|byte| is_part(byte)).count();
        if length >= LEAST {
            return Some((start, secret + length));
        }
        from = secret;
    }
}

/// Whether there is a key in this part of an address, however it is percent-encoded.
pub(crate) fn holds_key(part: &str) -> bool {
    first_of(PREFIX, &decoded(part)).is_some()
}

/// A part of an address without its percent-encoding.
fn decoded(part: &str) -> Cow<'_, [u8]> {
    if !part.contains('%') {
        return Cow::Borrowed(part.as_bytes());
    }
    let mut decoded = Vec::with_capacity(part.len());
    let bytes = part.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let encoded = (*byte == b'%')
            .then(|| part.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(encoded.unwrap_or(*byte));
        at += if encoded.is_some() { 3 } else { 1 };
    }
    Cow::Owned(decoded)
}

/// The text with `mcpk_…` for each key in it, and `mcpf_…` for each feed path's token.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    match redacted_bytes(text.as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        // Only ASCII was cut out.
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn redacted_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    if first(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut kept = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, end, shown)) = first(rest) {
        kept.extend_from_slice(&rest[..start]);
        kept.extend_from_slice(shown.as_bytes());
        rest = &rest[end..];
    }
    kept.extend_from_slice(rest);
    Cow::Owned(kept)
}

/// The path as it may be shown and logged.
pub(crate) fn shown_path(path: &str) -> &str {
    match first(&decoded(path)) {
        None => path,
        Some(_) if path.starts_with(feed_path::BEFORE) => SHOWN_FEED_PATH,
        Some(_) => "/…",
    }
}

/// A writer of logs that lets no key through. Each line must come in one piece, as `tracing` writes it.
pub struct WithoutKeys<W>(pub W);

impl<W: io::Write> io::Write for WithoutKeys<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(&redacted_bytes(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const OURS: &str = "mcpk_0123456789abcdefghijklmnopqrstABCDEF";
    const FEED: &str = "/feeds/t/mcpf_0123456789abcdefghijklmnopqrstABCDEF/";
    const PUBLISHED: &str = "mcpk_AbC-dEf_0123456789abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn every_key_of_a_text_is_cut_out() {
        let check = |text: &str, expected: &str| assert_eq!(redacted(text), expected);
        check("no key", "no key");
        check(OURS, "mcpk_…");
        check(
            &format!("a {OURS}, \"{PUBLISHED}\"; é"),
            "a mcpk_…, \"mcpk_…\"; é",
        );
        check("mcpk_AbCd… is what lists show", "mcpk_AbCd… is what lists show");
        check("mcpk_mcpk_12345678", "mcpk_…");
        check("mcpk_1 mcpk_123456789", "mcpk_1 mcpk_…");
        check("mcpk_", "mcpk_");
        check(
            &format!("GET {FEED}drifts.atom"),
            "GET /feeds/t/mcpf_…/drifts.atom",
        );
        check(
            &format!("{FEED} {OURS} {FEED}"),
            "/feeds/t/mcpf_…/ mcpk_… /feeds/t/mcpf_…/",
        );
    }

    #[test]
    fn a_key_in_an_address_is_seen_however_it_is_written() {
        assert!(holds_key(&format!("/servers/{OURS}")));
        assert!(holds_key("a=b&key=%6dcpk%5F0123456789"));
        assert!(!holds_key("search=mcpk_&after=12345678%"));
        assert_eq!(shown_path("/servers/%6Dcpk_0123456789"), "/…");
        assert_eq!(shown_path("/servers/%6D%"), "/servers/%6D%");
        assert!(!holds_key(FEED), "there it belongs");
        assert_eq!(shown_path(&format!("{FEED}drifts.atom")), "/feeds/t/…");
        assert_eq!(shown_path("/feeds/t/%6Dcpf_0123456789/x"), "/feeds/t/…");
        assert_eq!(shown_path("/servers/mcpf_0123456789"), "/…");
    }

    #[test]
    fn a_log_is_written_without_keys() {
        let mut log = WithoutKeys(Vec::new());
        writeln!(log, "header {OURS}").unwrap();
        log.write_all(format!("x={PUBLISHED}\n").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(log.0).unwrap(), "header mcpk_…\nx=mcpk_…\n");
    }
}
