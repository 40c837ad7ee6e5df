//! Watchdogs: the helper processes of `beadlock` that outlive it for the work of a command, as `/proc` shows them
//! (Linux). What their command lines say is untrusted.

use serde::{Deserialize, de::IgnoredAny};

use crate::{beside, namespace, process};

/// The parts of a watchdog's request that say what it does for which command.
#[derive(Deserialize)]
pub(crate) enum Watchdog {
    Watchdog { parent: i32, command: WatchedCommand, at_end: AtEnd },
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct WatchedCommand {
    pub pid: i32,
    /// It leads a group of its own.
    pub leads: bool,
}

#[derive(Deserialize)]
pub(crate) enum AtEnd {
    /// It ends all that the command has started.
    EndTree(IgnoredAny),
    /// It waits for the end of the command, and opens the gate.
    OpenGate,
}

/// The watchdog that has still to end what the command of the process `command` has started. `None` also where it
/// cannot be seen. It watches from before the command begins to work until nothing of that is left; so when the
/// process was gone before this look, no work of it goes on.
pub(crate) fn that_ends(command: i64) -> Option<i32> {
    let ends = |pid: &i32| match beside::request_of(*pid) {
        Some(Watchdog::Watchdog { command: watched, at_end: AtEnd::EndTree(_), .. }) => {
            i64::from(watched.pid) == command && namespace::is_of_ours(*pid)
        }
        _ => false,
    };
    process::pids().filter(|_| process::proc_is_ours()).find(ends)
}
