//! `mcpindex login`: gets a key of an index and keeps it.
//!
//! Through a browser on this machine, through one anywhere (`--device`), or from stdin (`--with-token`).
//!
//! Invariant: nothing is asked of the index before it is certain that a key could be kept; every wait has an end; no key is
//! printed.

mod browser;

use std::future::Future;
use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use clap::Args;
use mcpindex::index::{
    BASE_VARIABLE, Base, Chosen, Credentials, Granted, IndexClient, IndexError, KEY_VARIABLE, Variables,
    read_key,
};
use mcpindex::login::device::Device;
use mcpindex::login::loopback::{Loopback, LoopbackError, LoopbackLimits, Returned};
use mcpindex::login::ways::Ways;
use mcpindex::login::{Attempt, LoginError};
use mcpindex::proxy::own_process::StopSignals;
use mcpindex::state::StateDirectory;
use mcpindex::visible::visible_within;
use secrecy::{ExposeSecret, SecretString};

use super::exit::Exit;
use super::index::{until, who_am_i};
use super::logout::end;
use super::output::{Output, Style};
use super::pins::{Mistake, state};
use browser::Browser;

/// More than a key and some blanks is something else.
const MAX_STDIN: u64 = 4096;
/// Of a machine's name, as the index shows it.
const MAX_NAME: usize = 64;

#[derive(Args)]
#[command(after_help = "\
Examples:
  mcpindex login https://index.example            with a browser here
  mcpindex login https://index.example --device   with a browser anywhere
  mcpindex login https://index.example --with-token < key
  mcpindex login --provider github                again, at the default index

The key is kept in credentials.json in the state directory
(MCPINDEX_STATE_DIR, else ~/.mcpindex). A program that can't sign in uses
MCPINDEX_WEB_BASE and MCPINDEX_API_KEY instead.

Exit codes: 0 signed in, 11 refused or nobody came, 13 try later,
5 the index could not be asked, 130 stopped.")]
pub(super) struct LoginArguments {
    /// The index; without it, MCPINDEX_WEB_BASE, else the default one of a sign-in
    #[arg(value_name = "BASE")]
    base: Option<String>,

    /// Sign in with a browser on another machine: a code is shown here and typed there
    #[arg(long, conflicts_with_all = ["with_token", "provider", "no_browser"])]
    device: bool,

    /// Keep a key that is read from stdin
    #[arg(long, conflicts_with_all = ["provider", "no_browser"])]
    with_token: bool,

    /// Who vouches for you there: github, google, or what the index calls it; without it, the page asks
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Only print the address, and wait for the browser that you open yourself
    #[arg(long)]
    no_browser: bool,

    /// Make this index the default one; the first that is signed in to is it anyway
    #[arg(long)]
    default: bool,
}

/// A runtime for one command's questions.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Mistake> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Mistake::new(
                Exit::Internal,
                format!("the runtime could not be set up: {error}"),
            )
        })
}

impl From<LoginError> for Mistake {
    fn from(error: LoginError) -> Mistake {
        let exit = match error {
            LoginError::Index(error) => return error.into(),
            LoginError::NoRandomness(_) | LoginError::Loopback(LoopbackError::NoAddress(_)) => Exit::Internal,
            LoginError::TryLater { .. } => Exit::TryLater,
            LoginError::NoProvider { .. } => Exit::Usage,
            LoginError::NoIndex { .. }
            | LoginError::Key { .. }
            | LoginError::Loopback(LoopbackError::OtherIndex { .. }) => Exit::Undetermined,
            LoginError::Loopback(LoopbackError::TimedOut | LoopbackError::Guessed(_))
            | LoginError::Refused { .. }
            | LoginError::Code { .. }
            | LoginError::NoDevice { .. }
            | LoginError::NoSignIn { .. }
            | LoginError::Expired => Exit::NeedsPerson,
        };
        Mistake::new(exit, error.to_string())
    }
}

pub(super) fn run(arguments: &LoginArguments, output: &mut Output) -> Exit {
    match login(arguments, output) {
        Ok(()) => Exit::Ok,
        Err(mistake) => mistake.tell(false, output),
    }
}

fn login(arguments: &LoginArguments, output: &mut Output) -> Result<(), Mistake> {
    let state = state()?;
    let base = which(arguments.base.as_deref(), &state)?;
    if !base.is_protected() {
        return Err(IndexError::PlainHttp { base }.into());
    }
    // A key that can't be kept had better not be made.
    Credentials::rehearse(&state)?;
    let runtime = runtime()?;
    let granted = runtime.block_on(async {
        match arguments.with_token {
            true => with_token(&base).await,
            false => sign_in(&base, arguments, output).await,
        }
    });
    // A read of a terminal can't be taken back: nobody waits for it.
    runtime.shutdown_background();
    keep(&state, &base, granted?, arguments.default, output)
}

