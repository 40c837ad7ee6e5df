//! A sync that is ended in the middle of a move: the next one goes on, whole, and without a person; unless a person has
//! changed something since.

use std::fs;

use beadlock_tests::process::marked_by;

use crate::bench::{Bench, each, is_naive, script, stops_when_naive};
use crate::snapshot::Allowed;
use crate::wrapper::KILL_ALL;

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

/// How a sync is ended: while this file is written, or before this git.
#[derive(Debug)]
enum At {
    File(&'static str, &'static str),
    Git(&'static str),
    Moved,
}

#[test]
fn what_a_kill_has_left_is_finished() {
    killed(
        20,
        &[
            At::Git("read-tree -m -u"),
            At::File(".beads/was-dir", KILL_ALL),
            At::File(".beads/was-file/one", KILL_ALL),
            At::File("many/5", KILL_ALL),
            // The git alone: its sync lives and says so.
            At::File("many/5", "kill -9 $PPID"),
            At::File("src/x.rs", KILL_ALL),
            At::File("was-dir", KILL_ALL),
            At::File("was-file/one", KILL_ALL),
            At::Git("update-ref -m pull (beadlock-agent)"),
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
            bench.shell(&format!(
                "git reset -q --hard {before}; git clean -fdqx -e daemon.log; rm .git/logs/refs/heads/main"
            ));
            bench.before_file("none", 1, "");
            let told = match row {
                At::File(path, kill) => {
                    // The second is the sync that finishes it.
                    bench.before_file(path, 2, kill);
                    let told = bench.once();
                    assert_eq!(bench.called("smudge"), 1, "{}", told.log);
                    let head = bench.git(bench.here(), &["rev-parse", "HEAD"]);
                    assert_eq!(head, before, "harm: the half was committed\n{}", told.log);
                    told.ends_with(1, "killed");
                    bench.once()
                }
                At::Git(words) => bench.once_before(words, KILL_ALL),
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
            told.says("Pulled what a sync that was killed had begun", "finished");
            told.ends_with(0, "finished");
            bench.is_synced("finished");
            bench.is_whole("finished");
            let executable = bench.shell("test -x src/z.rs && test ! -e src/y.rs");
            assert_eq!(executable.code, 0, "{row:?}");
        },
    );
}

/// A file that a person has changed is neither the old nor the new one: it is named as it is typed, and nothing else
/// happens until it is one of them.
#[test]
fn what_a_person_has_changed_since_is_theirs() {
    if stops_when_naive() {
        return;
    }
    let (typed, by_hand) = (
        None,
        Some(
            "git show origin/main:./src/x.rs >src/x.rs; git show \"origin/main:./it's here\" >\"it's here\"",
        ),
    );
    each(
        &[typed, by_hand],
        |way| format!("{way:?}"),
        |way| {
            let bench = Bench::new();
            bench.pushed_there(&[
                ("src/x.rs", "theirs\n"),
                ("it's here", "theirs\n"),
                ("z", "theirs\n"),
            ]);
            bench.before_file("z", 1, KILL_ALL);
            bench.once().ends_with(1, "killed");
            assert_eq!(bench.called("smudge"), 1, "{}", bench.log());
            bench.shell("echo mine >src/x.rs; echo mine >\"it's here\"");
            // What the kill has left in .git is cleared up, and the files stay.
            bench.once();
            let before = bench.snapshot();
            let told = bench.once();
            bench.untouched_since(&before, Allowed::Nothing, "changed since");
            told.ends_with(1, "changed since");
            told.says(
                "a pull has stopped in the middle, and it's here, src/x.rs is neither as in ",
                "changed since",
            );
            match way {
                None => assert_eq!(bench.shell(told.command("git -C ")).code, 0, "{}", told.log),
                Some(by_hand) => assert_eq!(bench.shell(by_hand).code, 0),
            }
            bench.syncs("solved");
            bench.is_whole("solved");
        },
    );
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
        git status --porcelain -uall -- . ':!*daemon.log'; git rev-parse HEAD; cat .beads/daemon.log; ls .git | grep beadlock"
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
    assert!(!ended.out.ends_with("beadlock\n"), "left behind: {ended:?}");
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
    let slow = "trap '' TERM; kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 0.7; echo ended >>../ended";
    bench.before_file("src/x.rs", 1, slow);
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
fn a_pull_that_was_killed_is_finished() {
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
            let expected = if *name == "a change" {
                " M src/y.rs"
            } else {
                ""
            };
            assert_eq!(status, expected, "{name}: half-done\n{}", told.log);
            assert_eq!(bench.read("new/file"), "new\n");
            assert!(
                bench.subjects().contains(&"theirs".to_owned()),
                "{name}: not pulled\n{}",
                bench.log()
            );
        },
    );
}
