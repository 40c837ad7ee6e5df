//! Every way in which a claim does not come to be, and what is left then: nothing.

use std::fs;
use std::time::Duration;

use beadlock_core::gate::Gate;
use beadlock_testkit::{Ended, Running, Scene, children, is_inside, lives, this_host, until};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Printed, Sleeper, keepers};

#[test]
fn every_wrong_word_is_exit_2_and_nothing_is_claimed() {
    let scene = crate::a_scene();
    for (args, word) in [
        (&["--for", "1", "--detach"][..], "--detach"),
        (&["--max-hold", "5s"], "--detach"),
        (&["--max-hold", "5s", "--for", "1"], "--max-hold"),
        (&["--detach", "--max-hold", "0"], "--max-hold"),
        (&["--detach", "--max-hold", "soon"], "is no duration"),
        (&["--holder", "a\nb"], r"a\nb"),
        (&["ftp:x"], "unknown scheme"),
        (&[".", "x"], "x"),
        (&["--", "make", "release"], "release"),
        (&["--wait", "soon"], "is no duration"),
        (&["--on-loss", "warn"], "--on-loss"),
    ] {
        let ended = scene.run(&[&["acquire"], args].concat()).expect(2, &[word]);
        assert_eq!(ended.out, "", "{args:?}");
        scene
            .run(&[&["acquire", "--own-exit-code", "99"], args].concat())
            .expect(99, &[word]);
    }
    assert!(scene.names().is_empty());
}

#[test]
fn a_claim_that_cannot_be_had_says_why_and_touches_nothing() {
    let scene = crate::a_scene();
    let me = i64::from(std::process::id());
    scene.write_shell_lock("vc", me, &this_host());
    let before = fs::read(scene.lock()).unwrap();
    for words in [&[][..], &["--detach"]] {
        let run = |more: &[&str]| scene.run(&[&["acquire"], words, more].concat());
        let ended =
            run(&["--wait", "100ms"]).expect(4, &["is held by vc (PID ", "gave up after 100ms"]);
        assert_eq!(ended.out, "");
        run(&["--no-wait", "--conflict-exit-code", "75"]).expect(75, &["did not wait"]);
        run(&["--no-wait", "--own-exit-code", "99"]).expect(99, &[]);
        let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
        let ended =
            run(&["--drain", "100ms", "--json"]).expect(4, &["the gate did not open within 100ms"]);
        assert_eq!(ended.json()["error"]["code"], "DRAIN_TIMEOUT");
        drop(gate);
        run(&["nowhere"]).expect(1, &["nowhere"]);
        assert!(keepers(&scene).is_empty());
    }
    assert_eq!(fs::read(scene.lock()).unwrap(), before);
    fs::write(scene.lock(), "").unwrap();
    let ended = scene
        .run(&["acquire", "--json"])
        .expect(5, &["malformed lock file"]);
    assert_eq!(ended.json()["error"]["code"], "LOCK_UNREADABLE");
    assert_eq!(
        (fs::read(scene.lock()).unwrap(), scene.names().len()),
        (Vec::new(), 1)
    );
}

#[test]
fn a_signal_ends_the_wait() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(std::process::id()), &this_host());
    let before = fs::read(scene.lock()).unwrap();
    for (signal, code, died) in [
        (Signal::SIGTERM, 143, None),
        (Signal::SIGHUP, 129, None),
        (Signal::SIGINT, 130, Some(2)),
    ] {
        for words in [
            &["acquire", "--wait", "1h"][..],
            &["acquire", "--wait", "1h", "--detach"],
        ] {
            let waiting = Running::apart(scene.beadlock(words));
            until("it waits", || waiting.err().contains("waiting"));
            let below = children(waiting.pid());
            waiting.signal(signal);
            let ended = waiting.end().expect(code, &["nothing is claimed"]);
            assert_eq!((ended.signal, ended.out.as_str()), (died, ""), "{words:?}");
            until("the keeper is gone", || {
                !below.iter().any(|pid| lives(*pid))
            });
        }
    }
    assert_eq!(fs::read(scene.lock()).unwrap(), before);
}

/// `acquire --detach` that waits for a lock, and its keeper.
fn waiting_beside_a_lock(scene: &Scene) -> (Running, i32) {
    scene.write_shell_lock("vc", i64::from(std::process::id()), &this_host());
    let waiting = Running::apart(scene.beadlock(&["acquire", "--wait", "1h", "--detach"]));
    until("it waits", || waiting.err().contains("waiting"));
    let [keeper] = children(waiting.pid())[..] else {
        panic!("one keeper")
    };
    (waiting, keeper)
}

