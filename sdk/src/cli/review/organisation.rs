//! What the organisation decided about what is held, as far as this machine has heard it.
//!
//! Invariant: the index is not asked: it is what a gate that follows it has kept on disk, verified, or nothing.

use mcpindex::approvals::{Cache, MAX_AGE, View, Word};
use mcpindex::gate::refusal::quoted;
use mcpindex::index::{Variables, chosen};
use mcpindex::state::StateDirectory;

/// The longest words of an approver that are shown, in characters.
const WORDS: usize = 400;

/// See the module.
pub(super) struct Organisation {
    view: View,
    now: i64,
    /// Why nothing is known though something is kept.
    pub(super) problem: Option<String>,
}

/// What is said of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// `approved`, `proposed`, `refused`, `withdrawn` or `expired`.
    pub(super) state: &'static str,
    /// The decision's place in the chain.
    pub(super) decision: u64,
    /// One line.
    pub(super) sentence: String,
}

impl Said {
    pub(super) fn is_refused(&self) -> bool {
        self.state == "refused"
    }
}

impl Organisation {
    /// What is kept of the index that was chosen.
    pub(super) fn known(state: &StateDirectory, now: i64) -> Organisation {
        let nothing = |problem| Organisation {
            view: View::unheard(MAX_AGE),
            now,
            problem,
        };
        // Without an index there is no organisation; what is wrong with the choice is told by whoever needs one.
        let Ok(Some(index)) = chosen(state, &Variables::from_environment()) else {
            return nothing(None);
        };
        match Cache::of(state, &index.base).read() {
            Ok(None) => nothing(None),
            Ok(Some(kept)) => Organisation {
                view: View::of(&kept.records, kept.head, kept.heard_at, MAX_AGE),
                now,
                problem: None,
            },
            Err(error) => nothing(Some(format!(
                "what the organisation decided is not shown: {error}"
            ))),
        }
    }

    /// What is said of this definition; `None`: nothing.
    pub(super) fn says(&self, identity: &str, tool: &str, digest: &str) -> Option<Said> {
        let word = self.view.word(identity, tool, &digest.parse().ok()?, self.now);
        let (state, decision, sentence) = match word {
            Word::Unheard | Word::Nothing => return None,
            Word::Approved {
                sequence,
                is_fresh: true,
                ..
            } => ("approved", sequence, "approved".to_owned()),
            Word::Approved { sequence, .. } => (
                "approved",
                sequence,
                "approved, as it was known when the index was heard last, which is long ago".to_owned(),
            ),
            Word::Refused { sequence, reason } => {
                let why = reason.map(|words| format!(": {}", quoted(&words, WORDS)));
                ("refused", sequence, format!("refused{}", why.unwrap_or_default()))
            }
            Word::Proposed { sequence } => (
                "proposed",
                sequence,
                "approved by one of the two people that it takes".to_owned(),
            ),
            Word::Withdrawn { sequence } => (
                "withdrawn",
                sequence,
                "what was decided was taken back".to_owned(),
            ),
            Word::Expired { sequence } => ("expired", sequence, "what was decided has ended".to_owned()),
        };
        Some(Said {
            state,
            decision,
            sentence: format!("{sentence} (decision {decision})"),
        })
    }
}
