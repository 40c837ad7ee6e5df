//! The end of the process, by a signal or by `exit`: what is released, whom it is forwarded to, and in which order.

use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{io, os::fd::AsFd, os::unix::net::UnixStream, sync::atomic::Ordering, thread};

use beadlock_checker::internal::sys;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::{iterator::backend::SignalDelivery, iterator::exfiltrator::raw::WithRawSiginfo};

use super::children::Children;
use super::locks::{self, Ending, ReleaseOrder};
use crate::error::{Code, Error};
use crate::{claim::event::wait_for, claim::signals::Received, settings::wait::Deadline, words::of_no_process};

/// What ends the process with its locks released, unless it was ignored when the first lock was wanted.
const HEARD: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
/// For how long work that has no children any more may go on, to return.
const GRACE: Duration = Duration::from_millis(200);
/// For how long somebody may be in the middle of a claim or a release.
const SETTLE: Duration = Duration::from_secs(3);
/// How long killed children may take to be gone.
const DYING: Duration = Duration::from_secs(5);

/// From now on the end of this process releases its locks.
pub fn watch() -> Result<(), Error> {
    static IS_WATCHED: Mutex<bool> = Mutex::new(false);
    let mut is_watched = IS_WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if *is_watched {
        return if locks::are_ours() { Ok(()) } else { Err(of_a_fork()) };
    }
    let heard: SigSet = HEARD.into_iter().filter(|signal| !sys::is_ignored(*signal)).collect();
    locks::OWNER.store(std::process::id(), Ordering::Relaxed);
    start(heard).map_err(|error| {
        // Nobody hears them.
        let _ = sys::default_actions(&heard.iter().collect::<Vec<_>>());
        let why = of_no_process(&error);
        Error::io(format!("failed to prepare for the end of the process: {why}"), error.kind())
    })?;
    *is_watched = true;
    Ok(())
}

fn of_a_fork() -> Error {
    let message = "this process is a fork of one that has command locks, and cannot have its own: take the lock before \
        the fork, or execute a program";
    Error::new(Code::Io, message)
}

fn start(heard: SigSet) -> io::Result<()> {
    sys::at_exit(at_exit)?;
    let (sender, prepared) = mpsc::channel();
    let work = move || match Inbox::new(&heard) {
        Ok(inbox) => {
            let _ = sender.send(Ok(()));
            inbox.wait();
        }
        Err(error) => {
            let _ = sender.send(Err(error));
        }
    };
    // While the handlers are put in place a signal waits, here and in the thread, which inherits the mask.
    let before = heard.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let spawned = thread::Builder::new().name("command-lock".to_owned()).spawn(work);
    let failed = || Err(io::Error::other("the thread for signals has ended"));
    let started = spawned.and_then(|_| prepared.recv().unwrap_or_else(|_| failed()));
    before.thread_set_mask()?;
    started
}

/// The signals that have come.
struct Inbox(SignalDelivery<UnixStream, WithRawSiginfo>);

impl Inbox {
    fn new(heard: &SigSet) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let numbers = heard.iter().map(|signal| signal as i32);
        let inbox = Self(SignalDelivery::with_pipe(read, write, WithRawSiginfo, numbers)?);
        for signal in heard.iter() {
            sys::default_in_forks(signal, &locks::OWNER)?;
        }
        // Whatever the other threads block.
        heard.thread_unblock()?;
        Ok(inbox)
    }

    fn wait_at_most(&self, limit: Duration) {
        wait_for([Some(self.0.get_read().as_fd())], limit);
    }

    fn read(&mut self) -> Vec<Received> {
        let pending = self.0.pending();
        pending.filter_map(|info| Some(Received::of(Signal::try_from(info.si_signo).ok()?, info.si_code))).collect()
    }

    /// Until the first comes, which is the end.
    fn wait(mut self) {
        loop {
            self.wait_at_most(Duration::MAX);
            if let Some(first) = self.read().first() {
                self.end(*first);
            }
        }
    }

    fn end(&mut self, first: Received) -> ! {
        match locks::begin(Ending::Signal(first.signal)) {
            // Whoever exits releases them.
            Some(_) => locks::wait_for_none(SETTLE),
            None => {
                locks::settle(SETTLE);
                let terms = locks::standing();
                if let Some(kill_after) = terms.iter().map(|terms| terms.kill_after).max() {
                    let mut complaints = locks::release_all(Some(ReleaseOrder::ReleaseFirst));
                    let left = self.end_children(first, kill_after);
                    complaints.extend(locks::release_all(None));
                    // Last: nobody may be reading.
                    complain(&complaints);
                    if let Some(names) = left {
                        say(&format!("the lock is given up, and these still run: {names}"));
                    }
                }
            }
        }
        sys::die_of(first.signal);
        // As PID 1 nobody dies of a signal.
        sys::exit_at_once(128 + first.signal as i32)
    }

    /// Forwards signals to the children until they have ended and the work has returned. Answers who has not ended.
    fn end_children(&mut self, first: Received, kill_after: Duration) -> Option<String> {
        let mut children = Children::of(locks::take_tree(), first);
        let deadline = Deadline::after(kill_after);
        let last = Deadline::after(kill_after.saturating_add(DYING));
        let mut quiet_since = None;
        let mut pause = Duration::from_millis(1);
        loop {
            if children.look() {
                quiet_since = None;
                if last.is_over() {
                    return Some(children.names());
                }
                if deadline.is_over() {
                    children.kill();
                }
            } else {
                let since = *quiet_since.get_or_insert_with(Instant::now);
                if locks::all_returned() || since.elapsed() >= GRACE {
                    return None;
                }
            }
            self.wait_at_most(pause);
            self.read().into_iter().for_each(|received| children.forward(received));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

extern "C" fn at_exit() {
    // A fork, which has none.
    if !locks::are_ours() {
        return;
    }
    let _ = std::panic::catch_unwind(|| {
        if let Some(Ending::Signal(_)) = locks::begin(Ending::Exit) {
            locks::stay();
        }
        locks::settle(SETTLE);
        complain(&locks::release_all(None));
    });
}

fn complain(errors: &[Error]) {
    errors.iter().for_each(|error| say(&format!("{error}; the lock is stale once this process is gone")));
}

fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "beadlock: warning: {line}");
}
