//! The hooks of a repository, run where `git commit` and `git pull --rebase` run them.

use std::ffi::OsStr;
use std::path::Path;

use super::repository::Repository;
use super::stop::Stop;

/// Runs a hook, when there is one. What it prints goes to the log.
///
/// # Errors
/// When it fails: it is not to be done.
pub(super) fn ask(
    repository: &Repository,
    hook: &str,
    args: &[&OsStr],
    index: Option<&Path>,
) -> Result<(), Stop> {
    let words = ["hook", "run", "--ignore-missing", hook];
    let end = if args.is_empty() { None } else { Some(OsStr::new("--")) };
    let mut call = repository.git.call(words.iter().map(OsStr::new).chain(end).chain(args.iter().copied()));
    if let Some(index) = index {
        call = call.index(index);
    }
    let answer = call.run()?;
    answer.show();
    if answer.status.success() {
        return Ok(());
    }
    Err(Stop::Refused(format!("the hook {hook} has failed ({}); what it says is above", answer.status)))
}

/// Runs a hook that has no say any more.
pub(super) fn tell(repository: &Repository, hook: &str, args: &[&str]) {
    let words = ["hook", "run", "--ignore-missing", hook, "--"];
    if let Ok(answer) = repository.git.call(words.iter().chain(args)).run() {
        answer.show();
    }
}
