//! How many distinct things were seen: exactly below 1,000, then by HyperLogLog (p = 12, 4 KiB, 1.6 % standard error).
//!
//! What is kept of a thing is 64 bits of its SHA-256. The estimate is Ertl's (arXiv:1702.01284, algorithm 6), which needs
//! no table of corrections. Stored: a byte 1 and the sorted numbers, big-endian, or a byte 2 and the 4,096 registers.
//!
//! Invariant: adding and merging are idempotent and of any order; the same things give the same bytes.

use sha2::{Digest as _, Sha256};

use crate::StoreError;

/// From so many on it is estimated.
pub(crate) const EXACT: usize = 1_000;
const PRECISION: u32 = 12;
const REGISTERS: usize = 1 << PRECISION;
/// Bits of a number that are not its register.
const REST: u32 = 64 - PRECISION;

const EXACT_FORM: u8 = 1;
const REGISTER_FORM: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sketch {
    /// Sorted, each once.
    Exact(Vec<u64>),
    Registers(Box<[u8; REGISTERS]>),
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch::Exact(Vec::new())
    }
}

fn number(thing: &[u8]) -> u64 {
    let hash: [u8; 32] = Sha256::digest(thing).into();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_be_bytes(first)
}

impl Sketch {
    pub(crate) fn add(&mut self, thing: &[u8]) {
        self.add_number(number(thing));
    }

    fn add_number(&mut self, number: u64) {
        match self {
            Sketch::Exact(numbers) => {
                if let Err(place) = numbers.binary_search(&number) {
                    numbers.insert(place, number);
                }
                if numbers.len() >= EXACT {
                    let mut registers = Box::new([0; REGISTERS]);
                    numbers.iter().for_each(|number| raise(&mut registers, *number));
                    *self = Sketch::Registers(registers);
                }
            }
            Sketch::Registers(registers) => raise(registers, number),
        }
    }

    pub(crate) fn merge(&mut self, other: &Sketch) {
        match other {
            Sketch::Exact(numbers) => numbers.iter().for_each(|number| self.add_number(*number)),
            Sketch::Registers(others) => {
                let mut merged = others.clone();
                match self {
                    Sketch::Exact(numbers) => numbers.iter().for_each(|number| raise(&mut merged, *number)),
                    Sketch::Registers(registers) => {
                        for (one, other) in merged.iter_mut().zip(registers.iter()) {
                            *one = (*one).max(*other);
                        }
                    }
                }
                *self = Sketch::Registers(merged);
            }
        }
    }

    /// Takes one thing out again where that can be done; registers keep no thing that could be named.
    pub(crate) fn remove(&mut self, thing: &[u8]) -> bool {
        let Sketch::Exact(numbers) = self else {
            return false;
        };
        let place = numbers.binary_search(&number(thing));
        place.map(|place| numbers.remove(place)).is_ok()
    }

