//! The hooks of a repository, run where `git commit` and `git pull --rebase` run them. Their output goes to the log.

use std::ffi::OsStr;
use std::path::Path;

use super::{GitOutput, Repository, Stop};

fn run(
    repository: &Repository,
    hook: &str,
    args: &[impl AsRef<OsStr>],
    index: Option<&Path>,
) -> Result<GitOutput, Stop> {
    let mut call = repository.git.call(["hook", "run", "--ignore-missing", hook]);
    if !args.is_empty() {
        call = call.paths(["--"]).paths(args.iter().map(|arg| arg.as_ref().as_encoded_bytes()));
    }
    if let Some(index) = index {
        call = call.index(index);
    }
    let answer = call.run()?;
    answer.show();
    Ok(answer)
}

/// Runs a hook that may refuse, when there is one.
pub(super) fn ask(
    repository: &Repository,
    hook: &str,
    args: &[&OsStr],
    index: Option<&Path>,
) -> Result<(), Stop> {
    let status = run(repository, hook, args, index)?.status;
    if status.success() {
        return Ok(());
    }
    Err(Stop::Refused(format!("the hook {hook} has failed ({status}); what it says is above")))
}

/// Runs a hook whose exit code no longer matters.
pub(super) fn tell(repository: &Repository, hook: &str, args: &[&str]) {
    let _ = run(repository, hook, args, None);
}
