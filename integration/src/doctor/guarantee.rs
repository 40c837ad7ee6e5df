//! From the trials to what is promised: pure, and in the order of `docs/protocol.md`.

use super::trial::{Kind, Trials};

/// Whether a promise holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Whole.
    Yes,
    /// In part, or in a weaker way.
    Limited,
    /// What it rests on could not be tried.
    Unknown,
    /// Not here.
    No,
}

impl Holds {
    /// `yes`, `limited`, `unknown`, `no`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Limited => "limited",
            Self::Unknown => "unknown",
            Self::No => "no",
        }
    }
}

/// A promise, and what becomes of it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantee {
    /// The name in JSON.
    pub name: &'static str,
    /// What is promised.
    pub promise: &'static str,
    /// Whether it holds.
    pub holds: Holds,
    /// How, how far, or why not.
    pub how: String,
}

type Answer = (Holds, String);
type Judge = fn(&Trials) -> Answer;

fn yes(how: impl Into<String>) -> Answer {
    (Holds::Yes, how.into())
}

fn limited(how: impl Into<String>) -> Answer {
    (Holds::Limited, how.into())
}

fn no(why: impl Into<String>) -> Answer {
    (Holds::No, why.into())
}

/// By a trial that is needed: not there, or not known.
fn without(trials: &Trials, kind: Kind, then: &str) -> Answer {
    let holds = if trials.ok(kind) == Some(false) { Holds::No } else { Holds::Unknown };
    (holds, format!("{}: {}{then}", kind.words(), trials.detail(kind)))
}

/// In full where only this machine writes the file system, else so far.
fn by_who_writes(trials: &Trials, full: &str, so_far: &str) -> Answer {
    match trials.ok(Kind::FileSystem) {
        Some(true) => yes(full),
        _ => limited(so_far),
    }
}

/// What is promised where the trials ended so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantees(pub Vec<Guarantee>);

const CLAIM: &str = "claim";
const DRAIN: &str = "drain";

impl Guarantees {
    /// Judges.
    pub fn of(trials: &Trials) -> Self {
        let all: [(&str, &str, Judge); 7] = [
            (CLAIM, "a lock can be claimed, and is whole from the moment it can be seen", claim),
            (DRAIN, "no cycle runs beside a claim, not even one that began before", drain),
            ("live_lock", "a lock that may belong to somebody alive is never removed", live_lock),
            ("stale_lock", "a lock whose process is gone needs no person to remove it", stale_lock),
            ("wake", "who waits goes on at once", wake),
            ("proof", "a death that a PID cannot show can be proved (--reap-proven-dead)", proof),
            ("privacy", "other users can neither remove nor replace a lock", privacy),
        ];
        let judged = all.into_iter().map(|(name, promise, judge)| {
            let (holds, how) = judge(trials);
            Guarantee { name, promise, holds, how }
        });
        Self(judged.collect())
    }

    /// Why no lock is worth anything here, in a sentence; `None`: they are. Without a gate a claim does not keep out
    /// the cycle that is running, which is the first thing that a lock is for.
    pub fn cannot_lock(&self) -> Option<String> {
        let fails = |name| self.0.iter().find(|one| one.name == name && one.holds == Holds::No);
        let claim = fails(CLAIM).map(|one| format!("nothing can be locked here: {}", one.how));
        claim.or_else(|| fails(DRAIN).map(|one| format!("no lock can be relied on here: {}", one.how)))
    }
}

fn claim(trials: &Trials) -> Answer {
    let cannot = |kind| no(format!("no lock file can be made: {}", trials.why(kind)));
    if !trials.has(Kind::Writable) {
        return cannot(Kind::Writable);
    }
    if trials.ok(Kind::HostName) == Some(false) {
        return no("this machine has no host name, and a lock must say where its holder runs");
    }
    if trials.ok(Kind::Fdatasync) == Some(false) {
        return cannot(Kind::Fdatasync);
    }
    if trials.has(Kind::UnnamedFile) {
        return yes("it is written where nobody sees it, synced, then linked");
    }
    if !trials.has(Kind::ExclusiveCreate) {
        return cannot(Kind::ExclusiveCreate);
    }
    if trials.has(Kind::HardLink) {
        return yes("it is written under another name, synced, then linked");
    }
    if trials.has(Kind::RenameNoreplace) {
        return yes("it is written under another name, synced, then renamed over nothing");
    }
    no("neither a link nor a rename puts a file in place without ever replacing one")
}

/// Why there is no gate.
fn no_gate(trials: &Trials) -> Option<String> {
    let why = |kind| format!("there is no gate, {}: {}", Kind::words(kind), trials.detail(kind));
    if !trials.has(Kind::GateOpens) {
        return Some(format!(
            "there is no gate, the directory cannot be opened: {}",
            trials.detail(Kind::GateOpens)
        ));
    }
    let flocks = [Kind::FlockProcesses, Kind::FlockDescriptors];
    flocks.into_iter().find(|kind| trials.ok(*kind) == Some(false)).map(why)
}

