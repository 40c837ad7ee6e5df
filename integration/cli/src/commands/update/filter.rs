//! The filter under `beadlock update`: the file's content on its standard input, its standard output is the new
//! content.
//!
//! Its process is made before the lock is waited for, and executes once the lock is there. Its output counts when it
//! has ended with 0 and every process has closed that output: one that has it open might still write. The filter does
//! not outlive this program: the kernel and a watchdog end it, and all that it has started, when beadlock is killed.
//! Nor does it outlive the lock: after a loss the file is not changed.

use beadlock_claim::error::Problem;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, channel};
use std::{ffi::OsString, fs::File, thread, time::Duration};

use beadlock_base::{duration::shown, helper::Helpers, sys::Waiting};
use beadlock_core::facts::random_id;
use nix::sys::signal::Signal;

use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::protocol::file::{FileLock, outer};
use beadlock_claim::words;
use beadlock_claim::{environment::Environment, wait::Deadline};
use beadlock_claim::{
    loss::{Loss, LossWatcher, WatchStart},
    observe::NotAcquired,
};
use beadlock_console::talk::Talk;
use beadlock_files::json::{Check, Spilled};
use beadlock_session::on_loss::OnLoss;
use beadlock_session::running_command::{Alarm, Alarms, Response, RunningCommand};
use beadlock_supervise::command::{Child, Command, Inheritance, has_terminal};
use beadlock_supervise::process_tree::{CommandEnd, ProcessTree};
use beadlock_supervise::signals::Signals;
use beadlock_supervise::watchdog::{self, CommandRef, EndTree, Watchdog};

/// The longest pause between two looks.
const NET: Duration = Duration::from_secs(5);

/// A filter whose process waits to execute. Dropped, it ends without having run.
pub struct Filter {
    command: Command,
    running: RunningCommand,
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
    /// Fixed bytes, used when the file does not exist.
    Text(Vec<u8>),
}

/// How many bytes of its output arrived.
type Poured = Result<u64, Spilled>;

impl Filter {
    /// Makes its process, which finds `updates` in its environment ([`outer::UPDATES`]). Before any lock, and before
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
            ProcessTree::as_subreaper().map_err(Error::of_subreaper)?,
            !has_terminal(),
            random_id(),
        );
        let wards = watchdog::variable(&token, environment.get(watchdog::VARIABLE));
        let variables = environment.with(&[(watchdog::VARIABLE, wards), (outer::UPDATES, updates)]);
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
        let (name, known) = (command.holder_name(), CommandRef::of(pid, own_group));
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
        let running = RunningCommand {
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
    ) -> Result<Poured, NotAcquired> {
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
            let mut course = Course {
                limit: Deadline::after(limit),
                kill_after: running.kill_after,
                watch: LossWatcher::over(lock, WatchStart::FirstLook),
                ended,
                told,
                poured: None,
            };
            let starting = waiting.go()?;
            let ended = running.run(Some(starting), &mut course, signals, talk)?;
            Ok((ended, course.poured))
        });
        // Nothing is to be ended any more, and the filter is reaped last.
        drop(watchdog);
        drop(child);
        let (ended, poured) = ran.map_err(|error| command.not_executed(error))?;
        let name = command.shown();
        match (ended.cause, poured) {
            (None | Some(Stop::Full), Some(poured)) => match ended.ending {
                // Whatever its end was then, it came of that.
                _ if matches!(poured, Err(Spilled::Write(_))) => Ok(poured),
                CommandEnd::Exited(0) => Ok(poured),
                ending => Err(failed(&name, ending).into()),
            },
            (Some(Stop::Lost(loss)), _) => Err(lock.lost(&loss).into()),
            (Some(Stop::Signalled(signal)), _) => Err(NotAcquired::Signalled(signal)),
            (Some(Stop::LeftOpen), _) => {
                let still = format!(
                    "the filter {name} has ended, but what it has started has not closed its output"
                );
                Err(too_long(&still, limit).into())
            }
            // Of these only the first comes without an output.
            (Some(Stop::TooLong | Stop::Full) | None, _) => {
                Err(too_long(&format!("the filter {name} has not ended"), limit).into())
            }
        }
    }
}

/// What is watched beside a filter: its output, its time and the lock.
struct Course<'a> {
    limit: Deadline,
    kill_after: Duration,
    watch: LossWatcher<'a>,
    /// Readable when its output has ended.
    ended: PipeReader,
    told: Receiver<Poured>,
    poured: Option<Poured>,
}

/// Why a filter was not left to itself.
enum Stop {
    /// What it makes cannot be written.
    Full,
    TooLong,
    /// The filter has ended, but a process that it started keeps its output open until the limit.
    LeftOpen,
    Lost(Loss),
    Signalled(Signal),
}

impl Alarms for Course<'_> {
    type Cause = Stop;

    fn fds(&self) -> Vec<Option<BorrowedFd<'_>>> {
        let ends = self.poured.is_none().then(|| self.ended.as_fd());
        vec![self.watch.fd(), ends]
    }

    fn left(&self) -> Duration {
        self.limit.left().min(self.watch.left()).min(NET)
    }

    fn look(&mut self, woken: &[bool], has_ended: bool) -> Option<Alarm<Stop>> {
        if self.poured.is_none() {
            self.poured = self.told.try_recv().ok();
        }
        let cause = match &self.poured {
            // It is over.
            Some(_) if has_ended => return None,
            // What cannot be written need not be made.
            Some(Err(Spilled::Write(_))) => Stop::Full,
            _ => match self.watch.look(woken.first() == Some(&true)) {
                Some(loss) => Stop::Lost(loss),
                None if !self.limit.is_over() => return None,
                None if has_ended => Stop::LeftOpen,
                None => Stop::TooLong,
            },
        };
        Some(Alarm {
            cause,
            response: Response::End(self.kill_after),
            words: None,
        })
    }

    /// After a signal its output does not count any more.
    fn signalled(&mut self, signal: Signal) -> Option<Stop> {
        Some(Stop::Signalled(signal))
    }

    fn is_open(&self) -> bool {
        self.poured.is_none()
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
