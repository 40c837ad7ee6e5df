//! The operations that somebody is in the middle of: a rebase, a merge and the like. Until they are over, a sync
//! commits nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::reflog::when;
use crate::{GitReason, Part, Repository, SyncStop, to_type};

/// The names in the git directory during an operation, and the words for that operation.
pub(crate) const IN_PROGRESS: [(&str, &str); 7] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisect"),
    ("sequencer", "a cherry-pick"),
];

/// An operation of git in progress.
struct Progress {
    what: &'static str,
    /// The file that git made when the operation began.
    since: PathBuf,
    /// The subcommand that ends it.
    abort: &'static str,
}

/// Refuses while somebody is in the middle of something.
pub(crate) fn refuse(repository: &Repository) -> Result<(), SyncStop> {
    let Some(progress) = find(repository)? else {
        return Ok(());
    };
    let since = fs::symlink_metadata(&progress.since)
        .map(|meta| format!(" since {}", when(meta.mtime())))
        .unwrap_or_default();
    let why = format!(
        "{} is in progress in {}{since}; finish it, or abort it",
        progress.what,
        repository.top()
    );
    let stop = |why| SyncStop::failed(GitReason::InProgress, why);
    let top = Part::Path(&repository.git.dir);
    let abort = || {
        let option = match progress.abort {
            "bisect" => "reset",
            _ => "--abort",
        };
        Part::Words(vec![progress.abort.into(), option.into()])
    };
    if progress.abort == "bisect" || !has_changes(repository) {
        return Err(stop(why).next(to_type("git -C {} {}", &[top, abort()])));
    }
    // What tools have written since would go with it.
    let aside = free(&repository.git_dir.join("beads.mine"));
    let parts = [
        Part::Path(&repository.request.dir),
        Part::Path(&aside),
        top.clone(),
        Part::Words(vec![repository.typed()]),
        top,
        abort(),
    ];
    let why = format!(
        "{why}; what was written to the database meanwhile is in {} then",
        crate::escaped_path(&aside)
    );
    let command = to_type(
        "cp -pR {} {} && git -C {} checkout -q HEAD -- {} && git -C {} {}",
        &parts,
    );
    Err(stop(why).next(command))
}

fn find(repository: &Repository) -> Result<Option<Progress>, SyncStop> {
    let dir = &repository.git_dir;
    let is_there = |name: &str| fs::symlink_metadata(dir.join(name)).is_ok();
    let mut found = IN_PROGRESS.iter().find(|(name, _)| is_there(name));
    if found.is_none() && repository.common_dir.join("reftable").is_dir() {
        // There these are not files.
        for entry in IN_PROGRESS
            .iter()
            .filter(|(name, _)| name.ends_with("_HEAD"))
        {
            let verified = repository
                .git
                .call(["rev-parse", "-q", "--verify", entry.0])
                .run()?;
            found = found.or_else(|| verified.status.success().then_some(entry));
        }
    }
    Ok(found.map(|(name, what)| named(dir, name, what)))
}

fn named(dir: &Path, name: &str, what: &'static str) -> Progress {
    let (what, since, abort) = match name {
        "rebase-apply" if dir.join(name).join("applying").exists() => {
            ("git am", "rebase-apply/applying", "am")
        }
        "rebase-merge" => (what, "rebase-merge/orig-head", "rebase"),
        "rebase-apply" => (what, "rebase-apply/orig-head", "rebase"),
        "MERGE_HEAD" => (what, name, "merge"),
        "CHERRY_PICK_HEAD" => (what, name, "cherry-pick"),
        "REVERT_HEAD" => (what, name, "revert"),
        "BISECT_LOG" => (what, "BISECT_START", "bisect"),
        _ => {
            // Several commits, of which the next was not begun.
            let todo = fs::read_to_string(dir.join("sequencer/todo")).unwrap_or_default();
            let is_revert = todo.trim_start().starts_with("revert");
            let what = if is_revert { "a revert" } else { what };
            let abort = if is_revert { "revert" } else { "cherry-pick" };
            (what, "sequencer/head", abort)
        }
    };
    let begun = dir.join(since);
    let since = if begun.exists() {
        begun
    } else {
        dir.join(name)
    };
    Progress { what, since, abort }
}

/// Whether a tracked file of the database is not as the last commit has it.
fn has_changes(repository: &Repository) -> bool {
    let diff = repository.git.call(["diff", "--quiet", "HEAD", "--"]);
    let asked = diff.paths([repository.inside()]).run();
    asked.is_ok_and(|answer| !answer.status.success())
}

/// A path where nothing is: this one, or the first with a number behind it.
pub fn free(path: &Path) -> PathBuf {
    let numbered = (2..100).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    });
    let mut names = std::iter::once(path.to_owned()).chain(numbered);
    let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    names.find(is_free).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequencer_tells_a_revert_from_a_cherry_pick() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("sequencer")).unwrap();
        for (todo, what, abort) in [
            ("pick 1 x\n", "a cherry-pick", "cherry-pick"),
            ("revert 1 x\n", "a revert", "revert"),
        ] {
            fs::write(top.path().join("sequencer/todo"), todo).unwrap();
            let found = named(top.path(), "sequencer", "a cherry-pick");
            assert_eq!((found.what, found.abort), (what, abort));
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("x.mine");
        assert_eq!(free(&path), path);
        fs::write(&path, "").unwrap();
        assert_eq!(free(&path), top.path().join("x.mine.2"));
    }
}
