//! The machine: what tells its processes, its boots and itself from others.

use std::fs;

use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts::{Ids, hostname};
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};

use super::trial::{Failure, Outcome};

/// `/proc` is the kernel's own, and shows the processes of this PID namespace.
pub fn proc() -> Outcome {
    let me = std::process::id().to_string();
    match statfs("/proc") {
        Ok(stat) if stat.filesystem_type() == PROC_SUPER_MAGIC => {}
        Ok(_) => return Err(Failure::missing("/proc is not the kernel's")),
        Err(errno) => return Err(errno.into()),
    }
    match fs::read_link("/proc/self") {
        Ok(link) if link.as_os_str() == me.as_str() => Ok("/proc is of this PID namespace".to_owned()),
        Ok(_) => Err(Failure::missing("/proc is of another PID namespace")),
        Err(error) => Err(error.into()),
    }
}

/// What a lock file says of where its holder runs.
pub fn host_name() -> Outcome {
    let name = hostname().ok_or_else(|| Failure::missing("none, or it cannot be read"))?;
    Ok(escaped(&name).to_string())
}

/// The machine id, which nobody is told.
pub fn machine_id() -> Outcome {
    match Ids::current().machine_id {
        Some(_) => Ok("known".to_owned()),
        None => Err(Failure::missing("no /etc/machine-id, or an empty one")),
    }
}

/// The kernel's boot id.
pub fn boot_id() -> Outcome {
    match Ids::current().boot_id {
        Some(_) => Ok("known".to_owned()),
        None => Err(Failure::missing("none from the kernel itself; containers often have another")),
    }
}
