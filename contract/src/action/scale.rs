//! The scale that actions are placed on: what is done, about what, how far it reaches, and the names of it all.
//!
//! Invariant: every scale is ordered from mild to bad, and its names are those of the published wire.

use std::fmt;

/// What a tool does, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionType {
    /// Nothing matched. Not low: nobody knows.
    Unknown,
    /// Reads one thing, or answers from what it is given.
    Read,
    /// Lists things.
    List,
    /// Searches.
    Search,
    /// Changes what there is.
    Update,
    /// Makes something new.
    Write,
    /// Sends something to someone.
    Send,
    /// Gives or takes rights.
    Auth,
    /// Runs or stops what others rely on.
    Admin,
    /// Runs commands or code that the caller gives.
    Execute,
    /// Moves money.
    Payment,
    /// Deletes, or changes what can't be brought back.
    Delete,
}

/// What the action is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// None of the others.
    Unknown,
    /// Reading, searching, records.
    Data,
    /// Messages between people.
    Comms,
    /// Machines and what runs on them.
    Infra,
    /// Money.
    Payments,
}

/// How much one wrong call can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blast {
    /// It only reads data.
    Low,
    /// Anything between.
    Medium,
    /// It moves money, runs code, or changes things with a credential it is given.
    High,
}

/// What a call leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideEffect {
    /// Nothing.
    None,
    /// Changed state on the server's side.
    LocalWrite,
    /// Something that left for someone else.
    Outbound,
    /// Something that is gone or done for good.
    Destructive,
}

/// Whether a call can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reversibility {
    /// It can.
    Reversible,
    /// It can with work.
    HardToReverse,
    /// It can't.
    Irreversible,
}

/// Where data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Egress {
    /// Nowhere.
    None,
    /// To the service behind the tool.
    Internal,
    /// To an address or a person that the caller names.
    External,
}

/// How far the tool may run without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ceiling {
    /// Anywhere.
    Discovery,
    /// Where changes can be taken back.
    Reversible,
    /// After a person agreed.
    NeedsApproval,
    /// Never alone.
    NeverUnattended,
}

/// How the tool's arguments pick what it acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// They don't.
    Literal,
    /// One at a time.
    SingleArgument,
    /// By a pattern.
    Glob,
    /// Many at once.
    Wildcard,
}

/// How much that selection reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One thing.
    Narrow,
    /// Several.
    Broad,
    /// No end that the schema names.
    Unbounded,
}

/// What a person should know beside the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RiskNote {
    /// It says that it only reads, and something else says otherwise.
    ReadOnlyHintContradicted,
    /// What it does can't be undone by another call.
    NoUndo,
}

/// The types whose widening is never benign.
pub(super) const DRASTIC: [ActionType; 4] = [
    ActionType::Delete,
    ActionType::Payment,
    ActionType::Execute,
    ActionType::Admin,
];

impl ActionType {
    /// Whether it is delete, payment, execute or admin: a delete that no longer needs its target is not benign.
    pub fn is_drastic(self) -> bool {
        DRASTIC.contains(&self)
    }

    /// Whether it leaves the world other than it was.
    pub fn changes(self) -> bool {
        self >= ActionType::Update
    }
}

impl ActionType {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            ActionType::Unknown => "unknown",
            ActionType::Read => "read",
            ActionType::List => "list",
            ActionType::Search => "search",
            ActionType::Update => "update",
            ActionType::Write => "write",
            ActionType::Send => "send",
            ActionType::Auth => "auth",
            ActionType::Admin => "admin",
            ActionType::Execute => "execute",
            ActionType::Payment => "payment",
            ActionType::Delete => "delete",
        }
    }
}

impl Domain {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Domain::Unknown => "unknown",
            Domain::Data => "data",
            Domain::Comms => "comms",
            Domain::Infra => "infra",
            Domain::Payments => "payments",
        }
    }
}

impl Blast {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Blast::Low => "low",
            Blast::Medium => "med",
            Blast::High => "high",
        }
    }
}

impl SideEffect {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            SideEffect::None => "none",
            SideEffect::LocalWrite => "local-write",
            SideEffect::Outbound => "outbound",
            SideEffect::Destructive => "destructive",
        }
    }
}

impl Reversibility {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Reversibility::Reversible => "reversible",
            Reversibility::HardToReverse => "hard-to-reverse",
            Reversibility::Irreversible => "irreversible",
        }
    }
}

impl Egress {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Egress::None => "none",
            Egress::Internal => "internal",
            Egress::External => "external",
        }
    }
}

impl Ceiling {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Ceiling::Discovery => "discovery",
            Ceiling::Reversible => "reversible",
            Ceiling::NeedsApproval => "needs-approval",
            Ceiling::NeverUnattended => "never-unattended",
        }
    }
}

impl Selection {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Selection::Literal => "literal",
            Selection::SingleArgument => "single-arg",
            Selection::Glob => "glob",
            Selection::Wildcard => "wildcard",
        }
    }
}

impl Scope {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Narrow => "narrow",
            Scope::Broad => "broad",
            Scope::Unbounded => "unbounded",
        }
    }
}

impl RiskNote {
    /// Its name on the wire and in reports.
    pub fn name(self) -> &'static str {
        match self {
            RiskNote::ReadOnlyHintContradicted => "annotation_contradicts_probe",
            RiskNote::NoUndo => "destructive_no_undo_path",
        }
    }
}

impl fmt::Display for ActionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
