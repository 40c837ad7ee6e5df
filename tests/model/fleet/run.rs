//! Going through a fleet: that it holds, or how it breaks.

use std::time::Instant;

use stateright::{Checker, Model, Path};

use super::properties::MUST_HOLD;
use super::rules::Rules;
use super::system::{Action, Actor, Fleets, State};
use crate::search::{Ways, shortest, ways};

/// Everything that must hold does, in every state; this is `seen` in some; and from each of them a way without another
/// fault leads to where everybody has had its turn. Returns the number of states.
pub fn holds(fleets: Fleets, least: usize, seen: &[&'static str]) {
    let begun = Instant::now();
    let states = always_holds(fleets, seen);
    let ways = ways_to_the_end(&fleets);
    assert_eq!(ways.states, states, "two searches, two worlds");
    if let Some(stuck) = ways.stuck.first() {
        panic!(
            "{fleets}: {} states from which no way leads to the end: {stuck:#?}",
            ways.stuck.len()
        );
    }
    println!("{fleets}: {states} states, {:.1?}", begun.elapsed());
    assert!(
        states >= least,
        "only {states} states: is somebody standing still?"
    );
}

/// The first half of it, for what is too large to be searched twice.
pub fn always_holds(fleets: Fleets, seen: &[&'static str]) -> usize {
    let checker = fleets.checker().threads(1).spawn_bfs().join();
    for property in MUST_HOLD {
        if let Some(path) = checker.discovery(property) {
            panic!("{fleets}: not so: {property}\n{}", lines(&path));
        }
    }
    for sight in seen {
        assert!(
            checker.discovery(sight).is_some(),
            "{fleets}: never seen: {sight}"
        );
    }
    checker.unique_state_count()
}

pub fn ways_to_the_end(fleets: &Fleets) -> Ways<State> {
    ways(fleets, Fleets::is_over, Action::is_ordinary)
}

/// By the rules that are built `fleets` holds; by these it does not, and the shortest way there has so many steps.
pub fn breaks(fleets: Fleets, rules: Rules, property: &'static str, steps: usize) {
    always_holds(fleets, &[]);
    breaks_as_built(Fleets { rules, ..fleets }, property, steps);
}

/// By its own rules it does not hold, and the shortest way there has so many steps.
pub fn breaks_as_built(fleets: Fleets, property: &'static str, steps: usize) {
    let path =
        shortest(fleets, property).unwrap_or_else(|| panic!("{fleets}: it holds: {property}"));
    let found = path.clone().into_actions().len();
    println!(
        "{fleets}: not so, in {found} steps: {property}\n{}",
        lines(&path)
    );
    assert_eq!(found, steps, "the shortest way there is another one now");
}

/// By the rules that are built nobody is stuck; by these so many states have no way to the end.
pub fn sticks(fleets: Fleets, rules: Rules, states: usize) {
    assert!(ways_to_the_end(&fleets).stuck.is_empty());
    let mutant = Fleets { rules, ..fleets };
    let stuck = ways_to_the_end(&mutant).stuck.len();
    println!("{mutant}: {stuck} states from which no way leads to the end");
    assert_eq!(stuck, states, "another number of states now");
}

/// A line for each step: where each one was, and what happened.
fn lines(path: &Path<State, Action>) -> String {
    let mut lines = String::new();
    for (state, action) in path.clone().into_vec() {
        let Some(action) = action else { continue };
        let line = match action {
            Action::Etcd(event) => format!("{event:?}"),
            Action::Renew(who) => format!("{who} {} renews", name(&state, who)),
            Action::Claimer(who, delivery) => format!("{who} {} {delivery:?}", name(&state, who)),
            Action::Agent(who, step, delivery) => format!("{who} agent: {step:?} {delivery:?}"),
            Action::Mishap(who, mishap) => format!("{who} {}: {mishap:?}", name(&state, who)),
        };
        lines.push_str("  ");
        lines.push_str(line.trim_end_matches(" Well"));
        lines.push('\n');
    }
    lines
}

fn name(state: &State, who: u8) -> String {
    match state.actors[usize::from(who)] {
        Actor::Claimer(claimer) => format!("claimer, {:?}", claimer.stage),
        Actor::Agent(_) => "agent".to_owned(),
    }
}
