//! Databases that talk to themselves: the log says so, and they slow down. Programs that are busy are left alone.

use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};
use nix::sys::signal::Signal;

use crate::play::{Played, gits};

/// How long a loop is watched once it is known.
const WATCHED: Duration = Duration::from_secs(6);

/// A hook that writes a stamp, another one each time.
const STAMP: &str = "date +%s%N >.beads/stamp.txt";

/// The first git in PATH; all of them with `ROWS_STRIDE=1`.
fn each_git(play: impl Fn(&Played)) {
    let mut gits = gits();
    if std::env::var_os("ROWS_STRIDE").is_none_or(|stride| stride != "1") {
        gits.truncate(1);
    }
    gits.iter().for_each(|git| play(&Played::begin(git)));
}

impl Played {
    /// A daemon of the clone's database, with quick cycles.
    fn daemon(&self, interval: &str) -> Running {
        let args = ["--debounce", "50ms", "--fetch-interval", "300ms"];
        let args = [&["--interval", interval], &args[..]].concat();
        Running::start(self.agent(&args))
    }

    fn notices(&self) -> Vec<String> {
        let log = self.log();
        let all = log.lines().filter_map(|line| line.split_once("] Notice: "));
        let all = all.map(|(_, notice)| notice.to_owned());
        // Other notices are not about loops.
        all.filter(|notice| notice.contains("another agent writes"))
            .collect()
    }

    fn commits(&self) -> usize {
        let ended = self.shell("git rev-list --count HEAD", "");
        ended.out.trim().parse().expect("a number")
    }

    /// The loop is told once, it slows down, and a person's change goes to the place at once.
    fn is_a_loop(&self, notice: &str) {
        wait_until(PATIENCE, "a notice", || !self.notices().is_empty());
        assert_eq!(self.notices(), [notice], "{}", self.log());
        let before = self.commits();
        std::thread::sleep(WATCHED);
        let since = self.commits() - before;
        assert!(
            since <= 1,
            "{since} commits in {WATCHED:?}:\n{}",
            self.log()
        );
        let ended = self.shell("append bd-person", "");
        assert_eq!(ended.code, 0, "{ended:?}");
        let begun = Instant::now();
        wait_until(PATIENCE, "the change at the place", || {
            self.shell("place .beads/issues.jsonl | grep -q bd-person", "")
                .code
                == 0
        });
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "a person waited for {:?}:\n{}",
            begun.elapsed(),
            self.log()
        );
    }
}

fn end(mut daemon: Running) {
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait(PATIENCE).success(), "the agent ends well");
}

#[test]
fn a_hook_that_writes_at_each_commit_or_push_is_told_and_slows_down() {
    for hook in ["post-commit", "pre-push"] {
        each_git(|played| {
            let ended = played.shell(&format!("hook .git {hook} '{STAMP}'; append bd-2"), "");
            assert_eq!(ended.code, 0, "{ended:?}");
            let daemon = played.daemon("500ms");
            played.is_a_loop(&format!(
                ".beads/stamp.txt changes at each sync; a hook ({hook}) or another agent writes it"
            ));
            end(daemon);
        });
    }
}

/// Each commit has another file, and the one before is gone.
#[test]
fn a_hook_that_makes_another_file_each_time_is_told_too() {
    each_git(|played| {
        let script = "rm -f .beads/stamp-*; date >.beads/stamp-$(date +%s%N).txt";
        let ended = played.shell(
            &format!("hook .git post-commit '{script}'; append bd-2"),
            "",
        );
        assert_eq!(ended.code, 0, "{ended:?}");
        let daemon = played.daemon("500ms");
        wait_until(PATIENCE, "a notice", || !played.notices().is_empty());
        let notices = played.notices();
        assert!(
            notices[0].contains("change at each sync; a hook (post-commit)"),
            "{notices:?}"
        );
        end(daemon);
    });
}

/// As a test does that measures how long a push takes. A hook that writes nothing changes nothing.
#[test]
fn a_script_that_waits_for_each_push_is_not_slowed_down() {
    each_git(|played| {
        let ended = played.shell("hook .git post-commit 'exit 0'", "");
        assert_eq!(ended.code, 0, "{ended:?}");
        let daemon = played.daemon("500ms");
        let begun = Instant::now();
        for n in 0..20 {
            let id = format!("quick-{n}");
            let pushed = format!("place $db | grep -q {id}");
            assert_eq!(played.shell(&format!("append {id}"), "").code, 0);
            wait_until(PATIENCE, "a push", || played.shell(&pushed, "").code == 0);
        }
        assert_eq!(played.notices(), Vec::<String>::new(), "{}", played.log());
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        end(daemon);
    });
}

#[test]
fn two_clones_that_format_what_comes_in_are_told() {
    each_git(|played| {
        let ended = played.shell(
            "hook .git post-checkout 'sort .beads/issues.jsonl >s && mv s .beads/issues.jsonl'
             hook ../b/.git post-checkout 'sort -r .beads/issues.jsonl >s && mv s .beads/issues.jsonl'
             for clone in . ../b; do cp $clone/.git/hooks/post-checkout $clone/.git/hooks/post-merge; done
             append bd-2",
            "",
        );
        assert_eq!(ended.code, 0, "{ended:?}");
        let daemon = played.daemon("500ms");
        let mut other = played.scene.agent(&["--db"]);
        other.arg(played.scene.path().join("b/.beads")).args([
            "--interval",
            "500ms",
            "--debounce",
            "50ms",
            "--fetch-interval",
            "300ms",
        ]);
        let other = Running::start(other);
        wait_until(PATIENCE, "a notice", || !played.notices().is_empty());
        let before = played.commits();
        std::thread::sleep(WATCHED);
        let since = played.commits() - before;
        assert!(since <= 6, "{since} commits:\n{}", played.log());
        let notices = played.notices();
        assert!(
            notices[0].starts_with(".beads/issues.jsonl ")
                && notices[0].contains("; a hook (post-"),
            "{notices:?}"
        );
        end(daemon);
        end(other);
    });
}

#[test]
fn a_busy_program_is_not_told_and_its_changes_go_on() {
    each_git(|played| {
        let busy = "n=0; while sleep 0.3; do n=$((n + 1)); echo $n >.beads/busy.txt; done";
        let mut command = played.scene.shell(busy);
        command.current_dir(played.top());
        let program = Running::start(command);
        let daemon = played.daemon("500ms");
        let before = played.commits();
        std::thread::sleep(WATCHED * 3);
        let since = played.commits() - before;
        assert_eq!(played.notices(), Vec::<String>::new(), "{}", played.log());
        assert!(
            since >= 10,
            "{since} commits in {:?}:\n{}",
            WATCHED * 3,
            played.log()
        );
        end(daemon);
        program.signal(Signal::SIGTERM);
        program.finish(PATIENCE);
    });
}
