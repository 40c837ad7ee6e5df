//! The gate keeper, beside the command of `beadlock cycle` (docs/design.md#the-gate). It holds the same open gate, so
//! that the gate stays shut for as long as the command works, also when beadlock is killed.
//!
//! It waits until the command's process has ended and, where that led a process group of its own, until no process
//! lives in that group, since children that still write may be left. Then it opens the gate. On a terminal the command
//! is in the group of its caller, and that group says nothing.

use std::os::fd::BorrowedFd;
use std::{ffi::CStr, io, thread::sleep, time::Duration};

use beadlock_base::helper::{self, Helper, Helpers};
use beadlock_base::{process, sys};
use beadlock_core::gate::Gate;
use beadlock_core::helper_request::{CommandRef, KIND, OpenGate, WatchdogRequest};
use serde::{Deserialize, Serialize};

use super::beside_command::{BesideCommand, begin};
use super::{renewal_pipe::RenewalState, wait_for_parent};
use crate::process_ref::wait_for_end;
use beadlock_base::escape::in_title;

/// What it is called in a list of processes.
const NAME: &CStr = c"beadlock-gate";

/// The pause between two looks at a process group.
const GROUP_PAUSE: Duration = Duration::from_millis(20);

/// A gate keeper that keeps a gate. Dropped, it is killed and reaped, and opens nothing.
#[derive(Debug)]
#[must_use = "dropped, it keeps the gate no more"]
pub struct GateKeeper(BesideCommand);

impl GateKeeper {
    /// Starts one for `command`, and returns once it keeps the gate. The names of the command and of the target are for
    /// `ps`.
    pub fn start(
        helpers: Helpers,
        command: CommandRef,
        names: (&str, &str),
        gate: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let make = |request| (title(names), GateKeeperHelper(request));
        BesideCommand::start(helpers, command, OpenGate::OpenGate, &[gate], make).map(Self)
    }

    /// The PID of its process.
    pub fn pid(&self) -> i32 {
        self.0.pid()
    }
}

pub(super) fn title((command, target): (&str, &str)) -> String {
    format!(
        "beadlock: keeps the gate of {} for {}",
        in_title(target),
        in_title(command)
    )
}

/// The gate keeper's own process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GateKeeperHelper(WatchdogRequest<OpenGate>);

#[cfg(test)]
impl GateKeeperHelper {
    /// The helper with this request.
    pub fn of(request: WatchdogRequest<OpenGate>) -> Self {
        Self(request)
    }
}

impl Helper for GateKeeperHelper {
    const KIND: &'static str = KIND;

    fn is_sound(&self) -> bool {
        self.0.is_of_a_process()
    }

    fn run(self) -> u8 {
        let WatchdogRequest { command, kept, .. } = self.0;
        helper::detach(NAME, &kept);
        let end = sys::pidfd_open(command.process.pid).ok();
        let gate = begin();
        wait_for_parent(&mut RenewalState::new(None, Vec::new()), Vec::new);
        wait_for_end(command.process, end);
        // As long as a process lives in the group, no other group gets its number.
        while command.leads && !process::group_is_gone(command.process.pid) {
            sleep(GROUP_PAUSE);
        }
        match gate {
            Ok(gate) => Gate::unlock(gate),
            Err(_) => Gate::unlock(io::stderr()),
        }
        0
    }
}
