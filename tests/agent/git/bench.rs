//! A repository with a database, its bare remote, a second clone with a second person, and an agent.
//!
//! `BEADLOCK_TEST_NAIVE=1` puts a naive sync script in the place of the git action, and words in the log do not count
//! then. A test that still fails has found harm, and so has shown what it is worth.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{
    Ended, Running, Scene, binaries, memory, part, run, skip, wait_until, write_program,
};
use nix::sys::signal::Signal;

use crate::snapshot::{Allowed, Snapshot};
use crate::tracked::OWN;

/// What is usually written to sync a directory through git.
pub const NAIVE: &str = "git add --all && { git commit --quiet --message sync; true; } && git pull --quiet --rebase --autostash && git push --quiet";

/// Remote `remote.git`, clones `here` (with the agent) and `there` (with somebody else), in a scene.
pub struct Bench {
    scene: Scene,
    here: PathBuf,
    /// For the agent alone.
    pub environment: Vec<(String, String)>,
    /// For the agent alone.
    pub options: Vec<String>,
}

/// What one run of the agent came to: its exit code, and the lines that it has added to the log, without times.
#[derive(Debug)]
pub struct Told {
    pub code: i32,
    pub log: String,
}

impl Bench {
    /// Both clones are equal, on `main`, and clean.
    pub fn new() -> Self {
        Self::named("here")
    }

    /// The agent's clone has this name.
    pub fn named(name: &str) -> Self {
        let bench = Self::without_repository(name);
        bench.git(bench.path(), &["init", "--quiet", "--bare", "remote.git"]);
        bench.git(bench.here(), &["init", "--quiet"]);
        for (path, text) in [
            ("README", "read me\n"),
            ("src/x.rs", "x one\nx two\nx three\n"),
            ("src/y.rs", "y one\n"),
            ("src/z.rs", "z one\n"),
            // No records: cases write whatever they like to it.
            (".beads/issues.jsonl", "bd-1\n"),
        ] {
            bench.write(path, text);
        }
        bench.git(bench.here(), &["add", "."]);
        bench.git(bench.here(), &["commit", "--quiet", "--message", "first"]);
        let remote = bench.remote().to_string_lossy().into_owned();
        bench.git(bench.here(), &["remote", "add", "origin", &remote]);
        bench.git(
            bench.here(),
            &["push", "--quiet", "--set-upstream", "origin", "main"],
        );
        bench.git(bench.path(), &["clone", "--quiet", "remote.git", "there"]);
        bench
    }

    /// `.beads` alone, in a directory of this name.
    pub fn without_repository(name: &str) -> Self {
        // Not on a disk: most of what a git does is to make files.
        let scene = Scene::below(&memory());
        fs::remove_dir_all(scene.beads()).expect("the scene's own database is in the way");
        fs::write(
            scene.path().join(".gitconfig"),
            "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n",
        )
        .expect("write .gitconfig");
        let here = scene.path().join(name);
        fs::create_dir_all(here.join(".beads")).expect("create .beads");
        Self {
            scene,
            here,
            environment: Vec::new(),
            options: Vec::new(),
        }
    }

    /// Where all of it is.
    pub fn path(&self) -> &Path {
        self.scene.path()
    }

    /// The scene, for programs that are none of git's.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The agent's clone.
    pub fn here(&self) -> &Path {
        &self.here
    }

    /// The other person's clone.
    pub fn there(&self) -> PathBuf {
        self.path().join("there")
    }

    /// The bare repository.
    pub fn remote(&self) -> PathBuf {
        self.path().join("remote.git")
    }

