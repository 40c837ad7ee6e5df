//! `integration/prometheus`: the alert rules and the dashboard name what a real agent has. `tests/more` has both judged by
//! a real Prometheus.

use std::collections::BTreeSet;

use beadlock_tests::skip::has_program;
use beadlock_tests::watched::alerts::{Fleet, get, queries, text};

/// The names of the agent's metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_of_name(c))
        .filter(|word| word.starts_with("beadlock_agent_"))
        .collect()
}

#[test]
fn rules_and_dashboard_name_metrics_that_an_agent_has() {
    if !has_program("git") {
        return;
    }
    let fleet = Fleet::start();
    let metrics = get(&fleet.address, "/metrics").expect("metrics");
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let exposed: BTreeSet<&str> = samples
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let (rules, queries) = (text("alerts.yml"), queries().join("\n"));
    for (what, text, at_least) in [("alerts.yml", &rules, 5), ("dashboard.json", &queries, 17)] {
        let named = names(text);
        assert!(named.len() >= at_least, "{what} names only {named:?}");
        let unknown: Vec<_> = named.difference(&exposed).collect();
        assert!(
            unknown.is_empty(),
            "{what} names {unknown:?}, and the agent has {exposed:?}"
        );
    }
    let unit_tests = text("alerts.test.yml");
    assert!(names(&unit_tests).is_subset(&exposed), "{unit_tests}");
}
