//! What must hold in every state, and what must be seen in some.

use stateright::Property;

use crate::actors::{Actor, Agent, Claimer};
use crate::ending;
use crate::file::{Content, Name};
use crate::set::Who;
use crate::site::{Next, Wanted};
use crate::system::{State, System};
use crate::world::Wrong;

/// No cycle's work runs beside a command whose drain has ended.
pub const NO_CYCLE_BESIDE: &str = "no cycle runs beside a command";
/// The commands of two claims never run at once.
pub const NO_OVERLAP: &str = "no two commands overlap";
/// Nobody links a lock while a claim stands, a naive one either.
pub const NO_CLAIM_BESIDE: &str = "no lock is linked beside a claim that stands";
/// The record of a claim that stands has a name until its owner removes it.
pub const NO_LOSS: &str = "no live lock is lost";
/// An agent does not find that it may work while a claim stands, a naive one either.
pub const CYCLE_SKIPS: &str = "no cycle is begun while a claim stands";
/// The same for a check, but for a claim that came while it looked without the gate.
pub const CHECK_SKIPS: &str = "no check says proceed beside an older claim";

/// If everybody is killed now, one check clears away what can be proved dead, with no side file left.
pub const CHECK_CLEARS: &str = "whoever is killed, the next check clears";

/// Nobody completes a claim beside one that stands, a naive one either, unless it destroys that one. Beside two writers
/// without the gate it does not hold: one makes a new lock while the other's open is on its way to a file that is aside.
pub const NO_TWO_CLAIMS: &str = "no two claims stand at once";

/// All that must hold, whoever takes part.
pub const MUST_HOLD: [&str; 7] = [
    NO_CYCLE_BESIDE,
    NO_OVERLAP,
    NO_CLAIM_BESIDE,
    NO_LOSS,
    CYCLE_SKIPS,
    CHECK_SKIPS,
    CHECK_CLEARS,
];

pub const CYCLE_RUNS: &str = "a cycle runs";
pub const COMMAND_RUNS: &str = "a command runs";
pub const CLAIM_DRAINS: &str = "a claim waits for a cycle's work";
pub const WORK_OUTLIVES_AGENT: &str = "the work outlives its agent";
pub const WORK_OUTLIVES_RUNNER: &str = "the work outlives its agent and its runner";
pub const COMMAND_OUTLIVES_CLAIMER: &str = "a command outlives its beadlock";
pub const STALE_LOCK_REMOVED: &str = "a stale lock is removed";
pub const LOCK_RELEASED: &str = "a lock is released";
pub const LOCK_PUT_BACK: &str = "a lock that was moved aside is put back";
pub const WAY_BACK_TAKEN: &str = "a lock cannot be put back, because there is another";
pub const FOREIGN_FILE_MOVED: &str = "another file than the judged one is moved aside";
pub const RECOVERY_DELETES: &str = "a recovery deletes a dead side file";
pub const RECOVERY_PUTS_BACK: &str = "a recovery puts a side file back";
pub const RECOVERY_EXCHANGES: &str = "a recovery exchanges the two";
pub const LEASE_BROKEN: &str = "a lease is broken";
pub const LEASE_REFUSED: &str = "a lease is refused";
pub const LEASE_TAKEN: &str = "a lease is taken by force";
pub const LINK_FINDS_LOCK: &str = "a link finds a lock";

/// What a property asks of a state.
type Condition = fn(&System, &State) -> bool;

fn always(name: &'static str, condition: Condition) -> Property<System> {
    Property::always(name, condition)
}

fn sometimes(name: &'static str, condition: Condition) -> Property<System> {
    Property::sometimes(name, condition)
}

