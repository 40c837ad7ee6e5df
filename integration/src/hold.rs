//! `beadlock hold [TARGET] -- CMD`: claim, run, release (DESIGN 7). The order of things is the contract here.

use std::time::{Duration, Instant};

use beadlock_checker::escape::escaped;
use beadlock_checker::facts::random_id;
use beadlock_checker::shared_file_system;
use beadlock_checker::take::Held;

use crate::answers::print_envelope;
use crate::claim::attendant::{Attendant, Attending, Stopped};
use crate::claim::claiming::Claiming;
use crate::claim::command::{Child, Command, has_terminal};
use crate::claim::leaving::{Leaving, Left, Why};
use crate::claim::loss::{self, Loss};
use crate::claim::nested;
use crate::claim::report::{self, Report};
use crate::claim::signals::Signals;
use crate::claim::supervise::Running;
use crate::claim::tree::{self, Tree};
use crate::cli;
use crate::envelope::Request;
use crate::environment::Environment;
use crate::exit::End;
use crate::failure::Error;
use crate::settings::{Common, Hold};
use crate::talk::Talk;
use crate::target::Found;
use crate::trail::Trail;

/// Runs the command under the lock, and says how the program is to end.
pub fn run(typed: cli::Hold, environment: &Environment, common: &Common, request: &Request) -> End {
    let own = typed.claim.replaced();
    let report_file = typed.claim.report.clone();
    let mut report = Report::default();
    let stopped = match Hold::resolve(&typed, environment) {
        Ok(settings) => hold(typed, &settings, environment, &common.talk, request, &mut report),
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
    report::conclude(common, request, report_file.as_deref(), &report, error.as_ref());
    if error.is_some() && report.pid.is_none() {
        print_envelope(common, request, report.json(), error.as_ref());
    }
    end
}

fn hold(
    typed: cli::Hold,
    settings: &Hold,
    environment: &Environment,
    talk: &Talk,
    request: &Request,
    report: &mut Report,
) -> Result<Finished, Stopped> {
    let target = Found::resolve(typed.target.as_deref(), environment)?;
    let Hold { claim: settings, on_loss, kill_after } = settings;
    report.target = Some(target.clone());
    let command = Command::find(typed.command, environment.get("PATH"))?;
    let holder = settings.holder.clone().unwrap_or_else(|| command.holder_name());
    report.holder = Some(holder.clone());
    let trail = Trail::open(settings.audit.as_deref(), Some(&holder), &target, request, talk)?;
    nested::refuse_inside_a_cycle(&target, environment).inspect_err(|error| trail.blocked(error, &target))?;
    let outer = nested::outer_claim(&target, environment);
    report.nested = outer.is_some();
    let id = outer.clone().unwrap_or_else(random_id);
    report.id = Some(id.clone());
    let held_by_us = [
        ("BEADLOCK_HELD_TARGET", target.absolute()),
        ("BEADLOCK_HELD_ID", id.clone().into()),
        ("BEADLOCK_HELD_IDS", nested::ids_inside(&id, environment).into()),
    ];

    let mut signals = Signals::block()?;
    let tree = Tree::as_subreaper()?;
    let running = Running {
        pid: 0,
        own_group: !has_terminal(),
        kill_after: *kill_after,
        on_loss: *on_loss,
        wait_group: typed.wait_group,
        tree,
    };
    let waiting = command.fork(&environment.with(&held_by_us), running.own_group, signals.mask_before())?;
    let running = Running { pid: waiting.pid(), ..running };
    let child = Child(running.pid);

    let begun = Instant::now();
    let mut watch = Attending::wait_of(&mut signals, talk, Some(running.pid));
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
            let pid = running.pid.unsigned_abs();
            let (wait, drain, options) = (settings.wait, settings.drain, settings.options);
            let claiming = Claiming { target: &target, pid, holder: &holder, id: &id, wait, drain, options };
            Some(claiming.claim_and_tell(&mut watch, talk, &trail)?)
        }
    };
    report.waited = Some(begun.elapsed());
    let patience = settings.drain.max(Duration::from_secs(10));
    let leaving = Leaving { target: &target, patience, talk, trail: &trail };
    if let Some(stopped) = watch.stopped() {
        leave(&leaving, held, None, Why::SIGNAL, &mut signals, report);
        return Err(stopped);
    }
    if held.is_some() {
        talk.say(&format!("claimed {} for {} (PID {})", target.given, escaped(&holder), running.pid));
    }
    // An outer claim is watched too, and never released here.
    let outer = match held {
        None => nested::guard_of(&id, &target, environment),
        Some(_) => None,
    };
    let lock = held.as_ref().or(outer.as_ref()).map(loss::Watch::over);
    let started = waiting.go().and_then(|starting| running.supervise(starting, lock, &mut signals, talk));
    let ended = match started {
        Ok(ended) => ended,
        Err(error) => {
            leave(&leaving, held, None, Why::NOT_STARTED, &mut signals, report);
            return Err(command.not_executed(&error).into());
        }
    };
    report.pid = Some(running.pid);
    report.ending = Some(ended.ending);
    report.left = ended.left.iter().map(|stat| stat.pid).collect();
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
    let lost =
        leave(&leaving, held, ended.lost, Why::ended(ended.ending), &mut signals, report).or(lost_outer);
    drop(child);
    Ok(Finished { end, lost })
}

/// A command that has run.
struct Finished {
    /// As the command ended.
    end: End,
    /// The lock was lost, which comes first.
    lost: Option<Error>,
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
