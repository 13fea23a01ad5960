//! The server's key, and what is derived from it: each target's secret, and the signatures of its deliveries.
//!
//! Signed as the Standard Webhooks specification has it: HMAC-SHA256 over `id.timestamp.body`, with a secret written `whsec_` and
//! base64.
//!
//! Invariant: no secret of a target is stored: whoever has the key and a target's id can make it again, and nobody else.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use sha2::Sha256;

/// Letters of a key that somebody gives: fewer can be guessed.
const FEWEST: usize = 32;
/// The most bytes of a file with a secret.
const MOST: u64 = 4_096;

/// Where the key is, and the key once it was needed.
pub(crate) struct KeyFile {
    path: PathBuf,
    /// Whether it is ours to make.
    make: bool,
    key: OnceLock<Key>,
}

/// What all targets' secrets are derived from.
pub(crate) struct Key(SecretString);

/// One target's secret.
pub(crate) struct TargetSecret(SecretSlice<u8>);

impl KeyFile {
    /// The file that the settings name, or else ours in the data folder.
    pub(crate) fn new(named: Option<PathBuf>, data: &Path) -> KeyFile {
        KeyFile {
            make: named.is_none(),
            path: named.unwrap_or_else(|| data.join("webhook.key")),
            key: OnceLock::new(),
        }
    }

    /// The key. The words of an error name the file.
    pub(crate) fn key(&self) -> Result<&Key, String> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let failed = |problem: String| format!("the webhooks' key in `{}`: {problem}", self.path.display());
        if self.make && !self.path.exists() {
            make(&self.path).map_err(|error| failed(error.to_string()))?;
        }
        let text = read_secret(&self.path).map_err(failed)?;
        if text.expose_secret().len() < FEWEST {
            return Err(failed(format!(
                "expected at least {FEWEST} letters that nobody can guess"
            )));
        }
        Ok(self.key.get_or_init(|| Key(text)))
    }
}

/// A new key, for its owner alone; one that another process made meanwhile stays.
fn make(path: &Path) -> std::io::Result<()> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    // Temporary files are readable for their owner alone.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(STANDARD.encode(bytes).as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

/// The secret that is alone in a file.
pub(crate) fn read_secret(path: &Path) -> Result<SecretString, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.take(MOST)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let secret = text.trim();
    if secret.is_empty() || secret.contains(char::is_whitespace) {
        return Err("expected the secret and nothing else in it".to_owned());
    }
    Ok(secret.into())
}

impl Key {
    fn derive(&self, purpose: &str) -> [u8; 32] {
        mac(
            self.0.expose_secret().as_bytes(),
            &["mcpindex webhooks\n", purpose],
        )
    }

    /// Tells keys apart, and nothing of them.
    pub(crate) fn check(&self) -> String {
        let derived = self.derive("check");
        derived.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The secret of the target with this id.
    pub(crate) fn secret_of(&self, target: &str) -> TargetSecret {
        TargetSecret(self.derive(&format!("target\n{target}")).to_vec().into())
    }
}

impl TargetSecret {
    /// As the receiver's library takes it.
    pub(crate) fn text(&self) -> SecretString {
        format!("whsec_{}", STANDARD.encode(self.0.expose_secret())).into()
    }

    /// The header `webhook-signature` for this delivery, sent at this time.
    pub(crate) fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let signature = mac(
            self.0.expose_secret(),
            &[id, ".", &timestamp.to_string(), ".", body],
        );
        format!("v1,{}", STANDARD.encode(signature))
    }
}

fn mac(key: &[u8], parts: &[&str]) -> [u8; 32] {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length")
    };
    for part in parts {
        mac.update(part.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_of_the_specification() {
        // The example that the specification's libraries are tested with.
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let secret = TargetSecret(secret.into());
        let signed = secret.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn the_key_is_made_once_and_each_target_has_its_own_secret() {
        let folder = tempfile::tempdir().unwrap();
        let one = KeyFile::new(None, folder.path());
        let other = KeyFile::new(None, folder.path());
        assert_eq!(one.key().unwrap().check(), other.key().unwrap().check());
        let text = |file: &KeyFile, target: &str| {
            file.key()
                .unwrap()
                .secret_of(target)
                .text()
                .expose_secret()
                .to_owned()
        };
        assert_eq!(text(&one, "hook_a"), text(&other, "hook_a"));
        assert_ne!(text(&one, "hook_a"), text(&one, "hook_b"));
        assert!(text(&one, "hook_a").starts_with("whsec_"));
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join("webhook.key"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_key_that_is_named_must_be_there_and_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let file = || KeyFile::new(Some(path.clone()), folder.path());
        let refused = |file: KeyFile| file.key().err().unwrap();
        assert!(refused(file()).contains("No such file"));
        std::fs::write(&path, "short\n").unwrap();
        assert!(refused(file()).contains("at least 32 letters"));
        std::fs::write(&path, "two words of which nobody knows what they are for").unwrap();
        assert!(refused(file()).contains("nothing else in it"));
        std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        assert!(file().key().is_ok());
    }
}
