//! What a claim of the lock of a directory says, and the directory that it may make for it.

use std::fs;

use beadlock_checker::internal::facts::{hostname, now};
use beadlock_checker::internal::{dialect::memory, escape::escaped_path, look, system_words};
use beadlock_checker::{Options, Verdict};

use super::options::MemoryArgs;
use crate::error::{Code, Error};
use crate::protocol::{ClaimWords, Intended};
use crate::{claim::target::Target, settings::environment::Environment};

/// The claim of `target`. With `--create` the directory is made: without it a typing mistake would claim a new
/// directory, and protect nothing.
pub fn intended<'a>(
    target: Target,
    typed: &MemoryArgs,
    environment: &Environment,
) -> Result<Intended<'a>, Error> {
    let (session, operation) = (typed.session(environment)?, typed.operation().to_owned());
    match typed.create {
        true => make(&target)?,
        false if target.is_nowhere() => return Err(nowhere(&target)),
        false => {}
    }
    Ok(Intended::Claim(target.into(), words(session, operation)))
}

pub fn words<'a>(session: String, operation: String) -> ClaimWords<'a> {
    let words = ClaimWords::new(move |session, id, pid| {
        let (mark, host) = (memory::Mark::of(pid, id.to_owned()), hostname().map(|name| name.to_string()));
        Ok(memory::Record::of_claim((pid, mark), (session, &operation), now(), host).into())
    });
    ClaimWords { holder: Some(session), ..words }
}

fn nowhere(target: &Target) -> Error {
    let message =
        format!("the directory of {} does not exist; name another, or make it: --create", target.given);
    Error::new(Code::NoTarget, message)
}

pub fn make(target: &Target) -> Result<(), Error> {
    fs::create_dir_all(target.dir()).map_err(|error| {
        let (shown, why) = (escaped_path(target.dir()), system_words(&error));
        Error::io(format!("the directory {shown} cannot be made: {why}"), error.kind())
    })
}

/// The id of the lock that this process of this host has already: the document lets it in again.
pub fn of_same_process(target: &Target, pid: i32, options: &Options) -> Option<String> {
    let there = look(&target.place, options);
    let record = there.record.as_ref().filter(|_| matches!(there.verdict, Verdict::Held(_)))?.as_memory()?;
    let is_here = record
        .hostname
        .as_deref()
        .zip(hostname())
        .is_some_and(|(host, here)| host.eq_ignore_ascii_case(&here));
    there.id.filter(|_| is_here && record.pid == Some(pid.into()))
}
