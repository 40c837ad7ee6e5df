//! Conflicts and notes: the outcome of a merge besides its bytes.

use crate::id::Id;

/// One of the two sides of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The version that the merge is written over.
    Ours,
    /// The other version.
    Theirs,
}

impl Side {
    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Ours => Self::Theirs,
            Self::Theirs => Self::Ours,
        }
    }
}

/// A decision that a merge leaves to a person. `Display` says it in one line, with "ours" and "theirs";
/// [`Conflict::told`] with other names for the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The record; `None` for a line without an id, and for a whole file.
    pub id: Option<Id>,
    /// Why the merge could not decide, with the members or lines concerned.
    pub kind: ConflictKind,
}

/// Why a merge could not decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both sides changed these members to different values, and neither record is newer.
    Members(Vec<MemberConflict>),
    /// Both sides added this id, and nothing says that the two are one record.
    AddedTwice,
    /// A version has two records with this id, which were created at different times.
    SharedId,
    /// Both sides changed the record, and a member name comes twice in it (or it is longer than 16 MiB): it is not taken
    /// apart.
    Indivisible,
    /// One side added a line that is not JSON.
    BadLine {
        /// The side that added the line.
        side: Side,
        /// The line's number there, from 1.
        line: usize,
    },
    /// One side has no line left of this many. The result is the other side: nothing is removed.
    Emptied {
        /// The side that is empty.
        side: Side,
        /// How many lines BASE has that are more than spaces.
        lines: usize,
    },
}

/// A member with two values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberConflict {
    /// Name of the member; in an inner object it follows the outer one's name and a point, as in `meta.k`.
    pub name: String,
    /// Bytes of the value in ours; `None` where the member is absent.
    pub ours: Option<Vec<u8>>,
    /// Bytes of the value in theirs; `None` where the member is absent.
    pub theirs: Option<Vec<u8>>,
}

/// A decision of a merge that a person may want to know. `Display` says it in one line, as that of [`Conflict`] does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// One side removed the record and the other changed it: it is kept.
    KeptChanged {
        /// The record.
        id: Id,
        /// The side that changed it.
        changed: Side,
    },
    /// Both sides changed these members, and the newer record's values were taken.
    ByTime {
        /// The record.
        id: Id,
        /// The name of the newer record's time: `updated_at`, `updatedAt`, `modified_at` or `modifiedAt`.
        time: &'static str,
        /// The side with the newer record.
        newer: Side,
        /// The names of the members, as in [`MemberConflict::name`].
        members: Vec<String>,
    },
}
