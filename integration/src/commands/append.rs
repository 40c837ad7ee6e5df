//! `beadlock append file:PATH`: whole lines from standard input at the end of the file.

use std::io;

use beadlock_checker::internal::escape::escaped_path;
use clap::Args;
use serde_json::{Value, json};

use super::write::STDIN;
use crate::claim::attendant::Stopped;
use crate::claim::signals::Signals;
use crate::error::{End, Error, Replaced};
use crate::files::append::{Lines, append as append_lines};
use crate::files::entry::Entry;
use crate::files::json::Format;
use crate::output::Common;
use crate::output::answers::conclude;
use crate::output::envelope::Request;
use crate::output::talk::Talk;
use crate::protocol::file::command::{self, Checked, Locked, OnFile};
use crate::settings::environment::Environment;

/// What the help says after the options.
const HELP: &str = "\
The lines are read to their end and checked before the lock is waited for; the default format is jsonl, whatever the file is called. They \
are added in one write and synced; where there is no room for all of them, none of them stays. A last line of the file that has no end, as \
a crash leaves it, is kept apart, and a warning says where it is. No backup is made.

Exit 0: added. Else the file is as it was, unless it is said to be added, and 1: a line is not what it has to be, or there is no room. 2: usage. 8: the lock was not obtained. \
9: it was lost.";

/// `beadlock append file:PATH`
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Typed {
    #[command(flatten)]
    pub on: OnFile,
    #[command(flatten)]
    pub checked: Checked,
}

/// Appends, and says how the program is to end.
pub fn run(typed: &Typed, environment: &Environment, common: &Common, request: &Request) -> End {
    let added = append(typed, environment, &common.talk, request)
        .map_err(|stopped| stopped.end(" before anything was added", Replaced::default()));
    conclude(common, request, added)
}

fn append(
    typed: &Typed,
    environment: &Environment,
    talk: &Talk,
    request: &Request,
) -> Result<Value, Stopped> {
    let target = typed.on.target("append", environment)?;
    let wait = typed.on.patience(environment)?;
    if typed.checked.format == Some(Format::Json) {
        let message =
            "what is added are lines: --format jsonl has a JSON value in each, --format any has any lines";
        return Err(Error::usage(message).into());
    }
    let rules = typed.checked.rules(Format::JsonLines)?;
    let lines = Lines::read(io::stdin().lock(), &rules.check(target.file()))
        .map_err(|spilled| spilled.error(target.file(), STDIN, "stays as it was"))?;
    let trail = typed.on.trail(&target, environment, request, talk)?;
    let mut signals = Signals::block()?;
    let locked = Locked::take(&target, wait, environment, &mut signals, &trail, None)?;
    let added = Entry::open(target.file())
        .and_then(|entry| locked.lock.alone(|| append_lines(&entry, &locked.lock, &lines)));
    let (added, times) = locked.end(added)?;
    if let Some(torn) = &added.torn {
        talk.warn(&format!("{}: {torn}", escaped_path(&added.path)));
    }
    talk.say(&added.to_string());
    let mut answer = command::answer(&target, times);
    let torn = added.torn.map(|torn| json!({ "offset": torn.offset, "length": torn.length }));
    answer.insert("lines".to_owned(), added.lines.into());
    answer.insert("bytes".to_owned(), added.bytes.into());
    answer.insert("offset".to_owned(), added.offset.into());
    answer.insert("created".to_owned(), added.created.into());
    answer.insert("torn".to_owned(), json!(torn));
    Ok(Value::Object(answer))
}
