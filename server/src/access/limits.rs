//! How much one address, one key, may do: counters in memory, of fixed windows.
//!
//! They are for each process alone, which is enough to keep one sender from crowding out the others. An IPv6 sender is its
//! /64, since a host may take any address in it.
//!
//! Invariant: memory is bounded: when too many senders are counted, further ones share one counter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use mcpindex::clock::Clock;
use sha2::{Digest as _, Sha256};

/// Counters that are kept.
const MOST: usize = 50_000;

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

/// Seconds after which a sender that was limited may come again: the length of a minute's window.
pub(crate) const COME_AGAIN: u64 = 60;

/// How much one sender may do, as the settings say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rates {
    /// Batches of signals a minute from one address.
    pub batches_per_minute: u64,
    /// Signals an hour from one address.
    pub signals_per_hour: u64,
    /// Fingerprints asked for a minute from one address.
    pub lookups_per_minute: u64,
    /// Install tokens given, rotated or taken back a minute for one address.
    pub registrations_per_minute: u64,
    /// Batches of signals a minute with one key, whatever the addresses.
    pub key_batches_per_minute: u64,
    /// Signals an hour with one key.
    pub key_signals_per_hour: u64,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates {
            batches_per_minute: 120,
            signals_per_hour: 10_000,
            lookups_per_minute: 600,
            registrations_per_minute: 10,
            key_batches_per_minute: 1_200,
            key_signals_per_hour: 100_000,
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    Batches,
    Signals,
    /// Batches of receipts; as many are allowed as batches of signals.
    ReceiptBatches,
    /// Receipts; as many are allowed as signals.
    Receipts,
    Lookups,
    Registrations,
    KeyBatches,
    KeySignals,
    /// Sign-ins begun.
    LoginStart,
    /// One-time codes tried.
    CodeRedeemed,
    /// User codes of the device grant typed in.
    DeviceEntry,
    /// Questions of devices whether somebody has decided.
    DevicePoll,
    /// Keys that were looked up and are none, or none any more.
    FailedKey,
    /// Keys reported as leaked.
    LeakReport,
    /// Set-up codes typed in.
    SetupCode,
}

/// Who is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender<'s> {
    Address(IpAddr),
    /// A key, by its public id.
    Key(&'s str),
}

impl From<IpAddr> for Sender<'_> {
    fn from(address: IpAddr) -> Self {
        Sender::Address(address)
    }
}

/// A counter of one sender, or the one that those share for whom there is no room.
type Key = (Counted, Option<[u8; 8]>);

/// The counters.
pub(crate) struct Limits {
    rates: Rates,
    clock: Arc<dyn Clock>,
    windows: Mutex<HashMap<Key, Window>>,
}

/// One window of time: its number, and how much of it is used.
#[derive(Clone, Copy)]
struct Window {
    number: i64,
    length: i64,
    used: u64,
}

impl Limits {
    pub(crate) fn new(rates: Rates, clock: Arc<dyn Clock>) -> Limits {
        Limits {
            rates,
            clock,
            windows: Mutex::default(),
        }
    }

    /// How much is allowed in a window of how many seconds.
    fn rate(&self, counted: Counted) -> (u64, i64) {
        match counted {
            Counted::Batches | Counted::ReceiptBatches => (self.rates.batches_per_minute, MINUTE),
            Counted::Signals | Counted::Receipts => (self.rates.signals_per_hour, HOUR),
            Counted::Lookups => (self.rates.lookups_per_minute, MINUTE),
            Counted::Registrations => (self.rates.registrations_per_minute, MINUTE),
            Counted::KeyBatches => (self.rates.key_batches_per_minute, MINUTE),
            Counted::KeySignals => (self.rates.key_signals_per_hour, HOUR),
            Counted::LoginStart => (20, MINUTE),
            Counted::CodeRedeemed | Counted::DeviceEntry | Counted::SetupCode => (10, MINUTE),
            Counted::FailedKey | Counted::LeakReport => (60, MINUTE),
            // Twenty devices at their pace of five seconds.
            Counted::DevicePoll => (240, MINUTE),
        }
    }

