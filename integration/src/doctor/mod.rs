//! `beadlock doctor`: what the file system of a directory can do, tried with real files, and so what is promised
//! there (docs/design.md#commands).
//!
//! Nothing that locks or daemons use is touched: neither the lock file nor its side file nor the gate. Everything
//! is tried in a private directory inside the one that is examined, which is gone at the end, also after a signal.
//!
//! ```text
//! mod.rs         this page, and the command
//! table.rs       the table of all trials: name, attempt, what each outcome means
//! outcome.rs     how a trial ended; results.rs: the list of all results
//! guarantee.rs   from the results to what is promised: pure
//! report.rs      for people and in JSON, from the same list
//! site.rs        the directory that is examined; bench.rs: the private directory inside it
//! second.rs      the second process
//! directory.rs   trials of the directory and its file system
//! lock_file.rs   … of how a lock comes into being and moves, and of its times
//! gate.rs        … of flock; lease.rs of leases; notify.rs of what wakes a waiting process
//! machine.rs     … of what tells processes and machines apart; git.rs of what git would commit
//! ```

mod bench;
mod directory;
mod gate;
mod git;
mod guarantee;
mod lease;
mod lock_file;
mod machine;
mod notify;
mod outcome;
mod report;
mod results;
pub mod second;
mod site;
mod table;

use std::ffi::OsString;

use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::system_words;
use clap::Args;
use nix::sys::signal::Signal;

use crate::claim::signals::Signals;
use crate::error::{End, Exit};
use crate::output::Common;
use crate::output::answers::{conclude, ended, print_answer};
use crate::output::talk::Talk;
use crate::settings::environment::Environment;
use crate::words::{Part, to_type};

use guarantee::Guarantees;
use report::DoctorReport;
use results::{TrialResult, TrialResults};
use site::{ExaminedDirectory, TrialSite};
use table::TRIALS;

/// `beadlock doctor [DIR]`
#[derive(Debug, Args)]
pub struct Doctor {
    /// The directory to examine; a database or any other [default: the database that is found from here]
    pub dir: Option<OsString>,
}

/// Examines, and prints what was found.
pub fn run(typed: &Doctor, environment: &Environment, common: &Common) -> End {
    let examined = ExaminedDirectory::resolve(typed.dir.as_deref(), environment)
        .and_then(|directory| Signals::block().map(|signals| (directory, signals)));
    let (directory, mut signals) = match examined {
        Ok(examined) => examined,
        Err(error) => return conclude(common, Err((End::Code(error.exit.code()), error))),
    };
    let cwd = environment.of_database().cwd;
    let site = TrialSite::prepare(&directory, &cwd);
    let results = match make_all(site, &mut signals, &common.talk) {
        Ok(results) => results,
        Err(Signal::SIGINT) => return End::Interrupted,
        Err(signal) => return End::Code(Exit::Signal(signal as i32).code()),
    };
    let report = DoctorReport { guarantees: Guarantees::of(&results), results, directory: &directory };
    let is_printed = print_answer(common, report.json(), None, || report.text(&common.talk));
    ended(is_printed, report.exit().code())
}

/// Makes all trials, or returns the signal that ended it. The bench is gone when this returns.
fn make_all(site: TrialSite<'_>, signals: &mut Signals, talk: &Talk) -> Result<TrialResults, Signal> {
    // The second process's end comes as SIGCHLD, and is waited for where it was started.
    let mut ending = || {
        let mut received = std::iter::from_fn(|| signals.next()).map(|received| received.signal);
        received.find(|signal| *signal != Signal::SIGCHLD).map_or(Ok(()), Err)
    };
    let made = TRIALS.iter().map(|trial| ending().map(|()| TrialResult::of(trial, (trial.attempt)(&site))));
    let results = made.collect::<Result<_, _>>().map(TrialResults)?;
    if let Ok(bench) = &site.made
        && let Err(errno) = bench.clear()
    {
        let (path, words) = (bench.path(), system_words(&errno.into()));
        let remove = to_type("rm -r {}", &[Part::Path(path)]);
        talk.warn(&format!("failed to remove {}: {words}; type: {remove}", escaped_path(path)));
    }
    ending().map(|()| results)
}
