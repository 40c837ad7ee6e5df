//! The claims of a session taken together: for a report, for the command's environment, and to be watched.

use beadlock_claim::error::Problem;
use std::time::Duration;
use std::{ffi::CString, ffi::OsStr, ffi::OsString, os::unix::ffi::OsStringExt};

use beadlock_base::duration::shown;

use super::Claims;
use crate::session_claim::SessionClaim;
use beadlock_claim::error::Error;
use beadlock_claim::{
    kept_lock::LossAlarm,
    outer::{HELD_IDS, joined_ids},
    report::Report,
    target::Target,
};

/// The report on the claims before one of them is made.
pub fn described(claims: &Claims<'_>) -> Report {
    let reports: Vec<Report> = claims.iter().map(|claim| report_of(&**claim)).collect();
    let first = reports.first().cloned().unwrap_or_default();
    Report {
        claims: if reports.len() > 1 {
            reports
        } else {
            Vec::new()
        },
        ..first
    }
}

fn report_of(claim: &dyn SessionClaim) -> Report {
    Report {
        holder: claim.holder(),
        id: claim.id(),
        nested: claim.is_nested(),
        ..Report::of(claim.target())
    }
}

/// The variables that the claims add to the command's environment: each with the value of the first claim that has it,
/// and the ids of all claims.
pub fn variables_of(claims: &Claims<'_>) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = Vec::new();
    for (name, value) in claims.iter().flat_map(|claim| claim.variables()) {
        match variables.iter_mut().find(|(known, _)| *known == name) {
            None => variables.push((name, value)),
            Some((_, ids)) if name == HELD_IDS => *ids = joined_ids(ids, &value).into(),
            Some(_) => {}
        }
    }
    variables
}

/// The added variables that were not known when the command's process was made: each with the value of the first claim
/// that has it.
pub fn late_variables(claims: &Claims<'_>) -> Vec<CString> {
    let mut known: Vec<&str> = Vec::new();
    let mut late = claims
        .iter()
        .flat_map(|claim| claim.late_variables())
        .collect::<Vec<_>>();
    late.retain(|(name, _)| {
        !known.contains(name) && {
            known.push(*name);
            true
        }
    });
    let pair = |(name, value): (&str, OsString)| {
        [OsStr::new(name), &value].join(OsStr::new("=")).into_vec()
    };
    // None of them has a NUL.
    late.into_iter()
        .filter_map(|late| CString::new(pair(late)).ok())
        .collect()
}

/// The error for the claim of `target`, which has failed as one of `count` claims. `spent`: how long the others had
/// waited before.
pub fn none_is_claimed(error: Error, target: &Target, count: usize, spent: Duration) -> Error {
    let waited = match spent.is_zero() {
        true => String::new(),
        false => format!(
            "; the wait is for all of them together, and {} of it had passed before",
            shown(spent)
        ),
    };
    let message = format!(
        "{}: {error}; none of the {count} targets is claimed{waited}",
        target.given
    );
    error.saying(message)
}

pub fn guards<'g>(claims: &'g Claims<'_>) -> Vec<(usize, LossAlarm<'g>)> {
    let mut guards = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let of_claim = [claim.guard(), claim.second_guard()].into_iter().flatten();
        guards.extend(of_claim.map(|guard| (index, guard)));
    }
    guards
}
