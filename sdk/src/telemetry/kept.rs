//! What telemetry keeps on this machine: the random number that installs are made of, and for each index whether it refused
//! our signals, how the last batch went, and the token that it gave this install.
//!
//! Invariant: an index sees a number made of the random one and its own address, so that two indexes can't join what they
//! were told; each fact is one file, written whole, so that processes need no lock to write them.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use hmac::{Hmac, KeyInit as _, Mac as _};
use mcpindex_contract::digest::Digest;
use mcpindex_contract::signal::InstallId;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::index::Base;
use crate::state::{StateDirectory, make_directory, read_own_file, said, sync_directory, write_atomically};

/// The most that one of the files may hold.
const MAX_FILE: u64 = 64 * 1024;

/// Something kept can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {reason}; `mcpindex telemetry reset` starts anew")]
pub struct KeptError {
    /// The file.
    path: String,
    /// One line.
    reason: String,
}

/// What is kept for the indexes of this machine.
#[derive(Debug, Clone)]
pub struct Kept {
    directory: PathBuf,
}

/// An index took our signals for none: it is sent none any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The index's address.
    pub index: String,
    /// When, unix seconds.
    pub at: i64,
    /// What it called the mistake; its own word, cut.
    pub error: String,
    /// The version of the signals.
    pub version: u8,
}

/// How the last batch went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastBatch {
    /// The index's address.
    pub index: String,
    /// When, unix seconds.
    pub at: i64,
    /// How many signals were in it.
    pub signals: usize,
    /// The version of the signals.
    pub version: u8,
    /// Why it did not arrive; `None` where it did.
    pub failure: Option<String>,
}

/// Whether the index answered our questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastQuestions {
    /// The index's address.
    pub index: String,
    /// When, unix seconds.
    pub at: i64,
    /// Why our key may not ask; `None` where it may.
    pub refused: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Random {
    version: u64,
    /// 64 hex digits.
    random: String,
}

#[derive(Serialize, Deserialize)]
struct Token {
    index: String,
    token: String,
}

impl Kept {
    /// In this state directory. Nothing is read yet.
    pub fn of(state: &StateDirectory) -> Kept {
        Kept {
            directory: super::directory(state),
        }
    }

    /// The number that stands for this install at this index; `None` before anything was sent from this machine.
    pub fn install(&self, base: &Base) -> Result<Option<InstallId>, KeptError> {
        Ok(self.random()?.map(|random| derived(&random, base)))
    }

    /// The same, made when it is missing.
    pub fn install_or_new(&self, base: &Base) -> Result<InstallId, KeptError> {
        if let Some(install) = self.install(base)? {
            return Ok(install);
        }
        self.make_random()
            .map_err(|error| self.failed("install.json", said(&error)))?;
        // Another process may have been first.
        let nothing = || self.failed("install.json", "it is gone again".to_owned());
        self.install(base)?.ok_or_else(nothing)
    }

    /// Whether this index refused our signals.
    pub fn refused(&self, base: &Base) -> Result<Option<Refused>, KeptError> {
        self.read(&name("refused", base))
    }

    /// Notes that this index refused our signals.
    pub fn refuse(&self, base: &Base, refused: &Refused) -> Result<(), KeptError> {
        self.write(&name("refused", base), refused)
    }

    /// How the last batch to this index went.
    pub fn last_batch(&self, base: &Base) -> Result<Option<LastBatch>, KeptError> {
        self.read(&name("last", base))
    }

    /// Notes how a batch to this index went.
    pub fn note_batch(&self, base: &Base, last: &LastBatch) -> Result<(), KeptError> {
        self.write(&name("last", base), last)
    }

    /// Whether this index answered our questions.
    pub fn last_questions(&self, base: &Base) -> Result<Option<LastQuestions>, KeptError> {
        self.read(&name("questions", base))
    }

    /// Notes whether this index answered our questions.
    pub fn note_questions(&self, base: &Base, last: &LastQuestions) -> Result<(), KeptError> {
        self.write(&name("questions", base), last)
    }

    /// The token that this index gave this install.
    pub fn token(&self, base: &Base) -> Result<Option<SecretString>, KeptError> {
        let token: Option<Token> = self.read(&name("token", base))?;
        Ok(token.map(|token| SecretString::from(token.token)))
    }

    /// Keeps the token that this index gave this install.
    pub fn keep_token(&self, base: &Base, token: &SecretString) -> Result<(), KeptError> {
        let token = Token {
            index: base.to_string(),
            token: token.expose_secret().to_owned(),
        };
        self.write(&name("token", base), &token)
    }

