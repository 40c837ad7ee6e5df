//! The watchdog and the gate keeper: small processes beside a command that do what must be done when their parent is
//! killed.
//!
//! - Under a claim that ends with beadlock the watchdog ends the command's whole tree: without a heartbeat there must
//!   be no work (docs/design.md#holding). It also hears of each heartbeat ([`RenewalPipe`]). Where there is none for
//!   too long (its parent was stopped, or hangs, or the machine has slept), it stops the tree until the next heartbeat.
//!   Under a claim in a fleet it hears of each new deadline, and kills the tree when the last one passes: its parent
//!   may have been stopped, and others may begin to work soon (docs/design.md#the-fleet).
//! - The gate keeper ([`GateKeeper`]) is the one of `beadlock cycle` (docs/design.md#the-gate).
//!
//! Both are started in the same way (`beside_command.rs`), and have the same descriptors:
//!
//! | descriptor | is |
//! |---|---|
//! | 0 | a pipe that its parent alone has the other end of: it ends with the parent; heartbeats are told in it |
//! | 1 | one byte, once it watches; `/dev/null` from then on |
//! | 2 | the gate, or the file whose flock ends with the work, shared for as long as it lives; else `/dev/null` |
//! | more | the other files whose flock ends with the work, under a claim of several targets |
//!
//! Order: the command's process is there, but does not execute yet; the watchdog is started, and watches; the command
//! executes. A parent that has seen the end of the command, or lets it go, kills the watchdog. The end of a cycle lets
//! the gate go first. A watchdog does not die of the signals that end a daemon, which a service manager sends to all
//! processes at once.
//!
//! `flock` belongs to the open file: letting it go here would let go of the parent's too. As long as the parent
//! lives, it is the one to do so; an orphaned gate keeper does it before it ends.
//!
//! The kernel tells the command to end at the same moment (`parent_death` of
//! [`Spawn`](beadlock_base::sys::Spawn)). The whole [tree](crate::process_tree) is then ended as [`crate::tree_ending`]
//! says. Each process is asked when it is first seen, for nobody else is left to do so.
//!
//! # Limits
//! A stopped process that another program continues, as a shell's `fg` does, works for up to 20 ms before it is stopped
//! again. A process that this user may not signal lives on. A watchdog that is killed itself leaves the command alone
//! with the signal of the kernel, which a set-user-id program does not get.

mod beside_command;
mod freeze;
mod gate_keeper;
mod renewal_pipe;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use beadlock_base::deadline::Demand;
use beadlock_base::helper::{self, Helper, Helpers};
use beadlock_base::process::Stat;
use beadlock_core::helper_request::{KIND, WatchdogRequest};
use serde::{Deserialize, Serialize};

use crate::process_tree::ProcessTree;
use crate::tree_ending::{Asks, Ending, Members, TreeLook, end_all};
use beadlock_base::escape::in_title;
use beside_command::{BesideCommand, begin};
use freeze::Freeze;
use renewal_pipe::{RenewalNews, RenewalState};

pub use crate::process_tree::{VARIABLE, variable};
pub use beadlock_core::helper_request::{CommandRef, EndTree};
pub use gate_keeper::{GateKeeper, GateKeeperHelper};
pub use renewal_pipe::{OnRenewal, RenewalPipe};

/// How often it is looked whether a stopped process still stands still.
const AGAIN: Duration = Duration::from_millis(20);

/// A watchdog that watches. Dropped, it is killed and reaped, and does nothing.
#[derive(Debug)]
#[must_use = "dropped, it watches no more"]
pub struct Watchdog(BesideCommand);

impl Watchdog {
    /// Starts one for `command`, and returns once it watches. `shared` are the open files that it keeps locked when its
    /// parent is killed. The names of the command and of the target are for `ps`.
    pub fn start(
        helpers: Helpers,
        command: CommandRef,
        at_end: EndTree,
        names: (&str, &str),
        shared: &[BorrowedFd<'_>],
    ) -> io::Result<Self> {
        let make = |request| (title(names), WatchdogHelper(request));
        BesideCommand::start(helpers, command, at_end, shared, make).map(Self)
    }

    /// The PID of its process.
    pub fn pid(&self) -> i32 {
        self.0.pid()
    }

    /// Where heartbeats are told.
    pub fn pulse(&self) -> io::Result<RenewalPipe> {
        RenewalPipe::on(self.0.alive()?)
    }
}

fn title((command, target): (&str, &str)) -> String {
    format!(
        "beadlock: watches {} for {}",
        in_title(command),
        in_title(target)
    )
}

/// The watchdog's own process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WatchdogHelper(WatchdogRequest<EndTree>);

impl Helper for WatchdogHelper {
    const KIND: &'static str = KIND;

    /// An empty token is in many environments.
    fn is_sound(&self) -> bool {
        let EndTree::EndTree { token, .. } = &self.0.at_end;
        self.0.is_of_a_process() && !token.is_empty()
    }

