//! The target that a command line means, and the names it may be claimed in.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::Place;
use beadlock_checker::internal::database::{Database, Environment as Around, NoDatabase};
use beadlock_checker::internal::dialect::tower::LockName;
use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::redirect;
use beadlock_checker::internal::target::Target;

use crate::error::{Code, Error};
use crate::output::talk::Talk;
use crate::settings::environment::{Environment, unquoted_target};
use crate::settings::wait::Wait;
use crate::words::{Part, to_type};

mod accepted;
pub mod lock_dir;
mod unresolved;

pub use accepted::any_directory_is_for_databases;
pub use unresolved::{answers_for, answers_for_intent, unresolved};

/// How long a claim of a directory's lock waits for its holder where nobody says so.
pub const WAIT_FOR_MEMORY: Wait = Wait::UpTo(Duration::from_secs(5));

/// Why `--reap-proven-dead` does nothing for a named lock.
pub const NAMED_IS_NOT_REAPED: &str = "its PID is never asked, only its heartbeat";

/// Why `--reap-proven-dead` does nothing for the lock of a directory.
pub const MEMORY_IS_NOT_REAPED: &str = "what is not refreshed is stale after 30s by itself";

/// A target that was found: where its lock lies, and how it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where its lock file lies.
    pub place: Place,
    /// How it was named or found, for lines: `.beads`, `lock:run/x.lock`.
    pub given: String,
    kind: Kind,
    /// The path to be typed.
    typed: PathBuf,
    /// The same target from wherever it is resolved.
    exported: OsString,
    /// Of a database that was found by its name: how.
    database: Option<Box<Database>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Beads,
    Lock,
    Tower,
    Memory,
}

impl Found {
    /// The target named on the command line; without a name `$BEADLOCK_TARGET`, `$BEADS_DIR`, else the nearest
    /// `.beads`.
    ///
    /// # Errors
    /// As [`not_found`], and in the program as [`answers_for`].
    pub fn resolve(named: Option<&OsStr>, environment: &Environment) -> Result<Self, Error> {
        Self::resolve_to(named, environment, |database, _| Ok(database))
    }

    fn resolve_to(
        named: Option<&OsStr>,
        environment: &Environment,
        accept: impl Fn(Database, &Around) -> Result<Database, NoDatabase>,
    ) -> Result<Self, Error> {
        answers_for(named, environment)?;
        let around = environment.of_database();
        let of_variable = |error: NoDatabase| not_found(&error.of_variable("BEADLOCK_TARGET"));
        let (text, wrong): (_, &dyn Fn(NoDatabase) -> Error) = match (named, &around.target) {
            (Some(text), _) => (text, &|error| not_found(&error)),
            (None, Some(text)) => (text.as_os_str(), &of_variable),
            (None, None) => {
                let found = Database::find(&around).and_then(|database| accept(database, &around));
                return found.map(Self::of_database).map_err(|error| not_found(&error));
            }
        };
        let unquoted = unquoted_target(text);
        let found = Target::parse(&unquoted).and_then(|target| match target {
            Target::Beads(dir) => Database::named(&dir, &around)
                .and_then(|database| accept(database, &around))
                .map(Self::of_database),
            Target::Lock(path) => Self::of_lock(&path, &around.cwd),
            Target::Tower(name) => {
                Ok(Self::of_tower(&lock_dir::of(environment), &name, environment.typed_lock_dir()))
            }
            Target::Memory(dir) => Self::of_memory(&dir, &around.cwd),
            Target::File(path) => Err(NoDatabase::not_for_files(&path)),
        });
        found.map_err(wrong)
    }

    /// A database.
    pub fn of_database(database: Database) -> Self {
        let Database { dir, given, named, .. } = database.clone();
        // As the user knows it, where those words are the path itself.
        let is_itself = !given.contains(['\\', char::REPLACEMENT_CHARACTER]);
        let typed = if is_itself { PathBuf::from(&given) } else { dir.clone() };
        // A path with a colon reads as a scheme.
        let is_plain = matches!(Target::parse(typed.as_os_str()), Ok(Target::Beads(dir)) if dir == typed);
        let typed = if is_plain { typed } else { Path::new(".").join(typed) };
        let exported = prefixed("beads:", &named);
        Self {
            place: Place::beads(dir),
            given,
            kind: Kind::Beads,
            typed,
            exported,
            database: Some(database.into()),
        }
    }

