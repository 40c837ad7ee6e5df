//! The targets and ids that an answer offers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, time::Instant};

use beadlock_base::{helper::Helpers, mounts::Mounts};
use beadlock_core::Options;
use beadlock_core::{look::look, target::Scheme};
use clap::ArgMatches;
use clap_complete::CompletionCandidate;

use super::below;
use crate::help;
use crate::targets::{Offered, offered};
use beadlock_claim::environment::Environment;
use beadlock_claim::protocol::{self, Acceptance, folder};
use beadlock_claim::remote::{BEADS, ProbeLimit, Remote};
use beadlock_claim::target::Target;

/// More entries of one directory are not offered.
const MOST: usize = 1000;

/// Finds the completions for a command line, from the words typed so far.
pub struct Candidates {
    environment: Environment,
    cwd: PathBuf,
    mounts: Mounts,
    /// When the search for locks ends.
    until: Instant,
    /// The target that stands on the line already.
    target: Option<OsString>,
    /// The word that is completed.
    word: OsString,
}

impl Candidates {
    pub fn new(
        helpers: Helpers,
        typed: &[OsString],
        environment: Environment,
        until: Instant,
    ) -> Self {
        let (cwd, mounts) = (environment.of_database().cwd, Mounts::now());
        let parsed = help::tree(&[])
            .ignore_errors(true)
            .try_get_matches_from(typed)
            .ok();
        let below = parsed
            .as_ref()
            .and_then(ArgMatches::subcommand)
            .map(|(_, below)| below);
        let value = |matches: Option<&ArgMatches>, name: &str| -> Option<OsString> {
            matches?
                .try_get_raw(name)
                .ok()
                .flatten()?
                .next()
                .map(OsStr::to_owned)
        };
        let lock_dir = value(below, "lock_dir").or_else(|| value(parsed.as_ref(), "lock_dir"));
        let environment = environment.with_lock_dir(lock_dir.as_deref());
        let environment = environment.with_remote(Remote::of(
            helpers,
            ProbeLimit::Look,
            Vec::new(),
            cwd.clone(),
        ));
        let target = value(below, "target").filter(|target| !target.is_empty());
        Self {
            environment,
            cwd,
            mounts,
            until,
            target,
            word: typed.last().cloned().unwrap_or_default(),
        }
    }

    /// Whether the directory of the word can be read without a file system that may hang.
    pub fn may_read_paths(&self) -> bool {
        let word = self.word.as_bytes();
        let from = word
            .iter()
            .position(|byte| *byte == b'=')
            .filter(|_| word.starts_with(b"-"))
            .map_or(0, |at| at + 1);
        self.is_local(split(OsStr::from_bytes(&word[from..])).0)
    }

    /// No file system that may hang lies on the way there.
    fn is_local(&self, path: impl AsRef<Path>) -> bool {
        self.mounts.on_the_way(&self.cwd.join(path)).is_none()
    }

    /// The targets for `hold` and commands like it: databases, locks, names of locks, and paths.
    pub fn targets(&self, typed: &OsStr) -> Vec<CompletionCandidate> {
        if let Some((scheme, rest)) = Scheme::split(typed.as_bytes()) {
            return self.of_scheme(scheme, OsStr::from_bytes(rest));
        }
        let mut found: Vec<OsString> = Vec::new();
        if self.is_local("") {
            found.extend(
                below::targets(&self.environment, &self.mounts, self.until)
                    .into_iter()
                    .map(OsString::from),
            );
            found.extend(paths(&self.cwd, typed, true).into_iter().map(no_option));
        }
        for scheme in Scheme::ALL {
            found.extend(self.names(scheme));
        }
        found.extend(Scheme::ALL.map(|scheme| scheme.prefix().into()));
        candidates(typed, found)
    }

