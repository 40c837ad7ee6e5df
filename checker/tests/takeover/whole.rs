//! Nobody who only reads sees a part of a named lock, nobody is written over, and no PID is asked.

use std::fs;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use beadlock_checker::{Options, Reason, Skip, Verdict};
use beadlock_core::look::look;
use beadlock_core::record::tower::Record;
use beadlock_core::take::{Attempt, Heartbeat, Step};

use crate::scene::MEANS;
use crate::tower::{Locks, record};

const ROUNDS: usize = 50;

/// Runs `act` while a reader looks at the lock again and again, and fails when it once finds neither the whole of it
/// nor nothing. `act` runs again and again, until enough was seen.
fn seen_whole_during(locks: &Locks, mut act: impl FnMut()) {
    let (path, is_over, seen) = (locks.path(), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                match fs::read(&path) {
                    Ok(bytes) => match Record::parse(&bytes, "app-prod") {
                        Ok(_) => _ = seen.fetch_add(1, Ordering::Relaxed),
                        Err(why) => panic!("{why}: {:?}", String::from_utf8_lossy(&bytes)),
                    },
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                }
            }
        });
        for round in 0.. {
            if reader.is_finished() || (round >= ROUNDS && seen.load(Ordering::Relaxed) >= ROUNDS) {
                break;
            }
            act();
        }
        is_over.store(true, Ordering::Relaxed);
        reader
            .join()
            .expect("every look found the whole or nothing");
    });
}

#[test]
fn nobody_sees_half_a_record() {
    for means in MEANS {
        let locks = Locks::new();
        seen_whole_during(&locks, || {
            let held = locks.claimed(&locks.gate(), means, &record("req_ours", 0));
            std::thread::yield_now();
            assert!(held.release(Some(&locks.gate())).is_ok(), "{means:?}");
        });
        // At each step by itself: nothing under the name, then all of it.
        let mut steps = Vec::new();
        let gate = locks.gate();
        let hook = |step| steps.push((step, fs::read_to_string(locks.path()).ok()));
        let ours = record("req_ours", 0);
        let attempt = locks
            .site(&gate, means, &Options::default())
            .with_hook(hook)
            .claim(ours.clone())
            .unwrap();
        assert!(
            matches!(attempt, Attempt::Claimed(..)),
            "{means:?}: {attempt:?}"
        );
        let (last, before) = steps.split_last().unwrap();
        assert_eq!(last, &(Step::Linked, Some(ours.to_json())), "{means:?}");
        assert!(
            before.len() >= 2 && before.iter().all(|(_, text)| text.is_none()),
            "{means:?}: {before:?}"
        );
    }
}

#[test]
fn nobody_sees_half_a_heartbeat() {
    // Without the exchange a heartbeat beside a reader moves the lock away for a moment: then there is none.
    for means in MEANS {
        let locks = Locks::new();
        let mut held = locks.claimed(&locks.gate(), means, &record("req_ours", 500));
        seen_whole_during(&locks, || {
            let beaten = locks
                .site(&locks.gate(), means, &Options::default())
                .heartbeat(&mut held);
            assert!(
                matches!(beaten, Heartbeat::Refreshed),
                "a reader is no loss: {beaten:?} with {means:?}"
            );
        });
        assert_eq!(locks.names(), ["app-prod.lock"], "{means:?}");
    }
}

/// Somebody, who knows nothing of the gate, comes between our last look and our own file.
#[test]
fn a_claim_is_never_made_over_a_file() {
    for means in MEANS {
        for step in [Step::Absent, Step::Synced] {
            let locks = Locks::new();
            let theirs = record("req_theirs", 0).to_json();
            let mut has_come = false;
            let hook = |at| {
                if at == step && !has_come {
                    has_come = true;
                    fs::write(locks.path(), &theirs).unwrap();
                }
            };
            let gate = locks.gate();
            let attempt = locks
                .site(&gate, means, &Options::default())
                .with_hook(hook)
                .claim(record("req_ours", 0))
                .unwrap();
            let Attempt::Refused(Skip::Locked(there, _), None) = &attempt else {
                panic!("{step:?} with {means:?}: {attempt:?}")
            };
            assert_eq!(there.id(), Some("req_theirs"), "{step:?} with {means:?}");
            assert_eq!(
                fs::read_to_string(locks.path()).unwrap(),
                theirs,
                "{step:?} with {means:?}"
            );
            assert_eq!(
                locks.names(),
                ["app-prod.lock"],
                "nothing of ours is left: {step:?} with {means:?}"
            );
        }
    }
}

/// A PID of this host that is gone keeps no fresh lock from being held, and one that lives keeps no silent one from
/// being stale.
#[test]
fn the_heartbeat_alone_decides_and_no_pid() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let rows = [
        (child.id(), 10, Verdict::Held(Reason::HeartbeatFresh)),
        (child.id(), 1000, Verdict::Stale(Reason::HeartbeatExpired)),
        (
            std::process::id(),
            10,
            Verdict::Held(Reason::HeartbeatFresh),
        ),
        (
            std::process::id(),
            1000,
            Verdict::Stale(Reason::HeartbeatExpired),
        ),
    ];
    for (pid, silent, verdict) in rows {
        let locks = Locks::new();
        let there = Record {
            pid: pid.into(),
            host_id: host.clone(),
            ..record("req_old", silent)
        };
        fs::write(locks.path(), there.to_json()).unwrap();
        for reap_proven_dead in [false, true] {
            let options = Options {
                reap_proven_dead,
                ..Options::default()
            };
            assert_eq!(
                look(&locks.place, &options).verdict,
                verdict,
                "PID {pid}, {silent} s, {reap_proven_dead}"
            );
        }
    }
}
