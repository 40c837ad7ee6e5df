//! What people and scripts are told, as text in files: `snapshots/ROOM/NAME.snap`.
//!
//! A test of one room plays command lines in scenes and pins each answer: exit code, stdout, stderr. A name that begins
//! with `contract-` is an answer that scripts rely on; a change to one belongs in CHANGELOG. To take over changed
//! answers: `INSTA_UPDATE=always cargo test -p beadlock-tests --test contract`, then read `git diff`.

mod answer;
mod book;
mod hide;
mod setting;

mod agent;
mod beads;
mod faces;
mod file;
mod flows;
mod lock;
mod look;
mod memory;
mod surface;
mod tower;
mod twice;
mod usage;
