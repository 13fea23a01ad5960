//! Whether telemetry is on, and who says so.
//!
//! `DO_NOT_TRACK` comes before everything. Then the variable, then our own file (`telemetry on|off`), then what the person
//! once told the published client (`consent.json`, which is read and never written), else it is off. In CI only the
//! variable counts: a build that starts from nothing each time would be a new install each time.
//!
//! Invariant: what can't be read or is no mode counts as off, and says why.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::state::{StateDirectory, read_own_file, write_atomically};

/// Names the mode; before what is kept in files.
pub const MODE_VARIABLE: &str = "MCPINDEX_DRIFT_TELEMETRY";
/// Says that nothing may be sent anywhere.
pub const DO_NOT_TRACK_VARIABLE: &str = "DO_NOT_TRACK";
/// Says that this is a build.
const CI_VARIABLE: &str = "CI";
/// The most that a file with a mode in it may hold.
const MAX_FILE: u64 = 64 * 1024;

/// How much an index is told and asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is sent and nothing asked.
    Off,
    /// The index is asked about what is seen, and told nothing more than the question.
    Lookup,
    /// The index is asked, and told of pins and drifts.
    Detection,
    /// The same, under the name that the published clients have for it.
    Contribute,
}

impl Mode {
    /// Every mode, in the order of how much it sends.
    pub const ALL: [Mode; 4] = [Mode::Off, Mode::Lookup, Mode::Detection, Mode::Contribute];

    /// `off`, `lookup`, `detection` or `contribute`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Lookup => "lookup",
            Mode::Detection => "detection",
            Mode::Contribute => "contribute",
        }
    }

    /// The mode of this name, in any case and with white space around it.
    pub fn from_name(name: &str) -> Option<Mode> {
        let name = name.trim().to_ascii_lowercase();
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether the index is asked about what is seen.
    pub fn asks(self) -> bool {
        self != Mode::Off
    }

    /// Whether the index is told what is seen.
    pub fn sends(self) -> bool {
        matches!(self, Mode::Detection | Mode::Contribute)
    }
}

/// Who says which mode it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `DO_NOT_TRACK`.
    DoNotTrack,
    /// `MCPINDEX_DRIFT_TELEMETRY`.
    Variable,
    /// `CI`: what is kept on the machine does not count.
    Ci,
    /// `mcpindex telemetry on|off`.
    File,
    /// What the published client was told.
    Published,
    /// Nobody.
    Default,
}

impl Source {
    /// For programs: `do-not-track`, `variable`, `ci`, `file`, `published-client` or `default`.
    pub fn name(self) -> &'static str {
        match self {
            Source::DoNotTrack => "do-not-track",
            Source::Variable => "variable",
            Source::Ci => "ci",
            Source::File => "file",
            Source::Published => "published-client",
            Source::Default => "default",
        }
    }

    /// For people: `set by …`.
    pub fn sentence(self) -> &'static str {
        match self {
            Source::DoNotTrack => "DO_NOT_TRACK is set",
            Source::Variable => "set by MCPINDEX_DRIFT_TELEMETRY",
            Source::Ci => "CI is set, where only MCPINDEX_DRIFT_TELEMETRY switches it on",
            Source::File => "set by `mcpindex telemetry`",
            Source::Published => "set by the published client's consent.json",
            Source::Default => "nobody switched it on",
        }
    }
}

/// The mode that holds here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub mode: Mode,
    /// Who says so.
    pub source: Source,
    /// What was said and could not be understood, so that it is off; one line.
    pub problem: Option<String>,
}

/// What the environment says about telemetry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModeVariables {
    /// `MCPINDEX_DRIFT_TELEMETRY`; an empty one counts as none.
    pub mode: Option<String>,
    /// `DO_NOT_TRACK`, unless it is empty, `0` or `false`.
    pub do_not_track: bool,
    /// `CI`, unless it is empty, `0` or `false`.
    pub ci: bool,
}

impl ModeVariables {
    /// This process's.
    pub fn from_environment() -> ModeVariables {
        let variable = |name| {
            let value = std::env::var_os(name)?;
            let text = value.to_string_lossy().trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let is_set = |name| {
            let value = variable(name);
            value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
        };
        ModeVariables {
            mode: variable(MODE_VARIABLE),
            do_not_track: is_set(DO_NOT_TRACK_VARIABLE),
            ci: is_set(CI_VARIABLE),
        }
    }
}

/// Our own file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnFile {
    version: u64,
    mode: Mode,
}

/// As much of the published client's file as is a matter of ours.
#[derive(Deserialize)]
struct Consent {
    drift_telemetry: Option<ConsentToDrift>,
}

#[derive(Deserialize)]
struct ConsentToDrift {
    mode: Option<String>,
}

/// The mode that holds in this state directory and environment.
pub fn choose(state: &StateDirectory, variables: &ModeVariables) -> Choice {
    let off = |source| Choice {
        mode: Mode::Off,
        source,
        problem: None,
    };
    let chosen = |source, mode: Result<Mode, String>| match mode {
        Ok(mode) => Choice {
            mode,
            source,
            problem: None,
        },
        Err(problem) => Choice {
            problem: Some(problem),
            ..off(source)
        },
    };
    if variables.do_not_track {
        return off(Source::DoNotTrack);
    }
    if let Some(text) = &variables.mode {
        let mode = Mode::from_name(text).ok_or_else(|| {
            format!(
                "{MODE_VARIABLE}: `{text}` is no mode: expected off, lookup, detection or contribute, so it is off"
            )
        });
        return chosen(Source::Variable, mode);
    }
    if variables.ci {
        return off(Source::Ci);
    }
    if let Some(mode) = own_mode(state).transpose() {
        return chosen(Source::File, mode);
    }
    match consent(state).transpose() {
        Some(mode) => chosen(Source::Published, mode),
        None => off(Source::Default),
    }
}

