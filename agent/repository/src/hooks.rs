//! The hooks of a repository, run where `git commit` and `git pull --rebase` run them. Their output goes to the log.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use beadlock_base::secrets::masked;
use beadlock_core::facts;

use crate::{
    GitOutput, GitReason, HookRun, Part, Repository, SyncMessage, SyncStop, escaped, say, to_type,
};

/// The hooks that a sync, or a git of it, could start.
pub const OF_A_SYNC: [&str; 14] = [
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-index-change",
    "reference-transaction",
    "pre-rebase",
    "post-rewrite",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-auto-gc",
    "fsmonitor-watchman",
];

/// Whether there may be such a hook: in the directory of hooks, or in the settings.
pub fn may_be_there(repository: &Repository, hook: &str) -> Result<bool, SyncStop> {
    let settings = repository.settings()?;
    let dir = match settings.get("core.hookspath") {
        // Only git knows what that stands for.
        Some(dir) if dir.starts_with(['~', '%']) => return Ok(true),
        Some(dir) => repository.git.dir.join(dir),
        None => repository.common_dir.join("hooks"),
    };
    Ok(settings.have_hooks() || fs::symlink_metadata(dir.join(hook)).is_ok())
}

fn run(
    repository: &Repository,
    hook: &str,
    args: &[&OsStr],
    index: Option<&Path>,
) -> Result<GitOutput, SyncStop> {
    let mut call = repository
        .git
        .call(["hook", "run", "--ignore-missing", hook]);
    if !args.is_empty() {
        call = call
            .paths(["--"])
            .paths(args.iter().map(|arg| arg.as_encoded_bytes()));
    }
    if let Some(index) = index {
        call = call.index(index);
    }
    let answer = timed(hook, || call.run())?;
    answer.show();
    Ok(answer)
}

/// Runs a hook, and tells the agent when it ran: in that time the hook may write into the database.
pub fn timed<T>(hook: &str, run: impl FnOnce() -> T) -> T {
    let now = || Duration::try_from(facts::now().0).unwrap_or_default();
    let begun = now();
    let result = run();
    say(&SyncMessage::HookRan(HookRun {
        name: hook.to_owned(),
        ran: (begun, now()),
    }));
    result
}

/// Runs a hook that may refuse, when there is one.
pub fn ask(
    repository: &Repository,
    hook: &str,
    args: &[&OsStr],
    index: Option<&Path>,
) -> Result<(), SyncStop> {
    if !may_be_there(repository, hook)? {
        return Ok(());
    }
    let answer = run(repository, hook, args, index)?;
    if answer.status.success() {
        return Ok(());
    }
    let said = answer.said();
    let mut lines = said.lines().map(str::trim).rev();
    let words = match lines.find(|line| !line.is_empty()) {
        Some(line) => format!(": {}", shortened(&masked(line))),
        None => ", and it says nothing".to_owned(),
    };
    let why = format!("the hook {hook} has failed ({}){words}", answer.status);
    let top = Part::Path(&repository.git.dir);
    let command = match hook {
        "pre-rebase" => to_type("git -C {} pull --rebase", &[top]),
        _ => {
            let database = Part::Words(vec![repository.typed()]);
            to_type("git -C {} commit -m 'sync .beads' -- {}", &[top, database])
        }
    };
    Err(SyncStop::failed(GitReason::Hook, why).next(command))
}

/// The beginning of a line, as long as a sentence may be.
fn shortened(line: &str) -> String {
    const LONG: usize = 200;
    let line = escaped(line).to_string();
    match line.char_indices().nth(LONG) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Runs a hook whose exit code no longer matters.
pub fn tell(repository: &Repository, hook: &str, args: &[&str]) {
    let args: Vec<_> = args.iter().map(OsStr::new).collect();
    if may_be_there(repository, hook).unwrap_or(true) {
        let _ = run(repository, hook, &args, None);
    }
}
