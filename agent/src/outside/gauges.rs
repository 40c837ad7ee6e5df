//! The gauges of `/metrics`, as they are when they are asked for.
//!
//! A label names a database only while it is being skipped, and only the [`NAMED`] that are skipped for longest: with
//! series for each of 10,000 databases nobody could find those that matter.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::{DatabaseSnapshot, PREFIX, Snapshot};

/// How many databases have a label.
const NAMED: usize = 50;

/// The gauges of a snapshot at the moment `now`.
pub(super) fn of(mut snapshot: Snapshot, now: Instant) -> Registry {
    snapshot.sort();
    let mut registry = Registry::with_prefix(PREFIX);
    let states = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    for state in ["waiting", "ready", "running", "not_serving"] {
        let count = snapshot.databases.iter().filter(|seen| seen.state == state).count();
        states.get_or_create(&[("state", state)]).set(number(count as u64));
    }
    registry.register("databases", "Databases by what they do", states);
    snapshot.databases.retain(|seen| seen.why.is_none());
    let skipping = ConstGauge::new(number(snapshot.skipping() as u64));
    registry.register("skipping_databases", "Databases whose last cycle was skipped", skipping);
    let age =
        |seen: &DatabaseSnapshot| seen.streak().map(|(since, _)| now.saturating_duration_since(since).as_secs_f64());
    let longest = snapshot.databases.first().and_then(age).unwrap_or(0.0);
    let help = "For how long the database is skipped that is skipped for longest";
    registry.register_with_unit("longest_skip_streak", help, Unit::Seconds, ConstGauge::new(longest));
    let ages = Family::<[(&'static str, String); 1], Gauge<f64, AtomicU64>>::default();
    let skips = Family::<[(&'static str, String); 1], Gauge>::default();
    for seen in snapshot.databases.iter().take(NAMED) {
        let (Some(age), Some((_, count))) = (age(seen), seen.streak()) else { break };
        let label = [("db", seen.dir())];
        ages.get_or_create(&label).set(age);
        skips.get_or_create(&label).set(number(count));
    }
    let help = "Cycles skipped one after the other, of the databases that are skipped for longest";
    registry.register("skip_streak", help, skips);
    let help = "For how long they are skipped";
    registry.register_with_unit("skip_streak_age", help, Unit::Seconds, ages);
    registry
}
