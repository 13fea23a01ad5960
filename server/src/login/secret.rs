//! The secret that a browser holds in a cookie, and what is derived from it.
//!
//! Invariant: the secret is stored nowhere: the store has its hash, and state, nonce, PKCE verifier and form token are each an
//! HMAC of their own under it, so that none tells another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mcpindex_store::accounts::SecretHash;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

/// Bytes of a secret.
const BYTES: usize = 32;
/// Its letters.
const LETTERS: usize = 43;

/// 32 random bytes in base64url.
pub(crate) struct Secret(SecretString);

impl Secret {
    /// A new one, from the system's random numbers.
    pub(crate) fn generate() -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Secret(URL_SAFE_NO_PAD.encode(bytes).into()))
    }

    /// A text that has the form of one.
    pub(crate) fn parse(text: &str) -> Option<Secret> {
        is_secret(text).then(|| Secret(text.into()))
    }

    /// The whole text, for the one who is to hold it.
    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash::of(self.expose())
    }

    /// What this secret is for one purpose, 43 letters of base64url.
    pub(crate) fn derive(&self, purpose: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.expose().as_bytes()).ok()?;
        mac.update(b"mcpindex ");
        mac.update(purpose.as_bytes());
        Some(URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }
}

/// Whether a text is 32 bytes in base64url.
pub(crate) fn is_secret(text: &str) -> bool {
    text.len() == LETTERS
        && URL_SAFE_NO_PAD
            .decode(text)
            .is_ok_and(|bytes| bytes.len() == BYTES)
}

/// Whether two texts are the same, in a time that doesn't tell where they differ.
pub(crate) fn same(one: &str, other: &str) -> bool {
    use subtle::ConstantTimeEq as _;
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_has_its_own_value() {
        let secret = Secret::generate().unwrap();
        let derived = |purpose| secret.derive(purpose).unwrap();
        assert_ne!(derived("state"), derived("nonce"));
        assert_eq!(derived("state"), derived("state"));
        assert!(is_secret(&derived("state")));
        let other = Secret::generate().unwrap();
        assert_ne!(derived("state"), other.derive("state").unwrap());
    }

    #[test]
    fn only_its_own_form_is_read_back() {
        let secret = Secret::generate().unwrap();
        assert!(Secret::parse(secret.expose()).is_some());
        for wrong in [
            "",
            "short",
            &format!("{}=", secret.expose()),
            &"!".repeat(LETTERS),
        ] {
            assert!(Secret::parse(wrong).is_none(), "{wrong}");
        }
    }
}
