//! `file:PATH` on a command line: its options, and what `beadlock write`, `beadlock update` and `beadlock append` share.
//! Each of these is for a file alone.

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};
use std::{fmt, path::PathBuf};

use beadlock_base::{duration, escape::escaped_path};
use beadlock_core::audit::Event;
use beadlock_core::record::file::{Mode, WAIT};
use beadlock_core::target::{ParsedTarget, Scheme};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use super::ProtocolHelp;
use crate::settings::{audit, limit};
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::NotAcquired;
use beadlock_claim::protocol::file::{FileLock, FileTarget, blocked, note, record, take};
use beadlock_claim::report::{Report, WRITE};
use beadlock_claim::words::{Part, to_type};
use beadlock_claim::{
    audit_trail::AuditTrail,
    envelope::Request,
    environment::Environment,
    kernel_lock::KernelLock,
    observe::{Notice, Observer},
    protocol::answers_for,
    release_request::ReleaseReason,
    wait::Wait,
};
use beadlock_console::talk::Talk;
use beadlock_files::write::{Rules, Written};
use beadlock_files::{Schema, json::Format};
use beadlock_session::interactive_wait::InteractiveWait;
use beadlock_supervise::signals::Signals;

#[derive(Debug, Args)]
pub struct OnFile {
    /// The file: file:PATH; it need not be there [env: BEADLOCK_TARGET]
    pub target: Option<OsString>,
    /// How long to wait for the holder of its lock: DUR or forever [env: BEADLOCK_WAIT] [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_or_forever, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait for the holder of its lock
    #[arg(long)]
    pub no_wait: bool,
    /// Add a JSON line to FILE for whatever happens to the lock [env: BEADLOCK_AUDIT]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

impl OnFile {
    /// The file that is meant, and for how long its lock is waited for; `command` is what was typed.
    pub fn find<'a>(
        &self,
        command: &str,
        environment: &'a Environment,
    ) -> Result<OneFile<'a>, Error> {
        let around = environment.of_database();
        let Some(text) = self.target.as_deref().or(around.target.as_deref()) else {
            return Err(Error::usage(format!(
                "no file; name one: beadlock {command} file:todo.json"
            )));
        };
        let ParsedTarget {
            scheme: Scheme::File,
            rest,
        } = ParsedTarget::parse(text)?
        else {
            return Err(self.no_file(command, text));
        };
        answers_for(self.target.as_deref(), environment)?;
        let target = FileTarget::of(&rest)?.canonical()?;
        let wait = match self.no_wait {
            true => Wait::No,
            false => Wait::UpTo(limit(self.wait, "BEADLOCK_WAIT", environment)?.unwrap_or(WAIT)),
        };
        Ok(OneFile {
            target,
            wait,
            environment,
        })
    }

    fn no_file(&self, command: &str, text: &OsStr) -> Error {
        let shown = escaped_path(text.as_ref());
        let has_scheme =
            ParsedTarget::parse(text).is_ok_and(|target| target.scheme != Scheme::Beads);
        let mut meant = OsString::from("file:");
        meant.push(if has_scheme {
            OsStr::new("todo.json")
        } else {
            text
        });
        let words = vec!["beadlock".into(), command.into(), meant];
        let then = to_type("{}", &[Part::Words(words)]);
        Error::usage(format!("{shown} is no file's lock; name a file: {then}"))
    }

    /// Where what happens to the lock is written down. Nothing is locked without the trail that was asked for.
    pub fn trail<'a>(
        &self,
        file: &OneFile<'_>,
        request: &'a Request,
        observer: &'a dyn Observer,
    ) -> Result<AuditTrail<'a>, Error> {
        let audit = audit(self.audit.as_deref(), file.environment);
        file.target
            .to_target()
            .trail(audit.as_deref(), (None, None), request, observer)
    }
}

pub struct OneFile<'a> {
    pub target: FileTarget,
    wait: Wait,
    environment: &'a Environment,
}

