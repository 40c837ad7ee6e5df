//! `beadlock release`: ends a claim that `acquire` has made; only one's own (docs/design.md#claims-that-last).

use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, io::ErrorKind, time::Duration};

use beadlock_checker::Options;
use beadlock_checker::internal::take::{Adopted, Held, Site};
use beadlock_checker::internal::{dialect::Record, escape::escaped, escape::escaped_path};
use clap::Args;
use serde_json::{Value, json};

use crate::claim::leaving::{Enders, Leaving, Left, Why};
use crate::claim::{attendant::Unattended, gate, nested, target::Target};
use crate::error::{Code, End, Error};
use crate::output::{Common, answers::conclude, refuse_lock_file, trail::Trail};
use crate::protocol::{Acceptance, ReleaseArgs, refuse_options, resolve};
use crate::run::steps::{RESULT_FILE, failure_step};
use crate::settings::{self, environment::Environment};
use crate::words::{Part, millis, to_type};

const EXAMPLES: &str = "\
Examples:
  beadlock release
  beadlock release tower:app-prod --id req_8f3a";

const EXITS: &str = "\
Exit codes:
  0  released, or the lock was gone already, which is a warning
  1  beadlock failed
  2  the command line is wrong, or neither --id nor $BEADLOCK_ID is given
  9  somebody else holds the lock now; it is left alone";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct ReleaseCommandArgs {
    /// The database's directory, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH [env: BEADLOCK_TARGET]
    /// [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The id that acquire has printed [env: BEADLOCK_ID]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Add a JSON line to FILE [env: BEADLOCK_AUDIT]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    #[command(flatten)]
    pub protocol: ReleaseArgs,
}

/// How long to wait for the gate. While the lock stands, a daemon has it for moments only.
const PATIENCE: Duration = Duration::from_secs(130);

pub fn run(typed: &ReleaseCommandArgs, environment: &Environment, common: &Common) -> End {
    let released =
        release(typed, environment, common).map_err(|error| (End::Code(error.exit.code()), error));
    conclude(common, released)
}

fn release(
    typed: &ReleaseCommandArgs,
    environment: &Environment,
    common: &Common,
) -> Result<Value, Error> {
    let id = id_of(typed, environment)?;
    let target = resolve(typed.target.as_deref(), environment, Acceptance::Any)?;
    let mut given = typed.protocol.given();
    given.extend(typed.audit.as_ref().map(|_| "--audit of release"));
    refuse_options(target.protocol, &target.given, &given)?;
    let (step, has_failed) = typed.protocol.outcome()?;
    let releasing = Releasing {
        target: &target,
        id: &id,
        environment,
        common,
    };
    let talk = &common.talk;
    if let Some(kernel) = target.protocol.without_record() {
        return Ok(releasing.answer(kernel.release(&target, &id, talk)?, None));
    }
    if let Some(outer) = nested::outer_of(&id, &target, environment) {
        releasing.say_outer(outer);
        return Ok(releasing.answer(false, None));
    }
    let audit = settings::audit(typed.audit.as_deref(), environment);
    refuse_lock_file("--audit", audit.as_deref(), &[&target.path()])?;
    let Some(held) = releasing.find()? else {
        return Ok(releasing.answer(false, None));
    };
    let trail = releasing.trail(audit.as_deref(), held.record())?;
    let step = step.map(str::to_owned).or_else(|| {
        let file = environment.get(RESULT_FILE).filter(|_| has_failed);
        failure_step(None, file.map(Path::new))
    });
    let has_failed = step.is_some() || has_failed;
    let why = if has_failed {
        Why::RELEASED_AFTER_FAILURE
    } else {
        Why::RELEASED
    };
    let age = held.age();
    let leaving = Leaving {
        target: &target,
        enders: Enders::Several,
        patience: PATIENCE,
        trail: &trail,
        failure_step: step.as_deref(),
    };
    match leaving.end(held, None, why, &mut Unattended) {
        Left::Released => Ok(releasing.answer(true, Some(age))),
        Left::Lost(error) => Err(error),
        Left::ByAnother => Ok(releasing.answer(false, None)),
        Left::Stuck => {
            let path = escaped_path(&target.path());
            Err(Error::new(
                Code::Io,
                format!("{path} was not released; try again, or end its process"),
            ))
        }
    }
}

fn id_of(typed: &ReleaseCommandArgs, environment: &Environment) -> Result<String, Error> {
    let id = typed.id.clone().filter(|id| !id.is_empty());
    environment.unless(id, "BEADLOCK_ID", |id| Ok(id.to_owned()))?.ok_or_else(|| {
        Error::usage(
            "no id: nothing was acquired here, so there is nothing to release; with the id that acquire has printed: \
             beadlock release --id ID, or BEADLOCK_ID in the environment (after eval it must be exported: set -a; eval \
             \"$claim\"; set +a)",
        )
    })
}

/// A claim that is to be released.
struct Releasing<'a> {
    target: &'a Target,
    id: &'a str,
    environment: &'a Environment,
    common: &'a Common,
}

impl<'a> Releasing<'a> {
    /// The envelope's `data`.
    fn answer(&self, released: bool, held: Option<Duration>) -> Value {
        json!({
            "target": self.target.name(),
            "path": self.target.path().to_string_lossy(),
            "id": self.id,
            "released": released,
            "held_ms": held.map(millis),
        })
    }

