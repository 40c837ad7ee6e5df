//! `beadlock release`: ends a claim that `acquire` has made; only one's own (docs/design.md#claims-that-last).

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::Options;
use beadlock_checker::internal::escape::{escaped, escaped_path};
use beadlock_checker::internal::take::{Adopted, Held, Site};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::claim::attendant::Unattended;
use crate::claim::leaving::{Leaving, Left, Why};
use crate::claim::{gate, nested};
use crate::error::{Code, End, Error};
use crate::file::{self, FileTarget};
use crate::output::Common;
use crate::output::answers::conclude;
use crate::output::envelope::Request;
use crate::output::files::{self, Output};
use crate::output::trail::Trail;
use crate::settings;
use crate::settings::environment::Environment;
use crate::target::Found;
use crate::tower;
use crate::words::{Part, millis, to_type};

/// `beadlock release [TARGET] [--id ID]`
#[derive(Debug, Args)]
pub struct Typed {
    /// The database's directory, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH [env: BEADLOCK_TARGET]
    /// [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The id that acquire has printed [env: BEADLOCK_ID]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Add a JSON line to FILE [env: BEADLOCK_AUDIT]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// What became of the work, for the audit: success, failure [default: success, with --failure-step failure]
    #[arg(long, value_name = "RESULT", hide_possible_values = true, help_heading = tower::options::HEADING)]
    pub result: Option<Worked>,
    #[command(flatten)]
    pub failure: tower::options::FailureStep,
}

/// What became of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Worked {
    /// It is done.
    Success,
    /// It is not.
    Failure,
}

/// For how long the gate is waited for: while the lock stands, a daemon has it for moments only.
const PATIENCE: Duration = Duration::from_secs(130);

/// Releases, or says why not.
pub fn run(typed: &Typed, environment: &Environment, common: &Common, request: &Request) -> End {
    let released =
        release(typed, environment, common, request).map_err(|error| (End::Code(error.exit.code()), error));
    conclude(common, request, released)
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
             beadlock release --id ID, or BEADLOCK_ID in the environment (after eval it must be exported: set -a; eval \
             \"$claim\"; set +a)",
        ));
    };
    let meant = FileTarget::meant(typed.target.as_deref(), environment)?;
    if let Some(target) = meant {
        if typed.audit.is_some() {
            let why = "the keeper writes into the file that acquire was told";
            return Err(file::options::means_nothing("--audit of release", why));
        }
        tower::options::refuse_for(
            &target.given(),
            typed.result.map(|_| "--result").or(typed.failure.given()),
        )?;
        return file::release::release(target, &id, talk);
    }
    let target = Found::resolve(typed.target.as_deref(), environment)?;
    let given = typed.result.map(|_| "--result").or(typed.failure.given());
    let is_named = target.lock_name().is_some();
    if !is_named {
        tower::options::refuse_for(&target.given, given)?;
    }
    if typed.result == Some(Worked::Success) && typed.failure.failure_step.is_some() {
        return Err(Error::usage("--result success, and --failure-step: which of the two is it?"));
    }
    let answer = |released: bool, held: Option<Duration>| {
        json!({
            "target": target.name(),
            "path": target.path().to_string_lossy(),
            "id": id,
            "released": released,
            "held_ms": held.map(millis),
        })
    };
    if let Some(outer) = nested::outer_of(&id, &target, environment) {
        if !nested::stands(outer, &target) {
            talk.warn(&format!(
                "the outer claim {} of {} is not there any more: it was released, its time or its process was over, or \
                 somebody removed it",
                escaped(outer),
                escaped_path(&target.path())
            ));
        } else if nested::is_of_hold(outer, &target, environment) {
            talk.say(&format!(
                "{} is still held by the outer claim, a hold, which ends it with its command",
                target.given
            ));
        } else {
            talk.say(&format!(
                "{} is still held by the outer claim; to end that: {}",
                target.given,
                to_type("beadlock release {} {}", &[target.part(), Part::Value("--id", outer.as_ref())])
            ));
        }
        return Ok(answer(false, None));
    }
    // The document's words.
    let not_ours = if target.has_age() { "We don't hold the lock. " } else { "" };
    let audit = settings::audit(typed.audit.as_deref(), environment);
    files::refuse(Output::Audit, audit.as_deref(), &[&target.path()])?;
    let found = if target.is_nowhere() { Adopted::Gone } else { find(&target, &id, environment, PATIENCE)? };
    let held = match found {
        Adopted::Held(held) => held,
        Adopted::Gone => {
            talk.warn(&format!(
                "{not_ours}{} is not there any more: it was released, its time was over, or somebody removed it",
                escaped_path(&target.path())
            ));
            return Ok(answer(false, None));
        }
        Adopted::NotOurs(record) => {
            let whose = record.map_or("somebody else's".to_owned(), |record| {
                format!(
                    "{}'s (PID {}, on {})",
                    escaped(record.holder()),
                    record.pid(),
                    escaped(record.hostname())
                )
            });
            let (path, id) = (escaped_path(&target.path()), escaped(&id));
            let look = to_type("beadlock status {}", &[target.part()]);
            let message = format!(
                "{not_ours}{path} is {whose} now and was not touched: the claim {id} was lost; who and why: {look}"
            );
            return Err(Error::new(Code::LockLost, message).detailed(format!("lock_file={path}")));
        }
        Adopted::Unreadable(why) => {
            let path = escaped_path(&target.path());
            let look = to_type("beadlock status {}", &[target.part()]);
            let message = format!("{path} was not touched: {why}; look at it: {look}");
            return Err(Error::new(Code::LockUnreadable, message).detailed(format!("lock_file={path}")));
        }
    };
    let holder = held.record().holder().to_owned();
    // What is not written down is said; the lock must not stay for that.
    let trail = if is_named {
        Trail::of_named(audit.as_deref(), &id, target.for_trail(), request, talk)?
    } else {
        Trail::open(audit.as_deref(), Some(&holder), target.for_trail(), request, talk).or_else(|error| {
            talk.warn(&error.to_string());
            Trail::open(None, None, target.for_trail(), request, talk)
        })?
    };
    let step = typed.failure.failure_step.as_deref();
    let step = step.map(str::to_owned).or_else(|| {
        let file =
            environment.get(tower::work::RESULT_FILE).filter(|_| typed.result == Some(Worked::Failure));
        tower::fields::failure_step(None, file.map(Path::new))
    });
    let has_failed = step.is_some() || typed.result == Some(Worked::Failure);
    let why = if has_failed { Why::RELEASED_AFTER_FAILURE } else { Why::RELEASED };
    let age = held.age();
    let leaving =
        Leaving { target: &target, patience: PATIENCE, talk, trail: &trail, failure_step: step.as_deref() };
    match leaving.end(held, None, why, &mut Unattended) {
        Left::Released => Ok(answer(true, Some(age))),
        Left::Lost(error) => Err(error),
        Left::Stuck => Err(Error::new(
            Code::Io,
            format!("{} was not released; try again, or end its process", escaped_path(&target.path())),
        )),
    }
}

