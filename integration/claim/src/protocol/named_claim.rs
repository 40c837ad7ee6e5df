//! The claim that `$BEADLOCK_ID` names over several steps of a job, and why it does not stand any more
//! (docs/design.md#claims-that-last).

use crate::error::Problem;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::SystemTime;
use std::{fmt, fs, os::unix::fs::MetadataExt};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::record::{Record, StartedAt};
use beadlock_core::{Options, Place, Reason, Verdict};
use beadlock_core::{
    facts,
    look::{look, raw},
};

use super::{Acceptance, resolve};
use crate::environment::Environment;
use crate::error::{Code, Error};
use crate::outer::{self, NESTED};
use crate::words::{Part, to_type};
use crate::{protocol::rules::ProtocolKind, target::Target};

/// The variable with the time until which a detached claim is kept at most, as `acquire` prints it.
pub const UNTIL: &str = "BEADLOCK_UNTIL";

/// The variables that name a claim: what `acquire` prints and an orderly `release` takes back.
pub const VARIABLES: [&str; 3] = ["BEADLOCK_TARGET", "BEADLOCK_ID", "BEADLOCK_PID"];

/// A claim that does not stand any more.
#[derive(Debug)]
pub struct LostClaim {
    id: String,
    given: String,
    path: PathBuf,
    cause: Cause,
    /// When its `--max-hold` was over, where it was.
    max_hold: Option<StartedAt>,
}

/// How a claim has ended, as far as that can still be told.
#[derive(Debug)]
enum Cause {
    /// Somebody has broken the lock: the time, and the file that keeps its record.
    Broken(String, PathBuf),
    /// The lock is still there, and is stale for this reason.
    Stale(Reason),
    /// Another claim has the lock; its record, where it has one.
    Another(Option<Box<Record>>),
    /// The claim does not have the kernel's lock any more.
    Unlocked,
    /// There is no lock; the time at which its directory was changed last, where that is known.
    Gone(Option<StartedAt>),
}

/// Whether the claim `id` of `target` is there, and its holder is not known to be dead. Takes 100 ms when not.
pub fn stands(id: &str, target: &Target) -> bool {
    let id = id.strip_prefix(NESTED).unwrap_or(id);
    match target.rules().kind {
        ProtocolKind::Kernel(kernel) => kernel.stands(target, id),
        ProtocolKind::Record => outer::stands(id, target),
    }
}

impl LostClaim {
    /// Why the claim `id` of `target` is gone; `None` while it stands, and while that cannot be told. Takes 100 ms when
    /// it is gone: one look proves no loss.
    pub fn of(id: &str, target: &Target, environment: &Environment) -> Option<Self> {
        let id = id.strip_prefix(NESTED).unwrap_or(id);
        if stands(id, target) {
            return None;
        }
        if !target.has_record() {
            return Some(Self::with(id, target, Cause::Unlocked, environment));
        }
        let there = look(&target.place, &Options::default());
        let is_it = there.id.as_deref() == Some(id);
        let cause = match there.verdict {
            Verdict::Unreadable(_) => return None,
            Verdict::Stale(why) if is_it => Cause::Stale(why),
            Verdict::Free => kept_as(id, target).map_or_else(
                || Cause::Gone(last_change(target)),
                |(when, kept)| Cause::Broken(when, kept),
            ),
            _ => kept_as(id, target).map_or_else(
                || Cause::Another(there.record.map(Box::new)),
                |(when, kept)| Cause::Broken(when, kept),
            ),
        };
        Some(Self::with(id, target, cause, environment))
    }

    fn with(id: &str, target: &Target, cause: Cause, environment: &Environment) -> Self {
        let is_named = || is_named(id, target, environment);
        let until = environment.get(UNTIL).and_then(OsStr::to_str);
        let until = until.and_then(|until| serde_json::from_value::<StartedAt>(until.into()).ok());
        Self {
            id: id.to_owned(),
            given: target.given.clone(),
            path: target.path(),
            cause,
            max_hold: until.filter(|until| is_named() && *until <= facts::now()),
        }
    }

    /// The words that the claim's `--max-hold` was over, and when; empty where it was not.
    pub fn over(&self) -> String {
        let over = |until| format!("its --max-hold was over at {until}; ");
        self.max_hold.map(over).unwrap_or_default()
    }

    /// The error, with exit 9 and what is to be said behind it.
    pub fn error(&self, then: &str) -> Error {
        let path = escaped_path(&self.path);
        Error::new(Code::LockLost, format!("{self}; {then}")).detailed(format!("lock_file={path}"))
    }
}

