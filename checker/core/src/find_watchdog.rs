//! Watchdogs: the helper processes of `beadlock` that outlive it for the work of a command, as `/proc` shows them
//! (Linux). What their command lines say is untrusted.

use std::{fs, io};

use crate::record::ProcessRecord;
use serde::{Deserialize, de::IgnoredAny};

use crate::helper_request::{CommandRef, KIND};
use beadlock_base::{
    helper, namespace,
    process::{self, ProcessRef},
};

/// The part of a watchdog's request that says whose work it ends. Of the rest nothing is asked: a watchdog of another
/// version of beadlock may have other fields there, and it is one all the same.
#[derive(Deserialize)]
struct EndsWork {
    command: CommandRef,
    #[expect(dead_code, reason = "that it is there")]
    at_end: EndTreeOfAny,
}

#[derive(Deserialize)]
enum EndTreeOfAny {
    EndTree(IgnoredAny),
}

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

/// Whether the process is a watchdog that ends the work of `command`. Its name is read first: whoever reads a command
/// line waits for the process, which may hang on a file system.
fn ends(pid: i32, command: &ProcessRecord) -> io::Result<bool> {
    let name = fs::read(format!("/proc/{pid}/comm"))?;
    if name.trim_ascii_end() != helper::WATCHDOG.to_bytes() {
        return Ok(false);
    }
    let Some(request) = helper::argument_of(pid, helper::HELPER)? else {
        return Ok(false);
    };
    let Some(request) = helper::decoded::<EndsWork>(KIND, &request) else {
        return Ok(false);
    };
    let ProcessRef {
        pid: watched_pid,
        start_ticks,
    } = request.command.process;
    let recorded = command.beadlock.as_ref().and_then(|mark| mark.start_ticks);
    let is_another = start_ticks
        .zip(recorded)
        .is_some_and(|(watched, recorded)| watched != recorded);
    Ok(i64::from(watched_pid) == command.pid && !is_another && namespace::is_of_ours(pid))
}

/// True when the process is gone by now, or belongs to another user who hides it.
fn cannot_be_seen(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ESRCH | libc::EACCES | libc::EPERM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_another_version_is_one() {
        let command = r#""command":{"pid":7,"start_ticks":9,"leads":false}"#;
        for (rest, is_one) in [
            (
                r#""parent":1,"at_end":{"EndTree":{"token":"x","grace":{"secs":1,"nanos":0},"silence":null}}"#,
                true,
            ),
            (r#""at_end":{"EndTree":{"token":"x"}}"#, true),
            (
                r#""parent":"p","at_end":{"EndTree":{"grace":"1s"}},"kept":"none","more":[]"#,
                true,
            ),
            (r#""parent":1,"at_end":{"OpenGate":null}"#, false),
            (r#""parent":1"#, false),
        ] {
            let request = format!(r#"{{"Watchdog":{{{command},{rest}}}}}"#);
            let decoded = helper::decoded::<EndsWork>(KIND, request.as_bytes());
            assert_eq!(decoded.is_some(), is_one, "{request}");
        }
    }
}