pub fn all() -> Vec<Property<System>> {
    vec![
        always(NO_CYCLE_BESIDE, |_, state| {
            !(state.drained_commands() > 0 && state.has(|actor| actor.is_cycle()))
        }),
        always(NO_OVERLAP, |_, state| state.drained_commands() < 2),
        always(NO_CLAIM_BESIDE, |_, state| {
            state.world.wrong != Some(Wrong::Claim)
        }),
        always(NO_LOSS, |_, state| {
            let files = &state.world.files;
            let has_name = |who| {
                files
                    .iter()
                    .any(|file| file.name.is_some() && file.content == Content::Of(who))
            };
            state.world.standing().members().all(has_name)
        }),
        always(CYCLE_SKIPS, |_, state| {
            state.world.wrong != Some(Wrong::Cycle)
        }),
        always(CHECK_SKIPS, |_, state| {
            state.world.wrong != Some(Wrong::Check)
        }),
        always(NO_TWO_CLAIMS, |_, state| {
            state.world.standing().members().count() < 2
        }),
        always(CHECK_CLEARS, |system, state| {
            ending::one_check_clears(state, &system.protocol)
        }),
        sometimes(CYCLE_RUNS, |_, state| {
            state.has(|actor| matches!(actor, Actor::Agent(Agent::Working)))
        }),
        sometimes(COMMAND_RUNS, |_, state| state.drained_commands() > 0),
        sometimes(CLAIM_DRAINS, |_, state| {
            state.has(|actor| matches!(actor, Actor::Claimer(Claimer::Waiting)))
                && state.has(|actor| actor.is_cycle())
        }),
        sometimes(WORK_OUTLIVES_AGENT, |_, state| {
            state.has(|actor| matches!(actor, Actor::Agent(Agent::Orphaned)))
        }),
        sometimes(WORK_OUTLIVES_RUNNER, |_, state| {
            state.has(|actor| matches!(actor, Actor::Agent(Agent::Left)))
        }),
        sometimes(COMMAND_OUTLIVES_CLAIMER, |_, state| {
            state.has(|actor| matches!(actor, Actor::Claimer(Claimer::Orphaned { runs: true })))
        }),
        sometimes(STALE_LOCK_REMOVED, |_, state| {
            state.is_next(Next::Delete, Wanted::Dead)
        }),
        sometimes(LOCK_RELEASED, |_, state| {
            state.is_next(Next::Delete, Wanted::Mine)
        }),
        sometimes(LOCK_PUT_BACK, |_, state| {
            state.is_next(Next::MoveBack, Wanted::Dead) && state.has_names(false, true)
        }),
        sometimes(WAY_BACK_TAKEN, |_, state| {
            state.is_next(Next::MoveBack, Wanted::Dead) && state.has_names(true, true)
        }),
        sometimes(FOREIGN_FILE_MOVED, |_, state| {
            let moved = |(who, actor): (Who, &Actor)| {
                actor.site().is_some_and(|site| site.next == Next::Compare)
                    && state.world.read(who).name != Some(Name::Aside)
            };
            (0..).zip(&state.actors).any(moved)
        }),
        sometimes(RECOVERY_DELETES, |_, state| {
            state.is_next(Next::DeleteSide, Wanted::Dead)
        }),
        sometimes(RECOVERY_PUTS_BACK, |_, state| {
            state.is_next(Next::PutSideBack, Wanted::Dead) && state.has_names(false, true)
        }),
        sometimes(RECOVERY_EXCHANGES, |_, state| {
            state.is_next(Next::Exchange, Wanted::Dead) && state.has_names(true, true)
        }),
        sometimes(LEASE_BROKEN, |_, state| {
            state.world.files.iter().any(|file| !file.broken.is_empty())
        }),
        sometimes(LEASE_REFUSED, |_, state| {
            let refused = |(who, actor): (Who, &Actor)| {
                actor.site().is_some_and(|site| site.next == Next::Lease)
                    && !state.world.read(who).writers().is_empty()
            };
            (0..).zip(&state.actors).any(refused)
        }),
        sometimes(LEASE_TAKEN, |_, state| {
            let taken = |(who, actor): (Who, &Actor)| {
                actor
                    .site()
                    .is_some_and(|site| site.next == Next::WatchAside)
                    && !state.world.read(who).is_leased()
            };
            (0..).zip(&state.actors).any(taken)
        }),
        sometimes(LINK_FINDS_LOCK, |_, state| {
            state.has(|actor| matches!(actor, Actor::Claimer(Claimer::Linking)))
                && state.world.at(Name::Lock).is_some()
        }),
    ]
}

impl State {
    fn has(&self, is: impl Fn(&Actor) -> bool) -> bool {
        self.actors.iter().any(is)
    }

    /// Commands that run under a claim of beadlock's which no naive writer has overwritten.
    fn drained_commands(&self) -> usize {
        let overwritten = self.world.overwritten;
        let works = |(who, actor): &(Who, &Actor)| actor.is_command() && !overwritten.has(*who);
        (0..).zip(&self.actors).filter(works).count()
    }

    fn is_next(&self, next: Next, wanted: Wanted) -> bool {
        self.has(|actor| {
            actor
                .site()
                .is_some_and(|site| site.next == next && site.wanted == wanted)
        })
    }

    fn has_names(&self, lock: bool, aside: bool) -> bool {
        self.world.at(Name::Lock).is_some() == lock && self.world.at(Name::Aside).is_some() == aside
    }
}