    /// Uses up `amount` for this sender; false, and nothing used, when that is more than is left.
    pub(crate) fn allows<'s>(&self, counted: Counted, sender: impl Into<Sender<'s>>, amount: u64) -> bool {
        let (rate, length) = self.rate(counted);
        self.with_window(counted, sender.into(), length, |window| {
            let used = window.used.saturating_add(amount);
            let allowed = used <= rate;
            if allowed {
                window.used = used;
            }
            allowed
        })
    }

    /// Whether this sender may still do it, without using anything up.
    pub(crate) fn has_left<'s>(&self, counted: Counted, sender: impl Into<Sender<'s>>) -> bool {
        let (rate, length) = self.rate(counted);
        self.with_window(counted, sender.into(), length, |window| window.used < rate)
    }

    fn with_window<T>(
        &self,
        counted: Counted,
        sender: Sender<'_>,
        length: i64,
        then: impl FnOnce(&mut Window) -> T,
    ) -> T {
        let now = self.clock.unix_seconds();
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (counted, Some(part(sender)));
        if windows.len() >= MOST && !windows.contains_key(&key) {
            windows.retain(|_, window| window.number == now.div_euclid(window.length));
            if windows.len() >= MOST {
                key = (counted, None);
            }
        }
        let number = now.div_euclid(length);
        let fresh = Window {
            number,
            length,
            used: 0,
        };
        let window = windows.entry(key).or_insert(fresh);
        if window.number != number {
            *window = fresh;
        }
        then(window)
    }
}

/// What tells one sender from another.
fn part(sender: Sender<'_>) -> [u8; 8] {
    let octets = match sender {
        Sender::Key(id) => {
            let mut part = [0; 8];
            part.copy_from_slice(&Sha256::digest(id.as_bytes())[..8]);
            return part;
        }
        Sender::Address(address) => match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => {
                let mut octets = address.octets();
                // An IPv4 address has its bytes in the half that is taken below.
                octets.copy_within(0..8, 8);
                octets
            }
        },
    };
    let mut part = [0; 8];
    part.copy_from_slice(&octets[8..]);
    part
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn unix_seconds(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn limits(batches_per_minute: u64) -> (Limits, Arc<Hand>) {
        let hand = Arc::new(Hand(AtomicI64::new(120)));
        let rates = Rates {
            batches_per_minute,
            ..Rates::default()
        };
        (Limits::new(rates, Arc::<Hand>::clone(&hand)), hand)
    }

    #[test]
    fn each_address_has_its_own_window() {
        let (limits, hand) = limits(3);
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let allows = |text: &str, amount| limits.allows(Counted::Batches, address(text), amount);
        assert!(allows("192.0.2.1", 2));
        assert!(!allows("192.0.2.1", 2), "more than is left");
        assert!(allows("192.0.2.1", 1));
        assert!(allows("192.0.2.2", 3));
        assert!(allows("2001:db8::1", 3));
        assert!(!allows("2001:db8::2", 1), "the same /64");
        assert!(allows("2001:db8:0:1::1", 1));
        assert!(limits.allows(Counted::Signals, address("192.0.2.1"), 1));
        hand.0.store(180, Ordering::Relaxed);
        assert!(allows("192.0.2.1", 3));
    }

    #[test]
    fn a_key_is_counted_by_itself_and_looking_uses_nothing_up() {
        let (limits, _) = limits(3);
        let key = |id| Sender::Key(id);
        assert!(limits.allows(Counted::KeyBatches, key("key_1"), 1_200));
        assert!(!limits.has_left(Counted::KeyBatches, key("key_1")));
        assert!(!limits.allows(Counted::KeyBatches, key("key_1"), 1));
        for _ in 0..3 {
            assert!(limits.has_left(Counted::KeyBatches, key("key_2")));
        }
        assert!(limits.allows(Counted::KeyBatches, key("key_2"), 1_200));
    }

    #[test]
    fn too_many_addresses_share_one_counter() {
        let (limits, hand) = limits(1);
        let allows = |number: usize| {
            let address = Ipv4Addr::from_bits(u32::try_from(number).unwrap());
            limits.allows(Counted::Batches, IpAddr::from(address), 1)
        };
        assert!((0..MOST).all(allows));
        assert!(allows(MOST));
        assert!(!allows(MOST + 1));
        assert!(limits.windows.lock().unwrap().len() <= MOST + 1);
        hand.0.store(180, Ordering::Relaxed);
        assert!(allows(MOST + 1));
    }
}
