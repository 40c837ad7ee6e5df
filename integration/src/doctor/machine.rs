//! The machine: what tells its processes, its boots and itself from others.

use std::fs;

use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts::{Ids, hostname};
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};

use super::outcome::{TrialFailure, TrialOutcome, ensure};

/// `/proc` is the kernel's own, and shows the processes of this PID namespace.
pub fn proc() -> TrialOutcome {
    ensure(statfs("/proc")?.filesystem_type() == PROC_SUPER_MAGIC, "/proc is not the kernel's")?;
    let me = std::process::id().to_string();
    ensure(fs::read_link("/proc/self")?.as_os_str() == me.as_str(), "/proc is of another PID namespace")?;
    Ok("/proc is of this PID namespace".to_owned())
}

/// The host name, which a lock file names.
pub fn host_name() -> TrialOutcome {
    let name = hostname().ok_or_else(|| TrialFailure::missing("none, or it cannot be read"))?;
    Ok(escaped(&name).to_string())
}

/// The machine id, which is not shown.
pub fn machine_id() -> TrialOutcome {
    ensure(Ids::current().machine_id.is_some(), "no /etc/machine-id, or an empty one")?;
    Ok("known".to_owned())
}

/// The kernel's boot id.
pub fn boot_id() -> TrialOutcome {
    let is_known = Ids::current().boot_id.is_some();
    ensure(is_known, "none from the kernel itself; containers often have another")?;
    Ok("known".to_owned())
}
