//! `beadlock doctor`: what the file system of a directory can do, tried with real files, and so what is promised
//! there (docs/design.md#commands).
//!
//! Nothing that locks or daemons use is touched: neither the lock file nor its side file nor the gate. Everything
//! is tried in a private directory inside the one that is examined, which is gone at the end, also after a signal.
//!
//! ```text
//! mod.rs         this page, the command, and what it prints
//! table.rs       the table of all trials: how each is made, and what its outcome means
//! bench.rs       the directory that is examined, and the private directory inside it
//! directory.rs   trials of the directory, its file system, git there, and the machine
//! lock_file.rs   … of how a lock comes into being and moves, and of its times
//! git_merge.rs   … of how git merges record files there
//! processes.rs   … between two processes; second.rs: the second process
//! results.rs     how the trials ended
//! guarantee.rs   from the results to what is promised: pure
//! ```

mod bench;
mod directory;
mod git_merge;
mod guarantee;
mod lock_file;
mod processes;
mod results;
pub mod second;
mod table;

use beadlock_claim::error::Problem;
use std::ffi::OsString;

use beadlock_base::{error::system_words, escape::escaped_path, helper::Helpers};
use clap::Args;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Error, Exit};
use beadlock_claim::words::{Part, to_type};
use beadlock_console::answers::{conclude, ended, print_answer};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, talk::Talk};
use beadlock_supervise::signals::Signals;

use bench::{ExaminedDirectory, TrialSite};
use guarantee::{Guarantee, Holds, cannot_lock, guarantees};
use results::{TrialResult, TrialResults};
use table::{NOT_KNOWN, TRIALS};

/// The colour of what is all right, as [`Talk::painted_data`] has it.
pub const GREEN: &str = "32";
/// The colour of what is limited, or not known.
pub const YELLOW: &str = "33";
/// The colour of what is missing.
pub const RED: &str = "31";

/// `beadlock doctor [DIR]`
#[derive(Debug, Args)]
pub struct Doctor {
    /// The directory to examine; a database, memory:DIR or any other [default: the database that is found from here]
    pub dir: Option<OsString>,
}

/// Examines, and prints what was found.
pub fn run(
    typed: &Doctor,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
) -> ProgramEnd {
    let examined =
        ExaminedDirectory::resolve(typed.dir.as_deref(), environment).and_then(|directory| {
            let signals = Signals::block().map_err(Error::of_signals)?;
            Ok((directory, signals))
        });
    let (directory, mut signals) = match examined {
        Ok(examined) => examined,
        Err(error) => return conclude(common, Err((ProgramEnd::Code(error.exit().code()), error))),
    };
    let cwd = environment.of_database().cwd;
    let search_path = environment.get("PATH").unwrap_or_default();
    let site = TrialSite::prepare(helpers, &directory, &cwd, search_path);
    let results = match make_all(site, &mut signals, &common.talk) {
        Ok(results) => results,
        Err(Signal::SIGINT) => return ProgramEnd::Interrupted,
        Err(signal) => return ProgramEnd::Code(Exit::Signal(signal as i32).code()),
    };
    let report = DoctorReport {
        guarantees: guarantees(&results, directory.kind),
        results,
        directory: &directory,
    };
    let is_printed = print_answer(common, report.json(), None, || report.text(&common.talk));
    ended(is_printed, report.conclusion().0.code())
}

/// Makes all trials, or returns the signal that ended it. The bench is gone when this returns.
fn make_all(
    site: TrialSite<'_>,
    signals: &mut Signals,
    talk: &Talk,
) -> Result<TrialResults, Signal> {
    // The second process's end comes as SIGCHLD, and is waited for where it was started.
    let mut ending = || {
        let mut received = std::iter::from_fn(|| signals.receive()).map(|received| received.signal);
        received
            .find(|signal| *signal != Signal::SIGCHLD)
            .map_or(Ok(()), Err)
    };
    let made = TRIALS
        .iter()
        .map(|trial| ending().map(|()| TrialResult::of(trial, (trial.attempt)(&site))));
    let results = made.collect::<Result<_, _>>().map(TrialResults)?;
    if let Ok(bench) = &site.made
        && let Err(errno) = bench.clear()
    {
        let (path, words) = (bench.path(), system_words(&errno.into()));
        let remove = to_type("rm -r {}", &[Part::Path(path)]);
        talk.warn(&format!(
            "failed to remove {}: {words}; type: {remove}",
            escaped_path(path)
        ));
    }
    ending().map(|()| results)
}

/// All that was found out about one directory: for people a line for each trial and each promise, and JSON.
#[derive(Debug)]
struct DoctorReport<'a> {
    directory: &'a ExaminedDirectory,
    results: TrialResults,
    guarantees: Vec<Guarantee>,
}

impl DoctorReport<'_> {
    /// How the program ends, the colour of that, and a sentence. 5: no lock is worth anything here; 1: something is
    /// missing, or not known; 0: all is there.
    fn conclusion(&self) -> (Exit, &'static str, String) {
        if let Some(why) = cannot_lock(&self.guarantees) {
            return (Exit::Unreadable, RED, format!("NO, {why}"));
        }
        let missing = self
            .results
            .0
            .iter()
            .filter(|result| result.ok != Some(true));
        let missing = missing
            .map(TrialResult::words)
            .collect::<Vec<_>>()
            .join(", ");
        if missing.is_empty() {
            return (Exit::Done, GREEN, "yes, locks hold here".to_owned());
        }
        (
            Exit::Failed,
            YELLOW,
            format!("locks hold here, with limits: {missing}"),
        )
    }

    fn text(&self, talk: &Talk) -> String {
        let ExaminedDirectory {
            path, given, above, ..
        } = self.directory;
        let above = above
            .as_ref()
            .map(|above| format!(" (the database in {above})"))
            .unwrap_or_default();
        let (_, color, summary) = self.conclusion();
        let mut text = format!("{given}{above}: {}\n", talk.painted_data(&summary, color));
        text.push_str(&format!("  directory: {}\n", escaped_path(path)));
        let line = |(word, color): (&str, &str), rest: String| {
            format!(
                "  {}  {rest}\n",
                talk.painted_data(&format!("{word:<7}"), color)
            )
        };
        for result in &self.results.0 {
            let word = match result.ok {
                Some(true) => ("ok", GREEN),
                Some(false) => ("no", RED),
                None => ("unknown", YELLOW),
            };
            let mut parts = vec![format!("{:<17}  {}", result.words(), result.detail)];
            parts.extend((result.means != NOT_KNOWN).then(|| result.means.to_owned()));
            // At the end of the line, where nothing else is pasted along.
            parts.extend(
                result
                    .to_type
                    .iter()
                    .map(|command| format!("type: {command}")),
            );
            text.push_str(&line(word, parts.join("; ")));
        }
        text.push_str("What is promised here:\n");
        for guarantee in &self.guarantees {
            let word = match guarantee.holds {
                Holds::Yes => ("yes", GREEN),
                Holds::Limited => ("limited", YELLOW),
                Holds::Unknown => ("unknown", YELLOW),
                Holds::No => ("NO", RED),
            };
            text.push_str(&line(
                word,
                format!("{}: {}", guarantee.promise, guarantee.how),
            ));
        }
        text
    }

    /// The `data` of the envelope.
    fn json(&self) -> Value {
        json!({
            "path": self.directory.path.to_string_lossy(),
            "can_lock": cannot_lock(&self.guarantees).is_none(),
            "message": self.conclusion().2,
            "trials": self.results,
            "guarantees": self.guarantees,
        })
    }
}