/// The index that is named, else the one that a machine with one index means.
fn which(base: Option<&str>, state: &StateDirectory) -> Result<Base, Mistake> {
    if let Some(base) = base {
        return Ok(Base::parse(base)?);
    }
    if let Some(base) = Variables::from_environment().base {
        return Base::parse(&base)
            .map_err(|error| Mistake::new(Exit::Usage, format!("{BASE_VARIABLE}: {error}")));
    }
    Credentials::load(state)?.default_base().ok_or_else(|| {
        let text = format!("which index? `mcpindex login https://…`, or set {BASE_VARIABLE}");
        Mistake::new(Exit::Usage, text)
    })
}

/// Takes the key on stdin, when the index takes it.
async fn with_token(base: &Base) -> Result<Granted, Mistake> {
    if io::stdin().is_terminal() {
        let text = format!(
            "--with-token reads the key from stdin, and stdin is a terminal, where it would be seen: `mcpindex login {base} \
             --with-token < FILE`"
        );
        return Err(Mistake::new(Exit::Usage, text));
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_STDIN).read_to_string(&mut text);
    read.map_err(|error| Mistake::new(Exit::Usage, format!("stdin: {error}")))?;
    let key = read_key(&text).map_err(|error| Mistake::new(Exit::Usage, format!("stdin: {error}")))?;
    let client = IndexClient::new(&Chosen {
        base: base.clone(),
        key: Some(key.clone()),
    })?;
    let me = who_am_i(&client).await?;
    Ok(Granted {
        key_id: Some(me.key.id),
        login: Some(me.login),
        expires_at: me.key.expires_at,
        ..Granted::of_key(key)
    })
}

async fn sign_in(base: &Base, arguments: &LoginArguments, output: &mut Output) -> Result<Granted, Mistake> {
    let client = IndexClient::new(&Chosen {
        base: base.clone(),
        key: None,
    })?;
    let ways = Ways::of(&client).await?;
    if let Some(ways) = &ways {
        ways.admit(base, arguments.device, arguments.provider.as_deref())?;
    }
    let has_device = ways.is_none_or(|ways| ways.device);
    let mut signals = StopSignals::listen().map_err(|error| {
        let text = format!("signals can't be received: {error}");
        Mistake::new(Exit::Internal, text)
    })?;
    let name = machine_name();
    if arguments.device {
        return by_device(&client, &name, &mut signals, output).await;
    }
    let attempt = Attempt::new()?;
    let way = by_browser(base, &attempt, &name, arguments, has_device, &mut signals, output).await?;
    match way {
        // From here on nothing stops it: a key that was made would be lost.
        Way::Code(code) => Ok(attempt.redeem(&client, &code).await?),
        Way::Device => by_device(&client, &name, &mut signals, output).await,
    }
}

/// How a sign-in through the browser goes on.
enum Way {
    Code(SecretString),
    /// The person would rather use another machine's browser.
    Device,
}

async fn by_browser(
    base: &Base,
    attempt: &Attempt,
    name: &str,
    arguments: &LoginArguments,
    has_device: bool,
    signals: &mut StopSignals,
    output: &mut Output,
) -> Result<Way, Mistake> {
    let limits = LoopbackLimits::default();
    let listener = Loopback::open().await.map_err(LoginError::from)?;
    let url = attempt.address(base, &listener, name, arguments.provider.as_deref());
    let mut browser = match arguments.no_browser {
        true => Browser::left_to_the_person(),
        false => Browser::open(url.as_str()),
    };
    if let Some(why) = browser.is_missing() {
        output.error(&format!("no browser is opened: {why}"));
    }
    output.error(match browser.is_under_way() {
        true => "a browser opens this address:",
        false => "open this address in a browser on this machine:",
    });
    output.error(&format!("  {url}"));
    output.error(&format!(
        "its page has to show this code: {}",
        attempt.short_code()
    ));
    let mut is_offered = has_device && browser.is_missing().is_some();
    if is_offered {
        offer_device(base, output);
    }
    output.error(&format!(
        "waiting for it, {} minutes at most; Ctrl-C ends it",
        limits.whole.as_secs() / 60
    ));
    let mut returned = std::pin::pin!(listener.wait(attempt.state(), base, &limits));
    let mut answers = browser::Answers::new();
    loop {
        tokio::select! {
            returned = &mut returned => return match returned.map_err(LoginError::from)? {
                Returned::Code(code) => Ok(Way::Code(code)),
                Returned::Refused(error) => Err(LoginError::Refused { reason: in_words(&error) }.into()),
            },
            why = browser.failed() => {
                output.error(&format!("no browser could be opened ({why}): open the address above yourself"));
                is_offered = has_device;
                if is_offered {
                    offer_device(base, output);
                }
            }
            () = answers.device(), if is_offered => return Ok(Way::Device),
            () = signals.recv() => return Err(stopped()),
        }
    }
}

fn offer_device(base: &Base, output: &mut Output) {
    output.error(&match io::stdin().is_terminal() {
        true => "no browser on this machine? type d and Enter to use one on another".to_owned(),
        false => format!("no browser on this machine? `mcpindex login {base} --device` uses one on another"),
    });
}

