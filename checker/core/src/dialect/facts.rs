//! All that a judgement may know, as values: no rule gathers any of it (docs/design.md#pure-rules).

use std::{sync::Arc, time::Duration};

use super::{beads::Mark, beads::Record, time::StartedAt};
pub use beadlock_base::process::Liveness;

/// What tells this boot of this machine, and this process's namespaces, from others. Each may be unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ids {
    /// The machine id, hashed so that a lock file does not give it away.
    pub machine_id: Option<String>,
    /// The kernel's boot id.
    pub boot_id: Option<String>,
    /// `pid:[N]`.
    pub pid_ns: Option<String>,
    /// `time:[N]`.
    pub time_ns: Option<String>,
}

/// All that [`judge`](super::Record::judge) may know.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The wall clock.
    pub now: StartedAt,
    /// The time since boot, by the clock that nobody sets; zero where it is not known.
    pub boottime: Duration,
    /// This machine's host name.
    pub hostname: Option<Arc<str>>,
    /// This machine, boot and namespaces.
    pub ids: Arc<Ids>,
    /// What became of the recorded process.
    pub liveness: Liveness,
    /// The process is gone, and this one has still to end what it has started. Of a lock that its command keeps alone.
    pub watchdog: Option<i32>,
    /// What proves more; `None` unless asked for.
    pub proof: Option<Proof>,
    /// For how long the lock was seen to stay unrefreshed, by a clock that nobody sets; zero without earlier looks.
    pub unrefreshed: Duration,
    /// For how long, since boot, a living holder may have refreshed nothing because it stood still with this process: the
    /// machine was suspended. The longest time there is where this process itself has just stood still.
    pub standstill: Duration,
}

/// What may prove a death that ESRCH cannot show (`--reap-proven-dead`). Whatever is unreadable is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proof {
    /// The lock file is on a file system that only this machine writes.
    pub local_file_system: bool,
    /// When the process that has the PID now started, from a `/proc` that is ours.
    pub start_ticks: Option<u64>,
    /// The process that has the PID now is a zombie without living threads.
    pub zombie: bool,
    /// No process lives in the recorded PID namespace.
    pub namespace_gone: bool,
}

/// Which evidence to gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What the protocol asks for: host, machine, boot, namespace, `kill(pid, 0)`.
    Protocol,
    /// Also what proves a death that ESRCH cannot show, but for `namespace_gone`: some reads of `/proc` and one statfs.
    Witnesses,
    /// Also `namespace_gone`, which asks every process.
    Proof,
}

impl Facts {
    /// The record's host name is this machine's, ignoring ASCII case.
    pub fn is_same_host(&self, record: &Record) -> bool {
        self.hostname
            .as_ref()
            .is_some_and(|name| name.eq_ignore_ascii_case(&record.hostname))
    }

    /// Both know their id of this kind, and they differ.
    pub(crate) fn differs<'a>(
        &'a self,
        record: &'a Record,
        of_ids: fn(&Ids) -> &Option<String>,
        of_mark: fn(&Mark) -> &Option<String>,
    ) -> Option<bool> {
        let theirs = of_mark(record.beadlock.as_ref()?).as_ref()?;
        Some(of_ids(&self.ids).as_ref()? != theirs)
    }

    /// Whether `kill(pid, 0)` may be asked of the recorded process.
    pub(crate) fn may_ask(&self, record: &Record) -> bool {
        self.is_same_host(record)
            && self.other_machine(record) != Some(true)
            && !self.other_namespace(record)
    }

    /// Another machine of the same name; `None`: unknown.
    pub fn other_machine(&self, record: &Record) -> Option<bool> {
        self.differs(record, |ids| &ids.machine_id, |mark| &mark.machine_id)
    }

    /// Recorded before this machine's last boot; `None`: unknown.
    pub fn other_boot(&self, record: &Record) -> Option<bool> {
        self.differs(record, |ids| &ids.boot_id, |mark| &mark.boot_id)
    }

    /// A PID of another namespace than ours, on this boot or on one that is not known to be another.
    pub fn other_namespace(&self, record: &Record) -> bool {
        self.other_boot(record) != Some(true)
            && self.differs(record, |ids| &ids.pid_ns, |mark| &mark.pid_ns) == Some(true)
    }
}
