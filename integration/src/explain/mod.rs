//! What a look has found, for people and for programs: who holds a lock, why that counts, and what to type next.
//!
//! What belongs to one kind of lock comes from its protocol as values; this room adds what is the same for all.
//!
//! ```text
//! explanation.rs  the facts about one lock, as text and as JSON
//! situation.rs    what every protocol sees alike: free, set aside, unreadable
//! gate.rs         who has the gate, and who waits for it
//! seen.rs         a lock as `status` and `list` show it
//! observed.rs     a lock without a record
//! checked.rs      a target, and what a daemon does about it
//! ```

pub mod checked;
pub mod explanation;
mod gate;
pub mod observed;
pub mod seen;
mod situation;
