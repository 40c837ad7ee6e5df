//! Checks that do not end, since the file system of their database no longer answers: named in the log and in
//! `/status`.

use std::time::Duration;

use beadlock_checker::internal::mounts::Mounts;
use tokio::time::Instant;

use super::Scheduler;
use crate::beside::silence;
use crate::log::{self, own};

/// A check takes microseconds, and the grace of a stale lock at most a tenth of a second.
const SILENT_AFTER: Duration = Duration::from_secs(5);

impl Scheduler {
    /// When the check that has gone on for longest counts as one that hangs.
    pub(super) fn end_of_silence(&mut self) -> Option<Instant> {
        while let Some((begun, number)) = self.checking.front() {
            if self.databases.get(number).is_some_and(|entry| entry.is_checked_since(*begun)) {
                return Some(*begun + SILENT_AFTER);
            }
            self.checking.pop_front();
        }
        None
    }

    /// Names the checks that hang in a file system which may do so. Of those in one file system, the first is in the
    /// log.
    pub(super) fn say_silent(&mut self) {
        let mounts = Mounts::now();
        while let Some((begun, number)) = self.checking.front().copied() {
            if begun.elapsed() < SILENT_AFTER {
                return;
            }
            self.checking.pop_front();
            let Some(entry) = self.databases.get(&number).filter(|entry| entry.is_checked_since(begun))
            else {
                continue;
            };
            let database = &entry.subject.database;
            let named = [&database.named, &database.dir];
            let Some(at) = named.into_iter().find(|dir| mounts.on_the_way(dir).is_some()) else { continue };
            let why = silence(&mounts, at);
            let is_known = self.databases.values().any(|other| other.silent.as_ref() == Some(&why));
            if !is_known {
                let words = format_args!("{why}; its cycles go on as soon as that answers");
                log::announce(own::not_serving(at, words));
            }
            if let Some(entry) = self.databases.get_mut(&number) {
                entry.silent = Some(why);
            }
        }
    }
}

impl super::ServedDatabase {
    fn is_checked_since(&self, begun: Instant) -> bool {
        self.checked_since == Some(begun)
    }

    /// Its check has ended.
    pub(super) fn answered(&mut self) {
        self.checked_since = None;
        self.silent = None;
    }
}
