//! The keeper of a file's lock: the process that `acquire` leaves behind. It is the running binary again, and has the
//! open lock file from the one who has taken the lock, as its stderr; with its end the lock is gone.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use beadlock_checker::internal::beside::close_the_rest;
use beadlock_checker::internal::dialect::file::Mode;

use super::{Kept, Subject, get_away, keep};
use crate::claim::keeping::Guard;
use crate::claim::leaving::Why;
use crate::claim::signals::Signals;
use crate::error::{End, Exit};
use crate::output::envelope::Request;
use crate::output::talk::Talk;
use crate::protocol::file::ending::end;
use crate::protocol::file::{FileLock, FileTarget, Watch};
use crate::settings::wait::Deadline;

/// The keeper's own life, with the arguments after [`KEEPER`](crate::protocol::file::KEEPER).
pub fn main(args: &[OsString]) -> End {
    End::Code(live(args).unwrap_or(Exit::Failed).code())
}

/// `None`: it could not begin.
fn live(args: &[OsString]) -> Option<Exit> {
    let [file, named, mode, millis, subject, request, audit] = args else { return None };
    let deadline = Deadline::after(Duration::from_millis(millis.to_str()?.parse().ok()?));
    let mode = if mode == Mode::Shared.as_str() { Mode::Shared } else { Mode::Exclusive };
    let target = FileTarget::exact(file.into(), named.into())?;
    close_the_rest();
    let shared = io::stderr().as_fd().try_clone_to_owned().ok()?;
    let mut ready = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
    let mut signals = Signals::block().ok()?;
    get_away().ok()?;
    let lock = FileLock::adopt(target, mode, File::from(shared))?;
    // From here on nothing ends us that ends our caller: it is waiting for this.
    ready.write_all(b".").ok()?;
    drop(ready);
    let request = Request::called(request.to_str()?);
    let talk = Talk::silent();
    let audit = Some(PathBuf::from(audit)).filter(|path| !path.as_os_str().is_empty());
    let target = lock.target().to_target();
    let trail = target.trail(audit.as_deref(), (None, None), &request, &talk);
    let trail = trail.or_else(|_| target.trail(None, (None, None), &request, &talk)).ok()?;
    let subject = Subject::parse(subject.to_str()?);
    let (lost, why) = match keep(Guard::Other(Box::new(Watch::over(&lock))), deadline, subject, &mut signals)
    {
        Kept::Until(why) => (None, why),
        Kept::Lost(loss) => (Some(loss), Why::KEEPER_SIGNAL),
    };
    Some(if end(lock, lost, why, &trail).is_some() { Exit::Lost } else { Exit::Done })
}
