//! Holding a lock (DESIGN 7): `hold -- CMD`, and the guard for Rust. Both claim by the same loop.
//!
//! ```text
//! mod.rs         this page, and the command `hold`
//! guard.rs       Hold and Claim: a lock taken from Rust
//! wait.rs        the wait policy and its schedule
//! attend.rs      looks after a wait: tells the user, hears signals
//! claim.rs       the loop: gate, claim, wait for who holds it
//! gate.rs        the gate with a bounded wait: a helper thread blocked in flock(2)
//! event.rs       what wakes a wait: the directory, the holder's end, a signal
//! nested.rs      inside another hold, or inside a cycle
//! command.rs     the command: found in PATH before any wait, forked, not yet executing
//! signals.rs     signals as they come, and who sent them
//! tree.rs        everything that the command has started
//! supervise.rs   from the command's start to the end of what must end before the release
//! loss.rs        the watch over a lock that is held
//! leaving.rs     the end of a claim
//! report.rs      what became of it, for people and in JSON
//! ```

pub mod attend;
pub mod claim;
pub mod command;
pub mod event;
pub mod gate;
pub mod guard;
pub mod leaving;
pub mod loss;
pub mod nested;
pub mod report;
pub mod run;
pub mod signals;
pub mod supervise;
pub mod tree;
pub mod wait;
