//! What a look has found, for people and for programs: the holder of a lock, why that counts, and what to type next.
//!
//! What belongs to one kind of lock comes from its protocol as values; this room adds what is the same for all.

mod by_protocol;
pub mod checked;
pub mod explanation;
mod gate;
pub mod observed;
pub mod seen;
mod situation;
