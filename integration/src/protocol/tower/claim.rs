//! What a command line claims that names a lock, or an intent that does.

use beadlock_checker::internal::facts;

use super::fields::{Locking, Wanted};
use super::{in_environment, name_of, options::TowerArgs};
use crate::protocol::{ClaimWords, Intended};
use crate::{claim::target::Target, error::Error, settings::environment::Environment};

/// The claim of the named lock `target`, or of the lock that the intent names.
pub fn intended<'a>(
    target: Option<Target>,
    typed: &TowerArgs,
    environment: &Environment,
) -> Result<Intended<'a>, Error> {
    let wanted = Wanted::resolve(typed, environment)?;
    let named = target.as_ref().and_then(name_of);
    let name = match wanted.locking(named.as_ref())? {
        Locking::Observe => return Ok(Intended::Nothing(None)),
        Locking::Unnamed(warning) => return Ok(Intended::Nothing(Some(warning))),
        Locking::Named(name) => name,
    };
    let fields = wanted.fields()?;
    let target = target.unwrap_or_else(|| in_environment(&name, environment));
    let (holder, id) = (Some(fields.actor.clone()), Some(fields.request_id.clone()));
    let words = ClaimWords::new(move |_, _, pid| Ok(fields.record(name.clone(), pid, facts::now()).into()));
    Ok(Intended::Claim(target.into(), ClaimWords { holder, id, ..words }))
}
