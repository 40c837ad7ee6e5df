//! Which paths a target leads to that may hang. Only local file systems are looked at to find that out.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::database::REDIRECT;
use beadlock_checker::dialect::tower::DEFAULT_DIR;
use beadlock_checker::escape::escaped_path;
use beadlock_checker::mounts::Mounts;
use beadlock_checker::target::Target;

use crate::claim::wait::Wait;
use crate::environment::Environment;
use crate::target::unquoted_target;
use crate::tower::dir::VARIABLE;

/// What databases are called.
const BEADS: &str = ".beads";

/// How long a file's lock is waited for where the command line does not say so.
const WAIT_FOR_FILE: Wait = Wait::UpTo(Duration::from_secs(30));

/// What a helper looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// This path, and the directory that a redirect in it leads to.
    Path(PathBuf),
    /// The nearest database in this directory or above.
    Nearest(PathBuf),
}

impl Lookup {
    /// Where it begins, absolute.
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) | Self::Nearest(path) => path,
        }
    }

    /// The path whose mount is to be named when there is no answer.
    pub fn shown(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Nearest(path) => path.join(BEADS),
        }
    }
}

/// A target by its letters alone: it was not looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// With its scheme, as JSON has it.
    pub name: String,
    /// For lines.
    pub given: String,
    /// Where its lock file lies, links and redirects aside.
    pub path: PathBuf,
    /// What may hang.
    pub lookups: Vec<Lookup>,
    /// How long a claim waits for a holder where the command line does not say so.
    pub wait: Wait,
}

impl Unresolved {
    /// The target that [`Found::resolve`](crate::target::Found::resolve) is going to look up.
    pub fn of(named: Option<&OsStr>, environment: &Environment, mounts: &Mounts) -> Self {
        let around = environment.of_database();
        let text = named.map(OsStr::to_owned).or_else(|| around.target.clone());
        let Some(text) = text else {
            return match &around.beads_dir {
                Some(dir) => Self::of_beads(Path::new(dir), environment, mounts),
                None => Self::nearest(&around.cwd, mounts),
            };
        };
        match Target::parse(&unquoted_target(&text)) {
            Ok(Target::Beads(dir)) => Self::of_beads(&dir, environment, mounts),
            Ok(Target::Lock(path)) => {
                let at = around.cwd.join(&path);
                Self::other("lock:", &path, at.clone(), &at, Wait::DEFAULT, mounts)
            }
            Ok(Target::Memory(path)) => {
                let at = around.cwd.join(&path);
                let wait = crate::memory::WAIT;
                Self::other("memory:", &path, at.join(".lock"), &at, wait, mounts)
            }
            Ok(Target::File(path)) => {
                let at = around.cwd.join(&path);
                Self::other("file:", &path, at.clone(), &at, WAIT_FOR_FILE, mounts)
            }
            Ok(Target::Tower(name)) => {
                let at = lock_dir(environment);
                let path = at.join(format!("{name}.lock"));
                Self::other("tower:", Path::new(name.as_str()), path, &at, Wait::No, mounts)
            }
            // What is wrong with it is said without a look.
            Err(_) => {
                Self::other("", Path::new(&text), PathBuf::new(), Path::new("/"), Wait::DEFAULT, mounts)
            }
        }
    }

    fn of_beads(dir: &Path, environment: &Environment, mounts: &Mounts) -> Self {
        let around = environment.of_database();
        let (at, given) = (around.cwd.join(dir), escaped_path(dir));
        let mut lookups: Vec<Lookup> = of_directory(&at, mounts).into_iter().collect();
        // Whatever is named is compared with it.
        let variable = around.beads_dir.map(|dir: OsString| around.cwd.join(dir)).filter(|dir| *dir != at);
        lookups.extend(variable.and_then(|dir| of_directory(&dir, mounts)));
        Self {
            name: format!("beads:{given}"),
            given,
            path: at.join(".exclusive-lock"),
            lookups,
            wait: Wait::DEFAULT,
        }
    }

    /// The search up the tree, as far as it can be followed without a look at what may hang.
    fn nearest(cwd: &Path, mounts: &Mounts) -> Self {
        let found = |dir: PathBuf, lookup: Option<Lookup>| Self {
            name: format!("beads:{BEADS}"),
            given: BEADS.to_owned(),
            path: dir.join(".exclusive-lock"),
            lookups: lookup.into_iter().collect(),
            wait: Wait::DEFAULT,
        };
        for above in cwd.ancestors() {
            let dir = above.join(BEADS);
            if mounts.on_the_way(&dir).is_some() {
                return found(dir, Some(Lookup::Nearest(above.to_owned())));
            }
            if fs::metadata(&dir).is_ok_and(|meta| meta.is_dir()) {
                let lookup = of_directory(&dir, mounts);
                return found(dir, lookup);
            }
        }
        found(cwd.join(BEADS), None)
    }

    fn other(scheme: &str, named: &Path, path: PathBuf, at: &Path, wait: Wait, mounts: &Mounts) -> Self {
        let given = format!("{scheme}{}", escaped_path(named));
        let lookups = mounts.on_the_way(at).map(|_| Lookup::Path(at.to_owned()));
        Self { name: given.clone(), given, path, lookups: lookups.into_iter().collect(), wait }
    }
}

/// The lock directory, links and all.
pub fn lock_dir(environment: &Environment) -> PathBuf {
    let dir = environment.get(VARIABLE).map_or(Path::new(DEFAULT_DIR), Path::new);
    environment.of_database().cwd.join(dir)
}

/// Of a directory that may be a database: by its own path, by the database that may be in it, or by a redirect.
pub fn of_directory(at: &Path, mounts: &Mounts) -> Option<Lookup> {
    let may_hang = mounts.on_the_way(&at.join(BEADS)).is_some()
        // What a redirect says is read by the helper.
        || fs::symlink_metadata(at.join(REDIRECT)).is_ok();
    may_hang.then(|| Lookup::Path(at.to_owned()))
}
