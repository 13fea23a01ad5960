//! The form `slack`: a message as Slack's incoming webhooks take it, which others (Mattermost, Rocket.Chat) understand as well.
//!
//! Invariant: nothing in a name can become a mention, a link or markup: `&`, `<` and `>` are written as Slack wants them, and
//! behind each `@` stands a character that is not seen.

use mcpindex::visible::visible_within;
use serde_json::{Value, json};
use url::Url;

use super::event::{Told, ToldDecision, ToldDrift};

/// Subjects that are named; more are counted.
const MOST_SUBJECTS: usize = 10;
/// Characters of a name.
const MAX_NAME: usize = 120;

/// The body of a delivery.
pub(crate) fn body(told: &Told, base: &Url) -> String {
    let (text, sections) = match told {
        Told::Test => {
            let text = format!(
                "This is a test of the webhook that {} tells of drifts.",
                link(base.as_str(), "this index")
            );
            (text.clone(), vec![text])
        }
        Told::Drift(told) => drift(told, base),
        Told::Decision(told) => decision(told, base),
    };
    let blocks: Vec<Value> = sections
        .into_iter()
        .map(|text| json!({"type": "section", "text": {"type": "mrkdwn", "text": text}}))
        .collect();
    json!({"text": text, "blocks": blocks, "unfurl_links": false}).to_string()
}

fn decision(told: &ToldDecision, base: &Url) -> (String, Vec<String>) {
    let count = told.count();
    let plural = if count == 1 { "" } else { "s" };
    let text = format!(
        "{count} tool{plural} of {} {} by {}",
        code(&told.first.identity),
        told.verb(),
        code(&told.first.subject)
    );
    let mut lines = vec![text.clone()];
    lines.extend(
        told.records()
            .take(MOST_SUBJECTS)
            .map(|record| format!("• {}", code(&record.tool))),
    );
    if count > MOST_SUBJECTS {
        lines.push(format!("• and {} more", count - MOST_SUBJECTS));
    }
    (
        text,
        vec![lines.join("\n"), link(&told.server(base), "The server")],
    )
}

fn drift(told: &ToldDrift, base: &Url) -> (String, Vec<String>) {
    let drift = &told.drift;
    let versions = match (&drift.before_version, &drift.after_version) {
        (Some(before), Some(after)) => format!(" {} → {}", code(before), code(after)),
        _ => String::new(),
    };
    let severity = if drift.safety_relevant {
        ", safety relevant"
    } else {
        ""
    };
    let text = format!(
        "Drift at {}{versions}: {}{severity}",
        code(&drift.identity),
        told.summary()
    );
    let mut lines = vec![format!(
        "*Drift* at {}{versions}{severity}",
        code(&drift.identity)
    )];
    lines.push(told.summary());
    let subjects = told.subjects();
    for subject in subjects.iter().take(MOST_SUBJECTS) {
        let name = subject
            .name()
            .map(|name| format!(" {}", code(name)))
            .unwrap_or_default();
        lines.push(format!(
            "• {}{name}: {}",
            subject.kind(),
            subject.kinds().join(", ")
        ));
    }
    if subjects.len() > MOST_SUBJECTS {
        lines.push(format!("• and {} more", subjects.len() - MOST_SUBJECTS));
    }
    let links = format!(
        "{} · {}",
        link(&told.page(base), "What changed"),
        link(&told.server(base), "The server")
    );
    (text, vec![lines.join("\n"), links])
}

/// Text from outside as code, in which Slack reads no markup.
fn code(text: &str) -> String {
    format!("`{}`", escaped(&visible_within(text, MAX_NAME)).replace('`', "'"))
}

fn link(url: &str, label: &str) -> String {
    // What would end the link's address is percent-encoded in every URL but the bar.
    format!("<{}|{label}>", escaped(url).replace('|', "%7C"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('@', "@\u{200b}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_a_mention_a_link_or_markup() {
        let check = |name: &str, expected: &str| assert_eq!(code(name), expected);
        check("<!channel>", "`&lt;!channel&gt;`");
        check("@here", "`@\u{200b}here`");
        check("a` *bold* `b", "`a' *bold* 'b`");
        check("<https://a.example|b>", "`&lt;https://a.example|b&gt;`");
        check("a&lt;b\n", "`a&amp;lt;b\\n`");
        assert_eq!(
            link("https://a.example/?a=1&b=2|x", "Go"),
            "<https://a.example/?a=1&amp;b=2%7Cx|Go>"
        );
    }
}
