//! `crawl`: a worker without pages, once over all that is due or on and on.

use mcpindex_crawler::event::Event;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::{crawler, open_store};
use crate::args::Crawl;
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::{Look, read_line};

/// Looks and prints a line for each look.
pub async fn run(settings: Settings, crawl: Crawl, stop: CancellationToken) -> anyhow::Result<Exit> {
    let store = open_store(&settings).await?;
    let (crawler, told) = crawler(&store, &settings)?;
    let printer = tokio::spawn(print(told, crawl.json));
    let result = if crawl.once {
        crawler.run_until_idle(&stop).await.map(Some)
    } else {
        crawler.run(&stop).await.map(|()| None)
    };
    // The printer ends when the last sender is gone.
    drop(crawler);
    let looks = printer.await??;
    let count = result?;
    store.close().await;
    if crawl.json {
        let looks: Vec<serde_json::Value> = looks.iter().map(Look::json).collect();
        output::json(&serde_json::json!({ "looks": looks, "complete": !stop.is_cancelled() }))?;
    } else if let Some(count) = count {
        output::plain(&match count {
            0 => "nothing is due".to_owned(),
            1 => "1 look".to_owned(),
            count => format!("{count} looks"),
        })?;
    }
    match (crawl.once, stop.is_cancelled()) {
        (true, true) => Err(Failure::Interrupted.into()),
        _ => Ok(Exit::Done),
    }
}

/// Prints looks as they end, or keeps them for the JSON at the end.
async fn print(mut told: UnboundedReceiver<Event>, keep: bool) -> anyhow::Result<Vec<Look>> {
    let mut kept = Vec::new();
    while let Some(event) = told.recv().await {
        if let Event::Read(read) = &event
            && !keep
        {
            output::line(&read_line(read))?;
        }
        match Look::of_event(event) {
            Some(look) if keep => kept.push(look),
            Some(look) => output::line(&look.line())?,
            None => {}
        }
    }
    Ok(kept)
}
