//! Reading lists of tools to their end, and what the client knows of them.
//!
//! A *moment* counts the times at which the last whole list stopped being current: the server said that it changed, the
//! time that the server gave it ran out, or the connection is a new one. A list is current when it was asked for at the
//! moment that is now.
//!
//! Invariants: at most one list of the gate's own is being read at a time; a client is told of a change only when what it
//! would see is another list than the one it was shown or told of last.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpindex_contract::posture::Posture;

use crate::gate::event::Event;
use crate::gate::judgement::{Judgement, View};
use crate::gate::listing::Pages;
use crate::gate::refusal::{LIST_NOT_RELAYED, error_answer};
use crate::gate::short_text::ShortText;
use crate::gate::{Channel, Gate, Output, send_to_client};
use crate::wire::message::notification;

/// The shortest time between two lists of the gate's own that only an announcement asks for: some servers announce a change
/// whenever they are asked.
const ANNOUNCED_PAUSE: Duration = Duration::from_secs(1);
/// The announcements kept while the list behind them is read: one for each stream that a client may have open.
const MAX_ANNOUNCEMENTS: usize = 16;

/// See the module.
#[derive(Default)]
pub(super) struct Listings {
    /// See the module.
    pub(super) moment: u64,
    readings: Vec<Reading>,
    /// The last whole list.
    pub(super) whole: Option<Whole>,
    /// The list that the client pages through.
    paging: Option<Paging>,
    /// What the client was shown, or told of, last.
    known: Option<View>,
    /// The server's announcements that wait for the list behind them.
    announcements: Vec<(Channel, Vec<u8>)>,
    /// When the last list of the gate's own was asked for.
    last_own: Option<Instant>,
}

/// The last whole list and what was decided about it.
pub(super) struct Whole {
    pages: Arc<Pages>,
    pub(super) judgement: Arc<Judgement>,
    /// When it was asked for.
    pub(super) moment: u64,
    /// When it was read to its end.
    pub(super) judged_at: Instant,
    expires: Option<Instant>,
}

struct Paging {
    pages: Arc<Pages>,
    judgement: Arc<Judgement>,
}

/// One list that is being read.
struct Reading {
    origin: Origin,
    moment: u64,
    pages: Pages,
    /// The number of our request for the next page.
    asked: u64,
    deadline: Instant,
}

/// Who wants the list.
enum Origin {
    Own,
    /// The client, on this exchange, under this id.
    Client(Channel, ShortText),
}

impl Listings {
    /// Whether the last whole list may be judged calls by.
    pub(super) fn is_current(&self, now: Instant) -> bool {
        self.whole.as_ref().is_some_and(|whole| {
            whole.moment >= self.moment && whole.expires.is_none_or(|expires| now < expires)
        })
    }

    /// The last whole list is not current any more.
    pub(super) fn outdate(&mut self) {
        self.moment += 1;
    }

    /// The moment that a list must have been asked for at for a call that comes now.
    pub(super) fn moment_due(&mut self, now: Instant) -> u64 {
        if let Some(whole) = &mut self.whole
            && whole.moment >= self.moment
            && whole.expires.is_some_and(|expires| expires <= now)
        {
            whole.expires = None;
            self.outdate();
        }
        self.moment
    }

    fn reads_own(&self) -> bool {
        self.readings
            .iter()
            .any(|reading| matches!(reading.origin, Origin::Own))
    }

    /// How many lists are being read for the client.
    pub(super) fn count_for_client(&self) -> usize {
        let is_for_client = |reading: &&Reading| matches!(reading.origin, Origin::Client(..));
        self.readings.iter().filter(is_for_client).count()
    }

    /// When the first list that is being read is given up.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.readings.iter().map(|reading| reading.deadline).min()
    }
}

impl Gate {
    /// The server answered the client's request for the list from its start.
    pub(super) fn list_answered(
        &mut self,
        origin: (Channel, ShortText, u64),
        message: String,
        result: Range<usize>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let (channel, id, moment) = origin;
        let reading = Reading {
            origin: Origin::Client(channel, id),
            moment,
            pages: Pages::default(),
            asked: 0,
            deadline: now,
        };
        self.read_page(reading, message, result, now, outputs);
    }

    /// The server answered a request of the gate's own: `result` is its place in the message, `Err` says why there is none.
    /// One that came too late answers nothing.
    pub(super) fn own_answered(
        &mut self,
        number: u64,
        message: String,
        result: Result<Range<usize>, String>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let readings = &mut self.listings.readings;
        let Some(place) = readings.iter().position(|reading| reading.asked == number) else {
            return;
        };
        let reading = readings.swap_remove(place);
        match result {
            Ok(result) => self.read_page(reading, message, result, now, outputs),
            Err(reason) => self.listing_failed(reading, reason, now, outputs),
        }
    }

