//! Credentials in launch lines: found by the name beside them or by their own shape.
//!
//! Invariant: what is found here never reaches an identity, since identities are stored, shown and sent. The rules
//! are at least those of mcp.lock draft 1 §2, whose locks refuse such a line.

/// What stands where a credential stood.
pub(super) const SECRET: &str = "<secret>";

/// A name with one of these as a word of it names a credential.
const SECRET_WORDS: [&str; 17] = [
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "apikey",
    "auth",
    "authorization",
    "credential",
    "credentials",
    "bearer",
    "cookie",
    "key",
    "pat",
    "privatekey",
    "session",
    "passphrase",
];

/// A token's fixed beginning, and how many characters of `A-Z a-z 0-9 - _` follow it at least.
const TOKEN_SHAPES: [(&str, usize); 14] = [
    ("sk-", 16),
    ("sk_live_", 1),
    ("sk_test_", 1),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 1),
    ("glpat-", 1),
    ("xox", 3),
    ("AKIA", 16),
    ("AIza", 30),
    ("npm_", 30),
];

/// Words before a credential in an authorization header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// The arguments with [`SECRET`] in place of every credential, and whether there was one.
pub(super) fn without_secrets(args: &[String]) -> (Vec<String>, bool) {
    let mut found = false;
    let mut value_is_secret = false;
    let shown = args
        .iter()
        .map(|argument| {
            let is_value = value_is_secret && !looks_like_an_option(argument);
            if is_value && SCHEMES.contains(&argument.to_ascii_lowercase().as_str()) {
                return argument.clone();
            }
            value_is_secret = !is_value && announces_secret(argument);
            let shown = if is_value {
                SECRET.to_owned()
            } else {
                without_secret(argument)
            };
            found |= shown != *argument || argument.contains(SECRET);
            shown
        })
        .collect();
    (shown, found)
}

/// Whether a text holds a credential, by a name in it or by its shape.
pub(super) fn looks_secret(text: &str) -> bool {
    has_token_shape(text)
        || has_scheme_and_value(text)
        || has_secret_assignment(text)
        || has_secret_header(text)
        || has_password_in_url(text)
}

/// One argument with its credential replaced, if it holds one.
fn without_secret(argument: &str) -> String {
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(is_name_byte);
    match argument.split_once('=') {
        Some((name, value)) if is_name(name) => {
            if !value.is_empty() && (names_secret(name) || looks_secret(value)) {
                return format!("{name}={SECRET}");
            }
            argument.to_owned()
        }
        _ if looks_secret(argument) => SECRET.to_owned(),
        _ => argument.to_owned(),
    }
}

/// `--name` and `-n`; anything else after a dash may be a credential that begins with one.
fn looks_like_an_option(argument: &str) -> bool {
    argument.starts_with("--") || (argument.starts_with('-') && argument.len() == 2)
}

/// Whether the next argument is a credential: after `--token`, `Authorization:` or `Bearer`.
fn announces_secret(argument: &str) -> bool {
    let is_flag = argument.starts_with('-') && argument.bytes().all(is_name_byte);
    let is_header = argument
        .strip_suffix(':')
        .is_some_and(|name| name.bytes().all(is_name_byte));
    ((is_flag || is_header) && names_secret(argument)) || argument.eq_ignore_ascii_case("bearer")
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// Whether a name has a word that stands for a credential: `--api-key`, `GITHUB_TOKEN`, `clientSecret`.
fn names_secret(name: &str) -> bool {
    let mut words = String::new();
    let mut before = ' ';
    for character in name.chars() {
        if before.is_ascii_lowercase() && character.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
        before = character;
    }
    words
        .split(|character: char| !character.is_ascii_alphanumeric())
        .any(|word| SECRET_WORDS.contains(&word))
}

fn has_token_shape(text: &str) -> bool {
    has_known_beginning(text) || has_private_key(text) || has_jwt(text)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_".contains(&byte)
}

fn has_known_beginning(text: &str) -> bool {
    TOKEN_SHAPES.iter().any(|(beginning, length)| {
        text.match_indices(beginning).any(|(index, _)| {
            let starts_word = !text[..index].ends_with(|character: char| character.is_ascii_alphanumeric());
            let body = &text.as_bytes()[index + beginning.len()..];
            let is_slack_like = *beginning != "xox" || body.get(1) == Some(&b'-');
            let body_length = body
                .iter()
                .take(*length)
                .take_while(|byte| is_token_byte(**byte))
                .count();
            starts_word && is_slack_like && body_length == *length
        })
    })
}

fn has_private_key(text: &str) -> bool {
    text.contains("-----BEGIN ") && text.contains("PRIVATE KEY")
}

/// Three runs of base64url with dots between, the first an encoded `{"`.
fn has_jwt(text: &str) -> bool {
    let is_part = |part: &str| {
        part.bytes()
            .take(4)
            .take_while(|byte| is_token_byte(*byte))
            .count()
            == 4
    };
    let ends_with_header = |part: &str| {
        part.match_indices("eyJ")
            .any(|(index, _)| is_part(&part[index..]))
    };
    let parts: Vec<&str> = text.split('.').collect();
    parts
        .windows(3)
        .any(|parts| ends_with_header(parts[0]) && is_part(parts[1]) && is_part(parts[2]))
}

/// `Bearer abc`, as in the value of a header.
fn has_scheme_and_value(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    SCHEMES.iter().any(|scheme| {
        lower.match_indices(scheme).any(|(index, _)| {
            let starts_word = !lower[..index].ends_with(|character: char| character.is_ascii_alphanumeric());
            let after = &lower[index + scheme.len()..];
            let value = after.trim_start();
            starts_word && value.len() < after.len() && !value.is_empty()
        })
    })
}

/// `name=value` anywhere, as in a query or a connection string, and `"name": "value"` as in JSON.
fn has_secret_assignment(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(index, byte)| match byte {
        b'=' => {
            let has_value = bytes.get(index + 1).is_some_and(|next| !b"&;, ".contains(next));
            has_value && names_secret(name_that_ends(&text[..index]))
        }
        b':' => {
            let before = text[..index].trim_end();
            let quoted = before.strip_suffix(['"', '\'']);
            quoted.is_some_and(|before| names_secret(name_that_ends(before)))
        }
        _ => false,
    })
}

fn name_that_ends(text: &str) -> &str {
    let start = text
        .bytes()
        .rposition(|byte| !is_name_byte(byte))
        .map_or(0, |last| last + 1);
    text.get(start..).unwrap_or_default()
}

/// `X-Api-Key: abc` or `X-Api-Key:abc`: a header as one argument.
fn has_secret_header(text: &str) -> bool {
    text.split_once(':').is_some_and(|(name, value)| {
        !value.trim().is_empty() && !name.is_empty() && name.bytes().all(is_name_byte) && names_secret(name)
    })
}

/// `scheme://user:password@host`.
fn has_password_in_url(text: &str) -> bool {
    text.match_indices("://").any(|(index, separator)| {
        let after = &text[index + separator.len()..];
        let authority = after.split(['/', '?', '#', ' ', '"']).next().unwrap_or_default();
        authority
            .rsplit_once('@')
            .and_then(|(userinfo, _)| userinfo.split_once(':'))
            .is_some_and(|(_, password)| !password.is_empty())
    })
}
