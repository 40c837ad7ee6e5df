//! The table of situations.

use std::{sync::Arc, time::Duration};

use beadlock_base::namespace::NamespaceMember;
use beadlock_base::process::Liveness;
use beadlock_core::facts::{Facts, Ids, Proof};
use beadlock_core::record::StartedAt;
use beadlock_core::record::beads::{BeadlockKey, Record, judge};

use super::situation::{self, Here, Inside, LiveFacts, ProcessSituation};

type Seen = (Record, Facts);

fn now() -> StartedAt {
    StartedAt::from_unix(1_800_000_000, 0)
}

/// What a lock of this host's, with the id of everything known, looks like after `change`.
fn seen(change: impl Fn(&mut Record, &mut Facts)) -> Seen {
    let json = br#"{"holder":"vc","pid":77,"hostname":"vm","started_at":"2026-02-01T10:11:12Z","beadlock":
        {"id":"i","machine_id":"m","boot_id":"b","pid_ns":"pid:[1]","time_ns":"time:[1]","start_ticks":1000}}"#;
    let mut record = Record::parse(json).unwrap();
    let some = |word: &str| Some(word.to_owned());
    let ids = Ids {
        machine_id: some("m"),
        boot_id: some("b"),
        pid_ns: some("pid:[1]"),
        time_ns: some("time:[1]"),
    };
    let proof = Proof {
        local_file_system: true,
        start_ticks: Some(1000),
        ..Proof::default()
    };
    let mut facts = Facts {
        now: now(),
        hostname: Some("vm".into()),
        ids: Arc::new(ids),
        liveness: Liveness::Alive,
        watchdog: None,
        proof: Some(proof),
        boottime: Duration::ZERO,
        unrefreshed: Duration::ZERO,
        standstill: Duration::ZERO,
    };
    change(&mut record, &mut facts);
    (record, facts)
}

fn of(seen: &Seen) -> ProcessSituation {
    of_asked(
        seen,
        &LiveFacts {
            liveness: Liveness::NotAsked,
            members: &[],
        },
    )
}

fn of_asked((record, facts): &Seen, asked: &LiveFacts<'_>) -> ProcessSituation {
    situation::of(judge(record, facts, false).reason(), record, facts, asked)
}

fn mark(record: &mut Record) -> &mut BeadlockKey {
    record.beadlock.as_mut().unwrap()
}

fn proof(facts: &mut Facts) -> &mut Proof {
    facts.proof.as_mut().unwrap()
}

fn ids(facts: &mut Facts) -> &mut Ids {
    Arc::get_mut(&mut facts.ids).unwrap()
}

type Change = fn(&mut Record, &mut Facts);

#[test]
fn of_a_lock_of_this_host() {
    let table: [(&str, Change, ProcessSituation); 13] = [
        ("lives", |_, _| {}, ProcessSituation::Alive),
        (
            "EPERM",
            |_, f| f.liveness = Liveness::NotPermitted,
            ProcessSituation::AliveOfAnotherUser,
        ),
        (
            "ESRCH",
            |_, f| f.liveness = Liveness::Gone,
            ProcessSituation::Gone { rebooted: false },
        ),
        (
            "ESRCH, booted since",
            |_, f| {
                f.liveness = Liveness::Gone;
                ids(f).boot_id = Some("c".to_owned());
            },
            ProcessSituation::Gone { rebooted: true },
        ),
        (
            "zombie",
            |_, f| proof(f).zombie = true,
            ProcessSituation::Zombie,
        ),
        (
            "recycled",
            |_, f| proof(f).start_ticks = Some(2000),
            ProcessSituation::Recycled,
        ),
        (
            "booted since",
            |_, f| ids(f).boot_id = Some("c".to_owned()),
            ProcessSituation::Rebooted { proved: true },
        ),
        (
            "booted since, on NFS",
            |_, f| {
                ids(f).boot_id = Some("c".to_owned());
                proof(f).local_file_system = false;
            },
            ProcessSituation::Rebooted { proved: false },
        ),
        (
            "too large a PID",
            |r, f| {
                r.pid = 1 << 40;
                f.liveness = Liveness::Unknown;
            },
            ProcessSituation::NoSuchPid,
        ),
        (
            "no answer",
            |_, f| f.liveness = Liveness::Unknown,
            ProcessSituation::Unanswered,
        ),
        (
            "no own name",
            |_, f| f.hostname = None,
            ProcessSituation::Nameless,
        ),
        (
            "container",
            |_, f| ids(f).pid_ns = Some("pid:[2]".to_owned()),
            ProcessSituation::Container(Inside::Nothing),
        ),
        (
            "container gone",
            |_, f| {
                ids(f).pid_ns = Some("pid:[2]".to_owned());
                proof(f).namespace_gone = true;
            },
            ProcessSituation::ContainerGone { proved: true },
        ),
    ];
    for (name, change, expected) in table {
        assert_eq!(of(&seen(change)), expected, "{name}");
    }
}

