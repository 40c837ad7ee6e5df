//! A pull and the gates of the databases that it changes: they stay shut for as long as any git of it works, and the
//! directory that the gate is on is not made anew.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::bench::{Bench, stops_when_naive};

/// Every file of the database goes, and others come: git would remove the directory in between.
#[test]
fn a_pull_that_changes_every_file_leaves_the_directory_in_its_place() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let log = bench.path().join("log").display().to_string();
    let beads = bench.here().join(".beads");
    let inode = || {
        fs::metadata(&beads)
            .map(|meta| meta.ino())
            .expect("the database")
    };
    let option = format!("--log-file={log}");
    let once = || {
        bench
            .once_as(bench.agent(&["--once", &option]))
            .ends_with(0, "pulled")
    };
    once();
    let before = inode();
    bench.pushed_there(&[
        (".beads/issues.jsonl", ""),
        (".beads/other.jsonl", "theirs\n"),
    ]);
    once();
    let log = || fs::read_to_string(&log).unwrap_or_default();
    assert_eq!(inode(), before, "another directory: {}", log());
    assert!(beads.join("other.jsonl").exists(), "not pulled: {}", log());
    assert!(
        !beads.join("issues.jsonl").exists() && !log().contains("failed"),
        "{}",
        log()
    );
    // None come: an empty database is one.
    bench.pushed_there(&[(".beads/other.jsonl", "")]);
    once();
    assert_eq!(inode(), before, "another directory: {}", log());
    assert!(
        fs::read_dir(&beads).expect("the database").next().is_none() && !log().contains("failed"),
        "{}",
        log()
    );
    bench.is_whole("emptied");
}

/// What git starts in a pull has the gates of both databases.
#[test]
fn each_git_of_a_pull_has_the_gates() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    bench.write("sub/.beads/issues.jsonl", "{}\n");
    bench.shell("git add sub; git commit -qm second; git push -q");
    bench.pushed_there(&[
        ("sub/.beads/issues.jsonl", "{\"id\":\"theirs\"}\n"),
        ("src/x.rs", "theirs\n"),
    ]);
    let fds = bench.path().join("fds");
    bench.before_file(
        "src/x.rs",
        1,
        &format!("readlink /proc/self/fd/* >'{}'", fds.display()),
    );
    let told = bench.once();
    let fds = fs::read_to_string(fds).unwrap_or_default();
    for database in [".beads", "sub/.beads"] {
        let dir = fs::canonicalize(bench.here().join(database)).expect("a database");
        assert!(
            fds.lines().any(|fd| fd == dir.to_string_lossy()),
            "{database} is not in {fds}\n{}",
            told.log
        );
    }
    told.ends_with(0, "pulled");
}
