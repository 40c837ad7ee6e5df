//! What a claim of the lock of a directory says, and the directory that it may make for it.

use std::fs;

use beadlock_checker::internal::dialect::{Record, memory};
use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::facts::{hostname, now};
use beadlock_checker::internal::{look, system_words};
use beadlock_checker::{Options, Verdict};

use crate::claim::protocol::MakeRecord;
use crate::error::{Code, Error};
use crate::memory::options::Typed;
use crate::settings::arguments::ClaimArgs;
use crate::settings::environment::Environment;
use crate::target::{Found, MEMORY_IS_NOT_REAPED};

/// A claim that is to be made.
#[derive(Debug)]
pub struct Order {
    session: String,
    operation: String,
}

impl Order {
    /// Of `target`, where that is the lock of a directory. With `--create` the directory is made: without it a typing
    /// mistake would claim a new directory, and protect nothing.
    ///
    /// # Errors
    /// Exit 2 for an option that means nothing to this target; exit 1 when the directory does not exist or cannot be
    /// made.
    pub fn of(
        target: &Found,
        holder: Option<&String>,
        (claim, typed): (&ClaimArgs, &Typed),
        environment: &Environment,
    ) -> Result<Option<Self>, Error> {
        if !target.has_age() {
            typed.refuse_for(&target.given)?;
            return Ok(None);
        }
        let wrong = [
            ("--holder", holder.is_some(), "it has a session: --session-id NAME"),
            ("--reap-proven-dead", claim.reap_proven_dead, MEMORY_IS_NOT_REAPED),
        ];
        if let Some((option, _, why)) = wrong.into_iter().find(|(_, is_typed, _)| *is_typed) {
            return Err(Error::usage(format!(
                "{option} means nothing to the lock of a directory (memory:DIR); {why}"
            )));
        }
        let (session, operation) = (typed.session(environment)?, typed.operation().to_owned());
        match typed.create {
            true => make(target)?,
            false if target.is_nowhere() => return Err(nowhere(target)),
            false => {}
        }
        Ok(Some(Self { session, operation }))
    }

    /// Which session it is for.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// What its record says; the claim is called `id`.
    pub fn says<'a>(&'a self, id: &'a str) -> Says<'a> {
        Says { session: &self.session, operation: &self.operation, id }
    }
}

/// What a record says beside its process.
#[derive(Debug, Clone, Copy)]
pub struct Says<'a> {
    pub session: &'a str,
    pub operation: &'a str,
    pub id: &'a str,
}

impl MakeRecord for Says<'_> {
    fn record(&self, pid: u32) -> Result<Record, Error> {
        let (mark, host) =
            (memory::Mark::of(pid, self.id.to_owned()), hostname().map(|name| name.to_string()));
        Ok(memory::Record::of_claim((pid, mark), (self.session, self.operation), now(), host).into())
    }
}

fn nowhere(target: &Found) -> Error {
    let message =
        format!("the directory of {} does not exist; name another, or make it: --create", target.given);
    Error::new(Code::NoTarget, message)
}

/// Makes the directory where it is not there.
///
/// # Errors
/// When it cannot be made.
pub fn make(target: &Found) -> Result<(), Error> {
    fs::create_dir_all(target.dir()).map_err(|error| {
        let (shown, why) = (escaped_path(target.dir()), system_words(&error));
        Error::io(format!("the directory {shown} cannot be made: {why}"), error.kind())
    })
}

/// The id of the lock that this process of this host has already: the document lets it in again.
pub fn of_same_process(target: &Found, pid: i32, options: &Options) -> Option<String> {
    let there = look(&target.place, options);
    let record = there.record.as_ref().filter(|_| matches!(there.verdict, Verdict::Held(_)))?.as_memory()?;
    let is_here = record
        .hostname
        .as_deref()
        .zip(hostname())
        .is_some_and(|(host, here)| host.eq_ignore_ascii_case(&here));
    there.id.filter(|_| is_here && record.pid == Some(pid.into()))
}
