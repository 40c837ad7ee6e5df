//! `tower:NAME`: a named lock in a lock directory, valid for as long as its holder sends heartbeats. It is never taken
//! without `--force-lock`.

pub mod audit;
pub mod lock_dir;

use crate::error::Problem;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{os::unix::ffi::OsStrExt, time::Duration};

use beadlock_base::escape::escaped_path;
use beadlock_core::record::tower::{self, LockName};
use beadlock_core::{Options, Place, Reason};
use beadlock_core::{
    database::NoDatabase,
    facts,
    look::{Look, look},
    record::{Record, facts::Facts},
    take::Held,
    target::Scheme,
};
use serde_json::Value;

use super::{Folder, Found, beads::Acceptance};
use crate::audit_trail::{DocumentEvents, errno_words};
use crate::environment::{Environment, LOCK_DIR};
use crate::protocol::rules::{Protocol, ProtocolRules, WaitOver};
use crate::words::{self, Part, to_type};
use crate::{error::Error, lease::LeaseTimes, observe::Observer, target::Target, wait::Wait};

/// The rules of a named lock.
pub const RULES: ProtocolRules = ProtocolRules {
    default_wait: Wait::No,
    speaks_of_databases: false,
    makes_directory: true,
    // A request may have acquired several named locks.
    shares_ids: true,
    has_steps: true,
    // The document asks for a line whenever the file goes (8.2), and when it cannot be removed (8.3).
    lost_is_released: true,
    then_stale: ", and --force-lock takes it then",
    ..ProtocolRules::of("named locks (tower:NAME)")
};

#[derive(Debug)]
pub(crate) struct Tower;

impl Protocol for Tower {
    fn part(&self, target: &Target) -> Part<'static> {
        if target.typed.as_os_str().is_empty() {
            return Part::Words(vec![OsString::from(&target.given)]);
        }
        let is_dashed = target.typed.as_os_str().as_bytes().starts_with(b"-");
        let dir = if is_dashed {
            Path::new(".").join(&target.typed)
        } else {
            target.typed.clone()
        };
        Part::Words(vec![
            "--lock-dir".into(),
            dir.into(),
            target.given.clone().into(),
        ])
    }

    fn lease(&self, held: &Held) -> Option<LeaseTimes> {
        held.record()
            .as_tower()
            .map(|record| LeaseTimes::of(record.ttl_seconds))
    }

    fn fresh_for(
        &self,
        record: &Record,
        _facts: Option<&Facts>,
        _options: &Options,
    ) -> Option<Duration> {
        record
            .as_tower()
            .map(|record| tower::fresh_for(record, facts::now()))
    }
}

impl Folder for Tower {
    fn find(&self, rest: &Path, environment: &Environment, _: Acceptance<'_>) -> Found {
        let name = LockName::parse(&rest.to_string_lossy()).map_err(|error| {
            NoDatabase::usage(format!(
                "{}{}: {error}",
                Scheme::Tower.prefix(),
                escaped_path(rest)
            ))
        })?;
        Ok(in_environment(&name, environment))
    }

    /// The named lock of `tower:/run/locks/NAME.lock`, which nobody types.
    fn exact(&self, rest: &Path, _given: &str) -> Found {
        let of_path = || {
            let dir = rest.parent().filter(|dir| dir.is_absolute())?;
            let name = LockName::parse(rest.file_name()?.to_str()?.strip_suffix(".lock")?).ok()?;
            Some(target(dir, &name, Some(dir.as_os_str())))
        };
        of_path().ok_or_else(|| {
            let shown = escaped_path(rest);
            Error::usage(format!(
                "{}{shown} does not say in which lock directory",
                Scheme::Tower.prefix()
            ))
        })
    }

    fn by_letters(&self, rest: &Path, environment: &Environment) -> (PathBuf, PathBuf) {
        let at = lock_dir::unresolved(environment);
        (at.join(format!("{}.lock", rest.display())), at)
    }
}

/// The lock called `name` in the lock directory `dir`, which need not exist; `typed` is how the directory was typed.
pub fn target(dir: &Path, name: &LockName, typed: Option<&OsStr>) -> Target {
    let place = Place::tower(dir, name);
    let given = format!("{}{name}", Scheme::Tower.prefix());
    let typed = typed.map(PathBuf::from).unwrap_or_default();
    Target {
        place,
        exported: given.clone().into(),
        given,
        typed,
        database: None,
        scheme: Scheme::Tower,
    }
}

/// The lock of this name, in the lock directory that the command line or the environment names.
pub fn in_environment(name: &LockName, environment: &Environment) -> Target {
    target(
        &lock_dir::of(environment),
        name,
        environment.typed_lock_dir(),
    )
}

