//! What each trial means for locks, whichever way it ended.

use super::trial::Kind;

/// What it means that `kind` is there, is not, or is not known.
pub fn means(kind: Kind, ok: Option<bool>) -> &'static str {
    let (there, missing, unknown) = of(kind);
    match ok {
        Some(true) => there,
        Some(false) => missing,
        None => unknown,
    }
}

/// Where nothing more can be said.
pub const UNKNOWN: &str = "it is not known whether this works here";

fn of(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::FileSystem => (
            "only this machine writes it, so the gate covers everyone",
            "others may write the same files unseen by this kernel, so the gate covers this machine only",
            "whether other machines write it is not known; the gate covers this machine",
        ),
        Kind::Writable => (
            "lock files can be made and removed",
            "no lock file can be made",
            "whether lock files can be made is not known",
        ),
        Kind::Space => {
            ("a lock file fits", "a lock file does not fit", "whether a lock file fits is not known")
        }
        Kind::GateOpens => (
            "the gate can be taken",
            "there is no gate for this user: no claim waits for a running cycle, and no stale lock is removed",
            UNKNOWN,
        ),
        Kind::Owner => (
            "nobody but you and root decides who may write here",
            "its owner may remove or replace any lock",
            UNKNOWN,
        ),
        Kind::Private => (
            "other users cannot remove a lock",
            "other users may remove any lock and hold up every cycle; type chmod 0700",
            UNKNOWN,
        ),
        Kind::ExclusiveCreate => {
            ("a file is made once", "two may believe that they have made one file", UNKNOWN)
        }
        Kind::UnnamedFile => (
            "a lock is written where nobody sees it, and a crash leaves nothing",
            "a lock is written under a name of its own, which a crash may leave until the next claim",
            "a lock may be written under a name of its own, which a crash may leave until the next claim",
        ),
        Kind::HardLink => {
            ("a whole lock appears at once, over nothing", "locks are renamed into place instead", UNKNOWN)
        }
        Kind::RenameNoreplace => (
            "a lock moves aside and back, over nothing",
            "locks are moved by link and unlink instead",
            UNKNOWN,
        ),
        Kind::RenameExchange => (
            "what a crash has left aside changes places with a dead lock at once",
            "what a crash has left aside waits until the lock in its place is gone",
            UNKNOWN,
        ),
        Kind::Fdatasync => (
            "after a power cut a lock is whole or not there",
            "no lock can be claimed: an empty one could be left by a power cut",
            UNKNOWN,
        ),
        Kind::Timestamps => (
            "a change within the 100 ms for which a lock is watched shows",
            "a change within the 100 ms for which a lock is watched may not show",
            UNKNOWN,
        ),
        Kind::FlockDescriptors => {
            ("the gate excludes within one program", "the gate excludes nobody within one program", UNKNOWN)
        }
        Kind::FlockProcesses => (
            "two cycles never run at once, nor a cycle beside a claim",
            "the gate excludes nobody: two cycles may run at once",
            UNKNOWN,
        ),
        Kind::FlockWakes => (
            "a claim goes on as soon as the running cycle has ended",
            "a claim may wait for the whole --drain although the cycle has ended",
            UNKNOWN,
        ),
        Kind::FlockDeath => (
            "a program that was killed leaves no gate shut",
            "a program that was killed may leave the gate shut",
            UNKNOWN,
        ),
        Kind::LeaseGranted => (
            "a lock that is taken over can be watched for writers",
            "locks are compared before and after a pause instead",
            UNKNOWN,
        ),
        Kind::LeaseRefused => (
            "a lock that somebody has open for writing is left alone",
            "a writer who was there first is not seen",
            UNKNOWN,
        ),
        Kind::LeaseBroken => ("a writer who comes is seen", "a writer who comes is not seen", UNKNOWN),
        Kind::Notify => ("who waits hears at once", "who waits looks again, up to every 2 s", UNKNOWN),
        Kind::Pidfd => (
            "who waits hears at once of a holder's end",
            "who waits looks again for a holder's end, up to every 2 s",
            UNKNOWN,
        ),
        Kind::Proc => (
            "processes can be told apart and named",
            "holders of the gate cannot be named, and nothing but its PID can prove a holder's death",
            UNKNOWN,
        ),
        Kind::HostName => (
            "the locks of this machine are known as such",
            "nobody can claim, and no lock is ever known to be this machine's",
            UNKNOWN,
        ),
        Kind::MachineId => (
            "a machine of the same name is told apart",
            "a machine of the same name is not told apart",
            UNKNOWN,
        ),
        Kind::BootId => (
            "locks from before a reboot are known as such",
            "locks from before a reboot are not known as such",
            UNKNOWN,
        ),
        Kind::IgnoredByGit => (
            "no commit takes a lock to another clone",
            "git add -A commits a lock, and no check may remove it in another clone",
            "whether git add -A commits a lock is not known",
        ),
        Kind::RecordsIgnored => (
            "no commit takes the record of a broken lock along",
            "git add -A commits the record that break keeps, and what a crash leaves beside a lock",
            "whether git add -A commits the record that break keeps is not known",
        ),
    }
}
