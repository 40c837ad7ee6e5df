//! Whatever a person has configured, or exported: syncing is the same, and nothing of it is called that waits for
//! somebody, or that nobody asked for.

use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};

use crate::bench::{Bench, each, is_naive, stops_when_naive};
use crate::snapshot::Allowed;

/// Settings that go together; `TRAP` is a program that leaves a mark and hangs.
const SETTINGS: &[(&str, &[(&str, &str)])] = &[
    (
        "pull",
        &[
            ("pull.rebase", "false"),
            ("pull.ff", "only"),
            ("branch.main.rebase", "interactive"),
        ],
    ),
    (
        "pull merges",
        &[
            ("pull.rebase", "merges"),
            ("merge.ff", "false"),
            ("merge.commit", "no"),
        ],
    ),
    (
        "rebase",
        &[
            ("rebase.autoStash", "true"),
            ("rebase.autoSquash", "true"),
            ("rebase.updateRefs", "true"),
            ("rebase.missingCommitsCheck", "error"),
            ("rebase.backend", "apply"),
            ("merge.autoStash", "true"),
        ],
    ),
    (
        "push the current branch",
        &[("push.default", "current"), ("push.followTags", "true")],
    ),
    (
        "push matching",
        &[
            ("push.default", "matching"),
            ("push.autoSetupRemote", "true"),
        ],
    ),
    (
        "push signed",
        &[
            ("push.gpgSign", "if-asked"),
            ("push.recurseSubmodules", "check"),
            ("push.useForceIfIncludes", "true"),
        ],
    ),
    (
        "words",
        &[
            ("color.ui", "always"),
            ("core.quotePath", "false"),
            ("status.short", "true"),
            ("status.branch", "true"),
            ("status.relativePaths", "true"),
            ("status.showUntrackedFiles", "no"),
            ("status.renames", "copies"),
            ("log.showSignature", "true"),
            ("log.date", "human"),
            ("format.pretty", "oneline"),
            ("core.abbrev", "4"),
            ("diff.noprefix", "true"),
            ("diff.renames", "copies"),
            ("diff.ignoreSubmodules", "all"),
            ("diff.orderFile", "/no/such/file"),
            ("column.ui", "always"),
        ],
    ),
    (
        "commit",
        &[
            ("commit.template", "/no/such/template"),
            ("commit.verbose", "true"),
            ("commit.cleanup", "scissors"),
            ("commit.status", "false"),
            ("core.commentChar", "S"),
            ("trailer.x.key", "Signed-off-by"),
            ("format.signOff", "true"),
        ],
    ),
    (
        "programs",
        &[
            ("core.editor", "TRAP"),
            ("sequence.editor", "TRAP"),
            ("core.pager", "TRAP"),
            ("diff.external", "TRAP"),
            ("diff.trustExitCode", "true"),
            ("merge.tool", "TRAP"),
            ("core.askPass", "TRAP"),
            ("credential.helper", "TRAP"),
            ("interactive.diffFilter", "TRAP"),
            ("core.fsmonitor", "TRAP"),
            ("core.alternateRefsCommand", "TRAP"),
            ("pager.diff", "TRAP"),
            ("pager.status", "TRAP"),
            ("pager.log", "TRAP"),
        ],
    ),
    (
        "aliases",
        &[
            ("alias.commit", "!TRAP"),
            ("alias.status", "!TRAP"),
            ("alias.fetch", "!TRAP"),
            ("alias.push", "!TRAP"),
            ("alias.merge-tree", "!TRAP"),
        ],
    ),
    (
        "upkeep",
        &[
            ("gc.auto", "1"),
            ("gc.autoDetach", "false"),
            ("maintenance.auto", "true"),
            ("gc.pruneExpire", "now"),
            ("maintenance.strategy", "incremental"),
        ],
    ),
    (
        "line ends",
        &[("core.autocrlf", "true"), ("core.safecrlf", "warn")],
    ),
    (
        "line ends, input",
        &[("core.autocrlf", "input"), ("core.eol", "crlf")],
    ),
    (
        "index",
        &[
            ("core.untrackedCache", "true"),
            ("core.splitIndex", "true"),
            ("feature.manyFiles", "true"),
            ("index.version", "4"),
            ("index.skipHash", "true"),
            ("core.preloadIndex", "true"),
            ("index.threads", "4"),
        ],
    ),
    (
        "files",
        &[
            ("core.fileMode", "false"),
            ("core.trustctime", "false"),
            ("core.checkStat", "minimal"),
            ("core.ignoreCase", "true"),
        ],
    ),
    (
        "fetch",
        &[
            ("fetch.prune", "true"),
            ("fetch.pruneTags", "true"),
            ("fetch.recurseSubmodules", "true"),
            ("submodule.recurse", "true"),
            ("fetch.output", "compact"),
            ("fetch.writeCommitGraph", "true"),
            ("fetch.parallel", "0"),
            ("remote.origin.tagOpt", "--tags"),
            ("fetch.fsckObjects", "true"),
            ("transfer.fsckObjects", "true"),
        ],
    ),
    (
        "refs",
        &[
            ("core.logAllRefUpdates", "false"),
            ("core.preferSymlinkRefs", "false"),
            ("core.warnAmbiguousRefs", "true"),
        ],
    ),
    (
        "merge",
        &[
            ("merge.conflictStyle", "zdiff3"),
            ("merge.renames", "false"),
            ("merge.directoryRenames", "true"),
            ("merge.verbosity", "5"),
            ("rerere.enabled", "true"),
            ("rerere.autoUpdate", "true"),
        ],
    ),
    (
        "worktrees",
        &[
            ("extensions.worktreeConfig", "true"),
            ("checkout.workers", "4"),
            ("checkout.thresholdForParallelism", "1"),
            ("checkout.defaultRemote", "x"),
        ],
    ),
    (
        "advice and attributes",
        &[
            ("advice.statusHints", "false"),
            ("core.attributesFile", "/no/such"),
            ("core.excludesFile", "/no/such"),
            ("core.whitespace", "error"),
            ("apply.whitespace", "error"),
        ],
    ),
];