/// The name of the named lock `target`; `None`: its file is not called `NAME.lock`.
pub fn name_of(target: &Target) -> Option<LockName> {
    let path = target.path();
    let name = path.file_name()?.to_str()?.strip_suffix(".lock")?;
    LockName::parse(name).ok()
}

/// The name of the user who runs this, else the number.
pub fn user_name() -> String {
    let uid = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// Makes the lock directory; returns one that a person does not expect there.
pub fn make_directory(
    target: &Target,
    environment: &Environment,
) -> Result<Option<PathBuf>, Error> {
    let dir = target.dir();
    let is_made = lock_dir::make(dir)?;
    let is_named = lock_dir::default(environment) != dir;
    Ok((is_made && is_named).then(|| dir.to_owned()))
}

pub(crate) fn not_in(target: &Target) -> Option<&'static str> {
    (!lock_dir::is_the_documents(target.dir())).then_some(tower::DEFAULT_DIR)
}

pub(crate) fn exported_besides(
    target: &Target,
    environment: &Environment,
) -> Option<(&'static str, PathBuf)> {
    // The target does not say where. What was typed is in no environment, and the default is another for another
    // user.
    let is_named = environment.typed_lock_dir().is_none() && environment.get(LOCK_DIR).is_some();
    let is_everybodys = is_named || lock_dir::is_the_documents(target.dir());
    (!is_everybodys).then(|| (LOCK_DIR, target.dir().to_owned()))
}

pub(crate) fn name_of_claim(id: &str, target: &Target) -> String {
    name_of(target).map_or_else(|| id.to_owned(), |name| format!("{id}@{name}"))
}

pub(crate) fn timed_out(waited: &WaitOver<'_>) -> String {
    let WaitOver {
        path,
        holder,
        wait,
        status,
        ..
    } = waited;
    let Some(record) = waited.record.as_tower() else {
        return String::new();
    };
    let now = facts::now();
    let last = match tower::judge(record, now).reason() {
        Reason::HeartbeatInFuture => {
            format!(
                "its last heartbeat, {}, lies in the future: a clock is wrong",
                record.last_heartbeat_at
            )
        }
        _ => {
            // The document's difference of whole seconds may be a second more than has gone by.
            let seen = look(&waited.target.place, &Options::default());
            let age = words::age_of_time(record.last_heartbeat_at, &seen);
            let age = age.unwrap_or_else(|| tower::silence(record, now));
            format!("last heartbeat {}s ago", age.as_secs())
        }
    };
    format!(
        "{path} is held by {holder} since {}, {last}; {wait}; wait for its completion (--wait DUR), or take it \
         with --force-lock once it is stale ({}s without a heartbeat); who and why: {status}",
        record.created_at, record.ttl_seconds
    )
}

pub(crate) fn not_released(target: &Target, record: &Record, error: &Error) -> String {
    let ttl = record.as_tower().map_or(0, |record| record.ttl_seconds);
    let parts = [
        target.part(),
        Part::Value("--id", record.id().unwrap_or_default().as_ref()),
    ];
    let by_hand = to_type("beadlock break {} {} --even-if-live", &parts);
    format!(
        "{error} ({}); it goes stale {ttl} s after its last heartbeat, and --force-lock takes it then; to take it \
         away by hand: {by_hand}",
        errno_words(&error.system())
    )
}

pub(crate) fn silence(look: &Look) -> Option<Duration> {
    let beat = look.record.as_ref()?.as_tower()?.last_heartbeat_at;
    Some(words::age_of_time(beat, look).unwrap_or_default())
}

/// Which intent, in which version.
pub fn options_of_claim(record: Option<&Record>) -> Vec<OsString> {
    let Some(record) = record.and_then(Record::as_tower) else {
        return ["--intent-name", "NAME", "--intent-version", "VERSION"]
            .map(OsString::from)
            .to_vec();
    };
    let (intent, version) = (&record.intent, &record.intent_version);
    vec![
        format!("--intent-name={intent}").into(),
        format!("--intent-version={version}").into(),
    ]
}

pub(crate) fn answer_held(record: &Record) -> Option<Value> {
    record.as_tower().map(tower::answer_blocked)
}

pub(crate) fn answer_stale(record: &Record, age: Duration) -> Option<Value> {
    record
        .as_tower()
        .map(|record| tower::answer_stale(record, age))
}

pub(crate) fn events<'a>(
    file: Option<&Path>,
    id: &str,
    target: &Target,
    observer: &'a dyn Observer,
) -> Box<dyn DocumentEvents + 'a> {
    let default = || audit::default_file(target.dir());
    let file = file.map_or_else(default, Path::to_owned);
    let path = target.path();
    let name = path
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Box::new(audit::TowerAudit::open(&file, id, &name, &path, observer))
}
