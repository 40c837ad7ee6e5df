//! `beadlock append file:PATH`: whole lines from standard input at the end of the file.

use beadlock_claim::error::Problem;
use std::io;

use beadlock_base::escape::escaped_path;
use clap::Args;
use serde_json::{Value, json};

use super::write::STDIN;
use crate::targets::file::{Checked, OnFile};
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::observe::NotAcquired;
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, end_of},
};
use beadlock_files::{
    append::{WholeLines, append as append_lines},
    entry::NamedFile,
    json::Format,
};
use beadlock_supervise::signals::Signals;

const HELP: &str = "\
The lines are read to their end and checked before the lock is waited for; the default format is jsonl, whatever \
the file is called. They are added in one write and synced; where there is no room for all of them, none of them \
stays. A last line of the file that has no end, as a crash leaves it, is kept apart, and a warning says where it \
is. No backup is made.

Exit 0: added. Else the file is as it was, unless it is said to be added, and 1: a line is not what it has to be, \
or there is no room. 2: usage. 5: the file system does not answer. 8: the lock was not obtained. 9: it was lost.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct AppendArgs {
    #[command(flatten)]
    pub on: OnFile,
    #[command(flatten)]
    pub checked: Checked,
}

pub fn run(args: &AppendArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let added = append(args, environment, common).map_err(|stopped| {
        end_of(
            stopped,
            " before anything was added",
            ExitCodeOverrides::default(),
        )
    });
    conclude(common, added)
}

fn append(
    args: &AppendArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, NotAcquired> {
    let talk = &common.talk;
    let file = args.on.find("append", environment)?;
    let path = file.target.file();
    if args.checked.format == Some(Format::Json) {
        let message = "what is added are lines: --format jsonl has a JSON value in each, --format any has any lines";
        return Err(Error::usage(message).into());
    }
    let rules = args.checked.rules(Format::JsonLines)?;
    let lines = WholeLines::read(io::stdin().lock(), STDIN, path, &rules.check(path))?;
    let trail = args.on.trail(&file, &common.request, talk)?;
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let (added, mut answer) = file.under_lock(&mut signals, &trail, None, |lock, _| {
        Ok(append_lines(&NamedFile::open(path)?, lock, &lines)?)
    })?;
    if let Some(torn) = &added.torn {
        talk.warn(&format!("{}: {torn}", escaped_path(&added.path)));
    }
    talk.say(&added.to_string());
    answer["lines"] = added.lines.into();
    answer["bytes"] = added.bytes.into();
    answer["offset"] = added.offset.into();
    answer["created"] = added.created.into();
    answer["torn"] = json!(
        added
            .torn
            .map(|torn| json!({ "offset": torn.offset, "length": torn.length }))
    );
    Ok(answer)
}
