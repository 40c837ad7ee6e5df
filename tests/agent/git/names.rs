//! What may lie in a database, and how it and its repository may be called.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::bench::{Bench, each, is_naive, stops_when_naive};
use crate::snapshot::Allowed;

const NAMES: &[&[u8]] = &[
    b"with space",
    b"new\nline",
    b"quote\"and'quote",
    b"back\\slash",
    b"not utf-8 \xff\xfe",
    b"-rf",
    b"--force",
    b":(top)src",
    b":!x",
    b"*",
    b"[a]?",
    b"tab\there",
    b"\x1b[31mred",
    b"$(touch harm)",
    b"`touch harm`",
    b"...",
    b" ",
    b"#hash",
    b"!bang",
    "ünïcode".as_bytes(),
];

#[test]
fn names_are_names() {
    let bench = Bench::new();
    let beads = bench.here().join(".beads");
    for name in NAMES {
        fs::write(beads.join(OsStr::from_bytes(name)), name).expect("write");
    }
    fs::create_dir(beads.join(":(exclude)")).expect("create");
    fs::write(beads.join(":(exclude)/*"), "x").expect("write");
    bench.shell("echo mine >>src/x.rs");
    let before = bench.snapshot();
    bench.once();
    bench.untouched_since(&before, Allowed::Sync, "names");
    if stops_when_naive() {
        return;
    }
    let listed = bench.scene().command("git");
    let mut listed = listed;
    listed.current_dir(bench.remote()).args([
        "ls-tree",
        "-r",
        "-z",
        "--name-only",
        "main",
        "--",
        ".beads/",
    ]);
    let listed = listed.output().expect("git runs").stdout;
    for name in NAMES {
        let path = [b".beads/", *name].concat();
        assert!(
            listed.split(|byte| *byte == 0).any(|one| one == path),
            "not pushed: {}",
            path.escape_ascii()
        );
    }
    assert!(
        !bench.here().join("harm").exists() && !beads.join("harm").exists(),
        "harm: a name was executed"
    );
    // Gone again, they are gone there.
    for name in NAMES {
        fs::remove_file(beads.join(OsStr::from_bytes(name))).expect("remove");
    }
    bench.once();
    bench.untouched_since(&before, Allowed::Sync, "names removed");
    bench.is_synced("names removed");
}

/// A change outside whose name could break the line that names it.
#[test]
fn a_hostile_name_is_escaped() {
    let bench = Bench::new();
    bench.write("new\nSync cycle complete \u{1b}[31m", "1\n");
    bench.git(bench.here(), &["add", "."]);
    bench.tempt();
    let told = bench.once();
    told.says(
        "Not pulling: uncommitted changes outside .beads (",
        "hostile name",
    );
    assert!(
        is_naive() || !bench.log().contains('\u{1b}'),
        "an escape character in the log"
    );
    assert!(
        is_naive() || !told.log.contains("\nSync cycle complete \\"),
        "a forged line: {}",
        told.log
    );
}

/// Links are committed as links and never followed, what is not a file is left out, and nothing hangs on it.
#[test]
fn what_is_no_file() {
    let bench = Bench::new();
    let beads = bench.here().join(".beads");
    fs::write(bench.path().join("secret"), "secret\n").expect("write");
    symlink(bench.path().join("secret"), beads.join("link")).expect("link");
    symlink("nowhere", beads.join("dangling")).expect("link");
    symlink("..", beads.join("up")).expect("link");
    mkfifo(&beads.join("fifo"), Mode::S_IRWXU).expect("fifo");
    let _socket = UnixListener::bind(beads.join("socket")).expect("socket");
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.shell("echo mine >>src/x.rs");
    let before = bench.snapshot();
    bench.once();
    bench.untouched_since(&before, Allowed::Sync, "no files");
    if stops_when_naive() {
        return;
    }
    let tree = bench.git(
        bench.remote(),
        &[
            "ls-tree",
            "-r",
            "--format=%(objectmode) %(path)",
            "main",
            "--",
            ".beads/",
        ],
    );
    for line in [
        "120000 .beads/link",
        "120000 .beads/dangling",
        "120000 .beads/up",
        "100644 .beads/mine.jsonl",
    ] {
        assert!(
            tree.lines().any(|one| one == line),
            "{line} is not in {tree}\n{}",
            bench.log()
        );
    }
    assert!(!tree.contains("fifo") && !tree.contains("socket"), "{tree}");
}

/// A repository inside the database is somebody's: it does not become a submodule that nobody can fetch.
#[test]
fn a_repository_inside_the_database() {
    let bench = Bench::new();
    let inner = bench.here().join(".beads/inner");
    fs::create_dir(&inner).expect("create");
    bench.git(&inner, &["init", "--quiet"]);
    bench.git(
        &inner,
        &["commit", "--quiet", "--allow-empty", "--message", "inner"],
    );
    bench.write(".beads/inner/file", "x\n");
    bench.write(".beads/mine.jsonl", "{}\n");
    let snapshot = || crate::snapshot::Snapshot::take(&inner, String::new(), String::new());
    let before = snapshot();
    bench.cycles(2);
    let differences = before.differences(&snapshot(), Allowed::Nothing);
    assert!(differences.is_empty(), "harm: {differences:?}");
    let tree = bench.git(bench.remote(), &["ls-tree", "-r", "main"]);
    assert!(
        !tree.contains("commit"),
        "harm: a submodule that nobody can fetch\n{tree}"
    );
    assert!(
        is_naive() || tree.contains("mine.jsonl"),
        "the rest is synced\n{}",
        bench.log()
    );
}

#[test]
fn a_huge_file() {
    let bench = Bench::new();
    let mut bytes = vec![0; 24 << 20];
    let mut state = 1_u32;
    for byte in &mut bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = state.to_be_bytes()[0];
    }
    bench.write(".beads/huge", &bytes);
    bench.syncs("huge");
    let size = bench.git(bench.remote(), &["cat-file", "-s", "main:.beads/huge"]);
    assert_eq!(size, bytes.len().to_string());
}

/// Paths of repositories that a shell, a glob or a pathspec would take for something else.
#[test]
fn repositories_may_be_called_anything() {
    let names: [&[u8]; 6] = [
        b"[a]*",
        b"with space",
        b"it's \"quoted\"",
        b"-n",
        b":(top)x",
        b"a\\b",
    ];
    each(
        &names,
        |name| name.escape_ascii().to_string(),
        |name| {
            let name = std::ffi::OsString::from_vec(name.to_vec());
            let bench = Bench::named(&name.to_string_lossy());
            bench.tempt();
            bench.shell("echo mine >>src/x.rs");
            let before = bench.snapshot();
            bench.once();
            bench.untouched_since(&before, Allowed::Sync, "a change outside");
            bench.git(bench.here(), &["checkout", "--quiet", "--", "src"]);
            bench.syncs("then");
            assert!(
                is_naive() || bench.remote_has(".beads/mine.jsonl"),
                "{}",
                bench.log()
            );
        },
    );
}

/// Permissions: a file that cannot be read fails the cycle and nothing else.
#[test]
fn a_file_that_cannot_be_read() {
    use std::os::unix::fs::PermissionsExt;
    if beadlock_tests::may_be_root() {
        beadlock_tests::skip::cannot("permissions do not stop root");
        return;
    }
    let bench = Bench::new();
    bench.tempt();
    let file = bench.here().join(".beads/mine.jsonl");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("chmod");
    bench.refuses("mine.jsonl", "unreadable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("chmod");
    bench.syncs("readable again");
}
