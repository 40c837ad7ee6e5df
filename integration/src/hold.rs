//! `beadlock hold [TARGET] -- CMD`: claim, run, release (docs/design.md#holding). The order of things is the contract
//! here.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use beadlock_checker::internal::audit::Outcome;
use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts::random_id;
use beadlock_checker::internal::take::Held;
use beadlock_checker::internal::{shared_file_system, system_words};

use crate::claim::attendant::{Attendant, Attending, Stopped};
use crate::claim::claiming::Claiming;
use crate::claim::command::{Child, Command, has_terminal};
use crate::claim::keeping::{Guard, Keeping};
use crate::claim::leaving::{Leaving, Left, Why};
use crate::claim::loss::{Events, Loss, Watch};
use crate::claim::nested;
use crate::claim::protocol::{MakeRecord, OfProcess};
use crate::claim::report::{self, Report};
use crate::claim::signals::Signals;
use crate::claim::supervise::Running;
use crate::claim::tree::{self, Ending, Tree};
use crate::error::{End, Error, Exit};
use crate::file::FileTarget;
use crate::ignored::Reminder;
use crate::memory;
use crate::output::Common;
use crate::output::answers::print_envelope;
use crate::output::envelope::Request;
use crate::output::files::{self, Output};
use crate::output::talk::{Talk, print};
use crate::output::trail::Trail;
use crate::protocol::{not_for_named, refuse_for_file, refuse_report};
use crate::settings::environment::Environment;
use crate::settings::{Claim, Hold};
use crate::target::lock_dir;
use crate::tower::meant::Meant;
use crate::tower::work::Work;

mod arguments;
mod file;

pub use arguments::HoldArgs;

/// Runs the command under the lock, and says how the program is to end.
pub fn run(typed: HoldArgs, environment: &Environment, common: &Common, request: &Request) -> End {
    let own = typed.claim.replaced();
    let (mut report_file, raw) = (typed.claim.report.clone(), typed.protocol.raw);
    let mut report = Report::default();
    let refused = refuse_report(report_file.as_deref(), typed.target.as_deref(), environment)
        .inspect_err(|_| report_file = None);
    let stopped = match refused.and_then(|()| resolve(&typed, environment)) {
        Ok(settings) => hold(typed, &settings, environment, common, request, &mut report),
        Err(error) => Err(error.into()),
    };
    let (end, error) = match stopped {
        Ok(Finished { end, lost: None }) => (end, None),
        Ok(Finished { lost: Some(error), .. }) => (End::Code(own.code(error.exit)), Some(error)),
        Err(stopped) => {
            let (end, error) = stopped.end(" before the command was started", own);
            (end, Some(error))
        }
    };
    let report_file = report_file.filter(|file| environment.remote().may_touch(file));
    report::conclude(common, request, report_file.as_deref(), &report, error.as_ref());
    if raw && let Some(lock) = error.as_ref().and_then(|error| error.lock.as_deref()) {
        // Whoever cannot read it has the exit code.
        let _ = print(&format!("{lock:#}\n"));
    } else if error.is_some() && report.pid.is_none() {
        print_envelope(common, request, report.json(), error.as_ref());
    }
    end
}

fn resolve(typed: &HoldArgs, environment: &Environment) -> Result<Hold, Error> {
    let claim = Claim::resolve(&typed.claim, typed.protocol.options(), typed.holder.as_ref(), environment)?;
    Hold::resolve(claim, typed.on_loss, typed.kill_after, environment)
}

