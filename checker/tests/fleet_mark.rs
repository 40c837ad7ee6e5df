//! A database that has joined a fleet: a check without a right in it always skips (docs/design.md#the-fleet).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use beadlock_checker::{
    Cycle, Decision, Entered, Options, Place, Reason, Verdict, check, should_skip_database,
};

const LINE: &str = "Skipping database (lock check failed: a check cannot keep a fleet claim away; run the work under \
                    `beadlock cycle`)";

const MINE: &str =
    r#"{"holder":"make","pid":PID,"hostname":"HOST","started_at":"2026-02-01T10:11:12Z"}"#;

fn record(pid: u32) -> String {
    let host = hostname::get().unwrap().into_string().unwrap();
    MINE.replace("PID", &pid.to_string()).replace("HOST", &host)
}

/// A PID whose process has ended.
fn dead() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn entered(dir: &Path) -> Decision {
    match Cycle::enter(dir) {
        Entered::Skipped(decision) => decision,
        Entered::Cycle(cycle) => panic!("entered: {:?}", cycle.decision()),
    }
}

fn answers(dir: &Path) -> [Decision; 4] {
    let options = Options {
        dry_run: true,
        ..Options::default()
    };
    [
        should_skip_database(dir),
        check(&Place::beads(dir), &Options::default()),
        check(&Place::beads(dir), &options),
        { entered(dir) },
    ]
}

/// Whatever lies there, and whatever is in it: only nothing at all does not count as a mark.
#[test]
fn every_kind_of_mark_keeps_a_check_away() {
    type Make = fn(&Path);
    let make: [(&str, Make); 8] = [
        ("a mark", |at| {
            fs::write(at, r#"{"fleet":"n","name":"acme/tracker","clone":"c"}"#).unwrap()
        }),
        ("no JSON", |at| fs::write(at, "{").unwrap()),
        ("empty", |at| fs::write(at, "").unwrap()),
        ("too big", |at| fs::write(at, vec![b' '; 10 << 20]).unwrap()),
        ("a directory", |at| fs::create_dir(at).unwrap()),
        ("a FIFO", |at| {
            nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap()
        }),
        ("a link that leads nowhere", |at| {
            symlink("/nowhere/at/all", at).unwrap()
        }),
        ("a link to itself", |at| {
            symlink(".exclusive-fleet", at).unwrap()
        }),
    ];
    for (what, make) in make {
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join(".exclusive-fleet"));
        for decision in answers(dir.path()) {
            assert_eq!(decision.reason(), Reason::FleetUseCycle, "{what}");
            assert_eq!(
                decision.verdict(),
                Verdict::Unreadable(Reason::FleetUseCycle),
                "{what}"
            );
            assert_eq!(decision.to_string(), LINE, "{what}");
        }
    }
}

#[test]
fn a_lock_comes_first_and_a_stale_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".exclusive-fleet"), "{}").unwrap();
    let lock = dir.path().join(".exclusive-lock");
    for (text, reason) in [
        (record(std::process::id()), Reason::PidAlive),
        ("{".to_owned(), Reason::Malformed),
        (record(dead()), Reason::FleetUseCycle),
    ] {
        fs::write(&lock, &text).unwrap();
        for decision in answers(dir.path()) {
            assert_eq!(decision.reason(), reason);
        }
        assert_eq!(
            fs::read_to_string(&lock).unwrap(),
            text,
            "nothing is removed"
        );
    }
}

#[test]
fn a_caller_with_a_right_is_answered_as_ever() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".exclusive-fleet"), "{}").unwrap();
    fs::write(dir.path().join(".exclusive-lock"), record(dead())).unwrap();
    let options = Options {
        has_fleet_right: true,
        ..Options::default()
    };
    let Entered::Cycle(cycle) = Cycle::enter_with(dir.path(), &options) else {
        panic!("skipped")
    };
    assert_eq!(
        cycle.decision().removed().map(|removed| removed.reason),
        Some(Reason::PidGone)
    );
    cycle.leave();
    assert_eq!(
        check(&Place::beads(dir.path()), &options).reason(),
        Reason::NoLock
    );
}

/// Another kind of lock in the same directory has no cycles, and knows no fleet.
#[test]
fn other_locks_beside_a_mark_are_answered_as_ever() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".exclusive-fleet"), "{}").unwrap();
    let place = Place::named(dir.path(), "build.lock".as_ref()).unwrap();
    assert_eq!(check(&place, &Options::default()).reason(), Reason::NoLock);
    assert_eq!(
        check(&Place::memory(dir.path()), &Options::default()).reason(),
        Reason::NoLock
    );
}
