//! `beadlock release`: ends a claim that `acquire` has made; only one's own (DESIGN 8).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::take::{Adopted, Held, Site};
use beadlock_checker::{Gate, Options};
use clap::Args;
use serde_json::{Value, json};

use crate::envelope::Request;
use crate::environment::Environment;
use crate::exit::{End, Exit};
use crate::failure::{Code, Error};
use crate::hold::claim::{Stopped, Unattended};
use crate::hold::leaving::{Leaving, Left, Why};
use crate::hold::{gate, nested};
use crate::settings::{self, Common};
use crate::talk::print;
use crate::target::Found;
use crate::trail::Trail;

/// `beadlock release [TARGET] [--id ID]`
#[derive(Debug, Args)]
pub struct Typed {
    /// The database's directory, [beads:]DIR, or lock:PATH [env: BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The id that acquire has printed [env: BEADLOCK_ID]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Add a JSON line to FILE [env: BEADLOCK_AUDIT]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

/// For how long the gate is waited for: while the lock stands, a daemon has it for moments only.
const PATIENCE: Duration = Duration::from_secs(130);

/// Releases, or says why not.
pub fn run(typed: &Typed, environment: &Environment, common: &Common, request: &Request) -> End {
    let (data, error) = match release(typed, environment, common, request) {
        Ok(data) => (data, None),
        Err(error) => (Value::Null, Some(error)),
    };
    common.talk.end_live();
    if let Some(error) = &error {
        common.talk.error(&error.to_string());
    }
    if common.json {
        let envelope = request.envelope(data, error.as_ref(), &common.talk.warnings());
        if let Err(why) = print(&format!("{envelope}\n")) {
            common.talk.error(&format!("failed to write to stdout: {why}"));
        }
    }
    End::Code(error.map_or(Exit::Done, |error| error.exit).code())
}

fn release(
    typed: &Typed,
    environment: &Environment,
    common: &Common,
    request: &Request,
) -> Result<Value, Error> {
    let talk = &common.talk;
    let id = match typed.id.as_ref().filter(|id| !id.is_empty()) {
        Some(id) => Some(id.clone()),
        None => environment.parsed("BEADLOCK_ID", |id| Ok(id.to_owned()))?,
    };
    let Some(id) = id else {
        return Err(Error::usage(
            "no id: nothing was acquired here, so there is nothing to release; with the id that acquire has printed: \
             beadlock release --id ID, or BEADLOCK_ID in the environment",
        ));
    };
    let target = Found::resolve(typed.target.as_deref(), environment)?;
    let answer = |released: bool, held: Option<Duration>| {
        json!({
            "target": target.name(),
            "path": target.path().to_string_lossy(),
            "id": id,
            "released": released,
            "held_ms": held.map(|held| u64::try_from(held.as_millis()).unwrap_or(u64::MAX)),
        })
    };
    if nested::is_nested(&id, &target, environment) {
        talk.say_more(&format!("{} is held by an outer claim, which is not released here", target.given));
        return Ok(answer(false, None));
    }
    let audit = settings::audit(typed.audit.as_deref(), environment);
    let held = match adopt(&target, &id)? {
        Adopted::Held(held) => held,
        Adopted::Gone => {
            talk.warn(&format!(
                "{} is not there any more: it was released, its time was over, or somebody removed it",
                escaped_path(&target.path())
            ));
            return Ok(answer(false, None));
        }
        Adopted::NotOurs(record) => {
            let whose = record.map_or("somebody else's".to_owned(), |record| {
                format!(
                    "{}'s (PID {}, on {})",
                    escaped(&record.holder),
                    record.pid,
                    escaped(&record.hostname)
                )
            });
            let (path, id, typed) = (escaped_path(&target.path()), escaped(&id), target.typed());
            let message = format!(
                "{path} is {whose} now and was not touched: the claim {id} was lost; who and why: beadlock status {typed}"
            );
            return Err(Error::new(Code::LockLost, message).detailed(format!("lock_file={path}")));
        }
        Adopted::Unreadable(why) => {
            let (path, typed) = (escaped_path(&target.path()), target.typed());
            let message = format!("{path} was not touched: {why}; look at it: beadlock status {typed}");
            return Err(Error::new(Code::LockUnreadable, message).detailed(format!("lock_file={path}")));
        }
    };
    let holder = held.record().holder.clone();
    // What is not written down is said; the lock must not stay for that.
    let trail = Trail::open(audit.as_deref(), Some(&holder), &target, request, talk).or_else(|error| {
        talk.warn(&error.to_string());
        Trail::open(None, None, &target, request, talk)
    })?;
    let age = held.age();
    let leaving = Leaving { target: &target, patience: PATIENCE, talk, trail: &trail };
    match leaving.end(held, None, Why::RELEASED, &mut Unattended) {
        Left::Released => Ok(answer(true, Some(age))),
        Left::Lost(error) => Err(error),
        Left::Stuck => Err(Error::new(
            Code::Io,
            format!("{} was not released; try again, or end its process", escaped_path(&target.path())),
        )),
    }
}

/// Under the gate, for the lock may be aside; where there can be no gate, as it is.
fn adopt(target: &Found, id: &str) -> Result<Adopted, Error> {
    let taken = gate::take(target.dir(), target.dir(), PATIENCE, &mut Unattended);
    let gate: Result<Gate, _> = match taken {
        Ok(gate) => gate,
        Err(Stopped::Failed(error)) => return Err(error),
        Err(Stopped::Signalled(signal)) => return Err(Error::new(Code::Io, format!("stopped by {signal}"))),
    };
    Ok(match gate {
        Ok(gate) => Site::new(&gate, &Options::default()).with_names(target.place.names()).adopt(id)?,
        Err(_) => Held::adopt(&target.place, id)?,
    })
}
