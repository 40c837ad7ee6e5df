//! The draft of a claim's record, before it is known which process it is for.

use crate::error::Problem;
use beadlock_core::facts::{hostname, now};
use beadlock_core::record::{Record, Rejected, beads, memory, tower};

use crate::error::{Code, Error};
use crate::labels::Labels;

/// The record of a claim to be: one variant for each kind of record.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordDraft {
    /// A record of a process, for a database and for a lock file at a path.
    Process {
        /// The holder's version, and the address of its work.
        labels: Labels,
    },
    /// The record of a named lock. Its actor and its request id are the holder and the id of the claim.
    Tower {
        /// The record but for the PID, the two times and `about`, which [`RecordDraft::record`] puts in.
        fields: Box<tower::Record>,
        /// The address of what the lock is held for; `None`: the record gets none.
        about: Option<String>,
    },
    /// The record of the one lock of a directory. Its session is the holder of the claim.
    Memory {
        /// The operation that the lock is held for, as the record names it.
        operation: String,
        /// The address of what the lock is held for; `None`: the record gets none.
        about: Option<String>,
    },
}

impl RecordDraft {
    /// The record of the process `pid`, as of now: it says when the lock was acquired, not when the wait began. Fails
    /// where what it says is not fit for a record.
    pub fn record(&self, pid: u32, holder: &str, id: &str) -> Result<Record, Error> {
        match self {
            Self::Process { labels } => of_process(labels, pid, holder, id).map(Record::from),
            Self::Tower { fields, about } => Ok(of_name(fields, about.as_deref(), pid).into()),
            Self::Memory { operation, about } => {
                let mark = memory::BeadlockKey {
                    about: about.clone(),
                    ..memory::BeadlockKey::of(pid, id.to_owned())
                };
                let at = mark.started_at.unwrap_or_else(now);
                let host = hostname().map(|name| name.to_string());
                Ok(memory::Record::of_claim((pid, mark), (holder, operation), at, host).into())
            }
        }
    }
}

fn of_process(labels: &Labels, pid: u32, holder: &str, id: &str) -> Result<beads::Record, Error> {
    let version = labels.version.as_deref().unwrap_or_default();
    let made = beads::Record::for_process(pid, holder, version);
    let mut process = made.map_err(|rejected| match rejected {
        Rejected::Invalid(why) | Rejected::Malformed(why) => {
            Error::new(Code::Io, format!("no record can be made: {why}"))
        }
    })?;
    if let Some(mark) = process.beadlock.as_mut() {
        id.clone_into(&mut mark.id);
        mark.about.clone_from(&labels.about);
        mark.acquired = labels.acquired;
    }
    Ok(process)
}

fn of_name(fields: &tower::Record, about: Option<&str>, pid: u32) -> tower::Record {
    let now = now();
    let record = tower::Record {
        pid: pid.into(),
        created_at: now,
        last_heartbeat_at: now,
        ..fields.clone()
    };
    match about {
        Some(about) => record.about(about),
        None => record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_process_the_holder_and_the_claim() {
        let about = Some("https://ci.example/7".to_owned());
        let labels = Labels {
            version: Some("1.2".to_owned()),
            about: about.clone(),
            acquired: true,
        };
        let operation = "compact".to_owned();
        for draft in [
            RecordDraft::Process { labels },
            RecordDraft::Memory { operation, about },
        ] {
            let record = draft.record(std::process::id(), "ann", "c0ffee").unwrap();
            assert_eq!(record.pid(), i64::from(std::process::id()));
            assert_eq!((record.holder(), record.id()), ("ann", Some("c0ffee")));
            assert_eq!(record.about(), Some("https://ci.example/7"), "{draft:?}");
        }
    }
}
