//! The processes that work under a claim, by their environment.

use std::{ffi::OsString, time::Duration};

use beadlock_base::process::{StartEnvironment, Stat};

use super::outer::{HELD_IDS, NESTED};
use super::target::Target;
use beadlock_supervise::process_tree;

/// The names by which the environment of a process tells that it works under a claim.
#[derive(Debug, Clone)]
pub struct ClaimNames {
    id: String,
    /// The claim's name in the list of the ids that are held.
    known: String,
    /// The target, where the id alone does not tell which claim it is.
    target: Option<OsString>,
}

impl ClaimNames {
    /// The names of the claim `id` of `target`; a nested id stands for the outer claim.
    pub fn of(id: &str, target: &Target) -> Self {
        let id = id.strip_prefix(NESTED).unwrap_or(id);
        let is_shared = target.rules().shares_ids;
        Self {
            id: id.to_owned(),
            known: target.name_of_claim(id),
            target: is_shared.then(|| target.exported.clone()),
        }
    }

    /// The processes that work under the claim, but those of [`process_tree::others_by_environment`] that belong to us.
    /// None where that is not known in time.
    pub fn processes_within(self, patience: Duration) -> Vec<Stat> {
        process_tree::others_by_environment(move |environment| self.are_in(environment), patience)
    }

    fn are_in(&self, environment: &StartEnvironment) -> bool {
        let value = |name: &str| environment.values(name).next();
        let is_id = |named: &[u8]| {
            named.strip_prefix(NESTED.as_bytes()).unwrap_or(named) == self.id.as_bytes()
        };
        let is_target = || {
            self.target
                .as_ref()
                .is_none_or(|target| value("BEADLOCK_TARGET") == Some(target.as_encoded_bytes()))
        };
        let mut held = value(HELD_IDS)
            .unwrap_or_default()
            .split(|byte| *byte == b' ');
        value("BEADLOCK_ID").is_some_and(is_id) && is_target()
            || held.any(|held| held == self.known.as_bytes())
    }
}
