//! A sync that is ended in the middle of a move: the next one takes back what there is of it and pulls again, without a
//! person. What a person has changed since stays.

use std::fs;

use beadlock_tests::process::marked_by;

use crate::bench::{Bench, each, is_naive, script, stops_when_naive};
use crate::snapshot::Allowed;
use crate::wrapper::{AFTER_THE_FILES, KILL_ALL};

/// Upstream has many files more, a directory that has become a file, another that has become a link, and a file that
/// has become a directory, each inside of the database and outside.
const BEFORE: &str = "for top in . .beads; do mkdir -p $top/was-dir; echo 1 >$top/was-dir/one; echo 2 >$top/was-dir/two; \
                      echo file >$top/was-file; mkdir $top/to-link; echo linked >$top/to-link/0; done";
const AFTER: &str = "for top in . .beads; do git rm -qr $top/was-dir $top/was-file $top/to-link; ln -s many $top/to-link; \
                     mkdir $top/was-file $top/many; echo file >$top/was-dir; echo 1 >$top/was-file/one; \
                     i=0; while [ $i -lt COUNT ]; do echo \"text of file $i\" >$top/many/$i; i=$((i+1)); done; done; \
                     git rm -q src/y.rs; echo theirs >src/x.rs; chmod +x src/z.rs";

/// A bench where that is upstream, with so many files inside and outside, and the commit that is here.
fn bench(count: usize) -> (Bench, String) {
    let bench = Bench::new();
    let there = bench.there();
    bench.shell(&format!(
        "{BEFORE}; git add .; git commit -qm before; git push -q"
    ));
    let after = AFTER.replace("COUNT", &count.to_string());
    let script = format!("git pull -q; {after}; git add .; git commit -qm after; git push -q");
    let mut command = bench.scene().shell(&script);
    command.current_dir(there);
    assert!(beadlock_tests::run(command).status.success());
    let head = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    (bench, head)
}

