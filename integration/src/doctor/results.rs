//! The list of results that text, JSON and promises are made from.

use serde::Serialize;

use super::outcome::{TrialOutcome, UNTRIED};
use super::table::{Trial, TrialKey};

/// The result of a trial, as JSON has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialResult {
    #[serde(skip)]
    pub key: TrialKey,
    /// The trial's name.
    pub name: &'static str,
    /// It is there; `None`: unknown.
    pub ok: Option<bool>,
    /// What was seen.
    pub detail: String,
    /// What it means for locks.
    pub means: &'static str,
    /// What to type where it is missing.
    #[serde(rename = "next")]
    pub to_type: Option<String>,
}

impl TrialResult {
    /// Of a trial that ended so.
    pub fn of(trial: &Trial, outcome: TrialOutcome) -> Self {
        let (ok, detail, to_type) = match outcome {
            Ok(detail) => (Some(true), detail, None),
            Err(failure) => (failure.ok, failure.detail, failure.to_type),
        };
        let means = match ok {
            Some(true) => trial.there,
            Some(false) => trial.missing,
            None => trial.unknown,
        };
        Self { key: trial.key, name: trial.name, ok, detail, means, to_type }
    }

    /// The trial's name for people.
    pub fn words(&self) -> String {
        self.name.replace('_', " ")
    }
}

/// The results of all trials of one directory, in the order of the table.
#[derive(Debug, Clone, Serialize)]
pub struct TrialResults(pub Vec<TrialResult>);

impl TrialResults {
    fn get(&self, key: TrialKey) -> Option<&TrialResult> {
        self.0.iter().find(|result| result.key == key)
    }

    /// Whether it is there; `None`: unknown.
    pub fn ok(&self, key: TrialKey) -> Option<bool> {
        self.get(key)?.ok
    }

    /// What was seen.
    pub fn detail(&self, key: TrialKey) -> &str {
        self.get(key).map_or("", |result| &result.detail)
    }

    /// The detail, for a sentence that says already that it did not work.
    pub fn why(&self, key: TrialKey) -> &str {
        let detail = self.detail(key);
        detail.strip_prefix(UNTRIED).unwrap_or(detail)
    }

    /// `flock wakes: permission denied`.
    pub fn says(&self, key: TrialKey) -> String {
        self.get(key).map_or_else(String::new, |result| format!("{}: {}", result.words(), result.detail))
    }

    /// It was seen to be there.
    pub fn has(&self, key: TrialKey) -> bool {
        self.ok(key) == Some(true)
    }

    /// It was seen to be missing.
    pub fn misses(&self, key: TrialKey) -> bool {
        self.ok(key) == Some(false)
    }

    /// The first of these that was not seen to be there.
    pub fn first_without(&self, keys: &[TrialKey]) -> Option<TrialKey> {
        keys.iter().copied().find(|key| !self.has(*key))
    }

    /// The names of the trials that were not seen to end well.
    pub fn not_ok(&self) -> Vec<String> {
        self.0.iter().filter(|result| result.ok != Some(true)).map(TrialResult::words).collect()
    }
}
