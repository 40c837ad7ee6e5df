//! Dialects: the rules for one kind of target each, siblings that do no I/O (DESIGN 2 and 3).

pub mod beads;
pub mod lock;