#[test]
fn of_a_lock_of_another_name() {
    let table: [(&str, Change, ProcessSituation); 7] = [
        (
            "its own boot",
            |r, _| mark(r).boot_id = Some("c".to_owned()),
            ProcessSituation::Remote { same_machine: true },
        ),
        (
            "not ours",
            |r, _| r.beadlock = None,
            ProcessSituation::Remote {
                same_machine: false,
            },
        ),
        (
            "its own machine and boot",
            |r, _| {
                mark(r).boot_id = Some("c".to_owned());
                mark(r).machine_id = Some("n".to_owned());
            },
            ProcessSituation::Remote {
                same_machine: false,
            },
        ),
        (
            "this boot, PIDs unknown",
            |r, _| mark(r).pid_ns = None,
            ProcessSituation::Remote { same_machine: true },
        ),
        (
            "this boot and these PIDs",
            |_, _| {},
            ProcessSituation::Renamed(Here::Unknown),
        ),
        (
            "a container",
            |r, _| mark(r).pid_ns = Some("pid:[2]".to_owned()),
            ProcessSituation::Container(Inside::Nothing),
        ),
        (
            "a container that is gone",
            |r, f| {
                mark(r).pid_ns = Some("pid:[2]".to_owned());
                proof(f).namespace_gone = true;
            },
            ProcessSituation::ContainerGone { proved: false },
        ),
    ];
    for (name, change, expected) in table {
        let look = seen(|record, facts| {
            record.hostname = "other".to_owned();
            facts.liveness = Liveness::NotAsked;
            change(record, facts);
        });
        assert_eq!(of(&look), expected, "{name}");
    }
    let namesake = seen(|record, _| {
        mark(record).machine_id = Some("n".to_owned());
        mark(record).boot_id = Some("c".to_owned());
    });
    assert_eq!(of(&namesake), ProcessSituation::Namesake);
}

#[test]
fn of_a_renamed_machine_by_what_its_pid_is_now() {
    let table: [(Liveness, Option<u64>, bool, Here); 6] = [
        (Liveness::Alive, Some(1001), false, Here::Lives),
        (Liveness::NotPermitted, None, false, Here::Lives),
        (Liveness::Alive, Some(2000), false, Here::Recycled),
        (Liveness::Alive, Some(1000), true, Here::Gone),
        (Liveness::Gone, None, false, Here::Gone),
        (Liveness::Unknown, None, false, Here::Unknown),
    ];
    for (liveness, start, zombie, expected) in table {
        let look = seen(|record, facts| {
            record.hostname = "before".to_owned();
            proof(facts).start_ticks = start;
            proof(facts).zombie = zombie;
        });
        let asked = LiveFacts {
            liveness,
            members: &[],
        };
        assert_eq!(
            of_asked(&look, &asked),
            ProcessSituation::Renamed(expected),
            "{liveness:?} {start:?}"
        );
    }
}

#[test]
fn of_a_container_by_who_lives_there() {
    let look = seen(|record, _| mark(record).pid_ns = Some("pid:[2]".to_owned()));
    let (other, it) = (
        NamespaceMember {
            pid: 4710,
            pid_there: 1,
        },
        NamespaceMember {
            pid: 4711,
            pid_there: 77,
        },
    );
    for (members, expected) in [
        (&[other, it][..], Inside::Process(4711)),
        (&[other], Inside::Others(4710)),
        (&[], Inside::Nothing),
    ] {
        let asked = LiveFacts {
            liveness: Liveness::NotAsked,
            members,
        };
        assert_eq!(
            of_asked(&look, &asked),
            ProcessSituation::Container(expected)
        );
    }
}
