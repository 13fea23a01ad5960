//! How an index gets its first admin without a shell at hand: a code that `serve` prints while there is none, typed in by
//! somebody who has signed in. Arriving first makes nobody an admin.
//!
//! Invariant: a code is printed by the process that made it and known to nobody else; once there is an admin, no code is
//! good.

use mcpindex_store::Store;
use mcpindex_store::accounts::SecretHash;

/// Letters that are not taken for others, and spell no words.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// 20^16 is 69 bits; few tries are allowed.
const LENGTH: usize = 16;
const GROUP: usize = 4;

/// A code for whoever reads this process's output, as `WDJB-MJHT-…`; `None` when there is an admin.
pub(crate) async fn offer(store: &Store, now: i64) -> anyhow::Result<Option<String>> {
    if store.has_admin().await? {
        return Ok(None);
    }
    let code = generate()?;
    store.add_setup_code(SecretHash::of(&code), now).await?;
    let groups: Vec<&str> = (0..LENGTH / GROUP)
        .filter_map(|group| code.get(group * GROUP..(group + 1) * GROUP))
        .collect();
    Ok(Some(groups.join("-")))
}

fn generate() -> Result<String, getrandom::Error> {
    let mut code = String::with_capacity(LENGTH);
    let mut bytes = [0; 2 * LENGTH];
    while code.len() < LENGTH {
        getrandom::fill(&mut bytes)?;
        // The bytes from the largest multiple of 20 on would make some letters likelier than others.
        let fair = bytes.iter().filter_map(|byte| {
            let letter = LETTERS.get(usize::from(byte % 20))?;
            (*byte < 240).then_some(char::from(*letter))
        });
        let missing = LENGTH - code.len();
        code.extend(fair.take(missing));
    }
    Ok(code)
}

/// What somebody typed, as it is kept: case, spaces and hyphens don't matter.
pub(crate) fn typed(text: &str) -> SecretHash {
    let code: String = text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_uppercase())
        .take(2 * LENGTH)
        .collect();
    SecretHash::of(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_the_same_however_it_is_typed() {
        let code = generate().unwrap();
        assert_eq!(code.len(), LENGTH);
        assert!(code.bytes().all(|letter| LETTERS.contains(&letter)));
        assert_ne!(code, generate().unwrap());
        let spaced = format!(" {}-{} ", code[..4].to_lowercase(), &code[4..]);
        assert!(typed(&spaced) == SecretHash::of(&code));
        assert!(typed(&code[1..]) != SecretHash::of(&code));
    }
}
