//! While nothing happens no git is started; whatever happens is seen; and the remote has a clock of its own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};
use nix::sys::signal::Signal;

use crate::bench::{Bench, script, stops_when_naive};

/// No fetch comes again in the time of a test.
const NEVER: &[&str] = &[
    "--interval",
    "50ms",
    "--debounce",
    "10ms",
    "--fetch-interval",
    "10h",
];

impl Bench {
    /// A git in front of git, for the agent: each call is a line in `calls`, and `fetch` does this before and after.
    fn count_calls(&mut self, around_fetch: [&str; 2]) {
        let path = std::env::var("PATH").expect("PATH");
        let bin = self.path().join("bin");
        let [before, after] = around_fetch;
        let count = format!(
            "export PATH='{path}'\ncd_calls='{0}/calls'\necho \"$*\" >>\"$cd_calls\"\n\
             case \" $* \" in *' fetch '*) {before}; git \"$@\"; code=$?; {after}; exit $code ;; esac\nexec git \"$@\"",
            self.path().display()
        );
        script(&bin.join("git"), &count);
        self.environment
            .push(("PATH".to_owned(), format!("{}:{path}", bin.display())));
    }

    /// The calls of git so far: the subcommand of each.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("calls")).unwrap_or_default();
        let subcommand = |line: &str| {
            let mut words = line.split(' ');
            while let Some(word) = words.next() {
                match word {
                    "-c" => drop(words.next()),
                    word if word.starts_with('-') => {}
                    word => return word.to_owned(),
                }
            }
            line.to_owned()
        };
        text.lines().map(subcommand).collect()
    }

    fn cycles_begun(&self) -> usize {
        self.log().matches("Starting sync cycle...").count()
    }

    fn wait_for_cycles(&self, count: usize) {
        let begun = self.cycles_begun();
        wait_until(PATIENCE, "more cycles", || {
            self.cycles_begun() >= begun + count
        });
    }

    /// Waits until this many cycles have needed no git.
    fn wait_for_rest(&self, count: usize) {
        let mut rested = (self.calls().len(), self.cycles_begun());
        wait_until(PATIENCE, "cycles without git", || {
            let (calls, cycles) = (self.calls().len(), self.cycles_begun());
            if calls != rested.0 {
                rested = (calls, cycles);
            }
            calls > 0 && cycles >= rested.1 + count
        });
    }

    fn at_remote(&self, path: &str) -> String {
        self.try_git(self.remote(), &["show", &format!("main:{path}")])
            .out
    }
}

#[test]
fn an_idle_cycle_starts_no_git_and_no_sync() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    bench.count_calls([":", ":"]);
    let args = [NEVER, &["--log-level", "debug"]].concat();
    let daemon = Running::start(bench.agent(&args));
    bench.wait_for_rest(20);
    let (calls, log) = (bench.calls(), bench.log());
    bench.wait_for_cycles(20);
    assert_eq!(bench.calls(), calls, "git was started");
    let since = &bench.log()[log.len()..];
    assert!(
        since.matches("Sync cycle complete").count() >= 19,
        "each cycle has its two lines:\n{since}"
    );
    assert!(
        !since.contains("incomplete") && !since.contains("failed"),
        "{since}"
    );
    daemon.signal(Signal::SIGTERM);
    let said = String::from_utf8_lossy(&daemon.finish(PATIENCE).stderr).into_owned();
    let (cycles, syncs) = (
        said.matches(" ended outcome=").count(),
        said.matches(" work ended ").count(),
    );
    assert!(
        cycles >= 40 && syncs + 40 <= cycles,
        "{syncs} syncs in {cycles} cycles"
    );
}

