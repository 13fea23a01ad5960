//! Whether a record says what was written: each text must hash to the digest that it stands under.
//!
//! All of it is checked when a file is read, not each part when it is used: whoever has a record may then trust every part, and
//! a damaged one is an error of the whole. What was checked before is not hashed again.
//!
//! Invariant: an update by another process costs only the parts that it changed.

use mcpindex_contract::definition::Definition;
use mcpindex_contract::surface::{Instructions, Member, MemberKind};

use super::record::{Pin, Record};

impl Record {
    /// Whether every text hashes to the digest it stands under, and every baseline is of its own tool; else what does not
    /// fit. What stands in `known` to the letter was verified before and is not hashed again.
    pub(super) fn verify(&self, known: &Record) -> Result<(), String> {
        for (name, tool) in &self.tools {
            let before = known.tools.get(name);
            if before == Some(tool) {
                continue;
            }
            if let Some(pin) = &tool.baseline
                && before.and_then(|before| before.baseline.as_ref()) != Some(pin)
            {
                verify_baseline(name, pin)?;
            }
            for (digest, held) in &tool.held {
                if Definition::read(&held.definition).digest().to_string() != *digest {
                    return Err(format!("what is held of `{name}` does not hash to {digest}"));
                }
            }
        }
        let instructions = self.instructions.iter().flatten();
        let instructions = instructions.map(|pin| (&pin.digest, &pin.literal));
        let held = self.held_instructions.iter();
        let held = held.map(|(digest, held)| (digest, &held.definition));
        for (digest, literal) in instructions.chain(held) {
            if Instructions::read(literal).is_none_or(|read| read.digest.to_string() != *digest) {
                return Err(format!("the instructions do not hash to {digest}"));
            }
        }
        for (kind, members) in &self.members {
            let before = known.members.get(kind);
            for (name, member) in members {
                if before.and_then(|before| before.get(name)) == Some(member) {
                    continue;
                }
                if Definition::read(&member.definition).digest().to_string() != member.digest {
                    return Err(format!("the {kind} `{name}` does not hash to {}", member.digest));
                }
            }
        }
        Ok(())
    }
}

fn verify_baseline(name: &str, pin: &Pin) -> Result<(), String> {
    let Member {
        name: its_name,
        definition,
        ..
    } = Member::read(MemberKind::Tool, &pin.definition);
    if definition.no_digest().is_some() || definition.digest().to_string() != pin.digest {
        return Err(format!("the pin of `{name}` does not hash to {}", pin.digest));
    }
    if definition.meta().map(|meta| meta.digest.to_string()) != pin.meta_digest {
        return Err(format!("the `_meta` of `{name}` does not hash to its digest"));
    }
    if its_name != name {
        return Err(format!("the pin of `{name}` is a definition of another tool"));
    }
    Ok(())
}
