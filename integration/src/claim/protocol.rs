//! What a claim needs of the protocol of its lock. The engine knows none by name.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use beadlock_checker::internal::dialect::{Record, Rejected, beads};

use super::loss::Loss;
use crate::error::{Code, Error};

/// Makes the record of a claim.
pub trait MakeRecord: fmt::Debug {
    /// For the process `pid`, as of now.
    ///
    /// # Errors
    /// When what it says is not fit for a record.
    fn record(&self, pid: u32) -> Result<Record, Error>;
}

/// Watches over a lock that has no record.
pub trait WatchLock: fmt::Debug {
    /// Readable when something has happened to the lock.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// How long it may be left alone.
    fn left(&self) -> Duration;
    /// Looks, when it is time or when it was woken. A loss is told when it was seen twice.
    fn look(&mut self, woken: bool) -> Option<Loss>;
    /// The lock file.
    fn path(&self) -> &Path;
}

/// A record that is true for as long as its process lives.
#[derive(Debug, Clone, Copy)]
pub struct OfProcess<'a> {
    /// The holder's name.
    pub holder: &'a str,
    /// The claim's id, for the environment of a command that was forked before.
    pub id: &'a str,
}

impl MakeRecord for OfProcess<'_> {
    fn record(&self, pid: u32) -> Result<Record, Error> {
        let made = beads::Record::for_process(pid, self.holder, env!("CARGO_PKG_VERSION"));
        let mut record = made.map_err(|rejected| match rejected {
            Rejected::Invalid(why) | Rejected::Malformed(why) => {
                Error::new(Code::Io, format!("no record can be made: {why}"))
            }
        })?;
        if let Some(mark) = record.beadlock.as_mut() {
            self.id.clone_into(&mut mark.id);
        }
        Ok(record.into())
    }
}
