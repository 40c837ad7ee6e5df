//! Heartbeats: only the time changes, a reader is in no one's way, and the lock of another holder is not written.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use beadlock_checker::{Decision, Options, check};
use beadlock_core::facts;
use beadlock_core::record::tower::{Record, StartedAt};
use beadlock_core::take::{Attempt, Heartbeat, Held, Means, Step, Whereabouts};

use crate::scene::{MEANS, has_crashed};
use crate::tower::{Locks, record};

/// A lock of ours whose last heartbeat is `silent` seconds ago.
fn ours(locks: &Locks, means: Means, silent: i64) -> Held {
    locks.claimed(&locks.gate(), means, &record("req_ours", silent))
}

fn beat(locks: &Locks, means: Means, held: &mut Held) -> Heartbeat {
    locks
        .site(&locks.gate(), means, &Options::default())
        .heartbeat(held)
}

fn is_now(time: StartedAt) -> bool {
    (0..60).contains(&time.age(facts::now()).as_secs())
}

#[test]
fn only_the_time_changes() {
    for means in MEANS {
        let locks = Locks::new();
        let mut held = ours(&locks, means, 500);
        let before = fs::read_to_string(locks.path()).unwrap();
        // Somebody has put a note into it, at another length and in their own form.
        let noted = before.replacen('{', "{ \"note\" : {\"last_heartbeat_at\": 7},", 1);
        fs::write(locks.path(), &noted).unwrap();
        assert!(
            matches!(beat(&locks, means, &mut held), Heartbeat::Refreshed),
            "{means:?}"
        );
        let (then, now) = (
            record("", 500).last_heartbeat_at,
            locks.read().last_heartbeat_at,
        );
        assert!(is_now(now) && then != now, "{means:?}: {now}");
        let after = fs::read_to_string(locks.path()).unwrap();
        let [then, now] = [then, now].map(|time| format!("\"last_heartbeat_at\": \"{time}\""));
        // The times of the making may be a second apart.
        let line = |text: &str| {
            text.lines()
                .find(|line| line.contains("\"last_heartbeat_at\": \""))
                .map(str::to_owned)
        };
        assert_eq!(
            line(&after).unwrap().trim().trim_end_matches(','),
            now,
            "{then}"
        );
        assert_eq!(
            after.replace(&line(&after).unwrap(), ""),
            noted.replace(&line(&noted).unwrap(), "")
        );
        assert_eq!(held.whereabouts(), Whereabouts::InPlace, "{means:?}");
        assert_eq!(
            held.record().as_tower().unwrap().last_heartbeat_at,
            locks.read().last_heartbeat_at
        );
        assert_eq!(locks.names(), ["app-prod.lock"], "{means:?}");
        assert!(
            matches!(beat(&locks, means, &mut held), Heartbeat::Refreshed),
            "and again with {means:?}"
        );
        assert!(held.release(Some(&locks.gate())).is_ok());
        assert!(locks.names().is_empty(), "{means:?}");
    }
}

#[test]
fn with_a_lease_it_is_the_same_file_and_beside_a_reader_another() {
    let locks = Locks::new();
    let mut held = ours(&locks, Means::BEST, 500);
    let inode = fs::metadata(locks.path()).unwrap().ino();
    assert!(matches!(
        beat(&locks, Means::BEST, &mut held),
        Heartbeat::Refreshed
    ));
    assert_eq!(fs::metadata(locks.path()).unwrap().ino(), inode, "in place");
    let reader = fs::File::open(locks.path()).unwrap();
    let seen = std::io::read_to_string(&reader).unwrap();
    for _ in 0..2 {
        assert!(
            matches!(beat(&locks, Means::BEST, &mut held), Heartbeat::Refreshed),
            "a reader is no loss"
        );
    }
    assert_eq!(
        std::os::unix::fs::FileExt::read_at(&reader, &mut [0; 4096], 0).unwrap(),
        seen.len()
    );
    assert_eq!(
        (held.whereabouts(), locks.names().len()),
        (Whereabouts::InPlace, 1)
    );
    assert!(is_now(locks.read().last_heartbeat_at));
}

