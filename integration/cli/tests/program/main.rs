//! The real binary, command by command: every exit code, every JSON shape, every way a hold can end.

#![forbid(unsafe_code)]
#![allow(clippy::too_many_lines, reason = "a table of cases is one piece")]

#[cfg(test)]
mod acquire;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod break_lock;
#[cfg(test)]
mod check;
#[cfg(test)]
mod ci;
#[cfg(test)]
mod claim;
#[cfg(test)]
mod completion;
#[cfg(test)]
mod cycle;
#[cfg(test)]
mod dir_target;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod help;
#[cfg(test)]
mod helpers;
#[cfg(test)]
mod hung_mount;
#[cfg(test)]
mod ignored;
#[cfg(test)]
mod init;
#[cfg(test)]
mod keeper;
#[cfg(test)]
mod line;
#[cfg(test)]
mod list;
#[cfg(test)]
mod lock_target;
#[cfg(test)]
mod log;
#[cfg(test)]
mod loss;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod merge;
#[cfg(test)]
mod not_a_database;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod record;
#[cfg(test)]
mod release;
#[cfg(test)]
mod renew;
#[cfg(test)]
mod run;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod several;
#[cfg(test)]
mod signal;
#[cfg(test)]
mod status;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod tower_look;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod wait;
#[cfg(test)]
mod worktrees;
#[cfg(test)]
mod zombie;

/// A scene for the program that these tests are of.
#[cfg(test)]
fn a_scene() -> beadlock_testkit::Scene {
    beadlock_testkit::Scene::of(env!("CARGO_BIN_EXE_beadlock"))
}