impl fmt::Display for LostClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id, given, path, ..
        } = self;
        let path = escaped_path(path);
        write!(f, "the claim {} of {given} was lost: ", escaped(id))?;
        f.write_str(&self.over())?;
        match &self.cause {
            Cause::Broken(when, kept) => write!(
                f,
                "it was broken at {when}, and its record is kept in {}",
                escaped_path(kept)
            ),
            Cause::Stale(Reason::HeartbeatExpired | Reason::AgeExceeded) => write!(
                f,
                "{path} is stale, for nobody has kept it up: its keeper stands still, or has ended"
            ),
            Cause::Stale(_) => write!(f, "{path} is stale, for its process has ended"),
            Cause::Another(record) => {
                write!(
                    f,
                    "{path} is {} now and was not touched",
                    owner(record.as_deref())
                )
            }
            Cause::Unlocked => write!(f, "it does not have {path} locked any more"),
            Cause::Gone(when) => {
                write!(f, "{path} is not there any more")?;
                if let Some(when) = when {
                    write!(f, ", since {when} or before")?;
                }
                if self.max_hold.is_none() {
                    write!(
                        f,
                        ": it was released, its process has ended, or somebody removed it"
                    )?;
                }
                Ok(())
            }
        }
    }
}

/// `other's (PID 5, on ci-3, since 2026-11-28T04:41:44Z)`
fn owner(record: Option<&Record>) -> String {
    let Some(record) = record else {
        return "somebody else's".to_owned();
    };
    let (holder, host) = (escaped(record.holder()), escaped(record.hostname()));
    let since = record.started_at().map(|since| format!(", since {since}"));
    let since = since.unwrap_or_default();
    format!("{holder}'s (PID {}, on {host}{since})", record.pid())
}

/// Refuses a `hold` or a `cycle` of `target` where the environment names a claim of it that is gone: what ran since
/// then ran without it, and one more claim would hide that. `anew` is the command line that claims all the same. Under
/// a `hold` that stands there is nothing to refuse.
pub fn refuse_lost(
    target: &Target,
    environment: &Environment,
    anew: impl FnOnce() -> String,
) -> Result<(), Error> {
    let Some(id) = environment.get("BEADLOCK_ID").and_then(OsStr::to_str) else {
        return Ok(());
    };
    if !is_named(id, target, environment) || outer::outer_claim(target, environment).is_some() {
        return Ok(());
    }
    match LostClaim::of(id, target, environment) {
        None => Ok(()),
        Some(lost) => Err(lost.error(&format!(
            "what this job has done since is not protected; to go on with a new claim: {}; if it was released: unset \
             BEADLOCK_ID",
            anew()
        ))),
    }
}

/// The command line of a new claim: `command` is `beadlock hold` or `beadlock cycle`, up to its option.
pub fn anew(template: &'static str, target: &Target, command: &[std::ffi::OsString]) -> String {
    to_type(template, &[target.part(), Part::Words(command.to_vec())])
}

/// `$BEADLOCK_ID` is `id`, and `$BEADLOCK_TARGET` leads to the lock of `target`.
fn is_named(id: &str, target: &Target, environment: &Environment) -> bool {
    let is_id = |known: &OsStr| {
        known == id || known.as_bytes().strip_prefix(NESTED.as_bytes()) == Some(id.as_bytes())
    };
    let named = || environment.of_database().target;
    let is_its_lock = |named: &OsStr| match resolve(Some(named), environment, Acceptance::Any) {
        Ok(named) => is_one_lock(&named, target),
        Err(_) => false,
    };
    environment.get("BEADLOCK_ID").is_some_and(is_id)
        && named().is_some_and(|named| named == target.exported || is_its_lock(&named))
}

/// Both have one lock file, whatever paths lead there.
fn is_one_lock(one: &Target, other: &Target) -> bool {
    let (one, other) = (one.path(), other.path());
    let dir = |path: &PathBuf| {
        let dir = fs::metadata(path.parent()?).ok()?;
        Some((dir.dev(), dir.ino()))
    };
    one == other
        || (one.file_name() == other.file_name() && dir(&one).is_some() && dir(&one) == dir(&other))
}

/// When the claim was broken, and the file that keeps its record since.
fn kept_as(id: &str, target: &Target) -> Option<(String, PathBuf)> {
    let names = target.place.names();
    let prefix = [names.lock().to_bytes(), b".broken-"].concat();
    let entries = fs::read_dir(target.dir()).ok()?.flatten();
    entries.map(|entry| entry.file_name()).find_map(|name| {
        let stamp = name.as_bytes().strip_prefix(prefix.as_slice())?;
        let bytes = raw(&Place::named(target.dir(), &name)?).ok()??;
        let is_it = names
            .parse(&bytes)
            .is_ok_and(|record| record.id() == Some(id));
        let when = is_it.then(|| time_of(std::str::from_utf8(stamp).ok()?))??;
        Some((when, target.dir().join(name)))
    })
}

/// `2026-01-01T00:00:00Z` of `20260101T000000Z.json`.
fn time_of(stamp: &str) -> Option<String> {
    let part = |from: usize, to: usize| stamp.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(9, 11)?, part(11, 13)?, part(13, 15)?);
    Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

/// When the lock's directory got or lost an entry for the last time: the lock was gone by then.
fn last_change(target: &Target) -> Option<StartedAt> {
    let changed = fs::metadata(target.dir()).ok()?.modified().ok()?;
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(StartedAt::from_unix(
        i64::try_from(since.as_secs()).ok()?,
        0,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_broken_lock_is_in_its_name() {
        assert_eq!(
            time_of("20260101T000102Z-2.json").as_deref(),
            Some("2026-01-01T00:01:02Z")
        );
        assert_eq!(time_of("2026"), None);
    }
}
