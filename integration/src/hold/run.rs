//! `beadlock hold [TARGET] -- CMD`: claim, run, release (DESIGN 7). The order of things is the contract here.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use beadlock_checker::database::Database;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::facts::random_id;
use beadlock_checker::take::{Held, Release};
use beadlock_checker::{Error as CheckerError, Removed, shared_file_system, system_words};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::claim::{Attendant, Claiming, Stopped, Waited};
use super::command::Command;
use super::guard::release;
use super::nested;
use super::report::{self, Report};
use super::signals::Signals;
use super::supervise::Running;
use super::tree::{self, Ending, Tree};
use crate::cli;
use crate::envelope::Request;
use crate::environment::Environment;
use crate::exit::{End, Exit};
use crate::failure::{Code, Error};
use crate::settings::{Common, Hold};
use crate::talk::{Talk, print};
use crate::target;
use crate::words::{self, lock_path};
use beadlock_checker::duration::shown;

/// Runs the command under the lock, and says how the program is to end.
pub fn run(typed: cli::Hold, environment: &Environment, common: &Common, request: &Request) -> End {
    let own = crate::exit::Replaced { conflict: typed.conflict_exit_code, own: typed.own_exit_code };
    let report_file = typed.report.clone();
    let mut report = Report::default();
    let stopped = match Hold::resolve(&typed, environment) {
        Ok(settings) => hold(typed, &settings, environment, &common.talk, &mut report),
        Err(error) => Err(error.into()),
    };
    let (end, error) = match stopped {
        Ok(end) => (end, None),
        Err(Stopped::Failed(error)) => (End::Code(own.code(error.exit)), Some(error)),
        Err(Stopped::Signalled(signal)) => {
            let error = Error::new(Code::Io, format!("ended by {signal} before the command was started"));
            let code = End::Code(Exit::Signal(signal as i32).code());
            (if signal == Signal::SIGINT { End::Interrupted } else { code }, Some(error))
        }
    };
    common.talk.end_live();
    if let Some(error) = &error {
        common.talk.error(&error.to_string());
    }
    if let Some(path) = &report_file {
        let envelope = request.envelope(report.json(), error.as_ref(), &common.talk.warnings());
        if let Err(why) = report::write(path, &envelope) {
            common.talk.warn(&format!(
                "failed to write the report {}: {}",
                escaped_path(path),
                system_words(&why)
            ));
        }
    }
    if common.json && error.is_some() && report.pid.is_none() {
        let envelope = request.envelope(report.json(), error.as_ref(), &common.talk.warnings());
        if let Err(why) = print(&format!("{envelope}\n")) {
            common.talk.error(&format!("failed to write to stdout: {}", system_words(&why)));
        }
    }
    end
}

