//! The hooks of a repository, run where `git commit` and `git pull --rebase` run them. Their output goes to the log.

use std::ffi::OsStr;
use std::path::Path;

use super::{Git, GitOutput, Stop};

fn run(git: &Git, hook: &str, args: &[&OsStr], index: Option<&Path>) -> Result<GitOutput, Stop> {
    let mut call = git.call(["hook", "run", "--ignore-missing", hook]);
    if !args.is_empty() {
        call = call.paths(["--"]).paths(args.iter().map(|arg| arg.as_encoded_bytes()));
    }
    if let Some(index) = index {
        call = call.index(index);
    }
    let answer = call.run()?;
    answer.show();
    Ok(answer)
}

/// Runs a hook that may refuse, when there is one.
pub(super) fn ask(git: &Git, hook: &str, args: &[&OsStr], index: Option<&Path>) -> Result<(), Stop> {
    let status = run(git, hook, args, index)?.status;
    if status.success() {
        return Ok(());
    }
    let why = format!("the hook {hook} has failed ({status}); what it says is above");
    Err(Stop::failed("hook", why))
}

/// Runs a hook whose exit code no longer matters.
pub(super) fn tell(git: &Git, hook: &str, args: &[&str]) {
    let args: Vec<_> = args.iter().map(OsStr::new).collect();
    let _ = run(git, hook, &args, None);
}
