//! The protocols: what differs between the kinds of lock while one is claimed, one folder each. This page and `words`
//! list them, and delegate to the folders.

pub mod beads;
pub mod dir;
pub mod file;
pub mod lock;
mod look_options;
pub mod memory;
pub mod named_claim;
pub mod process;
mod resolve;
pub mod rules;
pub mod tower;
mod words;

use crate::error::Problem;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_core::record::{Record, facts::Facts};
use beadlock_core::{Options, Verdict};
use beadlock_core::{look::Look, take::Held, target::Scheme};

use crate::audit_trail::DocumentEvents;
use crate::observe::{DirWarning, Observer};
use crate::protocol::rules::{NotALock, Protocol, ProtocolKind, ProtocolRules};
use crate::target::{Target, prefixed};
use crate::{environment::Environment, error::Error, lease::LeaseTimes, words::Part};

pub use lock::worktrees;

pub use beads::{Acceptance, any_directory_is_for_databases, target as of_database};
pub use look_options::LookOptions;
pub use resolve::{Unfound, answers_for, answers_for_intent, exact, resolve, root, unresolved};

/// The target that a folder has found, or why there is none.
pub type Found = Result<Target, Unfound>;

/// The folder of a protocol: how its targets are found, beside what it answers as a [`Protocol`].
pub trait Folder: Protocol {
    /// The target that `rest`, which stands behind the colon, names.
    fn find(&self, rest: &Path, environment: &Environment, acceptance: Acceptance<'_>) -> Found;

    /// The target of an absolute name, as it is. `given` is for lines.
    fn exact(&self, rest: &Path, given: &str) -> Found;

    /// Where the lock file and the target itself lie by the letters of `rest` alone: nothing is looked at.
    fn by_letters(&self, rest: &Path, environment: &Environment) -> (PathBuf, PathBuf) {
        let at = environment.of_database().cwd.join(rest);
        (at.clone(), at)
    }
}

/// The one list of the protocols.
pub fn folder(scheme: Scheme) -> &'static dyn Folder {
    match scheme {
        Scheme::Beads => &beads::Beads,
        Scheme::Dir => &dir::Dir,
        Scheme::Lock => &lock::LockAtPath,
        Scheme::Tower => &tower::Tower,
        Scheme::Memory => &memory::Memory,
        Scheme::File => &file::File,
        Scheme::Flock => &file::Flock,
    }
}

/// The protocol of a scheme, for the questions that several protocols answer in their own way.
pub fn protocol(scheme: Scheme) -> &'static dyn Protocol {
    folder(scheme)
}

/// The fixed rules of the protocol of a scheme.
pub fn rules(scheme: Scheme) -> &'static ProtocolRules {
    match scheme {
        Scheme::Beads => &beads::RULES,
        Scheme::Dir => &dir::RULES,
        Scheme::Lock => &lock::RULES,
        Scheme::Tower => &tower::RULES,
        Scheme::Memory => &memory::RULES,
        Scheme::File => &file::RULES,
        Scheme::Flock => &file::FLOCK_RULES,
    }
}

/// The error, with exit 2, of an option that means something to the protocols `owners` alone, and was typed for
/// `target`.
pub fn option_of(option: &str, owners: &[Scheme], target: &str) -> Error {
    let locks: Vec<&str> = owners.iter().map(|owner| rules(*owner).locks).collect();
    let locks = locks.join(" and ");
    Error::usage(format!(
        "{option} is for {locks}, and the target is {target}; leave it out"
    ))
}

