//! A repository inside the database: git started in there would take it for the one to work on. It is never used, and
//! never comes in by a pull.

use std::fs;

use crate::bench::{Bench, each, stops_when_naive, write};
use crate::snapshot::Allowed;

/// Names and texts.
type Files = &'static [(&'static str, &'static str)];

/// The files of a repository, as somebody may commit them: with a configuration that leads back to the working tree,
/// and one that borrows what it has not got.
const WHOLE: Files = &[
    ("HEAD", "ref: refs/heads/main\n"),
    (
        "config",
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n",
    ),
    ("objects/info/keep", "\n"),
    ("refs/heads/keep", "\n"),
];
const BORROWING: Files = &[
    ("HEAD", "ref: refs/heads/main\n"),
    ("commondir", "../.git\n"),
];

fn below<'a>(dir: &str, files: &[(&str, &'a str)]) -> Vec<(String, &'a str)> {
    files
        .iter()
        .map(|(name, text)| (format!("{dir}/{name}"), *text))
        .collect()
}

#[track_caller]
fn push(bench: &Bench, files: &[(String, &str)]) {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    bench.pushed_there(&files);
}

/// A user that may push adds one, at once or file by file: it does not come in, and nothing else changes.
#[test]
fn an_embedded_repository_is_not_pulled() {
    const ROWS: &[(&str, Files, bool)] = &[
        ("whole", WHOLE, true),
        ("borrowing", BORROWING, true),
        ("in pieces", WHOLE, false),
    ];
    each(
        ROWS,
        |row| row.0.to_owned(),
        |(name, files, at_once)| {
            let bench = Bench::new();
            let files = below(".beads", files);
            if *at_once {
                push(&bench, &files);
            } else {
                for file in &files {
                    push(&bench, std::slice::from_ref(file));
                    bench.once();
                }
            }
            bench.tempt();
            let told = bench.once();
            let refs = bench.here().join(".beads/refs");
            let common = bench.here().join(".beads/commondir");
            assert!(
                !refs.exists() && !common.exists(),
                "harm, {name}: it was pulled\n{}",
                told.log
            );
            if stops_when_naive() {
                return;
            }
            told.ends_with(1, name);
            told.says(".beads/HEAD", "names it");
            told.says("git would take .beads for a repository", name);
            bench
                .cycles(2)
                .says("git would take .beads for a repository", "again");
            // Where it was committed, somebody types what the line says.
            let mut typed = bench.scene().shell(told.command("git rm"));
            typed.current_dir(bench.there());
            assert!(beadlock_tests::run(typed).status.success(), "{}", told.log);
            bench.git(bench.there(), &["commit", "--quiet", "--message", "mended"]);
            bench.git(bench.there(), &["push", "--quiet"]);
            bench.syncs("mended");
            assert!(
                bench.remote_has(".beads/mine.jsonl")
                    && bench.here().join(".beads/theirs.jsonl").exists()
            );
        },
    );
}

/// One that is there is not used: no commit goes past the real index, and the user's next one takes nothing back.
#[test]
fn an_embedded_repository_is_never_used() {
    let bench = Bench::new();
    for (path, text) in below(".beads", WHOLE) {
        bench.write(&path, text);
    }
    // As the agent of another version may have pulled it: with the index and the objects of the real one.
    bench.shell("cp -r .git/objects .git/index .git/refs .beads/; git add .beads/HEAD .beads/config; git commit -qm x");
    bench.tempt();
    let before = bench.snapshot();
    let told = bench.once();
    bench.untouched_since(&before, Allowed::Fetch, "embedded");
    if stops_when_naive() {
        return;
    }
    told.ends_with(1, "embedded");
    told.says(
        "/.beads has the files of a git repository in it (HEAD",
        "embedded",
    );
    bench.shell("echo mine >>src/y.rs; git commit -qam mine");
    let changed = bench.git(bench.here(), &["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(
        changed, "src/y.rs",
        "harm: the user's commit changes more than the user did"
    );
    assert_eq!(bench.shell(told.command("mv ")).code, 0, "{}", told.log);
    bench.shell("rm -r .beads/objects .beads/refs .beads/index");
    bench.git(bench.here(), &["push", "--quiet", "--force"]);
    bench.once().ends_with(0, "moved away");
    assert!(
        !bench
            .git(bench.here(), &["ls-files"])
            .contains(".beads/HEAD\n"),
        "it is gone from the commits"
    );
}

/// The directory above the database is looked from: one that is made into a repository there hides the real one.
#[test]
fn a_repository_around_the_database_is_not_used() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    write(&bench.here().join("pkg/.beads/issues.jsonl"), "{}\n");
    bench.shell("git add pkg; git commit -qm pkg; git push -q");
    for (path, text) in below("pkg", WHOLE) {
        bench.write(&path, text);
    }
    fs::create_dir_all(bench.here().join("pkg/objects")).expect("objects");
    let before = bench.snapshot();
    let mut agent = bench.scene().agent(&["--once", "--action", "git", "--db"]);
    agent.arg(bench.here().join("pkg/.beads"));
    let ended = beadlock_tests::Ended::from(beadlock_tests::run(agent));
    let log = fs::read_to_string(bench.here().join("pkg/.beads/daemon.log")).unwrap_or_default();
    assert_eq!(ended.code, 1, "{ended:?}\n{log}");
    assert!(
        log.contains("/pkg has the files of a git repository in it"),
        "{log}"
    );
    fs::remove_file(bench.here().join("pkg/.beads/daemon.log")).expect("the log");
    bench.untouched_since(&before, Allowed::Nothing, "around");
}

/// A pull does not make the database a submodule or a link: its files would be gone, or others in their place.
#[test]
fn a_database_that_becomes_something_else_is_not_pulled() {
    const ROWS: &[(&str, &str)] = &[
        (
            "a submodule",
            "git rm -qr --cached .beads; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),.beads",
        ),
        (
            "a link",
            "git rm -qr .beads; ln -s /etc .beads; git add .beads",
        ),
        (
            "another one, a link",
            "mkdir x; ln -s /etc x/.beads; git add x",
        ),
        (
            "a submodule inside",
            "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),.beads/sub",
        ),
    ];
    each(
        ROWS,
        |row| row.0.to_owned(),
        |(name, script)| {
            let bench = Bench::new();
            let mut shell = bench
                .scene()
                .shell(&format!("{script}; git commit -qm theirs; git push -q"));
            shell.current_dir(bench.there());
            assert!(beadlock_tests::run(shell).status.success(), "{name}");
            let told = bench.once();
            assert!(
                bench.here().join(".beads/issues.jsonl").exists(),
                "harm, {name}: the database is gone"
            );
            assert!(
                !bench.here().join("x/.beads").exists(),
                "harm, {name}: it was pulled"
            );
            assert!(
                !bench.here().join(".beads/sub").exists(),
                "harm, {name}: it was pulled"
            );
            told.ends_with(1, name);
            told.says("in the place of files of a database", name);
            told.says("type: git rm --cached -- ", name);
        },
    );
}