    /// A lock file of the beads rule.
    ///
    /// # Errors
    /// As [`Place::of_lock`].
    pub fn of_lock(path: &Path, cwd: &Path) -> Result<Self, NoDatabase> {
        let place = Place::of_lock(path, cwd)?;
        let given = format!("lock:{}", escaped_path(path));
        let exported = prefixed("lock:", &place.path());
        Ok(Self { place, given, kind: Kind::Lock, typed: path.to_owned(), exported, database: None })
    }

    /// The lock called `name` in the lock directory `dir`, which need not be there; `typed` is how it was typed.
    pub fn of_tower(dir: &Path, name: &LockName, typed: Option<&OsStr>) -> Self {
        let place = Place::tower(dir, name);
        let (given, typed) = (format!("tower:{name}"), typed.map(PathBuf::from).unwrap_or_default());
        Self { place, exported: given.clone().into(), given, kind: Kind::Tower, typed, database: None }
    }

    /// The one lock of a directory, judged by its age; the directory need not be there.
    ///
    /// # Errors
    /// As [`Place::of_memory`].
    pub fn of_memory(dir: &Path, cwd: &Path) -> Result<Self, NoDatabase> {
        let place = Place::of_memory(dir, cwd)?;
        let given = format!("memory:{}", escaped_path(dir));
        let exported = prefixed("memory:", place.dir());
        Ok(Self { place, given, kind: Kind::Memory, typed: dir.to_owned(), exported, database: None })
    }

    /// Refuses a database that a redirect or a link leads to which git tracks: others would choose what is claimed.
    ///
    /// # Errors
    /// What to type.
    pub fn refuse_tracked(&self) -> Result<(), Error> {
        let Some(database) = &self.database else { return Ok(()) };
        redirect::refuse_tracked(database).map_err(|error| not_found(&error))
    }

    /// Says who else may write the lock directory of a named lock: once, however many locks of it are looked at.
    pub fn warn(&self, talk: &Talk) {
        if self.kind == Kind::Tower {
            let known = talk.warnings();
            let new = lock_dir::warnings(self.dir()).into_iter().filter(|warning| !known.contains(warning));
            new.for_each(|warning| talk.warn(&warning));
        }
    }

    /// A lock whose directory a claim would make, and that is not there yet: it is free, and nothing is made to say
    /// so. One that cannot be looked at may be there.
    pub fn is_nowhere(&self) -> bool {
        let is_absent =
            || fs::metadata(self.dir()).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        matches!(self.kind, Kind::Tower | Kind::Memory) && is_absent()
    }

    /// Its name, where it is a named lock.
    pub fn lock_name(&self) -> Option<LockName> {
        let path = self.path();
        let name = path.file_name()?.to_str()?.strip_suffix(".lock")?;
        LockName::parse(name).ok().filter(|_| self.kind == Kind::Tower)
    }

    /// How long a claim waits for a holder where nobody says so: for a named lock not at all.
    pub fn default_wait(&self) -> Wait {
        match self.kind {
            Kind::Beads | Kind::Lock => Wait::DEFAULT,
            Kind::Tower => Wait::No,
            Kind::Memory => WAIT_FOR_MEMORY,
        }
    }

    /// It is the one lock of a directory, which is judged by its age.
    pub fn has_age(&self) -> bool {
        self.kind == Kind::Memory
    }