/// The state of the sync stays what it was, also a bad one.
#[test]
fn an_idle_cycle_tells_what_the_last_sync_has_found() {
    if stops_when_naive() {
        return;
    }
    for (how, line) in [
        (
            "git remote remove origin",
            "Sync cycle incomplete: there is no remote",
        ),
        (
            "git checkout -q --detach",
            "Sync cycle failed: HEAD is detached in ",
        ),
        ("mv .git ../away", "is in no git repository"),
    ] {
        let mut bench = Bench::new();
        bench.count_calls([":", ":"]);
        bench.shell(how);
        let daemon = Running::start(bench.agent(NEVER));
        bench.wait_for_rest(10);
        let log = bench.log();
        bench.wait_for_cycles(10);
        let since = &bench.log()[log.len()..];
        assert!(
            since.matches(line).count() >= 9 && !since.contains("complete\n"),
            "{how}:\n{since}"
        );
        daemon.signal(Signal::SIGTERM);
        daemon.finish(PATIENCE);
    }
}

/// Every kind of change leads to git again, and soon.
#[test]
fn what_changes_is_seen() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    bench.count_calls([":", ":"]);
    // By the clock alone: no watcher helps.
    let daemon = Running::start(bench.agent(&[NEVER, &["--no-watch"]].concat()));
    let see = |case: &str, change: &str, is_seen: &dyn Fn() -> bool| {
        bench.wait_for_rest(5);
        let calls = bench.calls().len();
        bench.shell(change);
        wait_until(PATIENCE, case, || bench.calls().len() > calls && is_seen());
    };
    let has =
        |path: &'static str, text: &'static str| move |bench: &Bench| bench.at_remote(path) == text;
    let one = has(".beads/issues.jsonl", "1\n");
    see("a file", "echo 1 >.beads/issues.jsonl", &|| one(&bench));
    let two = has(".beads/issues.jsonl", "2\n");
    see(
        "as long, with the time of before",
        "touch -r .beads/issues.jsonl ../t; echo 2 >.beads/issues.jsonl; touch -r ../t .beads/issues.jsonl",
        &|| two(&bench),
    );
    see(
        "a new file",
        "mkdir .beads/sub; echo 1 >.beads/sub/x",
        &|| bench.remote_has(".beads/sub/x"),
    );
    see("a file is gone", "rm .beads/sub/x", &|| {
        !bench.remote_has(".beads/sub/x")
    });
    see(
        "ignored",
        "echo '*.cache' >>.gitignore; git add .gitignore; git commit -qm ignore; git push -q",
        &|| true,
    );
    // Under a claim: between the reset and the push the agent would pull what the reset has dropped.
    let reset = "\"$BEADLOCK\" hold -q -- sh -c 'echo 1 >.beads/x.cache; git reset -q --hard HEAD~1; git push -qf'";
    see("no longer ignored", reset, &|| {
        bench.remote_has(".beads/x.cache")
    });
    let log = bench.log().len();
    see("another branch", "git switch -qc other", &|| {
        bench.log()[log..].contains("the branch other has no upstream")
    });
    see("back", "git switch -q main", &|| {
        bench.log().ends_with("Sync cycle complete\n")
    });
    see("packed", "git pack-refs --all", &|| true);
    let log = bench.log().len();
    see("a merge", "git rev-parse HEAD >.git/MERGE_HEAD", &|| {
        bench.log()[log..].contains("a merge is in progress")
    });
    see("its end", "rm .git/MERGE_HEAD", &|| {
        bench.log().ends_with("Sync cycle complete\n")
    });
    let log = bench.log().len();
    see("no repository", "mv .git ../away", &|| {
        bench.log()[log..].contains("is in no git repository")
    });
    see("again one", "mv ../away .git", &|| {
        bench.log().ends_with("Sync cycle complete\n")
    });
    bench.wait_for_rest(5);
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
    bench.is_synced("at the end");
}

