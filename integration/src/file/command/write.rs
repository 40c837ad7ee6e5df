//! `beadlock write file:PATH`: standard input becomes the file, all of it or none.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use super::{Backups, Checked, OnFile};
use crate::answers::conclude;
use crate::claim::attendant::Stopped;
use crate::claim::signals::Signals;
use crate::envelope::Request;
use crate::environment::Environment;
use crate::exit::{End, Replaced};
use crate::failure::Error;
use crate::file::entry::Entry;
use crate::file::json::Format;
use crate::file::stage::Stage;
use crate::file::target::FileTarget;
use crate::file::write::{Draft, Rules, Written, tidy};
use crate::settings::Common;
use crate::talk::Talk;

/// What standard input is called in what is said of it.
pub const STDIN: &str = "standard input";

/// What the help says after the options.
const HELP: &str = "\
The content is read to its end, checked and put on the disk before the lock is waited for, where the file system has files \
without a name. Then, under the lock: what the file was is PATH.1, PATH.1 is PATH.2, and the new content is renamed over it. Content \
that is what it was before is written like any other. Mode and owner of the file are kept, and a symbolic link stays one: the file behind it \
is written. ACLs and other extended attributes are not kept. Other hard links keep the old content, which is warned of.

Exit 0: written. Else the file is as it was, and 1: the content is not what it has to be, or there is no room. 2: usage. 8: the lock was not \
obtained. 9: it was lost.";

/// `beadlock write file:PATH`
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Typed {
    #[command(flatten)]
    pub on: OnFile,
    #[command(flatten)]
    pub checked: Checked,
    #[command(flatten)]
    pub backups: Backups,
}

/// Writes, and says how the program is to end.
pub fn run(typed: &Typed, environment: &Environment, common: &Common, request: &Request) -> End {
    let written = write(typed, environment, &common.talk)
        .map_err(|stopped| stopped.end(" before the file was written", Replaced::default()));
    conclude(common, request, written)
}

fn write(typed: &Typed, environment: &Environment, talk: &Talk) -> Result<Value, Stopped> {
    let target = typed.on.target("write", environment)?;
    let wait = typed.on.patience(environment)?;
    let rules = typed.checked.rules(Format::of(target.file()))?;
    let rules = typed.backups.of(rules, environment)?;
    let entry = Entry::open(target.file())?;
    // A signal may end this here as it ends any program: nothing has a name yet.
    let draft = match Stage::unnamed(&entry)? {
        Some(stage) => Some(filled(stage, &entry, &rules)?.prepare(&entry)?),
        None => None,
    };
    let mut signals = Signals::block()?;
    let begun = Instant::now();
    let lock = super::lock(&target, wait, environment, &mut signals, talk, None)?;
    let waited = begun.elapsed();
    let written = lock.alone(|| {
        tidy(&entry)?;
        let draft = match draft {
            Some(draft) => draft,
            None => filled(Stage::named(&entry)?, &entry, &rules)?,
        };
        draft.commit(&entry, &lock, &rules)
    });
    Ok(ended(written, &target, lock.age(), waited, talk)?)
}

fn filled<'e>(stage: Stage<'e>, entry: &Entry, rules: &Rules) -> Result<Draft<'e>, Error> {
    let stdin: &mut dyn Read = &mut io::stdin().lock();
    Draft::fill(stage, entry, stdin, STDIN, &rules.check(entry.path()))
}

fn ended(
    written: Result<Written, Error>,
    target: &FileTarget,
    held: Duration,
    waited: Duration,
    talk: &Talk,
) -> Result<Value, Error> {
    let written = written?;
    super::tell(&written, talk);
    Ok(super::answer_of_write(target, &written, waited, held))
}
