//! Inside another hold, or inside a cycle (docs/design.md#nesting, docs/design.md#the-drain).

use crate::error::Problem;
use std::{ffi::OsStr, fs, os::unix::fs::MetadataExt, path::Path, thread::sleep};

use beadlock_base::escape::escaped_path;
use beadlock_core::take::{Adopted, Held};
use beadlock_core::{Options, Verdict};
use beadlock_core::{gate::Gate, look::look};

use super::{loss::CONFIRM, target::Target};
use crate::environment::Environment;
use crate::error::{Code, Error};

/// `$BEADLOCK_CYCLE` names this target: this runs in a cycle of it.
pub fn is_inside_a_cycle(target: &Target, environment: &Environment) -> bool {
    let number = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let cycle = environment
        .get("BEADLOCK_CYCLE")
        .and_then(|cycle| number(Path::new(cycle)));
    cycle.is_some() && cycle == number(target.dir())
}

/// Refuses a claim inside a cycle of its own target: it would wait for itself.
pub fn refuse_inside_a_cycle(target: &Target, environment: &Environment) -> Result<(), Error> {
    refuse_to(target, environment, "claim")
}

/// Refuses the action that `what` names inside a cycle of its own target: it would wait for itself.
pub fn refuse_to(target: &Target, environment: &Environment, what: &str) -> Result<(), Error> {
    if !is_inside_a_cycle(target, environment) || !is_shut(target) {
        return Ok(());
    }
    Err(Error::new(
        Code::DrainTimeout,
        format!(
            "this runs inside a sync cycle of {}, which a {what} would wait for: it would wait for itself; leave \
             the {what} out here, or run it outside of the cycle",
            escaped_path(target.dir())
        ),
    ))
}

/// Whether somebody has the gate now. A process that outlives its cycle still has the cycle's environment; where there
/// can be no gate, nobody waits for one.
fn is_shut(target: &Target) -> bool {
    Gate::try_take(target.dir()).is_ok_and(|gate| gate.is_none())
}

/// The id of the claim that this runs under already: still in the file, and still held. What `status` calls a lock
/// that has no id of its own does not belong to any claim.
pub fn outer_claim(target: &Target, environment: &Environment) -> Option<String> {
    if !target.has_record() {
        return None;
    }
    let there = look(&target.place, &Options::default());
    let record = there
        .record
        .filter(|_| matches!(there.verdict, Verdict::Held(_)))?;
    let id = record.id()?.to_owned();
    let is_its_id = |known: &OsStr| known == id.as_str() || known == name_of(&id).as_str();
    let is_its_target = || {
        !target.rules().shares_ids
            || environment.of_database().target.as_deref() == Some(target.exported.as_os_str())
    };
    let is_acquired = || environment.get("BEADLOCK_ID").is_some_and(is_its_id) && is_its_target();
    let is_known = is_of_hold(&id, target, environment) || is_acquired();
    is_known.then_some(id)
}

/// The claim with this id stands: is still in the file, and still held. Takes 100 ms when not: one look proves no loss.
pub fn stands(id: &str, target: &Target) -> bool {
    let is_held = || {
        let there = look(&target.place, &Options::default());
        there.id.as_deref() == Some(id) && matches!(there.verdict, Verdict::Held(_))
    };
    is_held() || {
        sleep(CONFIRM);
        is_held()
    }
}

/// A guard of the outer claim with this id, to watch it; `None` when it cannot be had just now. The claim of a `hold`
/// is watched as well: it ends with its command, and this process may outlive that.
pub fn guard_of(id: &str, target: &Target) -> Option<Held> {
    match Held::adopt(&target.place, id) {
        Ok(Adopted::Held(held)) => Some(held),
        _ => None,
    }
}

/// The prefix of a nested claim's id: releasing such a claim releases nothing.
pub const NESTED: &str = "nested:";

/// The id of a claim that stands under the claim `outer`.
pub fn name_of(outer: &str) -> String {
    format!("{NESTED}{outer}")
}

/// The id of the outer claim, where `id` is not ended from here: it is nested, or of a `hold` that this process runs
/// in. `None`: the claim can be ended from here.
pub fn outer_of<'i>(id: &'i str, target: &Target, environment: &Environment) -> Option<&'i str> {
    id.strip_prefix(NESTED)
        .or_else(|| is_of_hold(id, target, environment).then_some(id))
}

/// The ids of all the `hold`s that this process runs in. The list of them counts only where it contains the innermost
/// one's id: a process that removes or changes that variable wants to be outside.
pub fn holds(environment: &Environment) -> impl Iterator<Item = &str> {
    let value = |name| {
        environment
            .get(name)
            .and_then(OsStr::to_str)
            .unwrap_or_default()
    };
    let (all, innermost) = (value(HELD_IDS), value("BEADLOCK_HELD_ID"));
    let is_innermost = |known: &str| known.split('@').next() == Some(innermost);
    let is_around = !innermost.is_empty() && all.split_ascii_whitespace().any(is_innermost);
    let ids = if is_around { all } else { innermost };
    ids.split_ascii_whitespace()
}

