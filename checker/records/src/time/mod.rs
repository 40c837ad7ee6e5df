//! Times of records and lines: which of two is the newer, and which line stands first.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::json::{Object, Value, is_integer};

/// The names of a record's time; the first that it has counts.
pub const NAMES: [&[u8]; 4] = [b"updated_at", b"updatedAt", b"modified_at", b"modifiedAt"];

/// The names of the time by which additions at one place are ordered.
const ORDER_NAMES: [&[u8]; 4] = [b"created_at", b"timestamp", b"ts", b"time"];

/// The name of a record's time, and its value, whether it can be compared or not.
pub fn of_record<'v, 'a>(record: &'v Object<'a>) -> Option<(&'static [u8], &'v Value<'a>)> {
    NAMES
        .into_iter()
        .find_map(|name| Some((name, record.get(name)?)))
}

/// A time that can be compared: with one of its own kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Time {
    Instant(Instant),
    Integer(Decimal),
}

impl Time {
    pub fn read(value: &Value<'_>) -> Option<Self> {
        match value.text() {
            Some(text) => Instant::read(text).map(Self::Instant),
            None => is_integer(value.raw)
                .then(|| Decimal::read(value.raw))
                .map(Self::Integer),
        }
    }

    /// The time of a record; `None` where it has none that can be compared.
    pub fn of(record: &Object<'_>) -> Option<Self> {
        of_record(record).and_then(|(_, value)| Self::read(value))
    }

    /// Order of two times; `None` where one is an instant and the other a number.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Instant(one), Self::Instant(two)) => Some(one.cmp(two)),
            (Self::Integer(one), Self::Integer(two)) => Some(one.cmp(two)),
            _ => None,
        }
    }

    /// Seconds since the epoch, rounded down. A number counts seconds, or milli-, micro- or nanoseconds where seconds
    /// would lie beyond the year 5000.
    pub fn seconds(&self) -> Option<i64> {
        match self {
            Self::Instant(instant) => Some(instant.seconds),
            Self::Integer(number) => {
                let number = number.to_i64()?;
                let unit = match number.unsigned_abs() {
                    0..100_000_000_000 => 1,
                    100_000_000_000..100_000_000_000_000 => 1_000,
                    100_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
                    _ => 1_000_000_000,
                };
                Some(number.div_euclid(unit))
            }
        }
    }
}

/// RFC 3339 with an offset, with a fraction of any length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// Since 1970 in UTC; a leap second is the next minute's first.
    seconds: i64,
    /// The digits behind the point, without zeros at their end: in this form they compare as texts.
    fraction: Vec<u8>,
}

impl Instant {
    /// `None` for anything else; a time without an offset is not an instant.
    pub fn read(text: &[u8]) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let (clock, rest) = rest.split_at_checked(9)?;
        let [y, e, a, r, b'-', m, o, b'-', d, t] = *date else {
            return None;
        };
        let [b'T' | b't' | b' ', h, u, b':', i, n, b':', s, c] = *clock else {
            return None;
        };
        let year = number(&[y, e, a, r], 0..=9999)?;
        let month = number(&[m, o], 1..=12)?;
        let day = number(&[d, t], 1..=days_in(year, month))?;
        let hour = number(&[h, u], 0..=23)?;
        let minute = number(&[i, n], 0..=59)?;
        let second = number(&[s, c], 0..=60)?;

        let (fraction, offset) = match rest.strip_prefix(b".") {
            Some(rest) => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                rest.split_at_checked(digits).filter(|_| digits > 0)?
            }
            None => (&[][..], rest),
        };
        let offset = match *offset {
            [b'Z' | b'z'] => 0,
            [sign @ (b'+' | b'-'), h, u, b':', i, n] => {
                let seconds = number(&[h, u], 0..=23)? * 3600 + number(&[i, n], 0..=59)? * 60;
                if sign == b'-' { -seconds } else { seconds }
            }
            _ => return None,
        };
        let zeros = fraction.iter().rev().take_while(|&&b| b == b'0').count();
        let days = days_since_1970(year, month, day);
        Some(Self {
            seconds: days * 86_400 + hour * 3600 + minute * 60 + second - offset,
            fraction: fraction[..fraction.len() - zeros].to_vec(),
        })
    }
}

