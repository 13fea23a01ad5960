//! Numbers compared as the decimals that were written, since two texts may differ where their doubles don't.
//!
//! Invariant: every [`Decimal`] has one form, so equal numbers are equal values; a text too long to be worth
//! comparing is no `Decimal` at all.

use std::cmp::Ordering;

/// The most digits, and the largest power of ten, that a compared number may have.
const MAX_DIGITS: usize = 400;
const MAX_EXPONENT: i64 = 10_000;

/// The number `0.d1d2d3… × 10^exponent`; no digits are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Without zeros at either end.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Reads a JSON number's text.
    pub(super) fn parse(text: &str) -> Option<Decimal> {
        let (negative, unsigned) = text
            .strip_prefix('-')
            .map_or((false, text), |unsigned| (true, unsigned));
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.len() + fraction.len() > MAX_DIGITS || power.abs() > MAX_EXPONENT {
            return None;
        }
        let all: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|byte| byte - b'0')
            .collect();
        let leading = all.iter().take_while(|digit| **digit == 0).count();
        let trailing = all[leading..]
            .iter()
            .rev()
            .take_while(|digit| **digit == 0)
            .count();
        let digits = all[leading..all.len() - trailing].to_vec();
        if digits.is_empty() {
            return Some(Decimal::zero());
        }
        let exponent = power + i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
        Some(Decimal {
            negative,
            digits,
            exponent,
        })
    }

    fn zero() -> Decimal {
        Decimal {
            negative: false,
            digits: Vec::new(),
            exponent: 0,
        }
    }

    /// Whether it has no fraction.
    pub(super) fn is_whole(&self) -> bool {
        usize::try_from(self.exponent).is_ok_and(|places| places >= self.digits.len())
            || self.digits.is_empty()
    }

    /// The whole number it is, when it is one of at most 30 digits.
    pub(super) fn to_whole(&self) -> Option<i128> {
        if !self.is_whole() || self.exponent > 30 {
            return None;
        }
        let places = usize::try_from(self.exponent).ok()?;
        let padding = std::iter::repeat_n(0, places - self.digits.len());
        let digits = self.digits.iter().copied().chain(padding);
        let size = digits.fold(0_i128, |sum, digit| sum * 10 + i128::from(digit));
        Some(if self.negative { -size } else { size })
    }

    /// The number's text, plain where that is short.
    pub(super) fn to_text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        match self.to_whole() {
            Some(whole) => whole.to_string(),
            None if (-5..=0).contains(&self.exponent) => {
                format!(
                    "{sign}0.{}{digits}",
                    "0".repeat(self.exponent.unsigned_abs() as usize)
                )
            }
            None => match usize::try_from(self.exponent) {
                Ok(places) if places < digits.len() => {
                    format!("{sign}{}.{}", &digits[..places], &digits[places..])
                }
                _ => format!("{sign}0.{digits}e{}", self.exponent),
            },
        }
    }

    /// The largest whole number that is not above it, when it is one of at most 30 digits.
    pub(super) fn floor(&self) -> Option<i128> {
        if self.is_whole() {
            return self.to_whole();
        }
        let whole = usize::try_from(self.exponent).unwrap_or(0);
        if whole > 30 {
            return None;
        }
        let size = self.digits[..whole]
            .iter()
            .fold(0_i128, |sum, digit| sum * 10 + i128::from(*digit));
        Some(if self.negative { -size - 1 } else { size })
    }

    /// The smallest whole number that is not below it, when it is one of at most 30 digits.
    pub(super) fn ceiling(&self) -> Option<i128> {
        Some(if self.is_whole() {
            self.to_whole()?
        } else {
            self.floor()? + 1
        })
    }
}

impl From<i128> for Decimal {
    fn from(number: i128) -> Decimal {
        Decimal::parse(&number.to_string()).unwrap_or_else(Decimal::zero)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let sign = |number: &Decimal| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let by_sign = sign(self).cmp(&sign(other));
        let by_size = (self.exponent, &self.digits).cmp(&(other.exponent, &other.digits));
        by_sign.then(if self.negative { by_size.reverse() } else { by_size })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_as_written() {
        let texts = [
            "-1e300",
            "-10",
            "-1.5",
            "-1",
            "-0.1",
            "0",
            "1e-9",
            "0.1",
            "0.10000000000000000001",
            "1",
            "9.99",
            "10",
            "999999",
            "1e6",
            "1000000.5",
            "1e300",
        ];
        let numbers: Vec<Decimal> = texts.iter().map(|text| Decimal::parse(text).unwrap()).collect();
        assert!(numbers.is_sorted_by(|left, right| left < right));
        assert_eq!(Decimal::parse("1000000"), Decimal::parse("1.0e6"));
        assert_eq!(Decimal::parse("-0.0"), Decimal::parse("0"));
        assert_eq!(Decimal::parse("1e99999999999999999999"), None);
    }

    #[test]
    fn whole_numbers_are_found() {
        let check = |text: &str, floor: i128, ceiling: i128| {
            let number = Decimal::parse(text).unwrap();
            assert_eq!(
                (number.floor(), number.ceiling()),
                (Some(floor), Some(ceiling)),
                "{text}"
            );
        };
        check("1.0", 1, 1);
        check("-1.5", -2, -1);
        check("0.001", 0, 1);
        check("-0.001", -1, 0);
        check("12e2", 1200, 1200);
        check("0", 0, 0);
        assert_eq!(Decimal::parse("1e40").unwrap().floor(), None);
    }
}