#[test]
fn configuration_does_not_matter() {
    each(
        SETTINGS,
        |row| row.0.to_owned(),
        |(name, settings)| {
            let bench = Bench::new();
            let trap = bench.trap("trap", "exec sleep 300");
            bench.pushed_there(&[("src/theirs.rs", "one\ntwo\n")]);
            bench.tempt();
            for (key, value) in *settings {
                bench.git(
                    bench.here(),
                    &["config", key, &value.replace("TRAP", &trap)],
                );
            }
            let untouched = ["src/x.rs", "src/y.rs", "README"].map(|path| bench.read(path));
            let ended =
                Running::start(bench.agent(&["--once", "--cycle-timeout", "10s"])).finish(PATIENCE);
            assert_eq!(
                bench.called("trap"),
                0,
                "harm: a trap was called, {name}\n{}",
                bench.log()
            );
            assert_eq!(
                ["src/x.rs", "src/y.rs", "README"].map(|path| bench.read(path)),
                untouched,
                "harm"
            );
            if stops_when_naive() {
                return;
            }
            assert_eq!(ended.status.code(), Some(0), "{}", bench.log());
            // The person's own git is asked below; line ends are as they were made.
            for (key, _) in settings.iter().filter(|(key, _)| *key != "core.autocrlf") {
                bench.git(bench.here(), &["config", "--unset-all", key]);
            }
            bench.is_synced(name);
            assert!(bench.remote_has(".beads/mine.jsonl"), "{}", bench.log());
            assert!(
                bench.here().join(".beads/theirs.jsonl").exists(),
                "{}",
                bench.log()
            );
            let log = bench.log();
            assert!(!log.contains('\u{1b}'), "colours in the log\n{log}");
            let changed = bench.git(bench.here(), &["show", "--format=", "--name-only", "HEAD"]);
            assert_eq!(changed, ".beads/mine.jsonl");
        },
    );
}

