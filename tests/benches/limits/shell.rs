//! A write with `file-ops.sh`, beside the same write by the same functions without the lock. A shell that writes again
//! and again has both measured: no start of bash is in it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::files::{DISK, SHARE_OF_THE_LOCK};
use super::ratio::Ratios;
use super::table::Table;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/limits/sequential.sh");
const LIBRARY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../integration/shell/file-ops.sh"
);

/// What the functions start, and bash itself.
const NEEDED: [&str; 4] = [
    "/bin/bash",
    "/usr/bin/flock",
    "/usr/bin/jq",
    "/usr/bin/iconv",
];

/// How many writes are measured at a time, after as many as make all five backups.
const TIMES: u32 = 2;
const WARM: u32 = 6;

pub fn measure(table: &mut Table) {
    let figure = "file-ops.sh, save_json: locked, checked, 5 backups, synced";
    if let Some(missing) = NEEDED
        .into_iter()
        .find(|program| !Path::new(program).exists())
    {
        table.not_here(figure, &format!("no {missing} here"));
        return;
    }
    let disk = tempfile::tempdir_in(DISK).expect("a directory on a disk");
    let [mut ours, mut theirs] = ["locked", "unlocked"].map(|way| Writer::start(way, disk.path()));
    let found = Ratios::between(
        table.runs(),
        10,
        || ours.seconds(TIMES),
        || theirs.seconds(TIMES),
    );
    table.ratios(
        figure,
        "the same without the lock, on a disk",
        Some(1.0 + SHARE_OF_THE_LOCK),
        &found,
    );
    assert!(
        disk.path().join("locked.json.lock").exists()
            && !disk.path().join("unlocked.json.lock").exists()
    );
}

/// A shell that measures how long its writes take.
struct Writer {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    /// One that has written some times.
    fn start(way: &str, dir: &Path) -> Self {
        let mut command = Command::new(NEEDED[0]);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir(dir);
        command.args([SCRIPT, LIBRARY, way, &format!("{way}.json")]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let (asks, answers) = (
            child.stdin.take().expect("a pipe"),
            child.stdout.take().expect("a pipe"),
        );
        let mut writer = Self {
            child,
            asks,
            answers: BufReader::new(answers),
        };
        writer.seconds(WARM);
        writer
    }

    /// Seconds that one write takes.
    fn seconds(&mut self, times: u32) -> f64 {
        writeln!(self.asks, "{times}").expect("the shell reads");
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .expect("the shell answers");
        line.trim().parse::<f64>().expect("microseconds") / 1e6 / f64::from(times)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
