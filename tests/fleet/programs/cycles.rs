//! `beadlock cycle` and the other commands on a clone that has joined.

use beadlock_tests::{Ended, run, until};

use crate::site::Site;

const NAME: &str = "acme/tracker";

#[test]
fn a_cycle_takes_the_right_for_its_one_run_and_a_claim_keeps_it_away() {
    let Some(site) = Site::new() else { return };
    let clones = [site.clone_of(NAME), site.clone_of(NAME)];
    let cycle = |script: &str| {
        Ended::of(&run(
            site.beadlock(&clones[1], &["cycle", "--", "sh", "-c", script])
        ))
    };
    let ran = cycle("echo $BEADLOCK_CYCLE_FLEET");
    assert_eq!((ran.code, ran.out.trim()), (0, NAME), "{}", ran.err);
    assert_eq!(cycle("exit 7").code, 7);
    let hold = [
        "hold",
        "--holder",
        "release-job",
        "--",
        "sh",
        "-c",
        "touch held; while ! test -e go; do sleep 0.02; done",
    ];
    let holder = beadlock_tests::Running::start(site.beadlock(&clones[0], &hold));
    until("the claim", || clones[0].file("held").exists());
    let skipped = cycle("touch ran");
    assert_eq!(skipped.code, 4, "{}", skipped.err);
    assert!(
        skipped
            .err
            .contains("Skipping database (locked by release-job)"),
        "{}",
        skipped.err
    );
    assert!(!clones[1].file("ran").exists());
    let waived = ["cycle", "--no-fleet", "--", "touch", "ran"];
    let waived = Ended::of(&run(site.beadlock(&clones[1], &waived)));
    assert_eq!(waived.code, 0, "{}", waived.err);
    assert!(
        waived
            .err
            .contains("has joined a fleet, and with --no-fleet only this machine keeps away"),
        "{}",
        waived.err
    );
    clones[0].write("go", "");
    let ended = Ended::of(&holder.finish(beadlock_tests::PATIENCE));
    assert_eq!(ended.code, 0, "{}", ended.err);
    let left = site.keys();
    assert!(
        !left
            .iter()
            .any(|key| key.contains("/agents/") || key.contains("/sessions/")),
        "{left:?}"
    );
}

