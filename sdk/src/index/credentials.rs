//! The keys that sign-ins have stored: `credentials.json` in the state directory.
//!
//! ```json
//! {"api_key": <the default index's key>, "default": <its address>, "indexes": {<address>: {"key", "key_id", "login", "expires_at"}}}
//! ```
//! The published client knows `api_key` alone, and writes files with nothing else: such a key says not which index gave it, so
//! it is sent to none. A sign-in keeps it as `published_api_key`, and the last sign-out puts it back.
//!
//! Invariant: what can't be understood is never written over, members that nobody knows stay as they are, and the file is read
//! only where nobody but its owner could have read or written it.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::error::Category;
use serde_json::value::{RawValue, to_raw_value};

use crate::index::Base;
use crate::pins::lock::{Lock, LockError, lock};
use crate::state::{NotRead, StateDirectory, make_directory, read_own_file, said, write_atomically};

const FILE: &str = "credentials.json";
/// Beside a key that a person brought along, which may be used elsewhere too.
const GIVEN: &str = "given";
/// Held by whoever changes the file.
const LOCK: &str = "credentials.lock";
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// A file of a thousand indexes is smaller.
const MAX_BYTES: u64 = 1 << 20;

/// Members as they stand in the file.
type Members = BTreeMap<String, Box<RawValue>>;

/// What sign-ins have stored. Holds keys, so its `Debug` shows only where from.
pub struct Credentials {
    path: PathBuf,
    /// All but `indexes`.
    members: Members,
    indexes: BTreeMap<String, Members>,
}

/// What an index gave at a sign-in.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The key itself.
    pub key: SecretString,
    /// Its public name, `key_…`.
    pub key_id: Option<String>,
    /// Who signed in.
    pub login: Option<String>,
    /// When it ends, RFC 3339; `None`: never, or not known.
    pub expires_at: Option<String>,
    /// Whether it was made for this machine, so that nobody else uses it.
    pub is_own: bool,
}

impl Granted {
    /// A key that was given, and of which nothing else is known.
    pub fn of_key(key: SecretString) -> Granted {
        Granted {
            key,
            key_id: None,
            login: None,
            expires_at: None,
            is_own: false,
        }
    }
}

