//! The keeper: the process that `acquire --detach` leaves behind. The lock names it, so that a keeper that was killed
//! leaves a stale lock; it ends the claim when its time is over or it gets TERM, and itself when the lock has gone.
//!
//! It is the running binary again, forked before the claim and executed once the claim stands: own session, its
//! streams on `/dev/null`, every other descriptor closed, working directory `/`, SIGHUP ignored. It keeps the
//! environment, by which CI systems find what a job has left behind.
//!
//! Two pipes are its stdin and stdout at first. By one byte it says that it keeps the claim and has left its caller; by
//! another it hears that whoever asked for the claim has been told of it. Without that byte (`acquire` was killed)
//! nobody knows the id, and the keeper ends the claim again.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::internal::beside::{close_the_rest, has_said_so};
use beadlock_checker::internal::facts::Liveness;
use beadlock_checker::internal::process::{self, Stat};
use beadlock_checker::internal::sys::{self, Spawn, Waiting, fork_waiting, ignore};
use beadlock_checker::internal::system_words;
use beadlock_checker::internal::take::{Adopted, Held};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, read, setsid};

use crate::claim::attendant::Attending;
use crate::claim::event::wait_for;
use crate::claim::keeping::{Guard, Keeping};
use crate::claim::leaving::{Leaving, Left, Why};
use crate::claim::loss::{Events, Loss};
use crate::claim::signals::Signals;
use crate::claim::target::Target;
use crate::claim::tree;
use crate::error::{Code, End, Error, Exit};
use crate::output::envelope::Request;
use crate::output::talk::Talk;
use crate::protocol::exact;
use crate::settings::environment::Environment;
use crate::settings::wait::Deadline;
use crate::words;

/// The hidden first argument.
pub const ARGUMENT: &str = "__keep";

/// How long a keeper may take to let its caller go.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits for the gate at the end. It is dead afterwards in any case, and the lock stale.
const LAST_PATIENCE: Duration = Duration::from_secs(130);

/// What is to be kept.
#[derive(Debug)]
pub struct Order<'a> {
    pub target: &'a Target,
    pub id: &'a str,
    pub holder: &'a str,
    pub request: &'a str,
    pub max_hold: Duration,
    /// The process that it is kept for, where it is not the keeper itself.
    pub subject: Option<i32>,
}

/// A keeper that waits for the claim to stand, and then to be told that it is known. Dropped before that it is ended.
#[derive(Debug)]
pub struct Keeper {
    pid: i32,
    /// Until it is let begin; and the pipe that is its stdout.
    waiting: Option<(Waiting, PipeReader)>,
    /// The pipe that is its stdin.
    known: PipeWriter,
}

impl Order<'_> {
    /// Forks it.
    ///
    /// # Errors
    /// When the system has no process or no pipe to give.
    pub fn fork(
        &self,
        audit: Option<&Path>,
        environment: &Environment,
        mask: SigSet,
    ) -> Result<Keeper, Error> {
        let millis = words::millis(self.max_hold).to_string();
        let audit = audit.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let target = self.target.absolute();
        let subject = self.subject.map(|pid| Subject::of(pid).to_string()).unwrap_or_default();
        let words = ["beadlock", ARGUMENT].map(OsStr::new).into_iter().chain([
            target.as_os_str(),
            OsStr::new(&self.target.given),
            OsStr::new(self.id),
            OsStr::new(self.holder),
            OsStr::new(self.request),
            OsStr::new(&millis),
            audit.as_ref().map_or(OsStr::new(""), |path| path.as_os_str()),
            OsStr::new(&subject),
        ]);
        // No word of ours has a NUL.
        let c_string = |word: &OsStr| CString::new(word.as_bytes()).unwrap_or_default();
        let argv: Vec<CString> = words.map(c_string).collect();
        let pair = |(name, value): (OsString, OsString)| c_string(&[name, value].join(OsStr::new("=")));
        let envp: Vec<CString> = environment.with(&[]).into_iter().map(pair).collect();
        let failed = |error: io::Error| {
            Error::io(format!("failed to make the keeper: {}", words::of_no_process(&error)), error.kind())
        };
        let (stdin, known) = io::pipe().map_err(failed)?;
        let (ready, stdout) = io::pipe().map_err(failed)?;
        let spawn = Spawn {
            program: c"/proc/self/exe",
            argv: &argv,
            envp: &envp,
            own_group: false,
            mask,
            parent_death: None,
            streams: Some([stdin.as_fd(), stdout.as_fd()]),
            inherited: None,
        };
        let waiting = fork_waiting(&spawn).map_err(failed)?;
        // Our copies of its ends go here, so that the end of either is to be seen.
        Ok(Keeper { pid: waiting.pid(), waiting: Some((waiting, ready)), known })
    }
}

