//! `beadlock hold` in a fleet.

use beadlock_tests::{Ended, run};

use crate::site::Site;

#[test]
fn a_hold_claims_the_database_in_its_fleet_and_leaves_nothing_behind() {
    let Some(site) = Site::new() else { return };
    let clone = site.clone_of("acme/tracker");
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let script =
            "echo $BEADLOCK_FENCING_TOKEN; echo $BEADLOCK_HELD_FLEET; echo $BEADLOCK_HELD_ID";
        let held = Ended::of(&run(site.beadlock(
            &clone,
            &["hold", "--holder", "release-job", "--", "sh", "-c", script],
        )));
        assert_eq!(held.code, 0, "{}", held.err);
        let out = held.out;
        let [token, fleet, id] = out.lines().collect::<Vec<_>>()[..] else {
            panic!("{out}")
        };
        let token: u64 = token.parse().expect("a decimal");
        assert_eq!(fleet, format!("acme/tracker:{id}"));
        assert!(
            held.err
                .contains("claimed acme/tracker in the fleet for release-job (PID "),
            "{}",
            held.err
        );
        assert!(
            held.err
                .contains(&format!("), token {token}: 0 agents on 0 hosts drained")),
            "{}",
            held.err
        );
        assert!(
            held.err
                .contains("no agent has a right to sync acme/tracker"),
            "{}",
            held.err
        );
        tokens.push(token);
    }
    assert!(tokens[0] < tokens[1] && tokens[1] < 1 << 53, "{tokens:?}");
    let left: Vec<String> = site.keys();
    let is_of_the_fleet = |key: &&String| {
        key.ends_with("/fleet") || key.contains("/names/") || key.contains("/members/")
    };
    assert_eq!(
        left.iter().filter(is_of_the_fleet).count(),
        left.len(),
        "{left:?}"
    );
    assert!(!clone.lock().exists());
}
