//! `beadlock hold` stops before its fork, the gate, the link, before it lets the gate go and the command execute,
//! before that executes, and before the release. Somebody comes; then it goes on, or never does.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use beadlock_core::gate::Gate;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Kind, Scene, become_subreaper, binaries, reap, skip, wait_until};

use crate::intruder::{Intruder, Visit, ran};
use crate::point::{Point, Stopped};
use crate::standing::{Checker, standing};

const LANES: usize = 6;
/// Until it is over, or ended.
const COMMAND: &str = "echo hold >>ran; until [ -e over ]; do sleep 0.01; done";

/// What must come of it.
struct Expected {
    /// In words.
    rule: &'static str,
    /// The exit code of `beadlock hold`; None when it was killed.
    code: Option<i32>,
    /// The processes that ran, in this order; None where the command may or may not have come to it.
    ran: Option<&'static [&'static str]>,
    /// Whose claims stand in the end.
    standing: &'static [&'static str],
    /// The exit code of the intruder, where that is a program that ends.
    theirs: Option<i32>,
}

fn expected(point: Point, intruder: Intruder) -> Expected {
    use Point::{Execute, Fork, Gate, Link, Release};
    let it_runs = Some(&["hold"][..]);
    let (is_before, is_linked) = (
        matches!(point, Fork | Gate),
        !matches!(point, Fork | Gate | Link),
    );
    match intruder {
        Intruder::WriterInPlace | Intruder::WriterByRename if !is_linked => Expected {
            rule: "who has claimed before the link keeps his claim, and the command does not run",
            code: Some(4),
            ran: Some(&[]),
            standing: &["naive"],
            theirs: None,
        },
        Intruder::WriterInPlace | Intruder::WriterByRename => Expected {
            rule: "a lock that somebody wrote over is lost: the command is ended, and his claim stands",
            code: Some(9),
            ran: it_runs.filter(|_| point == Release),
            standing: &["naive"],
            theirs: None,
        },
        Intruder::SecondRemover if is_linked => Expected {
            rule: "from its link on every check says that the lock is held",
            code: Some(0),
            ran: it_runs,
            standing: &[],
            theirs: Some(4),
        },
        Intruder::SecondRemover => Expected {
            rule: "before the link a check may proceed, may remove what is dead, and the claim does not notice",
            code: Some(0),
            ran: it_runs,
            standing: &[],
            theirs: Some(0),
        },
        Intruder::Claimer if is_before => Expected {
            rule: "who takes the gate first claims first",
            code: Some(4),
            ran: Some(&["claimer"]),
            standing: &["claimer"],
            theirs: None,
        },
        Intruder::Claimer => Expected {
            rule: "who comes after the gate finds the lock held",
            code: Some(0),
            ran: it_runs,
            standing: &[],
            theirs: None,
        },
        Intruder::Cycle if is_before => Expected {
            rule: "a cycle that takes the gate first runs before the command",
            code: Some(0),
            ran: Some(&["cycle", "hold"]),
            standing: &[],
            theirs: Some(0),
        },
        Intruder::Cycle => Expected {
            rule: "no cycle runs from the gate to the release",
            code: Some(0),
            ran: it_runs,
            standing: &[],
            theirs: Some(4),
        },
        Intruder::Crash if point == Execute => Expected {
            rule: "a command that was let execute lives on under its lock, until its end",
            code: None,
            ran: it_runs,
            standing: &[],
            theirs: None,
        },
        Intruder::Crash => Expected {
            rule: "no command begins after a crash, and what is left is cleared away by the next check",
            code: None,
            ran: if point == Release { it_runs } else { Some(&[]) },
            standing: &[],
            theirs: None,
        },
    }
}