    fn of_scheme(&self, scheme: Scheme, rest: &OsStr) -> Vec<CompletionCandidate> {
        let prefix = scheme.prefix();
        let typed = [prefix.as_bytes(), rest.as_bytes()].concat();
        let found = match offered(scheme) {
            Offered::Names(_) => self.names(scheme),
            offered if self.is_local(split(rest).0) => {
                let found = paths(&self.cwd, rest, matches!(offered, Offered::Directories));
                found
                    .into_iter()
                    .map(|path| [prefix.as_ref(), path.as_os_str()].into_iter().collect())
                    .collect()
            }
            _ => Vec::new(),
        };
        candidates(OsStr::from_bytes(&typed), found)
    }

    /// The locks that this protocol has by name.
    fn names(&self, scheme: Scheme) -> Vec<OsString> {
        let Offered::Names(names) = offered(scheme) else {
            return Vec::new();
        };
        let (_, dir) = folder(scheme).by_letters(Path::new(""), &self.environment);
        let names = if self.is_local(&dir) {
            names(&dir)
        } else {
            Vec::new()
        };
        names
            .into_iter()
            .map(|name| format!("{}{name}", scheme.prefix()).into())
            .collect()
    }

    /// The id of the lock of the target that stands on the line, or of the one that is found from here.
    pub fn ids(&self, typed: &OsStr) -> Vec<CompletionCandidate> {
        let mut found = Vec::new();
        let named = self.target.as_deref();
        let may_hang = protocol::unresolved(named, &self.environment)
            .is_some_and(|target| !target.lookups.is_empty());
        let target = (!may_hang)
            .then(|| protocol::resolve(named, &self.environment, Acceptance::Any).ok())
            .flatten();
        if let Some(target) = target.filter(Target::has_record) {
            found.extend(
                look(&target.place, &Options::default())
                    .id
                    .map(OsString::from),
            );
        }
        candidates(typed, found)
    }
}

/// Those that begin with what is typed, each once, in their order.
fn candidates(typed: &OsStr, found: Vec<OsString>) -> Vec<CompletionCandidate> {
    let mut known = std::collections::HashSet::new();
    let found = found
        .into_iter()
        .filter(|name| name.as_bytes().starts_with(typed.as_bytes()));
    // A shell would take the rest of the name for another candidate.
    let found = found.filter(|name| {
        !name.as_bytes().iter().any(u8::is_ascii_control) && known.insert(name.clone())
    });
    found
        .enumerate()
        .map(|(at, name)| CompletionCandidate::new(name).display_order(Some(at)))
        .collect()
}

/// A path that is not taken for an option or for `SCHEME:`.
fn no_option(path: OsString) -> OsString {
    let first = path.as_bytes().split(|byte| *byte == b'/').next();
    let first = first.unwrap_or_default();
    if first.starts_with(b"-") || first.contains(&b':') {
        [OsStr::new("./"), &path].into_iter().collect()
    } else {
        path
    }
}

/// The directory of a path with its slash, and the name that is begun behind it.
fn split(path: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = path.as_bytes();
    let (dir, name) = bytes.split_at(
        bytes
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1),
    );
    (OsStr::from_bytes(dir), OsStr::from_bytes(name))
}

/// The paths that begin so; directories end in a slash. Hidden names are left out, but for databases, unless a dot is
/// typed.
fn paths(cwd: &Path, typed: &OsStr, directories_only: bool) -> Vec<OsString> {
    let (dir, begun) = split(typed);
    let Ok(entries) = fs::read_dir(cwd.join(dir)) else {
        return Vec::new();
    };
    let mut found: Vec<OsString> = Vec::new();
    for entry in entries.flatten().take(MOST) {
        let name = entry.file_name();
        let is_hidden = name.as_bytes().starts_with(b".")
            && name != BEADS
            && !begun.as_bytes().starts_with(b".");
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_hidden
            || (directories_only && !is_directory)
            || !name.as_bytes().starts_with(begun.as_bytes())
        {
            continue;
        }
        let slash: &[u8] = if is_directory && name != BEADS {
            b"/"
        } else {
            b""
        };
        found.push(OsString::from_vec(
            [dir.as_bytes(), name.as_bytes(), slash].concat(),
        ));
    }
    found.sort();
    found
}