impl Keeper {
    /// The process that the claim is for.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it begin, and waits until it keeps the claim, and nothing that ends its caller ends it too.
    ///
    /// # Errors
    /// When it did not come to that.
    pub fn start(&mut self) -> Result<(), Error> {
        let Some((waiting, ready)) = self.waiting.take() else { return Ok(()) };
        let started = waiting.go().and_then(sys::Starting::result).and_then(|()| has_said_so(ready));
        started.map_err(|error| {
            Error::new(Code::Io, format!("the keeper could not be started: {}", system_words(&error)))
        })
    }

    /// The claim has been told: from here on it is the keeper's alone. Returns once the keeper has let the pipe go, and
    /// with it the last that it had of its caller.
    ///
    /// # Errors
    /// When it has ended.
    pub fn leave(mut self) -> Result<(), Error> {
        let told = self.known.write_all(&[1]);
        let deadline = Deadline::after(PATIENCE);
        // A pipe without a reader is an error to whoever may write, which needs not be asked for.
        let mut writer = [PollFd::new(self.known.as_fd(), PollFlags::empty())];
        while told.is_ok() && poll(&mut writer, PollTimeout::from(100_u8)) != Ok(1) && !deadline.is_over() {}
        if told.is_err() || tree::ending(self.pid).is_some() {
            return Err(Error::new(Code::Io, "the keeper has ended, so nothing is claimed"));
        }
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Keeper {
    /// What has not begun ends by itself, its pipe being closed; what has begun and failed is ended.
    fn drop(&mut self) {
        drop(self.waiting.take());
        if tree::ending(self.pid).is_none() {
            let _ = nix::sys::signal::kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
        tree::reap(self.pid);
    }
}

/// The keeper's own life, with the arguments after [`ARGUMENT`].
pub fn main(args: &[OsString]) -> End {
    let failed = End::Code(Exit::Failed.code());
    let [target, given, id, holder, request, millis, audit, subject] = args else { return failed };
    let (Some(given), Some(id), Some(holder), Some(request), Some(subject)) =
        (given.to_str(), id.to_str(), holder.to_str(), request.to_str(), subject.to_str())
    else {
        return failed;
    };
    let Some(max_hold) = millis.to_str().and_then(|millis| millis.parse().ok()).map(Duration::from_millis)
    else {
        return failed;
    };
    let deadline = Deadline::after(max_hold);
    close_the_rest();
    let Ok(target) = exact(target, given) else { return failed };
    let audit = Some(PathBuf::from(audit)).filter(|path| !path.as_os_str().is_empty());
    let request = Request::called(request);
    let talk = Talk::silent();
    let Ok(ready) = io::stdout().as_fd().try_clone_to_owned() else { return failed };
    let Ok(mut signals) = Signals::block() else { return failed };
    let Some(held) = adopt(&target, id) else { return failed };
    if get_away().is_err() {
        return failed;
    }
    let of_claim = (Some(holder), Some(id));
    let trail = target.trail(audit.as_deref(), of_claim, &request, &talk);
    let trail = trail.or_else(|_| target.trail(None, of_claim, &request, &talk));
    let Ok(trail) = trail else { return failed };
    let lease = target.protocol.lease(&held);
    let Ok(keeping) = Keeping::begin(held, lease, Events::AtOnce) else { return failed };
    let guard = keeping.guard(&trail);
    // Our caller is waiting for this: by now nothing is missed, and what ends it does not end us. An error: it has
    // ended, which the other pipe says as well.
    let _ = File::from(ready).write_all(b".");
    let kept = keep(guard, deadline, Subject::parse(subject), &mut signals);
    let Some(held) = keeping.end() else { return failed };
    // Who released or broke it has written that down.
    if matches!(kept, Kept::Lost(Loss::Released)) || held.broken_as().is_some() {
        return End::Code(Exit::Done.code());
    }
    let (lost, why) = match kept {
        Kept::Until(why) => (None, why),
        Kept::Lost(loss) => (Some(loss), Why::KEEPER_SIGNAL),
    };
    let leaving =
        Leaving { target: &target, patience: LAST_PATIENCE, talk: &talk, trail: &trail, failure_step: None };
    match leaving.end(held, lost, why, &mut Attending::wait_of(&mut signals, &talk, None)) {
        Left::Lost(_) => End::Code(Exit::Lost.code()),
        Left::Released | Left::Stuck => End::Code(Exit::Done.code()),
    }
}

/// How often it is asked whether a process has ended that does not tell.
const NO_PIDFD: Duration = Duration::from_millis(500);

/// A process that a claim is kept for: its PID, and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    pid: i32,
    start_ticks: Option<u64>,
}

impl Subject {
    /// The process that has this PID now.
    pub fn of(pid: i32) -> Self {
        Self { pid, start_ticks: Stat::read(pid).map(|stat| stat.start_ticks) }
    }

    /// As its `Display` has it; `None`: there is none.
    pub fn parse(words: &str) -> Option<Self> {
        let (pid, start) = words.split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, start_ticks: start.parse().ok() })
    }

