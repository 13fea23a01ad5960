//! The written form of digests.

use mcpindex_contract::digest::{Digest, DigestParseError, NoDigest};

/// SHA-256 of no bytes and of `abc` (FIPS 180-4's examples).
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_digest_says_what_it_covers() {
    assert_eq!(Digest::of_canonical("abc").to_string(), format!("sha256:{ABC}"));
    assert_eq!(Digest::of_raw("").to_string(), format!("raw-sha256:{EMPTY}"));
    assert_eq!(Digest::of_raw("abc").hex(), ABC);
    assert!(Digest::of_raw("abc").is_raw());
    assert!(!Digest::of_canonical("abc").is_raw());
    assert_ne!(Digest::of_raw("abc"), Digest::of_canonical("abc"));
    assert_eq!(
        format!("{:?}", Digest::of_raw("abc")),
        format!("raw-sha256:{ABC}")
    );
}

#[test]
fn the_written_form_reads_back() {
    for digest in [Digest::of_raw("abc"), Digest::of_canonical("abc")] {
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }
}

#[test]
fn any_other_spelling_is_refused() {
    let check = |text: &str| assert_eq!(text.parse::<Digest>(), Err(DigestParseError), "{text}");
    check("");
    check(ABC);
    check("sha256:");
    check(&format!("sha256:{}", &ABC[1..]));
    check(&format!("sha256:{ABC}0"));
    check(&format!("sha256:{}", ABC.to_uppercase()));
    check(&format!("SHA256:{ABC}"));
    check(&format!("sha512:{ABC}"));
    check(&format!("raw-raw-sha256:{ABC}"));
    check(&format!(" sha256:{ABC}"));
    check(&format!("sha256:{}", "é".repeat(32)));
    check(&format!("sha256:+{}", &ABC[1..]));
}

#[test]
fn each_reason_has_a_name_and_a_sentence() {
    let pointer = || "/a".to_owned();
    let reasons = [
        NoDigest::DuplicateMember { pointer: pointer() },
        NoDigest::LoneSurrogate { pointer: pointer() },
        NoDigest::NumberOutOfRange { pointer: pointer() },
        NoDigest::TooDeep,
        NoDigest::NotAnObject,
        NoDigest::NotJson,
    ];
    let lines: Vec<String> = reasons
        .iter()
        .map(|reason| format!("{}: {reason}", reason.name()))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    duplicate-member: duplicate member at /a
    lone-surrogate: lone surrogate at /a
    number-out-of-range: number out of range at /a
    too-deep: nested deeper than 512 levels
    not-an-object: not an object
    not-json: not JSON
    ");
}
