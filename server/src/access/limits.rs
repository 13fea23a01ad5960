//! How much one address, one key, may do: counters in memory, of fixed windows.
//!
//! They are for each process alone, which is enough to keep one sender from crowding out the others. An IPv6 sender is its
//! /64, since a host may take any address in it; and all of a /48 together are one sender of larger means ([`SITE`]).
//!
//! Invariant: memory is bounded: when too many senders are counted, further ones of their kind share one counter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use mcpindex::clock::Clock;
use sha2::{Digest as _, Sha256};

/// Counters that are kept of each kind of sender: IPv4 addresses, IPv6 networks, keys, accounts.
/// A flood of one kind leaves the others alone.
const MOST: usize = 50_000;

/// What an IPv6 /48 may do, in times of what one sender may, and so many of its /64s have counters of their own; what comes from
/// the rest counts for the /48 alone.
///
/// Providers give a customer a /48 for the asking, which is 65,536 senders when only /64s are counted: enough to be counted as
/// many, and to fill any table. Counted by /48 alone, all customers of a provider that shares one out would be one sender. So both
/// are counted, as public services do whose limits are by address: Let's Encrypt lets 10 accounts be made from an address, and
/// 500 from a /48.
const SITE: u64 = 50;

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

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
    /// Keys made or rotated, of one account.
    KeyMade,
}

/// Who is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender<'s> {
    Address(IpAddr),
    /// A key, by its public id.
    Key(&'s str),
    /// An account, by its number.
    Account(i64),
}

impl From<IpAddr> for Sender<'_> {
    fn from(address: IpAddr) -> Self {
        Sender::Address(address)
    }
}

/// Who shares a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Who {
    Address([u8; 4]),
    /// An IPv6 /64.
    Network([u8; 8]),
    /// An IPv6 /48.
    Site([u8; 6]),
    Key([u8; 8]),
    Account(i64),
    /// Those for whom there is no room.
    Rest,
}

type Counter = (Counted, Who);

/// The counters.
pub(crate) struct Limits {
    rates: Rates,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

/// A table for each kind of sender.
#[derive(Default)]
struct Tables {
    addresses: Table,
    networks: Table,
    keys: Table,
    accounts: Table,
}

#[derive(Default)]
struct Table {
    windows: HashMap<Counter, Window>,
    /// When what is over was last removed: a full table is gone through once a second at most.
    swept_at: i64,
}

/// One window of time: its number, and how much of it is used.
#[derive(Clone, Copy)]
struct Window {
    number: i64,
    length: i64,
    used: u64,
    /// Of a /48: its /64s that were given counters of their own in this window.
    networks: u64,
}

impl Limits {
    pub(crate) fn new(rates: Rates, clock: Arc<dyn Clock>) -> Limits {
        Limits {
            rates,
            clock,
            tables: Mutex::default(),
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
            // Of the most that work at once, a tenth: enough for whoever sets up a fleet, and a year's rows stay listable.
            Counted::KeyMade => (50, HOUR),
            // Twenty devices at their pace of five seconds.
            Counted::DevicePoll => (240, MINUTE),
        }
    }

    /// Seconds after which a sender that was limited may come again: until the window ends.
    pub(crate) fn come_again(&self, counted: Counted) -> u16 {
        let (_, length) = self.rate(counted);
        let left = length - self.clock.unix_seconds().rem_euclid(length);
        u16::try_from(left).unwrap_or(u16::MAX)
    }

    /// Uses up `amount` for this sender; false, and nothing used, when that is more than is left.
    pub(crate) fn allows<'s>(&self, counted: Counted, sender: impl Into<Sender<'s>>, amount: u64) -> bool {
        let (rate, length) = self.rate(counted);
        let now = self.clock.unix_seconds();
        let window = Window::at(now, length);
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let (table, who, site) = match sender.into() {
            Sender::Key(id) => (&mut tables.keys, Who::Key(key_part(id)), None),
            Sender::Account(id) => (&mut tables.accounts, Who::Account(id), None),
            Sender::Address(address) => match address.to_canonical() {
                IpAddr::V4(address) => (&mut tables.addresses, Who::Address(address.octets()), None),
                IpAddr::V6(address) => {
                    let [a, b, c, d, e, f, g, h, ..] = address.octets();
                    let site = Who::Site([a, b, c, d, e, f]);
                    (
                        &mut tables.networks,
                        Who::Network([a, b, c, d, e, f, g, h]),
                        Some(site),
                    )
                }
            },
        };
        let mut counters = Vec::with_capacity(2);
        match site.map(|site| table.place((counted, site), now)) {
            None => counters.push((table.place((counted, who), now), rate)),
            Some(site) if site.1 == Who::Rest => counters.push((site, rate)),
            Some(site) => {
                counters.push((site, rate.saturating_mul(SITE)));
                let network = (counted, who);
                if table.is_counted(network, window) || table.window(site, window).networks < SITE {
                    counters.push((table.place(network, now), rate));
                }
            }
        }
        let fits = counters
            .iter()
            .all(|(counter, most)| table.window(*counter, window).used.saturating_add(amount) <= *most);
        if fits {
            for (counter, _) in &counters {
                table.note(*counter, window, amount);
            }
        }
        fits
    }
}

