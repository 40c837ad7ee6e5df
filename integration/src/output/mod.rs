//! What is said to people and to programs, and what is written down.
//!
//! ```text
//! talk.rs      stderr
//! envelope.rs  the one JSON object on stdout
//! answers.rs   how a command answers for its targets, and how it ends
//! table.rs     a table for a terminal
//! trail.rs     the audit trail of one target
//! files.rs     the files that a command line names for it: none may be a lock file
//! ```

pub mod answers;
pub mod envelope;
pub mod files;
pub mod table;
pub mod talk;
pub mod trail;

use talk::Talk;

/// How every command answers.
#[derive(Debug)]
pub struct Common {
    /// In JSON.
    pub json: bool,
    /// How to talk.
    pub talk: Talk,
}
