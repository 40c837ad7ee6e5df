//! The files that a command line names for output, `--report` and `--audit`: none may be a lock file.

use std::ffi::OsStr;
use std::path::Path;

use beadlock_checker::escape::escaped_path;
use beadlock_checker::outputs::Taken;

use crate::environment::Environment;
use crate::failure::Error;
use crate::file::FileTarget;
use crate::target::Found;

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

/// Refuses a report, before anything is said or written, that is the lock of the target of a command line. A target that
/// is not found has no lock: that is said elsewhere.
///
/// # Errors
/// Exit 2.
pub fn refuse_report(
    file: Option<&Path>,
    target: Option<&OsStr>,
    environment: &Environment,
) -> Result<(), Error> {
    let Some(path) = file else { return Ok(()) };
    if let Ok(Some(target)) = FileTarget::meant(target, environment) {
        return refuse(Output::Report, file, &[target.lock(), target.file()]);
    }
    match Found::resolve(target, environment) {
        // Its file system does not answer: that is said elsewhere, too.
        Err(_) if !environment.remote().may_touch(path) => Ok(()),
        Ok(found) => refuse(Output::Report, file, &[&found.path()]),
        Err(_) => refuse(Output::Report, file, &[]),
    }
}