    /// Why `--reap-proven-dead` does nothing for it: its holder's death is not what it is judged by. `None`: it counts.
    pub fn nothing_to_reap(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Beads | Kind::Lock => None,
            Kind::Tower => Some(NAMED_IS_NOT_REAPED),
            Kind::Memory => Some(MEMORY_IS_NOT_REAPED),
        }
    }

    /// What an audit trail has to know of it: its name, and where its lock lies.
    pub fn for_trail(&self) -> (String, &Place) {
        (self.name(), &self.place)
    }

    /// The directory that the lock file lies in.
    pub fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// The lock file.
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// The path of a lock file that may lie anywhere, as it was typed after `lock:`.
    pub fn path_of_lock(&self) -> Option<&Path> {
        (self.kind == Kind::Lock).then_some(&self.typed)
    }

    /// A sync daemon runs cycles here.
    pub fn has_cycles(&self) -> bool {
        self.kind == Kind::Beads
    }

    /// The target with its scheme, as JSON has it: `beads:.beads`.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Beads => format!("beads:{}", self.given),
            Kind::Lock | Kind::Tower | Kind::Memory => self.given.clone(),
        }
    }

    /// What [`Found::resolve`] finds this target by from anywhere, for an environment: `beads:/home/ann/shop/.beads`.
    /// Of a named lock it is the name, beside the lock directory in a variable of its own.
    pub fn exported(&self) -> &OsStr {
        &self.exported
    }

    /// The target that [`Found::absolute`] has named, as it is: no redirect is followed. `given` is for lines.
    ///
    /// # Errors
    /// As [`Target::parse`] and [`Place::of_lock`].
    pub fn exact(absolute: &OsStr, given: &str) -> Result<Self, Error> {
        if let Some(found) = Self::exact_tower(absolute) {
            return Ok(found);
        }
        let found =
            match Target::parse(absolute) {
                Ok(Target::Beads(dir)) => Ok(Self {
                    place: Place::beads(&dir),
                    given: given.to_owned(),
                    kind: Kind::Beads,
                    typed: dir.clone(),
                    exported: absolute.to_owned(),
                    database: None,
                }),
                Ok(Target::Lock(path)) => Self::of_lock(&path, Path::new("/"))
                    .map(|found| Self { given: given.to_owned(), ..found }),
                Ok(Target::Tower(name)) => {
                    return Err(Error::usage(format!("tower:{name} does not say in which lock directory")));
                }
                Ok(Target::Memory(dir)) => Self::of_memory(&dir, Path::new("/"))
                    .map(|found| Self { given: given.to_owned(), ..found }),
                Ok(Target::File(path)) => Err(NoDatabase::not_for_files(&path)),
                Err(error) => Err(error),
            };
        found.map_err(|error| not_found(&error))
    }

    /// The named lock of `tower:/run/locks/NAME.lock`, which nobody types.
    fn exact_tower(absolute: &OsStr) -> Option<Self> {
        let path = Path::new(OsStr::from_bytes(absolute.as_bytes().strip_prefix(b"tower:")?));
        let dir = path.parent().filter(|dir| dir.is_absolute())?;
        let name = path.file_name()?.to_str()?.strip_suffix(".lock")?;
        Some(Self::of_tower(dir, &LockName::parse(name).ok()?, Some(dir.as_os_str())))
    }

    /// Where the lock itself lies, with its scheme: `beads:/home/ann/shop/.beads`.
    pub fn absolute(&self) -> OsString {
        let (scheme, path) = match self.kind {
            Kind::Beads => ("beads:", self.dir().to_owned()),
            Kind::Lock => ("lock:", self.path()),
            Kind::Tower => ("tower:", self.path()),
            Kind::Memory => ("memory:", self.dir().to_owned()),
        };
        prefixed(scheme, &path)
    }

    /// The word, or words, that name it in a command.
    pub fn part(&self) -> Part<'static> {
        match self.kind {
            Kind::Beads => Part::of_path(&self.typed),
            Kind::Lock => Part::Words(vec![prefixed("lock:", &self.typed)]),
            Kind::Memory => Part::Words(vec![prefixed("memory:", &self.typed)]),
            Kind::Tower if self.typed.as_os_str().is_empty() => {
                Part::Words(vec![OsString::from(&self.given)])
            }
            Kind::Tower => {
                let dir = Path::new(".").join(&self.typed);
                let is_dashed = self.typed.as_os_str().as_bytes().starts_with(b"-");
                let dir = if is_dashed { dir } else { self.typed.clone() };
                Part::Words(vec!["--lock-dir".into(), dir.into(), self.given.clone().into()])
            }
        }
    }

    /// As it is to be typed.
    #[cfg(test)]
    fn typed(&self) -> String {
        to_type("{}", &[self.part()])
    }
}

