//! The filter under `beadlock update`: the file's content on its standard input, its standard output is the new
//! content.
//!
//! Its process is made before the lock is waited for, and executes once the lock is there. Its output counts when it
//! has ended with 0 and every process has closed that output: one that has it open might still write. The filter does
//! not outlive this program: the kernel and a watchdog end it, and all that it has started, when beadlock is killed.
//! Nor does it outlive the lock: after a loss the file is not changed.

use beadlock_claim::error::Problem;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::{ffi::OsString, fs::File, os::fd::AsFd, thread, time::Duration};

use beadlock_base::{beside::Helpers, duration::shown, sys::Waiting};
use beadlock_core::facts::random_id;
use nix::sys::signal::Signal;

use beadlock_base::poll::wait_for;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::protocol::file::{FileLock, nested};
use beadlock_claim::words;
use beadlock_claim::{environment::Environment, wait::Deadline};
use beadlock_claim::{
    loss::{Loss, Watch, WatchStart},
    observe::Stopped,
};
use beadlock_console::talk::Talk;
use beadlock_files::json::{Check, Spilled};
use beadlock_session::on_loss::OnLoss;
use beadlock_session::supervise::{Came, Running};
use beadlock_supervise::command::{Child, Command, Inheritance, has_terminal};
use beadlock_supervise::signals::Signals;
use beadlock_supervise::tree::{self, CommandEnd, Tree};
use beadlock_supervise::watchdog::{self, EndTree, KnownCommand, Watchdog};

/// The longest pause between two looks.
const NET: Duration = Duration::from_secs(5);

/// A filter whose process waits to execute. Dropped, it ends without having run.
pub struct Filter {
    command: Command,
    running: Running,
    waiting: Waiting,
    child: Child,
    watchdog: Watchdog,
    input: PipeWriter,
    output: PipeReader,
    limit: Duration,
}

#[derive(Debug)]
pub enum Input {
    File(File),
    /// There is no file.
    Text(Vec<u8>),
}

/// How many bytes of its output arrived.
type Poured = Result<u64, Spilled>;

impl Filter {
    /// Makes its process, which finds `updates` in its environment ([`nested::UPDATES`]). Before any lock, and before
    /// any thread.
    pub fn fork(
        command: Command,
        environment: &Environment,
        updates: OsString,
        signals: &Signals,
        helpers: Helpers,
        kill_after: Duration,
        limit: Duration,
    ) -> Result<Self, Error> {
        let no_pipe = |error: io::Error| Error::failed("make a pipe to the filter", &error);
        let (tree, own_group, token) = (
            Tree::as_subreaper().map_err(Error::of_subreaper)?,
            !has_terminal(),
            random_id(),
        );
        let wards = watchdog::variable(&token, environment.get(watchdog::VARIABLE));
        let variables =
            environment.with(&[(watchdog::VARIABLE, wards), (nested::UPDATES, updates)]);
        let (stdin, input) = io::pipe().map_err(no_pipe)?;
        let (output, stdout) = io::pipe().map_err(no_pipe)?;
        let command = command.ending_with_us();
        let inherited = Inheritance {
            streams: Some([stdin.as_fd(), stdout.as_fd()]),
            gate: None,
        };
        let waiting = command.fork(&variables, own_group, signals.mask_before(), inherited)?;
        drop((stdin, stdout));
        let pid = waiting.pid();
        let child = Child(pid);
        let at_end = EndTree::EndTree {
            token,
            grace: kill_after,
            silence: None,
            deadlines: Vec::new(),
        };
        let (name, known) = (command.holder_name(), KnownCommand::of(pid, own_group));
        let watchdog = Watchdog::start(helpers, known, at_end, (&name, "an update"), &[]).map_err(
            |error| {
                let why = words::of_no_process(&error);
                Error::io(
                    format!("failed to start who ends the filter when this is killed: {why}"),
                    error.kind(),
                )
            },
        )?;
        let tree = tree.without(watchdog.pid());
        let running = Running {
            pid,
            own_group,
            kill_after,
            on_loss: OnLoss::default(),
            wait_group: false,
            tree,
        };
        Ok(Self {
            command,
            running,
            waiting,
            child,
            watchdog,
            input,
            output,
            limit,
        })
    }

    pub fn pid(&self) -> i32 {
        self.running.pid
    }

    /// Runs it from `input` to `stage` under the lock. Returns how many bytes there are when all of it is there and as
    /// `check` wants it. A loss of the lock is noticed within a second.
    pub fn run(
        self,
        input: Input,
        stage: &File,
        check: &Check<'_>,
        lock: &FileLock,
        signals: &mut Signals,
        talk: &Talk,
    ) -> Result<Poured, Stopped> {
        let Self {
            command,
            running,
            waiting,
            child,
            watchdog,
            input: to_filter,
            output,
            limit,
        } = self;
        let ran = thread::scope(|threads| {
            let (ended, bell) = io::pipe()?;
            let (tell, told) = channel();
            thread::Builder::new().spawn(move || feed(input, to_filter))?;
            thread::Builder::new().spawn_scoped(threads, move || {
                let _ = tell.send(collect(output, stage, check));
                drop(bell);
            })?;
            Course {
                running: &running,
                limit,
                ended,
                told,
            }
            .run(
                waiting,
                Watch::over(lock, WatchStart::FirstLook),
                signals,
                talk,
            )
        });
        // Nothing is to be ended any more, and the filter is reaped last.
        drop(watchdog);
        drop(child);
        let (end, poured) = ran.map_err(|error| command.not_executed(error))?;
        let name = command.shown();
        match end {
            End::Ran(CommandEnd::Exited(0)) => Ok(poured),
            // Whatever its end was then, it came of that.
            End::Ran(_) if matches!(poured, Err(Spilled::Write(_))) => Ok(poured),
            End::Ran(ending) => Err(failed(&name, ending).into()),
            End::TooLong => {
                Err(too_long(&format!("the filter {name} has not ended"), limit).into())
            }
            End::LeftOpen => {
                let still = format!(
                    "the filter {name} has ended, but what it has started has not closed its output"
                );
                Err(too_long(&still, limit).into())
            }
            End::Lost(loss) => Err(lock.lost(&loss).into()),
            End::Signalled(signal) => Err(Stopped::Signalled(signal)),
        }
    }
}