    /// Writes a file here, whole.
    #[track_caller]
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        write(&self.here.join(path), text);
    }

    /// A file's text here.
    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        let bytes =
            fs::read(self.here.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// `git ARGS` in a directory, ready to be run.
    pub fn git_command(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = self.scene.command("git");
        command
            .current_dir(dir)
            .env("GIT_EDITOR", "true")
            .args(args);
        command
    }

    /// What `git ARGS` prints, without the last newline.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn git(&self, dir: impl AsRef<Path>, args: &[&str]) -> String {
        let ended = self.try_git(dir, args);
        assert_eq!(ended.code, 0, "git {args:?}: {ended:?}");
        ended.out.trim_end_matches('\n').to_owned()
    }

    /// How `git ARGS` ends.
    #[track_caller]
    pub fn try_git(&self, dir: impl AsRef<Path>, args: &[&str]) -> Ended {
        run(self.git_command(dir.as_ref(), args)).into()
    }

    /// Runs a script of a person here.
    #[track_caller]
    pub fn shell(&self, script: &str) -> Ended {
        let mut command = self.scene.shell(script);
        command
            .current_dir(&self.here)
            .env("GIT_EDITOR", "true")
            .env("BEADLOCK", binaries::beadlock());
        let ended = Ended::from(run(command));
        assert!(ended.code <= 1, "{script}: {ended:?}");
        ended
    }

    /// Somebody commits these files there, and pushes. An empty text removes the file.
    #[track_caller]
    pub fn pushed_there(&self, files: &[(&str, &str)]) {
        self.git(self.there(), &["pull", "--quiet", "--rebase"]);
        for (path, text) in files {
            if text.is_empty() {
                self.git(self.there(), &["rm", "--quiet", "--", path]);
            } else {
                write(&self.there().join(path), text);
                self.git(self.there(), &["add", "--force", "--", path]);
            }
        }
        self.git(self.there(), &["commit", "--quiet", "--message", "theirs"]);
        self.git(self.there(), &["push", "--quiet"]);
    }

    /// Something to commit, something to pull: a refusal now is a resistance.
    #[track_caller]
    pub fn tempt(&self) {
        // No records: cases write whatever they like to these files later, and nothing of it is held back.
        self.write(".beads/mine.jsonl", "mine\n");
        self.pushed_there(&[(".beads/theirs.jsonl", "theirs\n")]);
    }

    /// The agent, with whatever a case has added.
    pub fn agent(&self, args: &[&str]) -> Command {
        let mut command = self.scene.agent(&["--db"]);
        command.arg(self.here.join(".beads")).args(args);
        match is_naive() {
            true => command.args(["--exec", NAIVE]),
            false => command.args(["--action", "git"]).args(&self.options),
        };
        // Each cycle asks the remote, but for cases that say otherwise.
        command.env("BEADLOCK_AGENT_FETCH_INTERVAL", "20ms");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// One cycle.
    #[track_caller]
    pub fn once(&self) -> Told {
        self.once_as(self.agent(&["--once"]))
    }

    /// What was said after the log was this long.
    pub fn told_since(&self, before: usize, ended: Ended) -> Told {
        let log = self.log();
        Told {
            code: ended.code,
            log: without_times(log.get(before..).unwrap_or(&log)) + &ended.err,
        }
    }

    /// As many cycles of a daemon, and its end.
    #[track_caller]
    pub fn cycles(&self, count: usize) -> Told {
        let before = self.log().len();
        let begun = |bench: &Self| {
            let log = bench.log();
            log.get(before..)
                .unwrap_or(&log)
                .matches("Starting sync cycle...")
                .count()
        };
        let daemon = Running::start(self.agent(&["--interval", "20ms", "--no-watch"]));
        wait_until(PATIENCE, &format!("{count} cycles"), || {
            begun(self) >= count
        });
        daemon.signal(Signal::SIGTERM);
        self.told_since(before, daemon.finish(PATIENCE).into())
    }

    /// The agent's log as it is now.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.here.join(".beads/daemon.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Repository, index and working tree here, and the refs of the remote.
    #[track_caller]
    pub fn snapshot(&self) -> Snapshot {
        let entries = ["ls-files", "--stage", "-v", "--debug", "--", ":!.beads"];
        let outside = self.try_git(&self.here, &entries).out;
        let remote = if self.remote().exists() {
            self.git(self.remote(), &["for-each-ref"])
        } else {
            String::new()
        };
        // One line an entry: the debug lines of git follow it, indented.
        let outside = outside.replace("\n  ", " ");
        Snapshot::take(&self.here, outside, remote)
    }

    /// # Panics
    /// When anything is different that is not allowed, with every difference.
    #[track_caller]
    pub fn untouched_since(&self, before: &Snapshot, allowed: Allowed, case: &str) {
        let differences = before.differences(&self.snapshot(), allowed);
        assert!(
            differences.is_empty(),
            "harm, {case}: {differences:#?}\nlog:\n{}",
            self.log()
        );
    }

    /// The agent refuses, once and for several cycles, with this line each time, and touches nothing.
    #[track_caller]
    pub fn refuses(&self, line: &str, case: &str) {
        let before = self.snapshot();
        let told = self.once();
        self.untouched_since(&before, Allowed::Fetch, case);
        told.says(line, case);
        told.ends_with(1, case);
        let told = self.cycles(2);
        self.untouched_since(&before, Allowed::Fetch, case);
        told.says(line, case);
    }

    /// The agent says this line once in several cycles. Each of them says that it did not do all there is to do: it is
    /// incomplete, or has failed with this code.
    #[track_caller]
    pub fn notes(&self, line: &str, code: i32, allowed: Allowed, case: &str) {
        let before = self.snapshot();
        let told = self.once();
        self.untouched_since(&before, allowed, case);
        told.says(line, case);
        told.ends_with(1, case);
        told.says(
            if code == 0 {
                "Sync cycle incomplete: "
            } else {
                "Sync cycle failed: "
            },
            case,
        );
        told.never_says("Sync cycle complete", case);
        let told = self.cycles(2);
        self.untouched_since(&before, allowed, case);
        told.says_once(line, case);
        told.never_says("Sync cycle complete", case);
    }

    /// A cycle brings both sides together: nothing of `.beads` is uncommitted, and the remote has all of it.
    #[track_caller]
    pub fn syncs(&self, case: &str) {
        let told = self.once();
        if stops_when_naive() {
            return;
        }
        assert_eq!(told.code, 0, "{case}: {}", told.log);
        self.is_synced(case);
    }

    /// Nothing of `.beads` is uncommitted, and the remote is where we are.
    #[track_caller]
    pub fn is_synced(&self, case: &str) {
        if stops_when_naive() {
            return;
        }
        let log = self.log();
        let status = self.git(
            &self.here,
            &[
                "status",
                "--porcelain",
                "--untracked-files=all",
                "--",
                ".beads",
                ":!*daemon.log*",
            ],
        );
        let is_own = |line: &&str| {
            OWN.iter()
                .chain(&["/redirect"])
                .any(|name| line.ends_with(name))
        };
        let left: Vec<_> = status.lines().filter(|line| !is_own(line)).collect();
        assert!(
            left.is_empty(),
            "{case}: not committed: {left:?}; log:\n{log}"
        );
        let head = self.git(&self.here, &["rev-parse", "HEAD"]);
        let main = self.git(self.remote(), &["rev-parse", "main"]);
        assert_eq!(head, main, "{case}: not where the remote is; log:\n{log}");
    }

    /// True when the remote's `main` has this file.
    pub fn remote_has(&self, path: &str) -> bool {
        self.try_git(self.remote(), &["cat-file", "-e", &format!("main:{path}")])
            .code
            == 0
    }

    /// The subjects of the commits here, the newest first.
    #[track_caller]
    pub fn subjects(&self) -> Vec<String> {
        self.git(&self.here, &["log", "--format=%s"])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// A script below the scene that leaves a mark and then does the rest. Its path; the mark is `path.called`.
    pub fn trap(&self, name: &str, rest: &str) -> String {
        let path = self.path().join(name);
        script(
            &path,
            &format!("echo \"$0 $*\" >>'{}.called'\n{rest}", path.display()),
        );
        path.to_string_lossy().into_owned()
    }

    /// How often a trap was called.
    pub fn called(&self, name: &str) -> usize {
        fs::read_to_string(self.path().join(format!("{name}.called")))
            .unwrap_or_default()
            .lines()
            .count()
    }
}

impl Told {
    #[track_caller]
    pub fn says(&self, line: &str, case: &str) {
        assert!(
            is_naive() || self.log.contains(line),
            "{case}: the log does not say {line:?}:\n{}",
            self.log
        );
    }

    #[track_caller]
    pub fn never_says(&self, line: &str, case: &str) {
        assert!(
            is_naive() || !self.log.contains(line),
            "{case}: the log says {line:?}:\n{}",
            self.log
        );
    }

    #[track_caller]
    pub fn says_once(&self, line: &str, case: &str) {
        let count = self.log.matches(line).count();
        assert!(
            is_naive() || count == 1,
            "{case}: the log says {line:?} {count} times:\n{}",
            self.log
        );
    }

    #[track_caller]
    pub fn ends_with(&self, code: i32, case: &str) {
        assert!(
            is_naive() || self.code == code,
            "{case}: exit code {}, not {code}:\n{}",
            self.code,
            self.log
        );
    }

    /// The command that the log says to type: from its first word to the end of the line.
    #[track_caller]
    pub fn command(&self, first_words: &str) -> &str {
        let line = self.log.lines().find(|line| line.contains(first_words));
        let line = line.unwrap_or_else(|| panic!("the log names no {first_words}:\n{}", self.log));
        &line[line.find(first_words).unwrap_or_default()..]
    }
}

/// True when a naive script is in the place of the git action.
pub fn is_naive() -> bool {
    std::env::var_os("BEADLOCK_TEST_NAIVE").is_some_and(|value| !value.is_empty())
}

/// The same for a test that asks nothing of that script, or nothing more: says so.
pub fn stops_when_naive() -> bool {
    let is_naive = is_naive();
    if is_naive {
        skip::cannot("asks no more of the naive script");
    }
    is_naive
}

/// Writes a file and the directories above it.
#[track_caller]
pub fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("create directories");
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Writes an executable shell script and the directories above it.
#[track_caller]
pub fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("create directories");
    write_program(path, format!("#!/bin/sh\n{text}\n").as_bytes());
}

/// Runs a case for each row of a table that this run tries ([`part`]), and names all that fail instead of the first.
#[track_caller]
pub fn each<T>(rows: &[T], name: impl Fn(&T) -> String, case: impl Fn(&T)) {
    let rows = part(rows);
    let mut failed = Vec::new();
    for row in &rows {
        let name = name(row);
        if let Err(why) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(row))) {
            let why = why
                .downcast_ref::<String>()
                .cloned()
                .or(why.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            failed.push(format!("== {name}\n{}", why.unwrap_or_default()));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} cases failed:\n{}",
        failed.len(),
        rows.len(),
        failed.join("\n")
    );
}

/// Every line without its `[YYYY-MM-DD HH:MM:SS] `.
fn without_times(log: &str) -> String {
    log.lines()
        .map(|line| {
            line.split_once("] ")
                .map_or(line, |(_, rest)| rest)
                .to_owned()
                + "\n"
        })
        .collect()
}

/// How long a case lets a cycle take that would otherwise hang.
pub const SHORT: Duration = Duration::from_secs(5);
