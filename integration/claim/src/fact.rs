//! A fact about a target: a name, a text for people, and a value for JSON.

use serde_json::Value;

/// One thing that is known of a target, for people and for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// The fact's name: the word before the text in a line, and the key in JSON.
    pub name: &'static str,
    /// The text after the name in a line; `None`: people are not shown the fact.
    pub text: Option<String>,
    /// The value in JSON; `None`: JSON does not have the key.
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

    /// The line for people, such as `heartbeat: 5s ago`; `None`: people are not shown the fact.
    pub fn line(&self) -> Option<String> {
        self.text
            .as_ref()
            .map(|text| format!("{}: {text}", self.name))
    }
}