    fn read_page(
        &mut self,
        mut reading: Reading,
        message: String,
        result: Range<usize>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        match reading.pages.add(message, result, &self.options.limits) {
            Err(reason) => self.listing_failed(reading, reason, now, outputs),
            Ok(None) => self.listing_whole(reading, now, outputs),
            Ok(Some(cursor)) => self.ask_page(reading, Some(&cursor), now, outputs),
        }
    }

    fn ask_page(
        &mut self,
        mut reading: Reading,
        cursor: Option<&str>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let meta = self.speech.own_meta();
        let (asked, message) = self.own.list_tools(cursor, meta.as_deref());
        reading.asked = asked;
        reading.deadline = now + self.options.list_timeout;
        self.listings.readings.push(reading);
        let channel = Channel::OWN;
        outputs.push(Output::ToServer { channel, message });
    }

    /// A list was read to its end: judge it, show it to whoever wanted it, let go what waited for it.
    fn listing_whole(&mut self, reading: Reading, now: Instant, outputs: &mut Vec<Output>) {
        let Reading {
            origin,
            moment,
            pages,
            ..
        } = reading;
        let (pages, judgement) = self.judged(pages, outputs);
        if let Origin::Client(channel, _) = &origin {
            send_to_client(outputs, *channel, pages.first_message(&judgement.fates));
            self.listings.known = Some(judgement.view.clone());
            self.listings.paging = pages.has_more_than_one().then(|| Paging {
                pages: Arc::clone(&pages),
                judgement: Arc::clone(&judgement),
            });
        }
        if self
            .listings
            .whole
            .as_ref()
            .is_none_or(|whole| whole.moment <= moment)
        {
            self.listings.whole = Some(Whole {
                expires: pages.life().map(|life| now + life),
                pages,
                judgement,
                moment,
                judged_at: now,
            });
        }
        if moment >= self.listings.moment {
            self.announce_changes(outputs);
        }
        self.release_calls(now, outputs);
        self.pursue_listing(now, outputs);
    }

    /// What is decided about a list. One that the server answered before, with the same pins, is decided already.
    fn judged(&mut self, pages: Pages, outputs: &mut Vec<Output>) -> (Arc<Pages>, Arc<Judgement>) {
        if let Some(whole) = &self.listings.whole
            && whole.judgement.has_pins()
            && whole.pages.same_results(&pages)
            && !self.judge.has_moved()
        {
            return (Arc::new(pages), Arc::clone(&whole.judgement));
        }
        let judgement = self.judge_pages(&pages, outputs);
        (Arc::new(pages), judgement)
    }

    fn judge_pages(&mut self, pages: &Pages, outputs: &mut Vec<Output>) -> Arc<Judgement> {
        let mut events = Vec::new();
        let judgement = self
            .judge
            .judge(pages, &self.options, &mut self.told, &mut events);
        outputs.extend(events.into_iter().map(Output::from));
        Arc::new(judgement)
    }

    /// The current list is known: the client hears of it when it would see another one than before.
    fn announce_changes(&mut self, outputs: &mut Vec<Output>) {
        let announcements = std::mem::take(&mut self.listings.announcements);
        let view = self.listings.whole.as_ref().map(|whole| &whole.judgement.view);
        if announcements.is_empty() || view == self.listings.known.as_ref() {
            return;
        }
        self.listings.known = view.cloned();
        for (channel, message) in announcements {
            send_to_client(outputs, channel, message);
        }
    }

    /// A list could not be read to its end.
    fn listing_failed(&mut self, reading: Reading, reason: String, now: Instant, outputs: &mut Vec<Output>) {
        outputs.push(Output::from(Event::ListingFailed {
            reason: reason.clone(),
        }));
        match reading.origin {
            Origin::Client(channel, id) => {
                let as_sent = match self.options.posture {
                    Posture::Monitor => reading.pages.into_first_message(),
                    Posture::Guard | Posture::Strict => None,
                };
                self.listings.known = None;
                let message = as_sent.unwrap_or_else(|| not_relayed(&id, &reason));
                send_to_client(outputs, channel, message);
            }
            Origin::Own => {
                // Whether anything changed can't be said, so it is not kept from the client.
                for (channel, message) in std::mem::take(&mut self.listings.announcements) {
                    send_to_client(outputs, channel, message);
                }
                self.hold_waiting_calls(&reason, outputs);
            }
        }
        self.pursue_listing(now, outputs);
    }

