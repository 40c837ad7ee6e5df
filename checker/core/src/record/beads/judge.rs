//! The rule of the beads protocol, as a pure function from a record and the facts to a verdict
//! (docs/design.md#the-beads-rule).
//!
//! Only ESRCH on the same host makes a lock stale. With `reap_proven_dead` four more proofs count
//! (docs/design.md#proof-of-death): a boot that is over, a PID that is another process now, a PID namespace that is
//! gone, a zombie without threads. A proof counts when all its conditions are known and true. Unknown counts as alive.
//! Machine ids and namespaces by themselves only make a check more careful.

use super::Record;
use crate::record::facts::{Facts, Liveness, Proof};
use crate::verdict::{Reason, Verdict};

/// Difference, in clock ticks, between a recorded start and one that is read back that still counts as the same start.
const TICK: u64 = 1;

/// Judges a valid record. `reap_proven_dead`: [`Facts::proof`] counts as well.
pub fn judge(record: &Record, facts: &Facts, reap_proven_dead: bool) -> Verdict {
    let proof = facts.proof.as_ref().filter(|_| reap_proven_dead);
    if facts.hostname.is_none() {
        return Verdict::Held(Reason::HostUnknown);
    }
    if !facts.is_same_host(record) {
        return Verdict::Held(Reason::OtherHost);
    }
    if facts.other_machine(record) == Some(true) {
        return Verdict::Held(Reason::OtherMachine);
    }
    if facts.other_namespace(record) {
        return match proof {
            Some(proof) if proof.namespace_gone => Verdict::Stale(Reason::NamespaceGone),
            _ => Verdict::Held(Reason::OtherPidNamespace),
        };
    }
    match (
        facts.liveness,
        proof.and_then(|proof| proven_dead(record, facts, proof)),
    ) {
        (Liveness::Gone, _) => Verdict::Stale(Reason::PidGone),
        (_, Some(proven)) => Verdict::Stale(proven),
        (Liveness::Alive, None) => Verdict::Held(Reason::PidAlive),
        (Liveness::NotPermitted, None) => Verdict::Held(Reason::PidNotPermitted),
        (Liveness::Unknown | Liveness::NotAsked, None) => Verdict::Held(Reason::PidUnknown),
    }
}

