//! The claims that a command line wants: each with its target, and the order in which they are taken
//! (docs/design.md#several-targets).

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::MetadataExt};

use crate::targets::{Args, Claimer, Requested, request};
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::{audit_trail::AuditTrail, envelope::Request};
use beadlock_claim::{
    request::{ClaimRequest, LockDraft},
    target::Target,
};
use beadlock_console::talk::Talk;

/// What is to be claimed of these targets, in the order in which they were typed. A mode that takes no lock leaves its
/// target out.
pub fn all(
    targets: Vec<Option<Target>>,
    typed: &Args,
    claimer: Claimer<'_>,
    talk: &Talk,
) -> Result<Vec<ClaimRequest>, Error> {
    let mut wanted = Vec::new();
    for target in targets {
        match request(target, typed, claimer)? {
            Requested::NoLock(warning) => {
                warning.into_iter().for_each(|warning| talk.warn(warning))
            }
            Requested::Claim(request) => wanted.push(*request),
        }
    }
    Ok(wanted)
}

/// Makes the directories of the locks, and leaves out what was typed before. Fails with exit 2 where one lock file is
/// named as two kinds of lock.
pub fn prepared(
    wanted: Vec<ClaimRequest>,
    environment: &Environment,
    talk: &Talk,
) -> Result<Vec<ClaimRequest>, Error> {
    let mut prepared: Vec<ClaimRequest> = Vec::new();
    for request in wanted {
        let target = &request.target;
        target.prepare(environment, talk)?;
        target.warn(talk);
        let place = LockPlace::of(target);
        match prepared
            .iter()
            .find(|known| LockPlace::of(&known.target) == place)
        {
            None => prepared.push(request),
            Some(known) if known.target.scheme == target.scheme => {
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
pub fn order(requests: &[ClaimRequest]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_cached_key(|index| {
        requests
            .get(*index)
            .map(|request| LockPlace::of(&request.target))
    });
    order
}

/// The trail of what happens to the lock of this claim, in `file`.
pub fn trail<'a>(
    wanted: &ClaimRequest,
    file: Option<&Path>,
    request: &'a Request,
    talk: &'a Talk,
) -> Result<AuditTrail<'a>, Error> {
    // A lock without a record names no holder.
    let holder = match wanted.draft {
        LockDraft::Record(_) => Some(wanted.holder.as_str()),
        LockDraft::Kernel(..) => None,
    };
    let id = wanted.outer.as_ref().unwrap_or(&wanted.id).as_str();
    wanted.target.trail(file, (holder, Some(id)), request, talk)
}

/// The location of a lock file, the same for every path that leads to it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LockPlace {
    /// Device and inode of its directory, and its name there.
    Known(u64, u64, OsString),
    /// The path of the lock file, where its directory cannot be looked at.
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
