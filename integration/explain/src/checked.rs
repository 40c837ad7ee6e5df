//! A target, and what a daemon does about it: what `check` shows.

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::look::{Look, look};
use beadlock_core::{Decision, Options, Proceed, Skip, Verdict, Watched};

use super::{explanation::Explanation, lines};
use beadlock_claim::{error::Exit, report::Report, target::Target};

/// The line of a daemon's log for the decision; without its words `database`, `sync` and `sync cycle` unless
/// `speaks_of_databases`.
pub fn message(decision: &Decision, speaks_of_databases: bool) -> String {
    let line = decision.to_string();
    match (decision, decision.why()) {
        _ if speaks_of_databases => line,
        (Decision::Proceed(Proceed::RemovedStale(removed)), _) if removed.why.is_empty() => {
            format!("Removed stale lock ({})", escaped(removed.record.holder()))
        }
        (Decision::Proceed(Proceed::WouldRemoveStale(record, _)), _) if !line.is_empty() => {
            format!("Stale lock ({}) would be removed", escaped(record.holder()))
        }
        (Decision::Skip(Skip::InProgress), _) => "Skipping (a claim is in progress)".to_owned(),
        (_, Some(why)) => format!("Skipping ({why})"),
        (_, None) => line,
    }
}

/// A target of `check` whose lock has a record, and the decision on it.
pub struct Checked {
    /// The target that was checked.
    pub target: Target,
    /// The lock as it was before the check, which may have removed it.
    pub before: Look,
    /// Whether a daemon proceeds or skips, and why.
    pub decision: Decision,
    /// The options of the look `before`.
    pub options: Options,
}

impl Checked {
    /// The exit code: `Done` when a daemon proceeds, `Conflict` for a lock that is held or stale but stays, else
    /// `Unreadable`.
    pub fn exit(&self) -> Exit {
        match (self.decision.verdict(), &self.decision) {
            _ if !self.decision.is_skip() => Exit::Done,
            (Verdict::Held(_), _) | (_, Decision::Skip(Skip::Stale { .. })) => Exit::Conflict,
            _ => Exit::Unreadable,
        }
    }

    fn id(&self) -> Option<String> {
        let record = self.decision.record();
        if let Some(id) = record.and_then(|record| record.id()) {
            return Some(id.to_owned());
        }
        if self.decision.verdict() == Verdict::Free {
            return None;
        }
        let of_it = |look: &Look| look.id.clone().filter(|_| look.record.as_ref() == record);
        // What a crash had left aside is back in its place now.
        of_it(&self.before).or_else(|| of_it(&look(&self.target.place, &Options::default())))
    }

    /// The facts. With `explain` they have witnesses, `lease_unavailable` and the next command.
    pub fn report(&self, explain: bool) -> Report {
        let decision = &self.decision;
        let report = Report {
            skips: decision.is_skip(),
            verdict: Some(decision.verdict()),
            reason: Some(decision.reason()),
            removed: decision.removed().is_some(),
            holder: decision.record().map(|record| record.holder().to_owned()),
            id: self.id(),
            message: message(decision, self.target.rules().speaks_of_databases),
            ..Report::of(&self.target)
        };
        if !explain {
            return report;
        }
        let report = self.explain(&self.before).added_to(report);
        Report {
            lease_unavailable: Some(self.lease_unavailable()),
            next: Some(self.next()),
            ..report
        }
    }

    /// The log line, as [`lines::message_line`] has it, and what the report explains: the verdict, the facts and what
    /// to type next, one line each.
    pub fn text(&self, report: &Report, is_one_of_many: bool) -> String {
        let line = lines::message_line(&report.message, &self.target.given, is_one_of_many);
        let (Some(verdict), Some(reason)) = (report.verdict, report.reason) else {
            return line;
        };
        let holder = report.holder.as_ref();
        let holder = holder.map(|holder| format!(", holder {}", escaped(holder)));
        let mut below = vec![format!(
            "{}: {} ({reason}){}",
            escaped_path(&report.path),
            verdict.as_str(),
            holder.unwrap_or_default()
        )];
        below.extend(lines::facts(report));
        let without_lease = report.lease_unavailable == Some(true);
        let without_lease = without_lease.then(|| {
            "lease_unavailable: the lock was compared before and after instead; two writers at once could lose a claim"
                .to_owned()
        });
        line + &lines::block(below, None, without_lease, report)
    }

    /// Whether a stale lock was removed without a lease to watch it by (docs/design.md#without-leases).
    fn lease_unavailable(&self) -> bool {
        self.decision
            .removed()
            .is_some_and(|removed| removed.watched == Watched::ByComparison)
    }

    /// The next command after the check, by a new look: a lock that the check removed needs none.
    fn next(&self) -> String {
        let now = look(
            &self.target.place,
            &Options {
                limits: self.options.limits,
                ..Options::default()
            },
        );
        self.explain(&now).next
    }

    fn explain(&self, look: &Look) -> Explanation {
        Explanation::of(look, &self.target, &self.options)
    }
}
