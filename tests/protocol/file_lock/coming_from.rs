//! Each row of docs/coming-from/flock.md is typed: the line of flock(1), and beadlock's, each alone and each beside the
//! other. The rows are those of util-linux's own tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use beadlock_tests::skip::{checkout, tool};
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, binaries, run, wait_until};

use crate::scene::Files;

/// A row of the page: what it is about, and the two lines.
struct Row {
    what: String,
    theirs: String,
    ours: String,
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(checkout().join("docs/coming-from/flock.md")).expect("the page");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let code = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
        Some(Row {
            what: cells.first()?.strip_prefix("| ")?.to_owned(),
            theirs: code(cells.get(1)?)?,
            ours: code(cells.get(2)?)?,
        })
    };
    page.lines().filter_map(row).collect()
}

/// What a line does while an exclusive lock is held by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// It waits, and works once the lock is free.
    Waits,
    /// It gives up at once, with flock's exit code and with ours.
    AtOnce(i32, i32),
    /// It gives up after a second.
    AfterASecond(i32, i32),
}

/// The file that is locked, and how the line meets a lock.
fn expected(what: &str) -> (&'static str, Busy) {
    match what {
        "wait for ever" | "exclusive" | "shared" | "close" | "command string" | "fd form" => {
            ("x.lock", Busy::Waits)
        }
        "non-block" => ("x.lock", Busy::AtOnce(1, 8)),
        "conflict code" => ("x.lock", Busy::AtOnce(123, 123)),
        "time check" => ("x.lock", Busy::AfterASecond(1, 8)),
        "directory" => ("src", Busy::Waits),
        other => panic!("nobody has said what the row {other:?} promises"),
    }
}

/// A scene with a `make` that notes that it ran, and works for as long as there is a file `busy`.
struct Place(Files);

impl Place {
    fn new() -> Self {
        let files = Files::new();
        fs::create_dir(files.path("tools")).expect("a directory for make");
        fs::create_dir(files.path("src")).expect("a directory to lock");
        let script = "#!/bin/sh\necho >>made\nwhile [ -e busy ]; do sleep 0.02; done\n";
        beadlock_tests::write_program(&files.path("tools/make"), script.as_bytes());
        Self(files)
    }

