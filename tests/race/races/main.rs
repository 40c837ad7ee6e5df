//! Races that happen every time: something bad comes at one certain step, at each step in turn, and what must hold is
//! said in words.
//!
//! ```text
//! steps.rs      every operation on a lock, at every hook point, with every intruder
//! naive.rs      the same with the ways that everybody writes first: they must lose
//! course.rs     the course that an operation takes
//! operation.rs  what an operation finds, and who must be there after it
//! actor.rs      the process that makes its steps, one at a time
//! grace.rs      a writer that had the lock open before it was moved aside
//! intruder.rs   who comes in between
//! rule.rs       what must hold then
//! standing.rs   whose claims stand, by what the next checks say
//! kernel.rs     who waits for whom, as the kernel says
//! hold.rs       `beadlock hold`, stopped before its fork, the gate, the link and so on
//! point.rs      where it can be stopped: before a system call
//! drain.rs      a claim that waits for a running cycle
//! executable.rs a program that a test writes, executed at once
//! ```

mod actor;
mod course;
mod drain;
mod executable;
mod grace;
mod hold;
mod intruder;
mod kernel;
mod naive;
mod operation;
mod point;
mod rule;
mod standing;
mod steps;
