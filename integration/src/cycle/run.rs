//! One cycle: the order of things is the contract here.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::run::request::AtEnd;
use crate::run::watchdog::Watchdog;
use beadlock_checker::internal::audit::Event;
use beadlock_checker::internal::database::{Directories, Suggest};
use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::sys::Waiting;
use beadlock_checker::internal::{Gate, GateWatch, look};
use beadlock_checker::{Cycle, Decision, Entered, GateLoss, Options, Reason, Verdict};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::Typed;
use crate::claim::attendant::Stopped;
use crate::claim::command::{Child, Command, has_terminal};
use crate::claim::keeping::Guard;
use crate::claim::loss::Loss;
use crate::claim::nested;
use crate::claim::signals::Signals;
use crate::claim::supervise::{Ended, Running};
use crate::claim::tree::{self, KnownCommand, Tree};
use crate::error::{Code, End, Error, Exit, Replaced};
use crate::explain::checked::Checked;
use crate::output::Common;
use crate::output::answers::print_envelope;
use crate::output::envelope::Request;
use crate::output::talk::Talk;
use crate::output::trail::Trail;
use crate::settings::environment::Environment;
use crate::settings::{self, OnLoss};
use crate::target::Found;
use crate::words::{self, to_type};

/// Runs the command as a cycle, and says how the program is to end.
pub fn run(typed: Typed, environment: &Environment, common: &Common, request: &Request) -> End {
    let replaced = Replaced { conflict: None, own: typed.own_exit_code };
    let (end, error, data) = match cycle(typed, environment, &common.talk, request) {
        Ok(Finished { end, lost: None }) => return end,
        // The command has run: stdout was its own, and gets no envelope.
        Ok(Finished { lost: Some(error), .. }) => {
            common.talk.error(&error.to_string());
            return End::Code(replaced.code(error.exit));
        }
        Err(NotRun::Skipped(skipped)) => {
            let error = skipped.error();
            common.talk.say(&error.to_string());
            let data = if common.json { skipped.json() } else { Value::Null };
            (End::Code(replaced.code(error.exit)), error, data)
        }
        Err(NotRun::Stopped(stopped)) => {
            let (end, error) = stopped.end(" before the command was started", replaced);
            common.talk.error(&error.to_string());
            (end, error, Value::Null)
        }
    };
    print_envelope(common, request, data, Some(&error));
    end
}

/// A command that has run.
struct Finished {
    /// As the command ended.
    end: End,
    /// The gate was lost, which comes first.
    lost: Option<Error>,
}

/// Why the command has not run.
enum NotRun {
    /// The database is to be left alone this time.
    Skipped(Box<Skipped>),
    /// It failed, or a signal came.
    Stopped(Stopped),
}

impl From<Stopped> for NotRun {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<Error> for NotRun {
    fn from(error: Error) -> Self {
        Self::Stopped(error.into())
    }
}

struct Skipped {
    target: Found,
    decision: Decision,
}

impl Skipped {
    /// The log line, under the code that says what kind of skip it is.
    fn error(&self) -> Error {
        let code = match (self.decision.reason(), self.decision.verdict()) {
            (Reason::GateBusy, _) => Code::DrainTimeout,
            (_, Verdict::Held(_)) => Code::LockHeld,
            (Reason::RemovalFailed, _) => Code::LockStale,
            _ => Code::LockUnreadable,
        };
        let error = Error::new(code, self.decision.to_string());
        match code {
            Code::LockHeld => error.retry_on_a_lock_of(self.decision.record().and_then(words::known_age)),
            _ => error.retry_after(Duration::from_secs(5)),
        }
    }

