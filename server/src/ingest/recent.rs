//! What was just answered to "has this tool drifted?", so that a question that many ask is looked up once.
//!
//! An answer is good for [`KEPT`], and only as long as this process has not changed what is told ([`Store::told`]): another
//! process's counting or crawling is seen within that time.
//!
//! Invariant: memory is bounded, and what could not be found out is never kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcpindex_contract::signal::Fingerprint;
use mcpindex_store::Store;

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
    by_tool: HashMap<Fingerprint, (Instant, Answer)>,
}

impl Recent {
    /// The answer that is good still.
    pub(crate) fn answer(&self, store: &Store, tool: Fingerprint) -> Option<Answer> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, answer) = answers.by_tool.get(&tool)?;
        (answers.told == store.told() && since.elapsed() < KEPT).then(|| answer.clone())
    }

    /// Keeps what was found when the store had told so much ([`Store::told`], asked before the looking up).
    pub(crate) fn keep(&self, told: u64, tool: Fingerprint, answer: &Answer) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.told != told {
            // What was found before a change may not push out what was found after it.
            if answers.told > told {
                return;
            }
            answers.told = told;
            answers.by_tool.clear();
        }
        if answers.by_tool.len() >= MOST {
            answers.by_tool.clear();
        }
        answers.by_tool.insert(tool, (Instant::now(), answer.clone()));
    }
}

#[cfg(test)]
mod tests {
    use mcpindex_store::testing::TestStore;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_good_until_something_else_is_told() {
        let database = TestStore::sqlite().await;
        let store = &database.store;
        let recent = Recent::default();
        let tool = Fingerprint::from_bytes([1; 16]);
        let answer = Answer::unknown(tool.to_string());
        assert_eq!(recent.answer(store, tool), None);
        let before = store.told();
        recent.keep(before, tool, &answer);
        assert_eq!(recent.answer(store, tool), Some(answer.clone()));
        assert_eq!(recent.answer(store, Fingerprint::from_bytes([2; 16])), None);
        // A clone of the store tells the same.
        let install = "0f".repeat(16).parse().unwrap();
        store.clone().purge_install(install).await.unwrap();
        assert_eq!(recent.answer(store, tool), None);
        recent.keep(store.told(), tool, &answer);
        recent.keep(before, Fingerprint::from_bytes([3; 16]), &answer);
        assert_eq!(
            recent.answer(store, Fingerprint::from_bytes([3; 16])),
            None,
            "it was found too early"
        );
        assert_eq!(recent.answer(store, tool), Some(answer));
    }

    #[tokio::test]
    async fn too_many_answers_are_forgotten() {
        let database = TestStore::sqlite().await;
        let recent = Recent::default();
        for number in 0..=u128::try_from(MOST).unwrap() {
            let tool = Fingerprint::from_bytes(number.to_be_bytes());
            recent.keep(0, tool, &Answer::unknown(tool.to_string()));
        }
        assert_eq!(recent.0.lock().unwrap().by_tool.len(), 1);
        assert_eq!(database.store.told(), 0);
    }
}
