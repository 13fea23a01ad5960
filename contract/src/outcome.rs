//! What became of one look at a server: the closed set of states, one row of one table each.
//!
//! Invariant: only [`Outcome::Ok`] and [`Outcome::Partial`] carry a surface; every other outcome says why nothing
//! could be determined, and is never shown as "0 tools".

/// Makes the enum and its table from the same rows, so that no state can lack a name or a sentence.
macro_rules! outcomes {
    ($($outcome:ident $name:literal $sentence:literal,)*) => {
        /// What became of one look at a server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Outcome {
            $(#[doc = $sentence] $outcome,)*
        }

        const ALL: &[Outcome] = &[$(Outcome::$outcome),*];

        impl Outcome {
            /// The name in databases and APIs: `ok`, `partial`, `auth_required`, …
            pub fn name(self) -> &'static str {
                match self {
                    $(Outcome::$outcome => $name,)*
                }
            }

            /// One sentence for people.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Outcome::$outcome => $sentence,)*
                }
            }
        }
    };
}

outcomes! {
    Ok                 "ok"                    "Everything the server declares was listed.",
    Partial            "partial"               "The server was listed, but some list that it declares could not be read to its end.",
    AuthRequired       "auth_required"         "The server asks for a sign-in before it lists anything.",
    NotMcp             "not_mcp"               "Something answers, but not as an MCP server does.",
    Unreachable        "unreachable"           "Nothing answers at the address.",
    TlsInvalid         "tls_invalid"           "The server's TLS certificate is not valid for its address.",
    BlockedAddress     "blocked_address"       "The address is private, reserved or otherwise not to be contacted.",
    NeedsConfig        "needs_config"          "The server needs a key, an argument or another setting before it starts.",
    NeedsNetwork       "needs_network"         "The server needs a network that it could not reach.",
    NeedsInstallScript "needs_install_script"  "The package works only after an install script, and those are never run.",
    NeedsContainerRuntime "needs_container_runtime" "The server is a container image, and those are not run here.",
    OverLimit          "over_limit"            "The server sent more than a limit allows.",
    CursorLoop         "cursor_loop"           "The server's list leads from page to page without an end.",
    TimedOut           "timed_out"             "The server did not answer in time.",
    Crashed            "crashed"               "The server's process ended before it answered.",
    ListFailed         "list_failed"           "The server answered the handshake, but its list of tools failed.",
    PackageNotFound    "package_not_found"     "The package registry knows no package of this name.",
    VersionNotFound    "version_not_found"     "The package has no such version.",
    InstallFailed      "install_failed"        "The package client could not install the package.",
    SandboxUnavailable "sandbox_unavailable"   "The server was not started, since there is no sandbox here that holds.",
    Interrupted        "interrupted"           "The look was cut off by a fault on our side, not the server's.",
}

impl Outcome {
    /// The outcome of this name.
    pub fn from_name(name: &str) -> Option<Outcome> {
        ALL.iter().copied().find(|outcome| outcome.name() == name)
    }

    /// Every outcome, in the table's order.
    pub fn all() -> &'static [Outcome] {
        ALL
    }

    /// Whether this look determined a surface, in whole or in part.
    pub fn has_surface(self) -> bool {
        matches!(self, Outcome::Ok | Outcome::Partial)
    }
}
