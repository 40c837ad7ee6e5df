//! The line that counts among all lines of a file for one id.

use std::cmp::Ordering;

use crate::json::Value;
use crate::time::Time;

/// The line that one version has for an id, if there is one that counts.
pub enum IdCount<'a> {
    Nothing,
    Line(&'a [u8]),
    /// Several lines that are not one record: they were created at different times.
    TwoThings,
}

pub fn created_at<'v, 'a>(record: &'v Value<'a>) -> Option<&'v Value<'a>> {
    record.object().and_then(|record| record.get(b"created_at"))
}

/// The line that counts: the newest of several by its time; where none is newer, the last one in the file.
pub fn held<'a>(mut lines: impl Iterator<Item = &'a [u8]> + Clone) -> IdCount<'a> {
    let Some(first) = lines.next() else {
        return IdCount::Nothing;
    };
    if lines.clone().all(|line| line == first) {
        return IdCount::Line(first);
    }
    // One after the other, and none is kept: an id may have a million lines.
    let mut created: Option<Vec<u8>> = None;
    let mut counts: (&[u8], Option<Time>) = (first, None);
    for line in std::iter::once(first).chain(lines) {
        let value = Value::read(line);
        if let Some(this) = value.as_ref().and_then(created_at) {
            let other = created.get_or_insert_with(|| this.raw.to_vec());
            if !Value::read(other).is_some_and(|other| other.equals(this)) {
                return IdCount::TwoThings;
            }
        }
        let time = value.as_ref().and_then(Value::object).and_then(Time::of);
        let is_older = match (&counts.1, &time) {
            (Some(one), Some(this)) => one.compare(this).is_some_and(Ordering::is_gt),
            _ => false,
        };
        if !is_older {
            counts = (line, time);
        }
    }
    IdCount::Line(counts.0)
}
