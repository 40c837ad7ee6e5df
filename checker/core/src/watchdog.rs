//! Watchdogs: the helper processes of `beadlock` that outlive it for the work of a command, as `/proc` shows them
//! (Linux). What their command lines say is untrusted.

use std::{fs, io};

use crate::dialect::ProcessRecord;
use crate::helper_request::{EndTree, KIND, WatchdogRequest};
use beadlock_base::{
    beside, namespace,
    process::{self, KnownProcess},
};

/// The watchdog that has still to end what this process, a command of `beadlock`'s, has started. `None` also where it
/// cannot be seen. It watches from before the command begins to work until nothing of that is left; so when the
/// process was gone before this look, no work of it goes on. Fails where `/proc` cannot be read for now.
pub(crate) fn that_ends(command: &ProcessRecord) -> io::Result<Option<i32>> {
    if !process::proc_is_ours() {
        return Ok(None);
    }
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        match ends(pid, command) {
            Ok(true) => return Ok(Some(pid)),
            Ok(false) => {}
            Err(error) if cannot_be_seen(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Its name comes first: whoever reads a command line waits for the process, which may hang on a file system.
fn ends(pid: i32, command: &ProcessRecord) -> io::Result<bool> {
    let name = fs::read(format!("/proc/{pid}/comm"))?;
    if name.trim_ascii_end() != beside::WATCHDOG.to_bytes() {
        return Ok(false);
    }
    let Some(request) = beside::argument_of(pid, beside::HELPER)? else {
        return Ok(false);
    };
    let Some(request) = beside::decoded::<WatchdogRequest<EndTree>>(KIND, &request) else {
        return Ok(false);
    };
    let KnownProcess {
        pid: watched_pid,
        start_ticks,
    } = request.command.process;
    let recorded = command.beadlock.as_ref().and_then(|mark| mark.start_ticks);
    let is_another = start_ticks
        .zip(recorded)
        .is_some_and(|(watched, recorded)| watched != recorded);
    Ok(i64::from(watched_pid) == command.pid && !is_another && namespace::is_of_ours(pid))
}

/// It is gone by now, or another user's who hides it.
fn cannot_be_seen(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ESRCH | libc::EACCES | libc::EPERM)
    )
}