/// A filter that runs.
struct Course<'a> {
    running: &'a Running,
    limit: Duration,
    /// Readable when its output has ended.
    ended: PipeReader,
    told: Receiver<Poured>,
}

enum End {
    Ran(CommandEnd),
    TooLong,
    /// It has ended itself, and somebody else has its output open.
    LeftOpen,
    Lost(Loss),
    Signalled(Signal),
}

impl Course<'_> {
    #[expect(
        clippy::too_many_lines,
        reason = "one loop: a match over what may come next"
    )]
    fn run(
        &self,
        waiting: Waiting,
        mut watch: Watch<'_>,
        signals: &mut Signals,
        talk: &Talk,
    ) -> io::Result<(End, Poured)> {
        let Self {
            running,
            limit,
            ended,
            told,
        } = self;
        let mut starting = Some(waiting.go()?);
        let limit = Deadline::after(*limit);
        let (mut came, mut has_happened) = (Came::default(), false);
        let (mut poured, mut stop): (Option<Poured>, Option<End>) = (None, None);
        loop {
            let ending = tree::end_of(running.pid);
            let mut has_received = false;
            while let Some(received) = signals.receive() {
                if received.signal != Signal::SIGCHLD {
                    stop.get_or_insert(End::Signalled(received.signal));
                }
                running.receive(received, ending.is_some(), false, &mut came);
                has_received = true;
            }
            if has_received && ending.is_none() {
                continue;
            }
            if ending.is_some()
                && let Some(starting) = starting.take()
            {
                starting.result()?;
            }
            poured = poured.or_else(|| told.try_recv().ok());
            match ending {
                None => tree::reap_orphans(running.pid),
                Some(ending) if stop.is_none() => {
                    if let Some(poured) = poured.take() {
                        return Ok((End::Ran(ending), poured));
                    }
                }
                Some(_) if running.left(true).is_empty() => {
                    let nothing = || Err(Spilled::Read(io::ErrorKind::UnexpectedEof.into()));
                    return Ok((stop.unwrap_or(End::TooLong), poured.unwrap_or_else(nothing)));
                }
                Some(_) => {
                    came.deadline
                        .get_or_insert_with(|| Deadline::after(running.kill_after));
                }
            }
            // What cannot be written need not be made.
            let is_full = matches!(poured, Some(Err(Spilled::Write(_))));
            if stop.is_none() {
                stop = if is_full {
                    Some(End::Ran(CommandEnd::Exited(0)))
                } else if let Some(loss) = watch.look(has_happened) {
                    Some(End::Lost(loss))
                } else {
                    limit.is_over().then_some(if ending.is_some() {
                        End::LeftOpen
                    } else {
                        End::TooLong
                    })
                };
                if stop.is_some() {
                    running.end_tree(&[Signal::SIGTERM, Signal::SIGCONT]);
                    came.deadline = Some(Deadline::after(running.kill_after));
                }
            }
            if came.deadline.is_some_and(Deadline::is_over) {
                running.kill_all(&mut came, talk);
            }
            let next = came
                .deadline
                .map_or(NET, |deadline| deadline.left().min(NET));
            let next = if stop.is_none() {
                limit.left().min(watch.left()).min(next)
            } else {
                next
            };
            let ends = poured.is_none().then(|| ended.as_fd());
            let starts = starting.as_ref().map(AsFd::as_fd);
            let events = watch.fd().filter(|_| stop.is_none());
            let [_, has_started, _, woken] =
                wait_for([Some(signals.as_fd()), starts, ends, events], next);
            has_happened = woken;
            if has_started && let Some(starting) = starting.take() {
                starting.result()?;
            }
        }
    }
}

/// A filter that does not read to the end has had what it wanted; one that cannot be fed ends by itself.
fn feed(input: Input, mut to: PipeWriter) {
    let _ = match input {
        Input::File(mut file) => io::copy(&mut file, &mut to).map(drop),
        Input::Text(text) => to.write_all(&text),
    };
}

/// All that it writes: what is not as it should be is read to the end, for it is the filter that says how it ends.
fn collect(mut output: PipeReader, stage: &File, check: &Check<'_>) -> Poured {
    let poured = check.pour(output.by_ref(), stage);
    if matches!(poured, Err(Spilled::Invalid(_))) {
        let _ = io::copy(&mut output, &mut io::sink());
    }
    poured
}

fn failed(name: &str, ending: CommandEnd) -> Error {
    let (how, exit) = match ending {
        CommandEnd::Exited(code) => (format!("ended with code {code}"), Exit::Command(code)),
        CommandEnd::Killed(signal) => (
            format!("was killed by signal {signal}"),
            Exit::Signal(signal),
        ),
    };
    Error::new(
        Code::Io,
        format!("the filter {name} {how}; the file stays as it was"),
    )
    .ending(exit)
}

fn too_long(what: &str, limit: Duration) -> Error {
    let advice = "the file stays as it was; give it more with --filter-timeout DUR";
    let message = format!("{what} within {}, and was ended; {advice}", shown(limit));
    Error::new(Code::Io, message).ending(Exit::TimedOut)
}
