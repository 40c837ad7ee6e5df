//! `beadlock update file:PATH -- CMD`: the file through a filter and back, under one lock.

mod filter;

use beadlock_claim::error::Problem;
use std::{ffi::OsString, path::Path, time::Duration};

use beadlock_base::{duration, escape::escaped_path, helper::Helpers};
use beadlock_core::record::file::LockId;
use clap::Args;
use serde_json::Value;

use crate::settings::{self, either};
use crate::targets::file::{Backups, Checked, OnFile, tell};
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::NotAcquired;
use beadlock_claim::protocol::file::{open::OpenLockFile, outer};
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, end_of},
};
use beadlock_files::{
    entry::{Beside, NamedFile},
    json::Format,
    stage::Stage,
    write::{StagedContent, tidy},
};
use beadlock_supervise::{command::Command, signals::Signals};
use filter::{Filter, Input};

/// The default of `--filter-timeout`.
const LIMIT: Duration = Duration::from_secs(60);

const HELP: &str = "\
The filter gets the file on its standard input; its standard output becomes the file, as beadlock write writes \
it, when the filter has ended with 0 and all that it has started has closed that output. Else nothing is changed. \
It is ended with all that it has started when the time is over, when the lock is lost, and when beadlock is \
killed.

Exit 0: written. Else the file is as it was, unless it is said to be written, and the filter's own code says why; \
124: it took too long; 126, 127: it cannot be executed, there is none; 128+N: it was killed by signal N; 1: its \
output is not what the file has to be, there is no room, or there is no file; 2: usage; 5: the file system does \
not answer; 8: the lock was not obtained; 9: it was lost.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct UpdateArgs {
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
    #[arg(long, value_name = "N", value_parser = crate::settings::arguments::own_exit_code())]
    pub own_exit_code: Option<u8>,
    /// The filter and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

pub fn run(
    args: UpdateArgs,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
) -> ProgramEnd {
    let own = ExitCodeOverrides {
        conflict: args.conflict_exit_code,
        own: args.own_exit_code,
    };
    let updated = update(args, helpers, environment, common)
        .map_err(|stopped| end_of(stopped, " before the file was changed", own));
    conclude(common, updated)
}

fn update(
    args: UpdateArgs,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
) -> Result<Value, NotAcquired> {
    let talk = &common.talk;
    let file = args.on.find("update", environment)?;
    let path = file.target.file();
    let rules = args.checked.rules(Format::of(path))?;
    let rules = args.backups.of(rules, environment)?;
    let limit =
        either(args.filter_timeout, "BEADLOCK_FILTER_TIMEOUT", environment)?.unwrap_or(LIMIT);
    let kill_after = settings::kill_after(args.kill_after, environment)?;
    let command = Command::find(args.command, environment.get("PATH"))?;
    let trail = args.on.trail(&file, &common.request, talk)?;
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let (device, inode) = OpenLockFile::open(&file.target)?.inode();
    let id = LockId {
        device,
        inode,
        pid: std::process::id().cast_signed(),
    };
    let updates = outer::updates_with(id, environment);
    let filter = Filter::fork(
        command,
        environment,
        updates,
        &signals,
        helpers,
        kill_after,
        limit,
    )?;
    let child = Some(filter.pid());
    let (written, answer) = file.under_lock(&mut signals, &trail, child, |lock, signals| {
        let entry = NamedFile::open(path)?;
        tidy(&entry, rules.kept())?;
        let input = match (entry.read(Beside::Itself)?, args.initial) {
            (Some(file), _) => Input::File(file),
            (None, Some(text)) => Input::Text(text.into_encoded_bytes()),
            (None, None) => return Err(absent(entry.path()).into()),
        };
        let stage = Stage::new(&entry)?;
        let check = rules.check(entry.path());
        let poured = filter.run(input, stage.file(), &check, lock, signals, talk)?;
        let bytes =
            poured.map_err(|spilled| spilled.error(entry.path(), "what the filter has written"))?;
        Ok(StagedContent::of(stage, bytes).commit(lock, &rules)?)
    })?;
    Ok(tell(&written, answer, talk))
}

fn absent(path: &Path) -> Error {
    let words =
        "does not exist; write it first, or say what the filter is to get instead: --initial '{}'";
    Error::new(Code::NoTarget, format!("{} {words}", escaped_path(path)))
}
