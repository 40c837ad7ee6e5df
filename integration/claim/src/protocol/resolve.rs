//! From the words of a command line to a target; by its letters alone, before file systems that may hang are looked at.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use beadlock_base::{escape::escaped_path, mounts::Mounts};
use beadlock_core::database::{Database, NoDatabase};
use beadlock_core::target::{ParsedTarget as Parsed, Scheme};

use super::beads::{self, Acceptance, any_directory_is_for_databases};
use super::{folder, rules, tower::lock_dir};
use crate::environment::{Environment, unquoted_target};
use crate::protocol::rules::ProtocolRules;
use crate::remote::{BEADS, Lookup, of_directory};
use crate::target::{Target, not_found};
use crate::{error::Error, wait::Wait};

/// Why no target was found.
pub type Unfound = Error;

impl From<NoDatabase> for Error {
    fn from(error: NoDatabase) -> Self {
        not_found(&error)
    }
}

/// The target named on the command line; without a name `$BEADLOCK_TARGET`, `$BEADS_DIR`, else the nearest `.beads`.
pub fn resolve(
    named: Option<&OsStr>,
    environment: &Environment,
    acceptance: Acceptance<'_>,
) -> Result<Target, Error> {
    answers_for(named, environment)?;
    let around = environment.of_database();
    let Some(text) = named.map(OsStr::to_owned).or_else(|| around.target.clone()) else {
        let found = Database::find(&around).and_then(|database| acceptance.of(database, &around));
        return Ok(beads::target(found?));
    };
    let parsed = Parsed::parse(&unquoted_target(&text)).map_err(Error::from);
    let found =
        parsed.and_then(|parsed| folder(parsed.scheme).find(&parsed.rest, environment, acceptance));
    let found = found.map_err(|error| match named {
        None => Error {
            message: format!("$BEADLOCK_TARGET: {}", error.message),
            ..error
        },
        Some(_) => error,
    })?;
    match acceptance.insists() && found.database.is_none() {
        true => Err(any_directory_is_for_databases(&found.given)),
        false => Ok(found),
    }
}

/// The target that [`Target::absolute`] has named, as it is: no redirect is followed. `given` is for lines.
pub fn exact(absolute: &OsStr, given: &str) -> Result<Target, Error> {
    let Parsed { scheme, rest } = Parsed::parse(absolute)?;
    folder(scheme).exact(&rest, given)
}

/// The directory below which `list` is to look; `Err` is what else the root names: a file, or a lock.
pub fn root(text: &OsStr) -> Result<Result<PathBuf, &'static str>, Error> {
    let Parsed { scheme, rest } = Parsed::parse(text)?;
    Ok(match scheme {
        Scheme::Beads | Scheme::Dir => Ok(rest),
        Scheme::File => Err("file"),
        Scheme::Flock => Err("file or directory"),
        _ => Err("lock"),
    })
}

/// A target by its letters alone: it was not looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Unresolved {
    pub name: String,
    pub given: String,
    /// The path of the lock file, links and redirects aside.
    pub path: PathBuf,
    pub lookups: Vec<Lookup>,
    /// How long a claim waits for a holder where the command line does not say so.
    pub wait: Wait,
    pub speaks_of_databases: bool,
}

