//! The promises that follow from the results of the trials: pure, and in the order of `docs/protocol.md`.

use serde::Serialize;

use super::{results::TrialResult, results::TrialResults, table::TrialKey as Key};
use beadlock_claim::protocol::rules::ProtocolKind;
use beadlock_claim::target::Target;

/// Whether a promise holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    Yes,
    /// The promise holds in part, or in a weaker way.
    Limited,
    /// A trial that the promise depends on has no result.
    Unknown,
    No,
}

/// A promise, and whether it holds in the examined directory. The JSON report has these fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guarantee {
    pub name: &'static str,
    pub holds: Holds,
    pub promise: &'static str,
    /// The words for how the promise is kept, how far, or why it is not.
    pub how: String,
}

type Judgement = (Holds, String);

fn yes(how: impl Into<String>) -> Judgement {
    (Holds::Yes, how.into())
}

fn limited(how: impl Into<String>) -> Judgement {
    (Holds::Limited, how.into())
}

fn no(why: impl Into<String>) -> Judgement {
    (Holds::No, why.into())
}

/// The judgement where a needed trial has not succeeded: `No` where it has failed, else `Unknown`.
fn without(needed: &TrialResult, then: &str) -> Judgement {
    let holds = if needed.ok == Some(false) {
        Holds::No
    } else {
        Holds::Unknown
    };
    (holds, format!("{}{then}", needed.says()))
}

/// The judgement `full` where only this machine writes the file system, else a limited one with the words `so_far`.
fn by_who_writes(results: &TrialResults, full: &str, so_far: &str) -> Judgement {
    if results.has(Key::FileSystem) {
        yes(full)
    } else {
        limited(so_far)
    }
}

const CLAIM: &str = "claim";
const DRAIN: &str = "drain";

/// The condition under which a lock stays valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// The life of the process that its record names.
    Process,
    /// The heartbeats of its holder.
    Heartbeats {
        /// Whether a lock without heartbeats is removed although nobody has typed `--force-lock`.
        goes_by_itself: bool,
    },
    /// The kernel: an flock, without any record.
    Kernel,
}

/// The properties of a kind of lock that decide its promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockKind {
    pub has_cycles: bool,
    pub keeps: Keeps,
}

impl LockKind {
    pub fn of(target: &Target) -> Self {
        let record_kind = target.place.record_kind();
        let keeps = match target.rules().kind {
            ProtocolKind::Kernel(_) => Keeps::Kernel,
            ProtocolKind::Record if record_kind.is_judged_by_time() => Keeps::Heartbeats {
                goes_by_itself: record_kind.stale_goes_by_itself(),
            },
            ProtocolKind::Record => Keeps::Process,
        };
        Self {
            has_cycles: target.rules().has_cycles,
            keeps,
        }
    }

    /// The promises of this kind, in the order of `docs/protocol.md`.
    fn promises(self) -> Vec<Promise> {
        let first: Promise = match self.keeps {
            Keeps::Kernel => (
                CLAIM,
                "a lock can be had, by one at a time, and ends with its last process",
                flock_claim,
            ),
            Keeps::Process | Keeps::Heartbeats { .. } => (
                CLAIM,
                "a lock can be claimed, and is whole from the moment it can be seen",
                claim,
            ),
        };
        let mut promises = vec![first];
        if self.has_cycles {
            let words = "no cycle runs beside a claim, not even one that began before";
            promises.push((DRAIN, words, drain));
        }
        let (live, stale) = ("live_lock", "stale_lock");
        match self.keeps {
            Keeps::Kernel => {}
            Keeps::Process => promises.extend([
                (
                    live,
                    "a lock that may belong to somebody alive is never removed",
                    live_lock as Judge,
                ),
                (
                    stale,
                    "a lock whose process is gone needs no person to remove it",
                    stale_lock,
                ),
            ]),
            Keeps::Heartbeats { goes_by_itself } => {
                let words = "a lock that is kept up is never removed";
                promises.push((live, words, live_lock));
                promises.push(match goes_by_itself {
                    true => (
                        stale,
                        "a lock that is not kept up any more needs no person to remove it",
                        stale_lock,
                    ),
                    false => (
                        stale,
                        "a lock that is not kept up any more goes with --force-lock alone",
                        forced_lock,
                    ),
                });
            }
        }
        promises.push(match self.keeps {
            Keeps::Kernel => ("wake", "who waits goes on at once", flock_wake),
            Keeps::Process | Keeps::Heartbeats { .. } => {
                ("wake", "who waits goes on at once", wake)
            }
        });
        if self.keeps == Keeps::Process {
            let words = "a death that a PID cannot show can be proved (--reap-proven-dead)";
            promises.push(("proof", words, proof));
        }
        let words = "other users can neither remove nor replace a lock";
        promises.push(("privacy", words, privacy));
        promises
    }
}

