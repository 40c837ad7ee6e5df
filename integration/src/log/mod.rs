//! `beadlock log`: what a daemon's log says, summed up for whoever has only the log (docs/design.md#looking).
//!
//! Lines come from [`input`], are taken apart in [`line`] and understood in [`event`]; [`stream`] brings them to the
//! [`story`] of their database. At the end [`answer`] says what it amounts to, and [`report`] and [`text`] how.

mod advice;
mod agents;
mod answer;
mod downtime;
mod event;
mod holders;
mod input;
mod line;
mod repeats;
mod report;
mod rhythm;
mod slog;
mod spell;
mod story;
mod stream;
pub mod table;
mod text;
mod time;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use beadlock_checker::internal::database::Database;
use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::facts;
use clap::Args;

use crate::claim::target::not_found;
use crate::error::{Code, Error, Exit};
use crate::output::answers::Answers;
use crate::output::talk::Talk;
use crate::protocol;
use crate::settings::environment::Environment;
use crate::words::Part;
use answer::{Around, answer};
use input::{Heard, Source};
use report::Report;
use stream::{Stream, Window};
use time::{At, Moment, parse_end, parse_moment};

/// `beadlock log [FILE…]`
#[derive(Debug, Args)]
pub struct Log {
    /// The logs, each with its older files beside it; - is standard input [default: the found database's daemon.log]
    pub files: Vec<OsString>,
    /// Only what was from T on: 2026-02-01, '2026-02-01 13:30' (UTC), RFC 3339, or 2h, 3d back from now
    #[arg(long, value_name = "T", value_parser = parse_moment, allow_hyphen_values = true)]
    since: Option<Moment>,
    /// Only what was up to T; a date alone is all of that day
    #[arg(long, value_name = "T", value_parser = parse_end, allow_hyphen_values = true)]
    until: Option<Moment>,
}

impl Log {
    /// One log, all of it.
    pub fn of(path: &Path) -> Self {
        Self { files: vec![path.into()], since: None, until: None }
    }
}

/// Reads every log and sums it up; one that cannot be read does not stop the others.
pub fn run(typed: &Log, environment: &Environment, talk: &Talk) -> Answers {
    let mut answers = Answers::default();
    let now = At::now();
    let window = Window {
        since: typed.since.map(|since| since.at(now)),
        until: typed.until.map(|until| until.at(now)),
    };
    if let (Some(since), Some(until)) = (window.since, window.until)
        && since > until
    {
        let message = format!("--since {since} is after --until {until}");
        answers.failed(Error::usage(message));
        return answers;
    }
    let sources = match typed.files.is_empty() {
        true => vec![found(environment)],
        false => named(&typed.files, environment),
    };
    for source in sources {
        match source.and_then(|(source, target)| summed_up(source, target, window, now, talk)) {
            Ok((report, error)) => {
                answers.exits.push(Exit::Done);
                answers.data.push(report.json());
                if !answers.text.is_empty() {
                    answers.text.push('\n');
                }
                answers.text.push_str(&report.text(talk));
                error.into_iter().for_each(|error| answers.failed(error));
            }
            Err(error) => answers.failed(error),
        }
    }
    answers
}

/// The logs that were named; those that cannot be looked at come first.
fn named(
    files: &[OsString],
    environment: &Environment,
) -> Vec<Result<(Source, Option<Part<'static>>), Error>> {
    let cwd = environment.of_database().cwd;
    let (mut logs, mut names) = (Vec::new(), Vec::new());
    for file in files {
        let shown = escaped_path(Path::new(file));
        match environment.remote().answers_at(&cwd.join(file), &shown, Code::Io) {
            Ok(()) => names.push(file.clone()),
            Err(error) => logs.push(Err(error)),
        }
    }
    logs.extend(Source::named(&names).into_iter().map(|source| source.map(|source| (source, None))));
    logs
}

/// The log of the database that is found from here, and the database as it is to be typed.
fn found(environment: &Environment) -> Result<(Source, Option<Part<'static>>), Error> {
    protocol::answers_for(None, environment).map_err(|error| error.of_code(Code::Io))?;
    let database = Database::find(&environment.of_database()).map_err(|error| not_found(&error))?;
    // As the user knows it, where those words are the path itself and no redirect leads on from there.
    let is_itself =
        database.named == database.dir && !database.given.contains(['\\', char::REPLACEMENT_CHARACTER]);
    let dir = if is_itself { PathBuf::from(&database.given) } else { database.dir.clone() };
    match Source::with_older(&dir.join("daemon.log")) {
        Ok(source) => Ok((source, Some(protocol::of_database(database).part()))),
        Err(error) if error.code() == Code::NoTarget => {
            let message = format!("{error}: no daemon has logged there; name its log: beadlock log FILE");
            Err(Error::new(Code::NoTarget, message))
        }
        Err(error) => Err(error),
    }
}

/// The report, and what went wrong on the way.
fn summed_up(
    source: Source,
    target: Option<Part<'static>>,
    window: Window,
    now: At,
    talk: &Talk,
) -> Result<(Report, Option<Error>), Error> {
    if source.path.is_none() && io::stdin().is_terminal() {
        talk.say("reading the log from the terminal; Ctrl-D ends it");
    }
    let (name, path, files) = (source.name(), source.path.clone(), source.files());
    let compressed = source.compressed.clone();
    let target = target.or_else(|| target_of(path.as_deref()?));
    let mut stream = Stream::new(window, now);
    if target.is_some() {
        stream = stream.of_one_database();
    }
    let read = source.read(|heard| match heard {
        Heard::Beginning(head) => stream.begin(head),
        Heard::Line { bytes, is_cut } => stream.hear(bytes, is_cut),
    });
    let error = match read {
        Ok(()) => None,
        // Nothing was read: there is nothing to say.
        Err(error) if stream.lines.all == 0 => return Err(error),
        Err(error) => Some(error),
    };
    let end = window.until.map_or(now, |until| until.min(now));
    let stories = stream.finish(end);
    let around = Around {
        end,
        until: window.until,
        all_outside: stream.lines.all == 0 && stream.lines.outside > 0,
        target,
        file: path.clone(),
        host: facts::hostname().map(|name| name.to_string()),
        writer: stream.writer,
        no_times: stream.has_no_times(),
    };
    let databases = stories.into_iter().map(|story| {
        let target = story.name.as_ref().map(|name| Part::of_path(Path::new(name)));
        let around = Around { target: target.or_else(|| around.target.clone()), ..around.clone() };
        let answer = answer(&story, &stream.agents, &around);
        (story, answer)
    });
    let report = Report {
        name,
        path,
        files,
        compressed,
        writer: stream.writer,
        local_zone: stream.local_zone(),
        window,
        lines: stream.lines,
        databases: databases.collect(),
        agents: stream.agents,
        end,
    };
    Ok((report, error))
}

/// The database as it is to be typed, where the log is one that lies in it.
fn target_of(log: &Path) -> Option<Part<'static>> {
    let is_daemon_log = log.file_name()?.to_str()?.starts_with("daemon.log");
    let dir = log.parent().filter(|dir| dir.file_name().is_some_and(|name| name == ".beads"))?;
    is_daemon_log.then(|| Part::of_path(dir))
}
