//! `beadlock write file:PATH`: standard input becomes the file, all of it or none.

use std::io::{self, Read};
use std::{os::fd::AsFd, time::Duration};

use clap::Args;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::targets::file::{Backups, Checked, OnFile, tell};
use beadlock_base::poll::wait_for;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::observe::NotAcquired;
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, end_of},
};
use beadlock_files::{
    entry::NamedFile,
    json::Format,
    stage::Stage,
    write::{StagedContent, tidy},
};
use beadlock_supervise::signals::Signals;

/// The longest pause between two looks for signals while it reads.
const NET: Duration = Duration::from_secs(5);

/// The name of standard input in messages.
pub const STDIN: &str = "standard input";

const HELP: &str = "\
The content is read to its end, checked and put on the disk before the lock is waited for, where the file system \
has files without a name. Then, under the lock, it is renamed over the file, what the file was becomes PATH.1, \
and PATH.1 becomes PATH.2. A write that fails moves no backup. Content that is what it was before is written like \
any other. Mode, ACL and owner of the file are kept, and a symbolic link stays one: the file behind it is \
written. Other extended attributes are not kept. Other hard links keep the old content, which is warned of.

Exit 0: written. Else the file is as it was, unless it is said to be written, and 1: the content is not what it \
has to be, or there is no room. 2: usage. 5: the file system does not answer. 8: the lock was not \
obtained. 9: it was lost.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct WriteArgs {
    #[command(flatten)]
    pub on: OnFile,
    #[command(flatten)]
    pub checked: Checked,
    #[command(flatten)]
    pub backups: Backups,
}

pub fn run(args: &WriteArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let written = write(args, environment, common).map_err(|stopped| {
        end_of(
            stopped,
            " before the file was written",
            ExitCodeOverrides::default(),
        )
    });
    conclude(common, written)
}

fn write(
    args: &WriteArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, NotAcquired> {
    let file = args.on.find("write", environment)?;
    let path = file.target.file();
    let rules = args.checked.rules(Format::of(path))?;
    let rules = args.backups.of(rules, environment)?;
    let trail = args.on.trail(&file, &common.request, &common.talk)?;
    let entry = NamedFile::open(path)?;
    let fill = |stage, from: &mut dyn Read| {
        StagedContent::fill(stage, from, STDIN, &rules.check(entry.path()))
    };
    // A signal may end this here as it ends any program: nothing has a name yet.
    let unnamed = Stage::unnamed(&entry)?;
    let draft = unnamed
        .map(|stage| fill(stage, &mut io::stdin().lock())?.prepare())
        .transpose()?;
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let (written, answer) = file.under_lock(&mut signals, &trail, None, |lock, signals| {
        tidy(&entry, rules.kept())?;
        let draft = match draft {
            Some(draft) => draft,
            None => {
                let mut heard = Heard {
                    signals,
                    stopped: None,
                };
                let filled = fill(Stage::named(&entry)?, &mut heard);
                filled
                    .map_err(|error| heard.stopped.map_or(error.into(), NotAcquired::Signalled))?
            }
        };
        Ok(draft.commit(lock, &rules)?)
    })?;
    Ok(tell(&written, answer, &common.talk))
}

/// Standard input while signals do not end this program: one of them ends the reading.
struct Heard<'s> {
    signals: &'s mut Signals,
    stopped: Option<Signal>,
}

impl Read for Heard<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let stdin = io::stdin();
            let [is_ready, _] = wait_for([Some(stdin.as_fd()), Some(self.signals.as_fd())], NET);
            while let Some(received) = self.signals.receive() {
                if received.signal != Signal::SIGCHLD {
                    self.stopped = Some(received.signal);
                    return Err(io::Error::other(format!("ended by {}", received.signal)));
                }
            }
            if is_ready {
                return stdin.lock().read(bytes);
            }
        }
    }
}
