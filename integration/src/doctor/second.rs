//! The second process: this program once more, on the same bench, which does what the first one tells it to.
//!
//! Orders come in on its stdin and answers go out on its stdout, a line each. It ends when its stdin does.
#![expect(clippy::disallowed_methods, reason = "it removes a file on the bench, as another process would")]

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::{Flock, flock};
use beadlock_checker::internal::system_words;
use nix::errno::Errno;

use super::bench::{Bench, FILE, GATE, is_bench};
use super::trial::Failure;
use crate::claim::event::wait_for;

/// The hidden option that makes this program the second process.
pub const OPTION: &str = "second-process";
/// How long an answer may take.
pub const LIMIT: Duration = Duration::from_secs(2);

/// What the second process is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Try to take the flock on the gate.
    TryFlock,
    /// Take it, blocked for as long as it takes; `Begun` comes first.
    WaitFlock,
    /// Let it go.
    Unlock,
    /// Create the file, which must not be there.
    Create,
    /// Open the file for writing, blocked for as long as a lease keeps it; `Begun` comes first.
    Write,
    /// Close the file.
    Close,
    /// Remove the file.
    Remove,
}

impl Order {
    const ALL: [Self; 7] =
        [Self::TryFlock, Self::WaitFlock, Self::Unlock, Self::Create, Self::Write, Self::Close, Self::Remove];

    fn as_str(self) -> &'static str {
        match self {
            Self::TryFlock => "try-flock",
            Self::WaitFlock => "wait-flock",
            Self::Unlock => "unlock",
            Self::Create => "create",
            Self::Write => "write",
            Self::Close => "close",
            Self::Remove => "remove",
        }
    }
}

/// What it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// Somebody else has it.
    Busy,
    /// It is about to make a call that may block.
    Begun,
    /// The system refused.
    Refused(Errno),
}

impl Answer {
    fn line(self) -> String {
        match self {
            Self::Done => "done\n".to_owned(),
            Self::Busy => "busy\n".to_owned(),
            Self::Begun => "begun\n".to_owned(),
            Self::Refused(errno) => format!("{}\n", errno as i32),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        Some(match line {
            "done" => Self::Done,
            "busy" => Self::Busy,
            "begun" => Self::Begun,
            number => Self::Refused(Errno::from_raw(number.parse().ok()?)),
        })
    }
}

/// A second process, as the first one has it; dropped, it is killed.
#[derive(Debug)]
pub struct Second {
    child: Child,
    answers: ChildStdout,
    /// What was read and is no whole line yet.
    read: Vec<u8>,
}

impl Second {
    /// Starts one on `bench`.
    ///
    /// # Errors
    /// When it cannot be started: what needs it cannot be tried.
    pub fn start(bench: &Bench<'_>) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::untried(format!("no second process: {}", crate::words::of_no_process(&error)))
        };
        let this = Path::new("/proc/self/exe");
        let program =
            if this.exists() { this.to_path_buf() } else { std::env::current_exe().map_err(failed)? };
        let mut command = Command::new(program);
        command.arg0(std::env::args_os().next().unwrap_or_else(|| OsString::from("beadlock")));
        command.args(["doctor", &format!("--{OPTION}")]).current_dir(bench.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let answers = child.stdout.take().ok_or_else(|| Failure::untried("no second process"))?;
        Ok(Self { child, answers, read: Vec::new() })
    }

    /// Its PID.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Tells it what to do.
    ///
    /// # Errors
    /// When it has ended.
    pub fn tell(&mut self, order: Order) -> Result<(), Failure> {
        let stdin = self.child.stdin.as_mut();
        let told = stdin.map_or(Err(io::ErrorKind::BrokenPipe.into()), |pipe| {
            pipe.write_all(format!("{}\n", order.as_str()).as_bytes())
        });
        told.map_err(|error| {
            Failure::untried(format!("the second process has ended: {}", system_words(&error)))
        })
    }

