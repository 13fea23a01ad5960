//! What is kept of a secret.
//!
//! Invariant: a secret never enters the store, only its SHA-256; and not even that is printed.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::StoreError;

/// SHA-256 of a secret of at least 128 random bits: a key, a token, a cookie's value, a one-time code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Of a secret as its holder sends it.
    pub fn of(secret: &str) -> SecretHash {
        SecretHash(Sha256::digest(secret.as_bytes()).into())
    }

    /// 16 hexadecimal digits that may be shown: who knows them knows neither the secret nor its hash.
    pub fn short_id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"mcpindex short id\n");
        hash.update(self.0);
        let whole: [u8; 32] = hash.finalize().into();
        whole[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<SecretHash, StoreError> {
        let bytes = bytes.try_into().map_err(|_| StoreError::Corrupt {
            what: format!("a hash of {} bytes", bytes.len()),
        })?;
        Ok(SecretHash(bytes))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretHash(…)")
    }
}
