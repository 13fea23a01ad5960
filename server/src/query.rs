//! The query of a request, read strictly: a value that can't be meant is answered, never ignored.
//!
//! Invariant: every refusal names the parameter and what was expected.

use std::ops::RangeInclusive;

use axum::http::Uri;

use crate::problem::Problem;
use crate::state::State;

/// Items on a page when the reader doesn't say.
const DEFAULT_LIMIT: i64 = 100;
/// The most items on a page.
const MAX_LIMIT: i64 = 500;
/// The longest text to search for, in characters.
pub(crate) const MAX_SEARCH: usize = 200;

/// The parameters of one request, in the order sent.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query in which every parameter must be known and given once.
    pub(crate) fn strict(uri: &Uri, known: &[&str]) -> Result<Query, Problem> {
        let query = Query::lenient(uri);
        for (position, (name, _)) in query.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let expected = match known {
                    [] => "no parameters here".to_owned(),
                    known => format!("one of `{}`", known.join("`, `")),
                };
                return Err(Problem::bad_parameter(name, &expected));
            }
            if query.0[..position].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::bad_parameter(name, "to be given once"));
            }
        }
        Ok(query)
    }

    /// Reads a query in which unknown parameters are nobody's business (a page's address gets passed around).
    pub(crate) fn lenient(uri: &Uri) -> Query {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Query(pairs.into_owned().collect())
    }

    /// Reads the fields of a form that was posted.
    pub(crate) fn of_form(body: &[u8]) -> Query {
        Query(url::form_urlencoded::parse(body).into_owned().collect())
    }

    /// A parameter's value; an empty one (a form's empty field) is none.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Everything that was sent, in its order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A whole number within a range.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Problem> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ if *range.end() == i64::MAX => {
                let expected = format!("a whole number from {} on", range.start());
                Err(Problem::bad_parameter(name, &expected))
            }
            _ => {
                let expected = format!("a whole number from {} to {}", range.start(), range.end());
                Err(Problem::bad_parameter(name, &expected))
            }
        }
    }

    /// `limit`: how many items a page has.
    pub(crate) fn limit(&self) -> Result<i64, Problem> {
        Ok(self.number("limit", 1..=MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT))
    }

    /// The number of the last item of the page before.
    pub(crate) fn before(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.number(name, 1..=i64::MAX)
    }

    /// One line of text, without control characters, at most [`MAX_SEARCH`] characters.
    pub(crate) fn line(&self, name: &str) -> Result<Option<String>, Problem> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        if value.chars().count() > MAX_SEARCH || value.chars().any(char::is_control) {
            let expected = format!("at most {MAX_SEARCH} characters on one line");
            return Err(Problem::bad_parameter(name, &expected));
        }
        Ok(Some(value.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// An identity to go on after.
    pub(crate) fn identity(&self, name: &str) -> Result<Option<String>, Problem> {
        match self.value(name) {
            Some(value) if value.len() > 2_048 || value.contains('\0') => Err(Problem::bad_parameter(
                name,
                "the last identity of the page before",
            )),
            value => Ok(value.map(str::to_owned)),
        }
    }

    /// `state`: the name of one of [`State::all`].
    pub(crate) fn state(&self) -> Result<Option<State>, Problem> {
        let Some(value) = self.value("state") else {
            return Ok(None);
        };
        match State::all().find(|state| state.name() == value) {
            Some(state) => Ok(Some(state)),
            None => {
                let names: Vec<&str> = State::all().map(State::name).collect();
                let expected = format!("one of `{}`", names.join("`, `"));
                Err(Problem::bad_parameter("state", &expected))
            }
        }
    }

    /// `include`: whether the one thing that can be asked for was.
    pub(crate) fn includes(&self, what: &str) -> Result<bool, Problem> {
        match self.value("include") {
            None => Ok(false),
            Some(value) if value == what => Ok(true),
            Some(_) => Err(Problem::bad_parameter("include", &format!("`{what}`"))),
        }
    }
}
