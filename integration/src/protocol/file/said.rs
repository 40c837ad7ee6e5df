//! What is said and written down of a lock that is taken.

use beadlock_checker::internal::{audit::Event, shared_file_system};

use super::{ending, lock::FileLock, target::FileTarget};
use crate::{claim::attendant::Stopped, error::Exit, output::talk::Talk, output::trail::Trail};

/// Says once how far an flock reaches there.
pub fn note(target: &FileTarget, talk: &Talk) {
    if let Some(name) = shared_file_system(target.dir()) {
        let given = target.given();
        talk.note(&format!("{given} is on {name}: its lock may keep out this machine, or this mount, only"));
    }
}

pub fn acquired(lock: &FileLock, id: &str, trail: &Trail<'_>) {
    trail.write(Event::LockAcquired, |entry| entry.lock(&ending::record(lock, id)));
}

pub fn blocked(stopped: &Stopped, trail: &Trail<'_>) {
    if let Stopped::Failed(error) = stopped
        && error.exit == Exit::FileHeld
    {
        trail.write(Event::LockBlocked, |entry| entry.reason("flock_held").error(error));
    }
}