/// How a sync is ended: while this file is written aside, or before this git.
#[derive(Debug)]
enum At {
    File(&'static str, &'static str),
    Git((&'static str, usize)),
    Moved,
}

#[test]
fn what_a_kill_has_left_is_finished() {
    killed(
        20,
        &[
            At::Git(("update-ref --stdin", 1)),
            At::Git(AFTER_THE_FILES),
            At::File(".beads/was-dir", KILL_ALL),
            At::File(".beads/was-file/one", KILL_ALL),
            At::File("many/5", KILL_ALL),
            // The git alone: its sync lives and says so.
            At::File("many/5", "kill -9 $PPID"),
            At::File("src/x.rs", KILL_ALL),
            At::File("was-dir", KILL_ALL),
            At::File("was-file/one", KILL_ALL),
            At::Git(("update-ref -m pull (beadlock-agent)", 1)),
            At::Moved,
        ],
    );
}

#[test]
fn what_a_kill_has_left_of_many_files_is_finished() {
    killed(
        850,
        &[
            At::File(".beads/many/0", KILL_ALL),
            At::File("many/500", KILL_ALL),
        ],
    );
}

fn killed(count: usize, rows: &[At]) {
    if stops_when_naive() {
        return;
    }
    let (bench, before) = bench(count);
    let hook = bench.here().join(".git/hooks/reference-transaction");
    each(
        rows,
        |row| format!("{row:?}"),
        |row| {
            // Without the logs, or this would be a person who goes back.
            bench.shell(&format!(
                "git reset -q --hard {before}; git clean -fdqx -e daemon.log; find .git/logs -type f -delete"
            ));
            bench.before_file("none", 1, "");
            let told = match row {
                At::File(path, kill) => {
                    // The second is the next sync.
                    bench.before_file(path, 2, kill);
                    let told = bench.once();
                    assert_eq!(bench.called("smudge"), 1, "{}", told.log);
                    let head = bench.git(bench.here(), &["rev-parse", "HEAD"]);
                    assert_eq!(head, before, "harm: the half was committed\n{}", told.log);
                    told.ends_with(1, "killed");
                    bench.once()
                }
                At::Git((words, nth)) => bench.once_before_nth(words, *nth, KILL_ALL),
                At::Moved => {
                    script(
                        &hook,
                        &format!(
                            "[ $1 = committed ] && grep -q refs/heads/main$ || exit 0; {KILL_ALL}"
                        ),
                    );
                    let told = bench.once();
                    fs::remove_file(&hook).expect("remove the hook");
                    told
                }
            };
            told.ends_with(1, "killed");
            let told = bench.once();
            told.ends_with(0, "finished");
            bench.is_synced("finished");
            bench.is_whole("finished");
            let executable = bench.shell("test -x src/z.rs && test ! -e src/y.rs");
            assert_eq!(executable.code, 0, "{row:?}");
        },
    );
}

/// A file that a person has changed since the kill stays as they have it; the others are as before the pull. Then the
/// pull says what is in its way, as ever.
#[test]
fn what_a_person_has_changed_since_is_theirs() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    bench.pushed_there(&[
        ("src/x.rs", "theirs\n"),
        ("src/y.rs", "theirs\n"),
        ("it's here", "theirs\n"),
        ("z", "theirs\n"),
    ]);
    let (words, nth) = AFTER_THE_FILES;
    bench
        .once_before_nth(words, nth, KILL_ALL)
        .ends_with(1, "killed");
    let has_come = bench.read("src/x.rs") + &bench.read("it's here");
    assert_eq!(has_come, "theirs\ntheirs\n", "{}", bench.log());
    bench.shell("echo mine >src/x.rs; echo mine >\"it's here\"");
    let told = bench.once();
    told.ends_with(1, "changed since");
    told.says(
        "Not pulling: uncommitted changes outside .beads (src/x.rs)",
        "changed since",
    );
    assert_eq!(
        bench.read("src/x.rs") + &bench.read("it's here") + &bench.read("src/y.rs"),
        "mine\nmine\ny one\n",
        "harm: {}",
        told.log
    );
    assert!(!bench.here().join("z").exists(), "half done: {}", told.log);
    assert_eq!(
        bench.git(
            bench.here(),
            &["status", "--porcelain", "--", ".", ":!.beads"]
        ),
        " M src/x.rs\n?? \"it's here\"",
        "{}",
        told.log
    );
    let before = bench.snapshot();
    let told = bench.once();
    bench.untouched_since(&before, Allowed::Nothing, "changed since");
    bench.shell("git checkout -q src/x.rs");
    let told_now = bench.once();
    told_now.says("it's here", "in the way");
    assert_eq!(
        bench.shell(told_now.command("mv ")).code,
        0,
        "{}",
        told.log + &told_now.log
    );
    bench.syncs("solved");
    assert_eq!(bench.read("it's here"), "theirs\n");
    bench.shell("rm \"it's here.mine\"");
    bench.is_whole("solved");
}

/// The index has moved and the branch has not: also for what is no file of the working tree, such as a submodule.
#[test]
fn a_submodule_is_not_left_staged() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let commit = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    let entry = format!("160000,{commit},lib");
    bench.git(
        bench.there(),
        &["update-index", "--add", "--cacheinfo", &entry],
    );
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    bench.once_before("update-ref -m pull (beadlock-agent)", KILL_ALL);
    let staged = || bench.git(bench.here(), &["diff", "--cached", "--name-only"]);
    assert!(staged().contains("lib"), "killed too early: {}", staged());
    // Upstream is out of reach: what the kill has left goes all the same.
    bench.shell("mv ../remote.git ../away");
    bench.once();
    assert_eq!(staged(), "", "{}", bench.log());
    bench.shell("mv ../away ../remote.git");
    bench.syncs("pulled again");
    assert_eq!(bench.git(bench.here(), &["rev-parse", "HEAD:lib"]), commit);
    bench.is_whole("pulled again");
}

/// A person has put a file in the place of a directory of which the files were to come back: it stays, and the sync is
/// not stuck at it.
#[test]
fn a_file_in_the_place_of_a_directory_stays_after_a_kill() {
    if stops_when_naive() {
        return;
    }
    let (bench, _) = bench(1);
    let (words, nth) = AFTER_THE_FILES;
    bench
        .once_before_nth(words, nth, KILL_ALL)
        .ends_with(1, "killed");
    bench.shell("rm was-dir; echo mine >was-dir");
    let told = bench.once();
    assert_eq!(bench.read("was-dir"), "mine\n", "harm: {}", told.log);
    told.says("Not pulling: ", "a person's file");
    bench.shell("rm was-dir; git checkout -q was-dir");
    bench.syncs("solved");
    bench.is_whole("solved");
}

