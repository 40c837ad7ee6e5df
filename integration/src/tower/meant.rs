//! What a command line means that may name a lock, or an intent that does.

use std::ffi::OsStr;

use beadlock_checker::internal::database::{Directories, Suggest};
use beadlock_checker::internal::dialect::Record;
use beadlock_checker::internal::dialect::tower::LockName;
use beadlock_checker::internal::facts;

use super::fields::{Fields, Locking, Wanted};
use super::options::{Typed, refuse_for};
use crate::claim::protocol::MakeRecord;
use crate::error::Error;
use crate::settings::environment::Environment;
use crate::target::{Found, answers_for_intent, any_directory_is_for_databases, lock_dir};

/// What is to be claimed.
#[derive(Debug)]
pub enum Meant {
    /// A target of another dialect.
    Other(Found),
    /// A named lock.
    Named(Box<Named>),
    /// Nothing: by its mode, or for want of a name; the sentence that warns of it.
    Nothing(Option<&'static str>),
}

/// A named lock that is to be claimed.
#[derive(Debug)]
pub struct Named {
    pub target: Found,
    pub name: LockName,
    pub fields: Fields,
}

impl MakeRecord for Named {
    fn record(&self, pid: u32) -> Result<Record, Error> {
        Ok(self.fields.record(self.name.clone(), pid, facts::now()).into())
    }
}

impl Meant {
    /// By the target that is typed, else the intent's, else what is found. `also` is an option that was typed besides
    /// and means something to named locks alone; `instead` one that means nothing to them, and what does.
    ///
    /// # Errors
    /// As [`Found::to_claim`], [`Found::refuse_tracked`], [`Wanted::resolve`] and [`Wanted::fields`].
    pub fn resolve(
        target: Option<&OsStr>,
        typed: &Typed,
        also: Option<&'static str>,
        instead: Option<(&'static str, &'static str)>,
        directories: Directories,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let found = match (target, &typed.intent) {
            (None, Some(_)) if directories == Directories::Any => {
                return Err(any_directory_is_for_databases("that of --intent"));
            }
            (None, Some(_)) => {
                answers_for_intent(environment)?;
                None
            }
            _ => Some(Found::to_claim(target, (directories, Suggest::PathOrScheme), environment)?),
        };
        if let Some(found) = &found {
            found.refuse_tracked()?;
        }
        let named = match &found {
            None => None,
            Some(found) => match found.lock_name() {
                Some(name) => Some(name),
                None => {
                    refuse_for(&found.given, typed.given().or(also))?;
                    return Ok(Self::Other(found.clone()));
                }
            },
        };
        if let Some((option, instead)) = instead {
            return Err(Error::usage(format!(
                "{option} means nothing to a named lock (tower:NAME); {instead}"
            )));
        }
        let wanted = Wanted::resolve(typed, environment)?;
        let name = match wanted.locking(named.as_ref())? {
            Locking::Observe => return Ok(Self::Nothing(None)),
            Locking::Unnamed(warning) => return Ok(Self::Nothing(Some(warning))),
            Locking::Named(name) => name,
        };
        let fields = wanted.fields()?;
        let of_intent = || Found::of_tower(&lock_dir::of(environment), &name, environment.typed_lock_dir());
        Ok(Self::Named(Box::new(Named { target: found.unwrap_or_else(of_intent), name, fields })))
    }
}
