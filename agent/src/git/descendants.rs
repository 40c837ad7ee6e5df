//! A program and all that it has started: a git whose time is over leaves its transport and its hooks behind, and for
//! them there is no group, because all of a sync is one.

use beadlock_checker::internal::process::{self, Stat};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// As they were when they were looked for, the program itself first.
pub(super) struct Descendants(Vec<Stat>);

impl Descendants {
    /// Of a child that is not reaped yet.
    pub(super) fn of(pid: i32) -> Self {
        let all = process::all();
        let mut found: Vec<Stat> = all.iter().filter(|stat| stat.pid == pid).cloned().collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|stat| stat.pid) {
            found.extend(all.iter().filter(|stat| stat.ppid == parent).cloned());
            next += 1;
        }
        Self(found)
    }

    /// To each that still is who it was.
    pub(super) fn signal(&self, signal: Signal) {
        for stat in &self.0 {
            if Stat::read(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks) {
                let _ = kill(Pid::from_raw(stat.pid), signal);
            }
        }
    }
}
