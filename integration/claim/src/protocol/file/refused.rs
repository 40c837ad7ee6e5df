//! The words of a lock that was not obtained: the document's, for how long, who has it, and what to do.

use crate::error::Problem;
use std::fmt;

use beadlock_base::escape::escaped_path;
use beadlock_core::{
    gate_holders::{GateHolder, GateHolders},
    record::file,
};

use super::{ancestor::Ancestor, open::named_inode, queue, target::FileTarget};
use crate::error::{Code, Error, Exit, Holder};
use crate::wait::Wait;
use crate::words::{self, Part, to_type};
use beadlock_supervise::process_ref::HelperKind;

/// The processes that have the flock, as far as `/proc` shows. A fork shares what its parent has locked, and does not
/// wait for itself.
pub fn holders(target: &FileTarget) -> Vec<GateHolder> {
    let mut holders = as_they_are_known(GateHolders::now().holders(target.lock()));
    let is_other = |holder: &GateHolder| holder.pid.unsigned_abs() != std::process::id();
    if holders.iter().any(is_other) {
        holders.retain(is_other);
    }
    holders
}

/// The watchdog of a hold shares its flock, and is named only where it is alone; a keeper is what has left it there.
pub fn as_they_are_known(mut holders: Vec<GateHolder>) -> Vec<GateHolder> {
    let helper = |holder: &GateHolder| HelperKind::of(holder.pid);
    let is_watchdog = |holder: &GateHolder| helper(holder) == Some(HelperKind::Watchdog);
    if !holders.iter().all(is_watchdog) {
        holders.retain(|holder| !is_watchdog(holder));
    }
    let is_keeper = |holder: &GateHolder| helper(holder) == Some(HelperKind::LeaseKeeper);
    for keeper in holders.iter_mut().filter(|holder| is_keeper(holder)) {
        keeper.command = "beadlock acquire".to_owned();
    }
    holders
}

/// `PID 33 (sleep 60)`; other users' processes, and those of other namespaces, may not be seen.
pub fn names(holders: &[GateHolder]) -> String {
    match holders {
        [] => "a process that /proc does not show us".to_owned(),
        holders => words::names(holders),
    }
}

pub(crate) fn timed_out(target: &FileTarget, wait: Wait) -> Error {
    let (name, seen) = (target.shown(), holders(target));
    let (said, then) = match wait {
        Wait::No => (file::held(&name), "it was not waited for (--wait DUR does)"),
        Wait::UpTo(limit) => (
            file::timed_out(limit),
            "wait for it to complete, or raise the timeout (--wait DUR)",
        ),
    };
    let is_here = named_inode(target).is_some_and(queue::is_held_here);
    let ancestor = match is_here {
        true => None,
        false => Ancestor::among(&seen, target),
    };
    let by = match (&ancestor, seen.first()) {
        _ if is_here => {
            let me = std::process::id();
            format!("another thread or task of this process (PID {me}); {then}")
        }
        (Some(ancestor), _) => ancestor.to_string(),
        (None, Some(holder)) => format!(
            "{}; {then}; to see its process: {}",
            names(&seen),
            words::see(holder.pid.into())
        ),
        (None, None) => {
            let look = to_type("lsof +D {}", &[Part::Path(target.dir())]);
            format!(
                "{}; {then}; when nothing seems to be at work, look for stuck processes: {look}",
                names(&seen)
            )
        }
    };
    let message = format!("{said}: {name} is locked by {by}");
    let mut detail = format!(
        "lock_file={} timeout_ms={}",
        escaped_path(target.lock()),
        wait.limit().as_millis()
    );
    if let Some(holder) = seen.first() {
        detail.push_str(&format!(" holder_pid={}", holder.pid));
    }
    if let Some(ancestor) = &ancestor {
        detail.push_str(&format!(" holder_fd={}", ancestor.descriptor));
    }
    Error::new(Code::LockFailed, message)
        .ending(Exit::FileHeld)
        .detailed(detail)
        .held_by(Holder::of_flock(target.lock(), &seen))
        .retry_on_a_lock_of(None)
}

pub(crate) fn twice(target: &FileTarget) -> Error {
    let words = "is locked by this thread or task already: a second lock of it would wait for the first; use that one, or \
                 release it first";
    for_itself(target, std::process::id().cast_signed(), words)
}

pub(crate) fn only_shared(target: &FileTarget, outer: i32) -> Error {
    let words = format!(
        "is held by the hold that this runs in (PID {outer}), but shared with others: an exclusive lock would wait for \
         itself; leave out --shared there, or do this outside of it"
    );
    for_itself(target, outer, &words)
}

pub(crate) fn inside_update(target: &FileTarget, update: i32) -> Error {
    let words = format!(
        "is being updated by the beadlock update that this runs in (PID {update}): a lock of it would wait for itself; \
         what the filter prints becomes the file, so print it there, or do this after the update"
    );
    for_itself(target, update, &words)
}

/// A lock that would wait for itself: `pid` has it.
fn for_itself(target: &FileTarget, pid: i32, words: &str) -> Error {
    let detail = format!("lock_file={} holder_pid={pid}", escaped_path(target.lock()));
    Error::new(Code::LockFailed, format!("{} {words}", target.shown())).detailed(detail)
}

/// Shows the processes that hold the file's flock at that moment, which takes a look at every process.
pub struct Holders<'t>(pub &'t FileTarget);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&names(&holders(self.0)))
    }
}
