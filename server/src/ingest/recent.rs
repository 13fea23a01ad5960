//! What was just answered to "has this tool drifted?", as it is written, so that a question that many ask is looked up and
//! written once.
//!
//! An answer is good for [`KEPT`], and only as long as this process has not changed what is told
//! (`mcpindex_store::Store::told`): another process's counting or crawling is seen within that time.
//!
//! Invariant: memory is bounded, and what could not be found out is never kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcpindex_contract::signal::Fingerprint;
use serde_json::value::RawValue;

#[cfg(test)]
use super::fleet::Answer;

/// How long an answer is good.
const KEPT: Duration = Duration::from_secs(5);
/// The most answers that are kept; when there are more, all are forgotten.
const MOST: usize = 20_000;

/// The answers.
#[derive(Default)]
pub(crate) struct Recent(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    /// What the store had told when they were looked up.
    told: u64,
    by_tool: HashMap<Fingerprint, (Instant, Arc<RawValue>)>,
}

impl Recent {
    /// For each tool the answer that is good still, when the store has told so much.
    pub(crate) fn answers(&self, told: u64, tools: &[Fingerprint]) -> Vec<Option<Arc<RawValue>>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let good = |tool| {
            let (since, answer) = answers.by_tool.get(tool)?;
            (answers.told == told && since.elapsed() < KEPT).then(|| Arc::clone(answer))
        };
        tools.iter().map(good).collect()
    }

    /// Keeps what was found of each tool when the store had told so much, which is asked before the looking up.
    pub(crate) fn keep(&self, told: u64, tools: &[Fingerprint], found: &[Arc<RawValue>]) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What was found before a change may not push out what was found after it.
        if answers.told > told {
            return;
        }
        if answers.told < told || answers.by_tool.len() + tools.len() > MOST {
            answers.told = told;
            answers.by_tool.clear();
        }
        let now = Instant::now();
        for (tool, answer) in tools.iter().zip(found) {
            answers.by_tool.insert(*tool, (now, Arc::clone(answer)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(number: usize) -> Fingerprint {
        Fingerprint::from_bytes(u128::try_from(number).unwrap().to_be_bytes())
    }

    /// Keeps one answer.
    fn keep(recent: &Recent, told: u64, tool: Fingerprint) {
        let answer = Answer::unknown(tool.to_string()).written();
        recent.keep(told, &[tool], &[answer]);
    }

    #[test]
    fn an_answer_is_good_until_something_else_is_told() {
        let recent = Recent::default();
        let check = |told, tools: [usize; 2], expected: [bool; 2]| {
            let answers = recent.answers(told, &tools.map(tool));
            let names = answers
                .iter()
                .map(|answer| answer.as_ref().map(|answer| answer.get().to_owned()));
            let written = |number: &usize| Answer::unknown(tool(*number).to_string()).written();
            let expected = tools
                .iter()
                .zip(expected)
                .map(|(number, is)| is.then(|| written(number).get().to_owned()));
            assert!(names.eq(expected), "{answers:?}");
        };
        check(0, [1, 2], [false, false]);
        keep(&recent, 0, tool(1));
        check(0, [1, 2], [true, false]);
        check(1, [1, 2], [false, false]);
        keep(&recent, 1, tool(1));
        // It was found too early.
        keep(&recent, 0, tool(2));
        check(1, [1, 2], [true, false]);
        check(0, [1, 2], [false, false]);
    }

    #[test]
    fn too_many_answers_are_forgotten() {
        let recent = Recent::default();
        for number in 0..=MOST {
            keep(&recent, 0, tool(number));
        }
        assert_eq!(recent.0.lock().unwrap().by_tool.len(), 1);
    }
}
