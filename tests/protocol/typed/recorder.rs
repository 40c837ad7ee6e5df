//! A shell that finds nothing but recorders: each writes down the words that it was called with.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_base::escape::is_harmless;
use beadlock_tests::{run, write_program};
use tempfile::TempDir;

/// A program and its arguments.
pub type Argv = Vec<OsString>;

/// What the lines may name, and `touch`, which a hostile name would run.
pub const PROGRAMS: [&str; 29] = [
    "git",
    "beadlock",
    "beadlock-agent",
    "ssh",
    "sudo",
    "ps",
    "kill",
    "chmod",
    "ls",
    "cat",
    "tail",
    "rm",
    "mkdir",
    "lsof",
    "docker",
    "namei",
    "nsenter",
    "sleep",
    "date",
    "zcat",
    "zstdcat",
    "xzcat",
    "bzcat",
    "mv",
    "cp",
    "readlink",
    "umount",
    "append",
    "touch",
];

/// Stands for `kill`, which shells have built in.
const KILL: &str = "command_kill";

const RECORDER: &str = r#"#!/bin/sh
printf '%s\0' "${0##*/}" "$#" "$@" >>"$RECORD"
"#;

/// A directory with the recorders, and what they have written.
pub struct Recorder {
    top: TempDir,
}

impl Recorder {
    pub fn new() -> Self {
        let top = tempfile::tempdir().expect("a temporary directory");
        let bin = top.path().join("bin");
        fs::create_dir_all(&bin).expect("make bin");
        fs::create_dir_all(top.path().join("here")).expect("make here");
        write_program(&bin.join(KILL), RECORDER.as_bytes());
        for name in PROGRAMS {
            fs::hard_link(bin.join(KILL), bin.join(name)).expect("link a recorder");
        }
        Self { top }
    }

    fn record(&self) -> PathBuf {
        self.top.path().join("record")
    }

    /// Pastes each line into `shell`. Returns what was called, in no certain order within a pipeline.
    ///
    /// # Panics
    /// When a line is not one line, or the shell complains, or leaves a file behind.
    #[track_caller]
    pub fn paste(&self, shell: &str, lines: &[String]) -> Vec<Argv> {
        for line in lines {
            assert!(
                line.chars().all(is_harmless),
                "it is not one line of visible characters: {line:?}"
            );
        }
        let _ = fs::remove_file(self.record());
        let here = self.top.path().join("here");
        let script = self.top.path().join("script");
        // Built-in commands of these names would not be recorded.
        fs::write(
            &script,
            format!(":\n{}\n", lines.join("\n")).replace("\nkill ", &format!("\n{KILL} ")),
        )
        .expect("write");
        let mut command = Command::new(shell);
        command.arg(&script).env_clear().current_dir(&here);
        command
            .env("PATH", self.top.path().join("bin"))
            .env("RECORD", self.record());
        let output = run(command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (said.as_str(), output.stdout.as_slice()),
            ("", &b""[..]),
            "{shell}:\n{}",
            lines.join("\n")
        );
        let left: Vec<_> = fs::read_dir(&here)
            .expect("list here")
            .flatten()
            .map(|it| it.path())
            .collect();
        assert_eq!(
            left,
            [""; 0].map(PathBuf::from),
            "something else has run:\n{}",
            lines.join("\n")
        );
        read(&self.record())
    }
}

fn read(record: &Path) -> Vec<Argv> {
    let bytes = fs::read(record).unwrap_or_default();
    let mut words = bytes
        .split(|byte| *byte == 0)
        .map(|word| OsString::from_vec(word.to_vec()));
    let mut calls = Vec::new();
    while let Some(program) = words.next().filter(|word| !word.is_empty()) {
        let count = words
            .next()
            .and_then(|count| count.to_str()?.parse().ok())
            .expect("a count of words");
        let program = if program == KILL {
            "kill".into()
        } else {
            program
        };
        calls.push(
            std::iter::once(program)
                .chain(words.by_ref().take(count))
                .collect(),
        );
    }
    calls
}

/// The shells of this machine that a person may paste into. `sh` is always there.
pub fn shells() -> Vec<&'static str> {
    let is_there = |shell: &&str| Path::new("/bin").join(shell).exists();
    ["/bin/sh"]
        .into_iter()
        .chain(["dash", "bash"].into_iter().filter(is_there).map(path_of))
        .collect()
}

fn path_of(shell: &str) -> &'static str {
    if shell == "dash" {
        "/bin/dash"
    } else {
        "/bin/bash"
    }
}
