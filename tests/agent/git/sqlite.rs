//! An SQLite database is live: committed while somebody writes to it it is torn, and a pull puts another one in its
//! place under those who have it open. By its first bytes it is left out, whatever its name.

use std::fs;

use crate::bench::{Bench, each, stops_when_naive, write};
use crate::snapshot::Allowed;

/// A database as SQLite makes it: 100 bytes of header, two pages.
fn database() -> Vec<u8> {
    let mut bytes = b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20".to_vec();
    bytes.resize(8192, 0);
    bytes
}

/// Names that say what it is, and names that do not; one that sh and .gitignore would misread.
const NAMES: &[&str] = &[
    "beads.db",
    "notes.jsonl",
    "deep/er/cache",
    "a b*[c]'$(touch PWN) ",
    "!#\\x",
];

#[test]
fn an_untracked_database_is_left_out() {
    let bench = Bench::new();
    for name in NAMES {
        bench.write(&format!(".beads/{name}"), database());
    }
    // SQLite has made it and not yet written to it.
    bench.write(".beads/new.sqlite3", "");
    bench.write(
        ".beads/text.db",
        "SQLite format 3 is what a database begins with\n",
    );
    bench.write(".beads/short", "SQLite");
    bench.write(".beads/empty", "");
    bench.tempt();
    bench.once();
    let told = bench.cycles(2);
    if stops_when_naive() {
        return;
    }
    let tracked = bench.git(
        bench.here(),
        &["ls-tree", "-r", "--name-only", "HEAD", "--", ".beads"],
    );
    let mut tracked: Vec<_> = tracked.lines().collect();
    tracked.sort_unstable();
    let names = [
        "empty",
        "issues.jsonl",
        "mine.jsonl",
        "short",
        "text.db",
        "theirs.jsonl",
    ];
    assert_eq!(
        tracked,
        names.map(|name| format!(".beads/{name}")),
        "harm: {}",
        told.log
    );
    assert!(
        told.log.contains("Sync cycle complete") && !told.log.contains("failed"),
        "{}",
        told.log
    );
    assert_eq!(
        fs::read(bench.here().join(".beads/beads.db")).expect("still there"),
        database()
    );
}

/// Where git tracks one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum In {
    Head,
    Index,
    /// What git tracks was text, and is a database now.
    Changed,
}

#[test]
fn a_tracked_database_stops_everything() {
    let mut rows: Vec<_> = NAMES.iter().map(|name| (*name, In::Head)).collect();
    rows.extend([
        ("beads.db", In::Index),
        ("beads.db", In::Changed),
        ("notes.jsonl", In::Changed),
    ]);
    each(
        &rows,
        |row| format!("{row:?}"),
        |(name, place)| {
            let bench = Bench::new();
            let path = format!(".beads/{name}");
            let here = bench.here();
            bench.write(
                &path,
                if *place == In::Changed {
                    b"text\n".to_vec()
                } else {
                    database()
                },
            );
            bench.git(
                here,
                &["add", "--force", "--", &format!(":(literal){path}")],
            );
            if *place != In::Index {
                bench.git(here, &["commit", "--quiet", "--message", "by mistake"]);
                bench.git(here, &["push", "--quiet"]);
            }
            // Live: it differs from what is staged.
            bench.write(&path, [database(), vec![7; 4096]].concat());
            bench.tempt();
            let before = bench.snapshot();
            let told = bench.once();
            bench.untouched_since(&before, Allowed::Fetch, "once");
            if stops_when_naive() {
                return;
            }
            told.ends_with(1, "once");
            told.says("is tracked by git, and begins as an SQLite database", "why");
            bench
                .cycles(3)
                .says("begins as an SQLite database", "again");
            bench.untouched_since(&before, Allowed::Fetch, "several cycles");
            let command = told.command("git -C");
            assert!(
                command.contains("rm --cached -f -- ") && command.contains(".gitignore"),
                "{command}"
            );
            assert_eq!(bench.shell(command).code, 0, "{command}");
            assert!(
                !here.join("PWN").exists() && !here.join(".beads/PWN").exists(),
                "harm: {command}"
            );
            let left = fs::read(here.join(&path)).expect("still there");
            assert_eq!(left.len(), database().len() + 4096, "harm: {command}");
            bench.syncs("mended");
            assert!(
                bench.remote_has(".beads/mine.jsonl") && here.join(".beads/theirs.jsonl").exists()
            );
            let listed = bench.git(
                here,
                &[
                    "ls-files",
                    "--others",
                    "--exclude-standard",
                    "-z",
                    "--",
                    ".beads",
                ],
            );
            assert!(
                !listed.split('\0').any(|other| other == path),
                "the line of .gitignore does not name it: {listed:?}"
            );
            assert!(
                !bench
                    .git(here, &["ls-files", "-z"])
                    .split('\0')
                    .any(|other| other == path)
            );
        },
    );
}

