//! The gauges of `/metrics`, as they are when they are asked for.
//!
//! A label names a database only while it is in trouble, and only the [`NAMED`] worst: with series for each of 10,000
//! databases nobody could find those that matter.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::snapshot::PHASES;
use super::{DatabaseSnapshot, PREFIX, StatusSnapshot};
use crate::fleet::{FleetStatus, RIGHTS, SESSIONS};
use crate::state::StateWord;

/// How many databases have a label.
const NAMED: usize = 50;

type OfDatabase<M> = Family<[(&'static str, String); 1], M>;

/// The gauges of a snapshot at the moment `now`.
pub(super) fn of(mut snapshot: StatusSnapshot, now: Instant) -> Registry {
    snapshot.sort();
    let mut registry = Registry::with_prefix(PREFIX);
    let phases = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for phase in PHASES {
        let count = snapshot
            .databases
            .iter()
            .filter(|seen| seen.phase == phase)
            .count();
        phases.get_or_create(&[("phase", phase)]).set(number(count));
    }
    registry.register(
        "databases",
        "Databases by what the agent does with them",
        phases,
    );
    let states = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for (word, count) in snapshot.counts() {
        states
            .get_or_create(&[("state", word.as_str())])
            .set(number(count));
    }
    registry.register("sync_state", "Databases by their state", states);
    of_streaks(&mut registry, &snapshot, now);
    if let Some(fleet) = &snapshot.fleet {
        of_fleet(&mut registry, fleet);
    }
    let is_named =
        |seen: &&DatabaseSnapshot| !matches!(seen.state.word, StateWord::Synced | StateWord::Idle);
    of_the_worst(
        &mut registry,
        snapshot.databases.iter().filter(is_named).take(NAMED),
    );
    registry
}

/// The session in the fleet, and the rights under it.
fn of_fleet(registry: &mut Registry, fleet: &FleetStatus) {
    let of_states = || Family::<[(&'static str, &'static str); 1], Gauge>::default();
    let (sessions, rights) = (of_states(), of_states());
    for state in SESSIONS {
        sessions
            .get_or_create(&[("state", state)])
            .set(i64::from(state == fleet.session));
    }
    for (state, count) in RIGHTS.into_iter().zip(fleet.rights) {
        rights.get_or_create(&[("state", state)]).set(number(count));
    }
    registry.register(
        "fleet_session",
        "How the session in the fleet stands",
        sessions,
    );
    registry.register(
        "fleet_rights",
        "Rights to run cycles, by what has become of them",
        rights,
    );
    if let Some(left) = fleet.deadline {
        let help = "For how long work may go on without a renewal of the session";
        registry.register_with_unit("fleet_deadline", help, Unit::Seconds, ConstGauge::new(left));
    }
    if let Some(took) = fleet.last_yield {
        let help = "How long the last claim has waited for this agent";
        registry.register_with_unit("fleet_yield", help, Unit::Seconds, ConstGauge::new(took));
    }
}

/// The databases that are being skipped.
fn of_streaks(registry: &mut Registry, snapshot: &StatusSnapshot, now: Instant) {
    let mut streaks: Vec<_> = snapshot
        .databases
        .iter()
        .filter_map(|seen| seen.streak().map(|(since, count)| (since, count, seen)))
        .collect();
    streaks.sort_by_key(|(since, ..)| *since);
    let skipping = ConstGauge::new(number(streaks.len()));
    registry.register(
        "skipping_databases",
        "Databases whose last cycle was skipped",
        skipping,
    );
    let age = |since: Instant| now.saturating_duration_since(since).as_secs_f64();
    let longest = streaks.first().map_or(0.0, |(since, ..)| age(*since));
    let help = "For how long the database is skipped that is skipped for longest";
    registry.register_with_unit(
        "longest_skip_streak",
        help,
        Unit::Seconds,
        ConstGauge::new(longest),
    );
    let (ages, skips) = (
        OfDatabase::<Gauge<f64, AtomicU64>>::default(),
        OfDatabase::<Gauge>::default(),
    );
    for (since, count, seen) in streaks.into_iter().take(NAMED) {
        let label = [("db", seen.dir())];
        ages.get_or_create(&label).set(age(since));
        skips.get_or_create(&label).set(number(count));
    }
    let help = "Cycles skipped one after the other, of the databases that are skipped for longest";
    registry.register("skip_streak", help, skips);
    registry.register_with_unit(
        "skip_streak_age",
        "For how long they are skipped",
        Unit::Seconds,
        ages,
    );
}

/// The databases in the worst states.
fn of_the_worst<'a>(registry: &mut Registry, worst: impl Iterator<Item = &'a DatabaseSnapshot>) {
    let states = Family::<[(&'static str, String); 2], Gauge>::default();
    let failures = Family::<[(&'static str, String); 2], Counter>::default();
    let (unpushed, pushes) = (
        OfDatabase::<Gauge>::default(),
        OfDatabase::<Gauge>::default(),
    );
    for seen in worst {
        let label = [("db", seen.dir())];
        let [db] = &label;
        states
            .get_or_create(&[db.clone(), ("state", seen.state.word.as_str().to_owned())])
            .set(1);
        let commits = seen
            .state
            .details
            .as_ref()
            .map_or(0, |details| details.unpushed.commits);
        unpushed.get_or_create(&label).set(number(commits));
        if let Some(at) = seen.last_push {
            pushes.get_or_create(&label).set(at);
        }
        for (reason, count) in seen.failures.iter().flat_map(|failures| failures.iter()) {
            failures
                .get_or_create(&[db.clone(), ("reason", reason.to_string())])
                .inc_by(*count);
        }
    }
    registry.register(
        "database_state",
        "The state of each database in the worst states",
        states,
    );
    registry.register(
        "unpushed_commits",
        "Commits of them that wait to be pushed, as far as is known",
        unpushed,
    );
    let help = "When the agent has last pushed for them, since 1970";
    registry.register_with_unit("last_push_timestamp", help, Unit::Seconds, pushes);
    registry.register("failures", "Cycles of them that failed, by why", failures);
}

fn number(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
