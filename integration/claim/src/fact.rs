//! What is known of a target, one thing at a time.

use serde_json::Value;

/// One thing that is known of a target, for people and for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// What it is called, in the line and in JSON.
    pub name: &'static str,
    /// What the line says; `None`: people are not told.
    pub text: Option<String>,
    /// What JSON has; `None`: it is not there.
    pub json: Option<Value>,
}

impl Fact {
    /// A fact for people and for programs.
    pub fn new(name: &'static str, text: impl Into<String>, json: impl Into<Value>) -> Self {
        Self {
            name,
            text: Some(text.into()),
            json: Some(json.into()),
        }
    }

    /// A fact for people alone.
    pub fn text(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            text: Some(text.into()),
            json: None,
        }
    }

    /// A fact for programs alone.
    pub fn json(name: &'static str, json: impl Into<Value>) -> Self {
        Self {
            name,
            text: None,
            json: Some(json.into()),
        }
    }

    /// `heartbeat: 5s ago`
    pub fn line(&self) -> Option<String> {
        self.text
            .as_ref()
            .map(|text| format!("{}: {text}", self.name))
    }
}
