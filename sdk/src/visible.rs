//! Server text made safe to show: everything that could move a cursor, reorder or hide text becomes visible.
//!
//! Invariant: what comes out of here has no control character (C0, C1, escape sequences), no character that changes the
//! direction of text, no invisible one, and no line break; each is shown as its `\u{…}` form.

use std::fmt::Write;

/// `text` with every dangerous character written out, on one line.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        push_visible(&mut shown, character);
    }
    shown
}

/// [`visible`], cut after `limit` characters with a mark where something was left out.
pub fn visible_within(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    let mut room = limit;
    for character in text.chars() {
        let before = shown.len();
        push_visible(&mut shown, character);
        let width = shown[before..].chars().count();
        if width > room {
            shown.truncate(before);
            shown.push('…');
            return shown;
        }
        room -= width;
    }
    shown
}

fn push_visible(shown: &mut String, character: char) {
    match character {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push_str("\\t"),
        _ if is_dangerous(character) => {
            // Writing to a String can't fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        }
        _ => shown.push(character),
    }
}

/// Whether a terminal or a reader may be misled by this character.
pub fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{00ad}'
                | '\u{034f}'
                | '\u{061c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                // The last of this row only makes an emoji of a sign, and is part of many.
                | '\u{fe00}'..='\u{fe0e}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(visible(text), expected);
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        check("Reads a file – 読む 🎉", "Reads a file – 読む 🎉");
    }

    #[test]
    fn what_moves_the_cursor_is_written_out() {
        check(
            "a\u{1b}[2Jb\rc\nd\u{9b}1m\u{7}",
            "a\\u{1b}[2Jb\\rc\\nd\\u{9b}1m\\u{7}",
        );
    }

    #[test]
    fn what_reorders_or_hides_text_is_written_out() {
        check(
            "a\u{202e}b\u{2066}c\u{200b}d\u{e0041}",
            "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{e0041}",
        );
        check("a\u{e0101}b\u{3164}", "a\\u{e0101}b\\u{3164}");
        check("\u{26a0}\u{fe0f}", "\u{26a0}\u{fe0f}");
    }

    #[test]
    fn a_long_text_is_cut_and_marked_and_never_inside_an_escape() {
        assert_eq!(visible_within("abcdef", 6), "abcdef");
        assert_eq!(visible_within("abcdefg", 6), "abcdef…");
        assert_eq!(visible_within("abcd\u{1b}", 6), "abcd…");
    }
}
