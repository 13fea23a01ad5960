//! `admin`: accounts, roles and keys from the server's shell, straight in the database. Whoever may read the database's
//! settings may do all of it, so nobody is asked who they are.
//!
//! Invariant: a key is printed once, by the command that makes it; whom a command means is certain, or nothing is done.

mod approvals;
mod backup;

use anyhow::Context as _;
use mcpindex_contract::signal::InstallId;
use mcpindex_store::Store;
use mcpindex_store::accounts::{Account, KeyRecord, Role, RoleChange, Scope};

use super::{now, open_store, webhooks};
use crate::access::issue::{IssueError, Wish, issue};
use crate::args::{Admin, AdminCommand, AdminKeys, CreateKey};
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::output::{self, Ink};
use crate::when::rfc3339;

/// Accounts of one reading.
const PAGE: i64 = 500;
/// How soon a server that runs knows what became of a key.
const SOON: &str = "a server that runs knows within 30 seconds";

/// Does it and says what was done.
pub async fn run(settings: Settings, admin: Admin) -> anyhow::Result<Exit> {
    match admin.command {
        // These two make no database, nor change its schema.
        AdminCommand::Backup { path } => return backup::back_up(&settings, &path).await,
        AdminCommand::Restore { path, replace } => return backup::restore(&settings, &path, replace).await,
        command => over(&settings, &open_store(&settings).await?, command).await,
    }
}

async fn over(settings: &Settings, store: &Store, command: AdminCommand) -> anyhow::Result<Exit> {
    let mut exit = Exit::Done;
    match command {
        AdminCommand::MakeAdmin { who } => set_role(store, &who, Role::Admin).await?,
        AdminCommand::Users { json } => users(store, json).await?,
        AdminCommand::Role { who, role } => set_role(store, &who, role).await?,
        AdminCommand::Disable { who } => disable(store, &who).await?,
        AdminCommand::Enable { who } => enable(store, &who).await?,
        AdminCommand::Keys(AdminKeys::List { of, json }) => keys(store, of.as_deref(), json).await?,
        AdminCommand::Keys(AdminKeys::Create(create)) | AdminCommand::CreateKey(create) => {
            create_key(store, create).await?;
        }
        AdminCommand::Keys(AdminKeys::Revoke { id }) => revoke(store, &id).await?,
        AdminCommand::Webhooks(command) => webhooks::run(settings, store, command).await?,
        AdminCommand::Purge { install } => purge(store, install).await?,
        AdminCommand::Approvals(command) => exit = approvals::run(store, command).await?,
        AdminCommand::Backup { .. } | AdminCommand::Restore { .. } => {}
    }
    store.close().await;
    Ok(exit)
}

/// The one account that is meant.
async fn one(store: &Store, who: &str) -> anyhow::Result<Account> {
    let unknown = || {
        Failure::Usage(format!(
            "nobody here is called `{who}`; `admin users` lists everybody, and an account is made by signing in or by \
             `admin create-key`"
        ))
    };
    Ok(find(store, who).await?.ok_or_else(unknown)?)
}

/// The one account that is meant, if there is any.
async fn find(store: &Store, who: &str) -> anyhow::Result<Option<Account>> {
    let mut found = store.find_accounts(who).await?;
    if found.len() > 1 {
        let all: Vec<String> = found
            .iter()
            .map(|account| format!("{} ({} of {})", account.id, account.login, account.issuer))
            .collect();
        return Err(Failure::Usage(format!("`{who}` may be {}; give the number", all.join(", "))).into());
    }
    Ok(found.pop())
}

/// `ada (https://login.example)`
fn named(account: &Account) -> String {
    format!("{} ({})", account.login, account.issuer)
}

/// Says what came of a change, or why it was refused.
fn changed(change: RoleChange, account: &Account, done: &str) -> anyhow::Result<()> {
    match change {
        RoleChange::Done => Ok(output::plain(&format!("{} {done}", named(account)))?),
        RoleChange::LastAdmin => Err(Failure::Usage(format!(
            "{} is the only admin; make another one first (`admin make-admin`)",
            named(account)
        ))
        .into()),
        RoleChange::Unknown => Err(Failure::Usage(format!("{} is gone", named(account))).into()),
    }
}

async fn set_role(store: &Store, who: &str, role: Role) -> anyhow::Result<()> {
    let account = one(store, who).await?;
    if account.disabled_at.is_some() {
        let name = named(&account);
        return Err(Failure::Usage(format!("{name} is disabled; `admin enable` comes first")).into());
    }
    let change = store.set_role(account.id, role, now()).await?;
    let article = if role == Role::Member { "a" } else { "an" };
    changed(change, &account, &format!("is {article} {}", role.name()))
}

async fn disable(store: &Store, who: &str) -> anyhow::Result<()> {
    let account = one(store, who).await?;
    let change = store.disable_account(account.id, now()).await?;
    changed(
        change,
        &account,
        &format!("is disabled, the sessions are ended and the keys revoked; {SOON}"),
    )
}

async fn enable(store: &Store, who: &str) -> anyhow::Result<()> {
    let account = one(store, who).await?;
    let change = if store.enable_account(account.id, now()).await? {
        RoleChange::Done
    } else {
        RoleChange::Unknown
    };
    changed(change, &account, "may sign in again; the keys stay revoked")
}