/// Proof that the recorded process is dead although its PID answers, on this host and in this namespace.
fn proven_dead(record: &Record, facts: &Facts, proof: &Proof) -> Option<Reason> {
    match facts.other_boot(record) {
        Some(true) => {
            let this_machine = facts.other_machine(record) == Some(false);
            return (this_machine && proof.local_file_system).then_some(Reason::OtherBoot);
        }
        Some(false) => {
            let same_pid_ns =
                facts.differs(record, |ids| &ids.pid_ns, |mark| &mark.pid_ns) == Some(false);
            let same_time_ns =
                facts.differs(record, |ids| &ids.time_ns, |mark| &mark.time_ns) == Some(false);
            let recorded = record.beadlock.as_ref().and_then(|mark| mark.start_ticks);
            if let (true, true, Some(then), Some(now)) =
                (same_pid_ns, same_time_ns, recorded, proof.start_ticks)
                && then.abs_diff(now) > TICK
            {
                return Some(Reason::PidReused);
            }
        }
        None => {}
    }
    proof.zombie.then_some(Reason::Zombie)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::{BeadlockKey, StartedAt};
    use super::*;
    use crate::record::facts::Ids;

    fn record(hostname: &str, mark: Option<BeadlockKey>) -> Record {
        let started_at = StartedAt(jiff::SignedDuration::from_secs(1_761_393_600));
        let holder = "vc-executor".to_owned();
        Record {
            holder,
            pid: 12345,
            hostname: hostname.to_owned(),
            started_at,
            version: String::new(),
            beadlock: mark,
        }
    }

    fn mark() -> BeadlockKey {
        BeadlockKey {
            id: "id".to_owned(),
            machine_id: Some("machine".to_owned()),
            boot_id: Some("boot".to_owned()),
            pid_ns: Some("pid:[1]".to_owned()),
            time_ns: Some("time:[1]".to_owned()),
            start_ticks: Some(1000),
            ..BeadlockKey::default()
        }
    }

    fn facts(liveness: Liveness) -> Facts {
        let mark = mark();
        let ids = Ids {
            machine_id: mark.machine_id,
            boot_id: mark.boot_id,
            pid_ns: mark.pid_ns,
            time_ns: mark.time_ns,
        };
        let now = StartedAt(jiff::SignedDuration::from_secs(1_761_393_700));
        Facts {
            now,
            hostname: Some("Dev-Machine".into()),
            ids: Arc::new(ids),
            liveness,
            watchdog: None,
            proof: None,
            boottime: Duration::ZERO,
            unrefreshed: Duration::ZERO,
            standstill: Duration::ZERO,
        }
    }

    /// Rows of the table in docs/design.md#the-beads-rule that have a valid record.
    #[test]
    fn the_table() {
        use Liveness::{Alive, Gone, NotAsked, NotPermitted, Unknown};
        let other = |change: fn(&mut BeadlockKey)| {
            let mut mark = mark();
            change(&mut mark);
            Some(mark)
        };
        let machine = other(|mark| mark.machine_id = Some("another".to_owned()));
        let boot = other(|mark| mark.boot_id = Some("another".to_owned()));
        let namespace = other(|mark| mark.pid_ns = Some("pid:[2]".to_owned()));
        let namespace_before_boot = other(|mark| {
            mark.boot_id = Some("another".to_owned());
            mark.pid_ns = Some("pid:[2]".to_owned());
        });
        let namespace_of_unknown_boot = other(|mark| {
            mark.boot_id = None;
            mark.pid_ns = Some("pid:[2]".to_owned());
        });
        let unknown =
            other(|mark| (mark.machine_id, mark.boot_id, mark.pid_ns) = (None, None, None));
        let rows = [
            ("dev-machine", None, Alive, Verdict::Held(Reason::PidAlive)),
            ("DEV-MACHINE", None, Alive, Verdict::Held(Reason::PidAlive)),
            (
                "dev-machine",
                None,
                NotPermitted,
                Verdict::Held(Reason::PidNotPermitted),
            ),
            ("dev-machine", None, Gone, Verdict::Stale(Reason::PidGone)),
            (
                "dev-machine",
                None,
                Unknown,
                Verdict::Held(Reason::PidUnknown),
            ),
            (
                "dev-machine",
                None,
                NotAsked,
                Verdict::Held(Reason::PidUnknown),
            ),
            (
                "dev-machine.example.org",
                None,
                Gone,
                Verdict::Held(Reason::OtherHost),
            ),
            (" dev-machine", None, Gone, Verdict::Held(Reason::OtherHost)),
            ("localhost", None, Gone, Verdict::Held(Reason::OtherHost)),
            (
                "dev-machine",
                Some(mark()),
                Gone,
                Verdict::Stale(Reason::PidGone),
            ),
            (
                "dev-machine",
                machine,
                Gone,
                Verdict::Held(Reason::OtherMachine),
            ),
            (
                "dev-machine",
                namespace,
                Gone,
                Verdict::Held(Reason::OtherPidNamespace),
            ),
            (
                "dev-machine",
                namespace_before_boot,
                Gone,
                Verdict::Stale(Reason::PidGone),
            ),
            (
                "dev-machine",
                namespace_of_unknown_boot,
                Gone,
                Verdict::Held(Reason::OtherPidNamespace),
            ),
            ("dev-machine", boot, Alive, Verdict::Held(Reason::PidAlive)),
            (
                "dev-machine",
                unknown,
                Gone,
                Verdict::Stale(Reason::PidGone),
            ),
        ];
        for (host, mark, liveness, expected) in rows {
            let record = record(host, mark);
            assert_eq!(
                judge(&record, &facts(liveness), false),
                expected,
                "{record:?} {liveness:?}"
            );
        }
        let nameless = Facts {
            hostname: None,
            ..facts(Gone)
        };
        assert_eq!(
            judge(&record("dev-machine", None), &nameless, false),
            Verdict::Held(Reason::HostUnknown)
        );
    }

    /// A proof counts only when all its conditions hold.
    #[test]
    fn proofs_are_whole_or_nothing() {
        use Liveness::{Alive, Gone, NotAsked};
        let judged =
            |change_record: &dyn Fn(&mut BeadlockKey), proof: Proof, liveness: Liveness| {
                let mut mark = mark();
                change_record(&mut mark);
                let facts = Facts {
                    proof: Some(proof),
                    boottime: Duration::ZERO,
                    ..facts(liveness)
                };
                let record = record("dev-machine", Some(mark));
                let without = judge(&record, &facts, false);
                assert!(
                    liveness == Gone || matches!(without, Verdict::Held(_)),
                    "a proof counted unasked: {without:?}"
                );
                judge(&record, &facts, true)
            };
        let other_boot = |mark: &mut BeadlockKey| mark.boot_id = Some("another".to_owned());
        let local = || Proof {
            local_file_system: true,
            ..Proof::default()
        };
        let held = Verdict::Held(Reason::PidAlive);
        assert_eq!(
            judged(&other_boot, local(), Alive),
            Verdict::Stale(Reason::OtherBoot)
        );
        assert_eq!(
            judged(&other_boot, Proof::default(), Alive),
            held,
            "not a local file system"
        );
        let machineless = |mark: &mut BeadlockKey| {
            other_boot(mark);
            mark.machine_id = None;
        };
        assert_eq!(
            judged(&machineless, local(), Alive),
            held,
            "the machine is unknown"
        );
        assert_eq!(
            judged(&|mark| mark.boot_id = None, local(), Alive),
            held,
            "the boot is unknown"
        );

        let started = |ticks| Proof {
            start_ticks: Some(ticks),
            ..Proof::default()
        };
        assert_eq!(
            judged(&|_| {}, started(1002), Alive),
            Verdict::Stale(Reason::PidReused)
        );
        assert_eq!(judged(&|_| {}, started(1001), Alive), held, "within a tick");
        assert_eq!(
            judged(&|_| {}, started(998), Alive),
            Verdict::Stale(Reason::PidReused)
        );
        assert_eq!(
            judged(&|mark| mark.time_ns = None, started(1), Alive),
            held,
            "the clock may be another"
        );
        assert_eq!(
            judged(&|mark| mark.pid_ns = None, started(1), Alive),
            held,
            "the PID may be another"
        );
        assert_eq!(
            judged(&|mark| mark.boot_id = None, started(1), Alive),
            held,
            "the boot may be another"
        );
        assert_eq!(
            judged(&|mark| mark.start_ticks = None, started(1), Alive),
            held
        );

        let zombie = || Proof {
            zombie: true,
            ..Proof::default()
        };
        assert_eq!(
            judged(&|_| {}, zombie(), Alive),
            Verdict::Stale(Reason::Zombie)
        );

        let away = |mark: &mut BeadlockKey| mark.pid_ns = Some("pid:[2]".to_owned());
        let gone = || Proof {
            namespace_gone: true,
            ..Proof::default()
        };
        assert_eq!(
            judged(&away, gone(), NotAsked),
            Verdict::Stale(Reason::NamespaceGone)
        );
        assert_eq!(
            judged(&away, Proof::default(), NotAsked),
            Verdict::Held(Reason::OtherPidNamespace)
        );
        let machine = |mark: &mut BeadlockKey| {
            away(mark);
            mark.machine_id = Some("another".to_owned());
        };
        assert_eq!(
            judged(&machine, gone(), NotAsked),
            Verdict::Held(Reason::OtherMachine)
        );
    }
}
