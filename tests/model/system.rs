//! The whole machine for `stateright`: the actors, and which of them makes the next step.

use std::fmt;

use stateright::{Model, Property};

use crate::actors::{Actor, Agent, Check, Claimer, Deed, Naive, Way};
use crate::file::Content;
use crate::properties;
use crate::protocol::{Protocol, Watch};
use crate::set::Who;
use crate::world::World;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub world: World,
    pub actors: Vec<Actor>,
}

/// The actors, and their rules.
#[derive(Clone, Copy, Debug)]
pub struct System {
    pub protocol: Protocol,
    pub claimers: usize,
    pub agents: usize,
    pub checks: usize,
    pub in_place: usize,
    pub by_rename: usize,
    /// How many of them may be killed, at any step.
    pub crashes: u8,
}

impl System {
    /// Nobody, by the rules that are built.
    pub const NOBODY: Self = Self {
        protocol: Protocol::BUILT,
        claimers: 0,
        agents: 0,
        checks: 0,
        in_place: 0,
        by_rename: 0,
        crashes: 0,
    };

    fn actors(&self) -> Vec<Actor> {
        let kinds = [
            (self.claimers, Actor::Claimer(Claimer::Waiting)),
            (self.agents, Actor::Agent(Agent::Idle)),
            (self.checks, Actor::Check(Check::Idle)),
            (self.in_place, Actor::Naive(Naive::new(Way::InPlace))),
            (self.by_rename, Actor::Naive(Naive::new(Way::ByRename))),
        ];
        kinds
            .iter()
            .flat_map(|(count, actor)| std::iter::repeat_n(*actor, *count))
            .collect()
    }
}

/// The actors, in words.
impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.claimers, ["claimer", "claimers"]),
            (self.agents, ["agent", "agents"]),
            (self.checks, ["check", "checks"]),
            (self.in_place, ["writer in place", "writers in place"]),
            (self.by_rename, ["writer by rename", "writers by rename"]),
            (usize::from(self.crashes), ["crash", "crashes"]),
        ];
        let shown = counts.iter().filter(|(count, _)| *count > 0);
        let shown: Vec<_> = shown
            .map(|(count, [one, more])| format!("{count} {}", if *count == 1 { one } else { more }))
            .collect();
        f.write_str(&shown.join(", "))?;
        if self.protocol.watch == Watch::Comparison {
            f.write_str(", no leases")
        } else {
            Ok(())
        }
    }
}

impl Model for System {
    type State = State;
    type Action = (Who, Deed);

    /// With a stale lock, and with none.
    fn init_states(&self) -> Vec<State> {
        let actors = self.actors();
        let world = |lock| World::new(lock, actors.len(), self.crashes);
        let state = |lock| State {
            world: world(lock),
            actors: actors.clone(),
        };
        vec![state(Some(Content::LongGone)), state(None)]
    }

    /// What might be done; [`Model::next_state`] knows who has to wait.
    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>) {
        for (who, actor) in (0..).zip(&state.actors) {
            actions.push((who, Deed::Step));
            if actor.may_give_up() {
                actions.push((who, Deed::GiveUp));
            }
            if matches!(actor, Actor::Naive(_)) {
                actions.push((who, Deed::ByForce));
            }
            if state.world.crashes > 0 {
                actions.push((who, Deed::Crash));
            }
        }
    }

    fn next_state(&self, state: &State, (who, deed): Self::Action) -> Option<State> {
        let mut next = state.clone();
        let place = usize::from(who);
        next.actors[place] =
            next.actors[place].after(deed, who, &mut next.world, &self.protocol)?;
        if deed == Deed::Crash {
            next.world.crashes -= 1;
        }
        next.world.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