#[derive(Debug, Args)]
pub struct Checked {
    /// What the content has to be: json, jsonl (a JSON value in each line), any [default: jsonl for .jsonl and .ndjson,
    /// else json]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, value_parser = format())]
    pub format: Option<Format>,
    /// Check each value by the JSON Schema in FILE. Needs a beadlock built with --features validate-schema
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
}

/// The formats as a shell completes them, with what each is.
fn format() -> impl TypedValueParser<Value = Format> {
    let all = [
        (
            Format::Json,
            "One JSON value, nested at most 127 levels deep",
        ),
        (Format::JsonLines, "Such a value in each line"),
        (Format::Any, "Anything"),
    ];
    let values = all.map(|(format, help)| PossibleValue::new(format.to_string()).help(help));
    PossibleValuesParser::new(values).try_map(|text| text.parse())
}

impl Checked {
    pub fn rules(&self, format: Format) -> Result<Rules, Error> {
        let format = self.format.unwrap_or(format);
        let rules = Rules::default().format(format);
        match &self.schema {
            Some(_) if format == Format::Any => Err(Error::usage(
                "--schema is for JSON; it checks nothing with --format any",
            )),
            Some(path) => Ok(rules.conforming_to(Schema::read(path)?)),
            None => Ok(rules),
        }
    }
}

#[derive(Debug, Args)]
pub struct Backups {
    /// How many backups to keep, PATH.1 the newest; 0 makes none; older ones beyond N are left alone [env:
    /// BEADLOCK_BACKUPS] [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=9999))]
    pub backups: Option<u32>,
}

impl Backups {
    pub fn of(&self, rules: Rules, environment: &Environment) -> Result<Rules, Error> {
        let number = |text: &str| match text.parse() {
            Ok(count @ 0..=9999) => Ok(count),
            _ => Err(format!("{text:?} is no number of backups from 0 to 9999")),
        };
        let count = match self.backups {
            Some(count) => Some(count),
            None => environment.parsed("BEADLOCK_BACKUPS", number)?,
        };
        Ok(count.into_iter().fold(rules, Rules::backups))
    }
}

impl OneFile<'_> {
    /// Takes the lock, does `work` under it, and releases it. Returns the result of `work`, and the fields that the
    /// JSON answers of all three commands share. `child` is the process of a command that waits for the lock, too.
    pub fn under_lock<T: fmt::Display>(
        &self,
        signals: &mut Signals,
        trail: &AuditTrail<'_>,
        child: Option<i32>,
        work: impl FnOnce(&FileLock, &mut Signals) -> Result<T, NotAcquired>,
    ) -> Result<(T, Value), NotAcquired> {
        let Self {
            target,
            wait,
            environment,
        } = self;
        let observer = trail.observer();
        note(target, observer);
        let begun = Instant::now();
        let mut control = InteractiveWait::wait_of(signals, observer, child);
        let lock = take(
            target,
            Mode::Exclusive,
            *wait,
            Some(*environment),
            &mut control,
        );
        observer.notice(&Notice::WaitEnded);
        let lock = lock.inspect_err(|stopped| blocked(stopped, trail))?;
        let id = lock.id().to_string();
        if !lock.is_nested() {
            KernelLock::acquired(&lock, &id, trail);
        }
        let waited = begun.elapsed();
        let done = lock.alone(|| work(&lock, signals));
        let held = lock.age();
        let done = done.and_then(|done| match lock.still_held() {
            Ok(()) => Ok(done),
            Err(error) => {
                let message = format!("{done}, but {error}");
                Err(error.saying(message).into())
            }
        });
        let (is_ours, record) = (!lock.is_nested(), record(&lock, &id));
        drop(lock);
        let why = if done.is_ok() {
            ReleaseReason::RELEASED
        } else {
            ReleaseReason::RELEASED_AFTER_FAILURE
        };
        match &done {
            _ if !is_ours => {}
            Err(NotAcquired::Failed(error)) if error.code() == Code::LockLost => {
                trail.write(Event::LockLost, |entry| {
                    entry
                        .detail(error)
                        .held_for(held)
                        .lock(&record)
                        .result(why.result)
                });
            }
            _ => trail.write(Event::LockReleased, |entry| {
                entry
                    .reason(why.reason)
                    .held_for(held)
                    .result(why.result)
                    .lock(&record)
            }),
        }
        let report = Report {
            waited: Some(waited),
            held: Some(held),
            ..Report::at(target.given(), target.file().to_owned())
        };
        Ok((done?, report.json(WRITE)))
    }
}