    /// It has ended, or its PID is another process by now.
    fn is_gone(&self) -> bool {
        process::probe(self.pid.into()) == Liveness::Gone
            || process::is_dead_zombie(self.pid) == Some(true)
            || self
                .start_ticks
                .is_some_and(|start| Stat::read(self.pid).is_some_and(|stat| stat.start_ticks != start))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.pid)?;
        self.start_ticks.map_or(Ok(()), |start| write!(f, "{start}"))
    }
}

/// Why there is nothing to keep any more.
pub enum Kept {
    /// The claim is to end, for this reason.
    Until(Why),
    /// It was lost.
    Lost(Loss),
}

/// Keeps it until there is a reason to end the claim, or it has ended.
pub fn keep(
    mut guard: Guard<'_>,
    deadline: Deadline,
    mut subject: Option<Subject>,
    signals: &mut Signals,
) -> Kept {
    let stdin = io::stdin();
    let mut is_known = false;
    let end = subject.as_ref().and_then(|subject| sys::pidfd_open(subject.pid).ok());
    let [mut told, mut woken, mut ended] = [false; 3];
    loop {
        // What cannot be refreshed just now is tried again: there is no work here that could be ended.
        if let Some(told) = guard.look(woken)
            && !matches!(told.loss, Loss::Overdue { .. })
        {
            return Kept::Lost(told.loss);
        }
        // Also by another look: the process may have ended before its end could be waited for.
        if ended || subject.take_if(|subject| subject.is_gone()).is_some() {
            return Kept::Until(Why::PROCESS_ENDED);
        }
        while let Some(received) = signals.next() {
            if matches!(received.signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT) {
                return Kept::Until(Why::KEEPER_SIGNAL);
            }
        }
        if told {
            match read(&stdin, &mut [0]) {
                Ok(1) if let_stdin_go().is_ok() => is_known = true,
                Err(Errno::EINTR) => {}
                _ => return Kept::Until(Why::NOT_HANDED_OVER),
            }
        }
        if deadline.is_over() {
            return Kept::Until(Why::MAX_HOLD);
        }
        let net = if subject.is_some() && end.is_none() { NO_PIDFD } else { Duration::MAX };
        let limit = guard.left().min(deadline.left()).min(net);
        let stdin: Option<BorrowedFd<'_>> = (!is_known).then(|| stdin.as_fd());
        let fds = [Some(signals.as_fd()), guard.fd(), stdin, end.as_ref().map(AsFd::as_fd)];
        [_, woken, told, ended] = wait_for(fds, limit);
    }
}

/// The lock that was just claimed may be aside for a moment: somebody is looking at it.
fn adopt(target: &Target, id: &str) -> Option<Held> {
    let deadline = Deadline::after(Duration::from_secs(2));
    loop {
        if let Ok(Adopted::Held(held)) = Held::adopt(&target.place, id) {
            return Some(held);
        }
        if deadline.is_over() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Leaves whoever has started this: its session, its streams but stdin, which is the pipe, its directory.
///
/// # Errors
/// What the system said.
pub fn get_away() -> io::Result<()> {
    ignore(Signal::SIGHUP)?;
    let null = null()?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    chdir("/")?;
    let _ = nix::sys::prctl::set_name(c"beadlock-keep"); // Started by way of /proc it is "exe".
    setsid()?;
    Ok(())
}

fn let_stdin_go() -> io::Result<()> {
    Ok(dup2_stdin(null()?)?)
}

fn null() -> io::Result<File> {
    match File::options().read(true).write(true).open("/dev/null") {
        Err(error) if error.kind() == ErrorKind::NotFound => File::open("/"),
        null => null,
    }
}
