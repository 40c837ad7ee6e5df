//! The read lease by which a lock that is taken over is watched (docs/design.md#lease).

use std::fs::File;
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::{drop_lease, lease_unbroken, take_lease};
use nix::errno::Errno;

use super::bench::{Bench, FILE};
use super::outcome::{TrialFailure, TrialOutcome, after, ensure};
use super::second::{LIMIT, SecondProcess, SecondReply, SecondRequest};

/// For how long a lease is tried again: an indexer or a backup may have the new file open.
const PATIENCE: Duration = Duration::from_millis(50);

/// A lease; given up when this is dropped, before the file is closed.
struct ReadLease<'f>(&'f File);

impl<'f> ReadLease<'f> {
    fn take(file: &'f File) -> Result<Self, TrialFailure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match take_lease(file) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::EAGAIN) if Instant::now() < deadline => sleep(Duration::from_millis(2)),
                Err(Errno::EAGAIN) => return Err(TrialFailure::missing("refused although nobody writes")),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Without a lease nothing more can be said of leases.
    fn needed(file: &'f File) -> Result<Self, TrialFailure> {
        Self::take(file).map_err(|_| TrialFailure::untried("no lease is granted here"))
    }
}

impl Drop for ReadLease<'_> {
    fn drop(&mut self) {
        drop_lease(self.0);
    }
}

fn file(bench: &Bench<'_>) -> Result<File, TrialFailure> {
    drop(bench.create(FILE)?);
    Ok(bench.open(FILE)?)
}

/// It is granted on a file that nobody has open for writing.
pub fn granted(bench: &Bench<'_>) -> TrialOutcome {
    let file = file(bench)?;
    let _lease = ReadLease::take(&file)?;
    ensure(lease_unbroken(&file), "it was granted, and there was none")?;
    Ok("a read lease was granted".to_owned())
}

/// It is refused while another process has the file open for writing.
pub fn refused(bench: &Bench<'_>) -> TrialOutcome {
    let file = file(bench)?;
    drop(ReadLease::needed(&file)?);
    let mut second = SecondProcess::start(bench)?;
    second.begin(SecondRequest::Write)?;
    if second.reply(LIMIT) != Ok(Some(SecondReply::Done)) {
        return Err(TrialFailure::untried("the second process could not open a file for writing"));
    }
    match take_lease(&file) {
        Err(Errno::EAGAIN) => Ok("refused while another process had the file open for writing".to_owned()),
        Err(errno) => Err(errno.into()),
        Ok(()) => {
            drop_lease(&file);
            Err(TrialFailure::missing("granted while another process had the file open for writing"))
        }
    }
}

/// It is broken when another process opens the file for writing, and that process goes on when it is given up.
pub fn broken(bench: &Bench<'_>) -> TrialOutcome {
    let file = file(bench)?;
    let lease = ReadLease::needed(&file)?;
    let mut second = SecondProcess::start(bench)?;
    second.begin(SecondRequest::Write)?;
    let begun = Instant::now();
    let mut early = None;
    while lease_unbroken(&file) {
        early = early.or(second.reply(Duration::from_millis(1))?);
        let is_unseen = early == Some(SecondReply::Done) && lease_unbroken(&file);
        ensure(!is_unseen, "another process opened the file for writing, and the lease stayed")?;
        let is_over = begun.elapsed() > LIMIT;
        ensure(!is_over, "another process opens the file for writing, and the lease stays")?;
    }
    let took = begun.elapsed();
    drop(lease);
    let goes_on = early.is_some() || second.reply(LIMIT)?.is_some();
    ensure(goes_on, "broken, but the writer did not go on within 2 s")?;
    Ok(format!("broken {} when another process opened the file for writing", after(took)))
}
