//! Calls: which go on to the server, which wait for a list, which are refused.
//!
//! Invariant: no call goes on before the whole list that it is judged by was compared with readable pins; a call that was
//! never sent on is answered by the gate, once.

use std::time::Instant;

use mcpindex_contract::posture::{Decision, Posture};

use crate::gate::comparison::reason;
use crate::gate::event::Event;
use crate::gate::hold::{Hold, HoldClass};
use crate::gate::ids::Id;
use crate::gate::judgement::Standing;
use crate::gate::open::{Open, Purpose};
use crate::gate::refusal::held_answer;
use crate::gate::short_text::ShortText;
use crate::gate::{Channel, Gate, Output, send_to_client};

/// One call of the client.
pub(super) struct Call {
    pub(super) channel: Channel,
    pub(super) id: Id,
    /// The id as the client spells it.
    pub(super) id_text: ShortText,
    pub(super) tool: ShortText,
    pub(super) message: Vec<u8>,
}

/// A call that waits for a list.
pub(super) struct WaitingCall {
    call: Call,
    /// The list must have been asked for at this moment or later.
    needs: u64,
    deadline: Instant,
}

impl WaitingCall {
    /// When it is decided without a list.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Gate {
    /// A call came in whose id is not open.
    pub(super) fn call(&mut self, call: Call, now: Instant, outputs: &mut Vec<Output>) {
        if std::mem::take(&mut self.is_drill_armed) {
            let hold = self.gate_hold(
                &call.tool,
                HoldClass::Drill,
                Decision::Hold,
                "Staged by `mcpindex wire --drill`: nothing about the tool changed, and the call was not sent.",
            );
            return refuse(&call, hold, outputs);
        }
        let needs = self.listings.moment_due(now);
        if self.listings.is_current(now) {
            return self.decide(call, now, outputs);
        }
        self.wait(call, needs, now, outputs);
    }

    fn wait(&mut self, call: Call, needs: u64, now: Instant, outputs: &mut Vec<Output>) {
        let bytes: usize = self.waiting_bytes + call.message.len();
        if bytes > self.options.limits.message_bytes {
            return self.decide_unlisted(call, "too many calls wait for the list of tools", outputs);
        }
        let open = Open::new(call.channel, call.id_text.clone(), Purpose::WaitingCall);
        if let Err(refused) = self.open.begin(call.id.clone(), open) {
            return self.refuse_opening(&refused, call.channel, outputs);
        }
        self.waiting_bytes = bytes;
        self.waiting.push_back(WaitingCall {
            call,
            needs,
            deadline: now + self.options.list_timeout,
        });
        self.pursue_listing(now, outputs);
    }

    /// Decides about the calls that a list came for, in the order they came in.
    pub(super) fn release_calls(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        while let Some(first) = self.waiting.front()
            && self
                .listings
                .whole
                .as_ref()
                .is_some_and(|whole| whole.moment >= first.needs)
        {
            if let Some(call) = self.next_waiting() {
                self.decide(call, now, outputs);
            }
        }
    }

    /// Decides about the calls that waited too long.
    pub(super) fn give_up_calls(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        while self.waiting.front().is_some_and(|first| first.deadline <= now) {
            if let Some(call) = self.next_waiting() {
                let waited = self.options.list_timeout.as_secs_f32();
                let why = match self.speech.may_ask() {
                    true => format!("none came within {waited} s"),
                    false => format!("the client did not say within {waited} s that it is initialized"),
                };
                self.decide_unlisted(call, &why, outputs);
            }
        }
    }

    /// There will be no list: decides about every call that waits.
    pub(super) fn hold_waiting_calls(&mut self, reason: &str, outputs: &mut Vec<Output>) {
        while let Some(call) = self.next_waiting() {
            self.decide_unlisted(call, &format!("it could not be read: {reason}"), outputs);
        }
    }

    /// The client wants no answer to a call that waits: it is not sent on.
    pub(super) fn forget_waiting(&mut self, id: &Id) {
        self.waiting.retain(|waiting| waiting.call.id != *id);
        self.waiting_bytes = self
            .waiting
            .iter()
            .map(|waiting| waiting.call.message.len())
            .sum();
        self.open.end(id);
    }