/// Keeps this mode in our own file.
pub fn keep_mode(state: &StateDirectory, mode: Mode) -> std::io::Result<()> {
    let file = OwnFile { version: 1, mode };
    let text = serde_json::to_string(&file)?;
    write_atomically(&own_path(state), format!("{text}\n").as_bytes())
}

fn own_path(state: &StateDirectory) -> PathBuf {
    super::directory(state).join("mode.json")
}

fn own_mode(state: &StateDirectory) -> Result<Option<Mode>, String> {
    let path = own_path(state);
    let problem = |reason: String| {
        format!(
            "`{}` can't be used, so it is off: {reason}; `mcpindex telemetry on` or `off` writes it anew",
            path.display()
        )
    };
    let read = read_own_file(&path, MAX_FILE).map_err(|error| problem(error.to_string()))?;
    let Some(read) = read else {
        return Ok(None);
    };
    let file: OwnFile = serde_json::from_slice(&read.bytes).map_err(|error| problem(error.to_string()))?;
    match file.version {
        1 => Ok(Some(file.mode)),
        version => Err(problem(format!("a newer mcpindex wrote it (version {version})"))),
    }
}

fn consent(state: &StateDirectory) -> Result<Option<Mode>, String> {
    let path = state.path().join("consent.json");
    let problem = |reason: String| format!("`{}` can't be used, so it is off: {reason}", path.display());
    let read = read_own_file(&path, MAX_FILE).map_err(|error| problem(error.to_string()))?;
    let Some(read) = read else {
        return Ok(None);
    };
    let consent: Consent = serde_json::from_slice(&read.bytes).map_err(|error| problem(error.to_string()))?;
    let Some(name) = consent.drift_telemetry.and_then(|drift| drift.mode) else {
        return Ok(None);
    };
    let mode = Mode::from_name(&name).ok_or_else(|| problem("it names no mode that is known".to_owned()));
    mode.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(state: &StateDirectory, variables: &ModeVariables, expected: &str) {
        let Choice {
            mode,
            source,
            problem,
        } = choose(state, variables);
        let problem = problem.map_or_else(String::new, |problem| format!(": {problem}"));
        let place = state.path().display().to_string();
        let said = format!("{} by {}{problem}", mode.name(), source.name());
        assert_eq!(said.replace(&place, "STATE"), expected);
    }

    fn variable(mode: &str) -> ModeVariables {
        ModeVariables {
            mode: Some(mode.to_owned()),
            ..ModeVariables::default()
        }
    }

    #[test]
    fn the_variable_comes_before_our_file_and_that_before_the_published_clients() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let none = ModeVariables::default();
        check(&state, &none, "off by default");
        let consent = br#"{"version":1,"drift_telemetry":{"mode":"contribute","source":"flag-or-prompt"}}"#;
        write_atomically(&directory.path().join("consent.json"), consent).unwrap();
        check(&state, &none, "contribute by published-client");
        keep_mode(&state, Mode::Lookup).unwrap();
        check(&state, &none, "lookup by file");
        check(&state, &variable(" Detection\n"), "detection by variable");
        check(&state, &variable("off"), "off by variable");
        check(
            &state,
            &variable("yes"),
            "off by variable: MCPINDEX_DRIFT_TELEMETRY: `yes` is no mode: expected off, lookup, detection or contribute, so it is off",
        );
        let kept = std::fs::read(directory.path().join("consent.json")).unwrap();
        assert_eq!(kept, consent, "the published client's file is not ours to write");
    }

    #[test]
    fn do_not_track_comes_before_everything_and_ci_before_what_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        keep_mode(&state, Mode::Contribute).unwrap();
        let ci = ModeVariables {
            ci: true,
            ..ModeVariables::default()
        };
        check(&state, &ci, "off by ci");
        let ci = ModeVariables {
            ci: true,
            ..variable("lookup")
        };
        check(&state, &ci, "lookup by variable");
        let do_not_track = ModeVariables {
            do_not_track: true,
            ..variable("contribute")
        };
        check(&state, &do_not_track, "off by do-not-track");
    }

    #[test]
    fn a_file_that_can_not_be_used_switches_nothing_on() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let none = ModeVariables::default();
        write_atomically(&own_path(&state), br#"{"version":2,"mode":"contribute"}"#).unwrap();
        check(
            &state,
            &none,
            "off by file: `STATE/telemetry/mode.json` can't be used, so it is off: a newer mcpindex wrote it (version 2); `mcpindex telemetry on` or `off` writes it anew",
        );
        std::fs::remove_file(own_path(&state)).unwrap();
        write_atomically(&directory.path().join("consent.json"), b"{").unwrap();
        check(
            &state,
            &none,
            "off by published-client: `STATE/consent.json` can't be used, so it is off: EOF while parsing an object at line 1 column 1",
        );
    }
}
