//! What is said to people and to programs, and what is written down.
//!
//! ```text
//! talk.rs      stderr
//! envelope.rs  the one JSON object on stdout
//! answers.rs   how a command answers for its targets, and how it ends
//! table.rs     a table for a terminal
//! trail.rs     the audit trail of one target
//! ```

pub mod answers;
pub mod base64;
pub mod envelope;
pub mod notices;
pub mod script;
pub mod table;
pub mod talk;
pub mod trail;

use std::path::Path;

use beadlock_base::escape::escaped_path;
use beadlock_core::outputs::Taken;
use serde_json::Value;

use crate::error::Error;
use envelope::Request;
use talk::Talk;

/// How every command answers.
#[derive(Debug)]
pub struct Common {
    /// Whether stdout gets the JSON envelope.
    pub json: bool,
    pub talk: Talk,
    pub request: Request,
}

impl Common {
    /// The envelope of an answer, with all warnings so far, as one line.
    pub fn envelope(&self, data: Value, error: Option<&Error>) -> String {
        format!(
            "{}\n",
            self.request.envelope(data, error, &self.talk.warnings())
        )
    }
}

/// Refuses, with exit 2, a file for output that is one of these lock files, or a database's. `option` has named it.
pub fn refuse_lock_file(
    option: &str,
    file: Option<&Path>,
    locks: &[impl AsRef<Path>],
) -> Result<(), Error> {
    let locks: Vec<&Path> = locks.iter().map(AsRef::as_ref).collect();
    let Some((file, taken)) = file.and_then(|file| Some((file, Taken::of(file, &locks)?))) else {
        return Ok(());
    };
    Err(Error::usage(format!(
        "{option}: {} {}",
        escaped_path(file),
        taken.words()
    )))
}

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
