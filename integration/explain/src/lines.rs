//! The lines of a [`Report`] for people. They say what its JSON says.

use beadlock_base::escape::escaped;
use beadlock_claim::{fact::Fact, report::Report};

/// A log line, with its target's name where there are several; nothing where there is none.
pub fn message_line(message: &str, target: &str, is_one_of_many: bool) -> String {
    match (message.is_empty(), is_one_of_many) {
        (true, _) => String::new(),
        (false, true) => format!("{target}: {message}\n"),
        (false, false) => format!("{message}\n"),
    }
}

/// The line of a `check` of a target without a record, and below it what the report explains.
pub fn checked(report: &Report, target: &str, is_one_of_many: bool) -> String {
    message_line(&report.message, target, is_one_of_many) + &below(report, None)
}

/// Everything that is known, one fact a line, then the id, what is known `besides`, and what to type next. Empty for a
/// report that explains nothing.
pub fn below(report: &Report, besides: Option<String>) -> String {
    block(facts(report), report.id.as_deref(), besides, report)
}

/// As [`below`], with what a reader needs first: why, since when, and what stands in the way, at most three lines, and
/// one with the address of what it is held for. Without the id.
pub(crate) fn brief(report: &Report, besides: Option<String>) -> String {
    let text = |name: &str| {
        let mut facts = report.witnesses.iter().flatten();
        facts.find(|fact| fact.name == name && fact.text.is_some())
    };
    let gate = text("gate").filter(|_| report.is_gate_shut);
    let waiting = text("waiting for the gate").or(text("waiting for it"));
    let in_the_way: Vec<String> = [gate, waiting]
        .into_iter()
        .flatten()
        .filter_map(Fact::line)
        .collect();
    // A lock of this name in another directory is another lock.
    let directory = text("directory").and_then(Fact::line);
    let in_the_way = directory.or_else(|| match in_the_way.is_empty() {
        true => text("side file").and_then(Fact::line),
        false => Some(in_the_way.join("; ")),
    });
    let first = ["why", "acquired", "about"]
        .into_iter()
        .filter_map(|name| text(name)?.line());
    block(first.chain(in_the_way).collect(), None, besides, report)
}

/// Every fact that people are told, one a line; what they amount to first.
pub(crate) fn facts(report: &Report) -> Vec<String> {
    let facts = report.witnesses.iter().flatten();
    facts.filter_map(Fact::line).collect()
}

/// The block of these lines, the id, what is known `besides`, and what to type next.
pub(crate) fn block(
    mut lines: Vec<String>,
    id: Option<&str>,
    besides: Option<String>,
    report: &Report,
) -> String {
    let Some(next) = &report.next else {
        return String::new();
    };
    lines.extend(id.map(|id| format!("id: {}", escaped(id))));
    lines.extend(besides);
    lines.push(format!("next: {next}"));
    lines.iter().map(|line| format!("  {line}\n")).collect()
}
