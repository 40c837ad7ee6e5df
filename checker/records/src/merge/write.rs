//! The bytes of a merged file.

use super::fate::{Fate, Fates};
use super::{ConflictLabels, Merged, Undecided};
use crate::keys::{LineKeys, VERSIONS, Version};
use crate::order;
use crate::outcome::Side;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub fn write(keys: &LineKeys<'_>, fates: Fates<'_, '_>, undecided: &Undecided<'_>) -> Merged {
    let is_kept: Vec<bool> = fates
        .fates
        .iter()
        .map(|fate| !matches!(fate, Fate::Gone))
        .collect();
    let order = order::merged(keys, &is_kept);

    let [base, ours, theirs] = VERSIONS.map(|version| keys.frame(version));
    // A side without lines has not changed their ends.
    let base_has_crlf = base.has_crlf.unwrap_or(false);
    let has_crlf = changed(
        base_has_crlf,
        ours.has_crlf.unwrap_or(base_has_crlf),
        theirs.has_crlf.unwrap_or(base_has_crlf),
    );
    let has_byte_order_mark = changed(
        base.has_byte_order_mark,
        ours.has_byte_order_mark,
        theirs.has_byte_order_mark,
    );
    let mut writer = Writer {
        keys,
        bytes: Vec::new(),
        end: if has_crlf { b"\r\n" } else { b"\n" },
    };
    if has_byte_order_mark {
        writer.bytes.extend_from_slice(BYTE_ORDER_MARK);
    }
    let mut place = vec![0; keys.count()];
    for (index, key) in order.into_iter().enumerate() {
        place[key as usize] = index;
        writer.key(key, &fates.fates[key as usize], undecided);
    }
    Merged {
        bytes: writer.bytes,
        conflicts: in_order(fates.conflicts, &place),
        notes: in_order(fates.notes, &place),
        merged: fates.merged,
    }
}

/// The value of the side that changed it; where both did, they have the same.
fn changed(base: bool, ours: bool, theirs: bool) -> bool {
    if ours == base { theirs } else { ours }
}

/// Conflicts or notes about keys, in the order of the file.
fn in_order<T>(mut said: Vec<(u32, T)>, place: &[usize]) -> Vec<T> {
    said.sort_by_key(|(key, _)| place[*key as usize]);
    said.into_iter().map(|(_, said)| said).collect()
}

struct Writer<'k, 'a> {
    keys: &'k LineKeys<'a>,
    bytes: Vec<u8>,
    end: &'static [u8],
}

impl Writer<'_, '_> {
    fn key(&mut self, key: u32, fate: &Fate<'_>, undecided: &Undecided<'_>) {
        match (fate, undecided) {
            (Fate::Gone, _) => {}
            (Fate::Line(line), _) => self.line(line),
            (Fate::Merged(line), _) => self.line(line),
            (Fate::LinesOf(side), _) => self.lines_of(key, *side),
            (_, Undecided::Ours) => self.lines_of(key, Side::Ours),
            (_, Undecided::Theirs) => self.lines_of(key, Side::Theirs),
            (Fate::Undecided, Undecided::Mark(labels)) => self.conflict(
                labels,
                |writer| writer.lines_of(key, Side::Ours),
                |writer| writer.lines_of(key, Side::Theirs),
            ),
            (Fate::UndecidedMembers(halves), Undecided::Mark(labels)) => self.conflict(
                labels,
                |writer| writer.line(&halves[0]),
                |writer| writer.line(&halves[1]),
            ),
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.extend_from_slice(self.end);
    }

    fn lines_of(&mut self, key: u32, side: Side) {
        let version = match side {
            Side::Ours => Version::Ours,
            Side::Theirs => Version::Theirs,
        };
        for line in self.keys.lines(key, version) {
            self.line(line.text);
        }
    }

    fn conflict(
        &mut self,
        labels: &ConflictLabels<'_>,
        ours: impl FnOnce(&mut Self),
        theirs: impl FnOnce(&mut Self),
    ) {
        self.marker(b'<', labels.ours, labels);
        ours(self);
        self.marker(b'=', b"", labels);
        theirs(self);
        self.marker(b'>', labels.theirs, labels);
    }

    fn marker(&mut self, sign: u8, label: &[u8], labels: &ConflictLabels<'_>) {
        let length = self.bytes.len() + labels.marker_size;
        self.bytes.resize(length, sign);
        if !label.is_empty() {
            self.bytes.push(b' ');
            self.bytes.extend_from_slice(label);
        }
        self.bytes.extend_from_slice(self.end);
    }
}
