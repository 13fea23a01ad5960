//! How an index gets its first admin without a shell at hand: a code that `serve` prints while there is none, typed in by
//! somebody who has signed in. Arriving first makes nobody an admin.
//!
//! Invariant: a code is printed by the process that made it and known to nobody else; once there is an admin, no code is
//! good.

use mcpindex::login::code;
use mcpindex_store::Store;
use mcpindex_store::accounts::SecretHash;

/// Letters of a code: 20^16 is 69 bits; few tries are allowed.
const LENGTH: usize = 16;

/// A code for whoever reads this process's output, as `WDJB-MJHT-…`; `None` when there is an admin.
pub(crate) async fn offer(store: &Store, now: i64) -> anyhow::Result<Option<String>> {
    if store.has_admin().await? {
        return Ok(None);
    }
    let letters = code::drawn(code::LETTERS, LENGTH)?;
    store.add_setup_code(SecretHash::of(&letters), now).await?;
    Ok(Some(code::grouped(&letters)))
}

/// What somebody typed, as it is kept; `None` when it can't be a code.
pub(crate) fn typed(text: &str) -> Option<SecretHash> {
    code::typed(text, LENGTH).map(|letters| SecretHash::of(&letters))
}
