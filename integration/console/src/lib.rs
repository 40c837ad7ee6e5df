//! What the program says to people and to programs: lines on stderr, the one JSON object on stdout, tables, and its end.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! ```text
//! talk.rs      stderr
//! notices.rs   the sentence of each notice that a claim gives
//! answers.rs   how a command answers for its targets, and how it ends
//! end.rs       the exit code, or the signal
//! table.rs     a table for a terminal
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod answers;
pub mod base64;
pub mod notices;
pub mod program_end;
pub mod table;
pub mod talk;

use serde_json::Value;

use beadlock_claim::envelope::Request;
use beadlock_claim::error::Error;
use talk::Talk;

/// The settings by which every command answers: JSON or text, the talk, and the request.
#[derive(Debug)]
pub struct Console {
    /// Whether stdout gets the JSON envelope.
    pub json: bool,
    /// Says what is for people, on stderr.
    pub talk: Talk,
    /// The invocation of the program that is answered.
    pub request: Request,
}

impl Console {
    /// The envelope of an answer, with all warnings so far, as one line.
    pub fn envelope(&self, data: Value, error: Option<&Error>) -> String {
        format!(
            "{}\n",
            self.request.envelope(data, error, &self.talk.warnings())
        )
    }
}