fn hold(
    typed: HoldArgs,
    settings: &Hold,
    environment: &Environment,
    common: &Common,
    request: &Request,
    report: &mut Report,
) -> Result<Finished, Stopped> {
    let talk = &common.talk;
    let HoldArgs { target, failure, rollback, wait_group, command, .. } = typed;
    let also = failure.given().or(rollback.given());
    let is_of_intent = target.is_none() && typed.protocol.tower.intent.is_some();
    if !is_of_intent && let Some(file) = FileTarget::meant(target.as_deref(), environment)? {
        refuse_for_file(&file.given(), typed.holder.as_ref(), (&typed.claim, &typed.protocol), also)?;
        let trail = Trail::of_file(settings.claim.audit.as_deref(), file.for_trail(), request, talk)?;
        let mode = typed.protocol.file.mode();
        let order = file::Order { target: &file, mode, command, wait_group, settings };
        return file::hold(order, environment, &trail, report);
    }
    typed.protocol.file.refuse()?;
    let also = also.or(typed.protocol.raw.then_some("--raw"));
    let instead = not_for_named(typed.holder.as_ref(), &typed.claim);
    let directories = typed.claim.directories();
    let meant =
        Meant::resolve(target.as_deref(), &typed.protocol.tower, also, instead, directories, environment)?;
    let command = Command::find(command, environment.get("PATH"))?;
    let (target, named) = match meant {
        Meant::Nothing(warning) => {
            warning.into_iter().for_each(|warning| talk.warn(warning));
            return without_lock(&command, settings, wait_group, environment, talk, report);
        }
        Meant::Other(target) => (target, None),
        Meant::Named(named) => (named.target.clone(), Some(named)),
    };
    let memory = memory::claim::Order::of(
        &target,
        typed.holder.as_ref(),
        (&typed.claim, &typed.protocol.memory),
        environment,
    )?;
    report.target = Some((target.name(), target.path()));
    files::refuse(Output::Report, typed.claim.report.as_deref(), &[&target.path()])?;
    let Hold { claim: settings, on_loss, kill_after } = settings;
    let (wait, drain) = settings.patience(target.default_wait());
    let holder = match (&named, &memory) {
        (Some(named), _) => named.fields.actor.clone(),
        (_, Some(memory)) => memory.session().to_owned(),
        _ => settings.holder.clone().unwrap_or_else(|| command.holder_name()),
    };
    report.holder = Some(holder.clone());
    if named.is_some() {
        lock_dir::make(target.dir())?;
        target.warn(talk);
    }
    let outer = nested::outer_claim(&target, environment);
    let new_id = || named.as_ref().map_or_else(random_id, |named| named.fields.request_id.clone());
    let id = outer.clone().unwrap_or_else(new_id);
    let audit = settings.audit.as_deref();
    let trail = match &named {
        Some(_) => Trail::of_named(audit, &id, target.for_trail(), request, talk)?,
        None => Trail::open(audit, Some(&holder), target.for_trail(), request, talk)?,
    };
    nested::refuse_inside_a_cycle(&target, environment)
        .inspect_err(|error| trail.blocked(error, &target.place))?;
    report.nested = outer.is_some();
    report.id = Some(id.clone());
    // Under an outer claim it is the outer one's work.
    let work = match (&named, &memory) {
        _ if outer.is_some() => None,
        (Some(_), _) => Some(Work::new(failure.failure_step.as_deref(), environment)),
        (None, Some(_)) => Some(Work::without_steps()),
        (None, None) => None,
    };
    let mut held_by_us = vec![
        ("BEADLOCK_HELD_TARGET", target.absolute()),
        ("BEADLOCK_HELD_ID", id.clone().into()),
        ("BEADLOCK_HELD_IDS", nested::ids_inside(&id, &target, environment).into()),
    ];
    held_by_us.extend(work.iter().flat_map(|work| work.variables(environment)));
    let variables = environment.with(&held_by_us);
    let command = if target.place.dialect().is_judged_by_time() { command.ending_with_us() } else { command };

    let mut signals = Signals::block()?;
    let tree = Tree::as_subreaper()?;
    let own_group = !has_terminal();
    let waiting = command.fork(&variables, own_group, signals.mask_before())?;
    let pid = waiting.pid();
    let mut running =
        Running { pid, own_group, kill_after: *kill_after, on_loss: *on_loss, wait_group, tree };
    let child = Child(pid);

    let begun = Instant::now();
    let mut watch = Attending::wait_of(&mut signals, talk, Some(pid));
    let held = match outer {
        Some(_) => {
            talk.say_more(&format!("{} is held by an outer claim ({id}); running under it", target.given));
            None
        }
        None => {
            if let Some(name) = shared_file_system(target.dir()).filter(|_| target.has_cycles()) {
                talk.note(&format!(
                    "{} is on {name}: a running cycle is waited for on this machine only",
                    target.given
                ));
            }
            let says: &dyn MakeRecord = match (&named, &memory) {
                (Some(named), _) => named.as_ref(),
                (_, Some(memory)) => &memory.says(&id),
                _ => &OfProcess { holder: &holder, id: &id },
            };
            let options = settings.options;
            let claiming = Claiming { target: &target, pid: pid.unsigned_abs(), says, wait, drain, options };
            Some(claiming.claim_and_tell(&mut watch, talk, &trail)?)
        }
    };
    report.waited = Some(begun.elapsed());
    let patience = drain.max(Duration::from_secs(10));
    let leaving = Leaving { target: &target, patience, talk, trail: &trail, failure_step: None };
    if let Some(stopped) = watch.stopped() {
        leave(&leaving, held, None, Why::SIGNAL, &mut signals, report);
        return Err(stopped);
    }
    let keeping = match held.map(|held| Keeping::begin(held, Events::Later)).transpose() {
        Ok(keeping) => keeping,
        Err(failed) => {
            let (held, error) = *failed;
            leave(&leaving, Some(held), None, Why::NOT_STARTED, &mut signals, report);
            return Err(error.ending(Exit::NotStarted).into());
        }
    };
    let watchdog = work.as_ref().zip(keeping.as_ref()).map(|(work, keeping)| {
        let watchdog = work.watchdog(&running, keeping, (&command.holder_name(), &target.given));
        watchdog.map_err(|error| error.ending(Exit::NotStarted))
    });
    let watchdog = match watchdog.transpose() {
        Ok(watchdog) => watchdog,
        Err(error) => {
            leave(&leaving, end_of(keeping), None, Why::NOT_STARTED, &mut signals, report);
            return Err(error.into());
        }
    };
    if let Some(watchdog) = &watchdog {
        running.tree = running.tree.without(watchdog.pid());
    }
    if keeping.is_some() {
        talk.say(&format!("claimed {} for {} (PID {pid})", target.given, escaped(&holder)));
    }
    let reminder = keeping.as_ref().map(|_| Reminder::of(&target, environment.of_database().cwd, talk));
    // An outer claim is watched too, and never released here.
    let outer = match keeping {
        None => nested::guard_of(&id, &target, environment),
        Some(_) => None,
    };
    let watched = || outer.as_ref().map(|outer| Guard::Outer(Watch::over(outer, Events::Later)));
    let guard = keeping.as_ref().map(|keeping| keeping.guard(&trail)).or_else(watched);
    let started =
        waiting.go().and_then(|starting| running.supervise(Some(starting), guard, &mut signals, talk));
    let mut ended = match started {
        Ok(ended) => ended,
        Err(error) => {
            leave(&leaving, end_of(keeping), None, Why::NOT_STARTED, &mut signals, report);
            return Err(command.not_executed(&error).into());
        }
    };
    report.pid = Some(pid);
    report.ending = Some(ended.ending);
    report.left = ended.left.iter().map(|stat| stat.pid).collect();
    let why = Why::ended(ended.ending);
    let step = work.as_ref().and_then(Work::failure_step);
    if let (Outcome::Failure, Some(rollback), None) = (why.result, &rollback.rollback, &ended.lost)
        && let (Some(work), Some(keeping)) = (&work, &keeping)
    {
        talk.say(&format!("the command has failed, rolling back under the lock of {}", target.given));
        let undoing = Undoing { work, keeping, trail: &trail, command: rollback, variables: &variables };
        running.wait_group = false;
        ended.lost = undoing.run(running, step.as_deref(), &mut signals, talk);
    }
    if !ended.left.is_empty() {
        talk.warn(&format!(
            "the command left processes behind, and the lock is released now: {}; to wait for them: --wait-group",
            tree::names(&ended.left)
        ));
    }
    let end = ended.end();
    let lost_outer = outer
        .zip(ended.lost.as_ref())
        .map(|(outer, loss)| loss.error(outer.id(), outer.broken_as().as_deref(), outer.age(), &target));
    let leaving = Leaving { failure_step: step.as_deref(), ..leaving };
    let is_kept = keeping.is_some();
    let held = end_of(keeping);
    if is_kept && held.is_none() {
        leaving.hangs();
    }
    let lost = leave(&leaving, held, ended.lost, why, &mut signals, report).or(lost_outer);
    // The command's tree was to be ended with us for as long as the lock stood.
    drop(watchdog);
    drop(child);
    reminder.into_iter().for_each(|reminder| reminder.finish(talk));
    Ok(Finished { end, lost })
}

