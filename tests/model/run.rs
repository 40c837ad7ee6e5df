//! Going through a system: that it holds, or how it breaks.

use std::time::Instant;

use stateright::{Checker, Model};

use crate::ending::ways_to_the_end;
use crate::properties::MUST_HOLD;
use crate::protocol::Protocol;
use crate::search::shortest;
use crate::system::System;
use crate::trace::Trace;

/// Everything that must hold does, in every state; there are at least so many of them; this is `seen` in some; and
/// from each of them a way leads to the end.
pub fn holds(system: System, least: usize, seen: &[&'static str]) {
    let begun = Instant::now();
    let states = always_holds(system, seen);
    assert!(
        states >= least,
        "only {states} states: is somebody standing still?"
    );
    let ways = ways_to_the_end(&system);
    assert_eq!(ways.states, states, "two searches, two worlds");
    assert!(
        ways.stuck.is_empty(),
        "no way leads to the end from here: {:#?}",
        ways.stuck[0]
    );
    println!("{system}: {states} states, {:.1?}", begun.elapsed());
}

/// The first half of it, for what is too large to be searched twice. Returns the number of states.
pub fn always_holds(system: System, seen: &[&'static str]) -> usize {
    let checker = system.checker().threads(1).spawn_bfs().join();
    for property in MUST_HOLD {
        if let Some(path) = checker.discovery(property) {
            panic!("{system}: not so: {property}\n{}", Trace::new(path));
        }
    }
    for sight in seen {
        assert!(
            checker.discovery(sight).is_some(),
            "{system}: never seen: {sight}"
        );
    }
    checker.unique_state_count()
}

/// By the rules that are built `system` holds, and has this `property`; by these it does not, and the shortest way there
/// has so many steps.
pub fn breaks(system: System, protocol: Protocol, property: &'static str, steps: usize) {
    always_holds(system, &[]);
    if !MUST_HOLD.contains(&property)
        && let Some(path) = shortest(system, property)
    {
        panic!("{system}: not so: {property}\n{}", Trace::new(path));
    }
    let mutant = System { protocol, ..system };
    let path =
        shortest(mutant, property).unwrap_or_else(|| panic!("{mutant}: it holds: {property}"));
    let trace = Trace::new(path);
    println!(
        "{mutant}: not so, in {} steps: {property}\n{trace}",
        trace.steps()
    );
    assert_eq!(
        trace.steps(),
        steps,
        "the shortest way there is another one now"
    );
}
