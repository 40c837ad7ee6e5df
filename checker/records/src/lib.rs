//! Three-way merge of JSONL record files by id, and questions about their versions. What `beadlock` and its agent share; it
//! carries no stability promise.
//!
//! A record file has a JSON object with an `id` on each line. A text merge doubles or tears such records where both sides
//! append, or change one record. [`merge`] takes three versions and merges them by id, and a record that both sides
//! changed member by member:
//!
//! ```
//! use beadlock_records::{Labels, Undecided, merge};
//!
//! let base = br#"{"id":"bd-7","title":"milk","priority":2,"updated_at":"2026-03-01T08:00:00Z"}"#;
//! let ours = br#"{"id":"bd-7","title":"oat milk","priority":2,"updated_at":"2026-03-02T08:00:00Z"}"#;
//! let theirs = br#"{"id":"bd-7","title":"milk","priority":1,"updated_at":"2026-03-03T08:00:00Z"}"#;
//! let merged = merge(base, ours, theirs, &Undecided::Mark(Labels::default()))?;
//! assert_eq!(
//!     merged.bytes,
//!     b"{\"id\":\"bd-7\",\"title\":\"oat milk\",\"priority\":1,\"updated_at\":\"2026-03-03T08:00:00Z\"}\n"
//! );
//! # Ok::<(), beadlock_records::TooLarge>(())
//! ```
//!
//! A [`RecordFile`] answers what else a sync has to know of one version, or of two: which records are [`gone`], which went
//! back to [`older`] contents, how many are [`differing`], and which lines are [`blemishes`].
//!
//! # Rules
//! - Where one side alone changed the file, the result is that side, byte for byte.
//! - A record that one side added is there. One that a side removed is gone, unless the other side changed it, in more than its
//!   time.
//! - Of a record that both sides changed, each member is that of the side that changed it. Objects are merged inside, lists
//!   of texts and objects as sets; of anything else both changed, the record with the newer `updated_at` (or `updatedAt`,
//!   `modified_at`, `modifiedAt`) decides. `status` takes with it what belongs to it, and a tombstone wins.
//! - Without a newer record it is a [`Conflict`], of this record alone.
//! - Several lines with one id are versions of one record, of which one counts, or lines of a log, which are all kept.
//! - Members keep their bytes, lines their order: sorted files stay sorted, additions stay behind their neighbour.
//!
//! # Promises
//! - With the sides exchanged the result is the same, but for the halves of conflicts. It depends on no clock and no machine.
//! - Merging the result with one of its sides again changes nothing, but for order where both sides had sorted anew; as
//!   long as no line or id comes twice in a file.
//! - No input makes this crate panic, or overflow the stack.
//!
//! # Limits
//! - A version has at most [`MAX_BYTES`] and [`MAX_LINES`]; else it is [`TooLarge`].
//! - A merge needs, besides the three versions and the result, some 250 bytes for each record; for 50,000 records of 15 MB a
//!   version that is less than one version. Three versions of 8 million tiny lines, all different, need 5 GB.
//! - A line above 16 MiB is not taken apart, and neither is what is nested deeper than 256 levels: it is one value, equal only
//!   to the same bytes.
//! - Of three concurrent changes of one member, which one stays can depend on which two are merged first. All clones come to
//!   the same bytes, because they share the history.
//! - A clock that is ahead wins. [`ahead_of`] finds the record.

#![forbid(unsafe_code)]

mod blemish;
mod escape;
mod held;
mod id;
mod json;
mod keys;
mod lines;
mod members;
mod merge;
mod order;
mod outcome;
mod record_file;
mod time;
mod words;

pub use blemish::{Blemish, BlemishKind, blemishes, new_blemishes};
pub use id::Id;
pub use merge::{Labels, MAX_BYTES, MAX_LINES, Merged, TooLarge, Undecided, merge};
pub use outcome::{Conflict, ConflictKind, MemberConflict, Note, Side};
pub use record_file::{Ahead, RecordFile, ahead_of, differing, gone, older};
pub use words::{SideNames, Told};
