//! The questions and the answers.
//!
//! Invariant: a decision is written at once, under the lock, and only when the record still says what was shown; nothing is
//! decided by an empty line or by the end of the input.

use std::collections::BTreeSet;
use std::io::BufRead;

use mcpindex::clock::Clock;
use mcpindex::gate::refusal::{named, short_digest};
use mcpindex::pins::{Pins, PinsError, Record, ServerKey};

use super::super::exit::Exit;
use super::super::output::{Output, Style};
use super::super::pins::{count, name_of};
use super::columns::Layout;
use super::organisation::{Organisation, Said};
use super::release::{Item, Release, Row, Steps, What};
use super::screen::{names, print_details, print_lines, print_overview, print_row};
use super::submit::{Queue, Request};

/// What a review works with beside the pins.
#[derive(Clone, Copy)]
pub(super) struct Desk<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) organisation: &'a Organisation,
    /// Where definitions can be submitted; `None`: this machine is signed in to no index.
    pub(super) queue: Option<&'a Queue>,
}

/// One review, over one server or many.
pub(super) struct Session<'a, R> {
    servers: Vec<Server>,
    desk: Desk<'a>,
    input: R,
    output: &'a mut Output,
    /// What was answered, oldest first.
    answers: Vec<Answered>,
    could_not_read: bool,
}

struct Server {
    name: String,
    identity: String,
    pins: Pins,
    steps: Steps,
    /// Left for later in this run.
    skipped: BTreeSet<(What, String)>,
    /// Rows answered in this run.
    answered: usize,
    /// The list has to be shown before the next row.
    is_news: bool,
}

/// One answer, by which it can be taken back.
enum Answered {
    Skipped {
        server: usize,
        items: Vec<(What, String)>,
    },
    Decided {
        server: usize,
        is_approval: bool,
        definitions: usize,
        was: Box<Record>,
        left: Box<Record>,
        /// Rows that it answered.
        rows: usize,
    },
}

impl Answered {
    fn server(&self) -> usize {
        match self {
            Answered::Skipped { server, .. } | Answered::Decided { server, .. } => *server,
        }
    }
}

/// What to do after a row.
enum Next {
    /// The next row of this server.
    Row,
    Server(usize),
    Quit,
}

/// A typed letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    Approve,
    ApproveRest,
    Refuse,
    Skip,
    Submit,
    Undo,
    Details,
    Quit,
    Help,
}

impl Letter {
    /// `A` alone is told from `a`; words may be written out.
    fn read(text: &str) -> Option<Letter> {
        match text {
            "A" => return Some(Letter::ApproveRest),
            "?" => return Some(Letter::Help),
            _ => {}
        }
        match text.to_ascii_lowercase().as_str() {
            "a" | "approve" => Some(Letter::Approve),
            "r" | "refuse" => Some(Letter::Refuse),
            "s" | "skip" => Some(Letter::Skip),
            "o" | "organisation" => Some(Letter::Submit),
            "u" | "undo" => Some(Letter::Undo),
            "d" | "details" => Some(Letter::Details),
            "q" | "quit" => Some(Letter::Quit),
            "h" | "help" => Some(Letter::Help),
            _ => None,
        }
    }
}

