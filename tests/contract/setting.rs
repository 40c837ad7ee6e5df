//! Scenes for command lines, and the table of lines that is played in them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use beadlock_tests::{
    Ended, Running, Scene, binaries, dead_pid, run, runs, sleeper, this_host, until,
};
use nix::fcntl::{AT_FDCWD, Flock, FlockArg};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use crate::answer;
use crate::book::Book;
use crate::hide::{Known, hidden};

/// A lock of two days and a half hour ago: its age in words is the same for half an hour.
pub fn old_lock(holder: &str, pid: i64, hostname: &str) -> String {
    let started = (jiff::Timestamp::now() - OLD)
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let record = serde_json::json!({
        "holder": holder, "pid": pid, "hostname": hostname, "started_at": started, "version": "1.0.0",
    });
    format!("{record:#}\n")
}

const OLD: jiff::SignedDuration = jiff::SignedDuration::from_mins(48 * 60 + 30);

/// A scene, what is alive in it, and which of its values a snapshot hides.
pub struct Setting {
    pub scene: Scene,
    pub known: Known,
    pub variables: Vec<(&'static str, String)>,
    alive: Vec<Running>,
}

impl Setting {
    /// A database that nobody claims.
    pub fn free() -> Self {
        let scene = Scene::new();
        // Some answers have the path as it was given, others without the links in it.
        let whole = fs::canonicalize(scene.path()).expect("the scene's path");
        let paths = [&whole, scene.path()].map(|path| (path.display().to_string(), "SCENE"));
        let known = Known {
            values: paths.into(),
            ..Known::default()
        };
        Self {
            scene,
            known,
            variables: Vec::new(),
            alive: Vec::new(),
        }
    }

    /// Claimed by `release-job`, whose process lives: `sleep 300`.
    pub fn held() -> Self {
        let mut setting = Self::free();
        let pid = setting.holder();
        setting
            .scene
            .write_lock(old_lock("release-job", pid, &this_host()));
        setting
    }

    /// Left by `release-job`, whose process is gone.
    pub fn stale() -> Self {
        let setting = Self::free();
        setting
            .scene
            .write_lock(old_lock("release-job", dead_pid().into(), &this_host()));
        setting
    }

    /// Claimed on another host.
    pub fn elsewhere() -> Self {
        let setting = Self::free();
        setting
            .scene
            .write_lock(old_lock("release-job", 4711000, "build-7"));
        setting.given("4711000")
    }

    /// With these bytes as the lock file.
    pub fn of(lock: impl AsRef<[u8]>) -> Self {
        let setting = Self::free();
        setting.scene.write_lock(lock);
        setting
    }

    /// With the gate taken by a process, `sleep 300`.
    pub fn with_the_gate_shut(self) -> Self {
        self.locked_by_a_process("exec 9<.beads", ".beads")
    }

    /// With this file in it.
    pub fn with(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        self.scene.write(name, text);
        self
    }

    /// With values in it that are the same in every run, and so are not hidden.
    pub fn given(mut self, text: impl Into<String>) -> Self {
        self.known.given.push(text.into());
        self
    }

    /// With values of this kind that are the same in every run, and so are not hidden.
    pub fn fixed(mut self, word: &'static str) -> Self {
        self.known.fixed.push(word);
        self
    }

    /// With an flock of a process, `sleep 300`, on this file.
    pub fn flocked(self, name: &str) -> Self {
        self.scene.write(name, "");
        self.locked_by_a_process(&format!("exec 9>>{name}"), name)
    }

    /// The process that is named as its holder is to be the same in every run, so it is not this test.
    fn locked_by_a_process(mut self, open: &str, name: &str) -> Self {
        let holder = self
            .scene
            .shell(&format!("{open}; flock 9; exec sleep 300"));
        self.alive.push(Running::start(holder));
        until("the flock is taken", || {
            let file = File::open(self.scene.file(name)).expect("open it");
            Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err()
        });
        let pid = self.alive.last().map_or(0, Running::pid);
        until("the shell is sleep", || runs(pid, &["sleep", "300"]));
        self
    }

