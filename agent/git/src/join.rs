//! The agent's merges. Where the place is not the upstream, a commit that is at the place is never made anew: so the
//! upstream is merged, and the next push needs no force.

use crate::merge::{self, Trees};
use crate::rebase::merge_commit;
use crate::{Part, escaped, kept, to_type};
use beadlock_repository::{GitReason, HindranceKind, Repository, SyncStop, Upstream};

/// How the message of such a merge begins.
const MESSAGE: &str = "chore: merge ";

/// Makes the merge of `theirs`, the commit of `from`, into `ours`. It is the same object in every cycle, until it is
/// the branch's.
pub(crate) fn join(
    repository: &Repository,
    ours: &str,
    from: &Upstream,
    theirs: &str,
) -> Result<String, SyncStop> {
    let (git, name) = (&repository.git, from.name());
    let Some(base) = git.call(["merge-base", ours, theirs]).run()?.ok_text() else {
        let why = format!("the place of the branch and {name} have no commit in common");
        return Err(SyncStop::failed(GitReason::Unrelated, why));
    };
    let trees = Trees {
        parent: &base,
        onto: theirs,
        ours,
    };
    match merge::merge(repository, &trees)? {
        Ok(merged) => {
            for file in &merged.files {
                kept::keep_file(repository, file)?;
            }
            merge_commit(
                git,
                &merged.tree,
                [ours, theirs],
                &format!("{MESSAGE}{}\n", escaped(name)),
            )
        }
        Err(conflicts) => {
            let why = format!(
                "{name} and the place of the branch have changed the same lines ({conflicts}); nothing was changed"
            );
            let top = Part::Path(&git.dir);
            let there = Part::Words(vec![from.remote.clone().into(), from.branch.clone().into()]);
            let command = to_type("git -C {} pull --no-rebase --no-edit {}", &[top, there]);
            Err(SyncStop::refused(HindranceKind::Failed, GitReason::Conflict, why).next(command))
        }
    }
}

/// Whether a commit is a merge of the agent: one that changes nothing outside of databases but what both sides bring.
pub(crate) fn is_join(repository: &Repository, commit: &str) -> Result<bool, SyncStop> {
    let git = &repository.git;
    let format = [
        "rev-list",
        "--no-walk",
        "--no-commit-header",
        "--format=%P%n%s",
        commit,
    ];
    let said = git.text(format)?;
    let (parents, subject) = said.split_once('\n').unwrap_or((&said, ""));
    let &[ours, theirs] = parents.split(' ').collect::<Vec<_>>().as_slice() else {
        return Ok(false);
    };
    if !subject.starts_with(MESSAGE) {
        return Ok(false);
    }
    let args = [
        "merge-tree",
        "--write-tree",
        "--name-only",
        "--no-messages",
        "-z",
    ];
    let merged = git.call(args.into_iter().chain([ours, theirs])).run()?;
    let tree = merged
        .stdout
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let tree = String::from_utf8_lossy(tree).into_owned();
    if !matches!(merged.status.code(), Some(0 | 1)) || tree.is_empty() {
        return Ok(false);
    }
    let Some(outside) = repository.outside() else {
        return Ok(true);
    };
    let differing = git.call([
        "diff-tree",
        "-r",
        "-z",
        "--name-only",
        "--no-renames",
        &tree,
        commit,
        "--",
    ]);
    Ok(differing.paths(outside).words()?.is_empty())
}