#[test]
fn a_time_of_another_length_is_rewritten_whole() {
    for means in [
        Means::BEST,
        Means {
            leases: false,
            ..Means::BEST
        },
    ] {
        let locks = Locks::new();
        let mut held = ours(&locks, means, 500);
        let text = fs::read_to_string(locks.path()).unwrap();
        let (head, tail) = text.split_once("\"last_heartbeat_at\": \"").unwrap();
        let (_, tail) = tail.split_once('"').unwrap();
        let odd = format!("{head}\"last_heartbeat_at\": \"2025-12-18T10:30:40.25+00:00\"{tail}");
        fs::write(locks.path(), odd).unwrap();
        assert!(
            matches!(beat(&locks, means, &mut held), Heartbeat::Refreshed),
            "{means:?}"
        );
        let after = fs::read_to_string(locks.path()).unwrap();
        assert!(after.starts_with(head) && after.ends_with(tail), "{after}");
        assert!(is_now(locks.read().last_heartbeat_at));
        assert_eq!(locks.names(), ["app-prod.lock"]);
    }
}

/// A lock that was replaced or overwritten is lost. The heartbeat returns the record that is there now, if any.
#[test]
fn what_is_no_longer_ours_is_lost_and_not_written() {
    type Act = fn(&Locks);
    let replace = |locks: &Locks, json: String| {
        let other = locks.path().with_extension("tmp");
        fs::write(&other, json).unwrap();
        fs::rename(other, locks.path()).unwrap();
    };
    let rows: [(&str, Act, Option<&str>); 6] = [
        ("stolen by rename", |_| {}, Some("req_thief")),
        ("a blind copy of ours", |_| {}, Some("req_ours")),
        (
            "overwritten",
            |locks| fs::write(locks.path(), record("req_thief", 0).to_json()).unwrap(),
            Some("req_thief"),
        ),
        (
            "overwritten with nothing",
            |locks| fs::write(locks.path(), "").unwrap(),
            None,
        ),
        (
            "a symbolic link",
            |locks| {
                let target = locks.dir.path().join("target");
                fs::rename(locks.path(), &target).unwrap();
                symlink(target, locks.path()).unwrap();
            },
            None,
        ),
        (
            "a directory",
            |locks| {
                fs::remove_file(locks.path()).unwrap();
                fs::create_dir(locks.path()).unwrap();
            },
            None,
        ),
    ];
    for means in MEANS {
        for (scene, act, expected) in rows {
            let locks = Locks::new();
            let mut held = ours(&locks, means, 500);
            act(&locks);
            match scene {
                "stolen by rename" => replace(&locks, record("req_thief", 0).to_json()),
                "a blind copy of ours" => replace(&locks, record("req_ours", 500).to_json()),
                _ => {}
            }
            let there = || fs::read_to_string(locks.path()).unwrap_or_default();
            let before = there();
            let beaten = beat(&locks, means, &mut held);
            let Heartbeat::Lost(Whereabouts::Changed(record)) = &beaten else {
                panic!("{scene} with {means:?}: {beaten:?}")
            };
            assert_eq!(
                record.as_ref().and_then(|record| record.id()),
                expected,
                "{scene} with {means:?}"
            );
            assert_eq!(there(), before, "{scene} with {means:?}");
            assert!(!locks.place.aside().exists(), "{scene} with {means:?}");
        }
    }
}

#[test]
fn what_has_vanished_is_lost_and_not_made_again() {
    for means in MEANS {
        let locks = Locks::new();
        let mut held = ours(&locks, means, 500);
        fs::remove_file(locks.path()).unwrap();
        let beaten = beat(&locks, means, &mut held);
        assert!(
            matches!(beaten, Heartbeat::Lost(Whereabouts::Vanished)),
            "{means:?}: {beaten:?}"
        );
        assert!(locks.names().is_empty(), "{means:?}");
    }
}

#[test]
fn a_directory_that_was_replaced_is_lost() {
    let mut locks = Locks::new();
    let mut held = ours(&locks, Means::BEST, 500);
    let old = tempfile::tempdir().unwrap();
    fs::rename(locks.dir.path(), old.path().join("old")).unwrap();
    fs::create_dir(locks.dir.path()).unwrap();
    let beaten = held.heartbeat_within(std::time::Duration::from_secs(5));
    assert!(
        matches!(beaten, Heartbeat::Lost(Whereabouts::Replaced)),
        "{beaten:?}"
    );
    assert!(locks.names().is_empty());
    locks.dir.disable_cleanup(false);
}

