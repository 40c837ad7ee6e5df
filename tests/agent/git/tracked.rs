//! A tracked lock, log or side file stops everything: a pull would delete a live lock.

use std::fs;

use crate::bench::{Bench, each, stops_when_naive};
use crate::snapshot::Allowed;

/// The daemon's own names, and SQLite's.
pub const OWN: &[&str] = &[
    ".exclusive-lock",
    ".exclusive-lock.aside",
    ".exclusive-lock.tmp-1-abcdef",
    "daemon.log",
    "daemon.log.1",
    "daemon.lock",
    "daemon.pid",
    "bd.sock",
    "beads.db-wal",
    "beads.db-shm",
    "beads.db-journal",
];

/// Where a file is tracked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum In {
    Head,
    Index,
    Upstream,
}

fn rows() -> Vec<(&'static str, In)> {
    let everywhere = |place: In| OWN.iter().map(move |name| (*name, place));
    let mut rows: Vec<_> = everywhere(In::Head).collect();
    // The kinds are one list to the agent; that it looks in all three places is seen by a few.
    rows.extend(everywhere(In::Index).step_by(4));
    rows.extend(everywhere(In::Upstream).step_by(4));
    rows
}

fn track(bench: &Bench, path: &str, place: In) {
    let here = bench.here();
    match place {
        In::Head => {
            bench.write(path, "tracked\n");
            bench.git(here, &["add", "--force", "--", path]);
            bench.git(here, &["commit", "--quiet", "--message", "by mistake"]);
            bench.git(here, &["push", "--quiet"]);
        }
        In::Index => {
            bench.write(path, "tracked\n");
            bench.git(here, &["add", "--force", "--", path]);
        }
        In::Upstream => bench.pushed_there(&[(path, "tracked\n")]),
    }
    // A lock that is there would be a claim, and the check would stop the cycle before the action is asked.
    if path.contains("exclusive-lock") && place != In::Upstream {
        fs::remove_file(here.join(path)).expect("remove the file");
    }
}

/// The database that SQLite's files are beside: without it they are a person's. git ignores it.
fn of_sqlite_beside(bench: &Bench) {
    bench.write(".beads/beads.db", "");
    bench.shell("echo /.beads/beads.db >>.git/info/exclude");
}

#[test]
fn a_tracked_file_of_ours_stops_everything() {
    each(
        &rows(),
        |row| format!("{row:?}"),
        |(name, place)| {
            let bench = Bench::new();
            let path = format!(".beads/{name}");
            of_sqlite_beside(&bench);
            track(&bench, &path, *place);
            bench.tempt();
            let before = bench.snapshot();
            let told = bench.once();
            let allowed = if *place == In::Upstream {
                Allowed::Sync
            } else {
                Allowed::Fetch
            };
            bench.untouched_since(&before, allowed, "once");
            if *place == In::Upstream {
                assert!(
                    !bench.here().join(&path).exists(),
                    "harm: {path} was pulled"
                );
                assert!(
                    !bench.here().join(".beads/theirs.jsonl").exists(),
                    "harm: pulled beside {path}"
                );
            }
            if stops_when_naive() {
                return;
            }
            told.ends_with(1, "once");
            told.says(&path, "names the file");
            // What comes next is the same for every name.
            if *place == In::Head && *name != OWN[0] && *name != "daemon.log" {
                return;
            }
            let before = bench.snapshot();
            bench.cycles(2).says(&path, "names it again");
            bench.untouched_since(&before, Allowed::Fetch, "several cycles");
            mend(&bench, *place, told.command("git "));
            bench.syncs("mended");
            assert!(
                bench.here().join(".beads/theirs.jsonl").exists(),
                "not pulled after it was mended"
            );
            assert!(!bench.remote_has(&path), "{path} is still tracked");
            assert!(bench.remote_has(".beads/mine.jsonl"));
        },
    );
}

/// Types what the log says: here, or where it was committed.
fn mend(bench: &Bench, place: In, command: &str) {
    assert!(command.contains("rm --cached"), "{command}");
    if place == In::Upstream {
        let mut typed = bench.scene().shell(command);
        typed.current_dir(bench.there());
        assert!(beadlock_tests::run(typed).status.success(), "{command}");
        bench.git(bench.there(), &["commit", "--quiet", "--message", "mended"]);
        bench.git(bench.there(), &["push", "--quiet"]);
    } else {
        assert_eq!(bench.shell(command).code, 0, "{command}");
    }
}

/// A pull that deletes it is the harm in question: here with a claim that lives.
#[test]
fn a_live_lock_survives_that_upstream_stops_tracking_it() {
    let bench = Bench::new();
    let lock = ".beads/.exclusive-lock";
    track(&bench, lock, In::Head);
    bench.git(bench.here(), &["checkout", "--quiet", "--", lock]);
    bench.git(bench.there(), &["pull", "--quiet"]);
    bench.pushed_there(&[(lock, "")]);
    let record = beadlock_tests::lock_text(
        "alive",
        std::process::id().into(),
        &beadlock_tests::this_host(),
    );
    bench.write(lock, &record);
    let told = bench.once();
    assert_eq!(bench.read(lock), record);
    told.ends_with(4, "claimed");
}

/// Whether or not .gitignore names them.
#[test]
fn files_of_ours_are_never_committed() {
    let bench = Bench::new();
    for name in OWN.iter().filter(|name| !name.contains("exclusive-lock")) {
        bench.write(&format!(".beads/{name}"), "ours\n");
    }
    of_sqlite_beside(&bench);
    bench.write(".beads/deeper/notes.jsonl", "theirs\n");
    bench.write(".beads/daemonlog", "theirs\n");
    bench.tempt();
    bench.once();
    bench.cycles(2);
    let tracked = bench.git(
        bench.here(),
        &["ls-tree", "-r", "--name-only", "HEAD", "--", ".beads"],
    );
    let mut tracked: Vec<_> = tracked.lines().collect();
    tracked.sort_unstable();
    let names = [
        "daemonlog",
        "deeper/notes.jsonl",
        "issues.jsonl",
        "mine.jsonl",
        "theirs.jsonl",
    ];
    assert_eq!(tracked, names.map(|name| format!(".beads/{name}")), "harm");
    bench.is_synced("beside files of ours");
}
