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
pub mod end;
pub mod envelope;
pub mod notices;
pub mod script;
pub mod table;
pub mod talk;
pub mod trail;

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
