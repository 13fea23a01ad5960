//! The log: to stderr, as text or as JSON lines.
//!
//! Invariant: logs never mix with results, which are on stdout; nobody who did not ask for it sees statements of SQL;
//! and no key is in it.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::access::WithoutKeys;
use crate::args::{Arguments, Command, LogFormat};
use crate::exit::Failure;
use crate::output;

/// Starts the log as the arguments say. Without `--log`, programs that run on say what they do, and those that end
/// print their results and log only what is wrong.
pub fn start(arguments: &Arguments) -> Result<(), Failure> {
    let runs_on = match &arguments.command {
        Command::Serve(_) => true,
        Command::Crawl(crawl) => !crawl.once,
        _ => false,
    };
    let format = arguments.global.log_format;
    let filter = filter(arguments.global.log.as_deref(), runs_on, format)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| WithoutKeys(std::io::stderr()))
        .with_ansi(output::log_colours());
    match format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

fn filter(given: Option<&str>, runs_on: bool, format: LogFormat) -> Result<EnvFilter, Failure> {
    let text = match (given, format) {
        (Some(text), _) if !text.is_empty() => text,
        // Each look has its line on stdout already.
        (_, LogFormat::Text) if runs_on => "info,sqlx=warn,rmcp=warn,mcpindex_crawler::worker=warn",
        (_, LogFormat::Json) if runs_on => "info,sqlx=warn,rmcp=warn",
        _ => "warn",
    };
    EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse(text)
        .map_err(|error| {
            Failure::Usage(format!(
                "--log `{text}`: {error}; expected a level or a filter such as `info,mcpindex_crawler=debug`"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_none_is_refused() {
        assert!(filter(Some("debug,sqlx=info"), false, LogFormat::Text).is_ok());
        assert!(filter(Some(""), true, LogFormat::Json).is_ok());
        let error = filter(Some("mcpindex_crawler=loud"), true, LogFormat::Text).expect_err("no level");
        assert!(
            error.to_string().starts_with("--log `mcpindex_crawler=loud`: "),
            "{error}"
        );
    }
}