fn prefixed(scheme: &str, path: &Path) -> OsString {
    let mut name = OsString::from(scheme);
    name.push(path);
    name
}

/// Why there is no target, with its exit code: 2 when the command line is wrong, else 1.
pub fn not_found(error: &NoDatabase) -> Error {
    let code = match error.code() {
        "USAGE" => Code::Usage,
        "NO_TARGET" => Code::NoTarget,
        _ => Code::Io,
    };
    Error::new(code, error.to_string())
}

/// A target whose lock is true for as long as its process lives, and needs nothing else.
///
/// # Errors
/// Exit 2 for any other.
pub fn of_a_process(found: Found) -> Result<Found, Error> {
    match found.kind {
        Kind::Beads | Kind::Lock => Ok(found),
        Kind::Tower | Kind::Memory => {
            let (given, hold) = (&found.given, to_type("beadlock hold {} -- CMD", &[found.part()]));
            let own = if found.kind == Kind::Memory { ", or use what is for it in `memory`" } else { "" };
            Err(Error::usage(format!(
                "{given} is kept up while it is held, which this kind of lock is not; run a command under it: {hold}{own}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_is_found_again() {
        let top = tempfile::tempdir().unwrap();
        for name in ["plain", "a b", "beads:a:b", "it's"] {
            fs::create_dir(top.path().join(name)).unwrap();
        }
        let around = beadlock_checker::internal::database::Environment {
            cwd: top.path().to_owned(),
            ..beadlock_checker::internal::database::Environment::default()
        };
        let typed =
            |name: &str| Found::of_database(Database::named(Path::new(name), &around).unwrap()).typed();
        assert_eq!(typed("plain"), "plain");
        assert_eq!(typed("a b"), "'a b'");
        assert_eq!(typed("beads:a:b"), "./beads:a:b");
        let lock = Found::of_lock(Path::new("it's"), &top.path().join("plain")).unwrap();
        assert_eq!(lock.typed(), r"'lock:it'\''s'");
    }

    #[test]
    fn what_is_exported_leads_to_the_same_lock() {
        let top = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(top.path()).unwrap();
        let lock = Found::of_lock(Path::new("x"), &dir).unwrap();
        let again = Found::resolve(Some(lock.exported()), &Environment::default()).unwrap();
        assert_eq!(again.place, lock.place);
        for odd in ["a b", "it's", "a\nb"] {
            let lock = Found::of_lock(Path::new(odd), &dir).unwrap();
            let typed = crate::words::quoted(lock.exported());
            assert!(typed.contains('\''), "{typed}");
            let again = Found::resolve(Some(OsStr::new(&typed)), &Environment::default()).unwrap();
            assert_eq!(again.place, lock.place, "{typed}");
        }
        let name = LockName::parse("app-prod").unwrap();
        let tower = Found::of_tower(&dir, &name, Some(OsStr::new("a b")));
        let exact = Found::exact(&tower.absolute(), "").unwrap();
        assert_eq!((&exact.place, exact.given.as_str()), (&tower.place, "tower:app-prod"));
        assert_eq!(tower.typed(), "--lock-dir 'a b' tower:app-prod");
        assert_eq!(Found::of_tower(&dir, &name, None).typed(), "tower:app-prod");
        assert!(Found::exact(OsStr::new("tower:app-prod"), "").is_err(), "in which directory?");
        let exact = Found::exact(&lock.absolute(), "lock:x").unwrap();
        assert_eq!((exact.place, exact.given.as_str()), (lock.place, "lock:x"));
    }
}
