//! The second process: this program once more, on the same bench, which does what the first one requests.
//!
//! Requests come in on its stdin and replies go out on its stdout, a word a line. It ends when its stdin does.
#![expect(
    clippy::disallowed_methods,
    reason = "it removes a file on the bench, as another process would"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::{os::fd::AsFd, time::Duration};

use beadlock_base::sys::{Flock, flock};
use beadlock_base::{
    error::system_words,
    helper::{self, Helper},
};
use clap::ValueEnum;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::bench::{Bench, FILE, GATE, is_bench};
use super::results::{TrialFailure, word};
use beadlock_base::poll::wait_for;
use beadlock_claim::words::of_no_process;

/// How long the second process may take for a reply.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// A request to the second process: one word on its stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SecondRequest {
    /// Try to take the flock on the gate.
    TryFlock,
    /// Take the flock, blocked for as long as it takes; `Begun` comes first.
    WaitFlock,
    Unlock,
    /// Create the file, which must not be there.
    Create,
    /// Open the file for writing, blocked for as long as a lease keeps it; `Begun` comes first.
    Write,
    /// Remove the file.
    Remove,
}

/// A reply of the second process. Where the system refused the request, it replies with the number of the error
/// instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SecondReply {
    Done,
    /// Another process has the flock, or has made the file.
    Busy,
    /// The second process is about to make a call that may block.
    Begun,
}

/// The second process, in the hands of the first one; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct SecondProcess {
    child: Child,
    replies: BufReader<ChildStdout>,
}

impl SecondProcess {
    /// Starts a second process on `bench`. Fails with `Untried`: a trial that needs the process cannot be made without
    /// it.
    pub fn start(bench: &Bench<'_>) -> Result<Self, TrialFailure> {
        let failed = |error: io::Error| {
            TrialFailure::untried(format!("no second process: {}", of_no_process(&error)))
        };
        let title = "beadlock: answers the trials of a doctor";
        let mut command = helper::helper(bench.helpers, title, &DoctorTrials).map_err(failed)?;
        command.current_dir(bench.path());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(has_ended)?;
        Ok(Self {
            child,
            replies: BufReader::new(stdout),
        })
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn send(&mut self, request: SecondRequest) -> Result<(), TrialFailure> {
        let line = format!("{}\n", word(request));
        let sent = self
            .child
            .stdin
            .iter_mut()
            .try_for_each(|pipe| pipe.write_all(line.as_bytes()));
        sent.map_err(|error| {
            TrialFailure::untried(format!(
                "the second process has ended: {}",
                system_words(&error)
            ))
        })
    }

    /// The next reply; `None`: none came within `limit`. Fails when the system refused the request, and when the
    /// process has ended.
    pub fn reply(&mut self, limit: Duration) -> Result<Option<SecondReply>, TrialFailure> {
        if self.replies.buffer().is_empty()
            && wait_for([Some(self.replies.get_ref().as_fd())], limit) == [false]
        {
            return Ok(None);
        }
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(1..) => parsed(line.trim_end()).map(Some),
            _ => Err(has_ended()),
        }
    }

    /// Requests something, and waits for the reply.
    pub fn ask(&mut self, request: SecondRequest) -> Result<SecondReply, TrialFailure> {
        self.send(request)?;
        self.reply(LIMIT)?.ok_or_else(|| {
            let word = word(request);
            TrialFailure::untried(format!(
                "the second process gave no answer to {word} within 2 s"
            ))
        })
    }

    /// Requests something that must be `Done` before anything can be tried.
    pub fn must(&mut self, request: SecondRequest) -> Result<(), TrialFailure> {
        match self.ask(request)? {
            SecondReply::Done => Ok(()),
            other => Err(TrialFailure::missing(format!(
                "{} ended with {}",
                word(request),
                word(other)
            ))),
        }
    }

    /// Requests something that may block, and waits until it has begun.
    pub fn begin(&mut self, request: SecondRequest) -> Result<(), TrialFailure> {
        self.send(request)?;
        match self.reply(LIMIT)? {
            Some(SecondReply::Begun) => Ok(()),
            _ => Err(TrialFailure::untried("the second process did not begin")),
        }
    }

    /// Kills the process, if it has not ended; it is a zombie until it is dropped.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn has_ended() -> TrialFailure {
    TrialFailure::untried("the second process has ended")
}

fn parsed(line: &str) -> Result<SecondReply, TrialFailure> {
    SecondReply::from_str(line, false).map_err(|_| match line.parse() {
        Ok(number) => Errno::from_raw(number).into(),
        Err(_) => TrialFailure::untried("the second process was not understood"),
    })
}

/// The request to answer the trials of a doctor.
#[derive(Debug, Serialize, Deserialize)]
pub struct DoctorTrials;

impl Helper for DoctorTrials {
    const KIND: &'static str = "DoctorTrials";

    fn run(self) -> u8 {
        serve()
    }
}

/// Runs as the second process, in the working directory, until stdin ends. Returns the exit code.
fn serve() -> u8 {
    // stdin is not trusted: only a bench may be written to.
    if !std::env::current_dir().is_ok_and(|dir| is_bench(&dir)) {
        return 2;
    }
    let mut files = OpenFiles::default();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(request) = SecondRequest::from_str(&line, false) else {
            return 2;
        };
        let number = |error: io::Error| error.raw_os_error().unwrap_or(Errno::UnknownErrno as i32);
        let reply = files
            .obey(request)
            .map_or_else(|error| number(error).to_string(), word);
        if say(&reply).is_err() {
            break;
        }
    }
    0
}

/// Writes a reply to stdout, which is flushed at the end of a line.
fn say(reply: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{reply}")
}

/// The open files of the second process: the gate and the file of the bench.
#[derive(Default)]
struct OpenFiles {
    gate: Option<File>,
    file: Option<File>,
}

impl OpenFiles {
    fn obey(&mut self, request: SecondRequest) -> io::Result<SecondReply> {
        match request {
            SecondRequest::TryFlock => {
                let taken = flock(self.gate()?, Flock::Try)?;
                return Ok(if taken {
                    SecondReply::Done
                } else {
                    SecondReply::Busy
                });
            }
            SecondRequest::WaitFlock => {
                let gate = self.gate()?;
                say(&word(SecondReply::Begun))?;
                flock(gate, Flock::Wait)?;
            }
            SecondRequest::Unlock => {
                flock(self.gate()?, Flock::Unlock)?;
            }
            SecondRequest::Create => match File::create_new(FILE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(SecondReply::Busy);
                }
                created => drop(created?),
            },
            SecondRequest::Write => {
                say(&word(SecondReply::Begun))?;
                self.file = Some(OpenOptions::new().write(true).open(FILE)?);
            }
            SecondRequest::Remove => fs::remove_file(FILE)?,
        }
        Ok(SecondReply::Done)
    }

    fn gate(&mut self) -> io::Result<&File> {
        let opened = self.gate.take().map_or_else(|| File::open(GATE), Ok)?;
        Ok(self.gate.insert(opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_survive_the_pipe() {
        for reply in SecondReply::value_variants() {
            assert_eq!(parsed(&word(*reply)), Ok(*reply));
        }
        let refused = parsed(&(Errno::ENOLCK as i32).to_string());
        assert_eq!(refused, Err(Errno::ENOLCK.into()));
        assert_eq!(
            parsed("error: unexpected argument").unwrap_err().cause.ok(),
            None
        );
    }
}
