//! `integration/prometheus`: the alert rules and the dashboard name what a real agent has. `tests/more` has both judged by
//! a real Prometheus.

use std::collections::BTreeSet;
use std::fs;

use beadlock_tests::skip::{checkout, has_program};
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

/// Each alert leads to the part of the installed page that is about it, and each such part has an alert.
#[test]
fn each_alert_has_its_place_in_the_runbook() {
    let rules = text("alerts.yml");
    let after = |marker: &'static str| {
        rules
            .lines()
            .filter_map(move |line| line.trim_start().strip_prefix(marker))
    };
    let page = fs::read_to_string(checkout().join("docs/guide/alerts.md")).expect("the page");
    let alerts: Vec<_> = after("- alert: ").collect();
    let parts: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    assert_eq!(alerts, parts);
    let page = "file:///usr/local/share/doc/beadlock/docs/guide/alerts.md#";
    let addresses: Vec<_> = after("runbook_url: ").map(str::to_owned).collect();
    let expected = alerts
        .iter()
        .map(|name| page.to_owned() + &name.to_lowercase());
    assert_eq!(addresses, expected.collect::<Vec<_>>());
}

/// A dashboard that is about some databases asks only about those: each query of a metric with that label.
#[test]
fn the_dashboard_is_about_the_chosen_databases() {
    let dashboard = text("dashboard.json");
    let chosen = "instance=~\\\"$instance\\\", db=~\\\"$db\\\"";
    for metric in [
        "database_state",
        "unpushed_commits",
        "skip_streak",
        "skip_streak_age_seconds",
        "last_push_timestamp_seconds",
        "failures_total",
    ] {
        let asks = format!("beadlock_agent_{metric}{{");
        let queries = dashboard.lines().filter(|line| line.contains("\"expr\": "));
        let (mut about, mut all) = (0, 0);
        for query in queries.filter(|line| line.contains(&asks)) {
            all += 1;
            about += usize::from(query.contains(chosen));
        }
        assert!(all > 0 && about == all, "{metric}: {about} of {all}");
    }
}