/// Somebody steals it between the look and the write, without the gate: the thief's record stays as it is.
#[test]
fn who_renames_over_it_in_between_keeps_his() {
    for means in MEANS {
        for step in [Step::Ours, Step::Exchanged] {
            let locks = Locks::new();
            let mut held = ours(&locks, means, 500);
            let thief = record("req_thief", 0).to_json();
            let mut stolen = false;
            let hook = |at| {
                if at == step && !stolen {
                    stolen = true;
                    let other = locks.dir.path().join("tmp");
                    fs::write(&other, &thief).unwrap();
                    fs::rename(other, locks.path()).unwrap();
                }
            };
            let gate = locks.gate();
            let reader = fs::File::open(locks.path()).unwrap();
            let beaten = locks
                .site(&gate, means, &Options::default())
                .with_hook(hook)
                .heartbeat(&mut held);
            drop((reader, gate));
            // In place there is no exchange.
            if !stolen {
                assert_eq!(
                    (step, means.renameat2),
                    (Step::Exchanged, false),
                    "{means:?}"
                );
                continue;
            }
            let scene = format!("{step:?} with {means:?}: {beaten:?}");
            assert!(
                matches!(beaten, Heartbeat::Lost(Whereabouts::Changed(_))),
                "{scene}"
            );
            assert_eq!(fs::read_to_string(locks.path()).unwrap(), thief, "{scene}");
            assert_ne!(held.whereabouts(), Whereabouts::InPlace, "{scene}");
            assert!(!locks.place.aside().exists(), "{scene}");
        }
    }
}

/// Between the look and the lease it is overwritten: by another claim of the same lengths, which is not written into,
/// or by a note in ours, which moves the time.
#[test]
fn what_it_says_counts_once_nobody_else_has_it_open() {
    let noted = record("req_ours", 500)
        .to_json()
        .replacen('{', "{ \"note\": 7,", 1);
    for (other, is_lost) in [(record("req_them", 500).to_json(), true), (noted, false)] {
        let locks = Locks::new();
        let mut held = ours(&locks, Means::BEST, 500);
        let mut written = false;
        let hook = |at| {
            if at == Step::Judged && !std::mem::replace(&mut written, true) {
                fs::write(locks.path(), &other).unwrap();
            }
        };
        let gate = locks.gate();
        let options = Options::default();
        let beaten = locks
            .site(&gate, Means::BEST, &options)
            .with_hook(hook)
            .heartbeat(&mut held);
        if is_lost {
            assert!(
                matches!(beaten, Heartbeat::Lost(Whereabouts::Changed(Some(_)))),
                "{beaten:?}"
            );
            assert_eq!(fs::read_to_string(locks.path()).unwrap(), other);
        } else {
            assert!(matches!(beaten, Heartbeat::Refreshed), "{beaten:?}");
            assert!(
                fs::read_to_string(locks.path())
                    .unwrap()
                    .starts_with("{ \"note\": 7,")
            );
            assert!(is_now(locks.read().last_heartbeat_at));
        }
    }
}

/// A writer may still write into the open file. If the heartbeat replaced the file, these writes would be lost.
#[test]
fn who_has_it_open_for_writing_keeps_the_file() {
    let locks = Locks::new();
    let mut held = ours(&locks, Means::BEST, 500);
    let (before, inode) = (
        fs::read(locks.path()).unwrap(),
        fs::metadata(locks.path()).unwrap().ino(),
    );
    let writer = fs::File::options().append(true).open(locks.path()).unwrap();
    let beaten = beat(&locks, Means::BEST, &mut held);
    assert!(matches!(beaten, Heartbeat::Failed(_)), "{beaten:?}");
    assert_eq!(
        (
            fs::read(locks.path()).unwrap(),
            fs::metadata(locks.path()).unwrap().ino()
        ),
        (before, inode)
    );
    assert_eq!(locks.names(), ["app-prod.lock"]);
    drop(writer);
    assert!(matches!(
        beat(&locks, Means::BEST, &mut held),
        Heartbeat::Refreshed
    ));
}

