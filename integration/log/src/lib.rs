//! `beadlock log`: sums up a daemon's log for a reader who has only that log (docs/design.md#looking).
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! ```text
//! parse/     bytes to events: files, lines, times, the wordings of both daemons
//! timeline/  events to timelines: cycles, streaks of skips, holders, daemons; pure
//! report/    timelines to an answer, as text and as JSON
//! html/      timelines to a page that a browser shows
//! glance.rs  one look at the log of a database, for status
//! here.rs    the lock that lies there now
//! tail.rs    a log that grows, for top
//! window.rs  --since and --until
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod glance;
mod here;
mod html;
pub mod parse;
mod report;
pub mod tail;
mod timeline;
mod window;

use beadlock_claim::error::Problem;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;

use beadlock_base::escape::escaped_path;
use beadlock_core::agent_process::AgentProcess;
use beadlock_core::database::Database;
use beadlock_core::facts;
use clap::Args;

use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::protocol;
use beadlock_claim::target::not_found;
use beadlock_claim::words::Part;
use beadlock_console::answers::Answers;
use beadlock_console::talk::Talk;
use here::{LockHere, lock_here};
use parse::source::{LogBytes, LogSource};
use parse::time::LogTime;
use report::{LogReport, Page};
use timeline::{LogTimeline, database::DatabaseTimeline};
use window::{LogWindow, WindowEnd, parse_since, parse_until};

/// `beadlock log [FILE…]`
#[derive(Debug, Default, Args)]
pub struct LogArgs {
    /// The logs, each with its older files beside it; - is standard input [default: the found database's daemon.log]
    pub files: Vec<OsString>,
    /// Only what was from T on, in UTC: 2026-02-01, '2026-02-01 13:30', RFC 3339, 02:00 (the last one that has passed),
    /// today, yesterday, or back from now: 2h, 3d, '2h ago'
    #[arg(long, value_name = "T", value_parser = parse_since, allow_hyphen_values = true)]
    since: Option<WindowEnd>,
    /// Only what was up to T, in the same forms; a date, today and yesterday mean all of that day
    #[arg(long, value_name = "T", value_parser = parse_until, allow_hyphen_values = true)]
    until: Option<WindowEnd>,
    /// Print a page with a timeline of each database, for a browser: beadlock log --html > log.html
    #[arg(long, conflicts_with = "json")]
    pub html: bool,
}

impl LogArgs {
    /// All of one log.
    pub fn of(path: &Path) -> Self {
        Self {
            files: vec![path.into()],
            ..Self::default()
        }
    }
}

/// A log, and the database that it lies in as a command names it.
type LogInput = (LogSource, Option<Part<'static>>);

/// Sums up every log. A log that cannot be read does not stop the others.
pub fn run(args: &LogArgs, environment: &Environment, talk: &Talk) -> Answers {
    let mut answers = Answers::default();
    let now = LogTime::now();
    let at = |end: Option<WindowEnd>| end.map(|end| end.at(now));
    let window = LogWindow {
        since: at(args.since),
        until: at(args.until),
    };
    if let (Some(since), Some(until)) = (window.since, window.until)
        && since > until
    {
        answers.failed(Error::usage(format!(
            "--since {since} is after --until {until}"
        )));
        return answers;
    }
    if args.html && io::stdout().is_terminal() {
        let message = "--html prints a page; lead it into a file: beadlock log --html > log.html";
        answers.failed(Error::usage(message.to_owned()));
        return answers;
    }
    let inputs = match args.files.is_empty() {
        true => vec![found(environment)],
        false => named(&args.files, environment),
    };
    let mut reports = Vec::new();
    for input in inputs {
        match input.and_then(|input| summed_up(input, window, now, environment, talk)) {
            Ok((report, error)) => {
                answers.exits.push(Exit::Done);
                answers.data.push(report.json());
                reports.push(report);
                error.into_iter().for_each(|error| answers.failed(error));
            }
            Err(error) => answers.failed(error),
        }
    }
    answers.text = match args.html {
        true if reports.is_empty() => String::new(),
        true => html::page(&reports, now),
        false => report::text(&reports, &Page::of_stdout(talk)),
    };
    answers
}

/// The named logs. The errors of mounts that do not answer come first.
fn named(files: &[OsString], environment: &Environment) -> Vec<Result<LogInput, Error>> {
    let cwd = environment.of_database().cwd;
    let (mut logs, mut names) = (Vec::new(), Vec::new());
    for file in files {
        let shown = escaped_path(Path::new(file));
        match environment
            .remote()
            .answers_at(&cwd.join(file), &shown, Code::Io)
        {
            Ok(()) => names.push(file.clone()),
            Err(error) => logs.push(Err(error)),
        }
    }
    let with_target = |source: LogSource| {
        let target = target_of(source.path.as_deref());
        (source, target)
    };
    logs.extend(
        LogSource::named(&names)
            .into_iter()
            .map(|source| source.map(with_target)),
    );
    logs
}

/// The log of the database that is found from the working directory.
fn found(environment: &Environment) -> Result<LogInput, Error> {
    protocol::answers_for(None, environment).map_err(|error| error.of_code(Code::Io))?;
    let database = Database::find(&environment.of_database()).map_err(|error| not_found(&error))?;
    // The user's words for it, where they are the path itself and no redirect leads to another place.
    let given = database
        .as_given()
        .filter(|_| database.named == database.dir);
    let dir = given.unwrap_or(&database.dir).to_owned();
    match LogSource::with_older(&dir.join("daemon.log")) {
        Ok(source) => Ok((source, Some(protocol::of_database(database).part()))),
        Err(error) if error.code() == Code::NoTarget => {
            let message =
                format!("{error}: no daemon has logged there; name its log: beadlock log FILE");
            Err(Error::new(Code::NoTarget, message))
        }
        Err(error) => Err(error),
    }
}

/// The report, and the error that ended the reading early.
fn summed_up(
    (source, target): LogInput,
    window: LogWindow,
    now: LogTime,
    environment: &Environment,
    talk: &Talk,
) -> Result<(LogReport, Option<Error>), Error> {
    if source.path.is_none() && io::stdin().is_terminal() {
        talk.say("reading the log from the terminal; Ctrl-D ends it");
    }
    let (path, files, compressed) = (
        source.path.clone(),
        source.files(),
        source.compressed.clone(),
    );
    let mut log = LogTimeline::new(window, now);
    if window.until.is_none() {
        log = log.asking(AgentProcess::state);
    }
    if target.is_some() {
        log = log.of_one_database();
    }
    let read = source.read(|bytes| match bytes {
        LogBytes::Head(head) => log.begin(head),
        LogBytes::Line { bytes, is_cut } => log.add_line(bytes, is_cut),
    });
    let error = match read {
        Ok(()) => None,
        // Without a line there is nothing to report.
        Err(error) if log.lines.all == 0 => return Err(error),
        Err(error) => Some(error),
    };
    let end = window.until.map_or(now, |until| until.min(now));
    log.finish(end);
    let host = facts::hostname().map(|name| name.to_string());
    let locks = match window.until {
        None => locks_here(&log, path.as_deref(), environment),
        Some(_) => Vec::new(),
    };
    Ok((
        LogReport {
            locks,
            path,
            files,
            compressed,
            log,
            end,
            target,
            host,
        },
        error,
    ))
}

/// The locks of the databases that are skipped, in the order of the timelines.
fn locks_here(
    log: &LogTimeline,
    path: Option<&Path>,
    environment: &Environment,
) -> Vec<Option<LockHere>> {
    let lock = |timeline: &DatabaseTimeline| {
        let named = timeline.name.as_deref().map(Path::new);
        let dir = named.or_else(|| dir_of(path))?;
        (timeline.is_skipped() && !log.is_of_other_host()).then(|| lock_here(dir, environment))?
    };
    log.databases.iter().map(lock).collect()
}

/// The directory of a database whose log this is.
fn dir_of(log: Option<&Path>) -> Option<&Path> {
    let is_daemon_log = log?.file_name()?.to_str()?.starts_with("daemon.log");
    log?.parent()
        .filter(|dir| is_daemon_log && dir.file_name().is_some_and(|name| name == ".beads"))
}

/// The database of a log that lies in it.
fn target_of(log: Option<&Path>) -> Option<Part<'static>> {
    dir_of(log).map(Part::of_path)
}
