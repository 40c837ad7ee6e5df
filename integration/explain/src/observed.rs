//! A lock that the kernel keeps, as `check`, `status` and `list` show it.

use beadlock_core::Verdict;
use beadlock_core::gates::Gates;
use serde_json::{Value, json};

use super::{checked::message_line, explanation, gate::GateSeen};
use beadlock_claim::kernel_lock::{Observation, WithoutRecord};
use beadlock_claim::{error::Exit, target::Target};
use beadlock_console::talk::Talk;

/// A target whose lock the kernel keeps, and what was observed of that.
#[derive(Debug)]
pub struct Observed {
    target: Target,
    seen: Observation,
}

impl Observed {
    /// Observes the lock of `target` now; `gates` says which processes have it.
    pub fn of(target: Target, kernel: &dyn WithoutRecord, gates: &Gates) -> Self {
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

    /// The target's element of `data` in the JSON of `check`; `explain` adds `witnesses` and `next`.
    pub fn checked(&self, explain: bool) -> Value {
        let Observation {
            verdict,
            message,
            id,
            next,
            ..
        } = &self.seen;
        let mut data = json!({
            "target": self.target.name(),
            "path": self.target.path().to_string_lossy(),
            "decision": if *verdict == Verdict::Free { "proceed" } else { "skip" },
            "verdict": verdict.as_str(),
            "removed": false,
            "holder": null,
            "id": id,
            "reason": verdict.reason().as_str(),
            "message": message,
        });
        if explain && let Some(fields) = data.as_object_mut() {
            fields.insert("witnesses".to_owned(), explanation::json(&self.seen.facts));
            fields.insert("next".to_owned(), next.clone().into());
        }
        data
    }

    /// The line of a `check`, and what it explains.
    pub fn checked_text(&self, explain: bool, is_one_of_many: bool) -> String {
        let line = message_line(&self.seen.message, &self.target.given, is_one_of_many);
        if explain { line + &self.below() } else { line }
    }

    /// The target's element of `data` in the JSON of `status`.
    pub fn json(&self) -> Value {
        let Observation {
            verdict,
            message,
            id,
            facts,
            next,
            ..
        } = &self.seen;
        explanation::row(
            &self.target,
            (*verdict, message, id.as_deref()),
            None,
            (explanation::json(facts), next),
        )
    }

    /// At most five lines, and with `-v` all that is known.
    pub fn text(&self, talk: &Talk) -> String {
        let Observation {
            verdict, headline, ..
        } = &self.seen;
        let color = super::seen::color(*verdict);
        let word = talk.painted_data(verdict.as_str(), color);
        let below = match talk.is_verbose() {
            true => self.below(),
            false => explanation::below(
                explanation::brief(&self.seen.facts, GateSeen::Open),
                None,
                None,
                &self.seen.next,
            ),
        };
        format!(
            "{}: {word}{headline} ({})\n{below}",
            self.target.given,
            verdict.reason()
        )
    }

    fn below(&self) -> String {
        let Observation {
            id, facts, next, ..
        } = &self.seen;
        explanation::below(explanation::lines(facts), id.as_deref(), None, next)
    }
}
