//! What must hold in every state of the fleet, and what must be seen in some.

use stateright::Property;

use super::agent::{Agent, Right, Stage, Yield};
use super::claimer::{self, Claimer};
use super::rules::RightRule;
use super::server::{Lease, Verdict};
use super::system::{Actor, Fleets, State};
use super::world::Wrong;

/// No cycle's work runs beside a claim's command, on any machine.
pub const NO_CYCLE_BESIDE: &str = "no cycle runs beside a claim's command";
/// The commands of two claims never run at once.
pub const NO_OVERLAP: &str = "no two commands overlap";
/// A command's token is above that of every earlier one.
pub const TOKENS_RISE: &str = "tokens rise";
/// An agent whose renewals count has a right that etcd knows.
pub const RIGHT_IS_KNOWN: &str = "a right that counts is in etcd";
/// A session counts itself lost only when something has happened to it.
pub const NO_NEEDLESS_LOSS: &str = "no session is lost without a fault";

/// All that must hold.
pub const MUST_HOLD: [&str; 5] = [
    NO_CYCLE_BESIDE,
    NO_OVERLAP,
    TOKENS_RISE,
    RIGHT_IS_KNOWN,
    NO_NEEDLESS_LOSS,
];

pub const CYCLE_RUNS: &str = "a cycle runs";
pub const COMMAND_RUNS: &str = "a command runs";
pub const CLAIM_DRAINS: &str = "a claim waits for a cycle on another machine";
pub const CLAIM_WAITS: &str = "a claim waits for another one";
pub const RIGHT_IS_LATE: &str = "a yield is sent while the answer to a right is under way";
pub const YIELD_REPEATED: &str = "a yield is not answered";
pub const CYCLE_ORPHANED: &str = "a cycle outlives its agent";
pub const COMMAND_ORPHANED: &str = "a command outlives its beadlock";
pub const COMMAND_ENDED: &str = "a deadline ends a command";
pub const LEASE_LAPSED: &str = "a session is used whose lease has lapsed";
pub const REQUEST_LATE: &str = "a request is late";
pub const NEW_FLEET: &str = "a new fleet keeps everybody from beginning";
pub const ROLLED_BACK: &str = "a command runs after a restore";
pub const BROKEN: &str = "a broken session still runs a command";

fn always(name: &'static str, condition: fn(&Fleets, &State) -> bool) -> Property<Fleets> {
    Property::always(name, condition)
}

fn sometimes(name: &'static str, condition: fn(&Fleets, &State) -> bool) -> Property<Fleets> {
    Property::sometimes(name, condition)
}

pub fn all() -> Vec<Property<Fleets>> {
    vec![
        always(NO_CYCLE_BESIDE, |_, state| {
            state.commands().count() == 0 || state.cycles().count() == 0
        }),
        always(NO_OVERLAP, |_, state| state.commands().count() < 2),
        always(TOKENS_RISE, |_, state| {
            state.world.wrong != Some(Wrong::Token)
        }),
        always(RIGHT_IS_KNOWN, |fleets, state| {
            state.agents().all(|agent| fleets.knows_right(state, agent))
        }),
        always(NO_NEEDLESS_LOSS, |_, state| {
            state.world.wrong != Some(Wrong::Loss)
        }),
        sometimes(CYCLE_RUNS, |_, state| state.cycles().count() > 0),
        sometimes(COMMAND_RUNS, |_, state| state.commands().count() > 0),
        sometimes(CLAIM_DRAINS, |_, state| {
            let drains = |claimer: &Claimer| claimer.stage == claimer::Stage::Raised;
            state.claimers().any(drains)
                && state
                    .agents()
                    .any(|agent| agent.works() && agent.claim.is_some())
        }),
        sometimes(CLAIM_WAITS, |_, state| {
            state
                .claimers()
                .any(|claimer| claimer.stage == claimer::Stage::Up)
                && state.world.server.claim.is_some()
        }),
        sometimes(RIGHT_IS_LATE, |_, state| {
            let is_late = |agent: &Agent| {
                agent.claim.is_some()
                    && agent.yielded == Yield::No
                    && matches!(agent.right, Right::Answered(_))
            };
            state.agents().any(is_late)
        }),
        sometimes(YIELD_REPEATED, |_, state| {
            state
                .agents()
                .any(|agent| agent.yielded == Yield::Unanswered)
        }),
        sometimes(CYCLE_ORPHANED, |_, state| {
            state
                .agents()
                .any(|agent| agent.work.is_some_and(|work| work.orphaned))
        }),
        sometimes(COMMAND_ORPHANED, |_, state| {
            state
                .claimers()
                .any(|claimer| claimer.stage == claimer::Stage::Orphaned)
        }),
        sometimes(COMMAND_ENDED, |_, state| {
            state
                .claimers()
                .any(|claimer| claimer.stage == claimer::Stage::Lost && claimer.claim > 0)
        }),
        sometimes(LEASE_LAPSED, |_, state| {
            state
                .used()
                .members()
                .any(|lease| state.world.has_passed(lease) && !state.world.server.leases.has(lease))
        }),
        sometimes(REQUEST_LATE, |_, state| !state.world.strays.is_empty()),
        sometimes(NEW_FLEET, |_, state| state.world.server.new),
        sometimes(ROLLED_BACK, |_, state| {
            state.world.harmed && state.commands().count() > 0
        }),
        sometimes(BROKEN, |_, state| {
            state
                .commands()
                .any(|lease| state.world.server.broken.has(lease))
        }),
    ]
}

impl State {
    fn claimers(&self) -> impl Iterator<Item = &Claimer> {
        self.actors.iter().filter_map(|actor| match actor {
            Actor::Claimer(claimer) => Some(claimer),
            Actor::Agent(_) => None,
        })
    }

    fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.actors.iter().filter_map(|actor| match actor {
            Actor::Agent(agent) => Some(agent),
            Actor::Claimer(_) => None,
        })
    }

    /// Commands that run, by their leases. Where etcd was changed behind its clients' backs, a session is not counted
    /// until its next renewal: that much is admitted (`docs/fleet.md`).
    fn commands(&self) -> impl Iterator<Item = Lease> {
        let works = |(who, actor): (u8, &Actor)| match actor {
            Actor::Claimer(claimer) if claimer.works() => Some(Claimer::lease(who)),
            _ => None,
        };
        (0..)
            .zip(&self.actors)
            .filter_map(works)
            .filter(|lease| !self.world.unverified.has(*lease))
    }

    /// The same for cycles whose work runs.
    fn cycles(&self) -> impl Iterator<Item = Lease> {
        let works = self
            .agents()
            .filter_map(|agent| agent.work.filter(|work| work.runs));
        works
            .map(|work| work.lease)
            .filter(|lease| !self.world.unverified.has(*lease))
    }
}

impl Fleets {
    fn knows_right(&self, state: &State, agent: &Agent) -> bool {
        let Some(session) = agent.session.filter(|session| session.stage == Stage::Up) else {
            return true;
        };
        let counts =
            agent.right == Right::Held && agent.verdict(&state.world, &self.rules) == Verdict::Good;
        !counts
            || self.rules.right == RightRule::Look
            || state.world.has_passed(session.lease)
            || state.world.server.has_right(session.lease, &self.rules)
    }
}