/// Whose lock is there now. Only one's own lock has to be changed, and only one that a crash has left aside to be put
/// back: for anything else no cycle is waited for. Gone is what is absent, not aside, and absent still.
fn find(target: &Found, id: &str, environment: &Environment, patience: Duration) -> Result<Adopted, Error> {
    let is_aside = || {
        let there = fs::symlink_metadata(target.place.aside());
        !there.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let is_not_ours = || !matches!(Held::adopt(&target.place, id), Ok(Adopted::Held(_)) | Err(_));
    if is_not_ours() && !is_aside() {
        match Held::adopt(&target.place, id)? {
            Adopted::Held(_) => {}
            answer => return Ok(answer),
        }
    }
    nested::refuse_to(target, environment, "release")?;
    let advice = "nothing is released yet: try again when that has ended";
    Ok(match gate::take_or_advise(target.dir(), patience, advice, &mut Unattended)? {
        Ok(gate) => Site::new(&gate, &Options::default()).with_names(target.place.names()).adopt(id)?,
        Err(_) => Held::adopt(&target.place, id)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::guard::Hold;
    use beadlock_checker::internal::Gate;

    #[test]
    fn a_gate_that_stays_shut_keeps_only_ones_own_lock() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(".beads");
        fs::create_dir(&dir).unwrap();
        let nowhere = Environment::default();
        let target = Found::resolve(Some(dir.as_os_str()), &nowhere).unwrap();
        let claim = Hold::on(&dir).claim().unwrap();
        let gate = Gate::try_take(&dir).unwrap().unwrap();
        let find = |id: &str| find(&target, id, &nowhere, Duration::from_millis(50));
        assert!(matches!(find("other"), Ok(Adopted::NotOurs(Some(_)))));
        let error = find(claim.id()).unwrap_err();
        assert_eq!(error.code(), Code::DrainTimeout);
        let words = error.to_string();
        assert!(words.contains("did not open within 50ms") && words.contains("try again when"), "{words}");
        assert!(!words.contains("--drain"), "{words}");
        // Aside it may be ours.
        fs::write(dir.join(".exclusive-lock.aside"), "").unwrap();
        assert_eq!(find("other").unwrap_err().code(), Code::DrainTimeout);
        drop(gate);
        assert!(matches!(find(claim.id()), Ok(Adopted::Held(_))));
        claim.release().unwrap();
    }
}