impl<'a, R: BufRead> Session<'a, R> {
    pub(super) fn new(
        servers: Vec<(ServerKey, Pins)>,
        desk: Desk<'a>,
        input: R,
        output: &'a mut Output,
    ) -> Session<'a, R> {
        let server = |(key, pins): (ServerKey, Pins)| Server {
            name: name_of(&key),
            identity: key.identity.to_string(),
            pins,
            steps: Steps::default(),
            skipped: BTreeSet::new(),
            answered: 0,
            is_news: true,
        };
        Session {
            servers: servers.into_iter().map(server).collect(),
            desk,
            input,
            output,
            answers: Vec::new(),
            could_not_read: false,
        }
    }

    pub(super) fn run(mut self) -> Exit {
        let mut index = 0;
        while index < self.servers.len() {
            match self.server(index) {
                Next::Server(next) => index = next,
                Next::Row | Next::Quit => break,
            }
        }
        self.print_end();
        match self.could_not_read {
            true => Exit::Undetermined,
            false => Exit::Ok,
        }
    }

    /// Row after row of one server.
    fn server(&mut self, index: usize) -> Next {
        loop {
            let release = match self.release(index) {
                Ok(release) => release,
                Err(error) => {
                    self.output.error(&error.to_string());
                    self.could_not_read = true;
                    return Next::Server(index + 1);
                }
            };
            let Some(row) = release.rows.first() else {
                return Next::Server(index + 1);
            };
            let (name, position) = {
                let server = &mut self.servers[index];
                let position = format!(
                    "{} of {}",
                    server.answered + 1,
                    server.answered + release.rows.len()
                );
                if std::mem::take(&mut server.is_news) {
                    print_overview(&server.name, &release, self.output);
                }
                (server.name.clone(), position)
            };
            print_row(&position, &name, row, self.layout(), self.output);
            match self.answer(index, &release, row) {
                Next::Row => {}
                other => return other,
            }
        }
    }

    /// What waits now and was not skipped.
    fn release(&mut self, index: usize) -> Result<Release, PinsError> {
        let server = &mut self.servers[index];
        let record = server.pins.record()?;
        Ok(Release::of(&record, &mut server.steps)
            .with(self.desk.organisation, &server.identity)
            .without(&server.skipped))
    }

    fn layout(&self) -> Layout {
        Layout::new(self.output.width(), self.output.has_colour())
    }

    /// Asks about the row that is on the screen until something is answered.
    fn answer(&mut self, index: usize, release: &Release, row: &Row) -> Next {
        let rest = rest_of_section(release, row);
        loop {
            self.output.line(Style::Plain, "");
            let Some(typed) = self.ask(&question(row, rest.len(), self.desk.queue.is_some())) else {
                return Next::Quit;
            };
            match Letter::read(&typed) {
                None if typed.is_empty() => {}
                None => {
                    let line = format!("`{typed}` is none of the letters; ? explains them");
                    self.output.line(Style::Plain, &line);
                }
                Some(Letter::Help) => self.print_help(row, rest.len()),
                Some(Letter::Details) => print_details(row, self.layout(), self.output),
                Some(Letter::Quit) => return Next::Quit,
                Some(Letter::Undo) => {
                    if let Some(next) = self.undo() {
                        return next;
                    }
                }
                Some(Letter::Submit) => self.submit(index, row),
                Some(Letter::Skip) => {
                    self.skip(index, row);
                    return Next::Row;
                }
                Some(Letter::Refuse) => {
                    if self.decide(index, std::slice::from_ref(row), false) {
                        return Next::Row;
                    }
                }
                Some(Letter::Approve) if !row.is_approvable() => self.output.line(
                    Style::Plain,
                    "nothing can be pinned to this definition, so it can't be approved; r refuses it, s leaves it",
                ),
                Some(Letter::Approve) => {
                    if self.decide(index, std::slice::from_ref(row), true) {
                        return Next::Row;
                    }
                }
                Some(Letter::ApproveRest) => match self.approve_rest(index, row, &rest) {
                    Some(next) => return next,
                    None => self.output.line(Style::Plain, "nothing was approved"),
                },
            }
        }
    }

    /// This row and the rest of its section, each shown before the question. `None`: it was not agreed to.
    fn approve_rest(&mut self, index: usize, row: &Row, rest: &[Row]) -> Option<Next> {
        if row.section.is_dangerous() {
            let line = "these are decided one by one: a approves the one above";
            self.output.line(Style::Plain, line);
            return None;
        }
        let (can, can_not): (Vec<&Row>, Vec<&Row>) = rest.iter().partition(|row| row.is_approvable());
        if can.is_empty() || !row.is_approvable() {
            self.output.line(
                Style::Plain,
                "there are no more of this kind that can be approved",
            );
            return None;
        }
        let name = self.servers[index].name.clone();
        for (number, row) in can.iter().enumerate() {
            let position = format!("also {} of {}", number + 1, can.len());
            self.output.line(Style::Plain, "");
            print_row(&position, &name, row, self.layout(), self.output);
        }
        self.output.line(Style::Plain, "");
        if !can_not.is_empty() {
            let line = format!(
                "{} can't be approved and will be left",
                count(can_not.len(), "row", "rows")
            );
            self.output.line(Style::Plain, &line);
        }
        let all: Vec<Row> = std::iter::once(row).chain(can).cloned().collect();
        let definitions: usize = all.iter().map(|row| row.items.len()).sum();
        let typed = self.ask(&format!("approve all {definitions} shown above? y/n >"));
        match typed.as_deref() {
            Some("y" | "Y" | "yes") => Some(Next::Row).filter(|_| self.decide(index, &all, true)),
            Some(_) => None,
            None => Some(Next::Quit),
        }
    }

    /// Writes a decision on exactly what was shown. `true`: go on with what there is now.
    fn decide(&mut self, index: usize, rows: &[Row], is_approval: bool) -> bool {
        let at = self.desk.clock.unix_seconds();
        let items: Vec<&Item> = rows.iter().flat_map(|row| &row.items).collect();
        let tools: Vec<&str> = items
            .iter()
            .filter_map(|item| match &item.what {
                What::Tool(name) => Some(name.as_str()),
                What::Instructions => None,
            })
            .collect();
        let mut parts = None;
        let server = &mut self.servers[index];
        let updated = server.pins.update(|record| {
            if !items.iter().all(|item| is_as_shown(item, record)) {
                return;
            }
            let was = record.part(&tools);
            for item in &items {
                decide_one(item, record, is_approval, at);
            }
            parts = Some((was, record.part(&tools)));
        });
        if let Err(error) = updated {
            self.output.error(&error.to_string());
            self.output.line(Style::Alarm, "nothing was decided");
            return false;
        }
        let Some((was, left)) = parts else {
            server.is_news = true;
            self.output.line(
                Style::Alarm,
                "this changed while it was on the screen: nothing was decided; here is what there is now",
            );
            self.output.line(Style::Plain, "");
            return true;
        };
        server.answered += rows.len();
        let verb = if is_approval { "approved" } else { "refused" };
        for row in rows {
            let digests = match row.items.len() {
                1 => format!(", {}", short_digest(&row.first().digest)),
                _ => String::new(),
            };
            self.output
                .line(Style::Strong, &format!("{verb} {}{digests}", names(row)));
        }
        let refused = items
            .iter()
            .filter(|item| (item.said.as_ref()).is_some_and(Said::is_refused));
        if is_approval && refused.count() > 0 {
            let line =
                "a gate that obeys the organisation holds it all the same, since the organisation refused it";
            self.output.line(Style::Alarm, line);
        }
        self.output.line(Style::Plain, "");
        self.answers.push(Answered::Decided {
            server: index,
            is_approval,
            definitions: items.len(),
            was: Box::new(was),
            left: Box::new(left),
            rows: rows.len(),
        });
        true
    }

    /// Sends what the row shows to the organisation's queue. Nothing is decided by that: the row stays.
    fn submit(&mut self, index: usize, row: &Row) {
        let Some(queue) = self.desk.queue else {
            let line = "this machine is signed in to no index: `mcpindex login ADDRESS` signs in";
            return self.output.line(Style::Plain, line);
        };
        let identity = &self.servers[index].identity;
        let requests: Vec<Request<'_>> = row
            .items
            .iter()
            .filter_map(|item| Request::of(identity, item, None))
            .collect();
        if requests.is_empty() {
            let line = "the organisation decides about tools that something can be pinned to; this is none";
            return self.output.line(Style::Plain, line);
        }
        match queue.send(&requests) {
            Ok(sent) => {
                let line = format!(
                    "submitted {}; it waits here until they decide, or you do",
                    names(row)
                );
                self.output.line(Style::Strong, &line);
                self.output.line(Style::Faint, &sent.line());
            }
            Err(mistake) => self.output.error(mistake.text()),
        }
    }

    fn skip(&mut self, index: usize, row: &Row) {
        let items: Vec<(What, String)> = row
            .items
            .iter()
            .map(|item| (item.what.clone(), item.digest.clone()))
            .collect();
        let server = &mut self.servers[index];
        server.skipped.extend(items.iter().cloned());
        server.answered += 1;
        self.output.line(Style::Plain, &format!("skipped {}", names(row)));
        self.output.line(Style::Plain, "");
        self.answers.push(Answered::Skipped { server: index, items });
    }

    /// Takes the last answer back, and goes where it was given.
    fn undo(&mut self) -> Option<Next> {
        let Some(last) = self.answers.pop() else {
            self.output
                .line(Style::Plain, "nothing was answered in this run yet");
            return None;
        };
        let index = last.server();
        let server = &mut self.servers[index];
        match &last {
            Answered::Skipped { items, .. } => {
                for item in items {
                    server.skipped.remove(item);
                }
                server.answered -= 1;
            }
            Answered::Decided { was, left, rows, .. } => {
                let mut is_taken_back = false;
                let updated = server
                    .pins
                    .update(|record| is_taken_back = record.take_back(left, was));
                if let Err(error) = updated {
                    self.output.error(&error.to_string());
                    self.output.line(Style::Alarm, "nothing was taken back");
                    self.answers.push(last);
                    return None;
                }
                if !is_taken_back {
                    self.output.line(
                        Style::Alarm,
                        "the record changed since that decision, so it stays; `mcpindex pins history` shows it",
                    );
                    return None;
                }
                server.answered -= *rows;
            }
        }
        self.output.line(Style::Strong, "taken back");
        self.output.line(Style::Plain, "");
        Some(Next::Server(index))
    }

    /// One line of the person; `None` at the end of the input.
    fn ask(&mut self, question: &str) -> Option<String> {
        self.output.ask(question);
        let mut typed = Vec::new();
        match self.input.read_until(b'\n', &mut typed) {
            Ok(0) | Err(_) => {
                self.output.line(Style::Plain, "");
                None
            }
            Ok(_) => Some(String::from_utf8_lossy(&typed).trim().to_owned()),
        }
    }

    fn print_help(&mut self, row: &Row, rest: usize) {
        let several = match row.items.len() {
            1 => "this definition".to_owned(),
            many => format!("these {many} definitions"),
        };
        let mut lines = vec![
            (
                "a",
                format!("approve {several}: exactly what is shown becomes what the tool is held to"),
            ),
            (
                "r",
                format!("refuse {several}: the gate goes on holding it and asks no more"),
            ),
            ("s", "skip: it waits for the next review".to_owned()),
            (
                "o",
                "organisation: send it to the queue of the index, where an approver decides".to_owned(),
            ),
            (
                "d",
                "details: everything there is about it, nothing shortened".to_owned(),
            ),
            ("u", "undo: take the last answer of this review back".to_owned()),
            ("q", "quit: what was answered stays, the rest waits".to_owned()),
        ];
        if rest > 0 && !row.section.is_dangerous() {
            let line = format!("show the other {rest} of this kind, then ask whether to approve them all");
            lines.insert(1, ("A", line));
        }
        if self.desk.queue.is_none() {
            lines.retain(|(letter, _)| *letter != "o");
        }
        for (letter, line) in lines {
            self.output.line(Style::Plain, &format!("  {letter}  {line}"));
        }
        let layout = self.layout();
        let note = "An approval says that you accept what is declared. It is no proof that a tool does nothing else.";
        print_lines(&layout.prose(Style::Faint, 2, note), self.output);
    }

    fn print_end(&mut self) {
        let (mut approved, mut refused) = (0, 0);
        for answer in &self.answers {
            if let Answered::Decided {
                is_approval,
                definitions,
                ..
            } = answer
            {
                match is_approval {
                    true => approved += definitions,
                    false => refused += definitions,
                }
            }
        }
        let mut waiting = 0;
        for server in &mut self.servers {
            server.skipped.clear();
            if let Ok(record) = server.pins.record() {
                waiting += Release::of(&record, &mut server.steps).waiting();
            }
        }
        let line = match (approved + refused, waiting) {
            (0, 0) => "nothing waits for a person".to_owned(),
            (0, waiting) => format!(
                "nothing was decided; {} still held",
                count(waiting, "definition", "definitions")
            ),
            (_, 0) => format!("{approved} approved, {refused} refused; nothing waits any more"),
            (_, waiting) => format!(
                "{approved} approved, {refused} refused; {} still held",
                count(waiting, "definition", "definitions")
            ),
        };
        self.output.line(Style::Strong, &line);
        if approved > 0 {
            self.output.line(
                Style::Faint,
                "a running gate sees it by itself and tells its client that the list changed",
            );
        }
    }
}