/// Somebody pushes one: it does not come in, whatever its size.
#[test]
fn a_database_is_not_pulled() {
    let bench = Bench::new();
    let mut large = database();
    large.resize(12 << 20, 1);
    write(&bench.there().join(".beads/cache"), large);
    write(
        &bench.there().join(".beads/deep/small"),
        b"SQLite format 3\0",
    );
    write(&bench.there().join("b/.beads/other"), database());
    write(&bench.there().join(".beads/theirs.jsonl"), "{}\n");
    // Elsewhere it is somebody's own affair.
    write(&bench.there().join("src/test.db"), database());
    bench.git(bench.there(), &["add", "--force", "."]);
    bench.git(bench.there(), &["commit", "--quiet", "--message", "theirs"]);
    bench.git(bench.there(), &["push", "--quiet"]);
    bench.write(".beads/mine.jsonl", "{}\n");
    let told = bench.once();
    assert!(
        !bench.here().join(".beads/cache").exists(),
        "harm: it was pulled"
    );
    assert!(
        !bench.here().join("src/test.db").exists(),
        "harm: pulled beside it"
    );
    if stops_when_naive() {
        return;
    }
    told.ends_with(1, "theirs");
    told.says(
        "origin/main has .beads/cache, .beads/deep/small, b/.beads/other",
        "names them",
    );
    let mut typed = bench
        .scene()
        .shell(told.command("git --literal-pathspecs rm --cached"));
    typed.current_dir(bench.there());
    assert!(beadlock_tests::run(typed).status.success(), "{}", told.log);
    bench.git(bench.there(), &["commit", "--quiet", "--message", "mended"]);
    bench.git(bench.there(), &["push", "--quiet"]);
    bench.syncs("mended");
    assert!(
        bench.here().join("src/test.db").exists()
            && bench.here().join(".beads/theirs.jsonl").exists()
    );
}

/// A hook adds one, or it comes between the look and the commit.
#[test]
fn a_database_that_comes_meanwhile_is_not_committed() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let hook = "printf 'SQLite format 3\\0' >.beads/mine.jsonl; git add .beads/mine.jsonl";
    crate::bench::script(&bench.here().join(".git/hooks/pre-commit"), hook);
    bench.tempt();
    let head = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    let told = bench.once();
    told.ends_with(1, "a hook");
    told.says(
        ".beads/mine.jsonl has become an SQLite database meanwhile",
        "a hook",
    );
    assert_eq!(
        bench.git(bench.here(), &["rev-parse", "HEAD"]),
        head,
        "harm: committed"
    );
    assert!(!bench.remote_has(".beads/mine.jsonl"), "harm: pushed");
    bench.once();
    assert!(!bench.remote_has(".beads/mine.jsonl"), "harm: pushed");
}

/// What was looked at once is not looked at again in a cycle without changes.
#[test]
fn an_unchanged_file_is_not_read_in_every_cycle() {
    let Some(strace) = beadlock_tests::skip::tool("strace") else {
        return;
    };
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    for number in 0..50 {
        bench.write(
            &format!(".beads/issue-{number}.json"),
            format!("{{\"id\":\"an issue, number {number}\"}}\n"),
        );
    }
    bench.syncs("fifty files");
    let trace = bench.path().join("trace");
    let agent = bench.agent(&["--interval", "30ms", "--no-watch"]);
    let mut traced = bench.scene().command(&strace);
    traced
        .args([
            "-f",
            "-qq",
            "-e",
            "trace=openat,open",
            "-e",
            "signal=none",
            "-o",
        ])
        .arg(&trace);
    traced
        .arg(agent.get_program())
        .args(agent.get_args())
        .current_dir(bench.here());
    let before = bench.log().matches("Sync cycle complete").count();
    let traced = beadlock_tests::Running::start(traced);
    beadlock_tests::wait_until(beadlock_tests::wait::PATIENCE, "twelve cycles", || {
        bench.log().matches("Sync cycle complete").count() >= before + 12
    });
    let log = bench.log();
    let pid = log
        .rsplit(concat!(
            "Agent started: beadlock-agent ",
            env!("CARGO_PKG_VERSION"),
            ", PID "
        ))
        .next()
        .and_then(|rest| rest.split(',').next());
    let pid = pid
        .and_then(|pid| pid.parse().ok())
        .expect("the agent says its PID");
    let agent = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(agent, nix::sys::signal::Signal::SIGTERM).expect("the agent is there");
    traced.finish(beadlock_tests::wait::PATIENCE);
    let opened = fs::read_to_string(&trace).expect("the trace");
    // git opens those itself whose time it does not trust, and in another manner.
    let is_ours = |line: &&str| line.contains("O_NONBLOCK") && line.contains("O_NOFOLLOW");
    let ours: Vec<_> = opened.lines().filter(is_ours).collect();
    let of = |number: usize| {
        let name = format!("issue-{number}.json\"");
        ours.iter().filter(|line| line.contains(&name)).count()
    };
    assert!(
        // The agent itself looks at the contents of new files too: once, and ever more rarely.
        (0..50).all(|number| of(number) <= 5),
        "read again: {} times",
        of(0)
    );
    assert!(
        of(7) >= 1,
        "the control: the first cycle of an agent reads them"
    );
}