impl Window {
    /// The one at this time, of which nothing is used.
    fn at(now: i64, length: i64) -> Window {
        Window {
            number: now.div_euclid(length),
            length,
            used: 0,
            networks: 0,
        }
    }
}

impl Table {
    /// The counter itself where it is kept or there is room for it, else the one that those share for whom there is none.
    fn place(&mut self, counter: Counter, now: i64) -> Counter {
        if self.windows.contains_key(&counter) {
            return counter;
        }
        if self.windows.len() >= MOST && self.swept_at != now {
            self.swept_at = now;
            self.windows
                .retain(|_, window| window.number == now.div_euclid(window.length));
        }
        match self.windows.len() < MOST {
            true => counter,
            false => (counter.0, Who::Rest),
        }
    }

    /// What is used of this window; of one that is not kept, nothing.
    fn window(&self, counter: Counter, now: Window) -> Window {
        let kept = self.windows.get(&counter);
        kept.filter(|kept| kept.number == now.number)
            .copied()
            .unwrap_or(now)
    }

    fn is_counted(&self, counter: Counter, now: Window) -> bool {
        let kept = self.windows.get(&counter);
        kept.is_some_and(|kept| kept.number == now.number)
    }

    fn note(&mut self, counter: Counter, now: Window, amount: u64) {
        if let (counted, Who::Network([a, b, c, d, e, f, ..])) = counter
            && !self.is_counted(counter, now)
            && let Some(site) = self.windows.get_mut(&(counted, Who::Site([a, b, c, d, e, f])))
        {
            site.networks += 1;
        }
        let mut window = self.window(counter, now);
        window.used = window.used.saturating_add(amount);
        self.windows.insert(counter, window);
    }
}

/// What tells one key from another.
fn key_part(id: &str) -> [u8; 8] {
    let mut part = [0; 8];
    part.copy_from_slice(&Sha256::digest(id.as_bytes())[..8]);
    part
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
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
    fn who_did_too_much_may_come_again_when_the_window_ends() {
        let (limits, hand) = limits(1);
        hand.0.store(2 * HOUR + 90, Ordering::Relaxed);
        assert_eq!(limits.come_again(Counted::Lookups), 30);
        assert_eq!(limits.come_again(Counted::Signals), 3_510);
        hand.0.store(2 * HOUR, Ordering::Relaxed);
        assert_eq!(limits.come_again(Counted::Signals), 3_600);
    }

    #[test]
    fn a_key_is_counted_by_itself() {
        let (limits, _) = limits(3);
        let key = |id| Sender::Key(id);
        assert!(limits.allows(Counted::KeyBatches, key("key_1"), 1_200));
        assert!(!limits.allows(Counted::KeyBatches, key("key_1"), 1));
        assert!(limits.allows(Counted::KeyBatches, key("key_2"), 1_200));
    }

    /// The `number`th /64 of the `site`th /48 of documentation's own.
    fn network(site: u16, number: u16) -> IpAddr {
        Ipv6Addr::new(0x2001, 0xdb8, site, number, 0, 0, 0, 1).into()
    }

    #[test]
    fn a_48_is_one_sender_of_larger_means_and_its_64s_one_each() {
        let (limits, hand) = limits(3);
        let allows = |site, number| limits.allows(Counted::Batches, network(site, number), 1);
        let granted = |numbers: std::ops::Range<u16>| -> usize {
            let tries = numbers.flat_map(|number| [number; 4]);
            tries.filter(|number| allows(0, *number)).count()
        };
        assert_eq!(granted(0..1), 3, "as one address has");
        assert_eq!(granted(1..60_000), 147, "with the rest, 50 times as much");
        assert!(!allows(0, 60_001));
        assert!(allows(1, 0), "another /48");
        hand.0.store(180, Ordering::Relaxed);
        assert_eq!(granted(60_000..60_001), 3);
    }

    #[test]
    fn a_48_has_room_for_50_of_its_64s_and_crowds_nobody_out() {
        let (limits, _) = limits(1_000);
        for number in 0..u16::MAX {
            assert_eq!(
                limits.allows(Counted::Batches, network(0, number), 1),
                number < 50_000
            );
        }
        let tables = limits.tables.lock().unwrap();
        assert_eq!(tables.networks.windows.len(), 51);
        drop(tables);
        assert!((1..100).all(|site| limits.allows(Counted::Batches, network(site, 0), 1_000)));
    }

    #[test]
    fn too_many_senders_of_one_kind_share_one_counter_and_leave_the_others_alone() {
        let (limits, hand) = limits(1);
        let allows = |number: usize| {
            let address = Ipv4Addr::from_bits(u32::try_from(number).unwrap());
            limits.allows(Counted::Batches, IpAddr::from(address), 1)
        };
        assert!((0..MOST).all(allows));
        assert!(allows(MOST));
        assert!(!allows(MOST + 1));
        assert!(limits.tables.lock().unwrap().addresses.windows.len() <= MOST + 1);
        for site in 0..9 {
            assert!(limits.allows(Counted::Batches, network(site, 0), 1));
            let key = site.to_string();
            assert!(limits.allows(Counted::KeyBatches, Sender::Key(&key), 1_200));
        }
        hand.0.store(180, Ordering::Relaxed);
        assert!(allows(MOST + 1) && allows(MOST + 2), "what is over has gone");
    }
}
