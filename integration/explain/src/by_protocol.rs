//! What a lock with a record amounts to: each protocol's own explanation. The one list of these.

use beadlock_core::record::Record;

use crate::explained::{Explained, Inspected};
use crate::{memory, process, tower};

/// The explanation by the protocol of the record; `None`: the record has nothing to explain.
pub fn explain(seen: &Inspected<'_>) -> Option<Explained> {
    match seen.record {
        Record::Beads(_) => process::explain(seen),
        Record::Tower(record) => Some(tower::explain(seen, record)),
        Record::Memory(record) => Some(memory::explain(seen, record)),
    }
}