    fn line(&self, line: &str) -> std::process::Command {
        let mut command = self.0.scene.command("bash");
        let path = format!(
            "{}:{}:{}",
            self.0.path("tools").display(),
            binaries::directory().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        command.args(["-c", line]).env("PATH", path);
        command
    }

    #[track_caller]
    fn typed(&self, line: &str) -> Ended {
        run(self.line(line)).into()
    }

    /// The line, once its `make` is at work.
    #[track_caller]
    fn at_work(&self, line: &str) -> Running {
        self.0.scene.write("busy", "");
        let before = self.made();
        let running = Running::start(self.line(line));
        wait_until(PATIENCE, line, || self.made() > before);
        running
    }

    #[track_caller]
    fn done(&self, running: Running) {
        fs::remove_file(self.0.path("busy")).expect("it is busy");
        let ended = Ended::from(running.finish(PATIENCE));
        assert_eq!(ended.code, 0, "{ended:?}");
    }

    fn made(&self) -> usize {
        self.0.read("made").lines().count()
    }

    /// Whether flock(1) can have the lock.
    #[track_caller]
    fn may(&self, mode: &str, locked: &str) -> bool {
        self.typed(&format!("flock -n {mode} {locked} true")).code == 0
    }

    /// Whether beadlock can have the lock.
    #[track_caller]
    fn may_ours(&self, mode: &str, locked: &str) -> bool {
        let line = format!("beadlock -q hold --no-wait {mode} flock:{locked} -- true");
        let ended = self.typed(&line);
        assert!(matches!(ended.code, 0 | 8), "{ended:?}");
        ended.code == 0
    }
}

#[test]
fn each_line_locks_for_flock_and_for_beadlock() {
    let (Some(_), Some(_)) = (tool("bash"), tool("flock")) else {
        return;
    };
    let rows = rows();
    assert!(
        rows.len() >= 10,
        "few rows, or none was seen: {}",
        rows.len()
    );
    std::thread::scope(|scope| {
        for row in &rows {
            scope.spawn(move || {
                let (locked, _) = expected(&row.what);
                for line in [&row.theirs, &row.ours] {
                    let place = Place::new();
                    let working = place.at_work(line);
                    let is_shared = row.what == "shared";
                    assert_eq!(place.may("-s", locked), is_shared, "{line}");
                    assert_eq!(place.may_ours("--shared", locked), is_shared, "{line}");
                    assert!(!place.may("-x", locked), "{line}");
                    assert!(!place.may_ours("", locked), "{line}");
                    place.done(working);
                    // Also what it leaves behind does not keep it.
                    assert!(place.may("-x", locked), "{line}");
                    assert!(place.may_ours("", locked), "{line}");
                }
            });
        }
    });
}

#[test]
fn each_line_meets_the_lock_of_the_other() {
    let (Some(_), Some(_)) = (tool("bash"), tool("flock")) else {
        return;
    };
    let rows = rows();
    std::thread::scope(|scope| {
        for row in &rows {
            scope.spawn(move || {
                let (locked, busy) = expected(&row.what);
                let holders = [
                    format!("flock -F {locked} sleep 600"),
                    format!("beadlock hold flock:{locked} -- sleep 600"),
                ];
                for (line, is_ours) in [(&row.theirs, false), (&row.ours, true)] {
                    for holder in &holders {
                        meets(line, is_ours, holder, (locked, busy));
                    }
                }
            });
        }
    });
}

/// Types `line` while `holder` has the lock.
fn meets(line: &str, is_ours: bool, holder: &str, (locked, busy): (&str, Busy)) {
    let place = Place::new();
    let holding = Running::start(place.line(&format!("exec {holder}")));
    wait_until(PATIENCE, holder, || !place.may("-s", locked));
    let begun = Instant::now();
    let mut typed = Running::start(place.line(line));
    if busy == Busy::Waits {
        while begun.elapsed() < Duration::from_millis(1500) {
            assert!(typed.is_running(), "{line} beside {holder}: it waits");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(place.made(), 0, "{line} beside {holder}");
        // A holder that is killed leaves nothing behind that is in the way.
        drop(holding);
    }
    let ended = Ended::from(typed.finish(PATIENCE));
    let took = begun.elapsed();
    let (wanted, made) = match busy {
        Busy::Waits => (0, true),
        Busy::AtOnce(theirs, ours) | Busy::AfterASecond(theirs, ours) => {
            (if is_ours { ours } else { theirs }, false)
        }
    };
    assert_eq!(
        (ended.code, place.made() > 0),
        (wanted, made),
        "{line} beside {holder}: {ended:?}"
    );
    if matches!(busy, Busy::AfterASecond(..)) {
        assert!(took >= Duration::from_secs(1), "{line}: {took:?}");
    }
}

#[test]
fn a_read_only_directory_is_locked_and_a_missing_one_is_made_as_advised() {
    let (Some(_), Some(_)) = (tool("bash"), tool("flock")) else {
        return;
    };
    let place = Place::new();
    let src = place.0.path("src");
    fs::set_permissions(&src, fs::Permissions::from_mode(0o555)).expect("chmod");
    if let Some(hold) =
        place
            .0
            .scene
            .beadlock_as_mortal(&["hold", "flock:src", "--", "flock", "-n", "src", "true"])
    {
        let ended = Ended::from(run(hold));
        assert_eq!(ended.code, 1, "flock(1) is kept out: {ended:?}");
    }
    for target in [
        "flock:no/where/x.lock",
        "lock:no/where/x.lock",
        "file:no/where/x",
    ] {
        let place = Place::new();
        let hold = format!("beadlock hold {target} -- make");
        let ended = place.typed(&hold);
        assert_eq!(ended.code, 1, "{ended:?}");
        let (_, advice) = ended
            .err
            .trim_end()
            .split_once("make it first: ")
            .expect(&ended.err);
        assert!(advice.starts_with("mkdir -p "), "{advice}");
        assert_eq!(place.typed(advice).code, 0, "{advice}");
        let ended = place.typed(&hold);
        assert_eq!((ended.code, place.made()), (0, 1), "{ended:?}");
    }
}