/// The filter of one file fails: nobody commits the half that is there, and is finished when the filter works.
#[test]
fn a_filter_that_fails_in_the_middle_of_a_pull() {
    let bench = Bench::new();
    let theirs = [
        (".beads/issues.jsonl", "theirs\n"),
        ("src/x.rs", "theirs\n"),
        ("z", "theirs\n"),
    ];
    bench.before_file("src/x.rs", 2, "exit 1");
    bench.pushed_there(&theirs);
    let head = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    for case in ["once", "again"] {
        let told = bench.once();
        told.ends_with(1, case);
        told.says("Sync cycle failed: ", case);
        told.says("smudge filter trap failed", case);
        assert_eq!(
            bench.git(bench.here(), &["rev-parse", "HEAD"]),
            head,
            "harm, {case}: {}",
            told.log
        );
    }
    bench.syncs("the filter works");
    bench.is_whole("the filter works");
    assert!(
        !bench
            .subjects()
            .iter()
            .any(|subject| subject.starts_with("chore: sync")),
        "harm: the half"
    );
}

/// The disk is full in the middle, and then is not.
#[test]
fn a_disk_that_is_full_in_the_middle_of_a_pull() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let long = "long\n".repeat(60_000);
    bench.pushed_there(&[
        (".beads/a.jsonl", &long),
        (".beads/issues.jsonl", "theirs\n"),
        ("src/x.rs", &long),
    ]);
    // Where the repository is, is a small disk; what the objects need has room, the files have not.
    let here = bench.here().to_string_lossy().into_owned();
    let script = format!(
        "cp -a '{here}' saved && mount -t tmpfs -o size=1m tmpfs '{here}' && cp -a saved/. '{here}' || exit 77; cd '{here}'
        git fetch -q; while dd if=/dev/zero bs=4k count=1 >>fill 2>/dev/null; do :; done; truncate -s -350000 fill
        $AGENT; echo $?; git rev-parse HEAD; rm fill; $AGENT; echo $?
        git status --porcelain -uall -- . ':!*daemon.log'; git rev-parse HEAD; cat .beads/daemon.log; ls .git | grep beadlock | grep -vx -e beadlock -e 'beadlock.truth.*'"
    );
    let Some(mut command) = bench.scene().in_namespaces(&["--mount"], &script) else {
        return;
    };
    let agent = bench.agent(&["--once"]);
    let words: Vec<_> = std::iter::once(agent.get_program())
        .chain(agent.get_args())
        .collect();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    command.env("AGENT", words.join(" "));
    let ended = beadlock_tests::Ended::from(beadlock_tests::run(command));
    if ended.code == 77 {
        return beadlock_tests::skip::cannot("needs a mount of tmpfs");
    }
    let main = |dir: std::path::PathBuf| bench.git(dir, &["rev-parse", "main"]);
    let (before, after) = (main(bench.here().to_owned()), main(bench.remote()));
    assert!(
        ended.out.starts_with(&format!("1\n{before}\n0\n{after}\n")),
        "{ended:?}"
    );
    assert!(
        ended.out.contains("unable to write file src/x.rs"),
        "{ended:?}"
    );
    assert!(
        ended.out.trim_end().contains("Agent stopped") && !ended.out.contains("\nbeadlock."),
        "left behind: {ended:?}"
    );
}

/// The sync alone is killed, and its git works on: the gate stays shut as long as it does.
#[test]
fn the_gate_outlives_a_git_that_works_on() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    bench.pushed_there(&[("src/x.rs", "theirs\n"), ("z", "theirs\n")]);
    // The parent of git is the sync. The filter does not hear that it is to end.
    let slow = format!(
        "trap '' TERM; kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 0.7; echo ended >>'{}/ended'",
        bench.path().display()
    );
    bench.before_file("src/x.rs", 1, &slow);
    let told = bench.once();
    assert!(
        bench.path().join("ended").exists(),
        "the gate was open before the end of git\n{}",
        told.log
    );
    assert!(marked_by(bench.scene()).is_empty(), "a git works on");
    told.ends_with(1, "killed");
    bench.syncs("after that");
    bench.is_whole("after that");
}

