//! Checks that hang, since the file system of their database does not answer: named in the log and in `/status`.

use std::time::Duration;

use beadlock_base::mounts::Mounts;
use tokio::time::Instant;

use super::Scheduler;
use crate::hang::silence;
use crate::log::{self, agent_lines};

/// A check takes microseconds, and the grace of a stale lock at most a tenth of a second.
const SILENT_AFTER: Duration = Duration::from_secs(5);

impl Scheduler {
    /// When the longest running check counts as one that hangs.
    pub(super) fn end_of_silence(&mut self) -> Option<Instant> {
        while let Some((begun, number)) = self.checking.front() {
            if self
                .databases
                .get(number)
                .is_some_and(|entry| entry.checked_since == Some(*begun))
            {
                return Some(*begun + SILENT_AFTER);
            }
            self.checking.pop_front();
        }
        None
    }

    /// Names the checks that hang in a file system which may do so. The first in each file system is logged.
    pub(super) fn say_silent(&mut self) {
        let mounts = Mounts::now();
        while let Some((begun, number)) = self.checking.front().copied() {
            if begun.elapsed() < SILENT_AFTER {
                return;
            }
            self.checking.pop_front();
            let Some(entry) = self.databases.get(&number) else {
                continue;
            };
            if entry.checked_since != Some(begun) {
                continue;
            }
            let database = &entry.subject.database;
            let named = [&database.named, &database.dir];
            let Some(at) = named
                .into_iter()
                .find(|dir| mounts.on_the_way(dir).is_some())
            else {
                continue;
            };
            let why = silence(&mounts, at);
            if !self
                .databases
                .values()
                .any(|other| other.silent.as_ref() == Some(&why))
            {
                let words = format_args!("{why}; its cycles go on as soon as that answers");
                log::announce(agent_lines::not_serving(at, words));
            }
            self.silenced(number, &why);
            if let Some(entry) = self.databases.get_mut(&number) {
                entry.silent = Some(why);
            }
        }
    }
}
