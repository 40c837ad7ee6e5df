//! The read lease by which a lock that is taken over is watched (docs/design.md#lease).

use std::fs::File;
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::{drop_lease, lease_unbroken, take_lease};
use nix::errno::Errno;

use super::bench::{Bench, FILE};
use super::second::{Answer, LIMIT, Order, Second};
use super::trial::{Failure, Outcome, after};

/// For how long a lease is tried again: somebody who indexes or backs up may have the new file open.
const PATIENCE: Duration = Duration::from_millis(50);

/// A lease; given up when this is dropped, before the file is closed.
struct Lease<'f>(&'f File);

impl<'f> Lease<'f> {
    fn take(file: &'f File) -> Result<Self, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match take_lease(file) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::EAGAIN) if Instant::now() < deadline => sleep(Duration::from_millis(2)),
                Err(Errno::EAGAIN) => return Err(Failure::missing("refused although nobody writes")),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        drop_lease(self.0);
    }
}

/// Without a lease nothing more can be said of leases.
fn needed(file: &File) -> Result<Lease<'_>, Failure> {
    Lease::take(file).map_err(|_| Failure::untried("no lease is granted here"))
}

fn file(bench: &Bench<'_>) -> Result<File, Failure> {
    drop(bench.create(FILE)?);
    Ok(bench.open(FILE)?)
}

/// It is granted on a file that nobody has open for writing.
pub fn granted(bench: &Bench<'_>) -> Outcome {
    let file = file(bench)?;
    let _lease = Lease::take(&file)?;
    match lease_unbroken(&file) {
        true => Ok("a read lease was granted".to_owned()),
        false => Err(Failure::missing("it was granted, and there was none")),
    }
}

/// It is refused while another process has the file open for writing.
pub fn refused(bench: &Bench<'_>) -> Outcome {
    let file = file(bench)?;
    drop(needed(&file)?);
    let mut second = Second::start(bench)?;
    begin_to_write(&mut second)?;
    if second.answer(LIMIT)? != Some(Answer::Done) {
        return Err(Failure::untried("the second process could not open a file for writing"));
    }
    match take_lease(&file) {
        Err(Errno::EAGAIN) => Ok("refused while another process had the file open for writing".to_owned()),
        Err(errno) => Err(errno.into()),
        Ok(()) => {
            drop_lease(&file);
            Err(Failure::missing("granted while another process had the file open for writing"))
        }
    }
}

/// It is broken when another process opens the file for writing, and that process goes on when it is given up.
pub fn broken(bench: &Bench<'_>) -> Outcome {
    let file = file(bench)?;
    let lease = needed(&file)?;
    let mut second = Second::start(bench)?;
    begin_to_write(&mut second)?;
    let begun = Instant::now();
    let mut early = None;
    while lease_unbroken(&file) {
        early = early.or(second.answer(Duration::from_millis(1))?);
        if early == Some(Answer::Done) && lease_unbroken(&file) {
            return Err(Failure::missing(
                "another process opened the file for writing, and the lease stayed",
            ));
        }
        if begun.elapsed() > LIMIT {
            return Err(Failure::missing("another process opens the file for writing, and the lease stays"));
        }
    }
    let took = begun.elapsed();
    drop(lease);
    let ended = if early.is_some() { early } else { second.answer(LIMIT)? };
    match ended {
        Some(Answer::Refused(errno)) => Err(errno.into()),
        Some(_) => Ok(format!("broken {} when another process opened the file for writing", after(took))),
        None => Err(Failure::missing("broken, but the writer did not go on within 2 s")),
    }
}

fn begin_to_write(second: &mut Second) -> Result<(), Failure> {
    second.tell(Order::Write)?;
    match second.answer(LIMIT)? {
        Some(Answer::Begun) => Ok(()),
        _ => Err(Failure::untried("the second process did not begin")),
    }
}
