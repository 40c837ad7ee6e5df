//! A claim that waits for a running cycle, blocked at the gate. Somebody comes; then the cycle ends.

use std::fs;

use beadlock_core::gate::Gate;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Kind, Running, Scene, become_subreaper, wait_until};
use nix::sys::signal::Signal;

use crate::intruder::{Intruder, Visit, ran};
use crate::kernel::waiters;
use crate::operation::live;
use crate::standing::{Checker, standing};

const CYCLE: &str = "echo cycle >>ran; until [ -e done ]; do sleep 0.01; done; echo cycled >>ran";
const COMMAND: &str = "echo hold >>ran; echo held >>ran";

/// A cycle that runs, and a claim that waits for it.
struct Draining {
    scene: Scene,
    cycle: Running,
    hold: Running,
}

impl Draining {
    fn begin(wait: &[&str]) -> Self {
        let scene = Scene::new();
        let cycle = start_cycle(&scene);
        let options = [&["hold", "-q", "--drain", "60s", "--holder", "ours"], wait].concat();
        let hold = scene.start(&[&options[..], &["--", "sh", "-c", COMMAND]].concat());
        wait_until(PATIENCE, "the claim waits for the gate", || {
            waiters(&scene.beads()) == 1
        });
        Self { scene, cycle, hold }
    }

    /// What has run when the cycle ends and then the claim; and how that ended.
    fn ends(self, visit: &mut Visit) -> (Scene, Vec<String>, i32) {
        let Self { scene, cycle, hold } = self;
        assert_eq!(
            ran(scene.path()),
            ["cycle"],
            "nobody has begun while the cycle runs"
        );
        end_cycle(&scene);
        assert_eq!(
            Ended::from(cycle.finish(PATIENCE)).code,
            0,
            "the cycle has noticed nothing"
        );
        visit.ends(&scene);
        fs::write(scene.path().join("over"), "").expect("end the claimer");
        let code = Ended::from(hold.finish(PATIENCE)).code;
        let ran = ran(scene.path());
        (scene, ran, code)
    }
}

fn start_cycle(scene: &Scene) -> Running {
    let cycle = scene.start(&["cycle", "-q", "--", "sh", "-c", CYCLE]);
    wait_until(PATIENCE, "the cycle runs", || !ran(scene.path()).is_empty());
    cycle
}

fn end_cycle(scene: &Scene) {
    fs::write(scene.path().join("done"), "").expect("end the cycle's work");
}

#[test]
fn who_claims_without_the_gate_during_the_drain_keeps_his_claim() {
    for writer in [Intruder::WriterInPlace, Intruder::WriterByRename] {
        let draining = Draining::begin(&["--no-wait"]);
        let mut visit = Visit::of(writer, Kind::Beads, &draining.scene);
        let (scene, ran, code) = draining.ends(&mut visit);
        assert_eq!(
            (code, standing(&scene, Kind::Beads, Checker::Library)),
            (4, vec!["naive".to_owned()]),
            "{writer:?}"
        );
        assert_eq!(
            ran,
            ["cycle", "cycled"],
            "{writer:?}: the command does not run beside him"
        );
    }
}

#[test]
fn neither_a_check_nor_a_second_cycle_disturbs_a_drain() {
    // There is no lock yet, so a check says so; a cycle finds the gate shut.
    for (intruder, code) in [(Intruder::SecondRemover, 0), (Intruder::Cycle, 4)] {
        let draining = Draining::begin(&["--no-wait"]);
        let mut visit = Visit::of(intruder, Kind::Beads, &draining.scene);
        assert_eq!(visit.code, Some(code), "{intruder:?}");
        assert_eq!(visit.before, visit.after, "{intruder:?} changes nothing");
        let (scene, ran, code) = draining.ends(&mut visit);
        assert_eq!(
            (code, standing(&scene, Kind::Beads, Checker::Library)),
            (0, vec![]),
            "{intruder:?}"
        );
        assert_eq!(ran, ["cycle", "cycled", "hold", "held"], "{intruder:?}");
    }
}

#[test]
fn of_two_that_drain_each_waits_for_the_cycle_and_for_the_other() {
    let draining = Draining::begin(&["--wait", "60s"]);
    let mut visit = Visit::of(Intruder::Claimer, Kind::Beads, &draining.scene);
    assert!(visit.waited, "the second waits for the gate as well");
    let (_, ran, code) = draining.ends(&mut visit);
    assert_eq!(code, 0);
    let after = ["hold held", "hold held claimer", "claimer hold held"];
    assert!(
        after.contains(&ran[2..].join(" ").as_str()),
        "one after the other: {ran:?}"
    );
    assert_eq!(
        ran[..2],
        ["cycle", "cycled"],
        "nobody begins beside the cycle: {ran:?}"
    );
}

#[test]
fn a_claim_that_is_killed_in_its_drain_leaves_nothing() {
    let draining = Draining::begin(&["--no-wait"]);
    let Draining {
        scene,
        cycle,
        mut hold,
    } = draining;
    hold.signal(Signal::SIGKILL);
    hold.wait(PATIENCE);
    wait_until(PATIENCE, "nobody waits for the gate any more", || {
        waiters(&scene.beads()) == 0
    });
    assert!(
        Gate::try_take(&scene.beads()).expect("a gate").is_none(),
        "the cycle keeps the gate"
    );
    end_cycle(&scene);
    assert_eq!(
        Ended::from(cycle.finish(PATIENCE)).code,
        0,
        "the cycle has noticed nothing"
    );
    assert_eq!(
        standing(&scene, Kind::Beads, Checker::Program),
        Vec::<String>::new()
    );
    assert_eq!(
        scene.run(&["hold", "-q", "--no-wait", "--", "true"]).code,
        0,
        "the next claim finds the gate open"
    );
    assert_eq!(
        (ran(scene.path()), scene.names()),
        (
            vec!["cycle".into(), "cycled".into()],
            vec!["issues.jsonl".into()]
        )
    );
}

#[test]
fn a_claim_waits_for_the_work_of_a_cycle_that_was_killed() {
    become_subreaper();
    let Draining {
        scene,
        mut cycle,
        hold,
    } = Draining::begin(&["--no-wait"]);
    cycle.signal(Signal::SIGKILL);
    cycle.wait(PATIENCE);
    assert!(
        Gate::try_take(&scene.beads()).expect("a gate").is_none(),
        "its work keeps the gate"
    );
    assert_eq!(
        (ran(scene.path()), waiters(&scene.beads())),
        (vec!["cycle".to_owned()], 1),
        "the claim still waits"
    );
    end_cycle(&scene);
    assert_eq!(Ended::from(hold.finish(PATIENCE)).code, 0);
    assert_eq!(
        ran(scene.path()),
        ["cycle", "cycled", "hold", "held"],
        "the command runs after the work"
    );
}

/// The control: the lock file alone stops no cycle that runs already.
#[test]
fn a_claim_by_the_lock_file_alone_runs_beside_the_cycle() {
    let scene = Scene::new();
    let cycle = start_cycle(&scene);
    let script = format!(
        "[ -e .beads/.exclusive-lock ] && exit 4; printf %s \"$0\" >.beads/.exclusive-lock; {COMMAND}"
    );
    let mut command = scene.shell(&script);
    command.arg(live(Kind::Beads, "ours"));
    assert_eq!(Ended::from(beadlock_tests::run(command)).code, 0);
    end_cycle(&scene);
    cycle.finish(PATIENCE);
    assert_eq!(ran(scene.path()), ["cycle", "hold", "held", "cycled"]);
}