    /// Its next answer; `None`: none within `limit`.
    ///
    /// # Errors
    /// When it has ended, or says what nobody understands.
    pub fn answer(&mut self, limit: Duration) -> Result<Option<Answer>, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let answer = Answer::parse(String::from_utf8_lossy(&line).trim_end());
                return answer
                    .map(Some)
                    .ok_or_else(|| Failure::untried("the second process was not understood"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if wait_for([Some(self.answers.as_fd())], left) == [true] {
                let mut bytes = [0; 64];
                match self.answers.read(&mut bytes) {
                    Ok(0) | Err(_) => return Err(Failure::untried("the second process has ended")),
                    Ok(count) => self.read.extend(&bytes[..count]),
                }
            }
        }
    }

    /// Tells it, and waits for the answer.
    ///
    /// # Errors
    /// As [`Second::answer`]; also when there is none in time.
    pub fn ask(&mut self, order: Order) -> Result<Answer, Failure> {
        self.tell(order)?;
        self.answer(LIMIT)?.ok_or_else(|| {
            Failure::untried(format!("the second process gave no answer to {} within 2 s", order.as_str()))
        })
    }

    /// The same for what must succeed before anything can be tried.
    ///
    /// # Errors
    /// As [`Second::ask`]; also for any answer but `Done`.
    pub fn must(&mut self, order: Order) -> Result<(), Failure> {
        match self.ask(order)? {
            Answer::Done => Ok(()),
            Answer::Refused(errno) => Err(errno.into()),
            other => {
                Err(Failure::missing(format!("{} ended with {}", order.as_str(), other.line().trim_end())))
            }
        }
    }

    /// Kills it; it is a zombie until it is dropped.
    pub fn kill(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Is the second process, in the working directory, until stdin ends. Answers the exit code.
pub fn serve() -> u8 {
    // Nowhere else may anything be created or removed on the word of whoever writes to stdin.
    if !std::env::current_dir().is_ok_and(|dir| is_bench(&dir)) {
        return 2;
    }
    let mut hands = Hands::default();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some(order) = Order::ALL.into_iter().find(|order| order.as_str() == line) else { return 2 };
        let answer = hands.obey(order).unwrap_or_else(|error| {
            Answer::Refused(error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw))
        });
        if say(answer).is_err() {
            break;
        }
    }
    0
}

fn say(answer: Answer) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(answer.line().as_bytes())?;
    stdout.flush()
}

fn name(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

/// What the second process holds.
#[derive(Default)]
struct Hands {
    gate: Option<File>,
    file: Option<File>,
}

impl Hands {
    fn obey(&mut self, order: Order) -> io::Result<Answer> {
        match order {
            Order::TryFlock => {
                return Ok(if flock(self.gate()?, Flock::Try)? { Answer::Done } else { Answer::Busy });
            }
            Order::WaitFlock => {
                let gate = self.gate()?;
                say(Answer::Begun)?;
                flock(gate, Flock::Wait)?;
            }
            Order::Unlock => {
                flock(self.gate()?, Flock::Unlock)?;
            }
            Order::Create => {
                OpenOptions::new().write(true).create_new(true).open(name(FILE))?;
            }
            Order::Write => {
                say(Answer::Begun)?;
                self.file = Some(OpenOptions::new().write(true).open(name(FILE))?);
            }
            Order::Close => self.file = None,
            Order::Remove => fs::remove_file(name(FILE))?,
        }
        Ok(Answer::Done)
    }

    fn gate(&mut self) -> io::Result<&File> {
        let gate = match self.gate.take() {
            Some(gate) => gate,
            None => File::open(name(GATE))?,
        };
        Ok(self.gate.insert(gate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_pipe() {
        for answer in [Answer::Done, Answer::Busy, Answer::Begun, Answer::Refused(Errno::ENOLCK)] {
            assert_eq!(Answer::parse(answer.line().trim_end()), Some(answer));
        }
        assert_eq!(Answer::parse("error: unexpected argument"), None);
    }
}