/// A change does not ask for the settings again, unless their files have changed, or include others.
#[test]
fn settings_that_change_are_seen_by_the_next_change() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    bench.count_calls([":", ":"]);
    let hook = |name: &str| {
        script(
            &bench.path().join(name).join("post-commit"),
            &format!("echo {name} >>'{}/hooks'", bench.path().display()),
        )
    };
    ["one", "two", "three"].into_iter().for_each(hook);
    let hooks = || fs::read_to_string(bench.path().join("hooks")).unwrap_or_default();
    let daemon = Running::start(bench.agent(NEVER));
    let change = |n: usize| {
        bench.wait_for_rest(5);
        let before = bench.calls().len();
        bench.write(".beads/issues.jsonl", format!("{n}\n"));
        wait_until(PATIENCE, "a push", || {
            bench.at_remote(".beads/issues.jsonl") == format!("{n}\n")
        });
        bench.wait_for_rest(5);
        bench.calls()[before..].to_vec()
    };
    let asks = |calls: &[String]| calls.iter().any(|call| call == "config");
    assert!(!asks(&change(1)), "nothing has changed but the file");
    bench.shell("git config core.hooksPath ../one");
    change(2);
    assert_eq!(hooks(), "one\n");
    bench.shell("git config core.hooksPath ../two");
    change(3);
    assert_eq!(hooks(), "one\ntwo\n");
    assert!(!asks(&change(4)), "nothing has changed but the file, again");
    bench.shell("git config --unset core.hooksPath; git config -f ../more core.hooksPath ../two; git config include.path ../../more");
    assert!(asks(&change(5)), "an included file");
    bench.shell("git config -f ../more core.hooksPath ../three");
    assert!(asks(&change(6)), "an included file has no stamp");
    assert_eq!(hooks(), "one\ntwo\ntwo\ntwo\nthree\n");
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
}

/// A fetch that is due, and brings nothing, is all that is started. One that brings something is followed by a pull.
#[test]
fn a_fetch_comes_alone() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    bench.count_calls([":", ":"]);
    let daemon = Running::start(bench.agent(&[
        "--interval",
        "50ms",
        "--fetch-interval",
        "200ms",
        "--no-watch",
    ]));
    let mut seen = 0;
    wait_until(PATIENCE, "six fetches in a row", || {
        let calls = bench.calls();
        seen = calls.len();
        calls.len() >= 6 && calls[calls.len() - 6..].iter().all(|call| call == "fetch")
    });
    bench.wait_for_cycles(20);
    assert!(
        bench.calls()[seen..].iter().all(|call| call == "fetch"),
        "{:?}",
        &bench.calls()[seen..]
    );
    bench.pushed_there(&[(".beads/theirs.jsonl", "theirs\n")]);
    wait_until(PATIENCE, "a pull", || {
        bench.here().join(".beads/theirs.jsonl").exists()
    });
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
    bench.is_synced("pulled");
}

/// What is asked of the remote, when no fetch is due: nothing until somebody wants it.
#[test]
fn a_fetch_is_made_at_once_when_a_claim_ends_and_on_a_signal() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    bench.count_calls([":", ":"]);
    let daemon = Running::start(bench.agent(NEVER));
    bench.wait_for_rest(5);
    let has = |name: &str| bench.here().join(".beads").join(name).exists();
    bench.pushed_there(&[(".beads/one.jsonl", "theirs\n")]);
    bench.wait_for_cycles(10);
    assert!(!has("one.jsonl"), "the control: no fetch was due");
    daemon.signal(Signal::SIGUSR1);
    wait_until(PATIENCE, "a pull after the signal", || has("one.jsonl"));
    bench.wait_for_rest(5);
    bench.pushed_there(&[(".beads/two.jsonl", "theirs\n")]);
    bench.wait_for_cycles(10);
    assert!(!has("two.jsonl"), "the control: no fetch was due");
    let lock = bench.here().join(".beads/.exclusive-lock");
    fs::write(
        &lock,
        beadlock_tests::lock_text(
            "t",
            i64::from(std::process::id()),
            &beadlock_tests::this_host(),
        ),
    )
    .expect("claim");
    wait_until(PATIENCE, "a skip", || {
        bench.log().contains("Skipping database (locked by t)")
    });
    fs::remove_file(&lock).expect("release");
    wait_until(PATIENCE, "a pull after the claim", || has("two.jsonl"));
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
}

