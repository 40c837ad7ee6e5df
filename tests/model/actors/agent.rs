//! `beadlock-agent` and the work of its cycles (`agent/src/cycle.rs`, `checker/core/src/{check,runner}.rs`).
//!
//! Comes again for ever. One that was killed is started again when its work has ended. The work leaves a process behind
//! each time, which has whatever the work has inherited and never ends.

use crate::protocol::Protocol;
use crate::set::Who;
use crate::site::{Came, Site, Wanted};
use crate::world::{World, Wrong};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agent {
    Idle,
    /// `Cycle::enter`: `Site::settle` under the gate. `before`: the claims that stood when it began.
    Checking(Site),
    /// The cycle may run; the runner is not there yet.
    Entered,
    /// The work runs, and the runner shares the gate.
    Working,
    /// The work is over.
    Leaving,
    /// The agent was killed, and the work goes on under the runner.
    Orphaned,
    /// The runner was killed as well, and the work goes on by itself.
    Left,
}

impl Agent {
    /// A cycle's work runs.
    pub fn works(self) -> bool {
        matches!(self, Self::Working | Self::Orphaned | Self::Left)
    }

    pub fn site(self) -> Option<Site> {
        match self {
            Self::Checking(site) => Some(site),
            _ => None,
        }
    }

    /// One step; `None` when it has to wait, or is to skip this time.
    pub fn step(self, who: Who, world: &mut World, protocol: &Protocol) -> Option<Self> {
        Some(match self {
            Self::Idle => world
                .take_gate(who, protocol)
                .then_some(Self::Checking(Site::new(Wanted::Dead)))?,
            Self::Checking(site) => Self::checked(site.step(who, world, protocol)?, who, world),
            Self::Entered => Self::Working,
            Self::Working => Self::Leaving,
            Self::Leaving | Self::Orphaned => {
                if protocol.end_unlocks {
                    world.let_gate_go(who);
                }
                Self::Idle
            }
            // Nobody unlocks it: the close of the last copy does. That the work leaves nothing behind is assumed here.
            Self::Left => {
                world.let_gate_go(who);
                Self::Idle
            }
        })
    }

    fn checked(came: Came, who: Who, world: &mut World) -> Self {
        match came {
            Came::To(site) => Self::Checking(site),
            Came::Free => {
                if !world.standing().is_empty() {
                    world.wrong = Some(Wrong::Cycle);
                }
                Self::Entered
            }
            Came::Refused | Came::Released => {
                world.let_gate_go(who);
                Self::Idle
            }
        }
    }

    /// Gives up a file that somebody keeps touching.
    pub fn give_up(self, who: Who, world: &mut World) -> Option<Self> {
        match self {
            Self::Checking(site) => Some(Self::checked(site.give_up(who, world), who, world)),
            _ => None,
        }
    }

    /// The agent is killed, its work is not.
    pub fn crash(self, who: Who, world: &mut World, protocol: &Protocol) -> Option<Self> {
        world.close(who);
        match self {
            Self::Idle | Self::Left => None,
            Self::Orphaned => {
                if !protocol.work_inherits_gate {
                    world.let_gate_go(who);
                }
                Some(Self::Left)
            }
            Self::Working => {
                if !protocol.work_holds_gate {
                    world.let_gate_go(who);
                }
                Some(Self::Orphaned)
            }
            _ => {
                world.let_gate_go(who);
                Some(Self::Idle)
            }
        }
    }
}