    pub(crate) fn count(&self) -> u64 {
        match self {
            Sketch::Exact(numbers) => u64::try_from(numbers.len()).unwrap_or(u64::MAX),
            Sketch::Registers(registers) => estimate(registers),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Sketch::Exact(numbers) => {
                let mut bytes = Vec::with_capacity(1 + numbers.len() * 8);
                bytes.push(EXACT_FORM);
                numbers
                    .iter()
                    .for_each(|number| bytes.extend(number.to_be_bytes()));
                bytes
            }
            Sketch::Registers(registers) => {
                let mut bytes = Vec::with_capacity(1 + REGISTERS);
                bytes.push(REGISTER_FORM);
                bytes.extend(registers.iter());
                bytes
            }
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Sketch, StoreError> {
        let corrupt = || StoreError::Corrupt {
            what: format!("a distinct count of {} bytes", bytes.len()),
        };
        match bytes.split_first() {
            Some((&EXACT_FORM, numbers)) => {
                let (numbers, rest) = numbers.as_chunks::<8>();
                let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_be_bytes).collect();
                let sorted = numbers.is_sorted_by(|one, next| one < next);
                if !rest.is_empty() || !sorted {
                    return Err(corrupt());
                }
                Ok(Sketch::Exact(numbers))
            }
            Some((&REGISTER_FORM, registers)) => {
                let registers: [u8; REGISTERS] = registers.try_into().map_err(|_| corrupt())?;
                if registers.iter().any(|register| u32::from(*register) > REST + 1) {
                    return Err(corrupt());
                }
                Ok(Sketch::Registers(Box::new(registers)))
            }
            _ => Err(corrupt()),
        }
    }
}

fn raise(registers: &mut [u8; REGISTERS], number: u64) {
    let register = usize::try_from(number >> REST).unwrap_or(0);
    // The place of the first 1 in the rest, from 1; past the end when there is none.
    let rank = ((number << PRECISION).leading_zeros() + 1).min(REST + 1);
    if let Some(register) = registers.get_mut(register) {
        *register = (*register).max(u8::try_from(rank).unwrap_or(u8::MAX));
    }
}

fn estimate(registers: &[u8; REGISTERS]) -> u64 {
    let all = REGISTERS as f64;
    let mut counts = [0_u32; 66];
    for register in registers {
        counts[usize::from(*register).min(65)] += 1;
    }
    let share = |rank: u32| f64::from(counts[rank as usize]) / all;
    let mut sum = all * tau(1.0 - share(REST + 1));
    for rank in (1..=REST).rev() {
        sum = 0.5 * (sum + f64::from(counts[rank as usize]));
    }
    sum += all * sigma(share(0));
    // All registers empty makes the sum infinite and the estimate 0. The cast rounds what is no number to 0.
    (all * all / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(things: std::ops::Range<u32>) -> Sketch {
        let mut sketch = Sketch::default();
        things.for_each(|thing| sketch.add(&thing.to_be_bytes()));
        sketch
    }

    #[test]
    fn below_a_thousand_every_count_is_exact() {
        for count in [0, 1, 2, 500, 999] {
            let mut sketch = of(0..count);
            sketch.merge(&of(0..count));
            assert_eq!(sketch.count(), u64::from(count));
        }
    }

    #[test]
    fn from_a_thousand_on_it_is_near() {
        for count in [1_000, 1_500, 5_000, 10_000, 12_000, 50_000, 200_000] {
            let estimated = of(0..count).count() as f64;
            let error = (estimated / f64::from(count) - 1.0).abs();
            // Four standard errors; the numbers are always the same, so this holds or it doesn't.
            assert!(error < 0.065, "{count}: {estimated}");
        }
        assert_eq!(estimate(&[0; REGISTERS]), 0);
    }

    #[test]
    fn merging_is_adding_in_any_order_and_form() {
        for (one, other) in [
            (0..10, 5..20),
            (0..800, 700..1_600),
            (0..3_000, 2_000..2_100),
            (0..2_000, 1_000..9_000),
        ] {
            let whole = of(one.start..other.end.max(one.end));
            let (mut left, mut right) = (of(one.clone()), of(other.clone()));
            left.merge(&of(other));
            right.merge(&of(one));
            assert_eq!(left, whole);
            assert_eq!(right, whole);
        }
    }

    #[test]
    fn a_count_comes_back_from_its_bytes_and_nothing_else_does() {
        for count in [0, 1, 999, 1_000, 5_000] {
            let sketch = of(0..count);
            assert_eq!(Sketch::from_bytes(&sketch.to_bytes()).unwrap(), sketch);
        }
        for bytes in [
            &b""[..],
            b"\x03",
            b"\x01123",
            b"\x02",
            &[[2].as_slice(), &[60; REGISTERS]].concat(),
        ] {
            assert!(Sketch::from_bytes(bytes).is_err());
        }
        let twice = [[1].as_slice(), &[0; 16]].concat();
        assert!(Sketch::from_bytes(&twice).is_err());
    }

    #[test]
    fn one_thing_can_be_taken_out_of_an_exact_count() {
        let mut sketch = of(0..3);
        assert!(sketch.remove(&1_u32.to_be_bytes()));
        assert!(!sketch.remove(&1_u32.to_be_bytes()));
        assert_eq!(sketch.count(), 2);
    }
}
