//! Which MCP hosts there are and where each keeps its configuration, on Linux, macOS and Windows: one table.
//!
//! Invariant: only files in the person's own folders are named. A project's files (`.mcp.json`, `.cursor/mcp.json`) and those an
//! administrator manages are never found here; they are read only when somebody names them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The operating system whose places are meant. A parameter, so that one machine tests all three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux and the other Unixes.
    Linux,
    /// macOS
    MacOs,
    /// Windows
    Windows,
}

/// The variables that move a host's configuration elsewhere.
const VARIABLES: [&str; 7] = [
    "XDG_CONFIG_HOME",
    "APPDATA",
    "LOCALAPPDATA",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "VIBE_HOME",
];

/// What decides where configurations are: the platform, the home directory and the variables that name other places.
#[derive(Debug, Clone)]
pub struct Environment {
    platform: Platform,
    home: PathBuf,
    variables: BTreeMap<String, PathBuf>,
}

impl Environment {
    /// No variable is set.
    pub fn new(platform: Platform, home: impl Into<PathBuf>) -> Environment {
        Environment {
            platform,
            home: home.into(),
            variables: BTreeMap::new(),
        }
    }

    /// This process's own; `None` when it has no home directory.
    pub fn from_process() -> Option<Environment> {
        let platform = if cfg!(windows) {
            Platform::Windows
        } else if cfg!(target_os = "macos") {
            Platform::MacOs
        } else {
            Platform::Linux
        };
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        Some(
            VARIABLES.iter().fold(
                Environment::new(platform, home),
                |environment, name| match std::env::var_os(name) {
                    Some(value) => environment.with_variable(name, PathBuf::from(value)),
                    None => environment,
                },
            ),
        )
    }

    /// With this variable set. One that holds no absolute path is as good as unset.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl Into<PathBuf>) -> Environment {
        let value = value.into();
        if value.is_absolute() {
            self.variables.insert(name.to_owned(), value);
        }
        self
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).cloned()
    }

    fn folder(&self, root: Root) -> Option<PathBuf> {
        let at_home = |path: &str| self.home.join(path);
        match root {
            Root::Home => Some(self.home.clone()),
            Root::Config => Some(
                self.variable("XDG_CONFIG_HOME")
                    .unwrap_or_else(|| at_home(".config")),
            ),
            Root::Application => Some(match self.platform {
                Platform::Linux => self.folder(Root::Config)?,
                Platform::MacOs => at_home("Library/Application Support"),
                Platform::Windows => self
                    .variable("APPDATA")
                    .unwrap_or_else(|| at_home("AppData/Roaming")),
            }),
            Root::Local => (self.platform == Platform::Windows).then(|| {
                self.variable("LOCALAPPDATA")
                    .unwrap_or_else(|| at_home("AppData/Local"))
            }),
            Root::Unix => (self.platform != Platform::Windows).then(|| self.folder(Root::Config))?,
            Root::Roaming => (self.platform == Platform::Windows).then(|| self.folder(Root::Application))?,
            Root::Variable(name, otherwise) => {
                Some(self.variable(name).unwrap_or_else(|| at_home(otherwise)))
            }
        }
    }
}

/// What a path of the table starts from.
#[derive(Clone, Copy)]
enum Root {
    /// The home directory.
    Home,
    /// `$XDG_CONFIG_HOME` or `~/.config`, on every system.
    Config,
    /// Where the system has applications keep settings: as `Config`, `~/Library/Application Support`, `%APPDATA%`.
    Application,
    /// `%LOCALAPPDATA%`, on Windows only.
    Local,
    /// As `Config`, but not on Windows.
    Unix,
    /// `%APPDATA%`, on Windows only.
    Roaming,
    /// What the variable names, else this folder in the home directory.
    Variable(&'static str, &'static str),
}

/// One MCP host.
#[derive(Clone, Copy)]
pub struct Host {
    /// What `--host` takes.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// A `*` stands for any run of characters within one segment.
    files: &'static [(Root, &'static str)],
}

