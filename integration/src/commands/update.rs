//! `beadlock update file:PATH -- CMD`: the file through a filter and back, under one lock.

use std::ffi::OsString;
use std::time::Duration;

use beadlock_checker::internal::dialect::file::LockId;
use beadlock_checker::internal::duration;
use beadlock_checker::internal::escape::escaped_path;
use clap::Args;
use serde_json::Value;

use crate::claim::attendant::Stopped;
use crate::claim::command::Command;
use crate::claim::signals::Signals;
use crate::error::{Code, End, Error, Replaced};
use crate::files::entry::Entry;
use crate::files::json::Format;
use crate::files::stage::Stage;
use crate::files::write::{Draft, Rules, Written, tidy};
use crate::output::Common;
use crate::output::answers::conclude;
use crate::output::envelope::Request;
use crate::output::talk::Talk;
use crate::protocol::file::command::{self, Backups, Checked, Locked, OnFile};
use crate::protocol::file::filter::{Filter, Input};
use crate::protocol::file::lock::FileLock;
use crate::protocol::file::nested;
use crate::protocol::file::open::LockFile;
use crate::settings::environment::Environment;
use crate::settings::{self, either};

/// How long a filter may take where nobody says so.
const LIMIT: Duration = Duration::from_secs(60);

/// What the help says after the options.
const HELP: &str = "\
The filter gets the file on its standard input; its standard output becomes the file, as beadlock write writes it, when the filter has ended \
with 0 and all that it has started has closed that output. Else nothing is changed. It is ended with all that it has started when the time is \
over, when the lock is lost, and when beadlock is killed.

Exit 0: written. Else the file is as it was, unless it is said to be written, and the filter's own code says why; 124: it took too long; 126, 127: it cannot be executed, there is \
none; 128+N: it was killed by signal N; 1: its output is not what the file has to be, there is no room, or there is no file; 2: usage; 8: the lock \
was not obtained; 9: it was lost.";

/// `beadlock update file:PATH -- CMD [ARG…]`
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Typed {
    #[command(flatten)]
    pub on: OnFile,
    #[command(flatten)]
    pub checked: Checked,
    #[command(flatten)]
    pub backups: Backups,
    /// What the filter gets where there is no file yet; without it that is an error
    #[arg(long, value_name = "TEXT")]
    pub initial: Option<OsString>,
    /// How long the filter may take, while others wait for the lock [env: BEADLOCK_FILTER_TIMEOUT] [default: 60s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_above_zero)]
    pub filter_timeout: Option<Duration>,
    /// How long the filter may take to end when it is told to, before it is killed [env: BEADLOCK_KILL_AFTER]
    /// [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub kill_after: Option<Duration>,
    /// Exit with N instead of 8 when the file is held to the end of the wait
    #[arg(long, value_name = "N")]
    pub conflict_exit_code: Option<u8>,
    /// Exit with N instead of any code that is not the filter's
    #[arg(long, value_name = "N")]
    pub own_exit_code: Option<u8>,
    /// The filter and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Updates, and says how the program is to end.
pub fn run(typed: Typed, environment: &Environment, common: &Common, request: &Request) -> End {
    let own = Replaced { conflict: typed.conflict_exit_code, own: typed.own_exit_code };
    let updated = update(typed, environment, &common.talk, request)
        .map_err(|stopped| stopped.end(" before the file was changed", own));
    conclude(common, request, updated)
}

fn update(typed: Typed, environment: &Environment, talk: &Talk, request: &Request) -> Result<Value, Stopped> {
    let target = typed.on.target("update", environment)?;
    let wait = typed.on.patience(environment)?;
    let rules = typed.checked.rules(Format::of(target.file()))?;
    let rules = typed.backups.of(rules, environment)?;
    let limit = either(typed.filter_timeout, "BEADLOCK_FILTER_TIMEOUT", environment)?.unwrap_or(LIMIT);
    let kill_after = settings::kill_after(typed.kill_after, environment)?;
    let command = Command::find(typed.command, environment.get("PATH"))?;
    let trail = typed.on.trail(&target, environment, request, talk)?;
    let mut signals = Signals::block()?;
    let (device, inode) = LockFile::open(&target)?.inode();
    let id = LockId { device, inode, pid: std::process::id().cast_signed() };
    let updates = nested::updates_with(id, environment);
    let filter = Filter::fork(command, environment, updates, &signals, kill_after, limit)?;
    let child = Some(filter.pid());
    let locked = Locked::take(&target, wait, environment, &mut signals, &trail, child)?;
    let initial = typed.initial.map(|text| text.into_encoded_bytes());
    let change = Change { filter, initial, lock: &locked.lock, rules: &rules };
    let mut stopped = None;
    let written = Entry::open(target.file()).and_then(|entry| {
        locked.lock.alone(|| {
            change.run(&entry, &mut signals, talk).map_err(|why| match why {
                Stopped::Failed(error) => error,
                Stopped::Signalled(signal) => {
                    stopped = Some(signal);
                    Stopped::Signalled(signal).into()
                }
            })
        })
    });
    let ended = locked.end(written);
    if let Some(signal) = stopped {
        return Err(Stopped::Signalled(signal));
    }
    let (written, times) = ended?;
    command::tell(&written, talk);
    Ok(command::answer_of_write(&target, &written, times))
}

/// A change that is to be made under the lock.
struct Change<'a> {
    filter: Filter,
    initial: Option<Vec<u8>>,
    lock: &'a FileLock,
    rules: &'a Rules,
}

impl Change<'_> {
    fn run(self, entry: &Entry, signals: &mut Signals, talk: &Talk) -> Result<Written, Stopped> {
        let Self { filter, initial, lock, rules } = self;
        tidy(entry, rules.kept())?;
        let input = match (entry.open_to_read()?, initial) {
            (Some(file), _) => Input::File(file),
            (None, Some(text)) => Input::Text(text),
            (None, None) => return Err(absent(entry).into()),
        };
        let stage = Stage::new(entry)?;
        let check = rules.check(entry.path());
        let poured = filter.run(input, stage.file(), &check, lock, signals, talk)?;
        let bytes = poured.map_err(|spilled| {
            spilled.error(entry.path(), "what the filter has written", "stays as it was")
        })?;
        Ok(Draft::of(stage, bytes).commit(entry, lock, rules)?)
    }
}

fn absent(entry: &Entry) -> Error {
    let path = escaped_path(entry.path());
    let message = format!(
        "{path} does not exist; write it first, or say what the filter is to get instead: --initial '{{}}'"
    );
    Error::new(Code::NoTarget, message)
}
