//! How a file gets its content. New content is checked, written to a stage, and renamed over the file; the old content
//! becomes a backup. Or whole lines are added to its end. A lock is known here only as a [`WriteLock`].
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! Linux alone: the sources do not compile elsewhere.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

mod acl;
pub mod append;
mod backups;
pub mod entry;
mod error;
pub mod json;
#[cfg(not(feature = "validate-schema"))]
mod no_schema;
pub mod replace;
#[cfg(feature = "validate-schema")]
mod schema;
pub mod stage;
pub mod write;

pub use error::{Error, SchemaError};
#[cfg(not(feature = "validate-schema"))]
pub use no_schema::Schema;
#[cfg(feature = "validate-schema")]
pub use schema::Schema;

/// The lock under which a file is changed.
pub trait WriteLock {
    /// Checks that this lock still protects the file: the lock file is the one that was locked, and lies beside it.
    /// Writers ask before each step that needs the lock. Fails with [`Error::Lost`] when it does not.
    fn guards(&self, entry: &entry::NamedFile) -> Result<(), Error>;
}
