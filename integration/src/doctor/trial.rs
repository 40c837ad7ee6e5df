//! One trial: what was tried, whether it is there, and what that means.

use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::system_words;
use nix::errno::Errno;

use super::words;

/// What is tried, in the order in which it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What is known of the file system: does only this machine write it?
    FileSystem,
    /// A directory and a file can be made.
    Writable,
    /// There are blocks and inodes left.
    Space,
    /// The directory can be opened for reading, which the gate needs.
    GateOpens,
    /// The directory belongs to this user.
    Owner,
    /// No other user may write to it.
    Private,
    /// `O_CREAT|O_EXCL` creates once.
    ExclusiveCreate,
    /// `O_TMPFILE`, linked once it is whole.
    UnnamedFile,
    /// `link(2)`, never over anything.
    HardLink,
    /// `RENAME_NOREPLACE`.
    RenameNoreplace,
    /// `RENAME_EXCHANGE`.
    RenameExchange,
    /// What `fdatasync(2)` says.
    Fdatasync,
    /// How fine mtime and ctime are.
    Timestamps,
    /// flock on a directory excludes two descriptors of one process.
    FlockDescriptors,
    /// … and two processes.
    FlockProcesses,
    /// Who is blocked in flock goes on when it is let go.
    FlockWakes,
    /// A killed process keeps no flock.
    FlockDeath,
    /// A read lease is granted.
    LeaseGranted,
    /// … and refused while somebody has the file open for writing.
    LeaseRefused,
    /// … and broken when somebody opens it so.
    LeaseBroken,
    /// inotify tells of what another process does.
    Notify,
    /// A pidfd tells of a process's end.
    Pidfd,
    /// `/proc` is the kernel's own, and of this PID namespace.
    Proc,
    /// The machine has a name.
    HostName,
    /// The machine has an id.
    MachineId,
    /// This boot has an id, from the kernel itself.
    BootId,
    /// Git ignores the lock file, or has no work tree here.
    IgnoredByGit,
    /// … and the files beside it: `.exclusive-lock.*`.
    RecordsIgnored,
}

impl Kind {
    /// The name for people.
    pub fn words(self) -> String {
        self.as_str().replace('_', " ")
    }

    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileSystem => "file_system",
            Self::Writable => "writable",
            Self::Space => "space",
            Self::GateOpens => "gate_opens",
            Self::Owner => "owner",
            Self::Private => "private",
            Self::ExclusiveCreate => "exclusive_create",
            Self::UnnamedFile => "unnamed_file",
            Self::HardLink => "hard_link",
            Self::RenameNoreplace => "rename_noreplace",
            Self::RenameExchange => "rename_exchange",
            Self::Fdatasync => "fdatasync",
            Self::Timestamps => "timestamps",
            Self::FlockDescriptors => "flock_descriptors",
            Self::FlockProcesses => "flock_processes",
            Self::FlockWakes => "flock_wakes",
            Self::FlockDeath => "flock_death",
            Self::LeaseGranted => "lease_granted",
            Self::LeaseRefused => "lease_refused",
            Self::LeaseBroken => "lease_broken",
            Self::Notify => "notify",
            Self::Pidfd => "pidfd",
            Self::Proc => "proc",
            Self::HostName => "host_name",
            Self::MachineId => "machine_id",
            Self::BootId => "boot_id",
            Self::IgnoredByGit => "ignored_by_git",
            Self::RecordsIgnored => "records_ignored",
        }
    }
}

const UNTRIED: &str = "could not be tried: ";

/// Why a trial did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It is not there; what was seen.
    Missing(String),
    /// It could not be tried; why.
    Untried(String),
}

impl Failure {
    /// It is not there.
    pub fn missing(detail: impl Into<String>) -> Self {
        Self::Missing(detail.into())
    }

    /// It could not be tried.
    pub fn untried(why: impl std::fmt::Display) -> Self {
        Self::Untried(format!("{UNTRIED}{why}"))
    }
}

impl From<Errno> for Failure {
    /// The system refused. What may pass, such as a full disk, says nothing about the file system.
    fn from(errno: Errno) -> Self {
        let detail = system_words(&errno.into());
        match errno {
            // What was to be tidied away is still there; where EEXIST is the answer that was hoped for, it is asked
            // for.
            Errno::EEXIST
            | Errno::EMFILE
            | Errno::ENFILE
            | Errno::ENOMEM
            | Errno::ENOSPC
            | Errno::EDQUOT
            | Errno::EAGAIN
            | Errno::EINTR => Self::untried(detail),
            _ => Self::Missing(detail),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Errno::from_raw(errno).into(),
            None => Self::untried(error),
        }
    }
}

/// How long something took that is expected to take no time: `at once`, `after 40 ms`.
pub fn after(took: Duration) -> String {
    if took < Duration::from_millis(5) { "at once".to_owned() } else { format!("after {}", shown(took)) }
}

/// How a trial ended: what was seen, or why not.
pub type Outcome = Result<String, Failure>;

/// A trial that was made, or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Of what.
    pub kind: Kind,
    /// It is there; `None`: unknown.
    pub ok: Option<bool>,
    /// What was seen.
    pub detail: String,
    /// What to type where it is missing.
    pub to_type: Option<String>,
}

impl Trial {
    /// Of an outcome.
    pub fn new(kind: Kind, outcome: Outcome) -> Self {
        let (ok, detail) = match outcome {
            Ok(detail) => (Some(true), detail),
            Err(Failure::Missing(detail)) => (Some(false), detail),
            Err(Failure::Untried(detail)) => (None, detail),
        };
        Self { kind, ok, detail, to_type: None }
    }

    /// What it means for locks.
    pub fn means(&self) -> &'static str {
        words::means(self.kind, self.ok)
    }
}

/// All trials of one directory.
#[derive(Debug, Clone, Default)]
pub struct Trials(pub Vec<Trial>);

impl Trials {
    /// Whether it is there; `None`: unknown, or not tried.
    pub fn ok(&self, kind: Kind) -> Option<bool> {
        self.get(kind).and_then(|trial| trial.ok)
    }

    /// It was seen to be there.
    pub fn has(&self, kind: Kind) -> bool {
        self.ok(kind) == Some(true)
    }

    /// What was seen; empty where nothing was tried.
    pub fn detail(&self, kind: Kind) -> &str {
        self.get(kind).map_or("", |trial| trial.detail.as_str())
    }

    /// The same for who says already that it did not work.
    pub fn why(&self, kind: Kind) -> &str {
        let detail = self.detail(kind);
        detail.strip_prefix(UNTRIED).unwrap_or(detail)
    }

    fn get(&self, kind: Kind) -> Option<&Trial> {
        self.0.iter().find(|trial| trial.kind == kind)
    }

    /// Those that were not seen to be there.
    pub fn not_ok(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().filter(|trial| trial.ok != Some(true)).map(|trial| trial.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_unknown_and_not_missing() {
        let of = |errno: Errno| Trial::new(Kind::HardLink, Err(errno.into()));
        assert_eq!(
            (of(Errno::EPERM).ok, of(Errno::EPERM).detail.as_str()),
            (Some(false), "operation not permitted")
        );
        assert_eq!(of(Errno::EMFILE).ok, None);
        assert!(of(Errno::EMFILE).detail.starts_with("could not be tried: "), "{:?}", of(Errno::EMFILE));
        let ended = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it ended");
        assert_eq!(Trial::new(Kind::Pidfd, Err(ended.into())).ok, None);
    }
}
