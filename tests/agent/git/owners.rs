//! Root runs nothing of another user's repository: the owners of its top, of its git directory and of the directory
//! that worktrees share are checked before git does anything that could start a program.

use std::path::{Path, PathBuf};

use beadlock_tests::{Ended, run, skip};

use crate::bench::{Bench, script, stops_when_naive, write};

/// A user that does not exist.
const STRANGER: u32 = 54_321;

/// Every hook that a sync could start.
const HOOKS: &[&str] = &[
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-index-change",
    "reference-transaction",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
];

/// A database in a directory of root's, in a repository with a program in every place where git could start one.
/// This git trusts every directory, as in many images for CI.
struct Trapped {
    bench: Bench,
    database: PathBuf,
}

impl Trapped {
    fn new() -> Self {
        let bench = Bench::new();
        write(&bench.path().join(".gitconfig"), TRUSTING);
        let database = bench.here().join("pkg/.beads");
        bench.write("pkg/.beads/issues.jsonl", "{}\n");
        bench.write(".gitattributes", "*.jsonl filter=trap\n");
        bench.shell("git add pkg .gitattributes; git commit -qm pkg; git push -q");
        bench.write("pkg/.beads/mine.jsonl", "{}\n");
        bench.pushed_there(&[("src/x.rs", "theirs\n")]);
        let trap = bench.trap("trap", "cat");
        for hook in HOOKS {
            script(
                &bench.here().join(".git/hooks").join(hook),
                &format!("'{trap}' {hook} </dev/null"),
            );
        }
        for (name, value) in [
            ("core.fsmonitor", trap.clone()),
            ("core.sshCommand", format!("'{trap}' ssh")),
            ("filter.trap.clean", format!("'{trap}' clean")),
            ("filter.trap.smudge", format!("'{trap}' smudge")),
        ] {
            bench.git(bench.here(), &["config", name, &value]);
        }
        Self { bench, database }
    }

    /// One cycle of root's.
    fn once(&self, options: &[&str]) -> Ended {
        let mut agent = self
            .bench
            .scene()
            .agent(&["--once", "--action", "git", "--db"]);
        agent
            .arg(&self.database)
            .args(options)
            .env("SUDO_UID", STRANGER.to_string());
        let log = self.bench.path().join("log");
        agent.arg("--log-file").arg(&log);
        let _ = std::fs::write(&log, "");
        let mut ended = Ended::from(run(agent));
        ended
            .err
            .push_str(&std::fs::read_to_string(log).unwrap_or_default());
        ended
    }

    #[track_caller]
    fn is_refused(&self, dir: &Path, case: &str) {
        let before = self.bench.called("trap");
        let ended = self.once(&["--allow-worktree"]);
        assert_eq!(
            self.bench.called("trap"),
            before,
            "harm, {case}: root ran another user's program\n{}",
            ended.err
        );
        assert_eq!(ended.code, 1, "{case}: {ended:?}");
        // Of the top, which is above the database, the agent says it before the sync can.
        let line = format!("{} belongs to uid {STRANGER}, and ", dir.display());
        let lines = ended.err.lines().filter(|said| {
            said.contains(&line) && !said.contains("] State: ") && !said.contains(": failed: ")
        });
        assert_eq!(
            lines.count(),
            1,
            "{case}: one clear line: {line}\n{}",
            ended.err
        );
        assert!(
            ended.err.contains("--allow-foreign-owner"),
            "{case}: what to type\n{}",
            ended.err
        );
        assert!(
            !self.bench.remote_has("pkg/.beads/mine.jsonl"),
            "harm, {case}: it was pushed"
        );
    }
}

const TRUSTING: &str = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n";

fn give(path: &Path, to: u32) {
    std::os::unix::fs::chown(path, Some(to), None)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[test]
fn root_runs_nothing_in_a_repository_of_another_user() {
    if stops_when_naive() || !skip::root() {
        return;
    }
    let trapped = Trapped::new();
    let here = std::fs::canonicalize(trapped.bench.here()).expect("the clone");
    let git = here.join(".git");
    give(&here, STRANGER);
    trapped.is_refused(&here, "the top");
    give(&here, 0);
    give(&git, STRANGER);
    trapped.is_refused(&git, "the git directory");
    give(&here, STRANGER);
    trapped.is_refused(&here, "both");
    let ended = trapped.once(&["--allow-foreign-owner"]);
    assert_eq!(ended.code, 0, "waived: {ended:?}");
    assert!(
        trapped.bench.called("trap") >= HOOKS.len() / 2,
        "the control: these are programs that a sync starts"
    );
    assert!(
        trapped.bench.remote_has("pkg/.beads/mine.jsonl"),
        "{}",
        ended.err
    );
}

/// What all worktrees share may be another user's, too.
#[test]
fn root_runs_nothing_in_a_worktree_of_another_users_repository() {
    if stops_when_naive() || !skip::root() {
        return;
    }
    let mut trapped = Trapped::new();
    let bench = &trapped.bench;
    let tree = bench.path().join("tree");
    bench.git(
        bench.here(),
        &[
            "worktree",
            "add",
            "--quiet",
            "-b",
            "side",
            &tree.to_string_lossy(),
        ],
    );
    std::fs::remove_file(bench.path().join("trap.called"))
        .expect("the control: git has run the programs");
    let git = std::fs::canonicalize(bench.here().join(".git")).expect("the git directory");
    write(&tree.join("pkg/.beads/mine.jsonl"), "{}\n");
    give(&git, STRANGER);
    trapped.database = tree.join("pkg/.beads");
    trapped.is_refused(&git, "the directory that worktrees share");
    give(&git, 0);
    let ended = trapped.once(&["--allow-worktree"]);
    assert_eq!(ended.code, 1, "a branch without an upstream: {ended:?}");
    assert!(
        trapped.bench.called("trap") > 0,
        "the control: these are programs that a sync starts"
    );
}
