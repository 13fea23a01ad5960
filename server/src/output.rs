//! What people and scripts read on the terminal: the one module that writes there (logs go through `tracing` to stderr).
//!
//! Text is written a line at a time, so that lines of several tasks and of the log never run into each other. Colours are
//! used only where stdout is a terminal and `NO_COLOR` is not set.
//!
//! Invariant: no control character and no character that reorders text reaches a terminal raw, whoever wrote the text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

/// How a piece of a line looks on a terminal; elsewhere all pieces look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// As it is.
    Plain,
    /// What the line is about.
    Strong,
    /// What can be passed over.
    Dim,
    /// It went well.
    Good,
    /// A person should look.
    Warn,
    /// It failed.
    Bad,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Ink::Plain => "",
            Ink::Strong => "1",
            Ink::Dim => "2",
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "31",
        }
    }
}

/// A line in pieces.
pub type Line = Vec<(Ink, String)>;

/// Writes one line to stdout.
pub fn line(pieces: &[(Ink, String)]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let coloured = stdout.is_terminal() && colours_wanted();
    let mut text = String::new();
    for (ink, piece) in pieces {
        let piece = escaped(piece);
        match ink.code() {
            code if coloured && !code.is_empty() => text.push_str(&format!("\u{1b}[{code}m{piece}\u{1b}[0m")),
            _ => text.push_str(&piece),
        }
    }
    text.push('\n');
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes one line without colours to stdout.
pub fn plain(text: &str) -> io::Result<()> {
    line(&[(Ink::Plain, text.to_owned())])
}

/// Writes a text of our own, several lines long, to stdout.
pub fn document(text: &str) -> io::Result<()> {
    text.lines().try_for_each(plain)
}

/// Writes indented JSON to stdout; what a terminal must not see is written as JSON escapes.
pub fn json(value: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", escaped_json(&text))?;
    stdout.flush()
}

/// Writes one line to stderr, for the end of a program that failed; a closed stderr is nobody's business then.
pub fn error(text: &str) {
    let _ = writeln!(io::stderr().lock(), "mcpindex-server: {}", escaped(text));
}

/// Writes what clap has to say (help, version, a usage error) where it belongs.
pub fn usage(error: &clap::Error) {
    // As above: when the terminal is gone, so is the reader.
    let _ = error.print();
}

/// Whether logs may use colours.
pub fn log_colours() -> bool {
    io::stderr().is_terminal() && colours_wanted()
}

fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// `text` with everything that could steer a terminal, or reorder what is read, written out.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if steers(character) {
            plain.extend(character.escape_unicode());
        } else {
            plain.push(character);
        }
    }
    Cow::Owned(plain)
}

/// The same inside JSON, where such characters can stand in strings only; newlines are the layout's.
pub fn escaped_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '\n' && steers(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing to a String does not fail.
                let _ = write!(plain, "\\u{unit:04x}");
            }
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Control characters, bidirectional marks and line separators.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_written_out() {
        assert_eq!(escaped("plain ä 工具 😀"), "plain ä 工具 😀");
        assert_eq!(escaped("a\u{1b}[2Jb\r\nc\u{9b}"), r"a\u{1b}[2Jb\u{d}\u{a}c\u{9b}");
        assert_eq!(escaped("user\u{202e}gpj.exe"), r"user\u{202e}gpj.exe");
    }

    #[test]
    fn escaped_json_says_the_same() {
        let text = serde_json::to_string_pretty(&["a\u{1b}b\u{9b}c\u{202e}\u{7f}"]).expect("JSON");
        let plain = escaped_json(&text);
        assert!(!plain.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7f}']));
        let same: Vec<String> = serde_json::from_str(&plain).expect("still JSON");
        assert_eq!(same, ["a\u{1b}b\u{9b}c\u{202e}\u{7f}"]);
    }
}