/// Of the agent's own environment: none of it leads it to another repository, index or program.
#[test]
fn the_environment_does_not_mislead() {
    const ROWS: &[(&str, &[(&str, &str)])] = &[
        (
            "another repository",
            &[
                ("GIT_DIR", "ELSEWHERE/.git"),
                ("GIT_WORK_TREE", "ELSEWHERE"),
            ],
        ),
        (
            "another index",
            &[("GIT_INDEX_FILE", "ELSEWHERE/.git/index")],
        ),
        (
            "other objects",
            &[
                ("GIT_OBJECT_DIRECTORY", "ELSEWHERE/.git/objects"),
                ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "ELSEWHERE"),
            ],
        ),
        (
            "a common directory",
            &[("GIT_COMMON_DIR", "ELSEWHERE/.git"), ("GIT_NAMESPACE", "x")],
        ),
        (
            "a prefix",
            &[("GIT_PREFIX", "src/"), ("GIT_INTERNAL_SUPER_PREFIX", "x/")],
        ),
        ("pathspecs", &[("GIT_LITERAL_PATHSPECS", "1")]),
        (
            "pathspecs, globbed",
            &[("GIT_GLOB_PATHSPECS", "1"), ("GIT_ICASE_PATHSPECS", "1")],
        ),
        (
            "programs",
            &[
                ("GIT_EDITOR", "TRAP"),
                ("GIT_SEQUENCE_EDITOR", "TRAP"),
                ("EDITOR", "TRAP"),
                ("VISUAL", "TRAP"),
                ("GIT_PAGER", "TRAP"),
                ("PAGER", "TRAP"),
                ("GIT_ASKPASS", "TRAP"),
                ("SSH_ASKPASS", "TRAP"),
                ("GIT_EXTERNAL_DIFF", "TRAP"),
            ],
        ),
        (
            "configuration",
            &[
                ("GIT_CONFIG_COUNT", "1"),
                ("GIT_CONFIG_KEY_0", "core.worktree"),
                ("GIT_CONFIG_VALUE_0", "ELSEWHERE"),
            ],
        ),
        (
            "parameters",
            &[("GIT_CONFIG_PARAMETERS", "'core.bare=true'")],
        ),
        (
            "talk",
            &[
                ("GIT_TRACE", "1"),
                ("GIT_TRACE_SETUP", "1"),
                ("GIT_CURL_VERBOSE", "1"),
                ("GIT_FLUSH", "1"),
            ],
        ),
        ("ceilings", &[("GIT_CEILING_DIRECTORIES", "TOP")]),
        (
            "a language",
            &[
                ("LANG", "de_DE.UTF-8"),
                ("LC_ALL", "de_DE.UTF-8"),
                ("LANGUAGE", "de"),
            ],
        ),
        (
            "quarantine",
            &[
                ("GIT_QUARANTINE_PATH", "x"),
                ("GIT_NO_REPLACE_OBJECTS", "1"),
                ("GIT_REFLOG_ACTION", "x"),
            ],
        ),
        (
            "dates",
            &[
                ("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z"),
                ("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z"),
            ],
        ),
    ];
    each(
        ROWS,
        |row| row.0.to_owned(),
        |(name, variables)| {
            let mut bench = Bench::new();
            let trap = bench.trap("trap", "exec sleep 300");
            let elsewhere = bench.path().join("elsewhere");
            bench.git(
                bench.path(),
                &["clone", "--quiet", "remote.git", "elsewhere"],
            );
            crate::bench::write(&elsewhere.join("src/x.rs"), "uncommitted\n");
            crate::bench::write(&elsewhere.join(".beads/issues.jsonl"), "uncommitted\n");
            let snapshot =
                || crate::snapshot::Snapshot::take(&elsewhere, String::new(), String::new());
            let before = snapshot();
            bench.tempt();
            for (key, value) in *variables {
                let value = value
                    .replace("TRAP", &trap)
                    .replace("ELSEWHERE", &elsewhere.to_string_lossy());
                let value = value.replace("TOP", &bench.path().to_string_lossy());
                bench.environment.push(((*key).to_owned(), value));
            }
            let ended =
                Running::start(bench.agent(&["--once", "--cycle-timeout", "10s"])).finish(PATIENCE);
            let differences = before.differences(&snapshot(), Allowed::Nothing);
            assert!(
                differences.is_empty(),
                "harm, elsewhere: {differences:#?}\n{}",
                bench.log()
            );
            assert_eq!(
                bench.called("trap"),
                0,
                "harm: a trap was called\n{}",
                bench.log()
            );
            assert!(
                is_naive() || ended.status.code() == Some(0),
                "{}",
                bench.log()
            );
            bench.is_synced(name);
            assert!(
                is_naive() || bench.remote_has(".beads/mine.jsonl"),
                "{}",
                bench.log()
            );
            assert!(
                is_naive() || bench.here().join(".beads/theirs.jsonl").exists(),
                "{}",
                bench.log()
            );
        },
    );
}