async fn by_device(
    client: &IndexClient,
    name: &str,
    signals: &mut StopSignals,
    output: &mut Output,
) -> Result<Granted, Mistake> {
    let device = or_stopped(signals, Device::start(client, name)).await??;
    output.error("open this address in a browser on any machine:");
    output.error(&format!("  {}", visible_within(&device.verification_uri, 500)));
    output.error(&format!(
        "and type this code there, if it is you who signs in: {}",
        visible_within(&device.user_code, 40)
    ));
    output.error(&format!(
        "waiting for it, {} at most; Ctrl-C ends it",
        in_minutes(device.good_for())
    ));
    let granted = device.wait(client, signals.recv()).await?;
    granted.ok_or_else(stopped)
}

/// What comes first: the end of it, or a signal.
async fn or_stopped<T>(signals: &mut StopSignals, work: impl Future<Output = T>) -> Result<T, Mistake> {
    tokio::select! {
        done = work => Ok(done),
        () = signals.recv() => Err(stopped()),
    }
}

fn stopped() -> Mistake {
    Mistake::new(Exit::Stopped, "stopped: nobody was signed in")
}

fn in_minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds / 60),
    }
}

/// The errors that RFC 6749 names, as people say them.
fn in_words(error: &str) -> String {
    match error {
        "access_denied" => "consent was not given in the browser".to_owned(),
        other => format!("the index says `{}`", visible_within(other, 100)),
    }
}

/// By which the owner of the key knows it.
fn machine_name() -> String {
    let name = rustix::system::uname();
    let name: String = name
        .nodename()
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_graphic)
        .take(MAX_NAME)
        .collect();
    match name.is_empty() {
        true => "unnamed machine".to_owned(),
        false => name,
    }
}

/// Stores what was granted, ends the key whose place it takes, and says who is signed in.
fn keep(
    state: &StateDirectory,
    base: &Base,
    granted: Granted,
    as_default: bool,
    output: &mut Output,
) -> Result<(), Mistake> {
    let stored = Credentials::update(state, |stored| {
        let replaced = stored.granted(base);
        stored.remember(base, granted.clone(), as_default);
        (
            replaced,
            stored.default_base(),
            stored.path().display().to_string(),
        )
    });
    let (replaced, default, path) = match stored {
        Ok(stored) => stored,
        Err(error) => return Err(lost(base, &granted, error.into())),
    };
    output.line(
        Style::Strong,
        &format!(
            "signed in to {base} as {}",
            granted.login.as_deref().unwrap_or("somebody it does not name")
        ),
    );
    output.line(
        Style::Plain,
        &format!(
            "the key{} is good {}, and kept in `{path}`",
            granted
                .key_id
                .as_ref()
                .map_or_else(String::new, |id| format!(" {id}")),
            until(granted.expires_at.as_deref())
        ),
    );
    match default {
        Some(default) if default == *base => {
            output.line(Style::Plain, "it is this machine's default index");
        }
        Some(default) => output.line(
            Style::Plain,
            &format!("the default index stays {default}: `--default` changes that"),
        ),
        None => {}
    }
    if std::env::var_os(KEY_VARIABLE).is_some_and(|key| !key.is_empty()) {
        output.error(&format!(
            "note: {KEY_VARIABLE} is set, and used in place of the key that is kept"
        ));
    }
    if let Some(old) = replaced.filter(|old| old.key.expose_secret() != granted.key.expose_secret()) {
        end_replaced(base, &old, output)?;
    }
    Ok(())
}

/// A key that was made for this machine, and is used here no more, is ended.
fn end_replaced(base: &Base, old: &Granted, output: &mut Output) -> Result<(), Mistake> {
    let Some(id) = old.key_id.as_ref().filter(|_| old.is_own) else {
        return Ok(());
    };
    let ended = runtime()?.block_on(revoke_by_itself(base, old, id));
    if let Err(why) = ended {
        output.error(&format!(
            "note: {id}, which it replaces, could not be revoked ({}) and stays good {}: `mcpindex keys revoke {id}`",
            why.text(),
            until(old.expires_at.as_deref())
        ));
    }
    Ok(())
}

/// Ends a key with the key itself.
pub(super) async fn revoke_by_itself(base: &Base, granted: &Granted, id: &str) -> Result<bool, Mistake> {
    let client = IndexClient::new(&Chosen {
        base: base.clone(),
        key: Some(granted.key.clone()),
    })?;
    end(&client, id).await
}

/// The key that can't be kept is ended again, unless it was there before.
fn lost(base: &Base, granted: &Granted, why: Mistake) -> Mistake {
    let Some(id) = granted.key_id.as_ref().filter(|_| granted.is_own) else {
        return why;
    };
    let ended = runtime().and_then(|runtime| runtime.block_on(revoke_by_itself(base, granted, id)));
    let ended = match ended {
        Ok(_) => format!("the key {id}, which was made, is revoked again"),
        Err(_) => format!(
            "the key {id}, which was made, could not be revoked: do it on {}",
            base.at("account")
        ),
    };
    Mistake::new(why.exit(), format!("{}; {ended}", why.text()))
}