/// Says what was written and what there is to be warned of, and adds it to the answer.
pub fn tell(written: &Written, mut answer: Value, talk: &Talk) -> Value {
    if written.other_links > 0 {
        let (path, links) = (escaped_path(&written.path), written.other_links);
        let plural = if links == 1 { "" } else { "s" };
        talk.warn(&format!(
            "{path} had {links} other hard link{plural}: the old content is still there"
        ));
    }
    talk.say(&written.to_string());
    answer["bytes"] = written.bytes.into();
    answer["created"] = written.created.into();
    answer["backup"] = json!(written.backup.as_ref().map(|path| path.to_string_lossy()));
    answer
}

pub const HEADING: &str = "Files (file:PATH, flock:PATH)";

/// The options that it understands beside those of every claim.
pub const OPTIONS: &[&str] = &["--shared"];

/// Why an option of every claim does nothing with the lock of a file.
pub fn ignores(option: &str) -> Option<&'static str> {
    match option {
        "--holder" => Some("an flock has no name, only a process"),
        "--holder-version" | "--about" => Some("an flock has no record that could say it"),
        "--drain" => Some("it has no cycles: --wait is all the waiting there is"),
        "--reap-proven-dead" => Some("an flock ends with its process: none is ever left behind"),
        "--id" | "--malformed" | "--yes" | "--even-if-live" => {
            Some("an flock cannot be taken away, only its process ended")
        }
        _ => None,
    }
}

/// The page of `beadlock help file`.
pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A file and the lock beside it: file:PATH",
    text: "\
The lock is a flock on the file PATH.lock. The kernel releases it when the holder ends, so it is never stale. \
PATH.lock stays where it is. Do not delete it.

A claim waits up to 30 seconds for the holder. When the wait runs out, the exit code is 8. With --shared several \
readers hold the lock together.",
    examples: "\
beadlock hold file:todo.json -- ./edit.sh
beadlock update file:todo.json -- jq '.open += 1'
beadlock append file:events.jsonl < line.json",
    heading: HEADING,
};

/// The page of `beadlock help flock`.
pub const FLOCK_HELP: ProtocolHelp = ProtocolHelp {
    about: "The kernel's lock on a file or directory itself: flock:PATH",
    text: "\
The lock is a flock on PATH, as flock(1) takes it, so each keeps the other out. A file that is missing is made, empty. \
A directory may be read-only. The kernel releases the lock when the holder ends, so it is never stale.

A claim waits up to 30 seconds for the holder, and with --wait forever as long as flock(1) does. When the wait runs out, \
the exit code is 8. With --shared several holders have the lock together.

The flock on a directory is also the gate of the locks that lie in it: no other claim there begins or ends meanwhile.",
    examples: "\
beadlock hold flock:build.lock -- make
beadlock hold --wait forever flock:/var/lib/thing -- ./migrate.sh
beadlock hold --no-wait --conflict-exit-code 1 flock:build.lock -- make",
    heading: HEADING,
};

/// What a claim of a file takes besides.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct FileArgs {
    /// Share the lock with other --shared holders, and keep writers out: for readers
    #[arg(long, help_heading = HEADING)]
    pub shared: bool,
}

impl FileArgs {
    pub fn mode(&self) -> Mode {
        if self.shared {
            Mode::Shared
        } else {
            Mode::Exclusive
        }
    }

    pub fn given(&self) -> Vec<&'static str> {
        self.shared.then_some("--shared").into_iter().collect()
    }
}
