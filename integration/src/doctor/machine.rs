//! The machine: what tells its processes, its boots and itself from others.

use std::fs;

use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts::{Ids, hostname};
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};

use super::outcome::{TrialFailure, TrialOutcome};

/// `/proc` is the kernel's own, and shows the processes of this PID namespace.
pub fn proc() -> TrialOutcome {
    if statfs("/proc")?.filesystem_type() != PROC_SUPER_MAGIC {
        return Err(TrialFailure::missing("/proc is not the kernel's"));
    }
    if fs::read_link("/proc/self")?.as_os_str() != std::process::id().to_string().as_str() {
        return Err(TrialFailure::missing("/proc is of another PID namespace"));
    }
    Ok("/proc is of this PID namespace".to_owned())
}

/// The host name, which a lock file names.
pub fn host_name() -> TrialOutcome {
    let name = hostname().ok_or_else(|| TrialFailure::missing("none, or it cannot be read"))?;
    Ok(escaped(&name).to_string())
}

/// The machine id, which is not shown.
pub fn machine_id() -> TrialOutcome {
    known(Ids::current().machine_id.as_ref(), "no /etc/machine-id, or an empty one")
}

/// The kernel's boot id.
pub fn boot_id() -> TrialOutcome {
    known(Ids::current().boot_id.as_ref(), "none from the kernel itself; containers often have another")
}

fn known(id: Option<&String>, missing: &str) -> TrialOutcome {
    id.map(|_| "known".to_owned()).ok_or_else(|| TrialFailure::missing(missing))
}
