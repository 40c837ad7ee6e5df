//! What the doctor has to say: for people, a line for each trial and each promise, and in JSON.

use beadlock_checker::internal::escape::escaped_path;
use serde_json::{Value, json};

use super::guarantee::{Guarantees, Holds};
use super::results::TrialResults;
use super::site::ExaminedDirectory;
use super::table::NOT_KNOWN;
use crate::error::Exit;
use crate::output::talk::Talk;

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

/// All that was found out about one directory.
#[derive(Debug)]
pub struct DoctorReport<'a> {
    /// Which.
    pub directory: &'a ExaminedDirectory,
    /// What was tried.
    pub results: TrialResults,
    /// What follows.
    pub guarantees: Guarantees,
}

impl DoctorReport<'_> {
    /// 5: no lock is worth anything here; 1: something is missing, or not known; 0: all is there.
    pub fn exit(&self) -> Exit {
        self.conclusion().0
    }

    /// How it ends, the colour of that, and a sentence.
    fn conclusion(&self) -> (Exit, &'static str, String) {
        if let Some(why) = self.guarantees.cannot_lock() {
            return (Exit::Unreadable, RED, format!("NO, {why}"));
        }
        let missing = self.results.not_ok().join(", ");
        if missing.is_empty() {
            return (Exit::Done, GREEN, "yes, locks hold here".to_owned());
        }
        (Exit::Failed, YELLOW, format!("locks hold here, with limits: {missing}"))
    }

    /// The lines.
    pub fn text(&self, talk: &Talk) -> String {
        let ExaminedDirectory { path, given, above, .. } = self.directory;
        let above = above.as_ref().map(|above| format!(" (the database in {above})")).unwrap_or_default();
        let (_, color, summary) = self.conclusion();
        let mut text = format!("{given}{above}: {}\n", talk.painted_data(&summary, color));
        text.push_str(&format!("  directory: {}\n", escaped_path(path)));
        let line = |(word, color): (&str, &str), rest: String| {
            format!("  {}  {rest}\n", talk.painted_data(&format!("{word:<7}"), color))
        };
        for result in &self.results.0 {
            let word = match result.ok {
                Some(true) => ("ok", GREEN),
                Some(false) => ("no", RED),
                None => ("unknown", YELLOW),
            };
            let mut parts = vec![format!("{:<17}  {}", result.words(), result.detail)];
            parts.extend((result.means != NOT_KNOWN).then(|| result.means.to_owned()));
            // At the end of the line, where nothing else is pasted along.
            parts.extend(result.to_type.iter().map(|command| format!("type: {command}")));
            text.push_str(&line(word, parts.join("; ")));
        }
        text.push_str("What is promised here:\n");
        for guarantee in &self.guarantees.0 {
            let word = match guarantee.holds {
                Holds::Yes => ("yes", GREEN),
                Holds::Limited => ("limited", YELLOW),
                Holds::Unknown => ("unknown", YELLOW),
                Holds::No => ("NO", RED),
            };
            text.push_str(&line(word, format!("{}: {}", guarantee.promise, guarantee.how)));
        }
        text
    }

    /// The `data` of the envelope.
    pub fn json(&self) -> Value {
        json!({
            "path": self.directory.path.to_string_lossy(),
            "can_lock": self.guarantees.cannot_lock().is_none(),
            "message": self.conclusion().2,
            "trials": self.results,
            "guarantees": self.guarantees,
        })
    }
}
