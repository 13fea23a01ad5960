//! What the gate costs, beside a plain byte relay in the same run: a trivial stdio server called directly, through the
//! relay, and through `mcpindex gate`, all pinned to one CPU, since free scheduling swings with wake-ups.
//!
//! Run by `cargo bench -p mcpindex-sdk --bench gate`. The server and the relay are this program itself, started again.
//! Linux: pins with `taskset`, reads memory from `/proc`.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mcpindex::clock::SystemClock;
use mcpindex::gate::{Channel, Gate, GateLimits, GateOptions, NewTools, Output};
use mcpindex::pins::Pins;
use mcpindex_contract::posture::Posture;

const GATE: &str = env!("CARGO_BIN_EXE_mcpindex");

const ROUNDS: usize = 7;
const CALLS_IN_A_ROUND: usize = 3_000;
const FLAT_CALLS: usize = 100_000;
const FLAT_PART: usize = 10_000;
const STARTS: usize = 31;
const CONTACTS: usize = 7;
const LISTINGS: usize = 200;
const EARLY_LISTINGS: usize = 20;
const IN_FLIGHT: usize = 16;
const FLIGHTS: usize = 5;
const CALLS_IN_A_FLIGHT: usize = 20_000;
const MACHINE_CALLS: usize = 200_000;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["server", tools, bytes] => server(tools, bytes),
        ["relay", command @ ..] => relay(command),
        ["machine"] => state_machine(&mut io::stdout().lock()),
        ["pinned"] => measure(),
        _ => pin(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program again on one CPU, where there is a `taskset`.
fn pin() -> Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpu = allowed
        .unwrap_or("0")
        .trim()
        .split(['-', ','])
        .next()
        .unwrap_or("0");
    let this = std::env::current_exe()?;
    match Command::new("taskset")
        .args(["-c", cpu])
        .arg(this)
        .arg("pinned")
        .status()
    {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("taskset ended with {status}").into()),
        Err(error) => {
            writeln!(
                io::stdout(),
                "not pinned to one CPU, so figures swing: taskset: {error}"
            )?;
            measure()
        }
    }
}

// The server: as little work as there can be.

fn server(tools: &str, bytes: &str) -> Result<()> {
    let (tools, bytes): (usize, usize) = (tools.parse()?, bytes.parse()?);
    let listing: Vec<String> = (0..tools).map(|number| tool(number, bytes)).collect();
    let listing = format!(r#"{{"tools":[{}]}}"#, listing.join(","));
    let mut input = BufReader::with_capacity(64 << 10, io::stdin().lock());
    let mut answers = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        if let Some((_, id)) = line.split_once(r#""id":"#) {
            // A number, or a string without commas.
            let id = id.split([',', '}']).next().unwrap_or("0");
            let result = if line.contains(r#""tools/call""#) {
                RESULT
            } else if line.contains(r#""tools/list""#) {
                &listing
            } else {
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#
            };
            writeln!(answers, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)?;
        }
        line.clear();
        if input.buffer().is_empty() {
            answers.flush()?;
        }
    }
    Ok(())
}

/// A tool of about this many bytes, made of what tools are made of.
fn tool(number: usize, bytes: usize) -> String {
    let head = format!(
        r#"{{"name":"tool_{number}","description":"Looks up entry {number} and returns it.","inputSchema":{{"type":"object","properties":{{"key":{{"type":"string","description":"Which entry."}}"#
    );
    let tail = r#"},"required":["key"]}}"#;
    let mut text = head;
    let mut property = 0;
    while text.len() + tail.len() < bytes {
        text.push_str(&format!(
            r#","option_{property}":{{"type":"integer","minimum":0,"description":"How option {property} of this lookup is set; the usual value is fine."}}"#
        ));
        property += 1;
    }
    text + tail
}

// The relay: what any program in between costs.

fn relay(command: &[&str]) -> Result<()> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let to_server = child.stdin.take().ok_or("no stdin")?;
    let from_server = child.stdout.take().ok_or("no stdout")?;
    thread::spawn(move || copy(io::stdin().lock(), to_server));
    copy(from_server, io::stdout().lock())?;
    child.wait()?;
    Ok(())
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut chunk = vec![0; 64 << 10];
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(()),
            count => {
                to.write_all(&chunk[..count])?;
                to.flush()?;
            }
        }
    }
}