#[test]
fn what_a_crash_has_left_aside_is_put_back_and_refreshed() {
    for means in MEANS {
        let locks = Locks::new();
        let mut held = ours(&locks, means, 500);
        fs::rename(locks.path(), locks.place.aside()).unwrap();
        let beaten = beat(&locks, means, &mut held);
        assert!(
            matches!(beaten, Heartbeat::Refreshed),
            "{means:?}: {beaten:?}"
        );
        assert_eq!(locks.names(), ["app-prod.lock"], "{means:?}");
        assert!(is_now(locks.read().last_heartbeat_at));
    }
}

/// Two who rename over it blindly, one before it changes places and one before it changes back: neither claim is
/// deleted.
#[test]
fn who_renames_over_it_twice_loses_neither() {
    let locks = Locks::new();
    let mut held = ours(&locks, Means::BEST, 500);
    let claim = |id: &str| record(id, 0).to_json();
    let hook = |at| {
        let id = match at {
            Step::Ours => "req_one",
            Step::MovingBack => "req_two",
            _ => return,
        };
        let other = locks.dir.path().join("tmp");
        fs::write(&other, claim(id)).unwrap();
        fs::rename(other, locks.path()).unwrap();
    };
    let (gate, options) = (locks.gate(), Options::default());
    let reader = fs::File::open(locks.path()).unwrap();
    let beaten = locks
        .site(&gate, Means::BEST, &options)
        .with_hook(hook)
        .heartbeat(&mut held);
    drop(reader);
    assert!(matches!(beaten, Heartbeat::Lost(_)), "{beaten:?}");
    let there = [locks.path(), locks.place.aside()].map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(there, [claim("req_one"), claim("req_two")]);
}

/// A holder that dies in the middle leaves a lock that is its own, stale after its TTL and no later than it would be.
#[test]
fn a_crash_in_the_middle_leaves_our_lock() {
    for step in [Step::Ours, Step::Exchanged] {
        for means in MEANS {
            let locks = Locks::new();
            let mut held = ours(&locks, means, 500);
            let gate = locks.gate();
            let _reader = fs::File::open(locks.path()).unwrap();
            let mut site = locks
                .site(&gate, means, &Options::default())
                .with_hook(|at| crate::scene::crash_at(at, step));
            if !has_crashed(|| site.heartbeat(&mut held)) {
                assert_eq!((step, means.renameat2), (Step::Exchanged, false));
                continue;
            }
            drop(gate);
            let decision = check(&locks.place, &Options::default());
            assert_eq!(
                decision.record().and_then(|record| record.id()),
                Some("req_ours"),
                "{step:?} {means:?}"
            );
            let rename_stale = |path: &std::path::Path| {
                if let Ok(bytes) = fs::read(path) {
                    let read = Record::parse(&bytes, "app-prod").unwrap();
                    let old = StartedAt::from_unix(0, 0);
                    fs::write(
                        path,
                        Record {
                            last_heartbeat_at: old,
                            ..read
                        }
                        .to_json(),
                    )
                    .unwrap();
                }
            };
            rename_stale(&locks.path());
            rename_stale(&locks.place.aside());
            let force = Options {
                force_lock: true,
                ..Options::default()
            };
            let attempt = locks
                .site(&locks.gate(), means, &force)
                .claim(record("req_new", 0))
                .unwrap();
            assert!(
                matches!(attempt, Attempt::Claimed(..)),
                "{step:?} {means:?}: {attempt:?}"
            );
            assert_eq!(locks.names(), ["app-prod.lock"], "{step:?} {means:?}");
        }
    }
}

#[test]
fn a_beads_lock_has_no_heartbeat() {
    let database = crate::scene::Database::new();
    let gate = database.gate();
    let beads = beadlock_core::record::beads::Record::new("ours", "1").unwrap();
    let mut held = crate::scene::claimed(&gate, Means::BEST, &beads);
    let before = fs::read(database.lock()).unwrap();
    assert!(matches!(held.heartbeat(Some(&gate)), Heartbeat::Failed(_)));
    assert_eq!(fs::read(database.lock()).unwrap(), before);
    drop(gate);
    assert!(matches!(
        beadlock_checker::should_skip_database(database.path()),
        Decision::Skip(_)
    ));
}