fn command(scene: &Scene) -> Command {
    let mut command = scene.shell("kill -STOP $$; exec \"$@\" 2>said");
    command.arg("sh").arg(binaries::beadlock());
    command.args([
        "hold",
        "-q",
        "--no-wait",
        "--drain",
        "60s",
        "--holder",
        "ours",
        "--",
        "sh",
        "-c",
        COMMAND,
    ]);
    command
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// It is where its name says.
fn assert_is_at(point: Point, scene: &Scene, pid: i32) {
    let is_shut = Gate::try_take(&scene.beads())
        .expect("it has a gate")
        .is_none();
    let found = (
        children(pid).len(),
        is_shut,
        Kind::Beads.holder(scene).as_deref() == Some("ours"),
        ran(scene.path()).len(),
    );
    let expected = match point {
        Point::Fork => (0, false, false, 0),
        Point::Gate => (1, false, false, 0),
        Point::Link => (1, true, false, 0),
        Point::LetGate => (1, true, true, 0),
        Point::LetExecute | Point::Execute => (1, false, true, 0),
        Point::Release => (1, false, true, 1),
    };
    assert_eq!(
        found, expected,
        "{point:?}: children, gate shut, lock ours, commands that have begun"
    );
}

/// False: nobody may be traced here.
fn play(point: Point, intruder: Intruder, finds_dead_lock: bool) -> bool {
    let scene = Scene::new();
    if finds_dead_lock {
        scene.write_stale_lock("long gone");
    }
    let end = || fs::write(scene.path().join("over"), "").expect("end the command");
    if point == Point::Release {
        end();
    }
    let Some(mut hold) = Stopped::before(point, command(&scene)) else {
        return false;
    };
    assert_is_at(point, &scene, hold.pid());
    let Expected {
        rule,
        code,
        ran: runs,
        standing: stand,
        theirs,
    } = expected(point, intruder);
    let at = format!("{intruder:?} at {point:?}, a dead lock there: {finds_dead_lock}: {rule}");
    let mut visit = Visit::of(intruder, Kind::Beads, &scene);
    assert_eq!(visit.code, theirs, "{at}");
    if intruder == Intruder::Crash {
        let orphans = children(hold.pid());
        hold.kill();
        if point == Point::Execute {
            wait_until(PATIENCE, "the command runs", || {
                !ran(scene.path()).is_empty()
            });
            assert_eq!(
                scene.run(&["check"]).out,
                "Skipping database (locked by ours)\n",
                "{at}"
            );
            end();
        }
        orphans.into_iter().for_each(|pid| reap(pid, PATIENCE));
        assert_eq!(
            standing(&scene, Kind::Beads, Checker::Program),
            stand,
            "{at}"
        );
        assert_eq!(
            scene.run(&["hold", "-q", "--no-wait", "--", "true"]).code,
            0,
            "{at}"
        );
    } else {
        hold.go_on();
        visit.ends(&scene);
        if code == Some(0) {
            end();
        }
        let mut ended = None;
        wait_until(PATIENCE, &at, || {
            ended = hold.ended();
            ended.is_some()
        });
        let said = fs::read_to_string(scene.path().join("said")).unwrap_or_default();
        assert_eq!(ended.and_then(|status| status.code()), code, "{at}: {said}");
        assert_eq!(
            standing(&scene, Kind::Beads, Checker::Library),
            stand,
            "{at}"
        );
    }
    if let Some(runs) = runs {
        assert_eq!(ran(scene.path()), runs, "{at}");
    }
    assert_eq!(scene.names(), ["issues.jsonl"], "{at}");
    true
}

#[test]
fn a_claim_is_safe_whoever_comes_at_whatever_point() {
    become_subreaper();
    let mut squares = Vec::new();
    for point in Point::ALL {
        for intruder in Intruder::ALL {
            squares.extend([false, true].map(|finds_dead_lock| (point, intruder, finds_dead_lock)));
        }
    }
    let (next, played) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for _ in 0..LANES {
            threads.spawn(|| {
                while let Some(&(point, intruder, dead)) =
                    squares.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    played.fetch_add(usize::from(play(point, intruder, dead)), Ordering::Relaxed);
                }
            });
        }
    });
    match played.into_inner() {
        0 => skip::cannot("nobody may trace a program here"),
        played => {
            println!("races of a claim at every point: {played} squares, 0 lost");
            assert_eq!(played, squares.len());
        }
    }
}

/// The control: the same claim without the gate and the link, as a shell script makes it, between its look and its
/// write.
#[test]
fn a_claim_by_the_lock_file_alone_loses_to_whoever_comes_before_it_writes() {
    let lost: Vec<_> = Intruder::ALL
        .into_iter()
        .filter(|&intruder| loses_by_script(intruder))
        .collect();
    println!(
        "the same claim by a script: 6 squares, {} lost: {lost:?}",
        lost.len()
    );
    assert_eq!(
        lost,
        [
            Intruder::WriterInPlace,
            Intruder::WriterByRename,
            Intruder::Claimer
        ]
    );
}

/// True: the intruder has claimed, and its claim does not stand in the end.
fn loses_by_script(intruder: Intruder) -> bool {
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{WaitPidFlag, waitpid};
    let scene = Scene::new();
    let record = crate::operation::live(Kind::Beads, "ours");
    let script = "[ -e .beads/.exclusive-lock ] && exit 4; kill -STOP $$; printf %s \"$0\" >.beads/.exclusive-lock";
    let mut command = scene.shell(script);
    let mut child = command.arg(record).spawn().expect("sh starts");
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("it stops");
    let mut visit = Visit::of(intruder, Kind::Beads, &scene);
    visit.ends(&scene);
    let has_claimed = Kind::Beads.holder(&scene);
    kill(
        pid,
        if intruder == Intruder::Crash {
            Signal::SIGKILL
        } else {
            Signal::SIGCONT
        },
    )
    .expect("it is ours");
    child.wait().expect("it ends");
    let stands = standing(&scene, Kind::Beads, Checker::Library);
    has_claimed.is_some_and(|holder| !stands.contains(&holder))
}