// The client.

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Direct,
    Relay,
    Gate,
}

struct Session {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    line: String,
    next: usize,
    _state: Rc<tempfile::TempDir>,
}

impl Session {
    /// Starts the way to a server with so many tools, and waits for the answer to the handshake.
    fn start(way: Way, tools: usize, bytes: usize) -> Result<Session> {
        Session::start_with(way, tools, bytes, &Rc::new(tempfile::tempdir()?))
    }

    /// The same with this state directory.
    fn start_with(way: Way, tools: usize, bytes: usize, state: &Rc<tempfile::TempDir>) -> Result<Session> {
        let this = std::env::current_exe()?;
        let this = this.to_str().ok_or("a path that is no text")?;
        let (tools, bytes) = (tools.to_string(), bytes.to_string());
        let server = [this, "server", &tools, &bytes];
        let line = match way {
            Way::Direct => server.to_vec(),
            Way::Relay => [&[this, "relay"], &server[..]].concat(),
            Way::Gate => [&[GATE, "gate", "--"], &server[..]].concat(),
        };
        let mut child = Command::new(line[0])
            .args(&line[1..])
            .env("MCPINDEX_STATE_DIR", state.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let to = child.stdin.take().ok_or("no stdin")?;
        let from = BufReader::with_capacity(64 << 10, child.stdout.take().ok_or("no stdout")?);
        let line = String::new();
        let mut session = Session {
            child,
            to,
            from,
            line,
            next: 0,
            _state: Rc::clone(state),
        };
        session.ask("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#)?;
        Ok(session)
    }

    fn say_initialized(&mut self) -> Result<()> {
        Ok(self
            .to
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?)
    }

    fn ask(&mut self, method: &str, params: &str) -> Result<()> {
        let request = self.request(method, params);
        self.to.write_all(request.as_bytes())?;
        self.answer()
    }

    fn request(&mut self, method: &str, params: &str) -> String {
        self.next += 1;
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}\n",
            self.next
        )
    }

    fn answer(&mut self) -> Result<()> {
        self.line.clear();
        self.from.read_line(&mut self.line)?;
        if self.line.contains(r#""result":"#) {
            Ok(())
        } else {
            Err(format!("no result: {}", self.line.trim_end()).into())
        }
    }

    fn list(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.ask("tools/list", "{}")?;
        Ok(start.elapsed())
    }

    fn call(&mut self) -> Result<Duration> {
        let request = self.request("tools/call", CALL);
        let start = Instant::now();
        self.to.write_all(request.as_bytes())?;
        self.answer()?;
        Ok(start.elapsed())
    }

    /// So many calls, [`IN_FLIGHT`] of them at a time.
    fn flight(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let mut sent = 0;
        let mut answered = 0;
        while answered < CALLS_IN_A_FLIGHT {
            let mut burst = String::new();
            while sent < CALLS_IN_A_FLIGHT && sent - answered < IN_FLIGHT {
                burst.push_str(&self.request("tools/call", CALL));
                sent += 1;
            }
            self.to.write_all(burst.as_bytes())?;
            self.answer()?;
            answered += 1;
            while !self.from.buffer().is_empty() {
                self.answer()?;
                answered += 1;
            }
        }
        Ok(start.elapsed())
    }

    fn resident_kilobytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.ok_or("no VmRSS")?.trim().trim_end_matches("kB");
        Ok(resident.trim().parse()?)
    }

    fn end(mut self) -> Result<()> {
        drop(self.to);
        self.child.wait()?;
        Ok(())
    }
}