/// Why what is stored can't be used, or nothing can be stored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It is no file of this user's that can be read.
    #[error("`{path}` is not used: {why}")]
    NotRead {
        /// The file.
        path: String,
        /// Why, and the way out.
        why: String,
    },
    /// Others may read or write it.
    #[error(
        "`{path}` is open to other users (mode {mode:04o}) and not used: run `chmod 600 {path}`, and `mcpindex logout`, then \
         `mcpindex login`, if others use this machine"
    )]
    OpenToOthers {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
    /// It is no JSON object.
    #[error("`{path}` is no JSON object ({why}): mend it, or move it away and sign in again")]
    NoJson {
        /// The file.
        path: String,
        /// Where, never what.
        why: String,
    },
    /// A member is not of its kind.
    #[error("`{path}`: {member} {expected}: mend it, or move the file away and sign in again")]
    Shape {
        /// The file.
        path: String,
        /// Which member.
        member: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// Another process holds it.
    #[error("`{path}` is being changed by another process: try again")]
    Busy {
        /// The file.
        path: String,
    },
    /// It can't be written.
    #[error(
        "`{path}` can't be written ({why}): make its directory writable, or set MCPINDEX_STATE_DIR to another one"
    )]
    NotSaved {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

impl Credentials {
    /// Reads the file; without one, there are none.
    pub fn load(state: &StateDirectory) -> Result<Credentials, CredentialsError> {
        let path = state.path().join(FILE);
        let mut credentials = Credentials {
            path: path.clone(),
            members: Members::new(),
            indexes: BTreeMap::new(),
        };
        let shown = path.display().to_string();
        let read = read_own_file(&path, MAX_BYTES).map_err(|error| CredentialsError::NotRead {
            path: shown.clone(),
            why: match error {
                NotRead::Link => {
                    "it is a symbolic link, which is not followed: put the file itself there".to_owned()
                }
                other => other.to_string(),
            },
        })?;
        let Some(file) = read else {
            return Ok(credentials);
        };
        let mode = file.metadata.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(CredentialsError::OpenToOthers { path: shown, mode });
        }
        credentials.members =
            serde_json::from_slice(&file.bytes).map_err(|error| CredentialsError::NoJson {
                path: shown,
                // Its own words may quote what stands there.
                why: match error.classify() {
                    _ if file.bytes.trim_ascii().is_empty() => "it is empty".to_owned(),
                    Category::Data => "it is another sort of value".to_owned(),
                    _ => format!("line {}, column {}", error.line(), error.column()),
                },
            })?;
        if let Some(indexes) = credentials.members.remove("indexes") {
            let indexes: BTreeMap<String, Box<RawValue>> = serde_json::from_str(indexes.get())
                .map_err(|_| credentials.shape("`indexes`", "must be an object"))?;
            for (base, entry) in indexes {
                let entry = serde_json::from_str(entry.get())
                    .map_err(|_| credentials.shape(&format!("`indexes`, `{base}`"), "must be an object"))?;
                credentials.indexes.insert(base, entry);
            }
        }
        credentials.judge()?;
        Ok(credentials)
    }

    /// Every known member is of its kind, so that what is read later is what stands there.
    fn judge(&self) -> Result<(), CredentialsError> {
        for name in ["api_key", "published_api_key", "default"] {
            if text(&self.members, name).is_err() {
                return Err(self.shape(&format!("`{name}`"), "must be a text"));
            }
        }
        if let Ok(Some(default)) = text(&self.members, "default")
            && Base::parse(&default).is_err()
        {
            return Err(self.shape("`default`", "must be the address of an index"));
        }
        for (base, entry) in &self.indexes {
            for name in ["key", "key_id", "login", "expires_at"] {
                if text(entry, name).is_err() {
                    return Err(self.shape(&format!("`indexes`, `{base}`, `{name}`"), "must be a text"));
                }
            }
        }
        Ok(())
    }

    fn shape(&self, member: &str, expected: &'static str) -> CredentialsError {
        CredentialsError::Shape {
            path: self.path.display().to_string(),
            member: member.to_owned(),
            expected,
        }
    }

    /// The index that is asked when none is named.
    pub fn default_base(&self) -> Option<Base> {
        let text = text(&self.members, "default").ok()??;
        Base::parse(&text).ok()
    }

    /// The key that this index gave.
    pub fn key(&self, base: &Base) -> Option<SecretString> {
        self.granted(base).map(|granted| granted.key)
    }

    /// What this index gave.
    pub fn granted(&self, base: &Base) -> Option<Granted> {
        let (_, entry) = self.entry(base)?;
        let text = |name| text(entry, name).ok().flatten();
        Some(Granted {
            key: text("key")?.into(),
            key_id: text("key_id"),
            login: text("login"),
            expires_at: text("expires_at"),
            is_own: !entry.contains_key(GIVEN),
        })
    }

    /// The indexes that gave a key, in the order of their addresses.
    pub fn bases(&self) -> Vec<Base> {
        let mut bases: Vec<Base> = self
            .indexes
            .keys()
            .filter_map(|base| Base::parse(base).ok())
            .filter(|base| self.key(base).is_some())
            .collect();
        bases.sort();
        bases.dedup();
        bases
    }

    /// Whether the published client has stored a key here that says not which index gave it.
    pub fn has_published_key(&self) -> bool {
        self.published_key().is_some()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The entry of an index, however its address is spelled in the file.
    fn entry(&self, base: &Base) -> Option<(&String, &Members)> {
        self.indexes
            .iter()
            .find(|(text, _)| Base::parse(text).is_ok_and(|found| found == *base))
    }

    /// `api_key`, where it is not one that an index of ours gave, else the one that was kept aside.
    fn published_key(&self) -> Option<String> {
        let api_key = text(&self.members, "api_key").ok().flatten();
        let is_ours = |key: &String| {
            let mut entries = self.indexes.values();
            entries.any(|entry| text(entry, "key").ok().flatten().as_ref() == Some(key))
        };
        api_key
            .filter(|key| !key.is_empty() && !is_ours(key))
            .or_else(|| text(&self.members, "published_api_key").ok().flatten())
    }

    /// Keeps what an index gave. It becomes the default when there is none, or when `as_default` says so.
    pub fn remember(&mut self, base: &Base, granted: Granted, as_default: bool) {
        // Before the key that stands there is replaced.
        let published = self.published_key();
        let name = self
            .entry(base)
            .map_or_else(|| base.to_string(), |(name, _)| name.clone());
        let entry = self.indexes.entry(name).or_default();
        put(entry, "key", Some(granted.key.expose_secret()));
        put(entry, "key_id", granted.key_id.as_deref());
        put(entry, "login", granted.login.as_deref());
        put(entry, "expires_at", granted.expires_at.as_deref());
        put(entry, GIVEN, (!granted.is_own).then_some("with-token"));
        if as_default || self.default_base().is_none() {
            put(&mut self.members, "default", Some(base.as_str()));
        }
        self.settle(published.as_deref());
    }

    /// Removes what this index gave; whether there was something. No other index becomes the default in its place, since nobody
    /// chose one.
    pub fn forget(&mut self, base: &Base) -> bool {
        let published = self.published_key();
        let Some(name) = self.entry(base).map(|(name, _)| name.clone()) else {
            return false;
        };
        self.indexes.remove(&name);
        if self.default_base().as_ref() == Some(base) {
            self.members.remove("default");
        }
        self.settle(published.as_deref());
        true
    }

    /// Brings `api_key` in line: the default index's key, else the published client's own.
    fn settle(&mut self, published: Option<&str>) {
        let default = self.default_base().and_then(|base| self.key(&base));
        let (api_key, aside) = match &default {
            Some(key) => (Some(key.expose_secret()), published),
            None => (published, None),
        };
        put(&mut self.members, "api_key", api_key);
        put(&mut self.members, "published_api_key", aside);
    }

    /// Reads the file, lets `change` change it, and writes it where that changed something, with no other process in between.
    pub fn update<T>(
        state: &StateDirectory,
        change: impl FnOnce(&mut Credentials) -> T,
    ) -> Result<T, CredentialsError> {
        let _lock = lock_file(state)?;
        let mut credentials = Credentials::load(state)?;
        let before = credentials.written()?;
        let result = change(&mut credentials);
        let after = credentials.written()?;
        if after != before {
            write_atomically(&credentials.path, after.as_bytes())
                .map_err(|error| credentials.not_saved(&error))?;
        }
        Ok(result)
    }

    /// Whether a key that is got now could be stored: asked before one is made.
    pub fn rehearse(state: &StateDirectory) -> Result<(), CredentialsError> {
        let _lock = lock_file(state)?;
        let credentials = Credentials::load(state)?;
        let tried = tempfile::Builder::new().prefix(".new-").tempfile_in(state.path());
        tried.map(drop).map_err(|error| credentials.not_saved(&error))
    }

    /// As it stands in the file.
    fn written(&self) -> Result<String, CredentialsError> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Value<'c> {
            Member(&'c RawValue),
            Indexes(&'c BTreeMap<String, Members>),
        }
        let mut members: BTreeMap<&str, Value<'_>> = self
            .members
            .iter()
            .map(|(name, value)| (name.as_str(), Value::Member(value)))
            .collect();
        if !self.indexes.is_empty() {
            members.insert("indexes", Value::Indexes(&self.indexes));
        }
        serde_json::to_string_pretty(&members)
            .map(|text| format!("{text}\n"))
            .map_err(|error| self.not_saved(&error.into()))
    }

    fn not_saved(&self, error: &std::io::Error) -> CredentialsError {
        CredentialsError::NotSaved {
            path: self.path.display().to_string(),
            why: said(error),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn lock_file(state: &StateDirectory) -> Result<Lock, CredentialsError> {
    let path = state.path().join(FILE).display().to_string();
    let locked = make_directory(state.path())
        .map_err(LockError::Failed)
        .and_then(|()| lock(&state.path().join(LOCK), LOCK_WAIT));
    locked.map_err(|error| match error {
        LockError::Busy => CredentialsError::Busy { path },
        LockError::Failed(error) => CredentialsError::NotSaved {
            path,
            why: said(&error),
        },
    })
}

/// A member that is a text; `None` where it is absent or `null`.
fn text(members: &Members, name: &str) -> Result<Option<String>, serde_json::Error> {
    match members.get(name) {
        None => Ok(None),
        Some(value) => serde_json::from_str(value.get()),
    }
}

fn put(members: &mut Members, name: &str, value: Option<&str>) {
    match value.map(to_raw_value) {
        Some(Ok(value)) => drop(members.insert(name.to_owned(), value)),
        // A text can always be written.
        Some(Err(_)) | None => drop(members.remove(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use insta::assert_snapshot;
    use tempfile::TempDir;

    use super::*;

    struct Desk {
        directory: TempDir,
        state: StateDirectory,
    }

    impl Desk {
        fn new() -> Desk {
            let directory = tempfile::tempdir().unwrap();
            let state = StateDirectory::at(directory.path());
            Desk { directory, state }
        }

        fn with(text: &str) -> Desk {
            let desk = Desk::new();
            write_atomically(&desk.path(), text.as_bytes()).unwrap();
            desk
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join(FILE)
        }

        fn text(&self) -> String {
            fs::read_to_string(self.path()).unwrap()
        }

        fn remember(&self, base: &str, key: &str) {
            let granted = Granted {
                key_id: Some(format!("key_of_{key}")),
                login: Some("ann".to_owned()),
                expires_at: Some("2027-05-29T00:00:00Z".to_owned()),
                is_own: true,
                ..Granted::of_key(key.into())
            };
            Credentials::update(&self.state, |stored| stored.remember(&at(base), granted, false)).unwrap();
        }

        /// The same file before and after, and one line that says why.
        fn refused(&self) -> String {
            let before = fs::read(self.path()).unwrap();
            let read = Credentials::load(&self.state).unwrap_err().to_string();
            let written = Credentials::update(&self.state, |stored| {
                stored.remember(&at("https://a.example/"), Granted::of_key("k".into()), true);
            });
            assert_eq!(written.unwrap_err().to_string(), read);
            assert_eq!(Credentials::rehearse(&self.state).unwrap_err().to_string(), read);
            assert_eq!(fs::read(self.path()).unwrap(), before);
            assert_eq!(read.lines().count(), 1);
            read.replace(&self.directory.path().display().to_string(), "STATE")
        }
    }

    fn at(base: &str) -> Base {
        Base::parse(base).unwrap()
    }

    #[test]
    fn the_first_sign_in_is_the_default_and_the_published_client_reads_its_key() {
        let desk = Desk::new();
        desk.remember("https://a.example/", "mcpk_a");
        desk.remember("https://b.example/", "mcpk_b");
        assert_snapshot!(desk.text(), @r#"
        {
          "api_key": "mcpk_a",
          "default": "https://a.example/",
          "indexes": {
            "https://a.example/": {
              "expires_at": "2027-05-29T00:00:00Z",
              "key": "mcpk_a",
              "key_id": "key_of_mcpk_a",
              "login": "ann"
            },
            "https://b.example/": {
              "expires_at": "2027-05-29T00:00:00Z",
              "key": "mcpk_b",
              "key_id": "key_of_mcpk_b",
              "login": "ann"
            }
          }
        }
        "#);
        assert_eq!(
            fs::metadata(desk.path()).unwrap().permissions().mode() & 0o7777,
            0o600
        );
        let stored = Credentials::load(&desk.state).unwrap();
        assert_eq!(
            stored.bases(),
            [at("https://a.example/"), at("https://b.example/")]
        );
        assert_eq!(stored.default_base(), Some(at("https://a.example/")));
        assert_eq!(format!("{stored:?}").matches("mcpk_").count(), 0);
        let granted = stored.granted(&at("https://b.example")).unwrap();
        assert_eq!(granted.key.expose_secret(), "mcpk_b");
        assert_eq!(granted.key_id.as_deref(), Some("key_of_mcpk_b"));
        assert!(stored.granted(&at("https://c.example/")).is_none());
    }

    #[test]
    fn a_sign_out_takes_its_key_everywhere_and_no_other() {
        let desk = Desk::new();
        desk.remember("https://a.example/", "mcpk_a");
        desk.remember("https://b.example/", "mcpk_b");
        let forget =
            |base: &str| Credentials::update(&desk.state, |stored| stored.forget(&at(base))).unwrap();
        assert!(!forget("https://c.example/"));
        assert!(forget("https://a.example"));
        assert!(!desk.text().contains("mcpk_a"), "{}", desk.text());
        let stored = Credentials::load(&desk.state).unwrap();
        assert_eq!(stored.default_base(), None);
        assert_eq!(
            stored.key(&at("https://b.example/")).unwrap().expose_secret(),
            "mcpk_b"
        );
        assert!(forget("https://b.example"));
        assert_eq!(desk.text(), "{}\n");
    }

    #[test]
    fn unknown_members_stay_as_they_were_written() {
        let desk = Desk::with(
            r#"{"zeta": 12345678901234567890123, "indexes": {"https://A.example": {"key": "mcpk_old", "note": [1.0, "\u0041"]}}}"#,
        );
        desk.remember("https://a.example/", "mcpk_new");
        assert_snapshot!(desk.text(), @r#"
    {
      "api_key": "mcpk_new",
      "default": "https://a.example/",
      "indexes": {
        "https://A.example": {
          "expires_at": "2027-05-29T00:00:00Z",
          "key": "mcpk_new",
          "key_id": "key_of_mcpk_new",
          "login": "ann",
          "note": [1.0, "\u0041"]
        }
      },
      "zeta": 12345678901234567890123
    }
    "#);
    }

    #[test]
    fn the_published_clients_key_is_sent_nowhere_and_comes_back() {
        let desk = Desk::with("{\"api_key\":\"mcpk_published\"}\n");
        let stored = Credentials::load(&desk.state).unwrap();
        assert!(stored.has_published_key());
        assert_eq!(stored.default_base(), None);
        assert!(stored.key(&at("https://mcpindex.example/")).is_none());
        desk.remember("https://a.example/", "mcpk_a");
        desk.remember("https://a.example/", "mcpk_a2");
        let text = desk.text();
        assert!(text.contains(r#""api_key": "mcpk_a2""#), "{text}");
        assert!(
            text.contains(r#""published_api_key": "mcpk_published""#),
            "{text}"
        );
        Credentials::update(&desk.state, |stored| stored.forget(&at("https://a.example"))).unwrap();
        assert_eq!(desk.text(), "{\n  \"api_key\": \"mcpk_published\"\n}\n");
    }

    #[test]
    fn what_can_not_be_understood_is_one_line_and_stays() {
        let mut said = String::new();
        for text in [
            "{\"api_key\": \"mcpk_secret",
            "[\"mcpk_secret\"]",
            "",
            r#"{"api_key": 7}"#,
            r#"{"default": "mcpindex.example"}"#,
            r#"{"indexes": ["mcpk_secret"]}"#,
            r#"{"indexes": {"https://a.example/": "mcpk_secret"}}"#,
            r#"{"indexes": {"https://a.example/": {"key": ["mcpk_secret"]}}}"#,
        ] {
            said += &format!("{}\n", Desk::with(text).refused());
        }
        assert!(!said.contains("mcpk_"), "{said}");
        assert_snapshot!(said, @r"
        `STATE/credentials.json` is no JSON object (line 1, column 24): mend it, or move it away and sign in again
        `STATE/credentials.json` is no JSON object (it is another sort of value): mend it, or move it away and sign in again
        `STATE/credentials.json` is no JSON object (it is empty): mend it, or move it away and sign in again
        `STATE/credentials.json`: `api_key` must be a text: mend it, or move the file away and sign in again
        `STATE/credentials.json`: `default` must be the address of an index: mend it, or move the file away and sign in again
        `STATE/credentials.json`: `indexes` must be an object: mend it, or move the file away and sign in again
        `STATE/credentials.json`: `indexes`, `https://a.example/` must be an object: mend it, or move the file away and sign in again
        `STATE/credentials.json`: `indexes`, `https://a.example/`, `key` must be a text: mend it, or move the file away and sign in again
        ");
    }

    #[test]
    fn a_file_that_others_could_have_touched_is_not_used() {
        let mut said = String::new();
        let desk = Desk::with("{}");
        for mode in [0o644, 0o660, 0o604] {
            fs::set_permissions(desk.path(), fs::Permissions::from_mode(mode)).unwrap();
            said += &format!("{}\n", desk.refused());
        }
        fs::rename(desk.path(), desk.directory.path().join("elsewhere.json")).unwrap();
        symlink("elsewhere.json", desk.path()).unwrap();
        said += &format!("{}\n", desk.refused());
        fs::remove_file(desk.path()).unwrap();
        fs::write(desk.path(), vec![b' '; MAX_BYTES as usize + 1]).unwrap();
        said += &format!("{}\n", desk.refused());
        assert_snapshot!(said, @r"
        `STATE/credentials.json` is open to other users (mode 0644) and not used: run `chmod 600 STATE/credentials.json`, and `mcpindex logout`, then `mcpindex login`, if others use this machine
        `STATE/credentials.json` is open to other users (mode 0660) and not used: run `chmod 600 STATE/credentials.json`, and `mcpindex logout`, then `mcpindex login`, if others use this machine
        `STATE/credentials.json` is open to other users (mode 0604) and not used: run `chmod 600 STATE/credentials.json`, and `mcpindex logout`, then `mcpindex login`, if others use this machine
        `STATE/credentials.json` is not used: it is a symbolic link, which is not followed: put the file itself there
        `STATE/credentials.json` is not used: it is larger than 1048576 bytes
        ");
    }

    #[test]
    fn sign_ins_at_the_same_time_lose_none() {
        let desk = Desk::new();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let desk = &desk;
                scope.spawn(move || desk.remember(&format!("https://{number}.example/"), "mcpk_a"));
            }
        });
        assert_eq!(Credentials::load(&desk.state).unwrap().bases().len(), 8);
    }
}