fn end_of(keeping: Option<Keeping>) -> Option<Held> {
    keeping.and_then(Keeping::end)
}

/// Runs the command without any lock, as what only observes is to be run.
fn without_lock(
    command: &Command,
    settings: &Hold,
    wait_group: bool,
    environment: &Environment,
    talk: &Talk,
    report: &mut Report,
) -> Result<Finished, Stopped> {
    let mut signals = Signals::block()?;
    let (tree, own_group) = (Tree::as_subreaper()?, !has_terminal());
    let waiting = command.fork(&environment.with(&[]), own_group, signals.mask_before())?;
    let pid = waiting.pid();
    let Hold { kill_after, on_loss, .. } = *settings;
    let running = Running { pid, own_group, kill_after, on_loss, wait_group, tree };
    let child = Child(pid);
    let started =
        waiting.go().and_then(|starting| running.supervise(Some(starting), None, &mut signals, talk));
    let ended = started.map_err(|error| command.not_executed(&error))?;
    report.pid = Some(pid);
    report.ending = Some(ended.ending);
    drop(child);
    Ok(Finished { end: ended.end(), lost: None })
}

/// A rollback under the lock.
struct Undoing<'a> {
    work: &'a Work,
    keeping: &'a Keeping,
    trail: &'a Trail<'a>,
    command: &'a OsStr,
    variables: &'a [(OsString, OsString)],
}

