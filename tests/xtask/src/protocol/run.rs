//! Runs named tests, each in a process of its own, so that what it says about being skipped is its own.

mod answer;
mod build;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

pub use answer::Answer;

use super::named::{Named, folder};
use super::sources::look_for;
use beadlock_testkit::Running;
use beadlock_testkit::skip::{checkout, in_path};

/// Longer than any test; one that hangs ends the whole run, with its command line.
const BOUND: Duration = Duration::from_secs(600);

/// Runs each test once, and returns its answer. Those that are not in the sources are not looked for in the binaries.
///
/// # Panics
///
/// When a test has not ended within ten minutes.
pub fn run(tests: &BTreeSet<Named>) -> BTreeMap<Named, Answer> {
    let mut answers = BTreeMap::new();
    let (mut cargo, mut bats) = (Vec::new(), BTreeMap::<&str, Vec<&Named>>::new());
    let mut python = BTreeMap::<&str, Vec<&Named>>::new();
    for test in tests {
        match (look_for(&checkout(), test), test) {
            (Err(why), _) => drop(answers.insert(test.clone(), Answer::Failed(why))),
            (Ok(()), Named::Cargo { .. }) => cargo.push(test),
            (Ok(()), Named::Bats { file, .. }) => bats.entry(file).or_default().push(test),
            (Ok(()), Named::Python { file, .. }) => python.entry(file).or_default().push(test),
        }
    }
    answers.extend(run_cargo(&cargo));
    for (file, tests) in bats {
        answers.extend(run_bats(file, &tests));
    }
    answers.extend(run_python(&python));
    answers
}

fn run_cargo(tests: &[&Named]) -> BTreeMap<Named, Answer> {
    let all = |why: String| {
        tests
            .iter()
            .map(|test| ((*test).clone(), Answer::Failed(why.clone())))
            .collect()
    };
    let binaries = match build::tests(tests) {
        Ok(binaries) => binaries,
        Err(why) => return all(why),
    };
    let left = Mutex::new(tests.iter());
    let answers = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let Some(test) = left.lock().expect("nobody panics with it").next() else {
                return;
            };
            let answer = match test {
                Named::Cargo {
                    package,
                    target,
                    path,
                } => match binaries.get(&(*package, target.clone())) {
                    None => Answer::Failed("cargo has built no such test binary".to_owned()),
                    Some(binary) => {
                        let mut command = Command::new(binary);
                        command.args(["--exact", path, "--show-output", "--color", "never"]);
                        // As cargo would: there, and with the package's own variables.
                        let folder = checkout().join(folder(package));
                        command
                            .env("CARGO_MANIFEST_DIR", &folder)
                            .current_dir(folder);
                        answer::of_cargo(path, &Running::start(command).finish(BOUND))
                    }
                },
                Named::Bats { .. } | Named::Python { .. } => continue,
            };
            answers
                .lock()
                .expect("nobody panics with it")
                .insert((*test).clone(), answer);
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..at_once() {
            threads.spawn(work);
        }
    });
    answers.into_inner().expect("nobody has panicked with it")
}

/// As many as the test runner would start, which the Makefile sets.
fn at_once() -> usize {
    let said = std::env::var("RUST_TEST_THREADS")
        .ok()
        .and_then(|number| number.parse().ok());
    said.filter(|number| *number > 0).unwrap_or(4)
}

/// One run of the file, with the directory of the programs in `$BEADLOCK_BIN`.
fn run_bats(file: &str, tests: &[&Named]) -> BTreeMap<Named, Answer> {
    let all = |answer: Answer| {
        tests
            .iter()
            .map(|test| ((*test).clone(), answer.clone()))
            .collect()
    };
    let Some(bats) = in_path("bats") else {
        return all(answer::skipped("needs bats"));
    };
    let programs = match build::programs() {
        Ok(programs) => programs,
        Err(why) => return all(Answer::Failed(why)),
    };
    let mut command = Command::new(bats);
    command
        .args(["--formatter", "tap", file])
        .current_dir(checkout())
        .env("BEADLOCK_BIN", programs);
    let output = Running::start(command).finish(BOUND);
    let answer = |test: &&Named| match test {
        Named::Bats { name, .. } => Some(((*test).clone(), answer::of_bats(name, &output))),
        Named::Cargo { .. } | Named::Python { .. } => None,
    };
    tests.iter().filter_map(answer).collect()
}

/// One run of all the files, by the script that builds the package.
fn run_python(files: &BTreeMap<&str, Vec<&Named>>) -> BTreeMap<Named, Answer> {
    if files.is_empty() {
        return BTreeMap::new();
    }
    let mut command = Command::new(checkout().join("scripts/python.sh"));
    // Where the line is too short, pytest leaves out why a test was skipped.
    command
        .arg("-vvv")
        .args(files.keys())
        .current_dir(checkout())
        .env("COLUMNS", "1000");
    let output = Running::start(command).finish(BOUND);
    let answer = |test: &Named| match test {
        Named::Python { file, name } => {
            Some((test.clone(), answer::of_python(file, name, &output)))
        }
        Named::Cargo { .. } | Named::Bats { .. } => None,
    };
    files
        .values()
        .flatten()
        .filter_map(|test| answer(test))
        .collect()
}
