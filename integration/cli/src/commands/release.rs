//! `beadlock release`: ends a claim that `acquire` has made; only one's own (docs/design.md#claims-that-last).

pub(super) mod by_holder;

use beadlock_claim::error::Problem;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, time::Duration};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::regular::{self, Links};
use beadlock_core::Options;
use beadlock_core::audit::Event;
use beadlock_core::take::{Adopted, Held, Site};
use clap::Args;
use serde_json::Value;

use crate::settings;
use crate::targets::{ReleaseArgs, refuse_options};
use beadlock_base::stdout::print;
use beadlock_claim::audit_trail::{AuditTrail, refuse_lock_file};
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::kernel_lock::{KernelRelease, WithoutRecord};
use beadlock_claim::protocol::named_claim::{LostClaim, UNTIL, VARIABLES};
use beadlock_claim::protocol::rules::ProtocolKind;
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_claim::release_request::{Enders, ReleaseOutcome, ReleaseReason, ReleaseRequest};
use beadlock_claim::report::{RELEASE, Report};
use beadlock_claim::script::Script;
use beadlock_claim::words::{Part, to_type};
use beadlock_claim::{gate, observe::Uninterrupted, outer, target::Target, under::ClaimNames};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, answers::conclude};
use beadlock_session::steps::{RESULT_FILE, failure_step};
use beadlock_supervise::process_tree;

const EXAMPLES: &str = "\
Examples:
  eval \"$(beadlock release)\"
  beadlock release tower:app-prod --id req_8f3a
  beadlock release lock:@staging --holder agent-7";

const EXITS: &str = "\
Exit codes:
  0  released; with --missing-ok also when there is no such claim any more
  1  beadlock failed
  2  the command line is wrong, or neither --id nor $BEADLOCK_ID is given
  4  with --holder: the claim is another user's, or none of acquire, and ends with its process
  5  with --holder: the lock could not be understood
  9  the claim is not there any more: somebody else's lock is left alone";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct ReleaseCommandArgs {
    /// The database's directory, [beads:]DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH, or flock:PATH [env:
    /// BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The id that acquire has printed [env: BEADLOCK_ID]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// In the place of the id, the name of the holder: ends a claim that this user has made with acquire, and no other.
    /// Not for named locks, memory:, file: and flock:
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    pub holder: Option<String>,
    /// Exit with 0 also when the claim is not there any more: for cleanup that may run twice
    #[arg(long)]
    pub missing_ok: bool,
    /// Add a JSON line to FILE [env: BEADLOCK_AUDIT]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    #[command(flatten)]
    pub protocol: ReleaseArgs,
}

/// How long to wait for the gate. While the lock stands, a daemon has it for moments only.
const PATIENCE: Duration = Duration::from_secs(130);

pub fn run(typed: &ReleaseCommandArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let released = release(typed, environment, common)
        .map_err(|error| (ProgramEnd::Code(error.exit().code()), error));
    let end = match released {
        Ok(ref answer) if !common.json => {
            common.talk.end_live();
            // The claim has ended, whether or not somebody reads that.
            let variables = variables(typed, answer, environment);
            let _ = print(Script::of_stdout().unset(&variables));
            ProgramEnd::Code(Exit::Done.code())
        }
        released => conclude(common, released),
    };
    if !common.json {
        Script::fail(end.as_code());
    }
    end
}

/// The variables that name the claim which has ended: none where the environment names another one, or has a target of
/// the user's own, without an id.
fn variables(
    typed: &ReleaseCommandArgs,
    answer: &Value,
    environment: &Environment,
) -> Vec<&'static str> {
    let ended = match &typed.holder {
        Some(_) => answer["id"].as_str(),
        None => typed.id.as_deref().filter(|id| !id.is_empty()),
    };
    let is_its_claim = match (environment.get("BEADLOCK_ID"), ended) {
        (Some(named), Some(id)) => named == id,
        (None, Some(_)) => environment.get("BEADLOCK_TARGET").is_none(),
        (_, None) => typed.holder.is_none(),
    };
    if !is_its_claim {
        return Vec::new();
    }
    let until = environment.get(UNTIL).map(|_| UNTIL);
    VARIABLES.into_iter().chain(until).collect()
}

