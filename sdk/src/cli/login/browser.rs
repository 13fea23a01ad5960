//! Whether a browser can be opened on this machine, opening it, and what a person types meanwhile.
//!
//! Invariant: nothing here waits for a browser or a person longer than whoever asks.

use std::future::pending;
use std::io::{self, IsTerminal};

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::task::JoinHandle;

/// A browser that is being opened, or not.
pub(super) struct Browser {
    opening: Option<JoinHandle<io::Result<()>>>,
    missing: Option<&'static str>,
}

impl Browser {
    /// Opens the address, unless no person at this machine could see it.
    pub(super) fn open(address: &str) -> Browser {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if let Some(why) = why_none(is_set, cfg!(target_os = "macos")) {
            return Browser {
                opening: None,
                missing: Some(why),
            };
        }
        let address = address.to_owned();
        // It watches for a moment whether the opener fails.
        let opening = tokio::task::spawn_blocking(move || open::that_detached(address));
        Browser {
            opening: Some(opening),
            missing: None,
        }
    }

    /// None is opened, on request.
    pub(super) fn left_to_the_person() -> Browser {
        Browser {
            opening: None,
            missing: None,
        }
    }

    /// Why none is opened, where that is known in advance.
    pub(super) fn is_missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// Whether one is being opened.
    pub(super) fn is_under_way(&self) -> bool {
        self.opening.is_some()
    }

    /// Ends when none could be opened, with the reason, and once.
    pub(super) async fn failed(&mut self) -> String {
        let Some(opening) = &mut self.opening else {
            return pending().await;
        };
        let opened = opening.await;
        self.opening = None;
        match opened {
            Ok(Ok(())) => pending().await,
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                "no program that opens one is installed".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

/// Why a browser that is opened here would be seen by nobody.
fn why_none(is_set: impl Fn(&str) -> bool, is_macos: bool) -> Option<&'static str> {
    if is_set("SSH_CONNECTION") || is_set("SSH_TTY") {
        return Some("this is a session over SSH");
    }
    // Windows' own browser is opened from within its Linux.
    let has_display = is_macos
        || ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"]
            .iter()
            .any(|name| is_set(name));
    (!has_display).then_some("this machine has no display")
}

/// What a person types, where stdin is a terminal.
pub(super) struct Answers {
    lines: Option<Lines<BufReader<Stdin>>>,
}

impl Answers {
    pub(super) fn new() -> Answers {
        let is_terminal = io::stdin().is_terminal();
        Answers {
            lines: is_terminal.then(|| BufReader::new(tokio::io::stdin()).lines()),
        }
    }

    /// Ends when `d` was typed.
    pub(super) async fn device(&mut self) {
        while let Some(lines) = &mut self.lines {
            match lines.next_line().await {
                Ok(Some(line)) if line.trim().eq_ignore_ascii_case("d") => return,
                Ok(Some(_)) => {}
                // Nobody will type anything.
                Ok(None) | Err(_) => self.lines = None,
            }
        }
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_opened_only_where_somebody_sees_it() {
        let check = |variables: &[&str], is_macos: bool, expected: Option<&str>| {
            let found = why_none(|name| variables.contains(&name), is_macos);
            assert_eq!(found, expected, "{variables:?}");
        };
        let ssh = Some("this is a session over SSH");
        let no_display = Some("this machine has no display");
        check(&["DISPLAY"], false, None);
        check(&["WAYLAND_DISPLAY"], false, None);
        check(&["WSL_DISTRO_NAME"], false, None);
        check(&[], true, None);
        check(&[], false, no_display);
        check(&["SSH_CONNECTION", "DISPLAY"], false, ssh);
        check(&["SSH_TTY"], true, ssh);
    }
}