/// A filter that hangs is ended with its cycle, and the index is a person's again.
#[test]
fn a_filter_that_hangs_does_not_keep_the_index() {
    let bench = Bench::new();
    bench.pushed_there(&[("src/x.rs", "theirs\n"), ("z", "theirs\n")]);
    bench.before_file("src/x.rs", 1, "exec sleep 300");
    let mut agent = bench.agent(&["--once"]);
    agent.args(["--cycle-timeout", "4s"]);
    let told = bench.once_as(agent);
    assert_eq!(bench.called("smudge"), 1, "{}", told.log);
    told.says("timed out after 4s", "hangs");
    assert!(
        is_naive() || !bench.here().join(".git/index.lock").exists(),
        "harm: {}",
        told.log
    );
    assert_eq!(
        bench.shell("echo mine >mine; git add mine").code,
        0,
        "a person's git add\n{}",
        told.log
    );
    bench.shell("git rm -qf --cached mine");
    bench.syncs("the filter works");
}

/// Kills the whole sync when its branch is about to move, which is after the working tree has.
const KILL_BEFORE_THE_BRANCH: &str =
    "[ \"$1\" = prepared ] && [ \"$BEADLOCK_CYCLE\" ] && [ -e ../kill ] || exit 0
cmp -s src/x.rs ../there/src/x.rs || exit 0
rm ../kill
kill -9 0";

/// What a person does before the next cycle.
const BEFORE_THE_NEXT: &[(&str, &str)] = &[
    ("nothing", "true"),
    ("a change", "echo mine >>src/y.rs"),
    (
        "a commit",
        "rm -f .git/index.lock; echo mine >>src/y.rs; git commit -qm mine -- src/y.rs",
    ),
];

#[test]
fn a_pull_that_was_killed_is_made_again() {
    each(
        BEFORE_THE_NEXT,
        |row| row.0.to_owned(),
        |(name, script_between)| {
            let bench = Bench::new();
            bench.pushed_there(&[
                ("src/x.rs", "theirs\n"),
                (".beads/theirs.jsonl", "{}\n"),
                ("new/file", "new\n"),
            ]);
            script(
                &bench.here().join(".git/hooks/reference-transaction"),
                KILL_BEFORE_THE_BRANCH,
            );
            std::fs::write(bench.path().join("kill"), "").expect("write");
            let told = bench.once();
            if stops_when_naive() {
                return;
            }
            assert!(
                !bench.path().join("kill").exists(),
                "not killed: the test shows nothing\n{}",
                told.log
            );
            assert_eq!(
                bench.read("src/x.rs"),
                "theirs\n",
                "killed too early: the test shows nothing"
            );
            // Of git, not of ours; it says itself that they are to be removed.
            bench.shell("rm -f .git/HEAD.lock .git/refs/heads/main.lock");
            bench.shell(script_between);
            let subjects = bench.subjects();
            bench.once();
            let told = bench.once();
            assert!(
                subjects
                    .iter()
                    .all(|subject| bench.subjects().contains(subject)),
                "harm: a commit is lost"
            );
            let status = bench.git(bench.here(), &["status", "--porcelain", "-uno"]);
            if *name == "a change" {
                // That is in the way of a pull.
                assert_eq!(status, " M src/y.rs", "{name}: half-done\n{}", told.log);
                assert!(
                    !bench.here().join("new").exists()
                        && bench.read("src/x.rs").starts_with("x one"),
                    "{name}: half-done\n{}",
                    told.log
                );
                bench.shell("git stash -q -- src");
                bench.syncs(name);
            }
            let status = bench.git(bench.here(), &["status", "--porcelain", "-uno"]);
            assert_eq!(status, "", "{name}: half-done\n{}", told.log);
            assert_eq!(bench.read("new/file"), "new\n");
            assert!(
                bench.subjects().contains(&"theirs".to_owned()),
                "{name}: not pulled\n{}",
                bench.log()
            );
        },
    );
}
