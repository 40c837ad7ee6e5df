//! The audit trail of the agent (docs/design.md#the-audit-trail): what kept a cycle from running, and which stale locks
//! were removed.
//!
//! A worker of its own writes it, so that no cycle waits for a slow disk. Nothing is dropped: a cycle waits while the
//! queue is full.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use beadlock_core::audit::{Audit, AuditEntry, Author, Event};
use beadlock_core::database::Database;
use beadlock_core::facts;
use beadlock_core::{Place, Removed, Skip};

use crate::log::{self, agent_lines};

/// How many entries the queue holds.
const IN_FLIGHT: usize = 4096;
/// How long the disk may take over them at the end.
const LAST_LINES: Duration = Duration::from_secs(10);

/// Takes the events of cycles; without a worker they go nowhere.
#[derive(Debug, Default)]
pub(crate) struct AuditTrail {
    to: Option<SyncSender<(usize, AuditEntry)>>,
}

/// Tells when the last line is written.
#[must_use = "its last lines are waited for"]
pub(crate) struct AuditWorker(Receiver<()>);

impl AuditTrail {
    /// Starts the worker. The file has been opened once when this returns.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, AuditWorker)> {
        let author = Author::new("beadlock-agent", env!("CARGO_PKG_VERSION"));
        let audit = Audit::open(path, author).map_err(io::Error::other)?;
        let (to, entries) = mpsc::sync_channel::<(usize, AuditEntry)>(IN_FLIGHT);
        let (ending, ended) = mpsc::channel();
        let work = move || {
            for (database, entry) in entries {
                if let Err(failed) = audit.write(&entry)
                    && failed.is_news()
                {
                    log::line(database, agent_lines::not_audited(entry.event(), &failed));
                }
            }
            let _ = ending.send(());
        };
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(work)?;
        Ok((Self { to: Some(to) }, AuditWorker(ended)))
    }

    pub(crate) fn blocked(&self, number: usize, database: &Database, skip: &Skip) {
        self.put(number, database, Event::LockBlocked, |entry| {
            entry.skip(skip)
        });
    }

    pub(crate) fn removed(&self, number: usize, database: &Database, removed: &Removed) {
        self.put(number, database, Event::LockStaleRemoved, |entry| {
            entry.removed(removed)
        });
    }

    fn put(
        &self,
        number: usize,
        database: &Database,
        event: Event,
        fill: impl FnOnce(AuditEntry) -> AuditEntry,
    ) {
        let Some(to) = &self.to else { return };
        let (name, path) = (
            format!("beads:{}", database.given),
            Place::beads(database.dir.as_path()).path(),
        );
        // A cycle has one event at most, so a random request id names the cycle.
        let entry = AuditEntry::new(event, &facts::new_request_id(), &name, &path);
        // It fails when the worker is gone, and with it the trail.
        let _ = to.send((number, fill(entry)));
    }
}

impl AuditWorker {
    /// Waits for the lines still in flight, once there is no [`AuditTrail`] any more.
    pub(crate) fn close(self) {
        if self.0.recv_timeout(LAST_LINES).is_err() {
            log::complain("the end of the audit trail is not written: the disk is too slow");
        }
    }
}