fn drain(trials: &Trials) -> Answer {
    if let Some(why) = no_gate(trials) {
        return no(why);
    }
    for kind in [Kind::FlockProcesses, Kind::FlockDescriptors] {
        if !trials.has(kind) {
            return without(trials, kind, "");
        }
    }
    if let Some(kind) = [Kind::FlockWakes, Kind::FlockDeath].into_iter().find(|kind| !trials.has(*kind)) {
        return limited(format!("{}: {}", kind.words(), trials.detail(kind)));
    }
    match trials.ok(Kind::FileSystem) {
        Some(true) => yes("a running cycle is waited for, by flock on the directory"),
        Some(false) => limited("a running cycle is waited for on this machine only"),
        None => {
            limited("a running cycle is waited for on this machine; whether another writes here is not known")
        }
    }
}

fn live_lock(trials: &Trials) -> Answer {
    if no_gate(trials).is_some() {
        return yes("without a gate nothing is removed");
    }
    if !trials.has(Kind::Writable) {
        return yes("nothing can be removed");
    }
    let is_local = trials.ok(Kind::FileSystem) == Some(true);
    if !is_local && !trials.has(Kind::MachineId) {
        return limited(
            "of two machines of one name without machine ids, one may take the other's lock for dead",
        );
    }
    let leases = [Kind::LeaseGranted, Kind::LeaseRefused, Kind::LeaseBroken];
    if trials.has(Kind::LeaseGranted)
        && let Some(kind) = leases.into_iter().find(|kind| !trials.has(*kind))
    {
        return limited(format!("not every writer may be seen, {}: {}", kind.words(), trials.detail(kind)));
    }
    if trials.ok(Kind::LeaseGranted).is_none() {
        return without(trials, Kind::LeaseGranted, "; by comparison at least");
    }
    if !trials.has(Kind::LeaseGranted) {
        let coarse = match trials.has(Kind::Timestamps) {
            true => "",
            false => "; times are coarse here, so one that writes as much as there was may not show",
        };
        return limited(format!("by comparison: two writers at once could lose a claim{coarse}"));
    }
    by_who_writes(trials, "watched by lease", "watched by lease, against this machine's writers only")
}

fn stale_lock(trials: &Trials) -> Answer {
    if let Some(why) = no_gate(trials) {
        return no(format!("{why}; a person removes it"));
    }
    if !trials.has(Kind::Writable) {
        return no(format!("nothing can be removed: {}", trials.detail(Kind::Writable)));
    }
    if !trials.has(Kind::RenameNoreplace) && !trials.has(Kind::HardLink) {
        return without(trials, Kind::RenameNoreplace, "; else a person removes it");
    }
    if !trials.has(Kind::HostName) {
        return no("this machine has no host name, so no lock is known to be its own; a person removes it");
    }
    let on_its_own = "the next check or claim on the machine that it names removes it, no other";
    by_who_writes(trials, "the next check or claim removes it", on_its_own)
}

fn wake(trials: &Trials) -> Answer {
    if !trials.has(Kind::Notify) {
        return limited("by polling, up to every 2 s");
    }
    if !trials.has(Kind::Pidfd) {
        return limited("after a release; after a holder's death by polling, up to every 2 s");
    }
    let here = "for what this machine does; for others by polling, up to every 2 s";
    by_who_writes(trials, "by inotify and pidfd", here)
}

fn proof(trials: &Trials) -> Answer {
    let can = |kinds: &[Kind]| kinds.iter().all(|kind| trials.has(*kind));
    let proofs = [
        (can(&[Kind::FileSystem, Kind::HostName, Kind::MachineId, Kind::BootId]), "a reboot"),
        (can(&[Kind::Proc, Kind::BootId]), "a PID that is another's now"),
        (can(&[Kind::Proc]), "a zombie"),
    ];
    let of = |there: bool| {
        proofs.iter().filter(|(can, _)| *can == there).map(|(_, what)| *what).collect::<Vec<_>>().join(", ")
    };
    match (of(true), of(false)) {
        (there, missing) if missing.is_empty() => yes(there),
        (there, missing) if there.is_empty() => no(format!("not {missing}")),
        (there, missing) => limited(format!("{there}; not {missing}")),
    }
}

