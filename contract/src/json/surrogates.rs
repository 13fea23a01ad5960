//! Half a surrogate pair, which JSON can hold and no Rust string can.
//!
//! Invariant: [`code_points`] gives back exactly what was kept.

/// What becomes of half a surrogate pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surrogates {
    /// It reads as U+FFFD.
    Replace,
    /// It reads as U+10FFFF and U+F0000 plus its distance from U+D800, and a U+10FFFF that was sent reads as
    /// two: unambiguous, and inert under Unicode normalisation as a lone surrogate is.
    /// [`code_points`] undoes it.
    Keep,
}

/// Marks a kept surrogate; see [`Surrogates::Keep`].
const MARK: char = '\u{10FFFF}';
const KEPT_BASE: u32 = 0xF_0000;
const SURROGATE_BASE: u32 = 0xD800;

/// Appends text to one that keeps surrogates.
pub(super) fn push_kept_text(kept: &mut String, text: &str) {
    for character in text.chars() {
        kept.push(character);
        if character == MARK {
            kept.push(MARK);
        }
    }
}

/// Appends half a surrogate pair, U+D800 to U+DFFF.
pub(super) fn push_kept_surrogate(kept: &mut String, surrogate: u32) {
    kept.push(MARK);
    kept.extend(char::from_u32(KEPT_BASE + surrogate - SURROGATE_BASE));
}

/// The code points of a string that was read with [`Surrogates::Keep`], lone surrogates as themselves.
pub(crate) fn code_points(kept: &str) -> impl Iterator<Item = u32> {
    let mut characters = kept.chars();
    std::iter::from_fn(move || {
        let character = characters.next()?;
        if character != MARK {
            return Some(u32::from(character));
        }
        match characters.next() {
            Some(kept) if kept != MARK => Some(u32::from(kept) - KEPT_BASE + SURROGATE_BASE),
            _ => Some(u32::from(MARK)),
        }
    })
}