/// Every host, by name.
pub const HOSTS: &[Host] = &[
    host("amp", "Amp", &[(Root::Config, "amp/settings.json")]),
    host(
        "antigravity",
        "Antigravity",
        &[(Root::Home, ".gemini/antigravity/mcp_config.json")],
    ),
    host(
        "claude-code",
        "Claude Code",
        &[(Root::Variable("CLAUDE_CONFIG_DIR", ""), ".claude.json")],
    ),
    host(
        "claude-desktop",
        "Claude Desktop",
        &[(Root::Application, "Claude/claude_desktop_config.json")],
    ),
    host(
        "cline",
        "Cline",
        &[(
            Root::Application,
            "*/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        )],
    ),
    host(
        "codex",
        "Codex",
        &[(Root::Variable("CODEX_HOME", ".codex"), "config.toml")],
    ),
    host(
        "continue",
        "Continue",
        &[
            (Root::Home, ".continue/config.yaml"),
            (Root::Home, ".continue/mcpServers/*.yaml"),
            (Root::Home, ".continue/mcpServers/*.yml"),
            (Root::Home, ".continue/mcpServers/*.json"),
        ],
    ),
    host(
        "copilot",
        "Copilot CLI",
        &[(Root::Variable("COPILOT_HOME", ".copilot"), "mcp-config.json")],
    ),
    host("cursor", "Cursor", &[(Root::Home, ".cursor/mcp.json")]),
    host("factory", "Factory", &[(Root::Home, ".factory/mcp.json")]),
    host("gemini", "Gemini CLI", &[(Root::Home, ".gemini/settings.json")]),
    host(
        "goose",
        "Goose",
        &[
            (Root::Unix, "goose/config.yaml"),
            (Root::Roaming, "Block/goose/config/config.yaml"),
        ],
    ),
    host(
        "jetbrains",
        "Windsurf for JetBrains",
        &[(Root::Home, ".codeium/mcp_config.json")],
    ),
    host("kimi", "Kimi", &[(Root::Home, ".kimi/mcp.json")]),
    host("kiro", "Kiro", &[(Root::Home, ".kiro/settings/mcp.json")]),
    host("lmstudio", "LM Studio", &[(Root::Home, ".lmstudio/mcp.json")]),
    host(
        "opencode",
        "OpenCode",
        &[
            (Root::Config, "opencode/opencode.json"),
            (Root::Config, "opencode/opencode.jsonc"),
        ],
    ),
    host(
        "roo",
        "Roo",
        &[(
            Root::Application,
            "*/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        )],
    ),
    host("trae", "Trae", &[(Root::Application, "Trae/User/mcp.json")]),
    host(
        "vibe",
        "Mistral Vibe",
        &[(Root::Variable("VIBE_HOME", ".vibe"), "config.toml")],
    ),
    host(
        "vscode",
        "VS Code",
        &[
            (Root::Application, "Code/User/mcp.json"),
            (Root::Application, "Code/User/settings.json"),
            (Root::Application, "Code/User/profiles/*/mcp.json"),
            (Root::Application, "Code - Insiders/User/mcp.json"),
            (Root::Application, "Code - Insiders/User/settings.json"),
            (Root::Application, "Code - Insiders/User/profiles/*/mcp.json"),
            (Root::Home, ".vscode-server/data/User/mcp.json"),
            (Root::Home, ".vscode-server-insiders/data/User/mcp.json"),
        ],
    ),
    host(
        "windsurf",
        "Windsurf",
        &[
            (Root::Home, ".codeium/windsurf/mcp_config.json"),
            (Root::Local, "Codeium/windsurf/mcp_config.json"),
        ],
    ),
    host(
        "zed",
        "Zed",
        &[
            (Root::Unix, "zed/settings.json"),
            (Root::Roaming, "Zed/settings.json"),
        ],
    ),
];

const fn host(name: &'static str, label: &'static str, files: &'static [(Root, &'static str)]) -> Host {
    Host { name, label, files }
}

impl Host {
    /// The configuration files of this host that are there, sorted.
    pub fn files(&self, environment: &Environment) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = self
            .files
            .iter()
            .filter_map(|(root, path)| Some((environment.folder(*root)?, *path)))
            .flat_map(|(folder, path)| matching(&folder, path))
            // A link that leads nowhere is there too: it is told, not passed over.
            .filter(|path| path.symlink_metadata().is_ok())
            .collect();
        found.sort();
        found.dedup();
        found
    }

    /// Where this host would look, with a `*` where any name will do: for people and for tests.
    pub fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        self.files
            .iter()
            .filter_map(|(root, path)| Some(environment.folder(*root)?.join(path)))
            .collect()
    }
}

fn matching(folder: &Path, path: &str) -> Vec<PathBuf> {
    let (segment, rest) = path.split_once('/').unwrap_or((path, ""));
    let here = match segment.split_once('*') {
        None => vec![folder.join(segment)],
        Some((before, after)) => entries(folder, before, after),
    };
    if rest.is_empty() {
        return here;
    }
    here.iter().flat_map(|folder| matching(folder, rest)).collect()
}

/// What the folder holds, of names that begin and end so. A folder that can't be listed has no file that we could read.
fn entries(folder: &Path, before: &str, after: &str) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            })
        })
        .map(|entry| entry.path())
        .collect()
}
