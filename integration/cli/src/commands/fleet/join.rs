//! `beadlock fleet join NAME [TARGET]`: the mark is written under the gate, after a cycle that runs there has ended.

use beadlock_claim::error::Problem;
use std::ffi::OsString;
use std::time::Duration;

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::{Options, Verdict};
use beadlock_core::{
    facts,
    look::{Look, look},
    redirect::refuse_tracked_mark,
};
use beadlock_fleet::{Fleet, Mark, MemberValue, Name, SeenMember, Who, mark};
use clap::Args;
use serde_json::{Value, json};

use super::database;
use crate::fleet::config::config;
use crate::fleet::error::fleet_error;
use beadlock_base::words::counted;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::NotAcquired;
use beadlock_claim::words;
use beadlock_claim::{gate, target::Target};
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, end_of},
};
use beadlock_session::interactive_wait::InteractiveWait;
use beadlock_supervise::signals::Signals;

/// How long to wait for a cycle that is running, as a claim does.
const DRAIN: Duration = Duration::from_secs(130);

const EXAMPLES: &str = "\
Examples:
  beadlock fleet join acme/tracker
  beadlock fleet join acme/tracker path/to/.beads";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = super::EXITS)]
pub struct JoinArgs {
    /// What the database is called in the fleet, the same in each clone: 1 to 200 of a-z 0-9 . _ - and / between
    /// parts
    #[arg(value_name = "NAME", value_parser = Name::parse)]
    pub name: Name,
    /// The database's directory [env: BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
}

pub fn run(typed: &JoinArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let joined = join(typed, environment, common).map_err(|stopped| {
        end_of(
            stopped,
            "; this clone has not joined",
            ExitCodeOverrides::default(),
        )
    });
    conclude(common, joined)
}

fn join(
    typed: &JoinArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, NotAcquired> {
    let (talk, name) = (&common.talk, &typed.name);
    let target = database(typed.target.as_deref(), environment)?;
    target.refuse_tracked()?;
    refuse_tracked_mark(target.dir()).map_err(Error::from)?;
    let fleet = Fleet::open(&config(environment)?).map_err(fleet_error)?;
    let before = mark::read_in(target.dir()).map_err(fleet_error)?;
    let mark = match &before {
        Some(mark) if mark.fleet == fleet.nonce() && mark.name == *name => mark.clone(),
        Some(mark) if mark.fleet == fleet.nonce() => return Err(joined_as(&mark.name, name).into()),
        _ => Mark::of_new_clone(fleet.nonce(), name),
    };
    refuse_held(&target)?;
    let path = target.dir().to_string_lossy().into_owned();
    let Who { host, version, .. } = Who::this_process();
    let member = MemberValue {
        host,
        path: path.clone(),
        version,
        since: facts::now(),
    };
    fleet.join(&mark, &member).map_err(fleet_error)?;
    if before.as_ref() != Some(&mark) {
        // Not under the gate is a cycle that has not seen the mark.
        let marked = marked(&target, &mark, before.is_some(), common);
        if marked.is_err() {
            let _ = fleet.leave(&mark);
        }
        marked?;
    }
    let others: Vec<SeenMember> = others(&fleet, &mark)?;
    let url = fleet.url();
    match &before {
        Some(before) if *before == mark => {
            talk.say(&format!("{} has joined as {name} already", target.given))
        }
        Some(_) => talk.say(&format!(
            "joined {name} in the fleet at {url}, which was made since this clone joined"
        )),
        None => talk.say(&format!(
            "joined {name} in the fleet at {url}; {}",
            said_of(&others)
        )),
    }
    let others: Vec<Value> = others.iter().map(json_of).collect();
    let (clone, target) = (&mark.clone, target.name());
    Ok(json!({
        "target": target, "path": path, "name": name, "clone": clone, "fleet": mark.fleet, "url": url,
        "others": others,
    }))
}

fn joined_as(name: &Name, wanted: &Name) -> Error {
    let message = format!(
        "this clone has joined as {name}; to change that: beadlock fleet leave, then beadlock fleet join {wanted}"
    );
    Error::new(Code::Io, message)
}

/// A claim that began without the fleet would not be seen in it.
fn refuse_held(target: &Target) -> Result<(), Error> {
    let Look {
        verdict, record, ..
    } = look(&target.place, &Options::default());
    match verdict {
        Verdict::Free | Verdict::Stale(_) => Ok(()),
        Verdict::Held(_) => {
            let holder = record
                .as_ref()
                .map(|record| escaped(record.holder()).to_string())
                .unwrap_or_default();
            let age = record.as_ref().and_then(words::age_of_record);
            let held = format!(
                "{} is claimed by {holder}; a clone joins when it is free: beadlock wait",
                target.given
            );
            let error = Error::new(Code::LockHeld, held).retry_on_a_lock_of(age);
            Err(match &record {
                Some(record) => error.held_by(beadlock_claim::error::holder_of_record(
                    &target.path(),
                    record,
                    age,
                )),
                None => error,
            })
        }
        Verdict::Unreadable(_) => {
            let words = format!(
                "the lock of {} cannot be understood; type: beadlock status",
                target.given
            );
            Err(Error::new(Code::LockUnreadable, words))
        }
    }
}

/// Writes the mark when no cycle runs.
fn marked(
    target: &Target,
    mark: &Mark,
    is_there: bool,
    common: &Console,
) -> Result<(), NotAcquired> {
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let mut control = InteractiveWait::wait_of(&mut signals, &common.talk, None);
    let gate = gate::take_or_advise(target.dir(), DRAIN, "try again later", &mut control)?;
    common.talk.end_live();
    if let Err(why) = &gate {
        common.talk.warn(&format!(
            "there is no gate here ({why}): a cycle that is running now is not waited for"
        ));
    }
    let dir = target.dir();
    let written = if is_there {
        mark::replace(dir, mark).map(|()| true)
    } else {
        mark::write(dir, mark)
    };
    match written.map_err(fleet_error)? {
        true => Ok(()),
        false => {
            let message = format!(
                "{} was joined by somebody else just now; try again",
                escaped_path(dir)
            );
            Err(Error::new(Code::Io, message).into())
        }
    }
}

/// The other clones of the name.
fn others(fleet: &Fleet, mark: &Mark) -> Result<Vec<SeenMember>, Error> {
    let overview = fleet.overview().map_err(fleet_error)?;
    let is_other = |member: &SeenMember| member.name == mark.name && member.clone != mark.clone;
    Ok(overview.members.into_iter().filter(is_other).collect())
}

fn said_of(others: &[SeenMember]) -> String {
    if others.is_empty() {
        return "no other clone has joined under this name yet".to_owned();
    }
    /// How many other clones the message names.
    const NAMED: usize = 5;
    let named = others.iter().take(NAMED).map(|other| {
        let MemberValue { host, path, .. } = &other.value;
        format!("{} on {}", escaped(path), escaped(host))
    });
    let more = if others.len() > NAMED { ", …" } else { "" };
    let count = counted(others.len(), "other clone", "other clones");
    format!("{count}: {}{more}", named.collect::<Vec<_>>().join(", "))
}

/// A clone, for programs.
pub fn json_of(member: &SeenMember) -> Value {
    let MemberValue {
        host,
        path,
        version,
        since,
    } = &member.value;
    json!({
        "name": member.name, "clone": member.clone, "host": host, "path": path, "version": version, "since": since,
        "seen": member.is_seen,
    })
}