    /// When the list behind an announcement is to be asked for; `None` while there is none, or while it can't be asked for.
    pub(super) fn announced_list_due(&self) -> Option<Instant> {
        let is_due = !self.listings.announcements.is_empty() && self.may_ask_for_list();
        let last = self.listings.last_own.filter(|_| is_due)?;
        Some(last + ANNOUNCED_PAUSE)
    }

    /// Whether requests of the gate's own may go out and nobody is asking for the list as it is now.
    fn may_ask_for_list(&self) -> bool {
        let Listings { moment, readings, .. } = &self.listings;
        let is_asked = self.open.lists_since(*moment)
            || self.listings.reads_own()
            || readings.iter().any(|reading| reading.moment >= *moment);
        !is_asked && self.speech.may_ask()
    }

    /// Asks for the list when something waits for it and nobody asked yet.
    pub(super) fn pursue_listing(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let is_announced = !self.listings.announcements.is_empty()
            && self
                .listings
                .last_own
                .is_none_or(|last| now >= last + ANNOUNCED_PAUSE);
        if self.waiting.is_empty() && !is_announced || !self.may_ask_for_list() {
            return;
        }
        let moment = self.listings.moment;
        let reading = Reading {
            origin: Origin::Own,
            moment,
            pages: Pages::default(),
            asked: 0,
            deadline: now,
        };
        self.listings.last_own = Some(now);
        self.ask_page(reading, None, now, outputs);
    }

    /// The server announced that its list of tools changed.
    pub(super) fn list_changed(
        &mut self,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        self.listings.outdate();
        if self.listings.known.is_some() && !self.speech.may_ask() {
            // A client that lists without ever saying that it is initialized: it has to ask itself.
            return send_to_client(outputs, channel, message);
        }
        let announcement = (channel, message);
        let announcements = &mut self.listings.announcements;
        if !announcements.contains(&announcement) && announcements.len() < MAX_ANNOUNCEMENTS {
            announcements.push(announcement);
        }
        self.pursue_listing(now, outputs);
    }

    /// The page behind a cursor of the list that the client pages through, under the client's id.
    pub(super) fn page_at(&self, cursor: &str, id: &str) -> Option<Vec<u8>> {
        let Paging { pages, judgement } = self.listings.paging.as_ref()?;
        let is_as_shown = self
            .listings
            .whole
            .as_ref()
            .is_some_and(|whole| whole.judgement.view == judgement.view);
        match is_as_shown {
            true => pages.page_at(cursor, id, &judgement.fates),
            false => None,
        }
    }

    /// Gives up lists whose next page did not come in time.
    pub(super) fn give_up_listings(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let is_late = |reading: &Reading| reading.deadline <= now;
        while let Some(place) = self.listings.readings.iter().position(is_late) {
            let late = self.listings.readings.swap_remove(place);
            let reason = format!(
                "the server did not answer within {} s",
                self.options.list_timeout.as_secs_f32()
            );
            self.listing_failed(late, reason, now, outputs);
        }
    }

    /// Gives up every list that is being read, since the answers can't come any more.
    pub(super) fn abandon_listings(&mut self, reason: &str, now: Instant, outputs: &mut Vec<Output>) {
        let readings = std::mem::take(&mut self.listings.readings);
        for reading in readings {
            self.listing_failed(reading, reason.to_owned(), now, outputs);
        }
    }

    /// Judges the last whole list again, since the pins moved; whatever became free is listed again.
    pub(super) fn reconsider(&mut self, outputs: &mut Vec<Output>) {
        let Some(whole) = &self.listings.whole else {
            return;
        };
        let (pages, before) = (Arc::clone(&whole.pages), Arc::clone(&whole.judgement));
        let judgement = self.judge_pages(&pages, outputs);
        for hold in before.held() {
            if judgement.proceeds(&hold.tool) {
                outputs.push(Output::from(Event::Released {
                    tool: hold.tool.clone(),
                    digest: hold.declared_digest.clone().unwrap_or_default(),
                }));
            }
        }
        if let Some(known) = &self.listings.known
            && *known != judgement.view
        {
            self.listings.known = Some(judgement.view.clone());
            let text = notification("notifications/tools/list_changed", "");
            send_to_client(outputs, Channel::ONLY, text.into_bytes());
        }
        if let Some(whole) = &mut self.listings.whole {
            whole.judgement = judgement;
        }
    }
}

/// What a client gets in place of a list that could not be read.
pub(super) fn not_relayed(id: &str, reason: &str) -> Vec<u8> {
    let message = format!("the server's list of tools is not relayed: {reason}");
    error_answer(id, LIST_NOT_RELAYED, &message)
}
