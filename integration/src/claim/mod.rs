//! Claims (docs/design.md#holding): what every command shares that makes one, waits for one, watches one or ends one,
//! and the command that runs under it.
//!
//! ```text
//! guard.rs       Hold and Claim: a lock taken from Rust
//! claiming.rs    the loop: gate, attempt, wait for who is in the way
//! patience.rs    how long it is tried again, and the wait in between
//! gate.rs        the gate with a bounded wait: a helper thread blocked in flock(2)
//! event.rs       what wakes a wait: the directory, the holder's end, a signal
//! attendant.rs   who looks after a wait: tells the user, hears signals; what it hears, and how it stops one
//! asking.rs      a wait that asks whether it is to go on
//! nested.rs      inside another hold, or inside a cycle
//! loss.rs        the watch over a lock that is held
//! keeping.rs     a lock that stands is watched, and where its dialect wants that kept up
//! lease/         the heartbeats of a lock that is judged by time, and its limits
//! protocol.rs    what a claim needs of the protocol of its lock
//! explained.rs   what a lock amounts to, as its protocol explains it: values for `explain`
//! leaving.rs     the end of a claim
//! report.rs      what became of it, for people and in JSON
//! command.rs     the command: found in PATH before any wait, forked, not yet executing
//! signals.rs     signals as they come, and who sent them
//! tree.rs        everything that a command has started
//! known_process.rs  a process that another process of beadlock is told of
//! supervise.rs   from the command's start to the end of what must end before the release
//! ```

pub mod asking;
pub mod attendant;
pub mod claiming;
pub mod command;
pub mod event;
pub mod explained;
pub mod gate;
pub mod keeping;
pub mod kernel_claim;
pub mod kernel_lock;
pub mod known_process;
pub mod lease;
pub mod leaving;
pub mod loss;
pub mod nested;
pub mod patience;
pub mod protocol;
pub mod record_claim;
pub mod release;
pub mod report;
pub mod session_claim;
pub mod settling;
pub mod signals;
pub mod supervise;
pub mod target;
pub mod tree;
