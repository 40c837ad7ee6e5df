//! What a look has found, for people and for programs: who holds a lock, why that counts, and what to type next.
//!
//! ```text
//! situation.rs  which situation a lock is in: one pure judgement
//! witnesses/    what speaks for it
//! next.rs       the command to type
//! seen.rs       a lock as `status` and `list` show it
//! observed.rs   a lock without a record
//! checked.rs    a target, and what a daemon does about it
//! ```

pub mod checked;
pub mod next;
pub mod observed;
pub mod seen;
pub mod situation;
pub mod witnesses;
