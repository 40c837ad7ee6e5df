//! A lock that the kernel keeps, as `check` and `status` show it.

use beadlock_core::Verdict;
use beadlock_core::gate_holders::GateHolders;

use super::{lines, seen::color};
use beadlock_claim::kernel_lock::{Observation, WithoutRecord};
use beadlock_claim::{error::Exit, report::Report, target::Target};
use beadlock_console::talk::Talk;

/// A target whose lock the kernel keeps, and what was observed of that.
#[derive(Debug)]
pub struct Observed {
    target: Target,
    seen: Observation,
}

impl Observed {
    /// Observes the lock of `target` now; `gates` says which processes have it.
    pub fn of(target: Target, kernel: &dyn WithoutRecord, gates: &GateHolders) -> Self {
        Self {
            seen: kernel.look(&target, gates),
            target,
        }
    }

    /// The exit code of `check`: `Conflict` for a held lock, `Unreadable` where it cannot be told, else `Done`.
    pub fn exit(&self) -> Exit {
        match self.seen.verdict {
            Verdict::Free | Verdict::Stale(_) => Exit::Done,
            Verdict::Held(_) => Exit::Conflict,
            Verdict::Unreadable(_) => Exit::Unreadable,
        }
    }

    /// The facts with their explanation, as `status` reports them.
    pub fn report(&self) -> Report {
        let seen = &self.seen;
        Report {
            skips: seen.verdict != Verdict::Free,
            verdict: Some(seen.verdict),
            reason: Some(seen.verdict.reason()),
            id: seen.id.clone(),
            message: seen.message.clone(),
            witnesses: Some(seen.facts.clone()),
            next: Some(seen.next.clone()),
            ..Report::of(&self.target)
        }
    }

    /// The facts of a `check`: without `explain` they have no witnesses and no next command.
    pub fn checked(&self, explain: bool) -> Report {
        let report = self.report();
        Report {
            witnesses: report.witnesses.filter(|_| explain),
            next: report.next.filter(|_| explain),
            ..report
        }
    }

    /// The line of a `check`, and what its report explains.
    pub fn checked_text(&self, report: &Report, is_one_of_many: bool) -> String {
        lines::checked(report, &self.target.given, is_one_of_many)
    }

    /// The text of `status`: at most five lines, and with `-v` all that is known.
    pub fn text(&self, report: &Report, talk: &Talk) -> String {
        let Observation {
            verdict, headline, ..
        } = &self.seen;
        let word = talk.painted_data(verdict.as_str(), color(*verdict));
        let below = match talk.is_verbose() {
            true => lines::below(report, None),
            false => lines::brief(report, None),
        };
        format!(
            "{}: {word}{headline} ({})\n{below}",
            self.target.given,
            verdict.reason()
        )
    }
}
