//! A lock that the kernel keeps, as `check`, `status` and `list` show it.

use beadlock_checker::Verdict;
use beadlock_checker::internal::Gates;
use serde_json::{Map, Value, json};

use super::checked::message_line;
use super::explanation;
use crate::claim::protocol::{Observation, WithoutRecord};
use crate::claim::target::Target;
use crate::error::Exit;
use crate::output::talk::Talk;

/// A target, and what was seen of its lock.
#[derive(Debug)]
pub struct Observed {
    pub target: Target,
    pub seen: Observation,
}

impl Observed {
    /// Looks.
    pub fn of(target: Target, kernel: &dyn WithoutRecord, gates: &Gates) -> Self {
        Self { seen: kernel.look(&target, gates), target }
    }

    /// How a check ends.
    pub fn exit(&self) -> Exit {
        match self.seen.verdict {
            Verdict::Free | Verdict::Stale(_) => Exit::Done,
            Verdict::Held(_) => Exit::Conflict,
            Verdict::Unreadable(_) => Exit::Unreadable,
        }
    }

    /// One element of `data` of a `check`.
    pub fn checked(&self, explain: bool) -> Value {
        let decision = if self.seen.verdict == Verdict::Free { "proceed" } else { "skip" };
        let mut data = self.answer();
        data.insert("decision".to_owned(), decision.into());
        data.insert("removed".to_owned(), false.into());
        if explain {
            data.insert("witnesses".to_owned(), explanation::json(&self.seen.facts));
            data.insert("next".to_owned(), self.seen.next.clone().into());
        }
        data.into()
    }

    /// The line of a `check`, and what it explains.
    pub fn checked_text(&self, explain: bool, is_one_of_many: bool) -> String {
        let line = message_line(&self.seen.message, &self.target.given, is_one_of_many);
        if explain { line + &self.below() } else { line }
    }

    /// One element of `data` of `status` and `list`.
    pub fn json(&self) -> Value {
        let mut data = self.answer();
        data.insert("record".to_owned(), Value::Null);
        data.insert("age_ms".to_owned(), Value::Null);
        data.insert("witnesses".to_owned(), explanation::json(&self.seen.facts));
        data.insert("next".to_owned(), self.seen.next.clone().into());
        data.into()
    }

    fn answer(&self) -> Map<String, Value> {
        let Observation { verdict, message, id, .. } = &self.seen;
        let data = json!({
            "target": self.target.name(),
            "path": self.target.path().to_string_lossy(),
            "verdict": verdict.as_str(),
            "holder": null,
            "id": id,
            "reason": verdict.reason().as_str(),
            "message": message,
        });
        if let Value::Object(data) = data { data } else { Map::new() }
    }

    /// All that `status` says of it.
    pub fn text(&self, talk: &Talk) -> String {
        let Observation { verdict, headline, .. } = &self.seen;
        let color = super::seen::color(*verdict);
        let word = talk.painted_data(verdict.as_str(), color);
        format!("{}: {word}{headline} ({})\n{}", self.target.given, verdict.reason(), self.below())
    }

    /// What is known, and what to type, one line each.
    pub fn below(&self) -> String {
        let Observation { id, facts, next, .. } = &self.seen;
        let mut lines = explanation::lines(facts);
        lines.extend(id.as_ref().map(|id| format!("id: {id}")));
        lines.push(format!("next: {next}"));
        lines.iter().map(|line| format!("  {line}\n")).collect()
    }
}
