//! The merge of three versions of a record file.

mod fate;
mod write;

use crate::keys::{LineKeys, VERSIONS, Version};
use crate::outcome::{Conflict, ConflictKind, Note, Side};

use fate::Fates;

/// Bytes of the largest version that is read: 512 MiB.
pub const MAX_BYTES: usize = 512 << 20;

/// Lines of the longest version that is read: 8 million, which is 64 bytes a line in the largest one. This bounds the memory
/// that files of tiny lines take.
pub const MAX_LINES: usize = 1 << 23;

/// Lines to write for a key that the merge cannot decide.
#[derive(Debug, Clone, Copy)]
pub enum Undecided<'a> {
    /// Both sides between conflict markers. In both halves everything is merged that can be.
    Mark(ConflictLabels<'a>),
    /// The lines that ours has for it, as they are; none if it has none.
    Ours,
    /// The lines that theirs has for it, as they are; none if it has none.
    Theirs,
}

/// Text and size of conflict markers.
#[derive(Debug, Clone, Copy)]
pub struct ConflictLabels<'a> {
    /// Text behind `<<<<<<<`.
    pub ours: &'a [u8],
    /// Text behind `>>>>>>>`.
    pub theirs: &'a [u8],
    /// Characters of each marker; 7 in most files.
    pub marker_size: usize,
}

impl Default for ConflictLabels<'_> {
    fn default() -> Self {
        Self {
            ours: b"ours",
            theirs: b"theirs",
            marker_size: 7,
        }
    }
}

/// A merged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Decisions that are left to a person, in the order of the file. Without any the merge is clean.
    pub conflicts: Vec<Conflict>,
    /// Decisions that the merge has made and that a person may want to know, in the order of the file.
    pub notes: Vec<Note>,
    /// How many records and other lines are not as ours has them, or were changed by both sides; those in conflict do not
    /// count. 0 where only one side changed the file.
    pub merged: usize,
}

impl Merged {
    fn unchanged(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            conflicts: Vec::new(),
            notes: Vec::new(),
            merged: 0,
        }
    }
}

/// A version is above [`MAX_BYTES`] or [`MAX_LINES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes of the version.
    pub bytes: usize,
    /// Lines of the version, with the empty ones; 0 where there are too many bytes to look.
    pub lines: usize,
}

impl std::error::Error for TooLarge {}

fn check_size(version: &[u8]) -> Result<(), TooLarge> {
    let bytes = version.len();
    if bytes > MAX_BYTES {
        return Err(TooLarge { bytes, lines: 0 });
    }
    let lines = version.iter().filter(|byte| **byte == b'\n').count();
    if lines > MAX_LINES {
        return Err(TooLarge { bytes, lines });
    }
    Ok(())
}

/// Merges the two versions that two sides made from `base`.
///
/// With ours and theirs exchanged the result is the same, but for the halves of conflicts.
///
/// ```
/// use beadlock_records::{ConflictLabels, Undecided, merge};
///
/// let base = b"{\"id\":\"bd-1\"}\n";
/// let ours = b"{\"id\":\"bd-1\"}\n{\"id\":\"bd-2\"}\n";
/// let theirs = b"{\"id\":\"bd-1\"}\n{\"id\":\"bd-3\"}\n";
/// let merged = merge(base, ours, theirs, &Undecided::Mark(ConflictLabels::default()))?;
/// assert_eq!(merged.bytes, b"{\"id\":\"bd-1\"}\n{\"id\":\"bd-2\"}\n{\"id\":\"bd-3\"}\n");
/// assert!(merged.conflicts.is_empty());
/// # Ok::<(), beadlock_records::TooLarge>(())
/// ```
///
/// # Errors
///
/// When a version is above [`MAX_BYTES`] or [`MAX_LINES`].
pub fn merge(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    undecided: &Undecided<'_>,
) -> Result<Merged, TooLarge> {
    [base, ours, theirs].into_iter().try_for_each(check_size)?;
    if ours == theirs || theirs == base {
        return Ok(Merged::unchanged(ours));
    }
    if ours == base {
        return Ok(Merged::unchanged(theirs));
    }
    let keys = LineKeys::read(base, ours, theirs);
    if let Some(side) = emptied(&keys) {
        let (id, lines) = (None, keys.size(Version::Base));
        let rest = match side {
            Side::Ours => theirs,
            Side::Theirs => ours,
        };
        return Ok(Merged {
            conflicts: vec![Conflict {
                id,
                kind: ConflictKind::Emptied { side, lines },
            }],
            ..Merged::unchanged(rest)
        });
    }
    Ok(write::write(&keys, Fates::of(&keys), undecided))
}

/// The side that has no line left where BASE has two or more and the other side has some.
fn emptied(keys: &LineKeys<'_>) -> Option<Side> {
    let [base, ours, theirs] = VERSIONS.map(|version| keys.size(version));
    match (ours, theirs) {
        (0, 1..) if base >= 2 => Some(Side::Ours),
        (1.., 0) if base >= 2 => Some(Side::Theirs),
        _ => None,
    }
}