#[test]
fn what_cannot_be_kept_in_a_fleet_is_refused() {
    let Some(site) = Site::new() else { return };
    let clones = [site.clone_of(NAME), site.clone_of(NAME)];
    let of = |clone: usize, args: &[&str]| Ended::of(&run(site.beadlock(&clones[clone], args)));
    let acquired = of(0, &["acquire", "--detach"]);
    assert_eq!(acquired.code, 2, "{}", acquired.err);
    let words =
        "nothing could end your script when the fleet is lost; use beadlock hold .beads -- script";
    assert!(acquired.err.contains(words), "{}", acquired.err);
    for on_loss in ["warn", "signal:USR1"] {
        let held = of(0, &["hold", "--on-loss", on_loss, "--", "true"]);
        assert_eq!(held.code, 2, "{}", held.err);
    }
    let checked = of(0, &["check"]);
    assert_eq!(checked.code, 5, "{}{}", checked.out, checked.err);
    assert!(
        checked
            .out
            .contains("a check cannot keep a fleet claim away"),
        "{}",
        checked.out
    );
    assert_eq!(
        of(0, &["--json", "check"]).json()["data"][0]["reason"],
        "fleet_use_cycle"
    );
    // A claim inside a cycle of the same name, in whichever clone; and of another clone inside a claim.
    let beadlock = beadlock_tests::binaries::beadlock();
    let inside = |clone: usize, around: &[&str]| {
        let dir = clones[clone].beads();
        let script = format!("{} hold {} -- true", beadlock.display(), dir.display());
        of(0, &[around, &["--", "sh", "-c", &script]].concat())
    };
    for clone in [0, 1] {
        let refused = inside(clone, &["cycle"]);
        assert_eq!(refused.code, 4, "{clone}: {}", refused.err);
        assert!(
            refused.err.contains("it would wait for itself"),
            "{}",
            refused.err
        );
    }
    let nested = inside(0, &["hold"]);
    assert_eq!(
        nested.code, 0,
        "a claim of the same clone is nested: {}",
        nested.err
    );
    let refused = inside(1, &["hold"]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    assert!(
        refused.err.contains("by another clone of it"),
        "{}",
        refused.err
    );
}

#[test]
fn what_is_wrong_with_the_fleet_is_said_with_its_exit_code() {
    let Some(mut site) = Site::new() else { return };
    let clone = site.clone_of(NAME);
    let of = |site: &Site, args: &[&str]| Ended::of(&run(site.beadlock(&clone, args)));
    let both = |site: &Site, [hold, cycle]: [i32; 2], words: &str| {
        let commands = [
            &["hold", "--wait", "2s", "--", "touch", "ran"][..],
            &["cycle", "--", "touch", "ran"],
        ];
        for (args, code) in commands.into_iter().zip([hold, cycle]) {
            let ended = of(site, args);
            assert_eq!(ended.code, code, "{args:?}: {}", ended.err);
            assert!(ended.err.contains(words), "{args:?}: {}", ended.err);
            assert!(!clone.file("ran").exists() && !clone.lock().exists());
        }
    };
    let reason =
        |site: &Site| of(site, &["--json", "cycle", "--", "true"]).json()["data"]["reason"].clone();
    // The name is not there: nobody else would know of the claim.
    site.etcd.ctl(&["del", "--prefix", &site.key("names/")]);
    let held = of(&site, &["hold", "--", "touch", "ran"]);
    assert_eq!(held.code, 1, "{}", held.err);
    assert!(
        held.err.contains(NAME) && !clone.file("ran").exists(),
        "{}",
        held.err
    );
    // A fleet that was made anew.
    site.fleet().destroy().expect("to destroy");
    // A cycle is skipped, as an agent's: the fleet may come back.
    both(&site, [1, 5], "fleet");
    assert_eq!(reason(&site), "fleet_lost");
    site.make();
    both(&site, [1, 1], "fleet");
    for hostile in ["{", "", "null", &"x".repeat(5000)] {
        std::fs::write(clone.beads().join(".exclusive-fleet"), hostile).expect("a mark");
        both(&site, [1, 1], ".exclusive-fleet");
    }
    std::fs::remove_file(clone.beads().join(".exclusive-fleet")).expect("the mark");
    site.join(&clone, NAME);
    assert_eq!(of(&site, &["hold", "--", "true"]).code, 0);
    site.etcd.kill_all();
    both(&site, [5, 5], "fleet: ");
    assert_eq!(reason(&site), "fleet_unreachable");
    let json = of(&site, &["--json", "hold", "--wait", "1s", "--", "true"]).json();
    assert_eq!(json["error"]["code"], "FLEET_UNREACHABLE");
    assert_eq!(json["error"]["retryable"], true);
}

/// Work under an earlier fleet of this name may not have ended.
#[test]
fn nobody_begins_in_a_fleet_that_is_new() {
    let Some(site) = Site::new() else { return };
    let clone = site.clone_of(NAME);
    site.etcd.ctl(&["put", &site.key("new"), ""]);
    let of = |args: &[&str]| Ended::of(&run(site.beadlock(&clone, args)));
    let held = of(&["hold", "--wait", "1s", "--", "touch", "ran"]);
    assert_eq!(held.code, 5, "{}", held.err);
    let json = of(&["--json", "cycle", "--", "touch", "ran"]);
    assert_eq!(
        (json.code, &json.json()["data"]["reason"]),
        (5, &serde_json::json!("fleet_new")),
        "{}",
        json.err
    );
    assert!(!clone.file("ran").exists());
    site.etcd.ctl(&["del", &site.key("new")]);
    assert_eq!(of(&["cycle", "--", "touch", "ran"]).code, 0);
}

#[test]
fn who_looks_sees_the_claim_in_the_fleet_and_break_tells_its_holder() {
    let Some(site) = Site::new() else { return };
    let clones = [site.clone_of(NAME), site.clone_of(NAME)];
    let of = |clone: usize, args: &[&str]| Ended::of(&run(site.beadlock(&clones[clone], args)));
    assert!(
        of(0, &["status"])
            .out
            .contains("fleet: acme/tracker is free there")
    );
    let hold = [
        "hold",
        "--holder",
        "release-job",
        "--",
        "sh",
        "-c",
        "touch held; while :; do sleep 0.02; done",
    ];
    let holder = beadlock_tests::Running::start(site.beadlock(&clones[0], &hold));
    until("the claim", || clones[0].file("held").exists());
    let seen = of(1, &["status"]);
    assert!(
        seen.out
            .contains("fleet: acme/tracker is claimed by release-job (PID "),
        "{}",
        seen.out
    );
    let json = of(1, &["--json", "status"]).json();
    assert_eq!(
        json["data"][0]["fleet"]["claim"]["holder"], "release-job",
        "{json}"
    );
    let waited = of(1, &["wait"]);
    assert_eq!(waited.code, 0, "{}", waited.err);
    assert!(
        waited
            .err
            .contains("free on this machine; it has joined a fleet, which was not asked"),
        "{}",
        waited.err
    );
    let broken = of(
        1,
        &[
            "break",
            "--holder",
            "release-job",
            "--reason",
            "the release is off",
        ],
    );
    assert_eq!(broken.code, 0, "{}", broken.err);
    assert!(
        broken.err.contains("told release-job (PID "),
        "{}",
        broken.err
    );
    let ended = Ended::of(&holder.finish(beadlock_tests::PATIENCE));
    assert_eq!(ended.code, 9, "{}", ended.err);
    assert!(ended.err.contains("the release is off"), "{}", ended.err);
    let json = of(1, &["--json", "status"]).json();
    assert_eq!(
        json["data"][0]["fleet"]["claim"],
        serde_json::Value::Null,
        "{json}"
    );
}

/// All locks first, then the fleet in the order of names; whoever gives up releases all.
#[test]
fn several_databases_are_claimed_together_or_not_at_all() {
    let Some(site) = Site::new() else { return };
    let clones = [site.clone_of("b/two"), site.clone_of("a/one")];
    let other = site.clone_of("a/one");
    let second = clones[1].beads().display().to_string();
    let both = |args: &[&str]| {
        let words = [&["hold", "--and", &second], args].concat();
        Ended::of(&run(site.beadlock(&clones[0], &words)))
    };
    let held = both(&["--", "sh", "-c", "echo $BEADLOCK_HELD_FLEET"]);
    assert_eq!(held.code, 0, "{}", held.err);
    assert!(
        held.out.starts_with("b/two:"),
        "that of the first: {}",
        held.out
    );
    for name in ["a/one", "b/two"] {
        assert!(
            held.err
                .contains(&format!("claimed {name} in the fleet for ")),
            "{}",
            held.err
        );
    }
    let hold = [
        "hold",
        "--",
        "sh",
        "-c",
        "touch held; while ! test -e go; do sleep 0.02; done",
    ];
    let holder = beadlock_tests::Running::start(site.beadlock(&other, &hold));
    until("the claim", || other.file("held").exists());
    let refused = both(&["--wait", "1s", "--", "touch", "ran"]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    assert!(!clones[0].file("ran").exists() && clones.iter().all(|clone| !clone.lock().exists()));
    let claims = || {
        site.keys()
            .into_iter()
            .filter(|key| key.contains("/claims/"))
            .count()
    };
    until("only the other claim", || claims() == 1);
    other.write("go", "");
    assert_eq!(Ended::of(&holder.finish(beadlock_tests::PATIENCE)).code, 0);
}

/// Nobody gives the claim in the fleet back before the wait has ended.
#[test]
fn a_lock_that_is_lost_while_the_fleet_is_waited_for_ends_the_wait() {
    let Some(site) = Site::new() else { return };
    let [clone, other] = [site.clone_of(NAME), site.clone_of(NAME)];
    let hold = [
        "hold",
        "--",
        "sh",
        "-c",
        "touch held; while ! test -e go; do sleep 0.02; done",
    ];
    let holder = beadlock_tests::Running::start(site.beadlock(&other, &hold));
    until("the claim", || other.file("held").exists());
    let hold = ["hold", "--wait", "1h", "--", "touch", "ran"];
    let waiting = beadlock_tests::Running::apart(site.beadlock(&clone, &hold));
    until("it waits", || {
        waiting.err().contains("in the fleet: ") && clone.lock().exists()
    });
    std::fs::remove_file(clone.lock()).expect("the lock");
    let ended = waiting.end();
    assert_eq!(ended.code, 9, "{}", ended.err);
    assert!(
        ended.err.contains("lost the lock of .beads after ") && !clone.file("ran").exists(),
        "{}",
        ended.err
    );
    until("only the other claim", || {
        site.keys()
            .into_iter()
            .filter(|key| key.contains("/claims/"))
            .count()
            == 1
    });
    other.write("go", "");
    assert_eq!(Ended::of(&holder.finish(beadlock_tests::PATIENCE)).code, 0);
}