type Judge = fn(&TrialResults) -> Judgement;

/// A promise: its name, its sentence, and the function that judges it by the trials.
type Promise = (&'static str, &'static str, Judge);

/// The promises for a lock of this kind, each judged by the results of the trials.
pub fn guarantees(results: &TrialResults, kind: LockKind) -> Vec<Guarantee> {
    let judged = kind.promises().into_iter().map(|(name, promise, judge)| {
        let (holds, how) = judge(results);
        Guarantee {
            name,
            holds,
            promise,
            how,
        }
    });
    judged.collect()
}

/// Why locks are useless here, in a sentence; `None`: they can be used. Without a gate a claim does not keep out the
/// cycle that is running, which is the first thing that a lock is for.
pub fn cannot_lock(guarantees: &[Guarantee]) -> Option<String> {
    let fails = |name| {
        guarantees
            .iter()
            .find(|one| one.name == name && one.holds == Holds::No)
    };
    let claim = fails(CLAIM).map(|one| format!("nothing can be locked here: {}", one.how));
    claim.or_else(|| fails(DRAIN).map(|one| format!("no lock can be relied on here: {}", one.how)))
}

fn claim(results: &TrialResults) -> Judgement {
    let has = |key| results.has(key);
    let cannot = |key| no(format!("no lock file can be made: {}", results[key].why()));
    match () {
        () if !has(Key::Writable) => cannot(Key::Writable),
        () if results.misses(Key::HostName) => {
            no("this machine has no host name, and a lock must say where its holder runs")
        }
        () if results.misses(Key::Fdatasync) => cannot(Key::Fdatasync),
        () if has(Key::UnnamedFile) => {
            yes("it is written where nobody sees it, synced, then linked")
        }
        () if !has(Key::ExclusiveCreate) => cannot(Key::ExclusiveCreate),
        () if has(Key::HardLink) => yes("it is written under another name, synced, then linked"),
        () if has(Key::RenameNoreplace) => {
            yes("it is written under another name, synced, then renamed over nothing")
        }
        () => no("neither a link nor a rename puts a file in place without ever replacing one"),
    }
}

/// The trials that show whether two processes, or two descriptors of one, exclude each other by flock.
const EXCLUSION: [Key; 2] = [Key::FlockProcesses, Key::FlockDescriptors];

/// Why there is no gate; `None`: no trial has shown that it is missing.
fn no_gate(results: &TrialResults) -> Option<String> {
    if !results.has(Key::GateOpens) {
        let why = &results[Key::GateOpens].detail;
        return Some(format!(
            "there is no gate, the directory cannot be opened: {why}"
        ));
    }
    let missing = EXCLUSION.into_iter().find(|key| results.misses(*key))?;
    Some(format!("there is no gate, {}", results[missing].says()))
}