/// Hooks of a configured directory are the person's hooks.
#[test]
fn a_directory_of_hooks_is_obeyed() {
    let bench = Bench::new();
    crate::bench::script(
        &bench.path().join("hooks/pre-commit"),
        "echo 'not on my watch' >&2; exit 1",
    );
    let hooks = bench.path().join("hooks").to_string_lossy().into_owned();
    bench.git(bench.here(), &["config", "core.hooksPath", &hooks]);
    bench.tempt();
    bench.refuses("the hook pre-commit has failed", "core.hooksPath");
    bench.git(bench.here(), &["config", "--unset", "core.hooksPath"]);
    bench.syncs("without it");
}

/// Nobody said who commits: it commits under some name, or says what to configure and does nothing.
#[test]
fn no_name_to_commit_under() {
    for only in ["false", "true"] {
        let bench = Bench::new();
        bench.tempt();
        std::fs::write(
            bench.path().join(".gitconfig"),
            format!("[user]\n\tuseConfigOnly = {only}\n"),
        )
        .expect("write");
        let before = bench.snapshot();
        let told = bench.once();
        let allowed = if told.code == 0 {
            Allowed::Sync
        } else {
            Allowed::Fetch
        };
        bench.untouched_since(&before, allowed, "no name");
        if told.code == 0 {
            bench.is_synced("no name");
        } else {
            told.says("user.", "no name");
        }
    }
}

/// A key that wants a password: not asked for, or ended with the cycle, and nothing half-done.
#[test]
fn signing_that_hangs() {
    let bench = Bench::new();
    let gpg = bench.trap("gpg", "exec sleep 300");
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("gpg.program", &gpg),
        ("tag.gpgSign", "true"),
    ] {
        bench.git(bench.here(), &["config", key, value]);
    }
    bench.write(".beads/mine.jsonl", "{}\n");
    let before = bench.snapshot();
    let ended = Running::start(bench.agent(&["--once", "--cycle-timeout", "6s"])).finish(PATIENCE);
    let is_done = ended.status.code() == Some(0);
    bench.untouched_since(
        &before,
        if is_done {
            Allowed::Sync
        } else {
            Allowed::Fetch
        },
        "gpg hangs",
    );
    assert!(
        !bench.here().join(".git/index.lock").exists(),
        "harm: index.lock left behind\n{}",
        bench.log()
    );
    wait_until(PATIENCE, "nobody is left", || {
        marked_by(bench.scene()).is_empty()
    });
    bench.git(bench.here(), &["config", "commit.gpgSign", "false"]);
    bench.syncs("without it");
}

/// Line ends that change on the way, and files that a filter makes: nothing is committed again and again.
#[test]
fn filters_and_line_ends_settle() {
    let bench = Bench::new();
    bench.pushed_there(&[(".gitattributes", "*.jsonl text eol=crlf\n*.txt filter=up\n")]);
    for dir in [bench.here().to_path_buf(), bench.there()] {
        bench.git(&dir, &["config", "filter.up.clean", "tr a-z A-Z"]);
        bench.git(&dir, &["config", "filter.up.smudge", "tr A-Z a-z"]);
    }
    bench.once();
    bench.write(".beads/notes.txt", "abc\n");
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.pushed_there(&[
        (".beads/theirs.txt", "def\n"),
        (".beads/theirs.jsonl", "{}\n"),
    ]);
    bench.once();
    let head = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    bench.cycles(3);
    if stops_when_naive() {
        return;
    }
    assert_eq!(
        bench.git(bench.here(), &["rev-parse", "HEAD"]),
        head,
        "committed again\n{}",
        bench.log()
    );
    assert_eq!(
        bench.git(bench.remote(), &["show", "main:.beads/notes.txt"]),
        "ABC"
    );
    assert_eq!(bench.read(".beads/theirs.txt"), "def\n");
    bench.is_synced("filters");
}
