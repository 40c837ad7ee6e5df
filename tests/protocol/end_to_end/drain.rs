//! A claim that is made while a cycle runs waits for its end; a lock file alone cannot do that.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use beadlock_tests::seed::Recipe;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, Scene, become_subreaper, run, wait_until};
use nix::sys::signal::Signal;

/// When something began and ended, in nanoseconds of the wall clock.
type Span = (u64, u64);

/// A shell script that notes its beginning and end in `file`, with `seconds` between.
fn work(file: &str, seconds: f64) -> String {
    format!("echo b $(date +%s%N) >>{file}; sleep {seconds}; echo e $(date +%s%N) >>{file}")
}

/// The spans noted in a file; one that has no end yet ends never.
fn spans(file: &Path) -> Vec<Span> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut spans: Vec<Span> = Vec::new();
    for line in text.lines() {
        let (mark, time) = line.split_once(' ').expect("a mark and a time");
        let time = time.parse().expect("nanoseconds");
        match (mark, spans.last_mut()) {
            ("b", _) => spans.push((time, u64::MAX)),
            (_, Some(span)) => span.1 = time,
            _ => panic!("an end without a beginning in {text}"),
        }
    }
    spans
}

/// Notes the beginning of something, now.
fn note(scene: &Scene, file: &str) {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the clock is right");
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(scene.path().join(file))
        .expect("open");
    writeln!(file, "b {}", now.as_nanos()).expect("write");
}

fn overlaps(scene: &Scene) -> Vec<(Span, Span)> {
    let cycles = spans(&scene.path().join("cycles"));
    let commands = spans(&scene.path().join("commands"));
    let pairs = commands
        .iter()
        .flat_map(|command| cycles.iter().map(move |cycle| (*command, *cycle)));
    pairs
        .filter(|(command, cycle)| command.0 < cycle.1 && cycle.0 < command.1)
        .collect()
}

/// An agent whose cycles take 300 ms and follow each other at once.
fn busy_agent(scene: &Scene) -> Running {
    scene.start_agent(&[
        "--db",
        ".beads",
        "--interval",
        "310ms",
        "--exec",
        &work("cycles", 0.3),
    ])
}

/// A moment within a cycle, another one every time.
fn random_moment() {
    let mut byte = [0; 2];
    let mut random = fs::File::open("/dev/urandom").expect("open /dev/urandom");
    random.read_exact(&mut byte).expect("read /dev/urandom");
    std::thread::sleep(Duration::from_millis(
        u64::from(u16::from_ne_bytes(byte)) % 400,
    ));
}

#[test]
fn claims_at_fifty_random_moments_overlap_no_cycle() {
    let scenes: Vec<_> = (0..5).map(|_| Scene::new()).collect();
    std::thread::scope(|threads| {
        for scene in &scenes {
            threads.spawn(move || {
                let _agent = busy_agent(scene);
                for _ in 0..10 {
                    random_moment();
                    note(scene, "claims");
                    let ended = run(scene.beadlock(&[
                        "hold",
                        "-q",
                        "--",
                        "sh",
                        "-c",
                        &work("commands", 0.05),
                    ]));
                    assert!(ended.status.success(), "{ended:?}");
                }
            });
        }
    });
    let mut drained = 0;
    for scene in &scenes {
        assert_eq!(spans(&scene.path().join("commands")).len(), 10);
        assert_eq!(overlaps(scene), []);
        let cycles = spans(&scene.path().join("cycles"));
        let claims = spans(&scene.path().join("claims"));
        drained += claims
            .iter()
            .filter(|claim| cycles.iter().any(|c| c.0 < claim.0 && claim.0 < c.1))
            .count();
    }
    assert!(
        drained >= 10,
        "{drained} of 50 claims were made during a cycle: that shows little"
    );
}

/// What the test above is worth: the lock file alone, written by the classic recipe, does overlap.
#[test]
fn claims_by_the_lock_file_alone_do_overlap() {
    let recipe = Recipe::any();
    let scene = Scene::new();
    let _agent = busy_agent(&scene);
    let mut tries = 0;
    while overlaps(&scene).is_empty() {
        tries += 1;
        assert!(
            tries <= 50,
            "50 claims without the gate and no overlap: the test above shows nothing"
        );
        random_moment();
        let mut bash = scene.command("bash");
        bash.args(["-c", &recipe.around(&work("commands", 0.05))]);
        assert!(run(bash).status.success());
    }
}

#[test]
fn a_claim_waits_for_the_orphan_of_a_killed_agent() {
    become_subreaper();
    let scenes: Vec<_> = (0..5).map(|_| Scene::new()).collect();
    std::thread::scope(|threads| {
        for scene in &scenes {
            threads.spawn(move || {
                let cycles = scene.path().join("cycles");
                let exec = work("cycles", 2.0);
                let mut agent = Running::start(scene.agent(&[
                    "--db",
                    ".beads",
                    "--interval",
                    "1s",
                    "--exec",
                    &exec,
                ]));
                wait_until(PATIENCE, "a cycle", || !spans(&cycles).is_empty());
                agent.signal(Signal::SIGKILL);
                agent.wait(PATIENCE);
                let hold = scene.start(&["hold", "--", "sh", "-c", &work("commands", 0.05)]);
                assert_eq!(
                    spans(&cycles)[0].1,
                    u64::MAX,
                    "the orphan is still at work when the claim begins"
                );
                let ended = hold.finish(PATIENCE);
                assert!(ended.status.success(), "{ended:?}");
                assert_eq!(spans(&scene.path().join("commands")).len(), 1);
                assert_eq!(
                    spans(&cycles).len(),
                    1,
                    "nobody is left to start another cycle"
                );
                assert_eq!(overlaps(scene), []);
            });
        }
    });
}
