//! Questions about one version of a record file, or two.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::held::{IdCount, held};
use crate::id::{Id, LineId};
use crate::json::Value;
use crate::lines::{self, LineKind, RecordLine};
use crate::time::{self, Time};

/// Seconds that a time may be ahead of the clock without a word: clocks differ.
const AHEAD: i64 = 5 * 60;

/// A version of a record file, parsed once.
///
/// It borrows the file, and needs some 100 bytes for each record besides.
///
/// ```
/// use beadlock_records::{Id, RecordFile, gone};
///
/// let before = RecordFile::read(b"{\"id\":\"bd-1\"}\n{\"id\":\"bd-2\"}\n");
/// let now = RecordFile::read(b"{\"id\":\"bd-2\",\"title\":\"milk\"}\n");
/// assert_eq!(now.records(), 1);
/// assert_eq!(gone(&before, &now), [Id::text("bd-1")]);
/// ```
pub struct RecordFile<'a> {
    /// The lines of each record, in the order of their first.
    records: Vec<Record<'a>>,
    by_id: HashMap<LineId<'a>, usize>,
    /// How often each other line comes, JSON or not.
    others: HashMap<&'a [u8], usize>,
    json_lines: usize,
    bad_lines: usize,
}

struct Record<'a> {
    id: LineId<'a>,
    first: &'a [u8],
    /// Mostly none.
    more: Vec<&'a [u8]>,
}

impl<'a> Record<'a> {
    fn lines(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    /// Equal lines, in any order.
    fn equals(&self, other: &Self) -> bool {
        if self.lines().eq(other.lines()) {
            return true;
        }
        if self.more.len() != other.more.len() {
            return false;
        }
        let values = |record: &Self| {
            let mut values: Vec<Value<'a>> = record.lines().filter_map(Value::read).collect();
            values.sort_by(Value::compare);
            values
        };
        std::iter::zip(values(self), values(other)).all(|(one, two)| one.equals(&two))
    }

    /// The value of the line that counts; `None` where two things have this id.
    fn value(&self) -> Option<Value<'a>> {
        match held(self.lines()) {
            IdCount::Line(line) => Value::read(line),
            _ => None,
        }
    }

    /// The time of the record; `None` where it has none that can be compared.
    fn time(&self) -> Option<Time> {
        self.value()
            .as_ref()
            .and_then(Value::object)
            .and_then(Time::of)
    }
}

impl<'a> RecordFile<'a> {
    /// Parses a file. Any bytes are one.
    pub fn read(bytes: &'a [u8]) -> Self {
        let mut file = Self {
            records: Vec::new(),
            by_id: HashMap::new(),
            others: HashMap::new(),
            json_lines: 0,
            bad_lines: 0,
        };
        lines::read(bytes, |line, kind| file.add(line, kind));
        file
    }

    fn add(&mut self, line: RecordLine<'a>, kind: LineKind<'a>) {
        let line = line.text;
        match kind {
            LineKind::Bad => self.bad_lines += 1,
            LineKind::Other | LineKind::Record(_) => self.json_lines += 1,
        }
        let LineKind::Record(id) = kind else {
            *self.others.entry(line).or_default() += 1;
            return;
        };
        let next = self.records.len();
        let index = *self.by_id.entry(id.clone()).or_insert(next);
        match self.records.get_mut(index) {
            Some(record) => record.more.push(line),
            None => self.records.push(Record {
                id,
                first: line,
                more: Vec::new(),
            }),
        }
    }

    /// How many records it has: ids, each once.
    pub fn records(&self) -> usize {
        self.records.len()
    }

    /// Whether it has more lines that are JSON than lines that are not. An empty file is not a record file.
    pub fn is_record_file(&self) -> bool {
        self.json_lines > self.bad_lines
    }

    /// The ids of its records, in the order of the file.
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        self.records.iter().map(|record| record.id.to_id())
    }

    /// Whether it has a record with this id.
    pub fn contains(&self, id: &Id) -> bool {
        self.by_id.contains_key(&LineId::from(id))
    }

    fn record(&self, id: &LineId<'_>) -> Option<&Record<'a>> {
        self.by_id
            .get(id)
            .and_then(|index| self.records.get(*index))
    }
}

/// How many records and other lines one file has and the other lacks, or has with other content. Spaces, escapes and the
/// order of members are not content. The file with the fewest is the one that a writer has started from.
pub fn differing(one: &RecordFile<'_>, two: &RecordFile<'_>) -> usize {
    let changed_or_gone = one.records.iter().filter(|record| {
        let other = two.record(&record.id);
        !other.is_some_and(|other| record.equals(other))
    });
    let added = two
        .records
        .iter()
        .filter(|record| one.record(&record.id).is_none());
    let count = |file: &RecordFile<'_>, line: &[u8]| file.others.get(line).copied().unwrap_or(0);
    let others_of_one = one
        .others
        .iter()
        .map(|(line, in_one)| in_one.abs_diff(count(two, line)));
    let others_of_two = two
        .others
        .iter()
        .filter(|(line, _)| count(one, line) == 0)
        .map(|(_, in_two)| *in_two);
    changed_or_gone.count()
        + added.count()
        + others_of_one.sum::<usize>()
        + others_of_two.sum::<usize>()
}

/// The records that `before` has and `now` lacks, in the order of `before`.
pub fn gone(before: &RecordFile<'_>, now: &RecordFile<'_>) -> Vec<Id> {
    let gone = before
        .records
        .iter()
        .filter(|record| now.record(&record.id).is_none());
    gone.map(|record| record.id.to_id()).collect()
}

/// The records with other content and an older time in `now` than in `before`, in the order of `before`: an old export or a
/// backup. A record whose two times cannot be compared is not one of them.
pub fn older(before: &RecordFile<'_>, now: &RecordFile<'_>) -> Vec<Id> {
    let went_back = |record: &&Record<'_>| {
        let Some(now) = now.record(&record.id).filter(|now| !record.equals(now)) else {
            return false;
        };
        let times = record.time().zip(now.time());
        let order = times.and_then(|(before, now)| now.compare(&before));
        order.is_some_and(Ordering::is_lt)
    };
    let older = before.records.iter().filter(went_back);
    older.map(|record| record.id.to_id()).collect()
}

/// A record from the future.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// The record.
    pub id: Id,
    /// Time of the record as it is written, without quotes and with its escapes resolved.
    pub time: String,
    /// Seconds from the clock to that time.
    pub seconds: i64,
}

/// The record whose time is latest of those more than 5 minutes ahead of `now`, in seconds since 1970 in UTC; `None`:
/// there is none. A time that is an integer counts seconds, or milli-, micro- or nanoseconds where it has more than 11,
/// 14 or 17 digits.
pub fn ahead_of(file: &RecordFile<'_>, now: i64) -> Option<Ahead> {
    let mut latest: Option<(i64, &Record<'_>)> = None;
    for record in &file.records {
        let Some(seconds) = record.time().and_then(|time| time.seconds()) else {
            continue;
        };
        if latest.is_none_or(|(latest, _)| seconds > latest) {
            latest = Some((seconds, record));
        }
    }
    let (seconds, record) = latest?;
    let ahead = seconds.saturating_sub(now);
    let value = record.value()?;
    let (_, time) = value.object().and_then(time::of_record)?;
    let time = time.text().unwrap_or(time.raw);
    (ahead > AHEAD).then(|| Ahead {
        id: record.id.to_id(),
        time: String::from_utf8_lossy(time).into_owned(),
        seconds: ahead,
    })
}