async fn users(store: &Store, json: bool) -> anyhow::Result<()> {
    let mut all: Vec<Account> = Vec::new();
    loop {
        let page = store.accounts(all.last().map(|last| last.id), PAGE).await?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    if json {
        let list: Vec<serde_json::Value> = all.iter().map(user_json).collect();
        return Ok(output::json(&serde_json::json!({ "users": list }))?);
    }
    if all.is_empty() {
        output::plain("nobody has an account yet")?;
    }
    for account in &all {
        let mut line = vec![
            (Ink::Dim, format!("{:<5} ", account.id)),
            (Ink::Strong, account.login.clone()),
            (Ink::Plain, format!("  {}", account.role.name())),
        ];
        if account.disabled_at.is_some() {
            line.push((Ink::Warn, "  disabled".to_owned()));
        }
        if let Some(email) = &account.email {
            line.push((Ink::Plain, format!("  {email}")));
        }
        line.push((Ink::Dim, format!("  {}", account.issuer)));
        output::line(&line)?;
    }
    Ok(())
}

fn user_json(account: &Account) -> serde_json::Value {
    serde_json::json!({
        "id": account.id,
        "login": account.login,
        "email": account.email,
        "issuer": account.issuer,
        "role": account.role.name(),
        "created_at": rfc3339(account.created_at),
        "signed_in_at": account.signed_in_at.and_then(rfc3339),
        "disabled_at": account.disabled_at.and_then(rfc3339),
    })
}

async fn keys(store: &Store, of: Option<&str>, json: bool) -> anyhow::Result<()> {
    let account = match of {
        Some(who) => Some(one(store, who).await?.id),
        None => None,
    };
    let keys = store.keys(account).await?;
    if json {
        let list: Vec<serde_json::Value> = keys.iter().map(key_json).collect();
        return Ok(output::json(&serde_json::json!({ "keys": list }))?);
    }
    if keys.is_empty() {
        output::plain("there are no keys")?;
    }
    for key in &keys {
        let (ink, state) = match (key.revoked_at, key.works(now())) {
            (Some(_), _) => (Ink::Warn, "revoked"),
            (None, false) => (Ink::Warn, "ended"),
            (None, true) => (Ink::Good, "works"),
        };
        output::line(&[
            (Ink::Strong, key.id.clone()),
            (ink, format!("  {state:<7}")),
            (Ink::Plain, format!("  {}  {}", key.login, key.name)),
            (Ink::Dim, format!("  {}  {}, {}", key.shown, key.scopes, end(key))),
        ])?;
    }
    Ok(())
}

/// `ends 2027-05-29`
fn end(key: &KeyRecord) -> String {
    let day = |seconds| rfc3339(seconds).map(|time| time.chars().take(10).collect::<String>());
    match key.expires_at.and_then(day) {
        Some(day) => format!("ends {day}"),
        None => "without an end".to_owned(),
    }
}

fn key_json(key: &KeyRecord) -> serde_json::Value {
    let scopes: Vec<&str> = key.scopes.iter().map(Scope::name).collect();
    serde_json::json!({
        "id": key.id,
        "login": key.login,
        "shown": key.shown,
        "name": key.name,
        "scopes": scopes,
        "created_at": rfc3339(key.created_at),
        "expires_at": key.expires_at.and_then(rfc3339),
        "revoked_at": key.revoked_at.and_then(rfc3339),
        "replaced_by": key.replaced_by,
    })
}

async fn create_key(store: &Store, create: CreateKey) -> anyhow::Result<()> {
    let mut account = match find(store, &create.who).await? {
        Some(account) => account,
        None => store.local_account(&create.who, now()).await?,
    };
    let wish = Wish {
        name: create.name,
        scopes: create.scopes,
        days: (!create.no_end).then_some(create.days),
    };
    if wish.scopes.contains(Scope::Admin) && account.role != Role::Admin {
        store.set_role(account.id, Role::Admin, now()).await?;
        account.role = Role::Admin;
    }
    let issued = issue(store, &account, &wish, None, now()).await;
    let (text, record) = issued.map_err(|error| match error {
        IssueError::Wish(reason) | IssueError::NotAllowed(reason) => {
            anyhow::Error::from(Failure::Usage(format!("no key was made: {reason}")))
        }
        IssueError::Store(error) => error.into(),
        error @ IssueError::Random(_) => error.into(),
    })?;
    if create.json {
        let mut json = key_json(&record);
        json["key"] = text.expose().into();
        return Ok(output::json(&json)?);
    }
    let fact = |name: &str, text: &str| {
        output::line(&[(Ink::Dim, format!("{name:<9}")), (Ink::Plain, text.to_owned())])
    };
    fact("key", text.expose())?;
    fact("id", &record.id)?;
    fact(
        "account",
        &format!("{}, {}", named(&account), account.role.name()),
    )?;
    fact("scopes", &format!("{}, {}", record.scopes, end(&record)))?;
    output::plain(
        "it is shown this once; a program finds it in MCPINDEX_API_KEY, `mcpindex login --with-token` keeps it",
    )?;
    Ok(())
}

async fn revoke(store: &Store, id: &str) -> anyhow::Result<()> {
    let there = store.revoke_key(id, None, now()).await?;
    if !there {
        return Err(Failure::Usage(format!(
            "there is no key `{id}`; `admin keys list` shows their ids"
        ))
        .into());
    }
    Ok(output::plain(&format!("{id} is revoked; {SOON}"))?)
}

async fn purge(store: &Store, install: InstallId) -> anyhow::Result<()> {
    let gone = store
        .purge_install(install)
        .await
        .context("what the install told could not be forgotten")?;
    Ok(output::plain(&match gone {
        0 => format!("nothing of install {install} is kept"),
        1 => format!("1 signal of install {install} is forgotten"),
        count => format!("{count} signals of install {install} are forgotten"),
    })?)
}
