//! A target: what is locked, where its lock file lies, how it was named, and which protocol it goes by.

use crate::error::Problem;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use beadlock_base::escape::escaped_path;
use beadlock_core::Place;
use beadlock_core::database::{Database, NoDatabase, NoDatabaseKind};
use beadlock_core::dolt::Dolt;
use beadlock_core::{look::Look, redirect, target::Scheme};

use crate::error::{Code, Error};
use crate::observe::{Claimed, Notice, Observer};
use crate::protocol::worktrees;
use crate::words::command_of_holder;
use crate::{audit_trail::AuditTrail, envelope::Request, environment::Environment};

/// A thing to lock. The folders of `protocol` make targets; everything else asks them.
#[derive(Debug, Clone)]
pub struct Target {
    /// The directory of the lock file, and its names there.
    pub place: Place,
    /// How it was named or found, for lines: `.beads`, `lock:run/x.lock`.
    pub given: String,
    pub(crate) typed: PathBuf,
    /// The name that finds this target from anywhere, for an environment: `beads:/home/ann/shop/.beads`.
    pub exported: OsString,
    /// The database that was found; `None`: the target is of another scheme, or was named exactly as it is.
    pub database: Option<Box<Database>>,
    /// The kind of lock, and so the protocol that it goes by.
    pub scheme: Scheme,
}

impl Target {
    /// The target that `path` names on a command line, with its lock at `place`.
    pub fn at_path(scheme: Scheme, place: Place, path: &Path) -> Self {
        let given = format!("{}{}", scheme.prefix(), escaped_path(path));
        let (typed, exported) = (path.to_owned(), OsString::new());
        let target = Self {
            place,
            given,
            typed,
            exported,
            database: None,
            scheme,
        };
        Self {
            exported: target.absolute(),
            ..target
        }
    }

    /// Refuses a database that git tracks and that a redirect or a link leads to: others would choose what is claimed.
    pub fn refuse_tracked(&self) -> Result<(), Error> {
        let Some(database) = &self.database else {
            return Ok(());
        };
        redirect::refuse_tracked(database).map_err(|error| not_found(&error))
    }

    /// Makes the directory of its lock, where a claim of its protocol does that.
    pub fn prepare(&self, environment: &Environment, observer: &dyn Observer) -> Result<(), Error> {
        if let Some(dir) = self.make_directory(environment)? {
            observer.notice(&Notice::Made { dir: &dir });
        }
        Ok(())
    }

    /// Warns of what its protocol knows of its directory.
    pub fn warn(&self, observer: &dyn Observer) {
        for warning in self.warnings() {
            observer.notice(&Notice::Directory(&warning));
        }
    }

    /// bd keeps the database in Dolt. A claim keeps away beadlock-agent and daemons that ask, but not bd then.
    pub fn is_in_dolt(&self) -> bool {
        self.rules().has_cycles && Dolt::of(self.dir()).is_some()
    }

    /// This target, claimed for `holder` with this PID. Whether it is in Dolt is not looked at.
    pub fn claimed<'a>(&'a self, holder: &'a str, pid: i32) -> Claimed<'a> {
        let rules = self.rules();
        Claimed {
            given: &self.given,
            dir: self.not_in().map(|_| self.dir()),
            holder,
            pid,
            in_dolt: false,
            committable: rules.may_be_committed.then_some(&self.place),
            fleet: None,
        }
    }

    /// A lock whose directory a claim would make, and that does not exist yet: the lock is free, and nothing is made
    /// to say so. A directory that cannot be looked at may exist.
    pub fn is_nowhere(&self) -> bool {
        let is_absent =
            || fs::metadata(self.dir()).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        (self.rules().makes_directory || worktrees::is_one(self)) && is_absent()
    }

    /// The holder of the lock: `make (PID 77: make release, on ci-3)`; the command only where the process is of this
    /// machine.
    pub fn holder(&self, look: &Look) -> Option<String> {
        let record = look.record.as_ref()?;
        Some(self.holder_of(record, command_of_holder(look).as_deref()))
    }

    /// The trail of what happens to its lock in `file`. With the `id` of a claim, or of the request that breaks it,
    /// that of its document, where there is one.
    pub fn trail<'a>(
        &self,
        file: Option<&Path>,
        (holder, id): (Option<&str>, Option<&str>),
        request: &'a Request,
        observer: &'a dyn Observer,
    ) -> Result<AuditTrail<'a>, Error> {
        let locks = self.own_files();
        let of = (self.name(), locks.as_slice());
        match id.and_then(|id| self.events(file, id, observer)) {
            Some(events) => AuditTrail::of_document(file, events, of, request, observer),
            None => AuditTrail::open(file, holder, of, request, observer),
        }
    }

    /// The directory that the lock file lies in.
    pub fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// True where sync daemons run cycles on such targets.
    pub fn has_cycles(&self) -> bool {
        self.rules().has_cycles
    }

    /// The target with its scheme, as JSON has it: `beads:.beads`.
    pub fn name(&self) -> String {
        let prefix = self.scheme.prefix();
        if self.given.starts_with(prefix) {
            self.given.clone()
        } else {
            format!("{prefix}{}", self.given)
        }
    }
}

/// `lock:run/x.lock`
pub fn prefixed(scheme: &str, path: impl AsRef<OsStr>) -> OsString {
    let mut name = OsString::from(scheme);
    name.push(path);
    name
}

/// Why there is no target, with its exit code: 2 when the command line is wrong, else 1.
pub fn not_found(error: &NoDatabase) -> Error {
    let code = match error.kind() {
        NoDatabaseKind::Usage => Code::Usage,
        NoDatabaseKind::NotThere => Code::NoTarget,
        NoDatabaseKind::Io => Code::Io,
    };
    Error::new(code, error.to_string())
}
