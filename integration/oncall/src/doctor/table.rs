//! The table of trials: for each its key, how it is made, and what its outcome means for locks.
//!
//! The order is the one in which trials are made and shown. A new trial is one entry here.

use clap::ValueEnum;

use super::{bench::TrialSite, results::TrialOutcome};
use super::{directory, git_merge, lock_file, processes};

/// The meaning of an unknown outcome, where nothing more can be said.
pub const NOT_KNOWN: &str = "it is not known whether this works here";

pub struct Trial {
    pub key: TrialKey,
    /// The function that makes the trial.
    pub attempt: fn(&TrialSite<'_>) -> TrialOutcome,
    /// The consequence for locks where the tried feature is there.
    pub there: &'static str,
    /// The consequence for locks where the feature is missing.
    pub missing: &'static str,
    /// The consequence where it is unknown whether the feature is there.
    pub unknown: &'static str,
}

macro_rules! trials {
    ($($key:ident: $attempt:expr,
        there: $there:literal, missing: $missing:literal $(, unknown: $unknown:literal)?;)*) => {
        /// Names a trial; as a number its place in the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        #[value(rename_all = "snake_case")]
        pub enum TrialKey {
            $($key),*
        }

        /// All trials.
        pub static TRIALS: &[Trial] = &[$(Trial {
            key: TrialKey::$key,
            attempt: $attempt,
            there: $there,
            missing: $missing,
            unknown: [$($unknown,)? NOT_KNOWN][0],
        }),*];
    };
}

trials! {
    FileSystem: directory::file_system,
        there: "only this machine writes it, so the gate covers everyone",
        missing: "others may write the same files unseen by this kernel, so the gate covers this machine only",
        unknown: "whether other machines write it is not known; the gate covers this machine";
    Writable: directory::writable,
        there: "lock files can be made and removed",
        missing: "no lock file can be made",
        unknown: "whether lock files can be made is not known";
    Space: directory::space,
        there: "a lock file fits",
        missing: "a lock file does not fit",
        unknown: "whether a lock file fits is not known";
    GateOpens: directory::gate_opens,
        there: "the gate can be taken",
        missing: "there is no gate for this user: no claim waits for a running cycle, and no stale lock is removed";
    Owner: directory::owner,
        there: "nobody but you and root decides who may write here",
        missing: "its owner may remove or replace any lock";
    Private: directory::private,
        there: "other users cannot remove a lock",
        missing: "other users may remove any lock and hold up every cycle; type chmod 0700";
    ExclusiveCreate: |site| lock_file::exclusive(site.bench()?),
        there: "a file is made once",
        missing: "two may believe that they have made one file";
    UnnamedFile: |site| lock_file::unnamed(site.bench()?),
        there: "a lock is written where nobody sees it, and a crash leaves nothing",
        missing: "a lock is written under a name of its own, which a crash may leave until the next claim",
        unknown: "a lock may be written under a name of its own, which a crash may leave until the next claim";
    HardLink: |site| lock_file::hard_link(site.bench()?),
        there: "a whole lock appears at once, over nothing",
        missing: "locks are renamed into place instead";
    RenameNoreplace: |site| lock_file::rename_noreplace(site.bench()?),
        there: "a lock moves aside and back, over nothing",
        missing: "locks are moved by link and unlink instead";
    RenameExchange: |site| lock_file::rename_exchange(site.bench()?),
        there: "what a crash has left aside changes places with a dead lock at once, and a file that is pulled with the \
                old one",
        missing: "what a crash has left aside waits until the lock in its place is gone, and a pull replaces a file in \
                  two steps: a write between them is lost";
    Fdatasync: |site| lock_file::synced(site.bench()?),
        there: "after a power cut a lock is whole or not there",
        missing: "no lock can be claimed: an empty one could be left by a power cut";
    Timestamps: |site| lock_file::timestamps(site.bench()?),
        there: "a change within the 100 ms for which a lock is watched shows",
        missing: "a change within the 100 ms for which a lock is watched may not show";
    FlockDescriptors: |site| processes::flock_descriptors(site.bench()?),
        there: "the gate excludes within one program",
        missing: "the gate excludes nobody within one program";
    FlockProcesses: |site| processes::flock_processes(site.bench()?),
        there: "two cycles never run at once, nor a cycle beside a claim",
        missing: "the gate excludes nobody: two cycles may run at once";
    FlockWakes: |site| processes::flock_wakes(site.bench()?),
        there: "a claim goes on as soon as the running cycle has ended",
        missing: "a claim may wait for the whole --drain although the cycle has ended";
    FlockDeath: |site| processes::flock_death(site.bench()?),
        there: "a program that was killed leaves no gate shut",
        missing: "a program that was killed may leave the gate shut";
    LeaseGranted: |site| processes::lease_granted(site.bench()?),
        there: "a lock that is taken over can be watched for writers",
        missing: "locks are compared before and after a pause instead";
    LeaseRefused: |site| processes::lease_refused(site.bench()?),
        there: "a lock that somebody has open for writing is left alone",
        missing: "a writer who was there first is not seen";
    LeaseBroken: |site| processes::lease_broken(site.bench()?),
        there: "a writer who comes is seen",
        missing: "a writer who comes is not seen";
    Notify: |site| processes::notify(site.bench()?),
        there: "who waits hears at once",
        missing: "who waits looks again, up to every 2 s";
    Pidfd: |site| processes::pidfd(site.bench()?),
        there: "who waits hears at once of a holder's end",
        missing: "who waits looks again for a holder's end, up to every 2 s";
    Proc: |_| directory::proc(),
        there: "processes can be told apart and named",
        missing: "holders of the gate cannot be named, and nothing but its PID can prove a holder's death";
    HostName: |_| directory::host_name(),
        there: "the locks of this machine are known as such",
        missing: "nobody can claim, and no lock is ever known to be this machine's";
    MachineId: |_| directory::machine_id(),
        there: "a machine of the same name is told apart",
        missing: "a machine of the same name is not told apart";
    BootId: |_| directory::boot_id(),
        there: "locks from before a reboot are known as such",
        missing: "locks from before a reboot are not known as such";
    AskedByBd: directory::asked_by_bd,
        there: "bd's daemon, up to bd 0.50, asks before each cycle",
        missing: "bd asks for no lock: a claim keeps away beadlock-agent and daemons that ask, but not bd";
    IgnoredByGit: directory::ignored_by_git,
        there: "no commit takes a lock to another clone",
        missing: "git add -A commits a lock, and another clone then has it although nobody there holds it",
        unknown: "whether git add -A commits a lock is not known";
    RecordsIgnored: directory::records_ignored,
        there: "no commit takes the record of a broken lock along",
        missing: "git add -A commits the record that break keeps, and what a crash leaves beside a lock",
        unknown: "whether git add -A commits the record that break keeps is not known";
    MergeAttribute: git_merge::attribute,
        there: "git is not told to keep both versions of a record",
        missing: "git mixes lines that do not belong together, and a record may be there twice",
        unknown: "whether git keeps both versions of a record in a merge is not known";
    MergeDriver: git_merge::driver,
        there: "a merge by hand does what git is told to; the agent needs no driver",
        missing: "a merge by hand takes record files as text, or fails, or leaves one side out",
        unknown: "how git merges record files by hand is not known";
}
