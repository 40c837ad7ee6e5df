//! The end of the process, by a signal or by `exit`: what is released, which processes hear of the signal, and in which
//! order.

use beadlock_claim::error::Problem;
use std::sync::{Mutex, PoisonError, atomic::Ordering};
use std::time::{Duration, Instant};
use std::{io, io::Write, os::fd::AsFd, os::unix::net::UnixStream, thread};

use beadlock_base::children::{adopt_orphans, children};
use beadlock_base::process::{self, Stat};
use beadlock_base::sys;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::getpgrp;
use signal_hook::{iterator::backend::SignalDelivery, iterator::exfiltrator::raw::WithRawSiginfo};

use super::locks::{self, LockEnding, ReleaseOrder};
use beadlock_base::poll::wait_for;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::words::of_no_process;
use beadlock_supervise::{
    process_tree::{self, ProcessTree},
    signals::Received,
    tree_ending::{self as tree_end, Asks, Members, TreeLook, end_all},
};

/// Signals that end the process with its locks released, unless they were ignored when the first lock was wanted.
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
        let of_a_fork = "this process is a fork of one that has command locks, and cannot have its own: take the lock \
            before the fork, or execute a program";
        return if locks::are_ours() {
            Ok(())
        } else {
            Err(Error::new(Code::Io, of_a_fork))
        };
    }
    let heard: SigSet = HEARD
        .into_iter()
        .filter(|signal| !sys::is_ignored(*signal))
        .collect();
    locks::OWNER.store(std::process::id(), Ordering::Relaxed);
    start(heard).map_err(|error| {
        // No thread hears them.
        let _ = sys::default_actions(&heard.iter().collect::<Vec<_>>());
        let why = of_no_process(&error);
        Error::io(
            format!("failed to prepare for the end of the process: {why}"),
            error.kind(),
        )
    })?;
    *is_watched = true;
    Ok(())
}

fn start(heard: SigSet) -> io::Result<()> {
    sys::at_exit(at_exit)?;
    // While the handlers are put in place a signal waits, here and in the thread, which inherits the mask.
    let before = heard.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = Inbox::of(&heard).and_then(|mut inbox| {
        let work = move || {
            // Whatever the other threads block.
            let _ = heard.thread_unblock();
            loop {
                if let Some(first) = inbox.within(Duration::MAX).first() {
                    inbox.end_process(*first);
                }
            }
        };
        thread::Builder::new()
            .name("command-lock".to_owned())
            .spawn(work)
    });
    before.thread_set_mask()?;
    started.map(drop)
}

/// The signals that have come.
struct Inbox(SignalDelivery<UnixStream, WithRawSiginfo>);

impl Inbox {
    fn of(heard: &SigSet) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let numbers = heard.iter().map(|signal| signal as i32);
        let inbox = Self(SignalDelivery::with_pipe(
            read,
            write,
            WithRawSiginfo,
            numbers,
        )?);
        for signal in heard.iter() {
            sys::default_in_forks(signal, &locks::OWNER)?;
        }
        Ok(inbox)
    }

    /// The signals that have come, or come within `limit`.
    fn within(&mut self, limit: Duration) -> Vec<Received> {
        wait_for([Some(self.0.get_read().as_fd())], limit);
        let pending = self.0.pending();
        pending
            .filter_map(|info| {
                Some(Received::of(
                    Signal::try_from(info.si_signo).ok()?,
                    info.si_code,
                ))
            })
            .collect()
    }

    fn end_process(&mut self, first: Received) -> ! {
        if locks::begin(LockEnding::Signal(first.signal)).is_some() {
            // The thread that exits releases them.
            locks::wait_for_none(SETTLE);
        } else {
            locks::settle(SETTLE);
            if let Some(kill_after) = locks::kill_after() {
                let mut complaints = locks::release_all(Some(ReleaseOrder::ReleaseFirst));
                let left = self.end_children(first, kill_after);
                complaints.extend(locks::release_all(None));
                // Last: nobody may be reading.
                complain(&complaints);
                if let Some(names) = left {
                    say(&format!(
                        "the lock is given up, and these still run: {names}"
                    ));
                }
            }
        }
        sys::die_of(first.signal);
        // As PID 1 nobody dies of a signal.
        sys::exit_at_once(128 + first.signal as i32)
    }

    /// Forwards signals to the children until they have ended and the work has returned. Returns the names of those
    /// that have not ended.
    fn end_children(&mut self, first: Received, kill_after: Duration) -> Option<String> {
        let mut children = Children::of(locks::take_tree(), first, self);
        let ending = tree_end::Ending::new(Asks::NewLineages, kill_after, Instant::now())
            .asking_by(first.signal)
            .giving_up_after(DYING);
        end_all(&mut children, ending);
        children.live.then(|| children.names())
    }
}

