//! From the trials to what is promised: pure, and in the order of `docs/protocol.md`.

use super::trial::{Kind, Trials};

/// Whether a promise holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// Whole.
    Yes,
    /// In part, or in a weaker way.
    Limited,
    /// Not here.
    No,
}

impl Holds {
    /// `yes`, `limited`, `no`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Limited => "limited",
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

fn yes(how: impl Into<String>) -> Answer {
    (Holds::Yes, how.into())
}

fn limited(how: impl Into<String>) -> Answer {
    (Holds::Limited, how.into())
}

fn no(why: impl Into<String>) -> Answer {
    (Holds::No, why.into())
}

/// What is promised where the trials ended so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantees(pub Vec<Guarantee>);

const CLAIM: &str = "claim";
const DRAIN: &str = "drain";

impl Guarantees {
    /// Judges.
    pub fn of(trials: &Trials) -> Self {
        let all: [(&str, &str, fn(&Trials) -> Answer); 7] = [
            (CLAIM, "a lock can be claimed, and is complete from the moment it can be seen", claim),
            (DRAIN, "no cycle runs beside a claim: one that is running is waited for", drain),
            ("live_lock", "a lock that may belong to somebody alive is never removed", live_lock),
            ("stale_lock", "a lock whose process is gone needs nobody to remove it", stale_lock),
            ("wake", "who waits goes on at once", wake),
            ("proof", "--reap-proven-dead proves a death that a PID cannot show", proof),
            ("privacy", "other users can neither remove nor replace a lock", privacy),
        ];
        let judged = all.into_iter().map(|(name, promise, judge)| {
            let (holds, how) = judge(trials);
            Guarantee { name, promise, holds, how }
        });
        Self(judged.collect())
    }

    /// Why nothing can be locked; `None`: it can. Without a gate a claim does not keep out a cycle that is running,
    /// which is the first thing that a lock is for.
    pub fn cannot_lock(&self) -> Option<&str> {
        let needed = self.0.iter().filter(|guarantee| [CLAIM, DRAIN].contains(&guarantee.name));
        needed
            .into_iter()
            .find(|guarantee| guarantee.holds == Holds::No)
            .map(|guarantee| guarantee.how.as_str())
    }
}

fn claim(trials: &Trials) -> Answer {
    let cannot = |kind| no(format!("no lock file can be made: {}", trials.detail(kind)));
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
    if !trials.has(Kind::GateOpens) {
        return Some(format!(
            "there is no gate: the directory cannot be opened: {}",
            trials.detail(Kind::GateOpens)
        ));
    }
    let broken = [Kind::FlockProcesses, Kind::FlockDescriptors]
        .into_iter()
        .find(|kind| trials.ok(*kind) == Some(false));
    broken.map(|kind| format!("there is no gate: flock on a directory: {}", trials.detail(kind)))
}

fn drain(trials: &Trials) -> Answer {
    if let Some(why) = no_gate(trials) {
        return no(why);
    }
    let flocks = [Kind::FlockProcesses, Kind::FlockDescriptors, Kind::FlockWakes, Kind::FlockDeath];
    if let Some(kind) = flocks.into_iter().find(|kind| !trials.has(*kind)) {
        return limited(format!("flock on a directory is not what it should be: {}", trials.detail(kind)));
    }
    match trials.ok(Kind::FileSystem) {
        Some(true) => yes("by flock on the directory"),
        Some(false) => limited("on this machine only"),
        None => limited("on this machine; whether another one writes here is not known"),
    }
}

fn live_lock(trials: &Trials) -> Answer {
    if no_gate(trials).is_some() {
        return yes("without a gate nothing is removed at all");
    }
    let is_local = trials.ok(Kind::FileSystem) == Some(true);
    if !is_local && !trials.has(Kind::MachineId) {
        return limited(
            "where two machines have one name and no machine id, one may take the other's lock for dead",
        );
    }
    let leases = [Kind::LeaseGranted, Kind::LeaseRefused, Kind::LeaseBroken];
    if trials.has(Kind::LeaseGranted)
        && let Some(kind) = leases.into_iter().find(|kind| trials.ok(*kind) == Some(false))
    {
        return limited(format!("a lease does not show every writer: {}", trials.detail(kind)));
    }
    if !leases.into_iter().all(|kind| trials.has(kind)) {
        let coarse = match trials.has(Kind::Timestamps) {
            true => "",
            false => "; times are coarse here, so one that writes as much as there was may not show",
        };
        return limited(format!("by comparison: two writers at once could lose a claim{coarse}"));
    }
    if is_local {
        yes("watched by lease")
    } else {
        limited("watched by lease against this machine's writers only")
    }
}

fn stale_lock(trials: &Trials) -> Answer {
    if let Some(why) = no_gate(trials) {
        return no(format!("{why}; a person removes it"));
    }
    if !trials.has(Kind::Writable) {
        return no(format!("nothing can be removed: {}", trials.detail(Kind::Writable)));
    }
    if ![Kind::RenameNoreplace, Kind::HardLink].into_iter().any(|kind| trials.has(kind)) {
        return no("it cannot be moved aside without ever replacing something; a person removes it");
    }
    if !trials.has(Kind::HostName) {
        return no("this machine has no host name, so no lock is known to be its own; a person removes it");
    }
    match trials.ok(Kind::FileSystem) {
        Some(true) => yes("the next check or claim removes it"),
        Some(false) => limited("the next check or claim on the machine that it names removes it, no other"),
        None => limited("the next check or claim on the machine that it names removes it"),
    }
}

fn wake(trials: &Trials) -> Answer {
    if !trials.has(Kind::Notify) {
        return limited("by polling, up to every 2 s");
    }
    if !trials.has(Kind::Pidfd) {
        return limited("at once after a release; after a holder's death by polling, up to every 2 s");
    }
    match trials.ok(Kind::FileSystem) {
        Some(true) => yes("by inotify and pidfd"),
        _ => limited("at once for what this machine does; for others by polling, up to every 2 s"),
    }
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
            assert!(!all || silent.contains(&kind) || kind == Kind::MachineId, "{kind:?}: {guarantees:#?}");
        }
    }

    #[test]
    fn the_words_say_how_and_why() {
        let how = |missing: &[Kind], at: usize| judged(missing, &[]).0[at].how.clone();
        assert_eq!(how(&[Kind::FileSystem], 1), "on this machine only");
        assert_eq!(how(&[], 2), "watched by lease");
        let by_comparison = how(&[Kind::LeaseGranted, Kind::LeaseRefused, Kind::LeaseBroken], 2);
        assert_eq!(by_comparison, "by comparison: two writers at once could lose a claim");
        assert_eq!(how(&[Kind::Notify], 4), "by polling, up to every 2 s");
        let cannot = judged(&[Kind::FlockProcesses], &[]);
        assert_eq!(cannot.cannot_lock(), Some("there is no gate: flock on a directory: refused"));
        let cannot = judged(&[Kind::Writable], &[]);
        assert_eq!(cannot.cannot_lock(), Some("no lock file can be made: refused"));
    }
}
