//! What the doctor has to say: for people, a line for each trial and each promise, and in JSON.

use beadlock_checker::internal::escape::escaped_path;
use serde_json::{Value, json};

use super::guarantee::{Guarantees, Holds};
use super::subject::Subject;
use super::trial::{Kind, Trials};
use super::words;
use crate::error::Exit;
use crate::output::talk::Talk;

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

/// All that was found out about one directory.
#[derive(Debug)]
pub struct Report<'a> {
    /// Which.
    pub subject: &'a Subject,
    /// What was tried.
    pub trials: Trials,
    /// What follows.
    pub guarantees: Guarantees,
}

impl Report<'_> {
    /// 5: no lock is worth anything here; 1: something is missing, or not known; 0: all is there.
    pub fn exit(&self) -> Exit {
        match (self.guarantees.cannot_lock(), self.trials.not_ok().count()) {
            (Some(_), _) => Exit::Unreadable,
            (None, 0) => Exit::Done,
            _ => Exit::Failed,
        }
    }

    fn summary(&self) -> (&'static str, String) {
        if let Some(why) = self.guarantees.cannot_lock() {
            return (RED, format!("NO, {why}"));
        }
        let missing: Vec<String> = self.trials.not_ok().map(Kind::words).collect();
        if missing.is_empty() {
            return (GREEN, "yes, locks hold here".to_owned());
        }
        (YELLOW, format!("locks hold here, with limits: {}", missing.join(", ")))
    }

    /// The lines.
    pub fn text(&self, talk: &Talk) -> String {
        let Subject { path, given, above, .. } = self.subject;
        let above = above.as_ref().map(|above| format!(" (the database in {above})")).unwrap_or_default();
        let (color, summary) = self.summary();
        let mut text = format!("{given}{above}: {}\n", talk.painted_data(&summary, color));
        text.push_str(&format!("  directory: {}\n", escaped_path(path)));
        for trial in &self.trials.0 {
            let (word, color) = match trial.ok {
                Some(true) => ("ok", GREEN),
                Some(false) => ("no", RED),
                None => ("unknown", YELLOW),
            };
            let word = talk.painted_data(&format!("{word:<7}"), color);
            let name = trial.kind.words();
            text.push_str(&format!("  {word}  {name:<17}  {}", trial.detail));
            if trial.means() != words::UNKNOWN {
                text.push_str(&format!("; {}", trial.means()));
            }
            // At the end of the line, where nothing else is pasted along.
            text.extend(trial.to_type.iter().map(|command| format!("; type: {command}")));
            text.push('\n');
        }
        text.push_str("What is promised here:\n");
        for guarantee in &self.guarantees.0 {
            let (word, color) = match guarantee.holds {
                Holds::Yes => ("yes", GREEN),
                Holds::Limited => ("limited", YELLOW),
                Holds::Unknown => ("unknown", YELLOW),
                Holds::No => ("NO", RED),
            };
            let word = talk.painted_data(&format!("{word:<7}"), color);
            text.push_str(&format!("  {word}  {}: {}\n", guarantee.promise, guarantee.how));
        }
        text
    }

    /// The `data` of the envelope.
    pub fn json(&self) -> Value {
        let trials: Vec<Value> = self
            .trials
            .0
            .iter()
            .map(|trial| {
                json!({
                    "name": trial.kind.as_str(),
                    "ok": trial.ok,
                    "detail": trial.detail,
                    "means": trial.means(),
                    "next": trial.to_type,
                })
            })
            .collect();
        let guarantees: Vec<Value> = self
            .guarantees
            .0
            .iter()
            .map(|guarantee| {
                json!({
                    "name": guarantee.name,
                    "holds": guarantee.holds.as_str(),
                    "promise": guarantee.promise,
                    "how": guarantee.how,
                })
            })
            .collect();
        json!({
            "path": self.subject.path.to_string_lossy(),
            "can_lock": self.guarantees.cannot_lock().is_none(),
            "message": self.summary().1,
            "trials": trials,
            "guarantees": guarantees,
        })
    }
}