fn drain(results: &TrialResults) -> Judgement {
    if let Some(why) = no_gate(results) {
        return no(why);
    }
    if let Some(needed) = results.first_without(&EXCLUSION) {
        return without(needed, "");
    }
    if let Some(trial) = results.first_without(&[Key::FlockWakes, Key::FlockDeath]) {
        return limited(trial.says());
    }
    match results[Key::FileSystem].ok {
        Some(true) => yes("a running cycle is waited for, by flock on the directory"),
        Some(false) => limited("a running cycle is waited for on this machine only"),
        None => limited(
            "a running cycle is waited for on this machine; whether another writes here is not known",
        ),
    }
}

fn live_lock(results: &TrialResults) -> Judgement {
    let has = |key| results.has(key);
    if no_gate(results).is_some() {
        return yes("without a gate nothing is removed");
    }
    if !has(Key::Writable) {
        return yes("nothing can be removed");
    }
    if !has(Key::FileSystem) && !has(Key::MachineId) {
        return limited(
            "of two machines of one name without machine ids, one may take the other's lock for dead",
        );
    }
    match results[Key::LeaseGranted].ok {
        None => without(&results[Key::LeaseGranted], "; by comparison at least"),
        Some(false) if has(Key::Timestamps) => {
            limited("by comparison: two writers at once could lose a claim")
        }
        Some(false) => limited(
            "by comparison: two writers at once could lose a claim; times are coarse here, so one that writes as \
             much as there was may not show",
        ),
        Some(true) => match results.first_without(&[Key::LeaseRefused, Key::LeaseBroken]) {
            Some(trial) => limited(format!("not every writer may be seen, {}", trial.says())),
            None => by_who_writes(
                results,
                "watched by lease",
                "watched by lease, against this machine's writers only",
            ),
        },
    }
}

fn stale_lock(results: &TrialResults) -> Judgement {
    if let Some(why) = no_gate(results) {
        return no(format!("{why}; a person removes it"));
    }
    if !results.has(Key::Writable) {
        return no(format!(
            "nothing can be removed: {}",
            results[Key::Writable].detail
        ));
    }
    if !results.has(Key::RenameNoreplace) && !results.has(Key::HardLink) {
        return without(&results[Key::RenameNoreplace], "; else a person removes it");
    }
    if !results.has(Key::HostName) {
        return no(
            "this machine has no host name, so no lock is known to be its own; a person removes it",
        );
    }
    let on_its_own = "the next check or claim on the machine that it names removes it, no other";
    by_who_writes(results, "the next check or claim removes it", on_its_own)
}

fn forced_lock(results: &TrialResults) -> Judgement {
    match no_gate(results) {
        Some(why) => no(format!("{why}; a person removes it")),
        None if !results.has(Key::Writable) => no(format!(
            "nothing can be removed: {}",
            results[Key::Writable].detail
        )),
        None => yes("without it a stale lock is refused"),
    }
}

fn flock_claim(results: &TrialResults) -> Judgement {
    if !results.has(Key::Writable) {
        return no(format!(
            "no lock file can be made: {}",
            results[Key::Writable].why()
        ));
    }
    if let Some(needed) = results.first_without(&EXCLUSION) {
        return without(needed, "");
    }
    if let Some(trial) = results.first_without(&[Key::FlockDeath]) {
        return limited(trial.says());
    }
    by_who_writes(results, "by flock", "by flock, on this machine only")
}

fn flock_wake(results: &TrialResults) -> Judgement {
    match results.first_without(&[Key::FlockWakes]) {
        Some(trial) => limited(trial.says()),
        None => yes("by flock, which waits in the kernel"),
    }
}

fn wake(results: &TrialResults) -> Judgement {
    if !results.has(Key::Notify) {
        return limited("by polling, up to every 2 s");
    }
    if !results.has(Key::Pidfd) {
        return limited("after a release; after a holder's death by polling, up to every 2 s");
    }
    let here = "for what this machine does; for others by polling, up to every 2 s";
    by_who_writes(results, "by inotify and pidfd", here)
}