    fn next_waiting(&mut self) -> Option<Call> {
        let call = self.waiting.pop_front()?.call;
        self.waiting_bytes -= call.message.len();
        self.open.end(&call.id);
        Some(call)
    }

    /// Decides by the last whole list.
    fn decide(&mut self, call: Call, now: Instant, outputs: &mut Vec<Output>) {
        let mut hold = self.hold_on(&call.tool);
        let may_have_moved = match hold {
            // An approval can be taken back, and pins can be lost, while the server's list stays the same.
            None => {
                self.judge.organisation_has_moved() || self.is_look_at_pins_due(now) && self.judge.has_moved()
            }
            Some(_) => self.pins_may_have_moved(now),
        };
        if may_have_moved {
            self.reconsider(outputs);
            hold = self.hold_on(&call.tool);
        }
        match hold {
            None => self.send_on(call, outputs),
            Some(hold) => self.held(call, hold, outputs),
        }
    }

    fn decide_unlisted(&mut self, call: Call, why: &str, outputs: &mut Vec<Output>) {
        let sentence = format!("There is no list of tools to judge the call by: {why}.");
        let hold = self.gate_hold(
            &call.tool,
            HoldClass::NoListing,
            Decision::Inconclusive,
            &sentence,
        );
        self.held(call, hold, outputs);
    }

    /// Refuses the call, or under monitor notes that it would be.
    fn held(&mut self, call: Call, mut hold: Hold, outputs: &mut Vec<Output>) {
        if self.options.posture != Posture::Monitor || hold.class == HoldClass::PinsUnusable {
            return refuse(&call, hold, outputs);
        }
        hold.decision = Decision::Proceed;
        if self.told.first("withheld", &hold.tool, &hold.mark()) {
            outputs.push(Output::from(Event::Withheld(hold)));
        }
        self.send_on(call, outputs);
    }

    fn send_on(&mut self, call: Call, outputs: &mut Vec<Output>) {
        let Call {
            channel,
            id,
            id_text,
            tool,
            message,
        } = call;
        let tool = self.options.scan_results.then(|| (*tool).to_owned());
        let open = Open::new(channel, id_text, Purpose::Call { tool });
        self.send_request(id, open, message, outputs);
    }

    /// Why a call of this tool is held by the last whole list; `None` when it proceeds.
    fn hold_on(&self, tool: &str) -> Option<Hold> {
        let Some(whole) = &self.listings.whole else {
            let sentence = "There is no list of tools to judge the call by.";
            return Some(self.gate_hold(tool, HoldClass::NoListing, Decision::Inconclusive, sentence));
        };
        match whole.judgement.standing(tool) {
            Ok(Some(Standing::Proceeds)) => None,
            Ok(Some(Standing::Held(hold))) => Some(Hold::clone(hold)),
            Ok(None) => Some(self.gate_hold(
                tool,
                HoldClass::NotListed,
                Decision::Hold,
                "The server's last list of tools has no tool of this name.",
            )),
            Err(error) => Some(self.gate_hold(
                tool,
                HoldClass::PinsUnusable,
                Decision::Inconclusive,
                &error.to_string(),
            )),
        }
    }

    /// A hold that is a matter of the gate, not of a definition.
    pub(super) fn gate_hold(&self, tool: &str, class: HoldClass, decision: Decision, sentence: &str) -> Hold {
        Hold {
            server: self.options.server.clone(),
            tool: tool.to_owned(),
            class,
            decision,
            reasons: vec![reason(class, sentence)],
            changes: Vec::new(),
            markers: Vec::new(),
            approved_digest: None,
            declared_digest: None,
            action: None,
        }
    }
}

fn refuse(call: &Call, hold: Hold, outputs: &mut Vec<Output>) {
    send_to_client(outputs, call.channel, held_answer(&call.id_text, &hold));
    outputs.push(Output::from(Event::CallHeld(hold)));
}
