//! Three-way merge of JSONL record files by id, and questions about their versions. What `beadlock` and its agent share;
//! siblings alone use it and pin it with `=`.
//!
//! A record file has a JSON object with an `id` on each line. A text merge doubles or tears such records where both sides
//! append, or change one record. [`merge()`] takes three versions and merges them by id, and a record that both sides
//! changed member by member:
//!
//! ```
//! use beadlock_records::{ConflictLabels, Undecided, merge};
//!
//! let base = br#"{"id":"bd-7","title":"milk","priority":2,"updated_at":"2026-03-01T08:00:00Z"}"#;
//! let ours = br#"{"id":"bd-7","title":"oat milk","priority":2,"updated_at":"2026-03-02T08:00:00Z"}"#;
//! let theirs = br#"{"id":"bd-7","title":"milk","priority":1,"updated_at":"2026-03-03T08:00:00Z"}"#;
//! let merged = merge(base, ours, theirs, &Undecided::Mark(ConflictLabels::default()))?;
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
//! **Files.** Where one side alone changed the file, the result is that side, byte for byte, and so it is where both are the
//! same. A side without a line, where BASE has two or more and the other side has some, is a conflict of the whole file: the
//! result is the other side.
//!
//! **Lines.** A line of spaces alone is dropped. A *record* is a JSON object with an `id` that is a text (not empty) or an
//! integer. Any other JSON is an *other line*, and what is not JSON is a *bad line*; such a line is the same line by its bytes
//! and by which occurrence of them in the file it is. A bad line that one side alone adds is a conflict.
//!
//! **Content.** Records are compared by content: texts without their escapes, members in any order, numbers by their digits.
//! An object with a member name twice is equal only to the same bytes, and never taken apart.
//!
//! **Several lines with one id** in a file, with different content:
//! - They are versions of one record if all have times that can be compared, and an equal `created_at` or the same members.
//!   The newest counts, at the place of the first; of equal times the later line.
//! - Else all lines of this id, in all versions, are other lines, if BASE or both sides have the id: a log. Where BASE has
//!   such a log, an id that both sides add without a time is one of a log too.
//! - Else they count as versions do, unless they have two different `created_at`: those are two things with one id. That is
//!   a conflict, unless both sides have the same lines or one has BASE's.
//!
//! **Presence.** What one side added is there. What one side removed is gone if the other side has left it as it was, but
//! for its time; else it is kept, with a [`Note`].
//!
//! **Both changed a record:** each member by itself. What both added is one record if `created_at` is there and equal, and a
//! conflict else.
//! - A member that one side changed is that side's; being absent is a value.
//! - Of two times of the record the newer; of equal instants the smaller bytes.
//! - `status`, if both changed it to different values, goes with `closed_at`, `close_reason`, `closed_by_session`,
//!   `deleted_at`, `deleted_by`, `delete_reason` and `original_type` to the side with `"tombstone"`; else to the newer record.
//! - Objects are merged inside. Lists of texts and objects, none of them twice, are merged as sets.
//! - Anything else is the newer record's. Without a newer record it is a conflict.
//!
//! The time of a record is `updated_at`, else `updatedAt`, `modified_at` or `modifiedAt`. Two of RFC 3339 with an offset are
//! compared as instants, two integers as numbers, and nothing else.
//!
//! **How a merged record is written.** Members keep their bytes. The newer record leads, without one the line of the larger
//! bytes: the result has its order, spaces and separators. A member that only the other has comes behind the one that it
//! follows there. A record that comes out equal to a side's is that side's line; of two lines that are equal the changed
//! one, or the smaller.
//!
//! **Order.** If both sides have records alone, sorted by id (texts first, by bytes), so has the result. Else the lines of
//! BASE keep BASE's order, or that of the side that alone changed it. An addition comes behind the nearest line before it
//! that is still there from BASE; of two places the earlier. The additions of both sides at one place are merged like sorted
//! lists, by `created_at` (`timestamp`, `ts`, `time`) and key, and each side's own order stays.
//!
//! **Ends.** Each line of the result ends in CRLF if all lines of both sides do, or those of the side that changed it; else
//! in LF. It is the same with a byte order mark.
//!
//! # Promises
//! - With the sides exchanged the result is the same, but for the halves of conflicts. It depends on no clock and no machine.
//! - Merging the result with one of its sides again changes nothing, but for order where both sides had sorted anew; as
//!   long as no line or id comes twice in a file.
//! - No input makes this crate panic, or overflow the stack.
//!
//! # Limits
//! - A version has at most [`MAX_BYTES`] and [`MAX_LINES`]; else it is [`TooLarge`].
//! - A merge needs, besides the three versions and the result, the bytes of the records that both sides changed, and some
//!   250 bytes for each record: for 50,000 records of 15 MB a version less than two versions. Three versions of 8 million
//!   tiny lines, all different, need 5 GB. (`examples/merge_time.rs` measures it.)
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
pub use merge::{ConflictLabels, MAX_BYTES, MAX_LINES, Merged, TooLarge, Undecided, merge};
pub use outcome::{Conflict, ConflictKind, MemberConflict, Note, Side};
pub use record_file::{Ahead, RecordFile, ahead_of, differing, gone, older};
pub use words::{Sentence, SideNames};
