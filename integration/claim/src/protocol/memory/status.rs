//! The status of the lock of a directory as its document has it, key by key.

use crate::error::Problem;
use beadlock_base::escape::escaped_path;
use beadlock_core::look::{Look, look};
use beadlock_core::record::memory::{self, Limits, Record};
use beadlock_core::{Options, Verdict};
use serde::Serialize;

use crate::error::{Code, Error};
use crate::{environment::Environment, outer, target::Target};

/// The document's status object. Serialized, it has the document's keys in the document's order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Status {
    /// There is no lock.
    Free {
        /// False.
        locked: bool,
    },
    /// There is a lock.
    Locked {
        /// True.
        locked: bool,
        /// The record of the lock, as it was read.
        holder: Box<Record>,
        /// Whether there is evidence that the lock is stale: the next claim may remove it then.
        is_stale: bool,
        /// Why the lock is stale, in the document's words; `None`: it is not.
        stale_reason: Option<String>,
        /// Whether the lock belongs to this process, or to the claim that this process runs under.
        we_hold_it: bool,
    },
}

impl Status {
    /// The status that a look shows; the lock is stale beyond `limits`.
    pub fn of(look: &Look, limits: &Limits, we_hold_it: bool) -> Self {
        match (
            look.record.as_ref().and_then(|record| record.as_memory()),
            &look.facts,
        ) {
            (Some(record), Some(facts)) => {
                let stale_reason = memory::evidence(record, facts, limits).map(|(_, words)| words);
                let (holder, is_stale) = (Box::new(record.clone()), stale_reason.is_some());
                Self::Locked {
                    locked: true,
                    holder,
                    is_stale,
                    stale_reason,
                    we_hold_it,
                }
            }
            _ => Self::Free { locked: false },
        }
    }
}

/// The status object of `target`, in JSON.
pub fn document(
    target: &Target,
    options: &Options,
    environment: &Environment,
) -> Result<Vec<u8>, Error> {
    let look = look(&target.place, options);
    if let Verdict::Unreadable(_) = look.verdict {
        let path = escaped_path(&target.path());
        return Err(Error::new(
            Code::LockUnreadable,
            format!("{path} cannot be understood: {}", look.detail()),
        ));
    }
    let we_hold_it = outer::outer_claim(target, environment).is_some();
    let status = Status::of(&look, &options.limits, we_hold_it);
    let mut json = serde_json::to_vec_pretty(&status).unwrap_or_default();
    json.push(b'\n');
    Ok(json)
}