    /// The id names an outer claim, which is not ended from here.
    fn say_outer(&self, outer: &str) {
        let Self {
            target,
            environment,
            common: Common { talk, .. },
            ..
        } = self;
        let (given, path) = (&target.given, escaped_path(&target.path()));
        if !nested::stands(outer, target) {
            talk.warn(&format!(
                "the outer claim {} of {path} is not there any more: it was released, its time or its process was \
                 over, or somebody removed it",
                escaped(outer)
            ));
        } else if nested::is_of_hold(outer, target, environment) {
            talk.say(&format!(
                "{given} is still held by the outer claim, a hold, which ends it with its command"
            ));
        } else {
            let end = to_type(
                "beadlock release {} {}",
                &[target.part(), Part::Value("--id", outer.as_ref())],
            );
            talk.say(&format!(
                "{given} is still held by the outer claim; to end that: {end}"
            ));
        }
    }

    /// The claim's lock; `None`: it is gone, which is said.
    fn find(&self) -> Result<Option<Held>, Error> {
        let Self {
            target,
            id,
            environment,
            common,
        } = self;
        let found = match target.is_nowhere() {
            true => Adopted::Gone,
            false => find(target, id, environment, PATIENCE)?,
        };
        let (not_ours, path) = (
            target.protocol.rules().not_ours,
            escaped_path(&target.path()),
        );
        let look = || to_type("beadlock status {}", &[target.part()]);
        let failed =
            |code, message| Err(Error::new(code, message).detailed(format!("lock_file={path}")));
        match found {
            Adopted::Held(held) => Ok(Some(held)),
            Adopted::Gone => {
                common.talk.warn(&format!(
                    "{not_ours}{path} is not there any more: it was released, its time was over, or somebody removed it"
                ));
                Ok(None)
            }
            Adopted::NotOurs(record) => {
                let whose = match record {
                    None => "somebody else's".to_owned(),
                    Some(record) => {
                        let (holder, host) = (escaped(record.holder()), escaped(record.hostname()));
                        format!("{holder}'s (PID {}, on {host})", record.pid())
                    }
                };
                let message = format!(
                    "{not_ours}{path} is {whose} now and was not touched: the claim {} was lost; who and why: {}",
                    escaped(id),
                    look()
                );
                failed(Code::LockLost, message)
            }
            Adopted::Unreadable(why) => {
                let message = format!("{path} was not touched: {why}; look at it: {}", look());
                failed(Code::LockUnreadable, message)
            }
        }
    }

    /// The trail. A file that cannot be opened is warned of: the lock must not stay for that.
    fn trail(&self, file: Option<&Path>, record: &Record) -> Result<Trail<'a>, Error> {
        let of = (Some(record.holder()), Some(self.id));
        let Common { talk, request, .. } = self.common;
        self.target.trail(file, of, request, talk).or_else(|error| {
            talk.warn(&error.to_string());
            self.target.trail(None, of, request, talk)
        })
    }
}

/// Whose lock is there now. Only one's own lock is changed, and only a lock that a crash has left aside is put back:
/// for anything else no cycle is waited for. A lock is gone when it is absent, not aside, and still absent.
fn find(
    target: &Target,
    id: &str,
    environment: &Environment,
    patience: Duration,
) -> Result<Adopted, Error> {
    let is_aside = || {
        !fs::symlink_metadata(target.place.aside())
            .is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let is_not_ours = || {
        !matches!(
            Held::adopt(&target.place, id),
            Ok(Adopted::Held(_)) | Err(_)
        )
    };
    if is_not_ours() && !is_aside() {
        match Held::adopt(&target.place, id)? {
            Adopted::Held(_) => {}
            answer => return Ok(answer),
        }
    }
    nested::refuse_to(target, environment, "release")?;
    let advice = "nothing is released yet: try again when that has ended";
    Ok(
        match gate::take_or_advise(target.dir(), patience, advice, &mut Unattended)? {
            Ok(gate) => Site::new(&gate, &Options::default())
                .with_names(target.place.names())
                .adopt(id)?,
            Err(_) => Held::adopt(&target.place, id)?,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::hold::Hold;
    use beadlock_checker::internal::Gate;

    #[test]
    fn a_gate_that_stays_shut_keeps_only_ones_own_lock() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(".beads");
        fs::create_dir(&dir).unwrap();
        let nowhere = Environment::default();
        let target = resolve(Some(dir.as_os_str()), &nowhere, Acceptance::Any).unwrap();
        let claim = Hold::on(&dir).claim().unwrap();
        let gate = Gate::try_take(&dir).unwrap().unwrap();
        let find = |id: &str| find(&target, id, &nowhere, Duration::from_millis(50));
        assert!(matches!(find("other"), Ok(Adopted::NotOurs(Some(_)))));
        let error = find(claim.id()).unwrap_err();
        assert_eq!(error.code(), Code::DrainTimeout);
        let words = error.to_string();
        assert!(
            words.contains("did not open within 50ms") && words.contains("try again when"),
            "{words}"
        );
        assert!(!words.contains("--drain"), "{words}");
        // Aside it may be ours.
        fs::write(dir.join(".exclusive-lock.aside"), "").unwrap();
        assert_eq!(find("other").unwrap_err().code(), Code::DrainTimeout);
        drop(gate);
        assert!(matches!(find(claim.id()), Ok(Adopted::Held(_))));
        claim.release().unwrap();
    }
}
