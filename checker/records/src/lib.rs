//! Three-way merge of JSONL record files by id, and questions about their versions. It does no I/O.

#![forbid(unsafe_code)]

mod escape;
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

pub use id::Id;
pub use merge::{Labels, MAX_BYTES, MAX_LINES, Merged, TooLarge, Undecided, merge};
pub use outcome::{Conflict, ConflictKind, MemberConflict, Note, Side};
pub use words::{SideNames, Told};