const RESULT: &str = r#"{"content":[{"type":"text","text":"It is done, and this is what came of it."}]}"#;
const CALL: &str = r#"{"name":"tool_0","arguments":{"key":"an entry that somebody wants to see"}}"#;

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A session that has shaken hands and listed.
fn ready(way: Way) -> Result<Session> {
    let mut session = Session::start(way, 10, 500)?;
    session.say_initialized()?;
    session.list()?;
    Ok(session)
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn measure() -> Result<()> {
    let mut out = io::stdout().lock();
    round_trips(&mut out)?;
    flatness(&mut out)?;
    in_flight(&mut out)?;
    state_machine(&mut out)?;
    start(&mut out)?;
    first_contact(&mut out)?;
    memory(&mut out)
}

fn round_trips(out: &mut impl Write) -> Result<()> {
    let mut sessions = [ready(Way::Direct)?, ready(Way::Relay)?, ready(Way::Gate)?];
    let mut rounds: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (session, medians) in sessions.iter_mut().zip(&mut rounds) {
            let mut times = (0..CALLS_IN_A_ROUND)
                .map(|_| session.call())
                .collect::<Result<Vec<_>>>()?;
            medians.push(median(&mut times));
        }
    }
    sessions.into_iter().try_for_each(Session::end)?;
    let [direct, relay, gate] = rounds.map(|mut medians| median(&mut medians));
    let (relay, gate) = (micros(relay) - micros(direct), micros(gate) - micros(direct));
    writeln!(
        out,
        "tools/call round trip: direct p50 {:.1} µs; the relay adds {relay:.1} µs, the gate {gate:.1} µs: {:.2} x (target <= 2): {}",
        micros(direct),
        gate / relay,
        verdict(gate <= 2.0 * relay)
    )?;
    Ok(())
}

fn flatness(out: &mut impl Write) -> Result<()> {
    let mut session = ready(Way::Gate)?;
    let mut times = (0..FLAT_CALLS)
        .map(|_| session.call())
        .collect::<Result<Vec<_>>>()?;
    session.end()?;
    let last = micros(median(&mut times[FLAT_CALLS - FLAT_PART..]));
    let first = micros(median(&mut times[..FLAT_PART]));
    writeln!(
        out,
        "flat over {FLAT_CALLS} calls: gated p50 {first:.1} µs in the first {FLAT_PART}, {last:.1} µs in the last: {:.2} x (target <= 1.1): {}",
        last / first,
        verdict(last <= 1.1 * first)
    )?;
    Ok(())
}

fn in_flight(out: &mut impl Write) -> Result<()> {
    let mut sessions = [ready(Way::Relay)?, ready(Way::Gate)?];
    let mut flights: [Vec<Duration>; 2] = Default::default();
    for _ in 0..FLIGHTS {
        for (session, times) in sessions.iter_mut().zip(&mut flights) {
            times.push(session.flight()?);
        }
    }
    sessions.into_iter().try_for_each(Session::end)?;
    let [relay, gate] = flights.map(|mut times| CALLS_IN_A_FLIGHT as f64 / median(&mut times).as_secs_f64());
    writeln!(
        out,
        "{IN_FLIGHT} calls in flight: {relay:.0} calls a second through the relay, {gate:.0} through the gate: {:.2} x (target >= 0.7): {}",
        gate / relay,
        verdict(gate >= 0.7 * relay)
    )?;
    Ok(())
}

/// What the gate does about a call and its answer, without any transport.
fn state_machine(out: &mut impl Write) -> Result<()> {
    let mut gate = Gate::new(
        GateOptions {
            posture: Posture::Guard,
            new_tools: NewTools::Review,
            list_timeout: Duration::from_secs(10),
            scan_results: false,
            tell_action: true,
            server: "bench".to_owned(),
            limits: GateLimits::default(),
            clock: Arc::new(SystemClock),
        },
        Pins::memory(),
    );
    let now = Instant::now();
    let mut outputs = Vec::new();
    let initialize = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#;
    let listing = format!(
        r#"{{"jsonrpc":"2.0","id":"l","result":{{"tools":[{}]}}}}"#,
        tool(0, 500)
    );
    for (is_from_client, message) in [
        (true, initialize),
        (false, r#"{"jsonrpc":"2.0","id":"i","result":{}}"#),
        (true, initialized),
        (true, list),
        (false, &listing),
    ] {
        match is_from_client {
            true => gate.from_client(Channel::ONLY, message.into(), now, &mut outputs),
            false => gate.from_server(Channel::ONLY, message.into(), now, &mut outputs),
        }
    }
    let burst: Vec<(String, String)> = (0..IN_FLIGHT)
        .map(|id| {
            (
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{CALL}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{RESULT}}}"#),
            )
        })
        .collect();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..MACHINE_CALLS / IN_FLIGHT {
            outputs.clear();
            for (call, _) in &burst {
                gate.from_client(Channel::ONLY, call.as_str().into(), now, &mut outputs);
            }
            for (_, answer) in &burst {
                gate.from_server(Channel::ONLY, answer.as_str().into(), now, &mut outputs);
            }
            let passed = outputs
                .iter()
                .filter(|output| !matches!(output, Output::Event(_)));
            if passed.count() != 2 * IN_FLIGHT {
                return Err("the gate did not let a call or its answer pass".into());
            }
        }
        rounds.push(start.elapsed());
    }
    let nanos = median(&mut rounds).as_secs_f64() * 1e9 / MACHINE_CALLS as f64;
    writeln!(
        out,
        "the state machine alone: {nanos:.0} ns a call and its answer"
    )?;
    Ok(())
}

