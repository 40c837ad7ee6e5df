//! A target, and what a daemon does about it: what `check` shows.

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::look::{Look, look};
use beadlock_core::{Decision, Options, Proceed, Skip, Verdict, Watched};
use serde_json::{Value, json};

use super::explanation::Explanation;
use beadlock_claim::{error::Exit, target::Target};

/// A log line, with its target's name where there are several; nothing where there is none.
pub fn message_line(message: &str, target: &str, is_one_of_many: bool) -> String {
    match (message.is_empty(), is_one_of_many) {
        (true, _) => String::new(),
        (false, true) => format!("{target}: {message}\n"),
        (false, false) => format!("{message}\n"),
    }
}

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
    /// What was to be seen before: the check itself may have removed it.
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

    fn message(&self) -> String {
        message(&self.decision, self.target.rules().speaks_of_databases)
    }

    /// The target's element of `data` in the JSON of `check`; `explain` adds `witnesses`, `lease_unavailable` and
    /// `next`.
    pub fn json(&self, explain: bool) -> Value {
        let mut data = json!({
            "target": self.target.name(),
            "path": self.target.path().to_string_lossy(),
            "decision": if self.decision.is_skip() { "skip" } else { "proceed" },
            "verdict": self.decision.verdict().as_str(),
            "removed": self.decision.removed().is_some(),
            "holder": self.decision.record().map(|record| record.holder()),
            "id": self.id(),
            "reason": self.decision.reason().as_str(),
            "message": self.message(),
        });
        if explain && let Some(fields) = data.as_object_mut() {
            fields.insert("witnesses".to_owned(), self.explain(&self.before).json());
            fields.insert(
                "lease_unavailable".to_owned(),
                self.lease_unavailable().into(),
            );
            fields.insert("next".to_owned(), self.next().into());
        }
        data
    }

    /// The log line, as [`message_line`] has it; `explain` adds the verdict, the facts and what to type next, one line
    /// each.
    pub fn text(&self, explain: bool, is_one_of_many: bool) -> String {
        let mut text = message_line(&self.message(), &self.target.given, is_one_of_many);
        if explain {
            let (verdict, reason) = (self.decision.verdict(), self.decision.reason());
            let path = escaped_path(&self.target.path());
            let holder = self
                .decision
                .record()
                .map(|record| format!(", holder {}", escaped(record.holder())));
            let holder = holder.unwrap_or_default();
            text.push_str(&format!(
                "  {path}: {} ({reason}){holder}\n",
                verdict.as_str()
            ));
            for line in self.explain(&self.before).lines() {
                text.push_str(&format!("  {line}\n"));
            }
            if self.lease_unavailable() {
                text.push_str(
                    "  lease_unavailable: the lock was compared before and after instead; two writers at once could \
                     lose a claim\n",
                );
            }
            text.push_str(&format!("  next: {}\n", self.next()));
        }
        text
    }

    /// A stale lock was removed without a lease to watch it by (docs/design.md#without-leases).
    fn lease_unavailable(&self) -> bool {
        self.decision
            .removed()
            .is_some_and(|removed| removed.watched == Watched::ByComparison)
    }

    /// After the check: what it removed needs nothing any more.
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
