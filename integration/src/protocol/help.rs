//! What `beadlock help PROTOCOL` says of a protocol, beside its options, and what a shell offers.

use std::path::Path;

/// The page of one protocol. Each folder has its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProtocolHelp {
    /// What it locks, and how to type it: one line.
    pub about: &'static str,
    /// Paragraphs: when a lock is valid, how long a claim waits, what keeps it up.
    pub text: &'static str,
    /// Commands to type, one a line.
    pub examples: &'static str,
    /// The heading of its options in the help of a command; empty: it has none of its own.
    pub heading: &'static str,
}

/// What a shell offers behind the colon of a target.
#[derive(Debug, Clone, Copy)]
pub enum Offered {
    Directories,
    Files,
    /// The names of the locks in a directory, which this function reads.
    Names(fn(&Path) -> Vec<String>),
}
