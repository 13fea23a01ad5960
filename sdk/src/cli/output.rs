//! The one place that writes to stdout and stderr.
//!
//! Invariant: every line passes through [`visible`] here, so no text of a server reaches a terminal as it came, nor the log
//! of a CI job as one of its commands; colour is added afterwards and only where a terminal reads it. A reader who closes the
//! pipe ends the output, not the program.

use std::io::{self, IsTerminal, Write};

use clap::builder::StyledStr;
use mcpindex::visible::{is_dangerous, visible};

/// Where everything is written.
pub(super) struct Output {
    stderr_is_terminal: bool,
    colour: bool,
    silent: bool,
}

/// How a line looks on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Strong,
    Faint,
    Alarm,
    /// What one side of a comparison has and the other lacks.
    Removed,
    Added,
}

impl Output {
    /// For this process's own stdout and stderr. `NO_COLOR` is honoured.
    pub(super) fn for_terminal() -> Output {
        let stdout_is_terminal = io::stdout().is_terminal();
        let colour = stdout_is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Output {
            stderr_is_terminal: io::stderr().is_terminal(),
            colour,
            silent: false,
        }
    }

    /// From now on nothing is written.
    pub(super) fn silence(&mut self) {
        self.silent = true;
        self.stderr_is_terminal = false;
    }

    /// Whether somebody may be watching stderr.
    pub(super) fn is_watched(&self) -> bool {
        self.stderr_is_terminal
    }

    /// One line of text on stdout.
    pub(super) fn line(&mut self, style: Style, text: &str) {
        if self.silent {
            return;
        }
        let text = self.styled(style, &harmless(text));
        end_quietly(writeln!(io::stdout(), "{text}"));
    }

    /// One line of text on stdout, in parts that look different.
    pub(super) fn parts(&mut self, parts: &[(Style, String)]) {
        if self.silent {
            return;
        }
        let line: String = parts
            .iter()
            .enumerate()
            .map(|(position, (style, text))| match position {
                0 => self.styled(*style, &harmless(text)),
                _ => self.styled(*style, &visible(text)),
            })
            .collect();
        end_quietly(writeln!(io::stdout(), "{line}"));
    }

    /// A question on stdout, whose answer is typed on the same line.
    pub(super) fn ask(&mut self, question: &str) {
        let question = self.styled(Style::Strong, &harmless(question));
        end_quietly(write!(io::stdout(), "{question} ").and_then(|()| io::stdout().flush()));
    }

    /// Whether parts of a line can be told apart by their colour.
    pub(super) fn has_colour(&self) -> bool {
        self.colour
    }

    /// The columns of the terminal that reads stdout; `None` where none does.
    pub(super) fn width(&self) -> Option<usize> {
        let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
        Some(usize::from(width.0))
    }

    fn styled(&self, style: Style, text: &str) -> String {
        let on = match style {
            _ if !self.colour || text.is_empty() => return text.to_owned(),
            Style::Plain => return text.to_owned(),
            Style::Strong => "\x1b[1m",
            Style::Faint => "\x1b[2m",
            Style::Alarm => "\x1b[31m",
            Style::Removed => "\x1b[31m",
            Style::Added => "\x1b[32m",
        };
        format!("{on}{text}\x1b[0m")
    }

    /// One JSON document on stdout, with dangerous characters escaped, which says the same.
    pub(super) fn document(&mut self, json: &str) {
        let shown: String = json.chars().map(escaped).collect();
        // Within a string, the only place where it can stand.
        let shown = shown.replace("##[", "#\\u0023[");
        end_quietly(writeln!(io::stdout(), "{shown}"));
    }

    /// What is under way, on stderr, over the line before.
    pub(super) fn progress(&mut self, text: &str) {
        if self.stderr_is_terminal {
            end_quietly(
                write!(io::stderr(), "\r\x1b[2K{}", visible(text)).and_then(|()| io::stderr().flush()),
            );
        }
    }

    /// Takes the progress line away.
    pub(super) fn end_progress(&mut self) {
        if self.stderr_is_terminal {
            end_quietly(write!(io::stderr(), "\r\x1b[2K").and_then(|()| io::stderr().flush()));
        }
    }

    /// One line on stderr.
    pub(super) fn error(&mut self, text: &str) {
        if self.silent {
            return;
        }
        end_quietly(writeln!(io::stderr(), "{}", harmless(text)));
    }

    /// What clap says about the arguments.
    pub(super) fn usage(&mut self, text: &StyledStr) {
        let result = if self.stderr_is_terminal {
            write!(io::stderr(), "{}", text.ansi())
        } else {
            write!(io::stderr(), "{text}")
        };
        end_quietly(result);
    }

    /// The help or the version that was asked for.
    pub(super) fn help(&mut self, text: &StyledStr) {
        let result = if self.colour {
            write!(io::stdout(), "{}", text.ansi())
        } else {
            write!(io::stdout(), "{text}")
        };
        end_quietly(result);
    }
}

/// The text as one line that is no command to a CI job that logs it (`::error::…`, also indented; `##[…]` anywhere).
fn harmless(text: &str) -> String {
    let text = visible(text).replace("##[", "#\\u{23}[");
    let indent = text.len() - text.trim_start().len();
    match text[indent..].strip_prefix("::") {
        Some(rest) => format!("{}\\u{{3a}}:{rest}", &text[..indent]),
        None => text,
    }
}

fn escaped(character: char) -> String {
    // White space between the members of a document is no danger.
    if character != '\n' && is_dangerous(character) {
        let mut units = [0; 2];
        character
            .encode_utf16(&mut units)
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect()
    } else {
        character.to_string()
    }
}

/// A reader who has gone away is no error, and there is nobody left to tell about another.
fn end_quietly(result: io::Result<()>) {
    drop(result);
}
