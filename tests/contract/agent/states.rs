//! The states and the notices of the git action, by real repositories.

use std::fmt::Write as _;

use beadlock_tests::{skip, tool};

use super::git::{Repositories, in_here, shown_with_commits};
use super::{at_once, events, pin_all, section};
use crate::answer::whole;

/// A name, what a person has done in `here` before, and what is typed there.
type Row = (&'static str, &'static str, &'static str);

const ONCE: &str = "beadlock-agent --once";

/// Something to commit.
macro_rules! changed {
    ($($script:literal)?) => {
        concat!("echo '{\"id\":\"bd-2\"}' >>.beads/issues.jsonl;", $($script)?)
    };
}

/// Pins what each line says after its script, with the log; and for scripts, what all of them came to.
#[track_caller]
fn play(room: &str, rows: &[Row]) {
    let repositories = Repositories::make();
    let one = |(name, script, line): &Row| {
        let setting = repositories.after(script).given(*line);
        let ended = in_here(&setting, line);
        let mut text = whole(line, &ended);
        let mut row = format!("{name}: exit {}:", ended.code);
        for name in [
            "here/.beads/daemon.log",
            "here/.git/.beads/daemon.log",
            "tree/.beads/daemon.log",
        ] {
            let log = setting.scene.read(name);
            section(&mut text, name, &log);
            let others = ["header", "agent_started", "agent_stopped", "output"];
            let words = events(&log)
                .into_iter()
                .filter(|word| !others.contains(&word.as_str()));
            words.for_each(|word| row += &format!(" {word}"));
        }
        (shown_with_commits(&text, &setting), row)
    };
    let (mut texts, table): (Vec<_>, Vec<_>) = at_once(rows, one).into_iter().unzip();
    texts.push(table.into_iter().fold(String::new(), |mut text, row| {
        let _ = writeln!(text, "{row}");
        text
    }));
    pin_all(
        room,
        rows.iter()
            .map(|(name, ..)| *name)
            .chain(["contract-events"]),
        &texts,
    );
}

#[test]
fn synced() {
    let Some(_) = tool("git") else { return };
    play(
        "agent/states/synced",
        &[
            ("nothing-to-do", "", ONCE),
            ("pushed", changed!("echo x >.beads/more.jsonl"), ONCE),
            (
                "pushed-json",
                changed!(),
                "beadlock-agent --once --log-format json",
            ),
            ("pulled", "there 'echo x >src/x.rs'", ONCE),
            (
                "pulled-and-pushed",
                "echo x >.beads/more.jsonl; there 'echo x >>.beads/issues.jsonl'",
                ONCE,
            ),
            (
                "database-is-ignored",
                "git rm -rq --cached .beads; echo .beads >.gitignore; git add .; git commit -qm mine; git push -q; echo x >.beads/more.jsonl",
                ONCE,
            ),
            ("sqlite-is-left-out", "sqlite .beads/beads.db", ONCE),
            (
                "repository-in-the-database",
                changed!("git init -q --template= .beads/sub; echo x >.beads/sub/x"),
                ONCE,
            ),
            (
                "hooks-speak",
                changed!(
                    "hook .git/hooks/pre-commit 'echo looked'; hook .git/hooks/post-commit 'echo thanks >&2'"
                ),
                ONCE,
            ),
            (
                "linked-worktree-allowed",
                "git worktree add -q -b side ../tree; git -C ../tree push -qu origin side; echo x >../tree/.beads/more.jsonl",
                "beadlock-agent --once --db ../tree/.beads --allow-worktree",
            ),
            (
                "log-level-debug",
                changed!(),
                "beadlock-agent --once --jobs 7 --log-level debug 2>&1 | sed -n 's/.*\\(git step=.*\\) took=.*/\\1/p; s/ report=Some.*//; s/.*\\(work ended.*\\) took=.*/\\1/p'",
            ),
        ],
    );
}

/// Where there is no repository, or one that is not used.
#[test]
fn without_a_repository() {
    let Some(_) = tool("git") else { return };
    play(
        "agent/states/repository",
        &[
            ("no-repository", "rm -rf .git", ONCE),
            (
                "no-repository-json",
                "rm -rf .git",
                "beadlock-agent --once --log-format json",
            ),
            (
                "no-working-tree",
                "mkdir .git/.beads; echo x >.git/.beads/x.jsonl",
                "beadlock-agent --once --db .git/.beads",
            ),
            ("bare", "rm -rf .git; mv ../remote.git/* .", ONCE),
            ("of-its-own", "git init -q --template= .beads", ONCE),
            (
                "embedded",
                "mkdir .beads/objects .beads/refs; echo x >.beads/HEAD",
                ONCE,
            ),
            (
                "working-tree-elsewhere",
                "git config core.worktree ../..",
                ONCE,
            ),
            (
                "linked-worktree",
                "git worktree add -q -b side ../tree",
                "beadlock-agent --once --db ../tree/.beads",
            ),
            ("broken-configuration", "echo '[' >>.git/config", ONCE),
            (
                "no-program-git",
                "",
                "PATH=$(dirname \"$(command -v beadlock-agent)\") beadlock-agent --once",
            ),
        ],
    );
}

/// Where a person has to go on, or to end something.
#[test]
fn in_the_middle() {
    let Some(_) = tool("git") else { return };
    play(
        "agent/states/middle",
        &[
            ("detached-head", changed!("git checkout -q --detach"), ONCE),
            ("no-commit", "git checkout -q --orphan side", ONCE),
            ("nothing-checked-out", "rm .git/index", ONCE),
            (
                "merge",
                "git switch -qc side; echo side >src/y.rs; git commit -qam mine; git switch -q main; git merge -q --no-ff --no-commit side",
                ONCE,
            ),
            ("rebase", "mkdir .git/rebase-merge", ONCE),
            (
                "cherry-pick",
                "cp .git/refs/heads/main .git/CHERRY_PICK_HEAD",
                ONCE,
            ),
            ("revert", "cp .git/refs/heads/main .git/REVERT_HEAD", ONCE),
            ("bisect", "git bisect start >/dev/null", ONCE),
            ("sequencer", "mkdir .git/sequencer", ONCE),
            (
                "unmerged",
                "echo side >src/y.rs; git stash -q; echo main >src/y.rs; git commit -qam mine; git push -q; git stash pop -q || true; git stash drop -q",
                ONCE,
            ),
            ("index-lock-old", "touch .git/index.lock", ONCE),
            (
                "index-lock-new",
                "",
                "touch .git/index.lock; beadlock-agent --once",
            ),
        ],
    );
}

/// What must not be tracked.
#[test]
fn tracked() {
    let Some(_) = tool("git") else { return };
    let by_mistake = |file: &'static str| -> &'static str {
        format!("echo x >.beads/{file}; git add -f .beads/{file}; git commit -qm mine; git push -q; rm .beads/{file}")
            .leak()
    };
    play(
        "agent/states/tracked",
        &[
            ("lock", by_mistake(".exclusive-lock"), ONCE),
            ("log", by_mistake("daemon.log"), ONCE),
            ("redirect", by_mistake("redirect"), ONCE),
            ("sqlite-beside", by_mistake("beads.db-wal"), ONCE),
            (
                "several",
                "for file in daemon.pid daemon.lock bd.sock x.db-wal; do echo x >.beads/$file; done; git add -f .beads",
                ONCE,
            ),
            (
                "sqlite",
                "sqlite .beads/beads.db; git add -f .beads; git commit -qm mine; git push -q",
                ONCE,
            ),
            (
                "sqlite-by-a-hook",
                changed!(
                    "hook .git/hooks/pre-commit \"printf 'SQLite format 3\\\\0' >.beads/issues.jsonl; git add .beads/issues.jsonl\""
                ),
                ONCE,
            ),
            (
                "lock-upstream",
                "there 'echo x >.beads/.exclusive-lock'",
                ONCE,
            ),
            ("redirect-upstream", "there 'echo x >.beads/redirect'", ONCE),
            ("sqlite-upstream", "there 'sqlite .beads/beads.db'", ONCE),
            (
                "link-upstream",
                "there 'git rm -rq .beads; ln -s src .beads'",
                ONCE,
            ),
            (
                "embedded-upstream",
                "there 'mkdir .beads/objects .beads/refs; echo x | tee .beads/HEAD .beads/objects/x >.beads/refs/x'",
                ONCE,
            ),
        ],
    );
}

/// Where nothing is pushed, or cannot be.
#[test]
fn local_only() {
    let Some(_) = tool("git") else { return };
    play(
        "agent/states/local_only",
        &[
            ("no-remote", "git remote remove origin", ONCE),
            (
                "no-remote-waiting",
                changed!("git remote remove origin"),
                ONCE,
            ),
            (
                "no-upstream",
                changed!("git branch -q --unset-upstream"),
                ONCE,
            ),
            (
                "no-upstream-odd-branch",
                "git update-ref refs/heads/-x HEAD; git symbolic-ref HEAD refs/heads/-x",
                ONCE,
            ),
            (
                "commit-of-a-person",
                changed!("echo x >>src/x.rs; git commit -qm mine src"),
                ONCE,
            ),
            (
                "commits-of-a-person",
                "echo x >>src/x.rs; git commit -qam mine; echo x >>src/y.rs; git commit -qam mine",
                ONCE,
            ),
            (
                "branch-gone-upstream",
                changed!("git -C ../remote.git update-ref -d refs/heads/main"),
                ONCE,
            ),
            (
                "push-refused",
                changed!(
                    "hook ../remote.git/hooks/pre-receive 'echo no pushes on a Friday >&2; exit 1'"
                ),
                ONCE,
            ),
            (
                "push-refused-json",
                changed!("hook ../remote.git/hooks/pre-receive 'exit 1'"),
                "beadlock-agent --once --log-format json",
            ),
            (
                "cannot-push",
                changed!("git config remote.origin.pushurl ../nowhere.git"),
                ONCE,
            ),
            (
                "cannot-reach-waiting",
                changed!("mv ../remote.git ../away.git"),
                ONCE,
            ),
            (
                "others-are-faster",
                changed!(
                    "there 'echo x >>src/y.rs'; hook .git/hooks/pre-push 'unset $(git rev-parse --local-env-vars); cd ../there; git commit -q --allow-empty -m theirs; git push -q'"
                ),
                ONCE,
            ),
            (
                "uncommitted-changes-waiting",
                changed!("echo x >>src/x.rs; there 'echo x >src/y.rs'"),
                ONCE,
            ),
        ],
    );
}

/// Where nothing is pulled, or cannot be.
#[test]
fn behind() {
    let Some(_) = tool("git") else { return };
    const LOCK: &str = "mkdir -p b/.beads; echo x >b/.beads/x.jsonl; git add b; git commit -qm mine; git push -q; there 'echo y >b/.beads/x.jsonl'";
    let held = format!("{LOCK}; printf '{{\"holder\":\"release-job\",\"pid\":4711,\"hostname\":\"build-7\",\"started_at\":\"2026-01-02T03:04:05Z\"}}' >b/.beads/.exclusive-lock").leak();
    play(
        "agent/states/behind",
        &[
            ("cannot-reach", "mv ../remote.git ../away.git", ONCE),
            (
                "uncommitted-changes",
                "echo x >>src/x.rs; there 'echo x >src/y.rs'",
                ONCE,
            ),
            (
                "untracked-file-in-the-way",
                "echo mine >new; there 'echo theirs >new'",
                ONCE,
            ),
            (
                "other-database-in-the-way",
                format!("{LOCK}; echo z >b/.beads/x.jsonl").leak(),
                ONCE,
            ),
            ("other-database-is-held", held, ONCE),
            (
                "merge-ahead",
                "git switch -qc side; echo x >.beads/side.jsonl; git add .; git commit -qm mine; git switch -q main; git merge -q --no-ff -m mine side; there 'echo x >src/y.rs'",
                ONCE,
            ),
            (
                "signed-ahead",
                "echo x >.beads/x.jsonl; git add .; git commit -qm mine; git reset -q --soft $(git cat-file commit HEAD | sed 's/^committer.*/&\\ngpgsig x/' | git hash-object -t commit -w --stdin); there 'echo x >src/y.rs'",
                ONCE,
            ),
        ],
    );
}

#[test]
fn failed() {
    let Some(_) = tool("git") else { return };
    play(
        "agent/states/failed",
        &[
            (
                "conflict",
                "echo here >.beads/issues.jsonl; there 'echo there >.beads/issues.jsonl'",
                ONCE,
            ),
            (
                "rewritten",
                "git commit -q --allow-empty -m mine; git push -q; git -C ../there pull -q; git -C ../there commit -q --amend --allow-empty -m theirs; git -C ../there push -qf; echo x >.beads/x.jsonl",
                ONCE,
            ),
            (
                "unrelated",
                "cd ../there; git checkout -q --orphan side; git commit -qm theirs; git push -qf origin side:main; cd ../here; echo x >.beads/x.jsonl",
                ONCE,
            ),
            (
                "hook-pre-commit",
                changed!("hook .git/hooks/pre-commit 'echo not today >&2; exit 1'"),
                ONCE,
            ),
            (
                "hook-commit-msg",
                changed!("hook .git/hooks/commit-msg 'cat $1; exit 1'"),
                ONCE,
            ),
            (
                "hook-pre-rebase",
                changed!("there 'echo x >src/y.rs'; hook .git/hooks/pre-rebase 'exit 3'"),
                ONCE,
            ),
            (
                "hook-adds",
                changed!("hook .git/hooks/pre-commit 'git add -f src/new'; echo x >src/new"),
                ONCE,
            ),
            (
                "claimed-meanwhile",
                changed!("hook .git/hooks/pre-commit 'echo x >.beads/.exclusive-lock'"),
                ONCE,
            ),
            (
                "switched-meanwhile",
                changed!(
                    "hook .git/hooks/pre-commit 'git symbolic-ref HEAD refs/heads/side'; git branch side"
                ),
                ONCE,
            ),
            (
                "moved-meanwhile",
                changed!(
                    "hook .git/hooks/pre-commit 'unset GIT_INDEX_FILE; git commit -q --no-verify --allow-empty -m mine'"
                ),
                ONCE,
            ),
            (
                "too-slow",
                changed!("hook .git/hooks/pre-commit 'exec sleep 60'"),
                "beadlock-agent --once --cycle-timeout 500ms",
            ),
            (
                "no-identity",
                changed!("git config user.useConfigOnly true"),
                "for role in AUTHOR COMMITTER; do unset GIT_${role}_NAME GIT_${role}_EMAIL; done; beadlock-agent --once",
            ),
        ],
    );
}

/// The repository around a database, and git's directory, that another user owns.
#[test]
fn of_another_user() {
    let Some(_) = tool("git") else { return };
    if !skip::may_be_root() {
        return skip::cannot("only root can give a directory away");
    }
    play(
        "agent/states/owner",
        &[
            ("git-directory", "chown 54321 .git", ONCE),
            (
                "working-tree",
                "mkdir sub; mv .beads sub; chown 54321 .",
                "beadlock-agent --once --db sub/.beads",
            ),
        ],
    );
}
