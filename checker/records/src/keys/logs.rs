//! Ids whose lines are not versions of one record: event logs, patches, rows of two tables in one file.

use super::{Keys, VERSIONS, Version};
use crate::json::{Object, Value};
use crate::lines::Line;
use crate::time::{self, Time};

/// For each key whether its lines are other lines, although they have an id.
///
/// They are where a version has several lines of that id which are not versions of one record, and BASE or both sides have
/// the id. Where BASE itself has such lines it is a log: an id that is new on both sides, and has no time, is then one
/// of a log too.
pub fn find(keys: &Keys<'_>) -> Vec<bool> {
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

fn has_time(line: Line<'_>) -> bool {
    let record = Value::read(line.text);
    let time = record
        .as_ref()
        .and_then(Value::object)
        .and_then(time::of_record);
    time.is_some()
}

/// Several lines of different content, at least two of which cannot be versions of one record.
fn are_several_things<'a>(lines: impl Iterator<Item = Line<'a>>) -> bool {
    let mut lines = lines.peekable();
    let Some(first) = lines.next() else {
        return false;
    };
    if lines.peek().is_none() {
        return false;
    }
    let lines: Vec<Value<'a>> = std::iter::once(first)
        .chain(lines)
        .filter_map(|line| Value::read(line.text))
        .collect();
    let Some((first, others)) = lines.split_first() else {
        return false;
    };
    let differ = others.iter().any(|other| !first.equals(other));
    differ && !are_versions(first, others)
}

/// Each has a time, these can be compared, and `created_at` is equal or the members have the same names.
fn are_versions(first: &Value<'_>, others: &[Value<'_>]) -> bool {
    let Some(first) = first.object() else {
        return false;
    };
    let Some(time) = Time::of(first) else {
        return false;
    };
    let others: Vec<&Object<'_>> = others.iter().filter_map(Value::object).collect();
    let has_time =
        |other: &&Object<'_>| Time::of(other).is_some_and(|other| time.compare(&other).is_some());
    let created = first.get(b"created_at");
    let has_its_created_at = |other: &&Object<'_>| match (created, other.get(b"created_at")) {
        (Some(one), Some(two)) => one.equals(two),
        _ => false,
    };
    let names = |object: &Object<'_>| -> Vec<Vec<u8>> {
        object.sorted().map(|member| member.name.to_vec()).collect()
    };
    let has_its_names = |other: &&Object<'_>| names(first) == names(other);
    others.iter().all(has_time)
        && (others.iter().all(has_its_created_at) || others.iter().all(has_its_names))
}