/// The other rows of the same section, which one answer may cover.
fn rest_of_section(release: &Release, row: &Row) -> Vec<Row> {
    let same = release
        .rows
        .iter()
        .skip(1)
        .filter(|other| other.section == row.section);
    same.cloned().collect()
}

fn question(row: &Row, rest: usize, has_queue: bool) -> String {
    let approve = match (row.is_approvable(), row.items.len()) {
        (false, _) => String::new(),
        (true, 1) => "a approve  ".to_owned(),
        (true, many) => format!("a approve all {many}  "),
    };
    let more = match rest > 0 && row.is_approvable() && !row.section.is_dangerous() {
        true => format!("A this and the other {rest} of this kind  "),
        false => String::new(),
    };
    // The row's heading may have scrolled away.
    let name = match row.items.as_slice() {
        [
            Item {
                what: What::Tool(tool),
                ..
            },
        ] => named(tool),
        _ => names(row),
    };
    let submit = if has_queue { "o ask the organisation  " } else { "" };
    format!("{name}: {approve}r refuse  s skip  {submit}{more}d details  u undo  q quit  ? help >")
}

/// Whether the record still has what was shown, compared with the same baseline, and nobody decided on it meanwhile.
fn is_as_shown(item: &Item, record: &Record) -> bool {
    let shown = item
        .baseline
        .as_ref()
        .map(|baseline| (&baseline.digest, baseline.text.as_str()));
    match &item.what {
        What::Tool(name) => record.tools.get(name).is_some_and(|pin| {
            let baseline = pin.baseline.as_ref().map(|pin| (&pin.digest, &*pin.definition));
            baseline == shown
                && pin.held.get(&item.digest) == Some(&item.held)
                && !pin.refused.contains_key(&item.digest)
        }),
        What::Instructions => {
            let pinned = record.instructions.as_ref().and_then(Option::as_ref);
            pinned.map(|pin| (&pin.digest, pin.literal.as_str())) == shown
                && record.held_instructions.get(&item.digest) == Some(&item.held)
                && !record.refused_instructions.contains_key(&item.digest)
        }
    }
}

fn decide_one(item: &Item, record: &mut Record, is_approval: bool, at: i64) {
    match (&item.what, is_approval) {
        (What::Tool(name), true) => record.approve(name, &item.digest, at),
        (What::Tool(name), false) => record.refuse(name, &item.digest, at),
        (What::Instructions, true) => record.approve_instructions(&item.digest, at),
        (What::Instructions, false) => record.refuse_instructions(&item.digest, at),
    };
}
