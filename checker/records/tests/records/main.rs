//! The merge of record files: every rule, the shared vectors, histories at random, hostile input.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as it must be"
)]

mod histories;
mod hostile;
mod questions;
mod random;
mod rules;
mod vectors;

use beadlock_records::{ConflictLabels, Merged, Undecided, merge};

/// A merge with markers of this length, for `ours` and `theirs`.
fn marked(base: &[u8], ours: &[u8], theirs: &[u8], marker_size: usize) -> Merged {
    let labels = ConflictLabels {
        marker_size,
        ..ConflictLabels::default()
    };
    merge(base, ours, theirs, &Undecided::Mark(labels)).unwrap()
}

/// Exchanges the halves of each hunk, with their labels.
fn halves_swapped(file: &[u8], marker_size: usize) -> Vec<u8> {
    let [begin, middle, end] = [b'<', b'=', b'>'].map(|sign| vec![sign; marker_size]);
    let mut swapped = Vec::new();
    let mut halves: Option<[Vec<u8>; 2]> = None;
    let mut half = 0;
    let mut labels = [Vec::new(), Vec::new()];
    let rest = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    swapped.extend_from_slice(&file[..file.len() - rest.len()]);
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        let label = |marker: &[u8]| line.strip_prefix(marker);
        match &mut halves {
            None => match label(&begin) {
                Some(label) => {
                    labels[0] = label.to_vec();
                    (halves, half) = (Some([Vec::new(), Vec::new()]), 0);
                }
                None => swapped.extend_from_slice(line),
            },
            Some([ours, theirs]) => match (label(&middle), label(&end)) {
                (Some(rest), _) => {
                    labels[1] = rest.to_vec();
                    half = 1;
                }
                (_, Some(label)) => {
                    let [first, newline] = &labels;
                    let parts: [&[u8]; 9] = [
                        &begin, label, theirs, &middle, newline, ours, &end, first, b"",
                    ];
                    swapped.extend(parts.concat());
                    halves = None;
                }
                _ => [ours, theirs][half].extend_from_slice(line),
            },
        }
    }
    swapped
}