impl Undoing<'_> {
    /// Runs it; its failure is a warning. The answer is a loss of the lock meanwhile.
    fn run(&self, running: Running, step: Option<&str>, signals: &mut Signals, talk: &Talk) -> Option<Loss> {
        let failed =
            |why: &str| talk.warn(&format!("the rollback failed: {why}; the lock is released all the same"));
        let pid = match self.work.rollback(self.command, self.variables, step) {
            Ok(pid) => pid,
            Err(error) => {
                failed(&system_words(&error));
                return None;
            }
        };
        let child = Child(pid);
        let running = Running { pid, own_group: true, ..running };
        let ended = running.supervise(None, Some(self.keeping.guard(self.trail)), signals, talk);
        drop(child);
        let ended = ended.ok()?;
        match ended.ending {
            Ending::Exited(0) => talk.say("the rollback has ended"),
            Ending::Exited(code) => failed(&format!("it ended with code {code}")),
            Ending::Killed(signal) => failed(&format!("it was killed by signal {signal}")),
        }
        ended.lost
    }
}

/// A command that has run.
#[derive(Debug)]
pub struct Finished {
    /// As the command ended.
    pub end: End,
    /// The lock was lost, which comes first.
    pub lost: Option<Error>,
}

/// Ends the claim; the answer is the loss that this came too late for.
fn leave(
    leaving: &Leaving<'_>,
    held: Option<Held>,
    lost: Option<Loss>,
    why: Why,
    signals: &mut Signals,
    report: &mut Report,
) -> Option<Error> {
    let held = held?;
    report.held = Some(held.age());
    let mut watch = Attending::wait_of(signals, leaving.talk, None);
    match leaving.end(held, lost, why, &mut watch) {
        Left::Released => report.released = true,
        Left::Stuck => {}
        Left::Lost(error) => return Some(error),
    }
    None
}