fn hold(
    typed: cli::Hold,
    settings: &Hold,
    environment: &Environment,
    talk: &Talk,
    report: &mut Report,
) -> Result<End, Stopped> {
    let database = target::resolve(typed.target.as_deref(), environment)?;
    let dir = database.dir.clone();
    report.target = Some(database.clone());
    nested::refuse_inside_a_cycle(&database, environment)?;
    let command = Command::find(typed.command, environment.get("PATH"))?;
    let holder = settings.holder.clone().unwrap_or_else(|| command.holder_name());
    report.holder = Some(holder.clone());
    let outer = nested::outer_claim(&database, environment);
    report.nested = outer.is_some();
    let id = outer.clone().unwrap_or_else(random_id);
    report.id = Some(id.clone());
    let mut target = std::ffi::OsString::from("beads:");
    target.push(&dir);
    let held_by_us = [("BEADLOCK_HELD_TARGET", target), ("BEADLOCK_HELD_ID", id.clone().into())];

    let mut signals = Signals::block()?;
    nix::sys::prctl::set_child_subreaper(true).map_err(|errno| {
        let error = std::io::Error::from(errno);
        Error::io(
            format!("failed to become the subreaper of the command: {}", system_words(&error)),
            error.kind(),
        )
    })?;
    let running = Running {
        pid: 0,
        own_group: !has_terminal(),
        kill_after: settings.kill_after,
        wait_group: typed.wait_group,
        tree: Tree::from_now_on(),
    };
    let waiting = command.fork(&environment.with(&held_by_us), running.own_group, signals.mask_before())?;
    let running = Running { pid: waiting.pid(), ..running };
    let child = Child(running.pid);

    let begun = Instant::now();
    let mut watch = Watch { signals: &mut signals, talk, child: Some(running.pid), said: None };
    let held = match outer {
        Some(_) => {
            talk.say_more(&format!("{} is held by an outer claim ({id}); running under it", database.given));
            None
        }
        None => {
            if let Some(name) = shared_file_system(&dir) {
                talk.note(&format!(
                    "{} is on {name}: a running cycle is waited for on this machine only",
                    database.given
                ));
            }
            let pid = running.pid.unsigned_abs();
            let (wait, drain, options) = (settings.wait, settings.drain, settings.options);
            let claiming =
                Claiming { database: &database, pid, holder: &holder, id: &id, wait, drain, options };
            let (held, removed) = claiming.claim(&mut watch)?;
            talk.end_live();
            if let Some(Removed { record, reason, .. }) = removed {
                let name = escaped(&record.holder);
                talk.say(&format!("removed stale lock of {name} (PID {}, {reason})", record.pid));
            }
            Some(held)
        }
    };
    report.waited = Some(begun.elapsed());
    let leaving =
        Leaving { database: &database, patience: settings.drain.max(Duration::from_secs(10)), talk };
    if let Some(stopped) = watch.stopped() {
        leaving.end_claim(held, &mut signals, report);
        return Err(stopped);
    }
    if held.is_some() {
        talk.say(&format!("claimed {} for {} (PID {})", database.given, escaped(&holder), running.pid));
    }
    let started = waiting.go().and_then(|starting| running.supervise(starting, &mut signals, talk));
    let ended = match started {
        Ok(ended) => ended,
        Err(error) => {
            leaving.end_claim(held, &mut signals, report);
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
    leaving.end_claim(held, &mut signals, report);
    drop(child);
    Ok(match ended.ending {
        Ending::Killed(signal) if signal == Signal::SIGINT as i32 && ended.interrupted => End::Interrupted,
        Ending::Killed(signal) => End::Code(Exit::Signal(signal).code()),
        Ending::Exited(code) => End::Code(Exit::Command(code).code()),
    })
}

/// The end of the claim.
struct Leaving<'a> {
    database: &'a Database,
    /// For how long the gate is waited for.
    patience: Duration,
    talk: &'a Talk,
}

impl Leaving<'_> {
    /// Releases, and says so; a failure is a warning that says what to type. A signal ends the wait for the gate: the
    /// lock is stale the moment the command's process is reaped.
    fn end_claim(&self, held: Option<Held>, signals: &mut Signals, report: &mut Report) {
        let Some(held) = held else { return };
        let Self { database, patience, talk } = *self;
        let age = held.age();
        report.held = Some(age);
        let (lock, target) = (escaped_path(&lock_path(&database.dir)), words::target(database));
        let mut watch = Watch { signals, talk, child: None, said: None };
        let released = release(held, &database.dir, patience, &mut watch);
        talk.end_live();
        match released {
            Ok(Release::Released) => {
                report.released = true;
                talk.say(&format!("released {} after {}", database.given, shown(age)));
            }
            Ok(Release::Gone) => {
                talk.warn(&format!(
                    "{lock} was gone before it was released: somebody removed it while it was held"
                ));
            }
            Ok(Release::NotOurs(record)) => {
                let whose = record.map_or("is somebody else's".to_owned(), |record| {
                    format!("is {}'s", escaped(&record.holder))
                });
                talk.warn(&format!(
                    "{lock} {whose} now and was not touched; who and why: beadlock status {target}"
                ));
            }
            Err(failed) => {
                let (_, error) = *failed;
                talk.warn(&format!(
                    "the lock was not released: {error}; once this has ended, type: beadlock check {target}"
                ));
            }
        }
    }
}

/// The command's process: killed while it still waits, and in any case reaped last.
struct Child(i32);

impl Drop for Child {
    fn drop(&mut self) {
        if tree::ending(self.0).is_none() {
            // It has not executed. Its pipe is closed, but it may be stopped.
            let _ = kill(Pid::from_raw(self.0), Signal::SIGKILL);
        }
        tree::reap(self.0);
    }
}

/// Looks after the wait: tells the user, hears signals, and notices the end of the process that is to be.
struct Watch<'a> {
    signals: &'a mut Signals,
    talk: &'a Talk,
    /// None once it has become the command.
    child: Option<i32>,
    /// The kind of wait that was said.
    said: Option<&'static str>,
}

impl Attendant for Watch<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.signals.as_fd())
    }

    fn stopped(&mut self) -> Option<Stopped> {
        while let Some(received) = self.signals.next() {
            if received.signal != Signal::SIGCHLD {
                return Some(Stopped::Signalled(received.signal));
            }
        }
        let died = self.child.is_some_and(|child| tree::ending(child).is_some());
        died.then(|| {
            let message = "the process that was to become the command was killed while it waited";
            Error::new(Code::Io, message).ending(Exit::NotStarted).into()
        })
    }

    fn waiting(&mut self, waited: &Waited<'_>) {
        // Said again only when it waits for something else now.
        let kind = waited.kind();
        let is_first = self.said.replace(kind) != Some(kind);
        self.talk.say_live(waited, is_first);
    }

    fn no_gate(&mut self, why: &CheckerError) {
        self.talk.warn(&format!("there is no gate here ({why}): a running cycle is not waited for"));
    }
}

/// A process without a controlling terminal cannot open `/dev/tty`.
fn has_terminal() -> bool {
    let flags = OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits()).open("/dev/tty").is_ok()
}
