//! `beadlock doctor`: what the file system of a directory can do, tried with real files, and so what is promised
//! there (docs/design.md#commands).
//!
//! Nothing that locks or daemons use is touched: neither the lock file nor its side file nor the gate. Everything
//! is tried in a private directory inside the one that is examined, which is gone at the end, also after a signal.
//!
//! ```text
//! mod.rs         this page, and the command
//! subject.rs     the directory that is examined
//! bench.rs       the private directory inside it
//! second.rs      the second process
//! trial.rs       one trial and how it ended; words.rs says what it means
//! ground.rs      trials of the directory and its file system, without making anything
//! create.rs      … of how a lock comes into being; rename.rs of how it moves; times.rs of its times
//! gate.rs        … of flock; lease.rs of leases; notify.rs of what wakes who waits
//! machine.rs     … of what tells processes and machines apart
//! git.rs         … of what git would commit
//! guarantee.rs   from the trials to what is promised: pure
//! report.rs      for people and in JSON
//! ```

mod bench;
mod create;
mod gate;
mod git;
mod ground;
mod guarantee;
mod lease;
mod machine;
mod notify;
mod rename;
mod report;
mod second;
mod subject;
mod times;
mod trial;
mod words;

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::system_words;
use clap::Args;
use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::claim::signals::Signals;
use crate::error::{End, Exit};
use crate::output::Common;
use crate::output::answers::{conclude, not_printed};
use crate::output::envelope::Request;
use crate::output::talk::print;
use crate::settings::environment::Environment;
use crate::words::{Part, to_type};

use bench::Bench;
use guarantee::Guarantees;
use report::Report;
use subject::Subject;
use trial::{Failure, Kind, Outcome, Trial, Trials};

/// `beadlock doctor [DIR]`
#[derive(Debug, Args)]
pub struct Doctor {
    /// The directory to examine; a database or any other [default: the database that is found from here]
    pub dir: Option<OsString>,
    /// Be the second process of another doctor
    #[arg(long = second::OPTION, hide = true)]
    pub second_process: bool,
}

/// Examines, and prints what was found.
pub fn run(typed: &Doctor, environment: &Environment, common: &Common, request: &Request) -> End {
    if typed.second_process {
        return End::Code(second::serve());
    }
    let examined = Subject::resolve(typed.dir.as_deref(), environment)
        .and_then(|subject| Signals::block().map(|signals| (subject, signals)));
    let (subject, mut signals) = match examined {
        Ok(examined) => examined,
        Err(error) => return conclude(common, request, Err((End::Code(error.exit.code()), error))),
    };
    let trials = match examine(&subject, &environment.of_database().cwd, common, || ending(&mut signals)) {
        Ok(trials) => trials,
        Err(Signal::SIGINT) => return End::Interrupted,
        Err(signal) => return End::Code(Exit::Signal(signal as i32).code()),
    };
    let report = Report { guarantees: Guarantees::of(&trials), trials, subject: &subject };
    let text = if common.json {
        format!("{}\n", request.envelope(report.json(), None, &common.talk.warnings()))
    } else {
        report.text(&common.talk)
    };
    match print(&text) {
        Ok(()) => End::Code(report.exit().code()),
        Err(why) => not_printed(common, &why),
    }
}

/// A signal that came and ends this. The second process's end comes as SIGCHLD, and is waited for where it was
/// started.
fn ending(signals: &mut Signals) -> Option<Signal> {
    std::iter::from_fn(|| signals.next())
        .map(|received| received.signal)
        .find(|signal| *signal != Signal::SIGCHLD)
}

type OfGround = fn(BorrowedFd<'_>) -> Outcome;
type OnBench = fn(&Bench<'_>) -> Outcome;
type OfMachine = fn() -> Outcome;

const OF_GROUND: [(Kind, OfGround); 5] = [
    (Kind::FileSystem, ground::file_system),
    (Kind::Space, ground::space),
    (Kind::GateOpens, ground::gate_opens),
    (Kind::Owner, ground::owner),
    (Kind::Private, ground::private),
];

const ON_BENCH: [(Kind, OnBench); 16] = [
    (Kind::ExclusiveCreate, create::exclusive),
    (Kind::UnnamedFile, create::unnamed),
    (Kind::HardLink, create::hard_link),
    (Kind::RenameNoreplace, rename::no_replace),
    (Kind::RenameExchange, rename::exchange),
    (Kind::Fdatasync, create::synced),
    (Kind::Timestamps, times::steps),
    (Kind::FlockDescriptors, gate::descriptors),
    (Kind::FlockProcesses, gate::processes),
    (Kind::FlockWakes, gate::wakes),
    (Kind::FlockDeath, gate::death),
    (Kind::LeaseGranted, lease::granted),
    (Kind::LeaseRefused, lease::refused),
    (Kind::LeaseBroken, lease::broken),
    (Kind::Notify, notify::removal),
    (Kind::Pidfd, notify::end),
];

const OF_MACHINE: [(Kind, OfMachine); 4] = [
    (Kind::Proc, machine::proc),
    (Kind::HostName, machine::host_name),
    (Kind::MachineId, machine::machine_id),
    (Kind::BootId, machine::boot_id),
];

/// Makes all trials. The bench is gone when this returns.
///
/// # Errors
/// The signal that ended it.
fn examine(
    subject: &Subject,
    cwd: &Path,
    common: &Common,
    mut ending: impl FnMut() -> Option<Signal>,
) -> Result<Trials, Signal> {
    let mut trials: Vec<Trial> =
        OF_GROUND.iter().map(|(kind, attempt)| Trial::new(*kind, attempt(subject.as_fd()))).collect();
    let bench = Bench::make(subject.as_fd(), &subject.path);
    let made = bench.as_ref().map(|_| "a directory was made in it".to_owned()).map_err(|errno| match errno {
        // Here it is no accident on the way to something else.
        Errno::ENOSPC | Errno::EDQUOT => Failure::missing(system_words(&(*errno).into())),
        other => (*other).into(),
    });
    trials.push(Trial::new(Kind::Writable, made));
    for (kind, attempt) in ON_BENCH {
        if let Some(signal) = ending() {
            return Err(signal);
        }
        let outcome = match &bench {
            Ok(bench) => {
                bench.tidy();
                attempt(bench)
            }
            Err(_) => Err(Failure::untried("nothing can be made here")),
        };
        trials.push(Trial::new(kind, outcome));
    }
    if let Ok(bench) = &bench
        && let Err(errno) = bench.clear()
    {
        let (path, words) = (bench.path(), system_words(&errno.into()));
        let remove = to_type("rm -r {}", &[Part::Path(path)]);
        common.talk.warn(&format!("failed to remove {}: {words}; type: {remove}", escaped_path(path)));
    }
    trials.extend(OF_MACHINE.iter().map(|(kind, attempt)| Trial::new(*kind, attempt())));
    trials.extend(git::trials(&subject.path, cwd));
    trials.sort_by_key(|trial| trial.kind);
    ending().map_or(Ok(Trials(trials)), Err)
}
