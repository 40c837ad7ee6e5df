//! The actors.

mod agent;
mod check;
mod claimer;
mod naive;

pub use agent::Agent;
pub use check::Check;
pub use claimer::Claimer;
pub use naive::{Naive, Stage, Way};

use crate::protocol::Protocol;
use crate::set::Who;
use crate::site::{Next, Site};
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    Claimer(Claimer),
    Agent(Agent),
    Check(Check),
    Naive(Naive),
}

/// What an actor does, or what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    Step,
    /// It runs out of patience.
    GiveUp,
    /// The kernel takes the lease that keeps it waiting.
    ByForce,
    /// It is killed.
    Crash,
}

impl Actor {
    /// Where it is under the gate.
    pub fn site(self) -> Option<Site> {
        match self {
            Self::Claimer(claimer) => claimer.site(),
            Self::Agent(agent) => agent.site(),
            Self::Check(check) => check.site(),
            Self::Naive(_) => None,
        }
    }

    /// The work of a cycle runs.
    pub fn is_cycle(self) -> bool {
        matches!(self, Self::Agent(agent) if agent.works())
    }

    /// The command of a claim runs.
    pub fn is_command(self) -> bool {
        matches!(self, Self::Claimer(claimer) if claimer.works())
    }

    pub fn may_give_up(self) -> bool {
        let is_contended = self.site().is_some_and(|site| site.next == Next::Contended);
        is_contended || matches!(self, Self::Check(Check::NeedsGate))
    }

    /// The actor afterwards; `None` when it cannot happen now.
    pub fn after(
        self,
        deed: Deed,
        who: Who,
        world: &mut World,
        protocol: &Protocol,
    ) -> Option<Self> {
        Some(match (self, deed) {
            (Self::Claimer(claimer), Deed::Step) => {
                Self::Claimer(claimer.step(who, world, protocol)?)
            }
            (Self::Claimer(claimer), Deed::GiveUp) => Self::Claimer(claimer.give_up(who, world)?),
            (Self::Claimer(claimer), Deed::Crash) => Self::Claimer(claimer.crash(who, world)?),
            (Self::Agent(agent), Deed::Step) => Self::Agent(agent.step(who, world, protocol)?),
            (Self::Agent(agent), Deed::GiveUp) => Self::Agent(agent.give_up(who, world)?),
            (Self::Agent(agent), Deed::Crash) => Self::Agent(agent.crash(who, world, protocol)?),
            (Self::Check(check), Deed::Step) => Self::Check(check.step(who, world, protocol)?),
            (Self::Check(check), Deed::GiveUp) => Self::Check(check.give_up(who, world)?),
            (Self::Check(check), Deed::Crash) => Self::Check(check.crash(who, world)?),
            (Self::Naive(naive), Deed::Step) => Self::Naive(naive.step(who, world)?),
            (Self::Naive(naive), Deed::ByForce) => Self::Naive(naive.gets_it_by_force(who, world)?),
            (Self::Naive(naive), Deed::Crash) => Self::Naive(naive.crash(who, world)?),
            (_, Deed::GiveUp | Deed::ByForce) => return None,
        })
    }
}
