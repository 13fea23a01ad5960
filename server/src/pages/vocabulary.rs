//! The vocabulary of changes and the states of servers, from the contract's own tables.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use mcpindex_contract::change::{ChangeKind, Direction, Treatment};
use mcpindex_contract::outcome::Outcome;

use super::{Frame, StateView, page};
use crate::app::App;
use crate::problem::Problem;
use crate::state::State as Standing;

#[derive(Template)]
#[template(path = "vocabulary.html")]
struct VocabularyPage {
    frame: Frame,
    kinds: &'static [ChangeKind],
    treatments: &'static [Treatment],
    directions: [(Direction, &'static str); 5],
    states: Vec<StateView>,
}

const DIRECTIONS: [(Direction, &str); 5] = [
    (Direction::Widening, "Every call that was valid stays valid."),
    (Direction::Narrowing, "Some call that was valid no longer is."),
    (
        Direction::Meaning,
        "Text that the model reads, or what comes back, differs.",
    ),
    (
        Direction::Hint,
        "An annotation differs, or only how something is written.",
    ),
    (Direction::Opaque, "It could not be compared further."),
];

/// `GET /vocabulary`
pub(crate) async fn vocabulary(State(app): State<App>) -> Result<Response, Problem> {
    page(&VocabularyPage {
        frame: Frame::new(&app, "vocabulary"),
        kinds: ChangeKind::all(),
        treatments: Treatment::all(),
        directions: DIRECTIONS,
        states: std::iter::once(None)
            .chain(Outcome::all().iter().copied().map(Some))
            .map(|outcome| Standing(outcome).into())
            .collect(),
    })
}
