//! What is certain about `format`: which strings are of a format, which are not, and all others unknown.
//!
//! Invariant: an answer is given only where every validator that asserts the format gives the same one.

use super::document::Dialect;

/// A format with strings that are surely of it, and strings that surely are not.
struct Format {
    name: &'static str,
    since: Dialect,
    valid: &'static [&'static str],
    invalid: &'static [&'static str],
}

const FORMATS: &[Format] = &[
    Format {
        name: "date",
        since: Dialect::Draft7,
        valid: &["2020-01-31", "1999-12-01"],
        invalid: &["", "a", "2020-13-01"],
    },
    Format {
        name: "time",
        since: Dialect::Draft7,
        valid: &["10:20:30Z", "23:59:00+01:00"],
        invalid: &["", "a", "25:00:00Z"],
    },
    Format {
        name: "date-time",
        since: Dialect::Draft7,
        valid: &["2020-01-31T10:20:30Z", "1999-12-01T23:59:00+01:00"],
        invalid: &["", "a", "2020-01-31"],
    },
    Format {
        name: "duration",
        since: Dialect::Draft2019,
        valid: &["P1D", "PT2H"],
        invalid: &["", "a", "1 day"],
    },
    Format {
        name: "email",
        since: Dialect::Draft7,
        valid: &["a@example.com", "b@example.org"],
        invalid: &["", "a", "@"],
    },
    Format {
        name: "hostname",
        since: Dialect::Draft7,
        valid: &["example.com", "www.example.org"],
        invalid: &["-a-", "a b"],
    },
    Format {
        name: "ipv4",
        since: Dialect::Draft7,
        valid: &["192.0.2.1", "198.51.100.7"],
        invalid: &["", "a", "256.1.1.1"],
    },
    Format {
        name: "ipv6",
        since: Dialect::Draft7,
        valid: &["2001:db8::1", "2001:db8::2"],
        invalid: &["", "a", "12345::"],
    },
    Format {
        name: "uri",
        since: Dialect::Draft7,
        valid: &["https://example.com/a", "https://example.org/"],
        invalid: &["", "a", "a b"],
    },
    Format {
        name: "uri-reference",
        since: Dialect::Draft7,
        valid: &["/a", "https://example.com/a"],
        invalid: &["a b", "\\\\a"],
    },
    Format {
        name: "uuid",
        since: Dialect::Draft2019,
        valid: &[
            "2eb8aa08-aa98-11ea-b4aa-73b441d16380",
            "98d80576-482e-427f-8434-7f86890ab222",
        ],
        invalid: &["", "a", "2eb8aa08"],
    },
    Format {
        name: "json-pointer",
        since: Dialect::Draft7,
        valid: &["", "/a", "/a/0"],
        invalid: &["a", "a/b"],
    },
    Format {
        name: "relative-json-pointer",
        since: Dialect::Draft7,
        valid: &["0", "1/a"],
        invalid: &["", "/a", "a"],
    },
    Format {
        name: "regex",
        since: Dialect::Draft7,
        valid: &["", "a", "[a-z]"],
        invalid: &["(", "["],
    },
];

fn find(name: &str, dialect: Dialect) -> Option<&'static Format> {
    FORMATS
        .iter()
        .find(|format| format.name == name && format.since <= dialect)
}

/// Whether validators of this dialect that assert formats know this one.
pub(super) fn is_known(name: &str, dialect: Dialect) -> bool {
    find(name, dialect).is_some()
}

/// Strings to try where a format is asked for or refused.
pub(super) fn samples(name: &str, dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let format = find(name, dialect);
    format
        .into_iter()
        .flat_map(|format| format.valid.iter().chain(format.invalid).copied())
}

/// Whether `text` is of the format, where that is certain.
pub(super) fn is_of(name: &str, dialect: Dialect, text: &str) -> Option<bool> {
    let format = find(name, dialect)?;
    if format.valid.contains(&text) {
        Some(true)
    } else if format.invalid.contains(&text) || !could_be(name, text) {
        Some(false)
    } else {
        None
    }
}

/// What every string of the format has.
fn could_be(name: &str, text: &str) -> bool {
    match name {
        "date" => text.len() == 10,
        "time" => text.contains(':'),
        "date-time" => text.len() >= 20 && text.contains(':'),
        "duration" => text.starts_with('P'),
        "email" => text.contains('@'),
        "ipv4" => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'),
        "ipv6" | "uri" => text.contains(':'),
        "uuid" => text.len() == 36,
        "json-pointer" => text.is_empty() || text.starts_with('/'),
        "relative-json-pointer" => text.starts_with(|one: char| one.is_ascii_digit()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_is_what_a_validator_says() {
        let texts: Vec<&str> = FORMATS
            .iter()
            .flat_map(|format| format.valid.iter().chain(format.invalid))
            .copied()
            .collect();
        for (dialect, uri) in [
            (Dialect::Draft7, "http://json-schema.org/draft-07/schema#"),
            (Dialect::Draft2020, "https://json-schema.org/draft/2020-12/schema"),
        ] {
            for format in FORMATS {
                let schema = serde_json::json!({"$schema": uri, "format": format.name});
                let validator = jsonschema::options()
                    .should_validate_formats(true)
                    .build(&schema)
                    .unwrap();
                for text in &texts {
                    if let Some(certain) = is_of(format.name, dialect, text) {
                        let theirs = validator.is_valid(&serde_json::json!(text));
                        assert_eq!(certain, theirs, "{} {text:?}", format.name);
                    }
                }
            }
        }
    }
}