    /// With this variable for every line.
    pub fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// The PID of a process that lives as long as the setting.
    pub fn holder(&mut self) -> i64 {
        let holder = sleeper();
        let pid = holder.pid();
        self.alive.push(holder);
        pid.into()
    }

    /// The line in a shell, with the programs in its PATH.
    pub fn command(&self, line: &str) -> Command {
        age_all(self.scene.path());
        let mut command = self.scene.shell(line);
        // A directory that cannot be looked into would make "not found" a "not permitted".
        let path = std::env::var_os("PATH").unwrap_or_default();
        let open = std::env::split_paths(&path).filter(|dir| fs::read_dir(dir).is_ok());
        let programs = [binaries::directory().to_path_buf()]
            .into_iter()
            .chain(open);
        command.env(
            "PATH",
            std::env::join_paths(programs).expect("directories of a PATH"),
        );
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        command
    }

    /// How the line ends in a shell.
    pub fn run(&self, line: &str) -> Ended {
        run(self.command(line)).into()
    }
}

/// All below a directory was last written as long ago as the locks say: what was written just now may still be changed,
/// and beadlock would wait for that.
fn age_all(dir: &Path) {
    let then = TimeSpec::from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            - OLD.unsigned_abs(),
    );
    for entry in fs::read_dir(dir).expect("list the scene").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            age_all(&entry.path());
        }
        utimensat(
            AT_FDCWD,
            &entry.path(),
            &then,
            &then,
            UtimensatFlags::NoFollowSymlink,
        )
        .expect("set its time");
    }
}

/// A name and a command line.
pub type Line = (&'static str, &'static str);

/// Plays each line in a setting of its own, and pins the answer by the name of the line. A line that is one `beadlock` is
/// played with `--json` besides, and that answer pinned as `contract-NAME.json`.
#[track_caller]
pub fn play(room: &str, setting: impl Fn() -> Setting + Sync, lines: &[Line]) {
    let mut book = Book::open(room);
    for ((name, _), (text, json)) in lines.iter().zip(answers(&setting, lines)) {
        book.pin(name, &text);
        if let Some(json) = json {
            let name = name.strip_prefix("contract-").unwrap_or(name);
            book.pin(&format!("contract-{name}.json"), &json);
        }
    }
    book.close();
}

/// The line with `--json`; none for a line that is not one `beadlock`.
pub fn with_json(line: &str) -> Option<String> {
    let rest = line
        .strip_prefix("beadlock ")
        .or((line == "beadlock").then_some(""))?;
    (!rest.contains([';', '|'])).then(|| format!("beadlock --json {rest}").trim_end().to_owned())
}

/// The answers to each line, and to the line with `--json`; some lines at once.
fn answers(
    setting: &(impl Fn() -> Setting + Sync),
    lines: &[Line],
) -> Vec<(String, Option<String>)> {
    let one = |line: &str| {
        let answer = |line: &str, show: fn(&str, &Ended) -> String| {
            let setting = setting().given(line);
            hidden(&show(line, &setting.run(line)), &setting.known)
        };
        (
            answer(line, answer::whole),
            with_json(line).map(|line| answer(&line, answer::envelope)),
        )
    };
    at_once(lines, |(_, line)| one(line))
}

/// The results of all rows, in their order; some rows at once.
pub fn at_once<R: Sync, T: Send>(rows: &[R], one: impl Fn(&R) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = BTreeMap::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(at) else { return done };
            done.insert(at, one(row));
        }
    };
    let mut all = BTreeMap::new();
    std::thread::scope(|threads| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| threads.spawn(some)).collect();
        threads
            .into_iter()
            .for_each(|thread| all.append(&mut thread.join().expect("the answers of a thread")));
    });
    all.into_values().collect()
}

/// Most lines take a few milliseconds; some wait for seconds.
const AT_ONCE: usize = 4;
