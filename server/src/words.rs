//! A server's words on a page: escaped, and with every character shown that would otherwise hide or turn text around.
//!
//! Invariant: this is the only type that goes into a template without the template's own escaping, and whatever it is
//! made from, it writes no element but its own `<span class="unseen">`.

use std::fmt;

/// The longest name shown whole, in characters; every name that means something is shorter.
const LABEL: usize = 160;

/// Text from outside, for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    text: String,
    /// Whether line feeds and tabs belong to the text or are to be shown as what they are.
    lines: bool,
    /// Whether the end was cut off.
    cut: bool,
}

impl Words {
    /// Text that may have several lines.
    pub(crate) fn text(text: &str) -> Words {
        Words {
            text: text.to_owned(),
            lines: true,
            cut: false,
        }
    }

    /// A name: a line feed in it is shown as one.
    pub(crate) fn name(text: &str) -> Words {
        Words {
            text: text.to_owned(),
            lines: false,
            cut: false,
        }
    }

    /// A name that its owner may have made long: its beginning, on one line.
    pub(crate) fn label(text: &str) -> Words {
        let beginning = Words::beginning(text, LABEL);
        Words {
            lines: false,
            ..beginning
        }
    }

    /// The first `characters` of the text, with a mark when that is not all.
    pub(crate) fn beginning(text: &str, characters: usize) -> Words {
        match text.char_indices().nth(characters) {
            Some((end, _)) => Words {
                text: text[..end].to_owned(),
                lines: true,
                cut: true,
            },
            None => Words::text(text),
        }
    }

    /// Whether the end was cut off.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Plain text, for titles and attributes, which the template escapes.
    pub(crate) fn plain(text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        for character in text.chars() {
            if is_unseen(character, false) {
                plain.push_str(&code_point(character));
            } else {
                plain.push(character);
            }
        }
        plain
    }
}

impl fmt::Display for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.text.chars() {
            match character {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                unseen if is_unseen(unseen, self.lines) => {
                    write!(formatter, r#"<span class="unseen">{}</span>"#, code_point(unseen))?;
                }
                seen => fmt::Write::write_char(formatter, seen)?,
            }
        }
        if self.cut {
            formatter.write_str("…")
        } else {
            Ok(())
        }
    }
}

// What `Display` writes is escaped above.
impl askama::filters::HtmlSafe for Words {}

fn code_point(character: char) -> String {
    format!("U+{:04X}", u32::from(character))
}

/// Whether a reader would not see the character, or see others in another order because of it.
fn is_unseen(character: char, lines: bool) -> bool {
    match character {
        '\n' | '\t' => !lines,
        _ if character.is_control() => true,
        // Soft hyphen, combining grapheme joiner, Arabic letter mark, Hangul fillers, Khmer inherent vowels, Mongolian
        // selectors, zero-width and directional marks, separators, bidi controls, invisible operators.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        // Tag characters and the selectors that can carry whole hidden texts.
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_stays_text() {
        insta::assert_snapshot!(
            Words::text(r#"<script>alert("1" + '2')</script> & <b onclick=x>"#),
            @"&lt;script&gt;alert(&quot;1&quot; + &#39;2&#39;)&lt;/script&gt; &amp; &lt;b onclick=x&gt;"
        );
    }

    #[test]
    fn hidden_and_turning_characters_are_shown() {
        insta::assert_snapshot!(Words::text("a\u{202e}b\0c\u{200b}d\u{e0041}\r\n\te"), @r#"
        a<span class="unseen">U+202E</span>b<span class="unseen">U+0000</span>c<span class="unseen">U+200B</span>d<span class="unseen">U+E0041</span><span class="unseen">U+000D</span>
        	e
        "#);
        insta::assert_snapshot!(Words::name("two\nlines"), @r#"two<span class="unseen">U+000A</span>lines"#);
        insta::assert_snapshot!(Words::plain("a\u{202e}b\n"), @"aU+202EbU+000A");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        insta::assert_snapshot!(Words::beginning("äöü", 2), @"äö…");
        assert!(!Words::beginning("äöü", 3).is_cut());
        let label = Words::label(&"x\n".repeat(LABEL)).to_string();
        assert!(label.ends_with("U+000A</span>…"), "{label}");
    }
}
