//! What is said and written down of a lock: when it is taken, when somebody is in the way, and at its end.

use beadlock_checker::internal::audit::{Event, Outcome};
use beadlock_checker::internal::{duration::shown, shared_file_system};
use serde_json::{Value, json};

use super::{lock::FileLock, target::FileTarget};
use crate::error::{Error, Exit};
use crate::{
    claim::attendant::Stopped, claim::leaving::Why, claim::loss::Loss, output::talk::Talk, output::trail::Trail,
};

/// Says once how far an flock reaches there.
pub fn note(target: &FileTarget, talk: &Talk) {
    if let Some(name) = shared_file_system(target.dir()) {
        let given = target.given();
        talk.note(&format!("{given} is on {name}: its lock may keep out this machine, or this mount, only"));
    }
}

pub fn acquired(lock: &FileLock, id: &str, trail: &Trail<'_>) {
    trail.write(Event::LockAcquired, |entry| entry.lock(&record(lock, id)));
}

pub fn blocked(stopped: &Stopped, trail: &Trail<'_>) {
    if let Stopped::Failed(error) = stopped
        && error.exit == Exit::FileHeld
    {
        trail.write(Event::LockBlocked, |entry| entry.reason("flock_held").error(error));
    }
}

/// What the audit trail has in place of a record.
pub fn record(lock: &FileLock, id: &str) -> Value {
    json!({ "id": id, "mode": lock.mode().as_str() })
}

/// Ends it; `known` is a loss that was seen before. The answer is a loss. Of a nested one nothing is ended.
pub fn end(lock: FileLock, known: Option<Loss>, why: Why, trail: &Trail<'_>) -> Option<Error> {
    if lock.is_nested() {
        return known.map(|loss| lock.lost(&loss));
    }
    let (age, given) = (lock.age(), lock.target().given());
    let written = record(&lock, &lock.id().to_string());
    let loss = known.or_else(|| lock.loss());
    let error = loss.as_ref().map(|loss| lock.lost(loss));
    drop(lock);
    let Some((loss, error)) = loss.zip(error) else {
        trail.talk().say(&format!("released {given} after {}", shown(age)));
        trail.write(Event::LockReleased, |entry| {
            entry.reason(why.reason).held_for(age).result(why.result).lock(&written)
        });
        return None;
    };
    trail.write(Event::LockLost, |entry| {
        let entry = entry.reason(loss.as_str()).detail(&error).held_for(age).lock(&written);
        entry.result(Outcome::Failure)
    });
    Some(error)
}