/// The children and all that they have started, but those that were there before the lock.
///
/// Limits: a process that left its parent before the signal, as a daemon does, is not seen. Without a `/proc` of our
/// own PID namespace nobody is: children are waited for, and do not hear of the signal. A process that was
/// started by one that was told, in the same clock tick, does not hear of it.
struct Children<'i> {
    tree: ProcessTree,
    /// The children that live, as far as is known: an orphan stays known.
    known: Vec<Stat>,
    /// Whether any child lives, seen or not.
    live: bool,
    /// The signal that ends the process: each child gets it once.
    first: Received,
    has_looked: bool,
    /// The moment since which no child lives.
    quiet_since: Option<Instant>,
    inbox: &'i mut Inbox,
}

impl<'i> Children<'i> {
    /// All below this process but what is not of `tree`; they are to hear of `first`, and of what comes in later.
    fn of(tree: ProcessTree, first: Received, inbox: &'i mut Inbox) -> Self {
        // Orphans fall to us from now on: a child may have started one between a look and its own end. Where nobody can
        // be seen, nobody would be told, and their ends would count as children for ever.
        if process::proc_is_ours() {
            let _ = adopt_orphans();
        }
        Self {
            tree,
            known: Vec::new(),
            live: false,
            first,
            has_looked: false,
            quiet_since: None,
            inbox,
        }
    }

    /// Those that lived at the last look, for a line.
    fn names(&self) -> String {
        match self.known.as_slice() {
            [] => {
                "children that cannot be seen without a /proc of our own, and have not heard of the signal".to_owned()
            }
            known => process_tree::names(known),
        }
    }
}

impl Members for Children<'_> {
    fn look(&mut self) -> TreeLook {
        // What the terminal sent to the whole group was sent before any that is born later.
        self.first.from_terminal &= !std::mem::replace(&mut self.has_looked, true);
        let has_none = children().is_some_and(|children| children.is_empty());
        let is_certain = self.known.is_empty() && has_none;
        let mut are_unseen = false;
        if !is_certain {
            let all = process::all();
            are_unseen = !process::proc_is_ours() && sys::ended_child(None) != Err(Errno::ECHILD);
            self.known = self.tree.living_with(all, &self.known);
        }
        self.live = are_unseen || !self.known.is_empty();
        if self.live {
            self.quiet_since = None;
            return match self.known.as_slice() {
                [] => TreeLook::Hidden,
                known => TreeLook::Living(known.to_vec()),
            };
        }
        let since = *self.quiet_since.get_or_insert_with(Instant::now);
        match () {
            // The work may start another one until it has returned, or has had its time.
            () if !locks::all_returned() && since.elapsed() < GRACE => TreeLook::Hidden,
            () if is_certain => TreeLook::Nobody,
            () => TreeLook::NoneSeen,
        }
    }

    fn signal(&mut self, signal: Signal, to: &[Stat]) {
        match signal {
            Signal::SIGKILL => drop(process_tree::signal(to, signal)),
            // Those that stand still have had it with the signal.
            Signal::SIGCONT => {}
            _ => send(to, self.first),
        }
    }

    fn wait(&mut self, limit: Duration) {
        for received in self.inbox.within(limit) {
            send(&self.known, received);
        }
    }
}

/// Sends the signal to each process that does not have it from the terminal. A stopped process is continued, to handle
/// it.
fn send(
    stats: &[Stat],
    Received {
        signal,
        from_terminal,
    }: Received,
) {
    let ours = getpgrp().as_raw();
    let lacking: Vec<Stat> = stats
        .iter()
        .filter(|stat| !(from_terminal && stat.pgrp == ours))
        .cloned()
        .collect();
    process_tree::signal(&lacking, signal);
    let stopped: Vec<Stat> = stats
        .iter()
        .filter(|stat| stat.state == 'T')
        .cloned()
        .collect();
    process_tree::signal(&stopped, Signal::SIGCONT);
}

extern "C" fn at_exit() {
    // A fork has none.
    if !locks::are_ours() {
        return;
    }
    let _ = std::panic::catch_unwind(|| {
        if let Some(LockEnding::Signal(_)) = locks::begin(LockEnding::Exit) {
            locks::stay();
        }
        locks::settle(SETTLE);
        complain(&locks::release_all(None));
    });
}

fn complain(errors: &[Error]) {
    errors.iter().for_each(|error| {
        say(&format!(
            "{error}; the lock is stale once this process is gone"
        ))
    });
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "beadlock: warning: {line}");
}
