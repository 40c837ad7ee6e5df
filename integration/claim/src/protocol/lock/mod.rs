//! `lock:PATH`: a lock file of the beads rule at any path, without cycles (docs/design.md#locks-at-a-path).

pub mod worktrees;

use std::path::{Path, PathBuf};

use beadlock_base::{escape::escaped_path, filesystem::FileKind};
use beadlock_core::{Place, Verdict};
use beadlock_core::{
    database::NoDatabase,
    look::Look,
    record::{beads::ContentKind, lock},
    target::Scheme,
};

use super::{Folder, Found, beads::Acceptance, process};
use crate::protocol::rules::{LONGEST_LOCK_FILE, NotALock, Protocol, ProtocolRules, WaitOver};
use crate::target::{Target, prefixed};
use crate::{environment::Environment, words::quoted};

/// The rules of a lock file at a path.
pub const RULES: ProtocolRules = ProtocolRules {
    may_be_committed: true,
    speaks_of_databases: false,
    then_unreadable: "every check skips",
    ..ProtocolRules::of("lock files (lock:PATH)")
};

#[derive(Debug)]
pub(crate) struct LockAtPath;

impl Protocol for LockAtPath {
    fn is_held_by(&self, look: &Look, pid: i32) -> bool {
        process::is_held_by(look, pid)
    }

    fn for_a_guard(&self, _target: &Target) -> Result<(), String> {
        Ok(())
    }
}

impl Folder for LockAtPath {
    fn find(&self, rest: &Path, environment: &Environment, _: Acceptance<'_>) -> Found {
        if let Some(name) = worktrees::name(rest) {
            return worktrees::target(rest, name, environment);
        }
        Ok(target(rest, &environment.of_database().cwd)?)
    }

    fn by_letters(&self, rest: &Path, environment: &Environment) -> (PathBuf, PathBuf) {
        let cwd = environment.of_database().cwd;
        match worktrees::name(rest) {
            // Where the lock lies is known once the working directory answers.
            Some(_) => (cwd.clone(), cwd),
            None => (cwd.join(rest), cwd.join(rest)),
        }
    }

    fn exact(&self, rest: &Path, given: &str) -> Found {
        Ok(Target {
            given: given.to_owned(),
            ..target(rest, Path::new("/"))?
        })
    }
}

/// The lock file at `path`, relative to `cwd`; nothing need be there, but for its directory.
pub fn target(path: &Path, cwd: &Path) -> Result<Target, NoDatabase> {
    Ok(Target::at_path(
        Scheme::Lock,
        Place::of_lock(path, cwd)?,
        path,
    ))
}

pub(crate) fn not_a_lock(look: &Look, target: &Target) -> Option<NotALock> {
    let is_large = || {
        look.on_disk
            .is_some_and(|file| file.kind == FileKind::File && file.size > LONGEST_LOCK_FILE)
    };
    let is_data = look.content == Some(ContentKind::Data) || is_large();
    if !is_data || !matches!(look.verdict, Verdict::Unreadable(_)) {
        return None;
    }
    let mut beside = prefixed(Scheme::Lock.prefix(), &target.typed);
    beside.push(".lock");
    let meant = [prefixed(Scheme::File.prefix(), &target.typed), beside];
    let [file, lock] = meant.each_ref().map(|name| quoted(name));
    let words = format!(
        "{} is not a lock file; did you mean {file} or {lock}?",
        escaped_path(&target.typed)
    );
    Some(NotALock { words, meant })
}

pub(crate) fn why_empty(look: &Look) -> Option<&'static str> {
    let why = "flock(1) leaves such files, and so do tools that lock by creating a file";
    (look.content == Some(ContentKind::Empty)).then_some(why)
}

/// Neither its name nor its content says that it is a lock.
pub fn may_be_data(look: &Look) -> bool {
    !matches!(look.content, Some(ContentKind::Empty | ContentKind::Record))
}

pub(crate) fn timed_out(waited: &WaitOver<'_>) -> String {
    let WaitOver {
        record,
        age,
        wait,
        zombie,
        ..
    } = waited;
    record
        .as_beads()
        .map(|record| lock::timed_out(record, *age, wait.limit()))
        .unwrap_or_default()
        + zombie
}