    /// Forgets everything but the mode: this machine is another install from now on, and an index that refused is tried again.
    pub fn forget(&self) -> Result<(), KeptError> {
        let failed = |error: io::Error| KeptError {
            path: self.directory.display().to_string(),
            reason: said(&error),
        };
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let file = entry.file_name();
            let file = file.to_string_lossy();
            let is_ours = ["install.json", "refused-", "last-", "questions-", "token-"]
                .iter()
                .any(|start| file.starts_with(start));
            if is_ours {
                fs::remove_file(entry.path()).map_err(|error| self.failed(&file, said(&error)))?;
            }
        }
        sync_directory(&self.directory).map_err(failed)
    }

    fn random(&self) -> Result<Option<[u8; 32]>, KeptError> {
        let Some(kept) = self.read::<Random>("install.json")? else {
            return Ok(None);
        };
        let wrong = || self.failed("install.json", "it holds no 64 hex digits".to_owned());
        bytes_of_hex(&kept.random).map(Some).ok_or_else(wrong)
    }

    /// Made once: of several processes that make it at the same time, one wins and all read that.
    fn make_random(&self) -> io::Result<()> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let kept = Random {
            version: 1,
            random: random.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        make_directory(&self.directory)?;
        let mut fresh = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&self.directory)?;
        fresh.write_all(serde_json::to_string(&kept)?.as_bytes())?;
        fresh.as_file().sync_all()?;
        match fresh.persist_noclobber(self.directory.join("install.json")) {
            Ok(_) => sync_directory(&self.directory),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error.error),
        }
    }

    fn read<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, KeptError> {
        let read = read_own_file(&self.directory.join(file), MAX_FILE);
        let read = read.map_err(|error| self.failed(file, error.to_string()))?;
        let Some(read) = read else {
            return Ok(None);
        };
        let kept = serde_json::from_slice(&read.bytes);
        kept.map(Some)
            .map_err(|error| self.failed(file, error.to_string()))
    }

    fn write(&self, file: &str, content: &impl Serialize) -> Result<(), KeptError> {
        let failed = |error: io::Error| self.failed(file, said(&error));
        let text = serde_json::to_string(content).map_err(|error| failed(error.into()))?;
        write_atomically(&self.directory.join(file), format!("{text}\n").as_bytes()).map_err(failed)
    }

    fn failed(&self, file: &str, reason: String) -> KeptError {
        KeptError {
            path: self.directory.join(file).display().to_string(),
            reason,
        }
    }
}

/// A file's name for one index: an address does not fit into one.
fn name(what: &str, base: &Base) -> String {
    let mut hex = Digest::of_raw(base.as_str()).hex();
    hex.truncate(16);
    format!("{what}-{hex}.json")
}

fn derived(random: &[u8; 32], base: &Base) -> InstallId {
    let mac = Hmac::<Sha256>::new_from_slice(random);
    let mut mac = mac.expect("HMAC takes a key of any length");
    mac.update(b"mcpindex install\n");
    mac.update(base.as_str().as_bytes());
    let whole: [u8; 32] = mac.finalize().into_bytes().into();
    let mut half = [0; 16];
    half.copy_from_slice(&whole[..16]);
    InstallId::from_bytes(half)
}

/// 64 hex digits as 32 bytes.
pub(super) fn bytes_of_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Base {
        Base::parse(text).unwrap()
    }

    #[test]
    fn an_install_is_another_one_at_each_index_and_after_a_reset() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Kept::of(&StateDirectory::at(directory.path()));
        let (a, b) = (base("https://a.example/"), base("https://b.example/"));
        assert_eq!(kept.install(&a).unwrap(), None);
        let first = kept.install_or_new(&a).unwrap();
        assert_eq!(kept.install_or_new(&a).unwrap(), first);
        assert_eq!(kept.install(&a).unwrap(), Some(first));
        assert_ne!(kept.install_or_new(&b).unwrap(), first);
        kept.forget().unwrap();
        assert_eq!(kept.install(&a).unwrap(), None);
        assert_ne!(kept.install_or_new(&a).unwrap(), first);
    }

    #[test]
    fn many_that_start_at_once_are_one_install() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Kept::of(&StateDirectory::at(directory.path()));
        let installs: Vec<InstallId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| kept.install_or_new(&base("https://a.example/")).unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(installs.iter().all(|install| *install == installs[0]));
    }

    #[test]
    fn a_reset_forgets_all_but_the_mode() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let kept = Kept::of(&state);
        kept.forget().unwrap();
        let a = base("https://a.example/");
        super::super::mode::keep_mode(&state, super::super::Mode::Lookup).unwrap();
        kept.install_or_new(&a).unwrap();
        kept.keep_token(&a, &SecretString::from("t")).unwrap();
        let refused = Refused {
            index: a.to_string(),
            at: 1,
            error: "invalid_signal".to_owned(),
            version: 1,
        };
        kept.refuse(&a, &refused).unwrap();
        assert_eq!(kept.refused(&a).unwrap(), Some(refused));
        assert_eq!(kept.refused(&base("https://b.example/")).unwrap(), None);
        assert_eq!(kept.token(&a).unwrap().unwrap().expose_secret(), "t");
        kept.forget().unwrap();
        let left: Vec<_> = fs::read_dir(directory.path().join("telemetry"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["mode.json"]);
    }

    #[test]
    fn what_is_broken_is_named_with_the_way_out() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Kept::of(&StateDirectory::at(directory.path()));
        write_atomically(
            &directory.path().join("telemetry/install.json"),
            br#"{"version":1,"random":"00"}"#,
        )
        .unwrap();
        let error = kept.install_or_new(&base("https://a.example/")).unwrap_err();
        assert_eq!(
            error
                .to_string()
                .replace(&directory.path().display().to_string(), "STATE"),
            "`STATE/telemetry/install.json`: it holds no 64 hex digits; `mcpindex telemetry reset` starts anew"
        );
    }
}
