//! The library, and what it is in Python, beside Python's `filelock`, in a loop that Python times itself: no start of
//! an interpreter is in it.
//!
//! `filelock` is installed into an environment below the target directory, as `requirements.txt` pins it, from
//! wherever pip takes its packages; and so is `integration/python`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use beadlock_checker::should_skip_database;
use beadlock_core::record::beads::Record;
use beadlock_tests::Spread;

use super::calls::enter_and_leave;
use super::ratio::{Batch, Clock, Ratios};
use super::table::{Table, Unit, target_dir};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/limits/python.py");
const PINNED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/limits/requirements.txt"
);

/// How often at a time, in Python: some milliseconds.
const TIMES: u32 = 300;

pub fn measure(table: &mut Table) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let dir = root.path().join(".beads");
    fs::create_dir(&dir).expect("a database");
    let (cycle, check) = (
        "Cycle::enter and leave, no lock",
        "should_skip_database, a live lock of five fields",
    );
    let python = match installed() {
        Ok(python) => python,
        Err(why) => {
            for figure in [cycle, check] {
                table.not_here(&format!("{figure}, beside Python"), &why);
            }
            return;
        }
    };
    let mut beside = |figure: &str, words: &str, what: &str, mut ours: &dyn Fn()| {
        let mut theirs = Python::start(&python, what, &dir);
        let mut ours = Batch::of(Clock::Thread, &mut ours);
        let found = Ratios::between(table.runs(), 5, || ours.seconds(), || theirs.seconds());
        table.ratios(figure, words, None, &found);
    };
    beside(cycle, "Python: filelock, timeout=0", "cycle", &|| {
        enter_and_leave(&dir)
    });
    let five = Record {
        beadlock: None,
        ..Record::new("make release", "1.2.3").expect("a record")
    };
    fs::write(dir.join(".exclusive-lock"), five.to_json()).expect("a lock");
    beside(check, "Python: json.load, os.kill", "check", &|| {
        assert!(should_skip_database(&dir).is_skip())
    });
    in_python(table, &python, &dir);
}

/// A claim of a lock at a path that is released at once. Most of it is the sync, if there is one.
const TURN: &str = "Python: Lock(\"lock:PATH\", durable=False), acquire and release, p50";

/// The package beside it, in two interpreters.
fn in_python(table: &mut Table, python: &Path, dir: &Path) {
    let figures = [
        (
            "Python: should_skip_database, a live lock of five fields",
            "our-check",
            "json.load, os.kill",
            "check",
        ),
        (
            "Python: Cycle.enter and leave, no lock",
            "our-cycle",
            "filelock, timeout=0",
            "cycle",
        ),
        (
            "Python: FileLock.acquire and release",
            "our-lock",
            "filelock, timeout=0",
            "cycle",
        ),
    ];
    let there = install_ours(python);
    for (figure, ours, beside, theirs) in figures {
        if let Err(why) = &there {
            table.not_here(figure, why);
            continue;
        }
        // The first is about a lock, which the others do without.
        if ours != "our-check" {
            let _ = fs::remove_file(dir.join(".exclusive-lock"));
        }
        let (mut ours, mut theirs) = (
            Python::start(python, ours, dir),
            Python::start(python, theirs, dir),
        );
        let found = Ratios::between(table.runs(), 5, || ours.seconds(), || theirs.seconds());
        table.ratios(figure, &format!("Python: {beside}"), None, &found);
    }
    match there {
        Ok(()) => {
            let mut python = Python::start(python, "our-turn", dir);
            let count = 100 * table.runs();
            let found = Spread::of((0..count).map(|_| python.seconds_of(1)));
            table.value(
                TURN,
                Unit::Seconds,
                Some(0.0005),
                found.median(),
                Some(&found),
            );
        }
        Err(why) => table.not_here(TURN, &why),
    }
}

/// Builds and installs the package, or says why not.
fn install_ours(python: &Path) -> Result<(), String> {
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../integration/python");
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--force-reinstall",
        "--no-deps",
    ]);
    run(pip.arg(package).env("CARGO_TARGET_DIR", target_dir()))
}

/// The interpreter that has `filelock`, or why there is none.
pub fn installed() -> Result<PathBuf, String> {
    let environment = target_dir().join("filelock");
    let python = environment.join("bin/python3");
    if !python.exists() {
        run(Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment))?;
    }
    let options = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
    ];
    run(Command::new(&python).args(options).arg(PINNED))?;
    Ok(python)
}

/// Why it failed, in a line.
fn run(command: &mut Command) -> Result<(), String> {
    let words = format!("{command:?}");
    let ended = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{words}: {error}"))?;
    let talk = String::from_utf8_lossy(&ended.stderr);
    let last = talk
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it failed");
    if ended.status.success() {
        Ok(())
    } else {
        Err(format!("{words}: {last}"))
    }
}

/// An interpreter that measures what it does.
struct Python {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start(python: &Path, what: &str, dir: &Path) -> Self {
        let mut command = Command::new(python);
        command.env_clear().arg(SCRIPT).arg(what).arg(dir);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let (asks, answers) = (
            child.stdin.take().expect("a pipe"),
            child.stdout.take().expect("a pipe"),
        );
        Self {
            child,
            asks,
            answers: BufReader::new(answers),
        }
    }

    /// Seconds that one time takes.
    fn seconds(&mut self) -> f64 {
        self.seconds_of(TIMES)
    }

    /// Seconds that one of so many times takes.
    fn seconds_of(&mut self, times: u32) -> f64 {
        writeln!(self.asks, "{times}").expect("Python reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("Python answers");
        line.trim().parse::<f64>().expect("seconds") / f64::from(times)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
