//! Named locks with heartbeats: a stale one goes only when somebody says so, and a heartbeat that comes meanwhile wins.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use beadlock_checker::{Decision, Options, Place, Reason, Skip, Verdict, check};
use beadlock_core::record::memory::Limits;
use beadlock_core::record::tower::{self, LockName, Record, StartedAt};
use beadlock_core::take::{Attempt, Held, Means, Settled, Site, Step};
use beadlock_core::{facts, gate::Gate, look::look, renewal_watch::RenewalWatch};

use crate::scene::{MEANS, REMOVAL, Writer, crash_at, has_crashed, until_done_or_still};

const FORCE: Options = Options {
    reap_proven_dead: false,
    dry_run: false,
    force_lock: true,
    keep_stale: false,
    limits: Limits::DEFAULT,
    refreshes: RenewalWatch::NONE,
    has_fleet_right: false,
};

/// A lock directory with one lock.
pub struct Locks {
    pub dir: tempfile::TempDir,
    pub place: Place,
}

impl Locks {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::tower(dir.path(), &LockName::parse("app-prod").unwrap());
        Self { dir, place }
    }

    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    pub fn gate(&self) -> Gate {
        Gate::try_take(self.dir.path())
            .unwrap()
            .expect("the gate is free")
    }

    pub fn site<'g>(&self, gate: &'g Gate, means: Means, options: &Options) -> Site<'g> {
        Site::new(gate, options)
            .with_names(self.place.names())
            .with_means(means)
    }

    pub fn claimed(&self, gate: &Gate, means: Means, record: &Record) -> Held {
        match self
            .site(gate, means, &Options::default())
            .claim(record)
            .unwrap()
        {
            Attempt::Claimed(held, None) => held,
            other => panic!("{means:?}: {other:?}"),
        }
    }

    pub fn read(&self) -> Record {
        Record::parse(&fs::read(self.path()).unwrap(), "app-prod").unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// A record whose last heartbeat was `silent` seconds ago, with a TTL of 900.
pub fn record(id: &str, silent: i64) -> Record {
    let then = StartedAt::from_unix(facts::now().0.as_secs() - silent, 0);
    Record {
        lock_name: LockName::parse("app-prod").unwrap(),
        request_id: id.to_owned(),
        actor: "ci".to_owned(),
        intent: "deploy".to_owned(),
        intent_version: "1.2.0".to_owned(),
        host_id: "tower-01".to_owned(),
        pid: 12345,
        created_at: then,
        last_heartbeat_at: then,
        ttl_seconds: 900,
        metadata: None,
        others: serde_json::Map::new(),
    }
}

/// The holder whose lock is stale comes back, with a heartbeat that knows nothing of the gate.
fn beat_naively(writer: Writer, locks: &Locks) -> std::thread::JoinHandle<()> {
    let (lock, json) = (locks.path(), record("req_old", 0).to_json());
    let dir = lock.parent().unwrap().to_owned();
    let thread = std::thread::spawn(move || match writer {
        // As `flock` and a write would do it: what is not there is not made.
        Writer::InPlace => {
            if let Ok(file) = fs::File::options().write(true).open(&lock) {
                std::os::unix::fs::FileExt::write_all_at(&file, json.as_bytes(), 0).unwrap();
            }
        }
        Writer::ByRename => {
            let temporary = lock.with_extension("lock.heartbeat.tmp");
            fs::write(&temporary, json).unwrap();
            fs::rename(temporary, &lock).unwrap();
        }
    });
    until_done_or_still(&thread, &dir);
    thread
}

#[test]
fn a_lock_is_written_whole_and_for_its_user_alone() {
    for means in MEANS {
        let locks = Locks::new();
        let ours = record("req_ours", 0);
        let held = locks.claimed(&locks.gate(), means, &ours);
        assert_eq!(
            (held.id(), fs::read_to_string(locks.path()).unwrap()),
            ("req_ours", ours.to_json())
        );
        let mode = fs::metadata(locks.path()).unwrap().permissions().mode();
        assert_eq!(
            (mode & 0o7777, locks.names()),
            (0o600, vec!["app-prod.lock".to_owned()]),
            "{means:?}"
        );
        assert!(matches!(
            check(&locks.place, &Options::default()),
            Decision::Skip(Skip::Locked(..))
        ));
        assert!(matches!(
            held.release(Some(&locks.gate())),
            Ok(beadlock_core::take::Release::Released)
        ));
        assert!(locks.names().is_empty());
    }
}

#[test]
fn a_stale_lock_stays_until_somebody_says_otherwise() {
    let locks = Locks::new();
    fs::write(locks.path(), record("req_old", 1000).to_json()).unwrap();
    let before = fs::read(locks.path()).unwrap();
    for options in [
        Options::default(),
        FORCE,
        Options {
            dry_run: true,
            ..FORCE
        },
    ] {
        let decision = check(&locks.place, &options);
        let Decision::Skip(Skip::Stale {
            record,
            reason,
            age,
        }) = &decision
        else {
            panic!("{decision:?}")
        };
        assert_eq!(
            (record.id(), *reason),
            (Some("req_old"), Reason::HeartbeatExpired)
        );
        assert!((1000..1060).contains(&age.as_secs()), "{age:?}");
        let words = format!(
            "Skipping (stale lock of ci, no heartbeat for {}s; --force-lock takes it)",
            age.as_secs()
        );
        assert_eq!(
            (decision.to_string(), decision.verdict()),
            (words, Verdict::Stale(*reason))
        );
    }
    assert_eq!(
        look(&locks.place, &Options::default()).verdict,
        Verdict::Stale(Reason::HeartbeatExpired)
    );
    let gate = locks.gate();
    let refused = locks
        .site(&gate, Means::BEST, &Options::default())
        .claim(record("req_new", 0))
        .unwrap();
    let Attempt::Refused(Skip::Stale { record, age, .. }, None) = refused else {
        panic!("{refused:?}")
    };
    let answer = tower::answer_stale(record.as_tower().unwrap(), age).to_string();
    assert!(
        answer.starts_with(r#"{"error":"lock_stale","lock_name":"app-prod","stale_since":"#),
        "{answer}"
    );
    assert_eq!(fs::read(locks.path()).unwrap(), before);
    assert_eq!(locks.names(), ["app-prod.lock"]);
}

#[test]
fn a_stale_lock_is_taken_with_what_it_said() {
    for means in MEANS {
        let locks = Locks::new();
        let old = record("req_old", 1000).to_json();
        fs::write(locks.path(), &old).unwrap();
        let attempt = locks
            .site(&locks.gate(), means, &FORCE)
            .claim(record("req_new", 0))
            .unwrap();
        let Attempt::Claimed(held, Some(removed)) = attempt else {
            panic!("{means:?}: {attempt:?}")
        };
        assert_eq!(
            (held.id(), removed.reason),
            ("req_new", Reason::HeartbeatExpired)
        );
        assert_eq!(
            (removed.record.id(), removed.bytes.as_slice()),
            (Some("req_old"), old.as_bytes())
        );
        assert_eq!(
            (locks.read().request_id.as_str(), locks.names().len()),
            ("req_new", 1)
        );
    }
}

#[test]
fn what_is_not_stale_or_cannot_be_understood_is_never_taken() {
    let fresh = record("req_old", 900 - 60).to_json();
    let future = record("req_old", -3600).to_json();
    let expired = record("req_old", 1000).to_json();
    let rows = [
        (fresh, "heartbeat_fresh"),
        (future, "heartbeat_in_future"),
        (expired.replace("\"app-prod\"", "\"app\""), "invalid"),
        (
            expired.replace("\"lock_version\": \"v1\"", "\"lock_version\": \"v2\""),
            "invalid",
        ),
        (expired.replace("req_old", "req old"), "invalid"),
        (
            expired.replace("\"ttl_seconds\": 900", "\"ttl_seconds\": 0"),
            "invalid",
        ),
        (
            record("req_old", 1000).to_json().replace("Z\"", "\""),
            "invalid",
        ),
        (expired[..expired.len() / 2].to_owned(), "malformed"),
        (String::new(), "malformed"),
    ];
    for (json, reason) in rows {
        let locks = Locks::new();
        fs::write(locks.path(), &json).unwrap();
        let decision = check(&locks.place, &Options::default());
        assert_eq!(
            (decision.is_skip(), decision.reason().as_str()),
            (true, reason),
            "{json}"
        );
        let attempt = locks
            .site(&locks.gate(), Means::BEST, &FORCE)
            .claim(record("req_new", 0))
            .unwrap();
        let Attempt::Refused(skip, None) = attempt else {
            panic!("{json}: {attempt:?}")
        };
        assert_eq!(Decision::Skip(skip).reason().as_str(), reason, "{json}");
        assert_eq!(fs::read_to_string(locks.path()).unwrap(), json);
        assert_eq!(locks.names(), ["app-prod.lock"]);
    }
}

/// Whatever the step, the holder that says again that it lives keeps its lock. What comes after the deletion finds no
/// lock to write into; a rename makes one all the same.
#[test]
fn a_heartbeat_that_comes_while_it_is_stolen_wins() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            for step in REMOVAL {
                // Without leases, what is in place between the last look and the deletion is not seen
                // (docs/design.md#without-leases). After the deletion there is nothing to write into, and none that is
                // aside is found by its path.
                let finds_none = matches!(step, Step::MovedAside | Step::GraceOver | Step::Deleted);
                if writer == Writer::InPlace && finds_none {
                    continue;
                }
                let locks = Locks::new();
                fs::write(locks.path(), record("req_old", 1000).to_json()).unwrap();
                let gate = locks.gate();
                let mut beating = None;
                let hook = |at| {
                    if at == step && beating.is_none() {
                        beating = Some(beat_naively(writer, &locks));
                    }
                };
                let attempt = locks
                    .site(&gate, means, &FORCE)
                    .with_hook(hook)
                    .claim(record("req_new", 0))
                    .unwrap();
                beating.unwrap().join().unwrap();
                let scene = format!("{writer:?} at {step:?} with {means:?}: {attempt:?}");
                assert!(matches!(attempt, Attempt::Refused(..)), "{scene}");
                drop(gate);
                // The next one puts back what is aside, if anything is.
                let decision = check(&locks.place, &Options::default());
                assert_eq!(
                    decision.reason(),
                    Reason::HeartbeatFresh,
                    "{scene}: {decision:?}"
                );
                assert_eq!(locks.read().request_id, "req_old", "{scene}");
                assert_eq!(locks.names(), ["app-prod.lock"], "{scene}");
            }
        }
    }
}