fn number(digits: &[u8], range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let number = digits.iter().try_fold(0, |number, &digit| {
        let digit = char::from(digit).to_digit(10)?;
        Some(number * 10 + i64::from(digit))
    })?;
    range.contains(&number).then_some(number)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970 on, in the proleptic Gregorian calendar. Years are counted from March, so that a leap day ends one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month < 3);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A JSON number by its exact value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    is_negative: bool,
    /// `0.digits` times ten to this power.
    exponent: i64,
    /// Digits without zeros at either end; none for zero.
    digits: Vec<u8>,
}

impl Decimal {
    /// The exact value of a number as JSON writes it.
    pub fn read(written: &[u8]) -> Self {
        let (is_negative, written) = match written.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, written),
        };
        let end = written
            .iter()
            .position(|byte| matches!(byte, b'e' | b'E'))
            .unwrap_or(written.len());
        let (mantissa, power) = written.split_at(end);
        let point = mantissa
            .iter()
            .position(|&byte| byte == b'.')
            .unwrap_or(mantissa.len());
        let digits: Vec<u8> = mantissa.iter().copied().filter(|&b| b != b'.').collect();
        let leading = digits.iter().take_while(|&&digit| digit == b'0').count();
        let trailing = digits.iter().rev().take_while(|&&b| b == b'0').count();
        let digits = digits
            .get(leading..digits.len() - trailing)
            .unwrap_or_default()
            .to_vec();
        if digits.is_empty() {
            let (is_negative, exponent) = (false, 0);
            return Self {
                is_negative,
                exponent,
                digits,
            };
        }
        let shift = point as i64 - leading as i64;
        Self {
            is_negative,
            exponent: exponent(power).saturating_add(shift),
            digits,
        }
    }

    fn to_i64(&self) -> Option<i64> {
        let length = usize::try_from(self.exponent).ok().filter(|&n| n <= 19)?;
        let digits = self.digits.iter().copied().chain(std::iter::repeat(b'0'));
        let size = digits.take(length).try_fold(0_i64, |number, digit| {
            number.checked_mul(10)?.checked_add(i64::from(digit - b'0'))
        })?;
        Some(if self.is_negative { -size } else { size })
    }
}

/// `e+5`, or nothing; what is too large for it is as large as can be.
fn exponent(power: &[u8]) -> i64 {
    let is_negative = power.get(1) == Some(&b'-');
    let digits = power.iter().filter(|byte| byte.is_ascii_digit());
    let size = digits.fold(0_i64, |number, &digit| {
        number
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    });
    if is_negative { -size } else { size }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let size = || {
            self.exponent
                .cmp(&other.exponent)
                .then_with(|| self.digits.cmp(&other.digits))
        };
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            -1 => size().reverse(),
            _ => size(),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By what time a line stands among the additions at its place. The variants are in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Instant(Instant),
    Number(Decimal),
    /// A time without an offset, for example: as it is written.
    Text(Vec<u8>),
    Nothing,
}

impl Rank {
    /// The first of `created_at`, `timestamp`, `ts` and `time` that is a text or a number.
    pub fn of(line: &Value<'_>) -> Self {
        let read = |value: &Value<'_>| match value.text() {
            Some(text) => Some(match Instant::read(text) {
                Some(instant) => Self::Instant(instant),
                None => Self::Text(text.to_vec()),
            }),
            None => match value.raw.first() {
                Some(b'-' | b'0'..=b'9') => Some(Self::Number(Decimal::read(value.raw))),
                _ => None,
            },
        };
        let find = |object: &Object<'_>| {
            let mut values = ORDER_NAMES.iter().filter_map(|name| object.get(name));
            values.find_map(read)
        };
        line.object().and_then(find).unwrap_or(Self::Nothing)
    }
}
