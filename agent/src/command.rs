//! The command of a cycle: its runner, its output into the log, how it ended (docs/design.md#work-keeps-the-gate).

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{collections::BTreeSet, future::pending, iter};

use beadlock_base::children::{OwnChild, starting};
use beadlock_base::helper::Helpers;
use beadlock_base::process::{self, Stat, environment_has};
use beadlock_base::sys;
use beadlock_supervise::runner::{Order, RunEnd};
use beadlock_supervise::tree_ending::{Asks, Ending, Members, TreeLook, end_all};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::cycle_end::CycleEnd;
use crate::fleet::Right;
use crate::notify;

/// Longer lines of output are cut at about this many bytes, between characters.
const LONGEST_LINE: usize = 8192;
/// How long an ended cycle waits for the end of its runner.
const RUNNER_END: Duration = Duration::from_secs(1);

/// The command to run in a cycle.
pub(crate) struct CycleCommand {
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// A descriptor that it inherits under the same number: a pipe to read what is not for a command line.
    pub(crate) input: Option<OwnedFd>,
}

impl From<Vec<OsString>> for CycleCommand {
    fn from(words: Vec<OsString>) -> Self {
        Self { words, input: None }
    }
}

/// Where a command runs.
pub(crate) struct CommandPlace<'a> {
    /// The database's directory, by which the command knows it.
    pub(crate) dir: &'a Path,
    /// The directory above it, open: there the command begins.
    pub(crate) above: OwnedFd,
    pub(crate) gate: Option<OwnedFd>,
    /// The right in the fleet of the database.
    pub(crate) right: Option<&'a dyn Right>,
}

/// The runner of a command that has ended. It waits until the cycle has let the gate go, and does so itself when this
/// process is killed before that.
#[derive(Debug)]
pub(crate) struct Runner {
    child: Child,
    own: OwnChild,
    /// Its end tells the runner that the cycle is over.
    words: BufReader<ChildStderr>,
}

impl Runner {
    /// Ends it, after the cycle has let the gate go. A stopped runner is not waited for long, but reaped when it ends.
    pub(crate) async fn end(mut self) {
        drop(self.words);
        let _ = tokio::time::timeout(RUNNER_END, self.child.wait()).await;
        drop(self.own);
    }
}

/// Runs a command to its end under the gate. `on_line` gets its output, line by line. The runner is to be ended after
/// the gate was let go.
pub(crate) async fn run(
    helpers: Helpers,
    CommandPlace {
        dir,
        above,
        gate,
        right,
    }: CommandPlace<'_>,
    command: CycleCommand,
    timeout: Duration,
    on_line: impl FnMut(&str),
) -> (CycleEnd, Option<Runner>) {
    let order = Order {
        dir: dir.to_path_buf(),
        command: command.words,
        timeout,
    };
    let begun = Instant::now();
    let failed = |how| CycleEnd::Failed {
        how,
        took: begun.elapsed(),
    };
    let not_started = |error: std::io::Error| failed(RunEnd::NotStarted(error.to_string()));
    let (deadline, watch) = match right.map(|right| right.runner()).transpose() {
        Ok(of_right) => of_right.unzip(),
        Err(error) => return (not_started(error), None),
    };
    let mut runner = order.runner(helpers, gate, above, deadline);
    notify::keep_from(&mut runner);
    if let Some(input) = command.input {
        sys::inherit(&mut runner, input);
    }
    runner.stdout(Stdio::piped()).stderr(Stdio::piped());
    // In a thread: the new process closes what the agent has open, and a hanging file system delays that.
    let start = || tokio::process::Command::from(runner).spawn();
    let spawned = spawn_blocking(|| starting(start, |child| child.id().unwrap_or_default())).await;
    let (mut runner, own) = match spawned.unwrap_or_else(|fault| Err(fault.into())) {
        Ok(started) => started,
        Err(error) => return (not_started(error), None),
    };
    let Some(words) = runner.stderr.take() else {
        return (not_started(std::io::ErrorKind::BrokenPipe.into()), None);
    };
    let mut words = BufReader::new(words);
    let output = async {
        if let Some(stdout) = runner.stdout.take() {
            read_lines(stdout, on_line).await;
        }
    };
    // Only the runner has the other ends, so both streams end with it.
    let overdue = async {
        match &watch {
            Some(watch) => watch.overdue.notified().await,
            None => pending().await,
        }
    };
    let how = tokio::select! {
        (how, ()) = async { tokio::join!(result(&mut words), output) } => how,
        // Its runner should have ended it by now, and may have been stopped.
        () = overdue => {
            end_session(&mut runner, dir).await;
            return (failed(RunEnd::FleetLost), None);
        }
    };
    let end = match how {
        Some(RunEnd::Exit(0)) => CycleEnd::Complete,
        Some(RunEnd::TimedOut) => CycleEnd::TimedOut { after: timeout },
        Some(how) => failed(how),
        None => {
            return (
                CycleEnd::RunnerLost {
                    ended: end_session(&mut runner, dir).await,
                },
                None,
            );
        }
    };
    (
        end,
        Some(Runner {
            child: runner,
            own,
            words,
        }),
    )
}

