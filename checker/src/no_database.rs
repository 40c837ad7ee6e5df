//! Why there is no database, or no place for a lock, where one was named.

use std::fmt;

/// Why there is no database. `Display` says what to type next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoDatabase {
    kind: NoDatabaseKind,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoDatabaseKind {
    NotThere,
    Usage,
    Io,
}

impl NoDatabase {
    fn new(kind: NoDatabaseKind, message: String) -> Self {
        Self { kind, message }
    }

    pub(crate) fn not_there(message: String) -> Self {
        Self::new(NoDatabaseKind::NotThere, message)
    }

    pub(crate) fn io(message: String) -> Self {
        Self::new(NoDatabaseKind::Io, message)
    }

    /// A mistake of the command line.
    pub fn usage(message: String) -> Self {
        Self::new(NoDatabaseKind::Usage, message)
    }

    /// The same, naming the variable that the target came from.
    pub fn of_variable(self, name: &str) -> Self {
        Self { message: format!("${name}: {}", self.message), ..self }
    }

    /// The same, saying more.
    pub(crate) fn with(self, more: &str) -> Self {
        Self { message: self.message + more, ..self }
    }

    /// 2 when the command line is wrong, else 1 (docs/design.md#exit-codes).
    pub fn exit_code(&self) -> u8 {
        if self.kind == NoDatabaseKind::Usage { 2 } else { 1 }
    }

    /// `NO_TARGET`, `USAGE` or `IO`.
    pub fn code(&self) -> &'static str {
        match self.kind {
            NoDatabaseKind::NotThere => "NO_TARGET",
            NoDatabaseKind::Usage => "USAGE",
            NoDatabaseKind::Io => "IO",
        }
    }
}

impl fmt::Display for NoDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NoDatabase {}