fn privacy(trials: &Trials) -> Answer {
    let kinds = [Kind::Private, Kind::Owner];
    match kinds.into_iter().find(|kind| !trials.has(*kind)) {
        Some(kind) => no(trials.detail(kind)),
        None => yes(trials.detail(Kind::Private)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Failure, Trial};
    use super::*;

    const ALL: [Kind; 26] = [
        Kind::FileSystem,
        Kind::Writable,
        Kind::Space,
        Kind::GateOpens,
        Kind::Owner,
        Kind::Private,
        Kind::ExclusiveCreate,
        Kind::UnnamedFile,
        Kind::HardLink,
        Kind::RenameNoreplace,
        Kind::RenameExchange,
        Kind::Fdatasync,
        Kind::Timestamps,
        Kind::FlockDescriptors,
        Kind::FlockProcesses,
        Kind::FlockWakes,
        Kind::FlockDeath,
        Kind::LeaseGranted,
        Kind::LeaseRefused,
        Kind::LeaseBroken,
        Kind::Notify,
        Kind::Pidfd,
        Kind::Proc,
        Kind::HostName,
        Kind::MachineId,
        Kind::BootId,
    ];

    /// Everything is there but `missing` and `unknown`.
    fn judged(missing: &[Kind], unknown: &[Kind]) -> Guarantees {
        let trial = |kind: Kind| {
            let outcome = match kind {
                kind if missing.contains(&kind) => Err(Failure::missing("refused")),
                kind if unknown.contains(&kind) => Err(Failure::untried("no way")),
                _ => Ok("seen".to_owned()),
            };
            Trial::new(kind, outcome)
        };
        Guarantees::of(&Trials(ALL.into_iter().map(trial).collect()))
    }

    fn holds(guarantees: &Guarantees) -> Vec<Holds> {
        guarantees.0.iter().map(|guarantee| guarantee.holds).collect()
    }

    #[test]
    fn each_trial_decides_over_what_rests_on_it() {
        use Holds::{Limited as L, No as N, Yes as Y};
        //                              claim drain live stale wake proof privacy
        let table: [(&[Kind], [Holds; 7]); 17] = [
            (&[], [Y, Y, Y, Y, Y, Y, Y]),
            (&[Kind::FileSystem], [Y, L, L, L, L, L, Y]),
            (&[Kind::FileSystem, Kind::MachineId], [Y, L, L, L, L, L, Y]),
            (&[Kind::Writable], [N, Y, Y, N, Y, Y, Y]),
            (&[Kind::GateOpens], [Y, N, Y, N, Y, Y, Y]),
            (&[Kind::FlockProcesses], [Y, N, Y, N, Y, Y, Y]),
            (&[Kind::FlockDescriptors], [Y, N, Y, N, Y, Y, Y]),
            (&[Kind::FlockWakes], [Y, L, Y, Y, Y, Y, Y]),
            (&[Kind::UnnamedFile, Kind::HardLink], [Y, Y, Y, Y, Y, Y, Y]),
            (&[Kind::UnnamedFile, Kind::HardLink, Kind::RenameNoreplace], [N, Y, Y, N, Y, Y, Y]),
            (&[Kind::UnnamedFile, Kind::ExclusiveCreate], [N, Y, Y, Y, Y, Y, Y]),
            (&[Kind::Fdatasync], [N, Y, Y, Y, Y, Y, Y]),
            (&[Kind::LeaseGranted, Kind::LeaseRefused, Kind::LeaseBroken], [Y, Y, L, Y, Y, Y, Y]),
            (&[Kind::LeaseBroken], [Y, Y, L, Y, Y, Y, Y]),
            (&[Kind::HostName], [N, Y, Y, N, Y, L, Y]),
            (&[Kind::Notify, Kind::Proc], [Y, Y, Y, Y, L, L, Y]),
            (&[Kind::Owner, Kind::Pidfd, Kind::BootId, Kind::Proc], [Y, Y, Y, Y, L, N, N]),
        ];
        for (missing, expected) in table {
            let guarantees = judged(missing, &[]);
            assert_eq!(holds(&guarantees), expected, "without {missing:?}: {guarantees:#?}");
            let cannot = [expected[0], expected[1]].contains(&N);
            assert_eq!(guarantees.cannot_lock().is_some(), cannot, "without {missing:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_never_promised() {
        for kind in ALL {
            let guarantees = judged(&[], &[kind]);
            let silent = [
                Kind::Space,
                Kind::ExclusiveCreate,
                Kind::UnnamedFile,
                Kind::HardLink,
                Kind::RenameNoreplace,
                Kind::RenameExchange,
                Kind::Fdatasync,
                Kind::Timestamps,
            ];
            let all = holds(&guarantees).into_iter().all(|holds| holds == Holds::Yes);
            assert!(!all || silent.contains(&kind), "{kind:?}: {guarantees:#?}");
        }
    }

    #[test]
    fn the_words_say_how_and_why() {
        let how = |missing: &[Kind], at: usize| judged(missing, &[]).0[at].how.clone();
        assert_eq!(how(&[Kind::FileSystem], 1), "a running cycle is waited for on this machine only");
        assert_eq!(how(&[], 2), "watched by lease");
        let by_comparison = how(&[Kind::LeaseGranted, Kind::LeaseRefused, Kind::LeaseBroken], 2);
        assert_eq!(by_comparison, "by comparison: two writers at once could lose a claim");
        assert_eq!(how(&[Kind::Notify], 4), "by polling, up to every 2 s");
        let cannot = |missing| judged(&[missing], &[]).cannot_lock();
        let words = "no lock can be relied on here: there is no gate, flock processes: refused";
        assert_eq!(cannot(Kind::FlockProcesses).as_deref(), Some(words));
        let words = "nothing can be locked here: no lock file can be made: refused";
        assert_eq!(cannot(Kind::Writable).as_deref(), Some(words));
        let unknown = &judged(&[], &[Kind::FlockProcesses]).0[1];
        assert_eq!(
            (unknown.holds, unknown.how.as_str()),
            (Holds::Unknown, "flock processes: could not be tried: no way")
        );
    }
}
