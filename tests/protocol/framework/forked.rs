//! A process that has a claim may fork. The claim stays with the process that its lock names: the copy in a fork ends
//! nothing.

use std::fs;

use beadlock_tests::process::reap;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, Scene, become_subreaper, wait_until};

#[test]
fn a_fork_s_copy_of_a_claim_releases_nothing() {
    become_subreaper();
    for how in ["drop", "release"] {
        let scene = Scene::new();
        let done = scene.path().join("done");
        let mut command = scene.command(env!("CARGO_BIN_EXE_forked"));
        command.arg(how).arg(scene.beads()).arg(&done);
        let first = Running::start(command);
        let claimer = first.pid();
        let ended = first.finish(PATIENCE);
        assert!(ended.status.success(), "{how}: {ended:?}");
        wait_until(PATIENCE, "the fork", || done.exists());
        let fork = fs::read_to_string(&done)
            .expect("its PID")
            .parse()
            .expect("a number");
        reap(fork, PATIENCE);
        assert_eq!(
            scene.names(),
            [".exclusive-lock", "issues.jsonl"],
            "{how}: the claim was not the fork's"
        );
        let record: serde_json::Value =
            serde_json::from_str(&scene.lock_text()).expect("a whole record");
        assert_eq!(record["pid"], claimer, "{how}: {record}");
        // It is stale with its process, and nothing else is in the next one's way.
        let next = scene.run(&["hold", "--no-wait", "--", "true"]);
        assert_eq!(next.code, 0, "{how}: {next:?}");
    }
}