fn release(
    typed: &ReleaseCommandArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, Error> {
    let id = match typed.holder {
        Some(_) => None,
        None => Some(id_of(typed.id.as_deref(), environment, "release")?),
    };
    let target = resolve(typed.target.as_deref(), environment, Acceptance::Any)?;
    refuse_options(target.scheme, &target.given, &typed.protocol.given())?;
    let (step, has_failed) = typed.protocol.outcome()?;
    let missing = match typed.missing_ok {
        true => Missing::Accepted,
        false => Missing::IsLoss,
    };
    let (id, of_holder) = match &typed.holder {
        None => (id.unwrap_or_default(), Ok(())),
        Some(name) => match by_holder::id_of(name, &target, "release") {
            Ok(id) => (id, Ok(())),
            Err(error) => (String::new(), Err(error)),
        },
    };
    let releasing = Releasing {
        target: &target,
        id: &id,
        missing,
        environment,
        common,
    };
    match of_holder {
        Err(error) if error.code() == Code::LockLost => return releasing.missing(error),
        of_holder => of_holder?,
    }
    let audit = settings::audit(typed.audit.as_deref(), environment);
    refuse_lock_file("--audit", audit.as_deref(), &target.own_files())?;
    if let ProtocolKind::Kernel(kernel) = target.rules().kind {
        return releasing.without_record(kernel, audit.as_deref());
    }
    if let Some(outer) = outer::outer_of(&id, &target, environment) {
        return releasing.under(outer);
    }
    let held = match releasing.find()? {
        Found::Held(held) => held,
        Found::Missing(lost) => return releasing.missing(lost),
    };
    let trail = releasing.trail(audit.as_deref(), Some(held.record().holder()))?;
    let step = step.map(str::to_owned).or_else(|| {
        let file = environment.get(RESULT_FILE).filter(|_| has_failed);
        failure_step(None, file.map(Path::new))
    });
    let has_failed = step.is_some() || has_failed;
    let why = if has_failed {
        ReleaseReason::RELEASED_AFTER_FAILURE
    } else {
        ReleaseReason::RELEASED
    };
    let age = held.age();
    let leaving = ReleaseRequest {
        target: &target,
        enders: Enders::Several,
        patience: PATIENCE,
        trail: &trail,
        failure_step: step.as_deref(),
    };
    let left = leaving.end(held, None, why, &mut Uninterrupted);
    match left {
        ReleaseOutcome::Released => {
            releasing.say_by_name(typed.holder.as_deref());
            releasing.say_under();
            Ok(releasing.answer(true, Some(age)))
        }
        ReleaseOutcome::Lost(error) => Err(error),
        ReleaseOutcome::ByAnother => releasing.missing(releasing.lost()),
        ReleaseOutcome::Stuck => {
            let path = escaped_path(&target.path());
            Err(Error::new(
                Code::Io,
                format!("{path} was not released; try again, or end its process"),
            ))
        }
    }
}

/// The error that says why the claim is not there any more.
pub(super) fn lost(id: &str, target: &Target, environment: &Environment) -> Error {
    let look = to_type("beadlock status {}", &[target.part()]);
    let then = format!("what was done since is not protected; who and why: {look}");
    let lost = LostClaim::of(id, target, environment);
    let error = match lost {
        Some(lost) => lost.error(&then),
        None => Error::new(
            Code::LockLost,
            format!("the claim {} was lost; {then}", escaped(id)),
        ),
    };
    let not_ours = target.rules().not_ours;
    let message = format!("{not_ours}{error}");
    error.saying(message)
}

/// The id that was typed, else the environment's. `command` is `release` or `renew`, for the error, which has exit 2.
pub(super) fn id_of(
    typed: Option<&str>,
    environment: &Environment,
    command: &str,
) -> Result<String, Error> {
    let id = typed.filter(|id| !id.is_empty()).map(str::to_owned);
    environment.unless(id, "BEADLOCK_ID", |id| Ok(id.to_owned()))?.ok_or_else(|| {
        Error::usage(format!(
            "no id: nothing was acquired here, so there is nothing to {command}; with the id that acquire has printed: \
             beadlock {command} --id ID, or BEADLOCK_ID in the environment (after eval it must be exported: set -a; eval \
             \"$claim\"; set +a)"
        ))
    })
}

/// A claim that is to be released.
struct Releasing<'a> {
    target: &'a Target,
    id: &'a str,
    missing: Missing,
    environment: &'a Environment,
    common: &'a Console,
}

/// How a release treats a claim that is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// As a loss: work since the loss was not protected, and the release fails.
    IsLoss,
    /// As released before (`--missing-ok`): the release warns, and succeeds.
    Accepted,
}

/// The environment of a process that hangs in a file system may be readable only when that answers.
const UNDER_PATIENCE: Duration = Duration::from_secs(1);

/// How much of the new part of an audit file is read, in bytes.
const MOST_NEW: u64 = 1024 * 1024;

/// The lock of a claim.
enum Found {
    Held(Held),
    /// The lock of the claim is gone, or belongs to another claim; the error says so.
    Missing(Error),
}

impl<'a> Releasing<'a> {
    /// The envelope's `data`.
    fn answer(&self, released: bool, held: Option<Duration>) -> Value {
        let report = Report {
            id: Some(self.id.to_owned()).filter(|id| !id.is_empty()),
            released,
            held,
            ..Report::of(self.target)
        };
        report.json(RELEASE)
    }

    /// The answer when the claim is not there any more: an error, or a warning with `--missing-ok`.
    fn missing(&self, lost: Error) -> Result<Value, Error> {
        if self.missing == Missing::IsLoss {
            return Err(lost);
        }
        self.common.talk.warn(&lost.to_string());
        Ok(self.answer(false, None))
    }

