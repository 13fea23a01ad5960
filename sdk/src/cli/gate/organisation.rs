//! `--approvals index` and `--accept-aged`: which index it is, and who follows it.
//!
//! Invariant: without an index, or without a key for it, no gate is started that would only seem to obey.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcpindex::aged::{self, AgedOptions, Following};
use mcpindex::approvals::{Approvals, FollowOptions, Pauses};
use mcpindex::index::{self, BASE_VARIABLE, Chosen, IndexError, KEY_VARIABLE, Variables};
use mcpindex::pins::{AuthContext, Pins, ServerKey};
use mcpindex::state::StateDirectory;
use mcpindex::telemetry::OwnRegistries;

use super::super::output::Output;
use super::{GateArguments, Plan};

/// The longest age that can be admitted, in days.
const MAX_DAYS: u64 = 3_650;

/// The index that was chosen, with its key. An error is one line for the person.
pub(super) fn index(state: &StateDirectory) -> Result<Chosen, String> {
    let chosen = index::chosen(state, &Variables::from_environment());
    let chosen = chosen.map_err(|error| format!("--approvals index: {error}"))?;
    let Some(chosen) = chosen else {
        return Err(format!(
            "--approvals index: there is no index: sign in with `mcpindex login ADDRESS`, or set {BASE_VARIABLE}"
        ));
    };
    if chosen.key.is_none() {
        return Err(format!(
            "--approvals index: there is no key for {}: sign in with `mcpindex login`, or set {KEY_VARIABLE}",
            chosen.base
        ));
    }
    match chosen.base.is_protected() {
        true => Ok(chosen),
        false => Err(format!(
            "--approvals index: {}",
            IndexError::PlainHttp { base: chosen.base }
        )),
    }
}

/// Whether a gate that a host starts would find an index and a key: hosts don't pass on what is set in this shell.
pub(in super::super) fn stored_index(state: &StateDirectory) -> Result<(), String> {
    let chosen = index::chosen(state, &Variables::default());
    let chosen = chosen.map_err(|error| format!("--approvals index: {error}"))?;
    match chosen {
        Some(Chosen { key: Some(_), .. }) => Ok(()),
        _ => Err(
            "--approvals index: this machine is signed in to no index, and hosts start gates without this shell's variables: sign in \
             with `mcpindex login ADDRESS`"
                .to_owned(),
        ),
    }
}

/// Follows it for the server of this plan.
pub(super) fn follow(plan: &Plan, index: Chosen, max_age: Duration) -> Approvals {
    let output = Mutex::new(Output::for_terminal());
    Approvals::follow(FollowOptions {
        index,
        state: plan.state.clone(),
        identities: vec![plan.identity.to_string()],
        max_age,
        clock: Arc::clone(&plan.options.clock),
        say: Arc::new(move |line| {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.error(&format!("mcpindex: approvals: {line}"));
        }),
        pauses: Pauses::default(),
    })
}

/// The index that is asked for aged evidence. An index knows what a server declares to anybody, and nothing of what it declares to the
/// bearer of a credential, or over HTTP to clients that sign in by themselves.
pub(super) fn aged_index(state: &StateDirectory, arguments: &GateArguments) -> Result<Chosen, String> {
    let is_anybodys = arguments.context.is_none()
        && arguments.headers.is_empty()
        && arguments.headers_env.is_empty()
        && arguments.bearer_env.is_none()
        && arguments.listen.is_none();
    if !is_anybodys {
        return Err(
            "--accept-aged: an index knows what a server lists to anybody: leave out --context, --header, --header-env, --bearer-env \
             and --listen, or leave it to a person"
                .to_owned(),
        );
    }
    let chosen = index::chosen(state, &Variables::from_environment());
    let chosen = chosen.map_err(|error| format!("--accept-aged: {error}"))?;
    let chosen = chosen.ok_or_else(|| {
        format!(
            "--accept-aged: there is no index: sign in with `mcpindex login ADDRESS`, or set {BASE_VARIABLE}"
        )
    })?;
    match chosen.key.is_none() || chosen.base.is_protected() {
        true => Ok(chosen),
        false => Err(format!(
            "--accept-aged: {}",
            IndexError::PlainHttp { base: chosen.base }
        )),
    }
}

/// Asks it about what the pins of this plan's server hold.
pub(super) fn follow_aged(plan: &Plan, index: Chosen, age: Option<Duration>) -> Following {
    let output = Mutex::new(Output::for_terminal());
    let key = ServerKey {
        identity: plan.identity.clone(),
        context: AuthContext::usual(&plan.identity),
    };
    aged::follow(AgedOptions {
        index,
        identity: plan.identity.clone(),
        server: plan.options.server.clone(),
        pins: Pins::open(&plan.state, &key),
        age: age.unwrap_or(Duration::MAX),
        own_registries: OwnRegistries::of_this_process(),
        clock: Arc::clone(&plan.options.clock),
        say: Arc::new(move |line| {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.error(&format!("mcpindex: {line}"));
        }),
    })
}

/// `90s`, `30m`, `12h`, `7d`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let expected = || format!("expected a number and s, m, h or d, as in 7d, at most {MAX_DAYS}d");
    let found = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    match found {
        Some(seconds) if (1..=MAX_DAYS * 86_400).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_number_and_a_unit() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(age(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        check("7d", Some(604_800));
        check("12h", Some(43_200));
        check("90s", Some(90));
        for text in [
            "",
            "7",
            "d",
            "0d",
            "-1d",
            "1.5h",
            "7 d",
            "3651d",
            "99999999999999999999d",
        ] {
            check(text, None);
        }
    }
}
