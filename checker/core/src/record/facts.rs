//! Facts that a judgement may use, as values. No rule gathers a fact by itself (docs/design.md#pure-rules).

use std::{sync::Arc, time::Duration};

use super::{beads::BeadlockKey, beads::Record, time::StartedAt};
pub use beadlock_base::process::Liveness;

/// Ids of this machine and boot, and of this process's namespaces. `None`: the id is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ids {
    /// Machine id, hashed so that a lock file does not reveal it.
    pub machine_id: Option<String>,
    /// Boot id of the kernel.
    pub boot_id: Option<String>,
    /// PID namespace, as `pid:[N]`.
    pub pid_ns: Option<String>,
    /// Time namespace, as `time:[N]`.
    pub time_ns: Option<String>,
}

/// Facts that [`judge`](super::Record::judge) may use.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Time of the wall clock.
    pub now: StartedAt,
    /// Time since boot (`CLOCK_BOOTTIME`), which cannot be set; zero if it is not known.
    pub boottime: Duration,
    /// Host name of this machine; `None` if it is not known.
    pub hostname: Option<Arc<str>>,
    /// Ids of this machine, this boot and this process's namespaces.
    pub ids: Arc<Ids>,
    /// Liveness of the recorded process.
    pub liveness: Liveness,
    /// PID of the watchdog that has still to end the descendants of the recorded process, which is gone itself.
    /// Gathered only for a lock that is judged by its process and its age.
    pub watchdog: Option<i32>,
    /// Further evidence; `None` if it was not asked for ([`Depth`]).
    pub proof: Option<Proof>,
    /// Time for which earlier looks have seen no refresh, by a clock that cannot be set; zero without earlier looks.
    pub unrefreshed: Duration,
    /// Time since boot in which a living holder may have refreshed nothing, because the machine was suspended. The
    /// largest possible time when this process itself has just stood still.
    pub standstill: Duration,
}

/// Evidence of a death that ESRCH cannot show (docs/design.md#proof-of-death). Unknown counts as false or `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proof {
    /// True if the lock file is on a file system that only this machine writes.
    pub local_file_system: bool,
    /// Start of the process that has the PID now, in clock ticks after boot, from a `/proc` of our PID namespace.
    pub start_ticks: Option<u64>,
    /// True if the process that has the PID now is a zombie without living threads.
    pub zombie: bool,
    /// True if no process lives in the recorded PID namespace.
    pub namespace_gone: bool,
}

/// Evidence that is gathered for a judgement. Each variant includes the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The protocol's own: host, machine, boot, namespace, `kill(pid, 0)`.
    Protocol,
    /// [`Proof`] without `namespace_gone`: some reads of `/proc` and one statfs.
    Witnesses,
    /// [`Proof`] with `namespace_gone`, for which every process of the machine is read.
    Proof,
}

impl Facts {
    /// True if the record's host name is this machine's, ignoring ASCII case.
    pub fn is_same_host(&self, record: &Record) -> bool {
        self.hostname
            .as_ref()
            .is_some_and(|name| name.eq_ignore_ascii_case(&record.hostname))
    }

    /// True if the record's id of this kind differs from this machine's. `None`: one of the two is unknown.
    pub(crate) fn differs<'a>(
        &'a self,
        record: &'a Record,
        of_ids: fn(&Ids) -> &Option<String>,
        of_mark: fn(&BeadlockKey) -> &Option<String>,
    ) -> Option<bool> {
        let theirs = of_mark(record.beadlock.as_ref()?).as_ref()?;
        Some(of_ids(&self.ids).as_ref()? != theirs)
    }

    /// True if the recorded process may be probed by `kill(pid, 0)`: its PID means the same process here.
    pub(crate) fn may_ask(&self, record: &Record) -> bool {
        self.is_same_host(record)
            && self.other_machine(record) != Some(true)
            && !self.other_namespace(record)
    }

    /// True if the record is of another machine. `None`: unknown.
    pub fn other_machine(&self, record: &Record) -> Option<bool> {
        self.differs(record, |ids| &ids.machine_id, |mark| &mark.machine_id)
    }

    /// True if the record is of another boot than this one. `None`: unknown.
    pub fn other_boot(&self, record: &Record) -> Option<bool> {
        self.differs(record, |ids| &ids.boot_id, |mark| &mark.boot_id)
    }

    /// True if the recorded PID belongs to another PID namespace, on this boot or on an unknown one.
    pub fn other_namespace(&self, record: &Record) -> bool {
        self.other_boot(record) != Some(true)
            && self.differs(record, |ids| &ids.pid_ns, |mark| &mark.pid_ns) == Some(true)
    }
}