/// The answers of a target's protocol. Where one protocol alone has an answer, the others are listed beside it: the
/// compiler asks for each answer when a protocol is added.
impl Target {
    /// The fixed rules of the target's protocol.
    pub fn rules(&self) -> &'static ProtocolRules {
        rules(self.scheme)
    }

    /// Whether the target's lock is a file with a record; else the kernel keeps the lock.
    pub fn has_record(&self) -> bool {
        matches!(self.rules().kind, ProtocolKind::Record)
    }

    /// The words that name the target in a command.
    pub fn part(&self) -> Part<'static> {
        protocol(self.scheme).part(self)
    }

    /// Where the lock itself lies, with its scheme: `beads:/home/ann/shop/.beads`.
    pub fn absolute(&self) -> OsString {
        protocol(self.scheme).absolute(self)
    }

    /// Whether the process `pid` holds the lock, proved by more than the number.
    pub fn is_held_by(&self, look: &Look, pid: i32) -> bool {
        protocol(self.scheme).is_held_by(look, pid)
    }

    /// The times of the lease that keeps a lock of it valid; `None`: it needs none.
    pub fn lease(&self, held: &Held) -> Option<LeaseTimes> {
        protocol(self.scheme).lease(held)
    }

    /// Time until a lock of the target is stale by time alone; `None`: no such time is known.
    pub fn fresh_for(
        &self,
        record: &Record,
        facts: Option<&Facts>,
        options: &Options,
    ) -> Option<Duration> {
        protocol(self.scheme).fresh_for(record, facts, options)
    }

    /// Whether a guard of a Rust program can hold its lock; the error says why not.
    pub fn for_a_guard(&self) -> Result<(), String> {
        protocol(self.scheme).for_a_guard(self)
    }

    /// The lock file.
    pub fn path(&self) -> PathBuf {
        match self.scheme {
            Scheme::File | Scheme::Flock => file::lock_file(self),
            Scheme::Beads | Scheme::Dir | Scheme::Lock | Scheme::Tower | Scheme::Memory => {
                self.place.path()
            }
        }
    }

    /// The files that a report or an audit trail must not be written to.
    pub fn own_files(&self) -> Vec<PathBuf> {
        match self.scheme {
            Scheme::File | Scheme::Flock => file::own_files(self),
            Scheme::Beads | Scheme::Dir | Scheme::Lock | Scheme::Tower | Scheme::Memory => {
                vec![self.path()]
            }
        }
    }

    /// Makes the directory that a claim needs; returns one that a person does not expect there.
    pub fn make_directory(&self, environment: &Environment) -> Result<Option<PathBuf>, Error> {
        match self.scheme {
            Scheme::Tower => tower::make_directory(self, environment),
            Scheme::Lock if worktrees::is_one(self) => {
                worktrees::make_directory(self).map(|()| None)
            }
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => Ok(None),
        }
    }

    /// The directory that the protocol's document names, where the target lies in another one. A lock in one directory
    /// keeps nobody out who looks in the other.
    pub fn not_in(&self) -> Option<&'static str> {
        match self.scheme {
            Scheme::Tower => tower::not_in(self),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// Warnings about the lock's directory, to be read before the lock is trusted.
    pub fn warnings(&self) -> Vec<DirWarning> {
        match self.scheme {
            Scheme::Tower => tower::lock_dir::warnings(self.dir()),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => Vec::new(),
        }
    }

    /// The variable, and its value, without which [`Target::exported`] does not lead to it.
    pub fn exported_besides(&self, environment: &Environment) -> Option<(&'static str, PathBuf)> {
        match self.scheme {
            Scheme::Tower => tower::exported_besides(self, environment),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// The name of the claim `id` in the list of the claims that a process runs in.
    pub fn name_of_claim(&self, id: &str) -> String {
        match self.scheme {
            Scheme::Tower => tower::name_of_claim(id, self),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => id.to_owned(),
        }
    }

    /// The events that its document wants written down for the claim `id`, in `file` or where the document says.
    pub(crate) fn events<'a>(
        &self,
        file: Option<&Path>,
        id: &str,
        observer: &'a dyn Observer,
    ) -> Option<Box<dyn DocumentEvents + 'a>> {
        match self.scheme {
            Scheme::Tower => Some(tower::events(file, id, self, observer)),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// The options that a claim must have besides, as `status` says them.
    pub fn options_of_claim(&self, record: Option<&Record>) -> Vec<OsString> {
        match self.scheme {
            Scheme::Tower => tower::options_of_claim(record),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => Vec::new(),
        }
    }

    /// The id of the lock that the process `pid` has already, where the protocol lets it in once more.
    pub fn reentered(&self, pid: i32, options: &Options) -> Option<String> {
        match self.scheme {
            Scheme::Memory => memory::of_same_process(self, pid, options),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Tower
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// Whether the file in the lock's place is a lock of this protocol: other files may have its name.
    pub fn is_its_lock(&self, look: &Look) -> bool {
        match self.scheme {
            Scheme::Memory => memory::is_its_lock(look),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Tower
            | Scheme::File
            | Scheme::Flock => look.verdict != Verdict::Free,
        }
    }

    /// The status as its document has it, in place of the lock file's bytes.
    pub fn document_status(
        &self,
        options: &Options,
        environment: &Environment,
    ) -> Option<Result<Vec<u8>, Error>> {
        match self.scheme {
            Scheme::Memory => Some(memory::status::document(self, options, environment)),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Tower
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// Somebody's data that lies in the place of the lock; `None`: none was recognized.
    pub fn not_a_lock(&self, look: &Look) -> Option<NotALock> {
        match self.scheme {
            Scheme::Lock => lock::not_a_lock(look, self),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Tower
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// Why an empty file may lie in the place of the lock, where that is one.
    pub fn why_empty(&self, look: &Look) -> Option<&'static str> {
        match self.scheme {
            Scheme::Lock => lock::why_empty(look),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Tower
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// Whether a file in the lock's place that cannot be understood may be somebody's data, and not a lock.
    pub fn may_be_data(&self, look: &Look) -> bool {
        match self.scheme {
            Scheme::Lock => lock::may_be_data(look),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Tower
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => false,
        }
    }
}

/// The word that names the database in `dir` on a command line, whatever its path looks like.
pub fn directory(dir: &Path) -> OsString {
    prefixed(Scheme::Beads.prefix(), dir)
}

/// The lock file at `path`, by the rule of a database's lock.
pub fn lock_at(path: &Path, environment: &Environment) -> Result<Target, Error> {
    Ok(lock::target(path, &environment.of_database().cwd)?)
}