/// The id is of a `hold` of this target that this runs in. Ids of ours are random; those of requests need not be.
pub fn is_of_hold(id: &str, target: &Target, environment: &Environment) -> bool {
    let known = target.name_of_claim(id);
    holds(environment).any(|held| held == known)
}

/// The variable with the ids of all the `hold`s that a command runs in.
pub const HELD_IDS: &str = "BEADLOCK_HELD_IDS";

/// `$BEADLOCK_HELD_IDS` for what runs in a `hold` of this target with this id.
pub fn ids_inside(id: &str, target: &Target, environment: &Environment) -> String {
    ids_with(&target.name_of_claim(id), environment)
}

/// `$BEADLOCK_HELD_IDS` with the name `known` added, for what runs under the claim of that name.
pub fn ids_with(known: &str, environment: &Environment) -> String {
    let mut ids: Vec<&str> = Vec::new();
    for held in holds(environment).chain([known]) {
        if !ids.contains(&held) {
            ids.push(held);
        }
    }
    ids.join(" ")
}

/// The ids of two lists such as `$BEADLOCK_HELD_IDS`, each id once.
pub fn joined_ids(ids: &OsStr, more: &OsStr) -> String {
    let lists = [ids.to_string_lossy(), more.to_string_lossy()];
    let mut joined: Vec<&str> = Vec::new();
    for id in lists.iter().flat_map(|list| list.split_ascii_whitespace()) {
        if !joined.contains(&id) {
            joined.push(id);
        }
    }
    joined.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{lock, tower};
    use beadlock_core::record::tower::LockName;

    fn database() -> Target {
        lock::target(Path::new("/run/x"), Path::new("/")).unwrap()
    }

    fn named(name: &str) -> Target {
        tower::target(Path::new("/locks"), &LockName::parse(name).unwrap(), None)
    }

    fn is_of_hold(id: &str, environment: &Environment) -> bool {
        super::is_of_hold(id, &database(), environment)
    }

    fn ids_inside(id: &str, environment: &Environment) -> String {
        super::ids_inside(id, &database(), environment)
    }

    /// One request that holds two locks: each is its own.
    #[test]
    fn a_request_holds_the_named_lock_that_it_has_taken_and_no_other() {
        let ids = super::ids_inside(
            "r",
            &named("a"),
            &Environment::of(&[("BEADLOCK_HELD_ID", "x")]),
        );
        assert_eq!(ids, "x r@a");
        let inside = Environment::of(&[("BEADLOCK_HELD_IDS", &ids), ("BEADLOCK_HELD_ID", "r")]);
        assert!(super::is_of_hold("r", &named("a"), &inside) && is_of_hold("x", &inside));
        assert!(!super::is_of_hold("r", &named("b"), &inside) && !is_of_hold("r", &inside));
        assert_eq!(super::ids_inside("r", &named("b"), &inside), "x r@a r@b");
    }

    #[test]
    fn every_hold_around_is_known() {
        let environment =
            Environment::of(&[("BEADLOCK_HELD_IDS", "a b"), ("BEADLOCK_HELD_ID", "b")]);
        assert!(["a", "b"].iter().all(|id| is_of_hold(id, &environment)));
        assert!(
            ["", "a b", "c"]
                .iter()
                .all(|id| !is_of_hold(id, &environment))
        );
        assert_eq!(ids_inside("c", &environment), "a b c");
        assert_eq!(ids_inside("a", &environment), "a b", "under the outer one");
        assert_eq!(
            ids_inside("c", &Environment::of(&[("BEADLOCK_HELD_ID", "b")])),
            "b c"
        );
        assert_eq!(ids_inside("c", &Environment::default()), "c");
        for innermost in ["", "other"] {
            let outside = Environment::of(&[
                ("BEADLOCK_HELD_IDS", "a b"),
                ("BEADLOCK_HELD_ID", innermost),
            ]);
            assert!(
                !is_of_hold("a", &outside) && !is_of_hold("b", &outside),
                "{innermost:?}"
            );
        }
    }

    #[test]
    fn an_id_that_is_not_ended_from_here_has_an_outer_one() {
        let environment = Environment::of(&[("BEADLOCK_HELD_IDS", "a"), ("BEADLOCK_HELD_ID", "a")]);
        let outer = |id: &'static str| outer_of(id, &database(), &environment);
        assert_eq!(
            [outer("a"), outer("nested:a"), outer("nested:b")],
            [Some("a"), Some("a"), Some("b")]
        );
        assert_eq!([outer("b"), outer(""), outer("xnested:a")], [None; 3]);
    }
}
