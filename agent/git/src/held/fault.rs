//! Why a version of a record file is held back. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use beadlock_records::{BlemishKind, Id, RecordFile, gone, new_blemishes, older};
use serde_json::Value;

/// From this number of records on, the loss of more than half of them is held.
const MANY: usize = 10;

/// Why a version is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A line that must not be there, by its number.
    Line(BlemishKind, usize),
    /// How many records are gone, of how many, and whether the file is gone too.
    Gone(usize, usize, bool),
    /// How many records have older contents.
    Older(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(BlemishKind::Marker, line) => {
                write!(f, ", line {line}, is a conflict marker")
            }
            Self::Line(BlemishKind::Nul, line) => write!(f, ": line {line} has NUL bytes"),
            Self::Line(BlemishKind::Torn, line) => {
                write!(f, ": line {line} is not JSON (cut off?)")
            }
            Self::Line(BlemishKind::NotJson, line) => write!(f, ": line {line} is not JSON"),
            Self::Gone(gone, of, is_file) => {
                let are = if *of == 1 { "record is" } else { "records are" };
                let file = if *is_file { ", with the file" } else { "" };
                write!(f, ": {gone} of {of} {are} gone{file}")
            }
            Self::Older(count) => write!(
                f,
                ": {count} records went back to older contents (a stale export, a backup?)"
            ),
        }
    }
}

impl Fault {
    /// Whether a person has to edit the file: no older version of it is better as a whole.
    pub(super) fn is_to_be_edited(self) -> bool {
        matches!(
            self,
            Self::Line(
                BlemishKind::Marker | BlemishKind::Torn | BlemishKind::NotJson,
                _
            )
        )
    }
}

/// The first line that a version has, that the one at the place has not, and that no record file should have. Without
/// a version at the place the file must begin to be a record file to be judged as one.
pub(super) fn blemish(place: &[u8], here: &[u8]) -> Option<(BlemishKind, usize)> {
    // Most often lines were appended: only these are read.
    let appended = here
        .strip_prefix(place)
        .filter(|_| place.is_empty() || place.ends_with(b"\n"));
    let (known, text, skipped) = match appended {
        Some(tail) => (&b""[..], tail, count_lines(place)),
        None => (place, here, 0),
    };
    let new = new_blemishes(known, text);
    new.first()?;
    let is_new_file = place.trim_ascii().is_empty();
    let now = RecordFile::read(here);
    let judged = if is_new_file {
        now.is_record_file()
    } else {
        RecordFile::read(place).is_record_file()
    };
    let has_conflict = new
        .iter()
        .any(|blemish| blemish.text.starts_with(b"<<<<<<< "));
    let counts = |kind: BlemishKind, text: &[u8]| {
        judged
            || (is_new_file
                && match kind {
                    BlemishKind::Marker => has_conflict,
                    BlemishKind::Nul => true,
                    // One line, and it has only begun.
                    BlemishKind::Torn => {
                        new.len() == 1 && text.trim_ascii_start().starts_with(b"{")
                    }
                    BlemishKind::NotJson => false,
                })
    };
    new.iter()
        .find(|blemish| counts(blemish.kind, blemish.text))
        .map(|blemish| (blemish.kind, blemish.line + skipped))
}

fn count_lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// The records that a version lacks, or has older, compared with the version at the place.
#[derive(Debug, Default)]
pub(super) struct RecordLoss {
    /// The records that are gone.
    pub(super) gone: Vec<Id>,
    /// How many records the version at the place has.
    pub(super) of: usize,
    is_file_gone: bool,
    /// How many went back to an older time.
    older: usize,
}

impl RecordLoss {
    pub(super) fn between(place: Option<&[u8]>, here: Option<&[u8]>) -> Self {
        let Some(place) = place else {
            return Self::default();
        };
        if here.is_some_and(|here| here.starts_with(place)) {
            return Self::default();
        }
        let (before, now) = (
            RecordFile::read(place),
            RecordFile::read(here.unwrap_or_default()),
        );
        Self {
            gone: gone(&before, &now),
            of: before.records(),
            is_file_gone: here.is_none(),
            older: older(&before, &now).len(),
        }
    }

    /// Whether records or the whole file are missing, few or many.
    pub(super) fn is_any(&self) -> bool {
        !self.gone.is_empty() || self.is_file_gone
    }

    /// Whether this loss and `other` are of the same records, and of the file in both or in none.
    pub(super) fn lost_the_same_as(&self, other: &Self) -> bool {
        (&self.gone, self.is_file_gone) == (&other.gone, other.is_file_gone)
    }

    /// Whether all records are gone, of at least two.
    fn is_of_all(&self) -> bool {
        self.of >= 2 && self.gone.len() == self.of
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        let (gone, of) = (self.gone.len(), self.of);
        let is_most = of >= MANY && gone * 2 > of;
        let is_held = match self.is_file_gone {
            true => is_most || gone >= MANY,
            false => is_most || self.is_of_all(),
        };
        if is_held {
            return Some(Fault::Gone(gone, of, self.is_file_gone));
        }
        (self.older >= MANY).then_some(Fault::Older(self.older))
    }

    /// Forgets the records that are in another file of the database: they were moved, not lost.
    pub(super) fn forget_moved(
        &mut self,
        place: &[u8],
        others: impl Iterator<Item = impl AsRef<[u8]>>,
    ) {
        let wanted: HashSet<Id> = self.gone.iter().cloned().collect();
        let were = members(place, &wanted);
        for other in others {
            let are = members(other.as_ref(), &wanted);
            self.gone.retain(|id| {
                let (Some(were), Some(are)) = (were.get(id), are.get(id)) else {
                    return true;
                };
                // A line about the record, such as an event, has its id and little else of it.
                let is_copy = |of: &BTreeSet<String>| {
                    were.iter()
                        .any(|was| was.intersection(of).count() * 3 >= was.len() * 2)
                };
                !are.iter().any(is_copy)
            });
        }
    }
}

/// The names of the members of each line of these records.
fn members(file: &[u8], wanted: &HashSet<Id>) -> HashMap<Id, Vec<BTreeSet<String>>> {
    let mut found: HashMap<Id, Vec<BTreeSet<String>>> = HashMap::new();
    for line in file.split(|byte| *byte == b'\n') {
        let Ok(Value::Object(record)) = serde_json::from_slice(line) else {
            continue;
        };
        let id = match record.get("id") {
            Some(Value::String(id)) => Some(Id::text(id)),
            Some(Value::Number(id)) => id.as_i64().map(Id::integer),
            _ => None,
        };
        if let Some(id) = id.filter(|id| wanted.contains(id)) {
            let names = record.into_iter().map(|(name, _)| name).collect();
            found.entry(id).or_default().push(names);
        }
    }
    found
}

#[cfg(test)]
mod tests;
