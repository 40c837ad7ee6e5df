//! The counters of `/metrics`: atomics from the start of the agent, in OpenMetrics' words.
//!
//! No label names a database here, so there are as many series with 10,000 databases as with one.

use std::time::Duration;

use beadlock_core::Reason;
use beadlock_core::facts;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::outcome::CycleOutcome;

/// The beginning of every name.
pub(super) const PREFIX: &str = "beadlock_agent";
/// Every reason for a skip. Each has a series from the start, so that rates count the first skip.
const OF_SKIPS: [Reason; 17] = [
    Reason::PidAlive,
    Reason::PidNotPermitted,
    Reason::PidUnknown,
    Reason::OtherHost,
    Reason::HostUnknown,
    Reason::OtherMachine,
    Reason::OtherPidNamespace,
    Reason::GateBusy,
    Reason::RemovalFailed,
    Reason::Malformed,
    Reason::Invalid,
    Reason::Unreadable,
    Reason::FleetHeld,
    Reason::FleetNew,
    Reason::FleetUnreachable,
    Reason::FleetUseCycle,
    Reason::FleetLost,
];

/// Every proof by which a stale lock can be removed.
const OF_REMOVALS: [Reason; 5] = [
    Reason::PidGone,
    Reason::OtherBoot,
    Reason::PidReused,
    Reason::Zombie,
    Reason::NamespaceGone,
];

/// Buckets in seconds. A check is some system calls, or the grace of a removal.
const CHECKS: [f64; 10] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.01, 0.1, 1.0, 10.0,
];
/// Buckets in seconds. A cycle is ended after two minutes by default.
const CYCLES: [f64; 10] = [0.001, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 120.0, 600.0];

type By = Family<[(&'static str, &'static str); 1], Counter>;

#[derive(Debug)]
pub(crate) struct Metrics {
    pub(super) registry: Registry,
    /// When the agent has started, in seconds since 1970.
    pub(super) started: i64,
    cycles: By,
    skips: By,
    removals: By,
    /// Databases that were skipped for longer than `--skip-warn`.
    pub(crate) skip_warnings: Counter,
    /// Databases below the roots that have gone.
    pub(crate) databases_gone: Counter,
    /// Times that the watcher has lost events.
    pub(crate) resyncs: Counter,
    checks: Histogram,
    durations: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register(
            "build",
            "Which agent it is",
            Info::new([
                ("version", env!("CARGO_PKG_VERSION")),
                ("revision", env!("REVISION")),
            ]),
        );
        let started = facts::now().0.as_secs();
        registry.register_with_unit(
            "start_time",
            "When it has started, since 1970",
            Unit::Seconds,
            ConstGauge::new(started),
        );
        let mut family = |name, help, label, values: &[&'static str]| {
            let family = By::default();
            values
                .iter()
                .for_each(|value| drop(family.get_or_create(&[(label, *value)])));
            registry.register(name, help, family.clone());
            family
        };
        let cycles = family(
            "cycles",
            "Cycles that have ended, by how",
            "outcome",
            &CycleOutcome::WORDS,
        );
        let help = "Cycles that left their database alone, by why";
        let skips = family(
            "skips",
            help,
            "reason",
            &OF_SKIPS.map(|reason| reason.as_str()),
        );
        let help = "Locks removed, by what proved their holder dead";
        let removals = family(
            "stale_removals",
            help,
            "reason",
            &OF_REMOVALS.map(|reason| reason.as_str()),
        );
        let mut counter = |name, help| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let help = "Databases that were skipped for longer than --skip-warn";
        let skip_warnings = counter("skip_warnings", help);
        let help = "Databases below the roots whose directories are not there any more";
        let databases_gone = counter("databases_gone", help);
        let help = "Times that the watcher had lost events, and everything counted as changed";
        let resyncs = counter("watcher_resyncs", help);
        let mut histogram = |name, help, buckets| {
            let histogram = Histogram::new(buckets);
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
            histogram
        };
        let help = "How long the gate and the check before a cycle took";
        let checks = histogram("check_duration", help, CHECKS);
        let help = "How long cycles took that were not skipped";
        let durations = histogram("cycle_duration", help, CYCLES);
        Self {
            registry,
            started,
            cycles,
            skips,
            removals,
            skip_warnings,
            databases_gone,
            resyncs,
            checks,
            durations,
        }
    }

    /// Makes a check, and records how long it took.
    pub(crate) fn check<T>(&self, check: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let checked = check();
        self.checks.observe(begun.elapsed().as_secs_f64());
        checked
    }

    pub(crate) fn ended(&self, outcome: &CycleOutcome, took: Duration) {
        self.cycles
            .get_or_create(&[("outcome", outcome.as_str())])
            .inc();
        if let CycleOutcome::Skipped(decision) = outcome {
            self.skips
                .get_or_create(&[("reason", decision.reason().as_str())])
                .inc();
        } else {
            self.durations.observe(took.as_secs_f64());
        }
    }

    pub(crate) fn removed_stale(&self, reason: Reason) {
        self.removals
            .get_or_create(&[("reason", reason.as_str())])
            .inc();
    }
}
