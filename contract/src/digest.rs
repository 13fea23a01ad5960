//! Digests: SHA-256 over canonical text, or, where there is no canonical text, over the text as sent.
//!
//! Invariant: a digest's written form says which of the two it is (`sha256:` or `raw-sha256:`), so the two
//! can never be taken for each other.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

const CANONICAL_PREFIX: &str = "sha256:";
const RAW_PREFIX: &str = "raw-sha256:";

/// `sha256:<64 hex>` over RFC 8785 bytes, or `raw-sha256:<64 hex>` over the exact text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    raw: bool,
    bytes: [u8; 32],
}

/// Why a definition has no canonical digest. It is then known by its raw digest and held by gates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDigest {
    /// An object has two members of one name, and readers differ in which they take.
    #[error("duplicate member at {pointer}")]
    DuplicateMember {
        /// RFC 6901 pointer of the second of the two.
        pointer: String,
    },
    /// A string has half of a surrogate pair.
    #[error("lone surrogate at {pointer}")]
    LoneSurrogate {
        /// RFC 6901 pointer of the string (of the object, when it is a member's name).
        pointer: String,
    },
    /// A number of 2^53 or more in magnitude: readers differ in what it rounds to.
    #[error("number out of range at {pointer}")]
    NumberOutOfRange {
        /// RFC 6901 pointer of the number.
        pointer: String,
    },
    /// More than [`crate::canonical::MAX_DIGEST_DEPTH`] levels.
    #[error("nested deeper than 512 levels")]
    TooDeep,
    /// Not an object, where an object was due.
    #[error("not an object")]
    NotAnObject,
    /// Not JSON by the strict reader.
    #[error("not JSON")]
    NotJson,
}

impl NoDigest {
    /// The reason's name for databases and APIs: `duplicate-member`, `lone-surrogate`, `number-out-of-range`,
    /// `too-deep`, `not-an-object`, `not-json`.
    pub fn name(&self) -> &'static str {
        match self {
            NoDigest::DuplicateMember { .. } => "duplicate-member",
            NoDigest::LoneSurrogate { .. } => "lone-surrogate",
            NoDigest::NumberOutOfRange { .. } => "number-out-of-range",
            NoDigest::TooDeep => "too-deep",
            NoDigest::NotAnObject => "not-an-object",
            NoDigest::NotJson => "not-json",
        }
    }

    /// RFC 6901 pointer of what is in doubt; empty where it is the whole.
    pub fn pointer(&self) -> &str {
        match self {
            NoDigest::DuplicateMember { pointer }
            | NoDigest::LoneSurrogate { pointer }
            | NoDigest::NumberOutOfRange { pointer } => pointer,
            NoDigest::TooDeep | NoDigest::NotAnObject | NoDigest::NotJson => "",
        }
    }
}

impl Digest {
    /// The digest of canonical text.
    pub fn of_canonical(text: &str) -> Digest {
        Digest {
            raw: false,
            bytes: Sha256::digest(text).into(),
        }
    }

    /// The raw digest of a text as sent.
    pub fn of_raw(text: &str) -> Digest {
        Digest {
            raw: true,
            bytes: Sha256::digest(text).into(),
        }
    }

    /// Whether this covers the exact text, since there was no canonical one.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// The 64 hex digits without a prefix.
    pub fn hex(&self) -> String {
        with_hex(&self.bytes, str::to_owned)
    }
}

/// Lower-case hex of at most 32 bytes, without memory of its own.
pub(crate) fn with_hex<T>(bytes: &[u8], use_hex: impl FnOnce(&str) -> T) -> T {
    let mut hex = [0; 64];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(bytes) {
        for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 0x0F]) {
            *digit = b"0123456789abcdef"[usize::from(nibble)];
        }
    }
    let hex = hex.get(..2 * bytes.len()).unwrap_or_default();
    use_hex(std::str::from_utf8(hex).unwrap_or_default())
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.raw { RAW_PREFIX } else { CANONICAL_PREFIX })?;
        with_hex(&self.bytes, |hex| formatter.write_str(hex))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A text that is not a digest's written form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected `sha256:` or `raw-sha256:` and 64 lower-case hex digits")]
pub struct DigestParseError;

impl FromStr for Digest {
    type Err = DigestParseError;

    /// Takes the written form and no other: one digest, one spelling, so that texts can be compared.
    fn from_str(text: &str) -> Result<Digest, DigestParseError> {
        let (raw, hex) = match text.strip_prefix(RAW_PREFIX) {
            Some(hex) => (true, hex),
            None => {
                let hex = text.strip_prefix(CANONICAL_PREFIX);
                (false, hex.ok_or(DigestParseError)?)
            }
        };
        let mut bytes = [0; 32];
        if hex.len() != 2 * bytes.len() {
            return Err(DigestParseError);
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            for &digit in pair {
                let value = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'a'..=b'f' => digit - b'a' + 10,
                    _ => return Err(DigestParseError),
                };
                *byte = *byte << 4 | value;
            }
        }
        Ok(Digest { raw, bytes })
    }
}