    fn lost(&self) -> Error {
        lost(self.id, self.target, self.environment)
    }

    fn without_record(
        &self,
        kernel: &dyn WithoutRecord,
        audit: Option<&Path>,
    ) -> Result<Value, Error> {
        let Self { target, id, .. } = self;
        let trail = self.trail(audit, None)?;
        let before = audit.and_then(|audit| fs::metadata(audit).ok());
        match kernel.release(target, id, &self.common.talk)? {
            KernelRelease::Released { keeper, held, lock } => {
                let new_from = before.map_or(0, |before| before.len());
                if !audit.is_some_and(|audit| has_written(keeper, audit, new_from)) {
                    trail.write(Event::LockReleased, |entry| {
                        entry
                            .reason(ReleaseReason::RELEASED.reason)
                            .held_for(held)
                            .result(ReleaseReason::RELEASED.result)
                            .lock(&lock)
                    });
                }
                self.say_under();
                Ok(self.answer(true, None))
            }
            KernelRelease::Outer => Ok(self.answer(false, None)),
            KernelRelease::Gone(why) => {
                let over = LostClaim::of(id, target, self.environment).map(|lost| lost.over());
                let why = format!("{}{why}", over.unwrap_or_default());
                self.missing(Error::new(Code::LockLost, why))
            }
        }
    }

    /// Says which claim was ended by its holder's name.
    fn say_by_name(&self, holder: Option<&str>) {
        let (id, given) = (self.id, &self.target.given);
        if let Some(name) = holder.map(escaped) {
            let talk = &self.common.talk;
            talk.say(&format!("released the claim {id} of {name} on {given}"));
        }
    }

    /// Names what still runs under the claim that has ended. Afterwards, for it looks at every process, and the next claim
    /// waits for none of that.
    fn say_under(&self) {
        let under = ClaimNames::of(self.id, self.target).processes_within(UNDER_PATIENCE);
        if !under.is_empty() {
            self.common.talk.warn(&format!(
                "still running under the claim that is released now: {}",
                process_tree::names(&under)
            ));
        }
    }

    /// The id names an outer claim, which is not ended from here.
    fn under(&self, outer: &str) -> Result<Value, Error> {
        let Self {
            target,
            environment,
            common: Console { talk, .. },
            ..
        } = self;
        let given = &target.given;
        if !outer::stands(outer, target) {
            return self.missing(self.lost());
        }
        if outer::is_of_hold(outer, target, environment) {
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
        Ok(self.answer(false, None))
    }

    fn find(&self) -> Result<Found, Error> {
        let Self {
            target,
            id,
            environment,
            ..
        } = self;
        let found = match target.is_nowhere() {
            true => Adopted::Gone,
            false => find(target, id, environment, PATIENCE)?,
        };
        match found {
            Adopted::Held(held) => Ok(Found::Held(held)),
            Adopted::Gone | Adopted::NotOurs(_) => Ok(Found::Missing(self.lost())),
            Adopted::Unreadable(why) => {
                let path = escaped_path(&target.path());
                let look = to_type("beadlock status {}", &[target.part()]);
                let message = format!("{path} was not touched: {why}; look at it: {look}");
                let error = Error::new(Code::LockUnreadable, message);
                Err(error.detailed(format!("lock_file={path}")))
            }
        }
    }

    /// The trail. A file that cannot be opened is warned of: the lock must not stay for that.
    fn trail(&self, file: Option<&Path>, holder: Option<&str>) -> Result<AuditTrail<'a>, Error> {
        let of = (holder, Some(self.id));
        let Console { talk, request, .. } = self.common;
        self.target.trail(file, of, request, talk).or_else(|error| {
            talk.warn(&error.to_string());
            self.target.trail(None, of, request, talk)
        })
    }
}

/// Whether the keeper has written the release into this audit file itself, where that is its own.
fn has_written(keeper: i32, audit: &Path, new_from: u64) -> bool {
    let new = || -> std::io::Result<Vec<u8>> {
        let mut file = regular::open(audit, Links::Followed)?;
        file.seek(SeekFrom::Start(new_from))?;
        Ok(regular::whole(file, MOST_NEW)?)
    };
    let is_its_own = |line: &[u8]| {
        let line = serde_json::from_slice::<Value>(line).unwrap_or_default();
        line["event"] == "lock_released" && line["by"]["pid"] == keeper
    };
    new().is_ok_and(|new| new.split(|byte| *byte == b'\n').any(is_its_own))
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
    outer::refuse_to(target, environment, "release")?;
    let advice = "nothing is released yet: try again when that has ended";
    Ok(
        match gate::take_or_advise(target.dir(), patience, advice, &mut Uninterrupted)? {
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
    use beadlock::Hold;
    use beadlock_core::gate::Gate;

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