/// The result that the runner reports; `None` when it ended without one.
async fn result(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<RunEnd> {
    let mut lines = stream.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(ended) = RunEnd::parse(&line) {
            return Some(ended);
        }
    }
    None
}

/// Kills what a lost runner has left, which would work without a gate. Returns their number when none of them lives any
/// more.
async fn end_session(runner: &mut Child, dir: &Path) -> usize {
    let mut killed = 0;
    if let Some(session) = runner.id().and_then(|id| i32::try_from(id).ok()) {
        // The runner is not reaped yet, so its PID still names the session.
        let _ = runner.start_kill();
        let mut session = Session {
            runner: session,
            dir: dir.to_path_buf(),
            seen: BTreeSet::new(),
        };
        let end = move || {
            let at_once = Ending::new(Asks::Nobody, Duration::ZERO, std::time::Instant::now());
            end_all(&mut session, at_once);
            session.seen.len()
        };
        killed = spawn_blocking(end).await.unwrap_or_default();
    }
    let _ = runner.wait().await;
    killed
}

/// The processes of a runner's session, and those started after it for the same cycle, which may have left that; never
/// this process or its ancestors.
struct Session {
    runner: i32,
    /// That of the database: they have it in their environment.
    dir: PathBuf,
    /// All that were seen so far.
    seen: BTreeSet<i32>,
}

impl Members for Session {
    fn look(&mut self) -> TreeLook {
        let has_cycle = |pid: i32| environment_has(pid, "BEADLOCK_CYCLE", self.dir.as_os_str());
        let begun = Stat::read(self.runner).map_or(u64::MAX, |stat| stat.start_ticks);
        let parent = |pid: &i32| Stat::read(*pid).map(|stat| stat.ppid);
        let ancestors: Vec<i32> =
            iter::successors(Some(std::process::id().cast_signed()), parent).collect();
        let is_of_cycle = |stat: &Stat| {
            stat.start_ticks >= begun && has_cycle(stat.pid) && !ancestors.contains(&stat.pid)
        };
        let mut living = process::all();
        living.retain(|stat| {
            let is_left = stat.pid != self.runner && !stat.is_zombie();
            is_left && (stat.session == self.runner || is_of_cycle(stat))
        });
        self.seen.extend(living.iter().map(|stat| stat.pid));
        TreeLook::of_scan(living)
    }
}

/// Reads every line of a stream as text, without its newline; a line that is too long comes in pieces.
pub(crate) async fn read_lines(mut stream: impl AsyncRead + Unpin, mut line: impl FnMut(&str)) {
    let mut buffer = Vec::with_capacity(LONGEST_LINE);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        let mut rest = &buffer[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            line(&text(&rest[..end]));
            rest = &rest[end + 1..];
        }
        if rest.len() >= LONGEST_LINE {
            let split = rest
                .utf8_chunks()
                .last()
                .map_or(0, |chunk| chunk.invalid().len());
            let (whole, begun) = rest.split_at(rest.len() - split);
            line(&text(whole));
            rest = begun;
        }
        let taken = buffer.len() - rest.len();
        buffer.drain(..taken);
    }
    if !buffer.is_empty() {
        line(&text(&buffer));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_lines_and_long_ones_come_in_pieces() {
        let long = "x".repeat(LONGEST_LINE * 2 + 10);
        let input = format!("one\r\n\ntwo\n{long}\nlast");
        let mut lines = Vec::new();
        read_lines(input.as_bytes(), |line| lines.push(line.to_owned())).await;
        assert_eq!(lines[..3], ["one", "", "two"]);
        assert_eq!(lines.last().unwrap(), "last");
        assert_eq!(lines[3..lines.len() - 1].concat(), long);
        assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE * 2));
    }

    #[tokio::test]
    async fn no_character_is_cut() {
        for shift in 0..4 {
            let input = [&"x".repeat(shift), &"€".repeat(LONGEST_LINE), "🦀"].concat();
            let mut lines = Vec::new();
            read_lines(input.as_bytes(), |line| lines.push(line.to_owned())).await;
            assert!(lines.len() > 2);
            assert_eq!(lines.concat(), input);
        }
        let mut lines = Vec::new();
        read_lines(&[0xff; LONGEST_LINE * 2][..], |line| {
            lines.push(line.to_owned())
        })
        .await;
        assert_eq!(
            lines.concat(),
            "\u{fffd}".repeat(LONGEST_LINE * 2),
            "bytes that are no text are no trap"
        );
    }
}
