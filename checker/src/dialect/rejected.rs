//! Why the bytes of a lock file are no record, in any dialect.

use std::fmt;

use crate::verdict::Reason;

/// Why bytes are no record. `Display` is what the log line says after `lock check failed: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    /// Not JSON, or of the wrong types; what was found, in words.
    Malformed(String),
    /// JSON of the right types without a needed value; which, in words.
    Invalid(String),
}

impl Rejected {
    /// The word of the contract.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Malformed(_) => Reason::Malformed,
            Self::Invalid(_) => Reason::Invalid,
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(words) => write!(f, "malformed lock file: {words}"),
            Self::Invalid(words) => write!(f, "invalid lock file: {words}"),
        }
    }
}

impl std::error::Error for Rejected {}
