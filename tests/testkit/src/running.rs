//! Programs that a test starts, and that never outlive it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::process::heed_signals;
use crate::wait::nap;
use crate::{Ended, PATIENCE, schema};

/// A started program, its output collected as it comes. Dropped, it is killed by its PID and reaped.
#[must_use = "dropped, the program is killed"]
pub struct Running {
    child: Child,
    name: String,
    words: Vec<OsString>,
    output: Streams,
}

/// A stream that is read; none once its end has been waited for.
type Reader = Option<JoinHandle<Vec<u8>>>;

/// Where its two streams go.
enum Streams {
    /// Read until everybody has closed them.
    Pipes { stdout: Reader, stderr: Reader },
    /// `out` and `err` in this directory.
    Files(TempDir),
    /// Where the test has led them.
    Elsewhere,
}

impl Running {
    /// Starts a command with both streams collected, and nothing on stdin unless a stdin was given. Its output ends
    /// when all that it has started have ended or closed the streams.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, name, words) = spawn(command);
        let stdout = collect(child.stdout.take().expect("a pipe"));
        let stderr = collect(child.stderr.take().expect("a pipe"));
        Self {
            child,
            name,
            words,
            output: Streams::Pipes { stdout, stderr },
        }
    }

    /// The same with the streams in files: the output ends with the program, whatever it leaves behind.
    #[track_caller]
    pub fn apart(mut command: Command) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str| File::create(dir.path().join(name)).expect("a file for the output");
        command.stdout(file("out")).stderr(file("err"));
        let (child, name, words) = spawn(command);
        Self {
            child,
            name,
            words,
            output: Streams::Files(dir),
        }
    }

    /// The same with its stderr there, and its stdout as the command has it: nothing is collected.
    #[track_caller]
    pub fn on(stderr: impl Into<Stdio>, mut command: Command) -> Self {
        command.stderr(stderr);
        let (child, name, words) = spawn(command);
        Self {
            child,
            name,
            words,
            output: Streams::Elsewhere,
        }
    }

    /// Its PID.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a PID is an i32")
    }

    /// Sends it a signal, and nobody else.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the process is ours and not reaped");
    }

    /// True as long as it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// True once it has ended.
    pub fn has_ended(&mut self) -> bool {
        !self.is_running()
    }

    /// What it has said on stderr so far; of one that was started [`apart`](Self::apart) only.
    pub fn err(&self) -> String {
        match &self.output {
            Streams::Files(dir) => fs::read_to_string(dir.path().join("err")).unwrap_or_default(),
            Streams::Pipes { .. } | Streams::Elsewhere => {
                panic!("{} was not started apart", self.name)
            }
        }
    }

    /// What it has said on stdout so far; of one that was started [`apart`](Self::apart) only.
    pub fn out(&self) -> String {
        match &self.output {
            Streams::Files(dir) => fs::read_to_string(dir.path().join("out")).unwrap_or_default(),
            Streams::Pipes { .. } | Streams::Elsewhere => {
                panic!("{} was not started apart", self.name)
            }
        }
    }

    /// Waits for its end, without its output: what it left behind may still have the streams open.
    ///
    /// # Panics
    ///
    /// When it has not ended within `bound`.
    #[track_caller]
    pub fn wait(&mut self, bound: Duration) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(
                begun.elapsed() < bound,
                "still running after {bound:?}: {}",
                self.name
            );
            nap(begun.elapsed());
        }
    }

    /// SIGTERM, and its exit code; none where a signal has ended it.
    ///
    /// # Panics
    ///
    /// When it has not ended within [`PATIENCE`].
    #[track_caller]
    pub fn stop(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.wait(PATIENCE).code()
    }

    /// Waits for its end and the end of its output.
    ///
    /// # Panics
    ///
    /// When it has not ended within `bound`.
    #[track_caller]
    pub fn finish(mut self, bound: Duration) -> Output {
        let status = self.wait(bound);
        let (stdout, stderr) = match &mut self.output {
            Streams::Pipes { stdout, stderr } => (join(stdout.take()), join(stderr.take())),
            Streams::Files(dir) => (read(dir, "out"), read(dir, "err")),
            Streams::Elsewhere => Default::default(),
        };
        if let Some((program, args)) = self.words.split_first() {
            let printed = String::from_utf8_lossy(&stdout);
            schema::see_printed(program, args.iter().map(OsString::as_os_str), &printed);
        }
        Output {
            status,
            stdout,
            stderr,
        }
    }

    /// The same with [`PATIENCE`], and without what concerns the machine alone.
    #[track_caller]
    pub fn end(self) -> Ended {
        Ended::of(&self.finish(PATIENCE))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn spawn(mut command: Command) -> (Child, String, Vec<OsString>) {
    heed_signals();
    let name = format!("{command:?}");
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words = words.map(OsStr::to_owned).collect();
    let child = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
    (child, name, words)
}

fn collect(mut stream: impl Read + Send + 'static) -> Reader {
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    }))
}

fn join(reader: Reader) -> Vec<u8> {
    reader
        .and_then(|reader| reader.join().ok())
        .unwrap_or_default()
}

fn read(dir: &TempDir, name: &str) -> Vec<u8> {
    fs::read(dir.path().join(name)).unwrap_or_default()
}

/// Runs a command to its end, at most 60 seconds.
#[track_caller]
pub fn run(command: Command) -> Output {
    Running::start(command).finish(Duration::from_secs(60))
}

/// A process that lives until it is dropped, and does nothing: the holder of a lock.
#[track_caller]
pub fn sleeper() -> Running {
    let mut sleep = Command::new("sleep");
    sleep.arg("300").stdin(Stdio::null());
    Running::on(Stdio::null(), sleep)
}