#[test]
fn a_keeper_that_is_killed_while_it_waits_is_said() {
    let scene = crate::a_scene();
    let (waiting, keeper) = waiting_beside_a_lock(&scene);
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    waiting.end().expect(
        1,
        &["the keeper was killed before there was a claim to keep"],
    );
}

/// A Ctrl-C reaches both: then its code is the signal's, and not that of a keeper which is no more.
#[test]
#[expect(clippy::disallowed_methods, reason = "the holder of a lock goes away")]
fn a_signal_that_ends_the_keeper_too_is_what_ends_it() {
    let scene = crate::a_scene();
    let (waiting, keeper) = waiting_beside_a_lock(&scene);
    let tell_keeper = |signal| kill(Pid::from_raw(keeper), signal).unwrap();
    tell_keeper(Signal::SIGSTOP);
    fs::remove_file(scene.lock()).unwrap();
    let is_claimed =
        || fs::read_to_string(scene.lock()).is_ok_and(|text| text.contains(&keeper.to_string()));
    let reads = || is_inside(waiting.pid(), libc::SYS_read);
    until("it waits for its keeper to begin", || {
        is_claimed() && reads()
    });
    waiting.signal(Signal::SIGINT);
    tell_keeper(Signal::SIGKILL);
    let ended = waiting
        .end()
        .expect(130, &["ended by SIGINT", "nothing is claimed"]);
    assert_eq!((ended.signal, ended.out.as_str()), (Some(2), ""));
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

/// Crash it anywhere: what is there then is a whole record of a living process or nothing, and the next one works.
#[test]
fn a_crash_at_any_moment_wedges_nobody() {
    let scene = crate::a_scene();
    for round in 0..24_u64 {
        let sleeper = Sleeper::start();
        let pid = sleeper.pid();
        let words = if round % 2 == 0 {
            vec!["--detach", "--max-hold", "1h"]
        } else {
            vec!["--for", &pid]
        };
        let running =
            Running::apart(scene.beadlock(&[&["acquire", "-q"], words.as_slice()].concat()));
        std::thread::sleep(Duration::from_micros(1500 * round));
        running.signal(Signal::SIGKILL);
        let ended = running.end();
        assert!([0, 137].contains(&ended.code), "{round}: {ended:?}");
        drop(sleeper);
        let was_told = ended.out.lines().count() >= 3;
        if was_told {
            // All was said: a reader of that can release it, if the keeper has not seen it first.
            let printed = Printed::of(&ended);
            scene
                .run(&["release", "-q", "--id", &printed.id, "--missing-ok"])
                .expect(0, &[]);
        }
        let next = Running::apart(scene.beadlock(&["hold", "-q", "--wait", "20s", "--", "true"]));
        // An orphan's init is this process: as long as nobody reaps it, it answers and its lock stands.
        until("the next one has ended", || {
            reap_holder(&scene);
            !lives(next.pid())
        });
        next.end().expect(0, &[]);
        assert!(scene.names().is_empty(), "{round}: {:?}", scene.names());
        until("the keeper is gone", || keepers(&scene).is_empty());
    }
}

/// Reaps the process that the lock names, where it has ended and is ours to reap.
fn reap_holder(scene: &Scene) {
    let bytes = fs::read(scene.lock()).unwrap_or_default();
    let record: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if let Some(pid) = record["pid"].as_i64().and_then(|pid| pid.try_into().ok()) {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

/// With eight at once, for every way to claim.
#[test]
fn of_many_at_once_exactly_one_has_it() {
    let scene = crate::a_scene();
    for words in [
        &["acquire", "-q", "--wait", "0"][..],
        &["acquire", "-q", "--wait", "0", "--detach"],
    ] {
        let contenders: Vec<Running> = (0..8)
            .map(|_| Running::apart(scene.beadlock(words)))
            .collect();
        let ended: Vec<Ended> = contenders.into_iter().map(Running::end).collect();
        let (winners, losers): (Vec<&Ended>, Vec<&Ended>) =
            ended.iter().partition(|ended| ended.code == 0);
        let [winner] = winners[..] else {
            panic!("{ended:?}")
        };
        assert!(
            losers
                .iter()
                .all(|loser| loser.code == 4 && loser.out.is_empty()),
            "{losers:?}"
        );
        scene
            .run(&["release", "-q", "--id", &Printed::of(winner).id])
            .expect(0, &[]);
        assert!(scene.names().is_empty(), "{:?}", scene.names());
        until("the keepers are gone", || keepers(&scene).is_empty());
    }
}