fn proof(results: &TrialResults) -> Judgement {
    let proofs: [(&[Key], &str); 3] = [
        (
            &[Key::FileSystem, Key::HostName, Key::MachineId, Key::BootId],
            "a reboot",
        ),
        (&[Key::Proc, Key::BootId], "a PID that is another's now"),
        (&[Key::Proc], "a zombie"),
    ];
    let (there, missing): (Vec<_>, Vec<_>) = proofs
        .into_iter()
        .partition(|(keys, _)| results.first_without(keys).is_none());
    let words = |proofs: Vec<(_, &str)>| {
        proofs
            .iter()
            .map(|(_, what)| *what)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (words(there), words(missing)) {
        (there, missing) if missing.is_empty() => yes(there),
        (there, missing) if there.is_empty() => no(format!("not {missing}")),
        (there, missing) => limited(format!("{there}; not {missing}")),
    }
}

fn privacy(results: &TrialResults) -> Judgement {
    match results.first_without(&[Key::Private, Key::Owner]) {
        Some(trial) => no(&trial.detail),
        None => yes(&results[Key::Private].detail),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::TrialFailure;
    use super::super::table::{TRIALS, Trial};
    use super::*;

    /// The promises where every trial succeeds but `missing` and `unknown`.
    fn judged_as(kind: LockKind, missing: &[Key], unknown: &[Key]) -> Vec<Guarantee> {
        let result = |trial: &Trial| {
            let outcome = match &trial.key {
                key if missing.contains(key) => Err(TrialFailure::missing("refused")),
                key if unknown.contains(key) => Err(TrialFailure::untried("no way")),
                _ => Ok("seen".to_owned()),
            };
            TrialResult::of(trial, outcome)
        };
        let results = TrialResults(TRIALS.iter().map(result).collect());
        guarantees(&results, kind)
    }

    const DATABASE: LockKind = LockKind {
        has_cycles: true,
        keeps: Keeps::Process,
    };

    fn judged(missing: &[Key], unknown: &[Key]) -> Vec<Guarantee> {
        judged_as(DATABASE, missing, unknown)
    }

    fn holds(guarantees: &[Guarantee]) -> Vec<Holds> {
        guarantees.iter().map(|guarantee| guarantee.holds).collect()
    }

    #[test]
    fn each_trial_decides_over_what_rests_on_it() {
        use Holds::{Limited as L, No as N, Yes as Y};
        //                              claim drain live stale wake proof privacy
        let table: [(&[Key], [Holds; 7]); 17] = [
            (&[], [Y, Y, Y, Y, Y, Y, Y]),
            (&[Key::FileSystem], [Y, L, L, L, L, L, Y]),
            (&[Key::FileSystem, Key::MachineId], [Y, L, L, L, L, L, Y]),
            (&[Key::Writable], [N, Y, Y, N, Y, Y, Y]),
            (&[Key::GateOpens], [Y, N, Y, N, Y, Y, Y]),
            (&[Key::FlockProcesses], [Y, N, Y, N, Y, Y, Y]),
            (&[Key::FlockDescriptors], [Y, N, Y, N, Y, Y, Y]),
            (&[Key::FlockWakes], [Y, L, Y, Y, Y, Y, Y]),
            (&[Key::UnnamedFile, Key::HardLink], [Y, Y, Y, Y, Y, Y, Y]),
            (
                &[Key::UnnamedFile, Key::HardLink, Key::RenameNoreplace],
                [N, Y, Y, N, Y, Y, Y],
            ),
            (
                &[Key::UnnamedFile, Key::ExclusiveCreate],
                [N, Y, Y, Y, Y, Y, Y],
            ),
            (&[Key::Fdatasync], [N, Y, Y, Y, Y, Y, Y]),
            (
                &[Key::LeaseGranted, Key::LeaseRefused, Key::LeaseBroken],
                [Y, Y, L, Y, Y, Y, Y],
            ),
            (&[Key::LeaseBroken], [Y, Y, L, Y, Y, Y, Y]),
            (&[Key::HostName], [N, Y, Y, N, Y, L, Y]),
            (&[Key::Notify, Key::Proc], [Y, Y, Y, Y, L, L, Y]),
            (
                &[Key::Owner, Key::Pidfd, Key::BootId, Key::Proc],
                [Y, Y, Y, Y, L, N, N],
            ),
        ];
        for (missing, expected) in table {
            let guarantees = judged(missing, &[]);
            assert_eq!(
                holds(&guarantees),
                expected,
                "without {missing:?}: {guarantees:#?}"
            );
            let cannot = [expected[0], expected[1]].contains(&N);
            assert_eq!(
                cannot_lock(&guarantees).is_some(),
                cannot,
                "without {missing:?}"
            );
        }
    }

    #[test]
    fn each_kind_of_lock_has_the_promises_of_its_protocol() {
        let names = |keeps, missing: &[Key]| {
            let kind = LockKind {
                has_cycles: false,
                keeps,
            };
            let guarantees = judged_as(kind, missing, &[]);
            let names: Vec<_> = guarantees.iter().map(|one| one.name).collect();
            (names, cannot_lock(&guarantees).is_some())
        };
        let process = vec![
            "claim",
            "live_lock",
            "stale_lock",
            "wake",
            "proof",
            "privacy",
        ];
        assert_eq!(names(Keeps::Process, &[]), (process.clone(), false));
        // Nothing drains there, and nothing is removed without a gate.
        assert_eq!(
            names(Keeps::Process, &[Key::FlockProcesses]),
            (process, false)
        );
        for goes_by_itself in [true, false] {
            let named = vec!["claim", "live_lock", "stale_lock", "wake", "privacy"];
            let keeps = Keeps::Heartbeats { goes_by_itself };
            assert_eq!(names(keeps, &[]), (named, false));
        }
        let kernel = vec!["claim", "wake", "privacy"];
        assert_eq!(names(Keeps::Kernel, &[]), (kernel.clone(), false));
        assert_eq!(names(Keeps::Kernel, &[Key::FlockProcesses]), (kernel, true));
    }

    #[test]
    fn what_is_not_known_is_never_promised() {
        for key in TRIALS.iter().map(|trial| trial.key) {
            let guarantees = judged(&[], &[key]);
            let silent = [
                Key::Space,
                Key::ExclusiveCreate,
                Key::UnnamedFile,
                Key::HardLink,
                Key::RenameNoreplace,
                Key::RenameExchange,
                Key::Fdatasync,
                Key::Timestamps,
                Key::AskedByBd,
                Key::IgnoredByGit,
                Key::RecordsIgnored,
                Key::MergeAttribute,
                Key::MergeDriver,
            ];
            let all = holds(&guarantees)
                .into_iter()
                .all(|holds| holds == Holds::Yes);
            assert!(!all || silent.contains(&key), "{key:?}: {guarantees:#?}");
        }
    }

    #[test]
    fn the_words_say_how_and_why() {
        let how = |missing: &[Key], at: usize| judged(missing, &[])[at].how.clone();
        assert_eq!(
            how(&[Key::FileSystem], 1),
            "a running cycle is waited for on this machine only"
        );
        assert_eq!(how(&[], 2), "watched by lease");
        let by_comparison = how(&[Key::LeaseGranted, Key::LeaseRefused, Key::LeaseBroken], 2);
        assert_eq!(
            by_comparison,
            "by comparison: two writers at once could lose a claim"
        );
        assert_eq!(how(&[Key::Notify], 4), "by polling, up to every 2 s");
        let cannot = |missing| cannot_lock(&judged(&[missing], &[]));
        let words = "no lock can be relied on here: there is no gate, flock processes: refused";
        assert_eq!(cannot(Key::FlockProcesses).as_deref(), Some(words));
        let words = "nothing can be locked here: no lock file can be made: refused";
        assert_eq!(cannot(Key::Writable).as_deref(), Some(words));
        let unknown = &judged(&[], &[Key::FlockProcesses])[1];
        assert_eq!(
            (unknown.holds, unknown.how.as_str()),
            (
                Holds::Unknown,
                "flock processes: could not be tried: no way"
            )
        );
    }
}