impl Unresolved {
    pub fn of(named: Option<&OsStr>, environment: &Environment, mounts: &Mounts) -> Self {
        let around = environment.of_database();
        let text = named.map(OsStr::to_owned).or_else(|| around.target.clone());
        let Some(text) = text else {
            return match &around.beads_dir {
                Some(dir) => Self::of_beads(Path::new(dir), environment, mounts),
                None => Self::nearest(&around.cwd, mounts),
            };
        };
        let Ok(Parsed { scheme, rest }) = Parsed::parse(&unquoted_target(&text)) else {
            // What is wrong with it is said without a look.
            let (given, wait) = (escaped_path(Path::new(&text)), Wait::DEFAULT);
            let (path, lookups) = (PathBuf::new(), Vec::new());
            return Self {
                name: given.clone(),
                given,
                path,
                lookups,
                wait,
                speaks_of_databases: true,
            };
        };
        if scheme == Scheme::Beads {
            return Self::of_beads(&rest, environment, mounts);
        }
        let (lock, at) = folder(scheme).by_letters(&rest, environment);
        let given = format!("{}{}", scheme.prefix(), escaped_path(&rest));
        let lookups = mounts
            .on_the_way(&at)
            .map(|_| Lookup::Path(at.clone().into()))
            .into_iter()
            .collect();
        let ProtocolRules {
            default_wait: wait,
            speaks_of_databases,
            ..
        } = *rules(scheme);
        Self {
            name: given.clone(),
            given,
            path: lock,
            lookups,
            wait,
            speaks_of_databases,
        }
    }

    fn of_beads(dir: &Path, environment: &Environment, mounts: &Mounts) -> Self {
        let around = environment.of_database();
        let (at, shown) = (around.cwd.join(dir), escaped_path(dir));
        let mut lookups: Vec<Lookup> = of_directory(&at, mounts).into_iter().collect();
        // Whatever is named is compared with it.
        let variable = around
            .beads_dir
            .map(|dir: OsString| around.cwd.join(dir))
            .filter(|dir| *dir != at);
        lookups.extend(variable.and_then(|dir| of_directory(&dir, mounts)));
        Self::in_database(shown, &at, lookups)
    }

    fn in_database(shown: String, dir: &Path, lookups: Vec<Lookup>) -> Self {
        let (name, given) = (format!("beads:{shown}"), beads::given_as(shown));
        let path = dir.join(".exclusive-lock");
        Self {
            name,
            given,
            path,
            lookups,
            wait: Wait::DEFAULT,
            speaks_of_databases: true,
        }
    }

    /// The search up the tree, as far as it can be followed without a look at what may hang.
    fn nearest(cwd: &Path, mounts: &Mounts) -> Self {
        let found = |dir: PathBuf, lookup: Option<Lookup>| {
            Self::in_database(BEADS.to_owned(), &dir, lookup.into_iter().collect())
        };
        for above in cwd.ancestors() {
            let dir = above.join(BEADS);
            if mounts.on_the_way(&dir).is_some() {
                return found(dir, Some(Lookup::Nearest(above.into())));
            }
            if fs::metadata(&dir).is_ok_and(|meta| meta.is_dir()) {
                return found(dir.clone(), of_directory(&dir, mounts));
            }
        }
        found(cwd.join(BEADS), None)
    }
}

/// Returns when the target that is meant, and what the command touches beside it, can be looked at.
pub fn answers_for(named: Option<&OsStr>, environment: &Environment) -> Result<(), Error> {
    let remote = environment.remote();
    let Some(Unresolved {
        given,
        lookups,
        wait,
        ..
    }) = unresolved(named, environment)
    else {
        return Ok(());
    };
    remote.answers_to(
        lookups.into_iter().map(|lookup| (lookup, given.clone())),
        wait,
    )
}

/// Returns when the lock directory can be looked at, and what the command touches beside it, such as the intent.
pub fn answers_for_intent(environment: &Environment) -> Result<(), Error> {
    let remote = environment.remote();
    let Some(mounts) = remote.mounts() else {
        return Ok(());
    };
    let dir = lock_dir::unresolved(environment);
    let dir = mounts
        .on_the_way(&dir)
        .map(|_| (Lookup::Path(dir.clone().into()), escaped_path(&dir)));
    remote.answers_to(dir, Wait::No)
}

/// A target that cannot be looked at, by its letters. `None`: nothing here can hang.
pub fn unresolved(named: Option<&OsStr>, environment: &Environment) -> Option<Unresolved> {
    Some(Unresolved::of(
        named,
        environment,
        environment.remote().mounts()?,
    ))
}
