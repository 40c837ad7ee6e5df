//! Why there are no settings.

use std::fmt;

use beadlock_checker::internal::database::NoDatabase;

/// Why there are no settings: one line, and for a mistake in the file the line with it. `Display` is both.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// 2 when the command line or the file is wrong, else 1.
    pub(crate) code: u8,
    /// What is wrong, where, and what to do.
    pub(crate) message: String,
    excerpt: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: String) -> Self {
        Self { code, message, excerpt: String::new() }
    }

    /// With the line that it is about.
    pub(crate) fn with_excerpt(self, excerpt: String) -> Self {
        Self { excerpt, ..self }
    }
}

impl From<NoDatabase> for Failure {
    fn from(error: NoDatabase) -> Self {
        // The library's advice is for who claims.
        let message =
            error.to_string().replace("beadlock hold path/.beads -- …", "beadlock-agent --db path/.beads");
        Self::new(error.exit_code(), message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.message, self.excerpt)
    }
}
