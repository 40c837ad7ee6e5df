//! `dir:PATH`: any directory, with the lock, the gate and the cycles of a database (docs/design.md#targets).

use std::path::{Path, PathBuf};

use beadlock_core::Place;
use beadlock_core::{look::Look, target::Scheme};
use std::ffi::OsString;

use super::{Folder, Found, beads::Acceptance, process};
use crate::environment::Environment;
use crate::protocol::rules::{Protocol, ProtocolRules};
use crate::target::{Target, prefixed};

/// The rules of the lock of a directory.
pub const RULES: ProtocolRules = ProtocolRules {
    has_cycles: true,
    may_be_committed: true,
    speaks_of_databases: false,
    then_unreadable: "every cycle skips",
    ..ProtocolRules::of("directories (dir:PATH)")
};

#[derive(Debug)]
pub(crate) struct Dir;

impl Protocol for Dir {
    fn is_held_by(&self, look: &Look, pid: i32) -> bool {
        process::is_held_by(look, pid)
    }

    fn for_a_guard(&self, _target: &Target) -> Result<(), String> {
        Ok(())
    }

    fn absolute(&self, target: &Target) -> OsString {
        prefixed(target.scheme.prefix(), target.dir())
    }
}

impl Folder for Dir {
    fn find(&self, rest: &Path, environment: &Environment, _: Acceptance<'_>) -> Found {
        let place = Place::of_directory(rest, &environment.of_database().cwd)?;
        Ok(Target::at_path(Scheme::Dir, place, rest))
    }

    fn exact(&self, rest: &Path, given: &str) -> Found {
        Ok(Target {
            given: given.to_owned(),
            ..Target::at_path(Scheme::Dir, Place::beads(rest), rest)
        })
    }

    fn by_letters(&self, rest: &Path, environment: &Environment) -> (PathBuf, PathBuf) {
        let at = environment.of_database().cwd.join(rest);
        (at.join(".exclusive-lock"), at)
    }
}