/// Each start but the very first finds pins.
fn start(out: &mut impl Write) -> Result<()> {
    let mut starts: [Vec<Duration>; 3] = Default::default();
    let pinned = Rc::new(tempfile::tempdir()?);
    let mut session = Session::start_with(Way::Gate, 1, 500, &pinned)?;
    session.say_initialized()?;
    session.list()?;
    session.end()?;
    for _ in 0..STARTS {
        let fresh = Rc::new(tempfile::tempdir()?);
        let ways = [(Way::Direct, &fresh), (Way::Gate, &pinned), (Way::Gate, &fresh)];
        for ((way, state), times) in ways.into_iter().zip(&mut starts) {
            let start = Instant::now();
            let session = Session::start_with(way, 1, 500, state)?;
            times.push(start.elapsed());
            session.end()?;
        }
    }
    let [direct, gate, first] = starts.map(|mut times| millis(median(&mut times)));
    writeln!(
        out,
        "start, to the answer of the handshake: direct {direct:.1} ms, gated {gate:.1} ms: {:.1} ms more (target <= 10): {}; \
         the very first of a server, which is pinned and synced to disk: {:.1} ms more: {}",
        gate - direct,
        verdict(gate - direct <= 10.0),
        first - direct,
        verdict(first - direct <= 10.0)
    )?;
    Ok(())
}

fn first_contact(out: &mut impl Write) -> Result<()> {
    let mut contacts: [Vec<Duration>; 3] = Default::default();
    for _ in 0..CONTACTS {
        for (way, times) in [Way::Direct, Way::Relay, Way::Gate]
            .into_iter()
            .zip(&mut contacts)
        {
            let mut session = Session::start(way, 2_000, 1_500)?;
            session.say_initialized()?;
            times.push(session.list()?);
            session.end()?;
        }
    }
    let [direct, relay, gate] = contacts.map(|mut times| millis(median(&mut times)));
    writeln!(
        out,
        "first contact with 2000 tools of 1.5 KB: direct {direct:.1} ms, relayed {relay:.1} ms, gated and pinned {gate:.1} ms: {:.1} ms more (target <= 60): {}",
        gate - direct,
        verdict(gate - direct <= 60.0)
    )?;
    Ok(())
}

fn memory(out: &mut impl Write) -> Result<()> {
    let mut session = Session::start(Way::Gate, 100, 1_500)?;
    session.say_initialized()?;
    let mut early = 0;
    for listing in 1..=LISTINGS {
        session.list()?;
        if listing == EARLY_LISTINGS {
            early = session.resident_kilobytes()?;
        }
    }
    let late = session.resident_kilobytes()?;
    session.end()?;
    writeln!(
        out,
        "resident over listings of 100 tools: {:.1} MB after {EARLY_LISTINGS}, {:.1} MB after {LISTINGS} (target <= 20, and flat): {}",
        early as f64 / 1024.0,
        late as f64 / 1024.0,
        verdict(late <= 20 << 10 && late <= early + 512)
    )?;
    Ok(())
}