/// A holder that had opened its lock before the move writes into it while it is aside. One that comes after the grace
/// has lost it, so one round in time is enough.
#[test]
fn a_heartbeat_in_place_during_the_grace_wins() {
    for means in [
        Means::BEST,
        Means {
            leases: false,
            ..Means::BEST
        },
        Means::PORTABLE,
    ] {
        assert!(
            (0..5).any(|_| one_heartbeat_wins(means)),
            "{means:?}: no heartbeat is ever seen"
        );
    }
}

fn one_heartbeat_wins(means: Means) -> bool {
    let locks = Locks::new();
    fs::write(locks.path(), record("req_old", 1000).to_json()).unwrap();
    let gate = locks.gate();
    let mut beating = None;
    let aside = locks.place.aside();
    let hook = |at| {
        if at == Step::MovedAside && beating.is_none() {
            let (aside, json) = (aside.clone(), record("req_old", 0).to_json());
            beating = Some(std::thread::spawn(move || {
                // By its side name: what an `open` whose lookup came before the move comes to.
                let file = fs::File::options().write(true).open(aside)?;
                std::os::unix::fs::FileExt::write_all_at(&file, json.as_bytes(), 0)
            }));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let attempt = locks
        .site(&gate, means, &FORCE)
        .with_hook(hook)
        .claim(record("req_new", 0))
        .unwrap();
    let beaten = beating.unwrap().join().unwrap();
    if !matches!(attempt, Attempt::Refused(..)) {
        return false;
    }
    assert!(beaten.is_ok(), "{means:?}: {beaten:?}");
    assert_eq!(locks.read().request_id, "req_old", "{means:?}");
    assert_eq!(
        check(&locks.place, &Options::default()).reason(),
        Reason::HeartbeatFresh,
        "{means:?}"
    );
    true
}

/// A stealer that dies leaves nothing that the next check does not put right, and the stale lock is not lost by a
/// check.
#[test]
fn a_crash_at_any_step_of_a_steal_is_recovered() {
    for means in MEANS {
        for step in REMOVAL {
            let locks = Locks::new();
            fs::write(locks.path(), record("req_old", 1000).to_json()).unwrap();
            let gate = locks.gate();
            let crash = |at| crash_at(at, step);
            let mut crashing = locks.site(&gate, means, &FORCE).with_hook(crash);
            assert!(
                has_crashed(|| crashing.settle()),
                "{step:?} was not reached with {means:?}"
            );
            drop(gate);
            let decision = check(&locks.place, &Options::default());
            if step == Step::Deleted {
                assert_eq!(decision.reason(), Reason::NoLock, "{step:?} with {means:?}");
            } else {
                assert!(
                    matches!(decision, Decision::Skip(Skip::Stale { .. })),
                    "{step:?} with {means:?}: {decision:?}"
                );
                assert_eq!(locks.names(), ["app-prod.lock"], "{step:?} with {means:?}");
            }
        }
    }
}

/// Two that must stay are left where they are: the answer is the lock's, at once and every time.
#[test]
fn a_stale_lock_beside_a_stale_side_file_is_answered() {
    let locks = Locks::new();
    fs::write(locks.path(), record("req_lock", 1000).to_json()).unwrap();
    fs::write(locks.place.aside(), record("req_aside", 1000).to_json()).unwrap();
    let gate = locks.gate();
    for _ in 0..2 {
        let settled = locks.site(&gate, Means::BEST, &Options::default()).settle();
        let Settled::Refused {
            skip: Skip::Stale { record, .. },
            removed: None,
        } = settled
        else {
            panic!("{settled:?}")
        };
        assert_eq!((record.id(), locks.names().len()), (Some("req_lock"), 2));
    }
    // A living one aside comes back, with or without leave to take the stale one.
    fs::write(locks.place.aside(), record("req_aside", 0).to_json()).unwrap();
    let settled = locks.site(&gate, Means::BEST, &Options::default()).settle();
    assert!(
        matches!(
            settled,
            Settled::Refused {
                skip: Skip::Locked(..),
                ..
            }
        ),
        "{settled:?}"
    );
    assert_eq!(locks.read().request_id, "req_aside");
    let settled = locks.site(&gate, Means::BEST, &FORCE).settle();
    assert!(
        matches!(
            settled,
            Settled::Refused {
                skip: Skip::Locked(..),
                ..
            }
        ),
        "{settled:?}"
    );
    assert_eq!(locks.names(), ["app-prod.lock"]);
}
