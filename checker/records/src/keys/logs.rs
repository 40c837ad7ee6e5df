//! Ids whose lines are not versions of one record: event logs, patches, rows of two tables in one file.

use super::{LineKeys, VERSIONS, Version};
use crate::json::Value;
use crate::lines::RecordLine;
use crate::time::{self, Time};

/// For each key whether its lines are other lines, although they have an id.
///
/// They are where a version has several lines of that id which are not versions of one record, and BASE or both sides have
/// the id. Where BASE itself has such lines it is a log: an id that is new on both sides, and has no time, is then one
/// of a log too.
pub fn find(keys: &LineKeys<'_>) -> Vec<bool> {
    let count = keys.count() as u32;
    let mut logs = vec![false; keys.count()];
    let mut base_is_log = false;
    for key in 0..count {
        let [in_base, in_ours, in_theirs] = VERSIONS.map(|version| keys.has(key, version));
        if !(in_base || in_ours && in_theirs) {
            continue;
        }
        for version in VERSIONS {
            if are_several_things(keys.lines(key, version)) {
                logs[key as usize] = true;
                base_is_log |= version == Version::Base;
            }
        }
    }
    if base_is_log {
        for key in 0..count {
            let [in_base, in_ours, in_theirs] = VERSIONS.map(|version| keys.has(key, version));
            if !in_base && in_ours && in_theirs {
                let mut lines = keys
                    .lines(key, Version::Ours)
                    .chain(keys.lines(key, Version::Theirs));
                logs[key as usize] |= lines.all(|line| !has_time(line));
            }
        }
    }
    logs
}

fn has_time(line: RecordLine<'_>) -> bool {
    let record = Value::read(line.text);
    let time = record
        .as_ref()
        .and_then(Value::object)
        .and_then(time::of_record);
    time.is_some()
}

/// Several lines of different content which are not versions of one record: those all have a time, the times can be
/// compared, and `created_at` is equal or the members have the same names.
fn are_several_things<'a>(mut lines: impl Iterator<Item = RecordLine<'a>> + Clone) -> bool {
    let Some(first) = lines.next() else {
        return false;
    };
    if lines.clone().all(|line| line.text == first.text) {
        return false;
    }
    let Some(first) = Value::read(first.text) else {
        return false;
    };
    let time = first.object().and_then(Time::of);
    let created = first.object().and_then(|first| first.get(b"created_at"));
    let (mut differ, mut have_times, mut have_created, mut have_names) = (false, true, true, true);
    for line in lines {
        let Some(other) = Value::read(line.text) else {
            continue;
        };
        differ |= !first.equals(&other);
        let [Some(first), Some(other)] = [first.object(), other.object()] else {
            have_times = false;
            continue;
        };
        have_times &= match (&time, Time::of(other)) {
            (Some(one), Some(two)) => one.compare(&two).is_some(),
            _ => false,
        };
        have_created &= match (created, other.get(b"created_at")) {
            (Some(one), Some(two)) => one.equals(two),
            _ => false,
        };
        have_names &= first.has_names_of(other);
    }
    let are_versions = have_times && (have_created || have_names);
    differ && !are_versions
}
