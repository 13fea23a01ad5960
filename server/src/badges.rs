//! Badges: how a server stands, as a small picture for somebody else's page.
//!
//! The word on it is the verdict of [`crate::vetting`] where there is one, else the server's [`State`]; the reason stands in its
//! title. It loads nothing and names no font of ours.
//!
//! Invariant: a members-only index has the badges that its settings make public, and no other address under `/badges` tells
//! whether a server is there.

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use mcpindex::check::Answer;
use mcpindex::visible::visible_within;
use mcpindex_contract::outcome::Outcome;
use mcpindex_store::sightings::{Question, Reference};

use crate::access::Read;
use crate::api::check;
use crate::app::App;
use crate::problem::Problem;
use crate::state::State;
use crate::vetting::Vetting;

/// What stands on the left.
const NAME: &str = "mcpindex";
/// Pixels of a letter, and beside a word. A word is stretched to the room that it was given, whatever the font.
const LETTER: usize = 7;
const BESIDE: usize = 6;
/// Characters of an identity in the title.
const IDENTITY: usize = 200;
/// Pages of others may show it.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

#[derive(Template)]
#[template(path = "badge.svg")]
struct Badge {
    title: String,
    name: Half,
    word: Half,
    width: usize,
    colour: &'static str,
}

/// One half: its text, where it begins, how wide it is, and how wide the text in it.
struct Half {
    text: String,
    left: usize,
    width: usize,
    text_width: usize,
}

impl Half {
    fn new(text: String, left: usize) -> Half {
        let text_width = text.chars().count() * LETTER;
        Half {
            text,
            left,
            width: text_width + 2 * BESIDE,
            text_width,
        }
    }

    fn text_left(&self) -> usize {
        self.left + BESIDE
    }
}

/// `GET /badges/{short id}.svg`
pub(crate) async fn badge(
    AxumState(app): AxumState<App>,
    Path(file): Path<String>,
) -> Result<Response, Problem> {
    let short_id = file.strip_suffix(".svg").ok_or_else(Problem::no_page)?;
    let is_short_id = short_id.len() == 16 && short_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let rules = &app.access.rules;
    let is_shown = rules.read == Read::Public || rules.badges.iter().any(|public| public == short_id);
    if !is_short_id || !is_shown {
        return Err(Problem::no_page());
    }
    let question = Question {
        server: Reference::Name(short_id.to_owned()),
        tool: None,
        digest: None,
        hash: None,
    };
    let answers = check::answers(&app, std::slice::from_ref(&question)).await?;
    let (found, vetting) = &**answers.first().ok_or_else(Problem::no_page)?;
    let server = found.server.as_ref().ok_or_else(Problem::no_page)?;
    let (word, colour) = word(vetting, State(server.outcome));
    let identity = visible_within(&server.identity, IDENTITY);
    let reason = vetting.reasons.first().map_or("", |reason| &reason.sentence);
    let name = Half::new(NAME.to_owned(), 0);
    let word = Half::new(word, name.width);
    let badge = Badge {
        title: format!("{NAME}: {identity}: {}. {reason}", word.text),
        width: name.width + word.width,
        name,
        word,
        colour,
    };
    let svg = badge.render().map_err(|error| Problem::internal(&error))?;
    let headers = [
        (CONTENT_TYPE, "image/svg+xml"),
        (CACHE_CONTROL, "public, max-age=300"),
        (RESOURCE_POLICY, "cross-origin"),
    ];
    Ok((headers, svg).into_response())
}

/// The word on the right, and the colour behind it: each has white letters on it that are told apart easily.
fn word(vetting: &Vetting, state: State) -> (String, &'static str) {
    match (vetting.verdict, state.0) {
        (Answer::Ready, _) => ("ready".to_owned(), "#2e7d32"),
        (Answer::NeedsPerson, _) => ("needs a person".to_owned(), "#a14f00"),
        (_, Some(Outcome::Ok)) => ("unknown".to_owned(), "#5f6672"),
        _ => (state.label(), "#5f6672"),
    }
}