    /// As `check` has it.
    fn json(self) -> Value {
        let before = look(&self.target.place, &Options::default());
        let limits = beadlock_checker::internal::dialect::memory::Limits::default();
        Checked { target: self.target, before, decision: self.decision, limits }.json(false)
    }
}

fn cycle(
    typed: Typed,
    environment: &Environment,
    talk: &Talk,
    request: &Request,
) -> Result<Finished, NotRun> {
    let directories = (Directories::any(typed.any_directory), Suggest::Path);
    let target = Found::to_claim(typed.target.as_deref(), directories, environment)?;
    target.refuse_tracked()?;
    if !target.has_cycles() {
        let message = format!(
            "{} has no sync cycles, only a beads database has; to run a command under this lock, type: {}",
            target.given,
            to_type("beadlock hold {} -- CMD", &[target.part()])
        );
        return Err(Error::usage(message).into());
    }
    let kill_after = settings::kill_after(None, environment)?;
    let command = Command::find(typed.command, environment.get("PATH"))?;
    let trail =
        Trail::open(settings::audit(None, environment).as_deref(), None, target.for_trail(), request, talk)?;
    let mut signals = Signals::block()?;
    let options = Options { reap_proven_dead: typed.reap_proven_dead, ..Options::default() };
    let cycle = match Cycle::enter_with(target.dir(), &options) {
        Entered::Cycle(cycle) => cycle,
        Entered::Skipped(decision) => {
            if decision.reason() == Reason::GateBusy && nested::is_inside_a_cycle(&target, environment) {
                return Err(inside_itself(&target).into());
            }
            if let Decision::Skip(skip) = &decision {
                trail.write(Event::LockBlocked, |entry| entry.skip(skip));
            }
            return Err(NotRun::Skipped(Box::new(Skipped { target, decision })));
        }
    };
    if let Some(removed) = cycle.decision().removed() {
        trail.removed(removed);
        talk.say(&cycle.decision().to_string());
    }
    if let Some(why) = cycle.no_gate() {
        talk.warn(&format!("there is no gate here ({why}): claims do not wait for this cycle"));
    }

    // From here on the gate is taken, and whatever fails has failed between that and the command's start.
    let tree = Tree::as_subreaper().map_err(|error| error.ending(Exit::NotStarted))?;
    let own_group = !has_terminal();
    let of_cycle = [("BEADS_DIR", target.dir().into()), ("BEADLOCK_CYCLE", target.dir().into())];
    let begun = Instant::now();
    let for_command = cycle.gate().map(Gate::for_command).transpose();
    let for_command = for_command.map_err(|error| Error::from(error).ending(Exit::NotStarted))?;
    let inherited = for_command.as_ref().map(AsFd::as_fd);
    let waiting = command
        .fork_in_cycle(&environment.with(&of_cycle), own_group, signals.mask_before(), inherited)
        .map_err(|error| error.ending(Exit::NotStarted))?;
    drop(for_command); // The command's process has it.
    let pid = waiting.pid();
    let child = Child(pid);
    let watch = cycle.gate().map(|gate| GateWatch::start(gate, target.dir())).transpose();
    let watch = watch.map_err(|error| no_watch(&target, &error))?;
    let name = command.holder_name();
    let keep = |gate: &Gate| {
        let shared = gate.share().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let names = (name.as_str(), target.given.as_str());
        Watchdog::start(KnownCommand::of(pid, own_group), AtEnd::OpenGate, names, Some(shared.as_fd()))
    };
    let gate_keeper = cycle.gate().map(keep).transpose().map_err(no_gate_keeper)?;
    let tree = gate_keeper.iter().fold(tree, |tree, gate_keeper| tree.without(gate_keeper.pid()));
    let running = Running { pid, own_group, kill_after, on_loss: OnLoss::default(), wait_group: false, tree };
    let guard = watch.as_ref().map(|watch| Guard::Gate(watch, target.dir()));
    let worked = work(&running, waiting, guard, &mut signals, talk);
    let lost = gate_loss(&worked, watch);
    name_left(&worked, talk);
    cycle.leave();
    if let Some(gate_keeper) = gate_keeper {
        gate_keeper.end();
    }
    drop(child);
    let ended = match worked {
        Ok(Worked::Ended(ended)) => ended,
        Ok(Worked::Signalled(signal)) => return Err(Stopped::Signalled(signal).into()),
        Err(error) => return Err(command.not_executed(&error).into()),
    };
    let lost = lost.map(|loss| lost_gate(loss, begun.elapsed(), &target, &trail));
    Ok(Finished { end: ended.end(), lost })
}

enum Worked {
    Ended(Ended),
    /// Before the command was started.
    Signalled(Signal),
}

/// From the last moment before the command executes to its end. Ended early, its process has not executed.
fn work(
    running: &Running,
    waiting: Waiting,
    guard: Option<Guard<'_>>,
    signals: &mut Signals,
    talk: &Talk,
) -> io::Result<Worked> {
    while let Some(received) = signals.next() {
        if received.signal != Signal::SIGCHLD {
            return Ok(Worked::Signalled(received.signal));
        }
    }
    running.supervise(Some(waiting.go()?), guard, signals, talk).map(Worked::Ended)
}

/// How the gate was lost, where it was: known already, or by a last look.
fn gate_loss(worked: &io::Result<Worked>, watch: Option<GateWatch>) -> Option<GateLoss> {
    match worked {
        Ok(Worked::Ended(Ended { lost: Some(Loss::Gate(loss)), .. })) => Some(*loss),
        Ok(Worked::Ended(_)) => watch.and_then(GateWatch::last_look),
        _ => None,
    }
}

fn lost_gate(loss: GateLoss, age: Duration, target: &Found, trail: &Trail<'_>) -> Error {
    let error = Loss::of_gate(loss, age, target);
    trail.write(Event::LockLost, |entry| entry.reason(loss.as_str()).detail(&error).held_for(age));
    error
}

/// Says what the command has left behind.
fn name_left(worked: &io::Result<Worked>, talk: &Talk) {
    if let Ok(Worked::Ended(Ended { left, .. })) = worked
        && !left.is_empty()
    {
        talk.warn(&format!(
            "the command left processes behind, and the gate is let go now: {}",
            tree::names(left)
        ));
    }
}

fn inside_itself(target: &Found) -> Error {
    let path = escaped_path(target.dir());
    let message = format!(
        "this runs inside a sync cycle of {path}, which has the gate: a cycle inside it would skip for ever; leave \
         it out here, or run it outside of the cycle"
    );
    Error::new(Code::DrainTimeout, message)
}

fn no_watch(target: &Found, error: &io::Error) -> Error {
    let (path, why) = (escaped_path(target.dir()), words::of_no_process(error));
    Error::io(format!("failed to watch over the gate of {path}: {why}"), error.kind())
        .ending(Exit::NotStarted)
}

fn no_gate_keeper(error: io::Error) -> Error {
    let why = words::of_no_process(&error);
    Error::io(format!("failed to make the process that keeps the gate with us: {why}"), error.kind())
        .ending(Exit::NotStarted)
}
