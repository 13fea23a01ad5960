//! A chain of decisions as an index writes it.

use mcpindex::approvals::{MAX_AGE, View};
use mcpindex_contract::approval::{DEFAULT_TENANT, Decision, Head, Record};
use mcpindex_contract::digest::Digest;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain {
    pub(crate) records: Vec<Record>,
}

impl Chain {
    pub(crate) fn head(&self) -> Head {
        match self.records.last() {
            None => Head::empty(DEFAULT_TENANT),
            Some(last) => Head {
                sequence: last.sequence,
                hash: last.hash(),
            },
        }
    }

    /// The next decision, for good and by one person.
    pub(crate) fn decide(&mut self, identity: &str, tool: &str, digest: Digest, decision: Decision) {
        self.add(identity, tool, digest, decision, |_| {});
    }

    /// The next decision, with whatever else there is to it.
    pub(crate) fn add(
        &mut self,
        identity: &str,
        tool: &str,
        digest: Digest,
        decision: Decision,
        change: impl FnOnce(&mut Record),
    ) {
        let head = self.head();
        let mut record = Record {
            tenant: DEFAULT_TENANT.to_owned(),
            sequence: head.sequence + 1,
            subject: "ann@github".to_owned(),
            identity: identity.to_owned(),
            tool: tool.to_owned(),
            digest,
            decision,
            needed: 1,
            reason: None,
            reference: None,
            expires_at: None,
            at: 1_700_000_000,
            before: head.hash,
        };
        change(&mut record);
        self.records.push(record);
    }

    /// What gates see of it when the index was heard at this time.
    pub(crate) fn view(&self, heard_at: i64) -> View {
        View::of(&self.records, self.head(), heard_at, MAX_AGE)
    }
}