/// Files outside of the database are not watched. That they are clean again is seen with the next fetch.
#[test]
fn the_end_of_a_dirty_tree_is_noticed() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    bench.count_calls([":", ":"]);
    bench.shell("echo mine >>src/x.rs");
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    let daemon = Running::start(bench.agent(&[
        "--interval",
        "50ms",
        "--fetch-interval",
        "1s",
        "--no-watch",
    ]));
    wait_until(PATIENCE, "a refusal", || {
        bench
            .log()
            .contains("uncommitted changes outside .beads (src/x.rs)")
    });
    bench.wait_for_cycles(10);
    bench.shell("git checkout -q src/x.rs");
    // For a moment it is not there.
    let text = || std::fs::read_to_string(bench.here().join("src/x.rs")).unwrap_or_default();
    wait_until(PATIENCE, "a pull", || text() == "theirs\n");
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
}

/// Several databases with one remote: their fetches come one after the other, also the first ones.
#[test]
fn a_host_has_one_fetch_at_a_time() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    let busy = bench.path().join("busy").display().to_string();
    let both = bench.path().join("both").display().to_string();
    // A directory can be made by one of them only.
    let before = format!("mkdir '{busy}' || : >'{both}'; sleep 0.1");
    bench.count_calls([&before, &format!("rmdir '{busy}'")]);
    let others = ["second", "third", "fourth"];
    let mut agent = bench.agent(&[
        "--interval",
        "50ms",
        "--fetch-interval",
        "100ms",
        "--no-watch",
        "--jobs",
        "8",
    ]);
    for name in others {
        bench.git(bench.path(), &["clone", "--quiet", "remote.git", name]);
        agent
            .arg("--db")
            .arg(bench.path().join(name).join(".beads"));
    }
    let daemon = Running::start(agent);
    let fetches = || bench.calls().iter().filter(|call| *call == "fetch").count();
    wait_until(PATIENCE, "twenty fetches", || fetches() >= 20);
    bench.pushed_there(&[(".beads/theirs.jsonl", "theirs\n")]);
    let have_all = || {
        others
            .iter()
            .all(|name| bench.path().join(name).join(".beads/theirs.jsonl").exists())
    };
    wait_until(PATIENCE, "each has its turn", have_all);
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE + Duration::from_secs(5));
    assert!(!Path::new(&both).exists(), "two at once");
}

/// One changed file: at most nine gits, from the look to the push, and no fetch. Also for the first change after a
/// start, and for changes that come as fast as the agent pushes them.
#[test]
fn a_change_needs_few_gits() {
    if stops_when_naive() {
        return;
    }
    let mut bench = Bench::new();
    bench.count_calls([":", ":"]);
    let daemon = Running::start(bench.agent(&[
        "--interval",
        "1s",
        "--debounce",
        "300ms",
        "--fetch-interval",
        "10h",
    ]));
    let gits_of_a_change = |n: usize| {
        let before = bench.calls().len();
        bench.write(".beads/issues.jsonl", format!("{n}\n"));
        wait_until(PATIENCE, "a push", || {
            bench.at_remote(".beads/issues.jsonl") == format!("{n}\n")
        });
        let calls = bench.calls();
        // After its push the cycle before sets the index, and looks once more.
        let last_push = calls[..before].iter().rposition(|call| call == "push");
        let begun = last_push.map_or(before, |push| before.max(push + 3));
        let calls = calls[begun..].to_vec();
        assert!(!calls.contains(&"fetch".to_owned()), "a fetch: {calls:?}");
        calls
            .iter()
            .position(|call| call == "push")
            .expect("a push")
            + 1
    };
    bench.wait_for_rest(2);
    let mut counts = vec![gits_of_a_change(0)];
    counts.extend((1..=3).map(gits_of_a_change));
    bench.wait_for_rest(2);
    counts.extend((4..=6).map(gits_of_a_change));
    // With one for the versions of the record file.
    assert!(
        counts.iter().all(|count| *count <= 9),
        "{counts:?}: {:#?}",
        bench.calls()
    );
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
    bench.is_whole("changes");
}
