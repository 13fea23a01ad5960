//! The token in the path of a person's own feeds, for feed readers that send no header: `mcpf_` and 36 random characters of base62.
//!
//! Invariant: it opens the feeds and nothing else; its text is in no log (`redaction`), and given out once.

use std::net::IpAddr;

use mcpindex::index::key::DIGITS;
use mcpindex::login::code::drawn;
use mcpindex_store::accounts::{Account, SecretHash};
use secrecy::{ExposeSecret as _, SecretString};

use super::limits::Counted;
use crate::app::App;
use crate::problem::Problem;

/// What every token begins with.
pub(crate) const PREFIX: &str = "mcpf_";
const RANDOM: usize = 36;
/// What stands before the token in a path.
pub(super) const BEFORE: &str = "/feeds/t/";

/// A token as its holder sends it.
pub(crate) struct FeedToken(SecretString);

impl FeedToken {
    /// A new one, from the system's random numbers.
    pub(crate) fn generate() -> Result<FeedToken, getrandom::Error> {
        let random = SecretString::from(drawn(DIGITS, RANDOM)?);
        Ok(FeedToken(format!("{PREFIX}{}", random.expose_secret()).into()))
    }

    /// The token in this path; `None`: there is none.
    fn of_path(path: &str) -> Option<FeedToken> {
        let (token, _) = path.strip_prefix(BEFORE)?.split_once('/')?;
        let random = token.strip_prefix(PREFIX)?;
        let is_one = random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_one.then(|| FeedToken(token.into()))
    }

    /// The path below which its holder finds the feeds, for the one answer that hands it out.
    pub(crate) fn expose_path(&self) -> String {
        format!("{BEFORE}{}/", self.0.expose_secret())
    }

    /// What the store keeps of it.
    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash::of(self.0.expose_secret())
    }
}

/// Whose own feeds this path leads to. Whether a token is mistyped, unknown, ended or of a disabled account is not told apart.
pub(super) async fn holder(app: &App, path: &str, address: IpAddr) -> Result<Account, Problem> {
    let token = FeedToken::of_path(path).ok_or_else(Problem::unauthorized)?;
    match app.store.feed_path_holder(token.hash(), app.now()).await? {
        Some(holder) if app.login.may_be_signed_in(&holder) => Ok(holder),
        _ if !app.access.limits.allows(Counted::FailedKey, address, 1) => Err(Problem::limited(
            app.access.limits.come_again(Counted::FailedKey),
            "too many keys that don't work came from this address",
        )),
        _ => Err(Problem::unauthorized()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_its_path_alone() {
        let token = FeedToken::generate().unwrap();
        let path = token.expose_path();
        assert_eq!(path.len(), BEFORE.len() + PREFIX.len() + RANDOM + 1);
        let found = FeedToken::of_path(&format!("{path}drifts.atom")).unwrap();
        assert_eq!(found.hash(), token.hash());
        for wrong in [
            "/feeds/drifts.atom".to_owned(),
            path.trim_end_matches('/').to_owned(),
            path.replace("mcpf_", "mcpk_"),
            path.replace("mcpf_", "mcpf_0"),
            path.replace("/t/", "/u/"),
        ] {
            assert!(FeedToken::of_path(&wrong).is_none(), "{wrong}");
        }
    }
}
