//! Agents of two clones, and a claim in one of them.

use std::time::Duration;

use beadlock_tests::{Ended, run, until};

use crate::programs::runs::Witness;
use crate::site::Site;

const NAME: &str = "acme/tracker";

#[test]
fn no_agent_of_any_clone_runs_a_cycle_during_a_claim() {
    let Some(site) = Site::new() else { return };
    let clones = [site.clone_of(NAME), site.clone_of(NAME)];
    let witness = Witness::in_scene(&clones[0]);
    let cycle = witness.script("cycle", "sleep 0.05");
    let agents = clones.each_ref().map(|clone| site.agent(clone, &cycle));
    for clone in &clones {
        until("cycles", || clone.log().matches("Sync cycle complete").count() > 3);
        assert!(clone.log().contains("Joined the fleet etcd://"), "{}", clone.log());
    }
    let script = witness.script("claim", "sleep 2");
    let claim = ["hold", "--holder", "release-job", "--", "sh", "-c", &script];
    let held = Ended::of(&run(site.beadlock(&clones[0], &claim)));
    assert_eq!(held.code, 0, "{}", held.err);
    // That of the claimed clone cannot begin its next cycle for its own lock, but has its right, as the other one.
    assert!(held.err.contains("2 agents on 1 host drained"), "{}", held.err);
    let cycles = witness.count("cycle");
    until("cycles after the claim", || witness.count("cycle") > cycles + 10);
    assert_eq!(witness.overlaps(), []);
    let other = clones[1].log();
    assert!(other.contains("Skipping database (locked by release-job)"), "{other}");
    assert!(other.contains("Held since ") && other.contains("(fleet_held)"), "{other}");
    assert!(other.contains("Resumed after "), "{other}");
    for agent in agents {
        let begun = std::time::Instant::now();
        assert_eq!(agent.stop(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let left = site.keys();
    assert!(!left.iter().any(|key| key.contains("/agents/") || key.contains("/sessions/")), "{left:?}");
}
