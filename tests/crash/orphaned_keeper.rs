//! `acquire` is killed before it can say which claim it made; its keeper then ends that claim. The keeper is looked at
//! before each of its changes: it stands still there, and is let go on or killed.

use beadlock_tests::stepped::{Calls, Stands, Stepped, kill_and_stop};
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Scene, become_subreaper, skip, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{Case, DETACH, MEMORY_ACQUIRE, recorded, still_claimed};

/// More changes than a keeper makes at its end.
const CHANGES: usize = 60;

/// What becomes of a keeper that stands still.
#[derive(Debug, Clone, Copy)]
enum Then {
    GoesOn,
    IsKilled,
}

/// How often the keeper is looked at from its first change to its last. Its threads do not always take turns the same
/// way, and between moving its record aside and deleting that it makes no other change.
const SWEEPS: usize = 10;

/// Where the record was found while the keeper stood still.
#[derive(Debug, Default)]
struct Found {
    in_place: usize,
    aside: usize,
    gone: usize,
}

impl Found {
    fn is_everything(&self) -> bool {
        self.in_place > 0 && self.aside > 0 && self.gone > 0
    }

    fn count(&mut self, in_place: bool, aside: bool) {
        match (in_place, aside) {
            (true, _) => self.in_place += 1,
            (false, true) => self.aside += 1,
            (false, false) => self.gone += 1,
        }
    }
}

impl Case {
    fn keeper_stands_still_before_each_change(&self, then: Then) {
        become_subreaper();
        let mut found = Found::default();
        for _ in 0..SWEEPS {
            let mut changes = 0;
            while self.keeper_stands_still(changes, then, &mut found) {
                changes += 1;
                assert!(changes < CHANGES, "it makes ever more changes: {found:?}");
            }
            if changes == 0 {
                return skip::cannot("nobody may trace a program here");
            }
            if found.is_everything() {
                return;
            }
        }
        panic!("{found:?}: this shows nothing");
    }

    /// False: the keeper has made fewer changes, or nobody may trace it.
    fn keeper_stands_still(&self, at: usize, then: Then, found: &mut Found) -> bool {
        let scene = Scene::new();
        let others = (self.before)(&scene);
        let command = self.command(&scene, &others, "kill -STOP $$;");
        let what = format!(
            "before the keeper's change {at}, which then {then:?}: {:?}",
            command.get_args()
        );
        let mut stood = false;
        let stepped = kill_and_stop(
            command,
            0,
            Calls::Output,
            Stands::BeforeChange(at),
            |left| {
                stood = !left.is_empty();
                let is_there = |path| recorded(path).is_some();
                found.count(
                    is_there(&self.kind.lock(&scene)),
                    is_there(&self.kind.aside(&scene)),
                );
                still_claimed(self.kind, &scene, left, &what);
                if matches!(then, Then::IsKilled) {
                    kill_and_reap(left);
                    still_claimed(self.kind, &scene, &[], &what);
                }
            },
        );
        match stepped {
            Stepped::Killed => self.recovers(&scene, others, &what),
            Stepped::Impossible => return false,
            ended @ Stepped::Ended(..) => panic!("{what}: {ended:?}"),
        }
        stood
    }
}

/// Of a process the first thread's end is not to be had before that of the others.
fn kill_and_reap(threads: &[Pid]) {
    for pid in threads {
        // An error: a thread of a process that is killed already.
        let _ = kill(*pid, Signal::SIGKILL);
    }
    let mut left = threads.to_vec();
    wait_until(PATIENCE, "the keeper's end", || {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
        left.retain(|pid| waitpid(*pid, Some(flags)) == Ok(WaitStatus::StillAlive));
        left.is_empty()
    });
}

#[test]
fn of_a_database() {
    DETACH.keeper_stands_still_before_each_change(Then::GoesOn);
    DETACH.keeper_stands_still_before_each_change(Then::IsKilled);
}

#[test]
fn of_a_directory() {
    // The lock names the script, which lives on: a killed keeper leaves a live record aside, and a check puts it back.
    MEMORY_ACQUIRE.keeper_stands_still_before_each_change(Then::GoesOn);
    MEMORY_ACQUIRE.keeper_stands_still_before_each_change(Then::IsKilled);
}
