//! The files that a command line names for output, `--report` and `--audit`: none may be a lock file.

use std::path::Path;

use beadlock_checker::internal::{escape::escaped_path, outputs::Taken};

use crate::error::Error;

/// What a file is named for.
#[derive(Debug, Clone, Copy)]
pub enum Output {
    Report,
    Audit,
}

/// Refuses a file that is one of these lock files, or a database's.
///
/// # Errors
/// Exit 2.
pub fn refuse(output: Output, file: Option<&Path>, locks: &[&Path]) -> Result<(), Error> {
    let Some((file, taken)) = file.and_then(|file| Some((file, Taken::of(file, locks)?))) else {
        return Ok(());
    };
    let what = match output {
        Output::Report => "--report",
        Output::Audit => "--audit",
    };
    Err(Error::usage(format!("{what}: {} {}", escaped_path(file), taken.words())))
}