    fn run(self) -> u8 {
        let WatchdogRequest {
            command,
            at_end:
                EndTree::EndTree {
                    token,
                    grace,
                    silence,
                    deadlines,
                },
            kept,
            ..
        } = self.0;
        helper::detach(helper::WATCHDOG, &kept);
        let _shared = begin();
        let tree = ProcessTree::of_command(command, token);
        let mut heard = RenewalState::new(silence, deadlines);
        wait_for_parent(&mut heard, || tree.living());
        // What would tidy up would do so under a lock that may be somebody else's.
        let grace = if heard.is_late() {
            Duration::ZERO
        } else {
            grace
        };
        let ending = Ending::new(Asks::EachNew, grace, Instant::now());
        end_all(&mut Orphaned { tree, heard }, ending);
        0
    }
}

/// Returns at the parent's end, or past a deadline. Until then a `tree` stands still while there was no heartbeat for
/// too long.
fn wait_for_parent(heard: &mut RenewalState, tree: impl Fn() -> Vec<Stat>) {
    let mut standstill = Freeze::default();
    let stdin = io::stdin();
    let mut stands = false;
    while heard.wait(stdin.as_fd(), stands.then_some(AGAIN)) == RenewalNews::Time {
        if heard.is_late() {
            standstill.keep(&tree);
            stands = true;
        } else if std::mem::take(&mut stands) && !heard.is_over() {
            standstill.end();
        }
    }
}

/// A tree that is ended without the parent, and the deadlines that were told of.
struct Orphaned {
    tree: ProcessTree,
    heard: RenewalState,
}

impl Members for Orphaned {
    fn look(&mut self) -> TreeLook {
        TreeLook::of_scan(self.tree.living())
    }

    fn demand(&mut self) -> Demand {
        if self.heard.is_past_deadline() {
            Demand::Kill
        } else {
            Demand::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_base::deadline::WorkDeadline;
    use beadlock_base::helper::{HelperProgram, helper_words, request_in, serve};
    use beadlock_core::helper_request::OpenGate;

    fn request<A>(at_end: A) -> WatchdogRequest<A> {
        WatchdogRequest {
            parent: 7,
            command: CommandRef::of(std::process::id().cast_signed(), true),
            at_end,
            kept: vec![5],
        }
    }

    fn watchdog(token: &str) -> WatchdogHelper {
        WatchdogHelper(request(EndTree::EndTree {
            token: token.to_owned(),
            grace: Duration::MAX,
            silence: Some(Duration::from_nanos(875_000_001)),
            deadlines: vec![WorkDeadline::PASSED],
        }))
    }

    fn written(helper: &impl Helper) -> Vec<u8> {
        let helpers = serve(&[], const { &[HelperProgram::of::<WatchdogHelper>()] }).unwrap();
        let [_, _, request] = helper_words(helpers, "does it", helper).unwrap();
        assert!(!request.contains('\0'), "{request}");
        request.into_bytes()
    }

    #[test]
    fn the_request_tells_a_watchdog_from_a_gate_keeper() {
        let keeper = GateKeeperHelper::of(request(OpenGate::OpenGate));
        let (of_watchdog, of_keeper) = (written(&watchdog("t1")), written(&keeper));
        assert_eq!(request_in(&of_watchdog), Some(watchdog("t1")));
        assert_eq!(request_in(&of_keeper), Some(keeper));
        assert_eq!(request_in::<WatchdogHelper>(&of_keeper), None);
        assert_eq!(request_in::<GateKeeperHelper>(&of_watchdog), None);
    }

    #[test]
    fn only_requests_of_processes_are_followed() {
        let keeper = |pid: i32| {
            let mut request = request(OpenGate::OpenGate);
            request.command.process.pid = pid;
            request_in::<GateKeeperHelper>(&written(&GateKeeperHelper::of(request)))
        };
        assert!(keeper(1).is_some());
        assert_eq!([keeper(0), keeper(-1)], [None, None]);
        assert_eq!(request_in::<WatchdogHelper>(&written(&watchdog(""))), None);
    }

    #[test]
    fn a_title_says_what_is_done_and_stays_short() {
        assert_eq!(
            title(("make", "tower:app-prod")),
            "beadlock: watches make for tower:app-prod"
        );
        assert_eq!(
            gate_keeper::title(("make", ".beads")),
            "beadlock: keeps the gate of .beads for make"
        );
        let hostile = "\n\0\u{202e}é".repeat(100);
        for title in [title, gate_keeper::title].map(|title| title((&hostile, &hostile))) {
            assert!(
                title.chars().count() < 200 && title.ends_with(|c| c != '\n'),
                "{title}"
            );
            assert!(
                !title.chars().any(|c| c.is_control() || c == '\u{202e}'),
                "{title}"
            );
        }
    }
}
