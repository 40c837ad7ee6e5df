//! Three-way merge of JSONL record files by id, and questions about their versions. It does no I/O.

#![forbid(unsafe_code)]

mod blemish;
mod escape;
mod file;
mod held;
mod id;
mod json;
mod keys;
mod lines;
mod members;
mod merge;
mod order;
mod outcome;
mod time;
mod words;

pub use blemish::{Blemish, BlemishKind, blemishes, new_blemishes};
pub use file::{Ahead, RecordFile, ahead_of, differing, gone, older};
pub use id::Id;
pub use merge::{Labels, MAX_BYTES, MAX_LINES, Merged, TooLarge, Undecided, merge};
pub use outcome::{Conflict, ConflictKind, MemberConflict, Note, Side};
pub use words::{SideNames, Told};
