//! `beadlock hold file:PATH -- CMD`: lock, run, unlock. The flock is beadlock's own, so that there is no work without
//! it: when it is killed, the command and all that it has started are ended (docs/design.md#loss), and only then is
//! the lock free.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::time::Instant;

use crate::run::request::AtEnd;
use crate::run::watchdog::{self, Watchdog};
use beadlock_checker::internal::dialect::file::{LockId, Mode, WAIT};
use beadlock_checker::internal::facts::random_id;
use beadlock_checker::internal::system_words;

use super::Finished;
use crate::claim::attendant::{Attendant, Attending, Stopped};
use crate::claim::command::{Child, Command, has_terminal};
use crate::claim::keeping::Guard;
use crate::claim::leaving::Why;
use crate::claim::loss::Loss;
use crate::claim::nested::ids_with;
use crate::claim::report::Report;
use crate::claim::signals::Signals;
use crate::claim::supervise::Running;
use crate::claim::tree::{self, KnownCommand, Tree};
use crate::error::{Error, Exit};
use crate::file::{FileLock, FileTarget, LockFile, Watch, ending, nested, said, take};
use crate::settings::Hold;
use crate::settings::environment::Environment;

use crate::output::trail::Trail;
use crate::settings::wait::Wait;

/// What is to be run, and under which lock.
#[derive(Debug)]
pub struct Order<'a> {
    pub target: &'a FileTarget,
    pub mode: Mode,
    pub command: Vec<OsString>,
    pub wait_group: bool,
    pub settings: &'a Hold,
}

/// Runs the command under the lock.
pub fn hold(
    order: Order<'_>,
    environment: &Environment,
    trail: &Trail<'_>,
    report: &mut Report,
) -> Result<Finished, Stopped> {
    let Order { target, mode, command, wait_group, settings } = order;
    let Hold { claim, on_loss, kill_after } = settings;
    let talk = trail.talk();
    let command = Command::find(command, environment.get("PATH"))?.ending_with_us();
    report.target = Some((target.given(), target.lock().to_owned()));
    let (wait, _) = claim.patience(Wait::UpTo(WAIT));
    said::note(target, talk);
    // Before there is a process: its environment says who holds the file.
    let (device, inode) = LockFile::open(target)?.inode();
    let outer = nested::outer(target, (device, inode), mode, environment)?;
    let id = outer.unwrap_or(LockId { device, inode, pid: std::process::id().cast_signed() });
    report.nested = outer.is_some();
    report.id = Some(id.to_string());
    let token = random_id();
    let variables = environment.with(&[
        ("BEADLOCK_HELD_TARGET", target.exported()),
        ("BEADLOCK_HELD_ID", id.to_string().into()),
        ("BEADLOCK_HELD_IDS", ids_with(&id.to_string(), environment).into()),
        (watchdog::VARIABLE, watchdog::variable(&token, environment.get(watchdog::VARIABLE))),
    ]);

    let mut signals = Signals::block()?;
    let tree = Tree::as_subreaper()?;
    let own_group = !has_terminal();
    let waiting = command.fork(&variables, own_group, signals.mask_before())?;
    let pid = waiting.pid();
    let (kill_after, on_loss) = (*kill_after, *on_loss);
    let mut running = Running { pid, own_group, kill_after, on_loss, wait_group, tree };
    let child = Child(pid);

    let begun = Instant::now();
    let mut attending = Attending::wait_of(&mut signals, talk, Some(pid));
    let taken = take(target, mode, wait, Some(environment), &mut attending);
    talk.end_live();
    let lock = taken.inspect_err(|stopped| said::blocked(stopped, trail))?;
    report.waited = Some(begun.elapsed());
    report.id = Some(lock.id().to_string());
    if lock.is_nested() {
        talk.say_more(&format!(
            "{} is held by an outer claim ({}); running under it",
            target.given(),
            lock.id()
        ));
    } else {
        said::acquired(&lock, &lock.id().to_string(), trail);
    }
    let held = Holding { lock, trail, report };
    if let Some(stopped) = attending.stopped() {
        held.end(None, Why::SIGNAL);
        return Err(stopped);
    }
    let (name, given) = (command.holder_name(), target.given());
    let at_end = AtEnd::EndTree { token, grace: running.kill_after, silence: None };
    let watch = |file: &LockFile| {
        Watchdog::start(KnownCommand::of(pid, own_group), at_end, (&name, &given), Some(file.as_fd()))
    };
    let watchdog = held.lock.file().map(watch).transpose();
    let watchdog = match watchdog {
        Ok(watchdog) => watchdog,
        Err(error) => {
            held.end(None, Why::NOT_STARTED);
            let why = system_words(&error);
            let words = format!("failed to start who ends the command when this is killed: {why}");
            return Err(Error::io(words, error.kind()).ending(Exit::NotStarted).into());
        }
    };
    if let Some(watchdog) = &watchdog {
        running.tree = running.tree.without(watchdog.pid());
        talk.say(&format!("claimed {} for {} (PID {pid})", target.given(), name));
    }
    let guard = Guard::Other(Box::new(Watch::over(&held.lock)));
    let started =
        waiting.go().and_then(|starting| running.supervise(Some(starting), Some(guard), &mut signals, talk));
    let ended = match started {
        Ok(ended) => ended,
        Err(error) => {
            held.end(None, Why::NOT_STARTED);
            return Err(command.not_executed(&error).into());
        }
    };
    held.report.pid = Some(pid);
    held.report.ending = Some(ended.ending);
    held.report.left = ended.left.iter().map(|stat| stat.pid).collect();
    if !ended.left.is_empty() {
        talk.warn(&format!(
            "the command left processes behind, and the lock is released now: {}; to wait for them: --wait-group",
            tree::names(&ended.left)
        ));
    }
    let end = ended.end();
    let lost = held.end(ended.lost, Why::ended(ended.ending));
    drop(watchdog);
    drop(child);
    Ok(Finished { end, lost })
}

/// A lock that stands.
struct Holding<'a, 't> {
    lock: FileLock,
    trail: &'a Trail<'t>,
    report: &'a mut Report,
}

impl Holding<'_, '_> {
    /// Ends it; the answer is a loss.
    fn end(self, known: Option<Loss>, why: Why) -> Option<Error> {
        let Self { lock, trail, report } = self;
        let is_ours = !lock.is_nested();
        report.held = is_ours.then(|| lock.age());
        let lost = ending::end(lock, known, why, trail);
        report.released = is_ours && lost.is_none();
        lost
    }
}
