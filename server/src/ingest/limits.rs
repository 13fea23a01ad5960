//! How much one address may send and ask: counters in memory, of fixed windows.
//!
//! They are for each process alone, which is enough to keep one sender from crowding out the others. An IPv6 sender is its
//! /64, since a host may take any address in it.
//!
//! Invariant: memory is bounded: when too many addresses are counted, further ones share one counter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use mcpindex::clock::Clock;

/// Counters that are kept.
const MOST: usize = 50_000;

/// How much one address may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rates {
    /// Batches of signals a minute.
    pub batches_per_minute: u64,
    /// Signals an hour.
    pub signals_per_hour: u64,
    /// Fingerprints asked for a minute.
    pub lookups_per_minute: u64,
    /// Install tokens given, rotated or taken back a minute.
    pub registrations_per_minute: u64,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    Batches,
    Signals,
    Lookups,
    Registrations,
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

    /// Uses up `amount` for this address; false, and nothing used, when that is more than is left.
    pub(crate) fn allows(&self, counted: Counted, address: IpAddr, amount: u64) -> bool {
        let (rate, length) = match counted {
            Counted::Batches => (self.rates.batches_per_minute, 60),
            Counted::Signals => (self.rates.signals_per_hour, 3_600),
            Counted::Lookups => (self.rates.lookups_per_minute, 60),
            Counted::Registrations => (self.rates.registrations_per_minute, 60),
        };
        let now = self.clock.unix_seconds();
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (counted, Some(part(address)));
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
        let used = window.used.saturating_add(amount);
        let allowed = used <= rate;
        if allowed {
            window.used = used;
        }
        allowed
    }
}

/// The part of an address that is one sender.
fn part(address: IpAddr) -> [u8; 8] {
    let octets = match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            // An IPv4 address has its bytes in the half that is taken below.
            octets.copy_within(0..8, 8);
            octets
        }
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
            signals_per_hour: 1,
            lookups_per_minute: 1,
            registrations_per_minute: 1,
        };
        (Limits::new(rates, Arc::<Hand>::clone(&hand)), hand)
    }

    #[test]
    fn each_address_has_its_own_window() {
        let (limits, hand) = limits(3);
        let allows =
            |address: &str, amount| limits.allows(Counted::Batches, address.parse().unwrap(), amount);
        assert!(allows("192.0.2.1", 2));
        assert!(!allows("192.0.2.1", 2), "more than is left");
        assert!(allows("192.0.2.1", 1));
        assert!(allows("192.0.2.2", 3));
        assert!(allows("2001:db8::1", 3));
        assert!(!allows("2001:db8::2", 1), "the same /64");
        assert!(allows("2001:db8:0:1::1", 1));
        assert!(limits.allows(Counted::Signals, "192.0.2.1".parse().unwrap(), 1));
        hand.0.store(180, Ordering::Relaxed);
        assert!(allows("192.0.2.1", 3));
    }

    #[test]
    fn too_many_addresses_share_one_counter() {
        let (limits, hand) = limits(1);
        let allows = |number: usize| {
            let address = Ipv4Addr::from_bits(u32::try_from(number).unwrap());
            limits.allows(Counted::Batches, address.into(), 1)
        };
        assert!((0..MOST).all(allows));
        assert!(allows(MOST));
        assert!(!allows(MOST + 1));
        assert!(limits.windows.lock().unwrap().len() <= MOST + 1);
        hand.0.store(180, Ordering::Relaxed);
        assert!(allows(MOST + 1));
    }
}
