//! The claims that a command line wants: each with its target, and the order in which they are taken
//! (docs/design.md#several-targets).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::MetadataExt};

use beadlock_core::facts::random_id;

use crate::claim::{nested, target::Target};
use crate::error::Error;
use crate::output::{envelope::Request, talk::Talk, trail::Trail};
use crate::protocol::{Args, ClaimWords, Intended, intended};
use crate::settings::{Claim, environment::Environment};

/// One that is to be claimed.
pub struct Wanted {
    pub target: Target,
    words: ClaimWords,
}

/// The same with all that names the claim.
pub struct Named {
    pub target: Target,
    pub words: ClaimWords,
    pub holder: String,
    pub id: String,
    /// The id of the claim that it stands under already.
    pub outer: Option<String>,
}

/// What is to be claimed of these targets, in the order in which they were typed. A mode that takes no lock leaves its
/// target out.
pub fn all(
    targets: Vec<Option<Target>>,
    typed: &Args,
    environment: &Environment,
    talk: &Talk,
) -> Result<Vec<Wanted>, Error> {
    let mut wanted = Vec::new();
    for target in targets {
        match intended(target, typed, environment)? {
            Intended::Nothing(warning) => {
                warning.into_iter().for_each(|warning| talk.warn(warning))
            }
            Intended::Claim(target, words) => wanted.push(Wanted {
                target: *target,
                words,
            }),
        }
    }
    Ok(wanted)
}

/// Makes the directories of the locks, and leaves out what was typed before. Fails with exit 2 where one lock file is
/// named as two kinds of lock.
pub fn prepared(
    wanted: Vec<Wanted>,
    environment: &Environment,
    talk: &Talk,
) -> Result<Vec<Wanted>, Error> {
    let mut prepared: Vec<Wanted> = Vec::new();
    for Wanted { target, words } in wanted {
        target.prepare(environment, talk)?;
        target.warn(talk);
        let place = LockPlace::of(&target);
        match prepared
            .iter()
            .find(|known| LockPlace::of(&known.target) == place)
        {
            None => prepared.push(Wanted { target, words }),
            Some(known) if known.target.protocol.prefix() == target.protocol.prefix() => {
                talk.say_more(&format!(
                    "{} is {}: it is claimed once",
                    target.given, known.target.given
                ));
            }
            Some(known) => {
                return Err(Error::usage(format!(
                    "{} and {} have the same lock file, which cannot be locked in two ways; leave one of them out",
                    known.target.given, target.given
                )));
            }
        }
    }
    Ok(prepared)
}

/// The places in the list, in the order in which the claims are taken: by the directory of the lock file, then by its
/// name.
pub fn order(named: &[Named]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..named.len()).collect();
    order.sort_by_cached_key(|index| named.get(*index).map(|named| LockPlace::of(&named.target)));
    order
}

/// Where a lock file lies, whatever path leads there.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LockPlace {
    /// Device and inode of its directory, and its name there.
    Known(u64, u64, OsString),
    /// Its directory cannot be looked at.
    Path(PathBuf),
}

impl LockPlace {
    fn of(target: &Target) -> Self {
        let path = target.path();
        let name = path.file_name().unwrap_or(OsStr::new("")).to_owned();
        match path.parent().map(fs::metadata) {
            Some(Ok(dir)) => Self::Known(dir.dev(), dir.ino(), name),
            _ => Self::Path(path),
        }
    }
}

impl Wanted {
    /// The files that nothing else may be written to.
    pub fn own_files(&self) -> Vec<PathBuf> {
        self.target.protocol.own_files(&self.target)
    }

    /// `name` is the command's.
    pub fn named(self, claim: &Claim, name: &str, environment: &Environment) -> Named {
        let Self { target, words } = self;
        let holder = words
            .holder
            .clone()
            .or_else(|| claim.holder.clone())
            .unwrap_or_else(|| name.to_owned());
        let id = words.id.clone().unwrap_or_else(random_id);
        let outer = nested::outer_claim(&target, environment);
        Named {
            target,
            words,
            holder,
            id,
            outer,
        }
    }
}

impl Named {
    pub fn has_steps(&self) -> bool {
        self.target.protocol.rules().has_steps && self.outer.is_none()
    }

    pub fn trail<'a>(
        &self,
        file: Option<&Path>,
        request: &'a Request,
        talk: &'a Talk,
    ) -> Result<Trail<'a>, Error> {
        // A lock without a record names no holder.
        let holder = self
            .target
            .protocol
            .without_record()
            .is_none()
            .then_some(self.holder.as_str());
        let of_claim = (
            holder,
            Some(self.outer.as_ref().unwrap_or(&self.id).as_str()),
        );
        self.target.trail(file, of_claim, request, talk)
    }
}
