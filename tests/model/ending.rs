//! That everything comes to an end: no deadlock, no side file for ever, no stale lock for ever.

use crate::actors::{Actor, Agent, Check, Claimer, Deed, Stage};
use crate::file::{Content, File, Name};
use crate::protocol::Protocol;
use crate::search::{self, Ways};
use crate::system::{State, System};
use crate::world::World;

/// No check needs more steps than this, when nobody else is there.
const STEPS: usize = 100;

/// Everybody is killed in this state, and one check without the gate comes: is all gone that can be proved dead?
pub fn one_check_clears(state: &State, protocol: &Protocol) -> bool {
    let files = state.world.files.iter().filter(|file| file.name.is_some());
    let mut world = World::new(None, 0, 0);
    world.files = files
        .map(|file| File::new(file.name, file.content))
        .collect();
    let mut check = Check::Idle;
    for _ in 0..STEPS {
        match check.step(0, &mut world, protocol) {
            Some(Check::Idle) | None => return is_clear(&world),
            Some(next) => check = next,
        }
        world.tidy();
    }
    false
}

/// No lock and no side file; or a malformed lock, which waits for a person, and at most another one aside.
fn is_clear(world: &World) -> bool {
    let is_malformed =
        |file: &File| file.content == Content::Unfinished && file.writers().is_empty();
    match world.at(Name::Lock) {
        None => world.at(Name::Aside).is_none(),
        Some(lock) => is_malformed(lock) && world.at(Name::Aside).is_none_or(is_malformed),
    }
}

/// Everybody has had its turn, or waits for the person that a malformed lock needs.
fn is_over(state: &State) -> bool {
    let waits = state.world.at(Name::Lock).is_some();
    let is_done = |actor: &Actor| match actor {
        Actor::Claimer(claimer) => {
            *claimer == Claimer::Gone || waits && *claimer == Claimer::Waiting
        }
        Actor::Agent(agent) => *agent == Agent::Idle,
        Actor::Check(check) => *check == Check::Idle,
        Actor::Naive(naive) => naive.stage == Stage::Gone || waits && naive.stage == Stage::Idle,
    };
    is_clear(&state.world) && state.world.gate.is_none() && state.actors.iter().all(is_done)
}

/// Every state, and those from which no way leads to the end without another crash.
pub fn ways_to_the_end(system: &System) -> Ways<State> {
    search::ways(system, is_over, |(_, deed)| *deed != Deed::Crash)
}
