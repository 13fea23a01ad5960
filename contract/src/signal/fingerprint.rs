//! Fingerprints: a server and a tool named so that only who knows the name can tell which it is.
//!
//! `HMAC-SHA256(key, server id)` and `HMAC-SHA256(key, server id U+001F tool name)`, the first 16 bytes as hex. Neither
//! text is normalised. Under the published clients' constant key this hides nothing of a listed server (whoever has the
//! list can compute it); under an organisation's own key it does.
//!
//! Invariant: a key has no `Debug` and no `Display`.

use crate::digest::with_hex;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fmt;
use std::str::FromStr;

/// The published clients' key.
const PUBLIC: &[u8] = b"mcpindex-drift-v1";
/// Between the server's id and the tool's name.
const SEPARATOR: &[u8] = b"\x1f";

/// Not 32 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 hex digits in lower case")]
pub struct NotHex;

macro_rules! sixteen_bytes {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// From its bytes.
            pub fn from_bytes(bytes: [u8; 16]) -> $name {
                $name(bytes)
            }

            /// Its bytes.
            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            /// 32 hex digits.
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                with_hex(&self.0, |hex| formatter.write_str(hex))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl FromStr for $name {
            type Err = NotHex;

            fn from_str(text: &str) -> Result<$name, NotHex> {
                sixteen_bytes(text).map($name).ok_or(NotHex)
            }
        }
    };
}

sixteen_bytes! {
    /// A server's or a tool's fingerprint: 16 bytes, written as 32 hex digits in lower case.
    Fingerprint
}

sixteen_bytes! {
    /// The random number that stands for one install: 16 bytes, written as 32 hex digits in lower case.
    InstallId
}

fn sixteen_bytes(text: &str) -> Option<[u8; 16]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text: &[u8; 32] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// What fingerprints are made with: the published constant, or an organisation's secret.
#[derive(Clone)]
pub struct FingerprintKey(Hmac<Sha256>);

impl FingerprintKey {
    /// The published clients' constant.
    pub fn public() -> FingerprintKey {
        FingerprintKey::new(PUBLIC)
    }

    /// A key of any length.
    pub fn new(key: &[u8]) -> FingerprintKey {
        FingerprintKey(Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

    /// Which server.
    pub fn server(&self, server_id: &str) -> Fingerprint {
        self.of(&[server_id.as_bytes()])
    }

    /// Which tool of which server.
    pub fn tool(&self, server_id: &str, tool_name: &str) -> Fingerprint {
        self.of(&[server_id.as_bytes(), SEPARATOR, tool_name.as_bytes()])
    }

    fn of(&self, parts: &[&[u8]]) -> Fingerprint {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let (half, _) = whole.split_at(16);
        Fingerprint(half.try_into().expect("half of 32 bytes is 16"))
    }
}
