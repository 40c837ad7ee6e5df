//! The end of a claim on a file, and what is said of it and written down.

use beadlock_checker::internal::audit::{Event, Outcome};
use beadlock_checker::internal::duration::shown;
use serde_json::{Value, json};

use super::lock::FileLock;
use crate::{claim::leaving::Why, claim::loss::Loss, error::Error, output::trail::Trail};

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
