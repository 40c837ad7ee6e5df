//! The runner: the small process between a daemon and a cycle's command (docs/design.md#work-keeps-the-gate).
//!
//! It is the running binary itself, started again with a hidden first argument. It has the gate's open file on
//! its stdin, so the gate stays shut as long as the runner lives, also when the daemon was
//! killed; and it keeps the cycle's time-out, also then. It does not die of the signals that end a daemon: a
//! service manager sends them to everyone at once, and the runner must outlive the command.
//!
//! | descriptor | is |
//! |---|---|
//! | 0 | the gate, the same open file as the daemon's; `/dev/null` where there is no gate |
//! | 1 | what the command writes to its stdout and stderr; closed once that is all |
//! | 2 | one line, at the end: [`Ended`] |
//!
//! Its working directory is the one above the database, by descriptor, and the command begins there.
//!
//! The command inherits the gate as well, as its descriptor 20 or the next free one: the gate stays shut for as long
//! as the command works, also when daemon and runner are killed together. Whatever the command leaves behind has a
//! copy too. A close would not free the gate then, so each regular end of a cycle is an explicit `LOCK_UN`, which
//! counts for every copy.
//!
//! `flock` belongs to the open file: letting it go here lets go of the daemon's too, and that has work to do after the
//! command's end. So the runner says how the command has ended, and waits until the other end of descriptor 2 is
//! closed: the daemon closes it after it has let the gate go, and the kernel does when the daemon is killed. Then the
//! runner calls `LOCK_UN` itself, and ends. There is no moment between the two ends in which a kill leaves the gate
//! to a copy.
//!
//! The runner also watches over the gate's directory ([`GateWatch`]): a command whose gate is lost is ended.

use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::{ffi::OsString, fmt, fs::File, io, io::PipeReader, io::Read, io::Write, os::fd::AsFd, os::fd::OwnedFd};
use std::{os::unix::process::CommandExt, os::unix::process::ExitStatusExt, path::PathBuf, sync::atomic::AtomicBool};
use std::{sync::Arc, sync::mpsc, thread, time::Duration, time::Instant};

use nix::{errno::Errno, libc, poll::PollFd, poll::PollFlags, poll::PollTimeout, poll::poll, sys::prctl::set_name};
use nix::{sys::signal::Signal, sys::signal::kill, sys::stat::fstat, sys::wait::Id, sys::wait::waitid};
use nix::{sys::wait::WaitPidFlag, sys::wait::WaitStatus, unistd::Pid, unistd::close, unistd::setsid};

use crate::{error::words, filesystem::FileKind, gate::Gate, gate_loss::GateLoss, gate_loss::GateWatch, process, sys};

use crate::beside::this_program;
/// The hidden first argument: `main` hands the rest to [`main`] before it reads any command line.
pub use crate::{beside::RUNNER as ARGUMENT, beside::THIS};

/// The command of a user, for a shell.
pub fn for_shell(command: impl Into<OsString>) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), command.into()]
}

/// How long a command that was asked to end may take before it is killed.
pub const GRACE: Duration = Duration::from_secs(10);

/// How long output is read after the command has ended: a process that it left behind may have the pipe for ever.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long a reader may take over the end of the output. The gate does not stay shut for one that has stopped.
const LAST_RELAY: Duration = Duration::from_secs(5);

/// What to run under the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The database's directory, for the command's environment.
    pub dir: PathBuf,
    /// The program and its arguments; [`THIS`] is the running binary itself.
    pub command: Vec<OsString>,
    /// When its whole process group is ended.
    pub timeout: Duration,
}

impl Order {
    /// The runner, ready to be started: its stdin is set, stdout and stderr are the caller's to collect. It works in
    /// `above`, the open directory above the database, and so does the command: the database's path, which may lead
    /// elsewhere by now, is not looked up again.
    pub fn runner(&self, gate: Option<OwnedFd>, above: OwnedFd) -> Command {
        let mut runner = this_program().unwrap_or_else(|_| Command::new(THIS));
        runner.arg(ARGUMENT);
        let millis = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        runner.arg(std::process::id().to_string()).arg(millis.to_string());
        runner.arg(&self.dir).args(&self.command);
        runner.stdin(gate.map_or_else(Stdio::null, Stdio::from));
        sys::give_back_actions(&mut runner);
        sys::start_in(&mut runner, above);
        runner
    }

    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<(Self, Pid)> {
        let mut args = args.into_iter();
        let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
        let daemon = Pid::from_raw(i32::try_from(number()?).ok()?);
        let timeout = Duration::from_millis(number()?);
        let dir = args.next()?.into();
        let command: Vec<_> = args.collect();
        (!command.is_empty()).then_some((Self { dir, command, timeout }, daemon))
    }
}

/// How a command ended. `Display` is the runner's line on descriptor 2, [`Ended::parse`] reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
    /// It ran out of time; its group was ended.
    TimedOut,
    /// The gate's directory was replaced or removed while it worked; its group was ended.
    GateLost(GateLoss),
    /// It never ran, and why.
    NotStarted(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TimedOut => f.write_str("timed-out"),
            Self::GateLost(loss) => write!(f, "gate-lost {}", loss.as_str()),
            Self::NotStarted(why) => write!(f, "not-started {why}"),
        }
    }
}

impl Ended {
    /// Reads the runner's line. `None`: the runner ended without one, so it was killed.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        match word {
            "exit" => Some(Self::Exit(rest.parse().ok()?)),
            "signal" => Some(Self::Signal(rest.parse().ok()?)),
            "timed-out" => Some(Self::TimedOut),
            "gate-lost" => Some(Self::GateLost(GateLoss::parse(rest)?)),
            "not-started" => Some(Self::NotStarted(rest.to_owned())),
            _ => None,
        }
    }

    /// The gate may have been lost shortly before the end: that counts more than how the command ended.
    fn of_work(status: io::Result<ExitStatus>, watch: Option<GateWatch>) -> Self {
        if let Some(loss) = watch.and_then(GateWatch::last_look) {
            return Self::GateLost(loss);
        }
        match status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Self::Exit(code),
                (None, signal) => Self::Signal(signal.unwrap_or_default()),
            },
            Err(error) => Self::NotStarted(format!("its end is unknown: {}", words(&error))),
        }
    }
}

/// The runner's `main`, with the arguments after [`ARGUMENT`].
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some((order, _)) = Order::parse(args) else {
        let _ = writeln!(io::stderr(), "{}", Ended::NotStarted("this is for beadlock's own use".to_owned()));
        return ExitCode::from(2);
    };
    let ended = run(&order).unwrap_or_else(|error| Ended::NotStarted(words(&error)));
    // The daemon reads the output to its end, and that must not need an open file to be had.
    let _ = close(libc::STDOUT_FILENO);
    // In one piece: half a word would be another one.
    match io::stderr().write_all(format!("{ended}\n").as_bytes()) {
        Ok(()) => wait_for_reader(),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        // The daemon lives, and has not been told: it takes this for a death, ends what is left, and lets the gate go.
        Err(_) => return ExitCode::FAILURE,
    }
    Gate::unlock(io::stdin());
    ExitCode::SUCCESS
}

fn run(order: &Order) -> io::Result<Ended> {
    // Handlers and not SIG_IGN or a mask: the command must not inherit them. One for SIGCHLD too, for a daemon
    // that was started with it ignored would never learn how the command ended.
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGCHLD] {
        signal_hook::flag::register(signal as i32, Arc::new(AtomicBool::new(false)))?;
    }
    let _ = setsid();
    let _ = set_name(c"beadlock-cycle"); // Started by way of /proc it is "exe".
    let (output, for_command) = io::pipe()?;
    let (stop, stopper) = io::pipe()?;
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (relaying, relayed) = mpsc::channel::<()>();
    thread::Builder::new().spawn(move || {
        relay(output, &stop, stdout);
        drop(relaying);
    })?;

    let Some((program, args)) = order.command.split_first() else {
        return Ok(Ended::NotStarted("there is no command".to_owned()));
    };
    let mut command = Command::new(program);
    // In the directory that this process was started in.
    command.args(args);
    command.env("BEADS_DIR", &order.dir).env("BEADLOCK_CYCLE", &order.dir).process_group(0);
    command.stdin(Stdio::null()).stdout(for_command.try_clone()?).stderr(for_command);
    let watch = if has_gate() {
        sys::inherit(&mut command, sys::to_pass_on(io::stdin())?);
        Some(GateWatch::start(io::stdin(), &order.dir)?)
    } else {
        None
    };
    let mut child = command.spawn()?;
    drop(command); // It has the pipe's other end.

    let group = Pid::from_raw(child.id().cast_signed());
    let ended = match wait_for(group, order.timeout, watch.as_ref()) {
        WaitEnd::TimedOut => {
            let _ = end_group(&mut child, group);
            Ended::TimedOut
        }
        // What it has started would work on, and its gate would be gone.
        end if end == WaitEnd::GateLost || was_killed(group) => Ended::of_work(end_group(&mut child, group), watch),
        _ => Ended::of_work(child.wait(), watch),
    };
    drop(stopper);
    // Never a message, only its end. A write that still blocks then ends with this process.
    let _ = relayed.recv_timeout(LAST_RELAY);
    Ok(ended)
}

/// TERM, then CONT for who stands still, then KILL; returns when nobody of the group lives any more.
fn end_group(child: &mut Child, group: Pid) -> io::Result<ExitStatus> {
    let to_group = |signal| {
        let _ = kill(Pid::from_raw(-group.as_raw()), signal);
    };
    to_group(Signal::SIGTERM);
    to_group(Signal::SIGCONT);
    let begun = Instant::now();
    let mut pause = Duration::from_millis(5);
    while !process::group_is_gone(group.as_raw()) {
        if begun.elapsed() >= GRACE {
            to_group(Signal::SIGKILL);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    child.wait()
}

/// A child that has ended, and is not reaped yet, was killed by a signal.
fn was_killed(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    matches!(waitid(Id::Pid(pid), flags), Ok(WaitStatus::Signaled(..)))
}

/// Passes on what the command writes. Nobody may be reading any more: then it is read and thrown away, so that an
/// orphaned command neither dies of SIGPIPE nor stands still.
fn relay(mut output: PipeReader, stop: &PipeReader, mut stdout: File) {
    let mut buffer = vec![0; 64 * 1024];
    let mut stopped: Option<Instant> = None;
    loop {
        let mut ready = [PollFd::new(output.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        }
        let [has_output, has_stop] = ready.map(|fd| fd.any() != Some(false));
        if has_stop && stopped.get_or_insert_with(Instant::now).elapsed() >= LAST_WORDS {
            return;
        }
        if !has_output {
            return;
        }
        match output.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                let _ = stdout.write_all(&buffer[..read]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn has_gate() -> bool {
    fstat(io::stdin()).is_ok_and(|stat| FileKind::of(&stat) == FileKind::Directory)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    /// It has ended, and is not reaped yet.
    Ended,
    /// The time is over.
    TimedOut,
    /// The gate is lost.
    GateLost,
}

/// Waits for a child's end without reaping it, so that its PID stays the name of its group.
fn wait_for(pid: Pid, bound: Duration, mut watch: Option<&GateWatch>) -> WaitEnd {
    let begun = Instant::now();
    let pidfd = sys::pidfd_open(pid.as_raw());
    loop {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(pid), flags) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            _ => return WaitEnd::Ended,
        }
        let left = bound.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return WaitEnd::TimedOut;
        }
        // Without a pidfd only the clock tells of the end.
        let pause = if pidfd.is_ok() { left } else { left.min(Duration::from_millis(10)) };
        let millis = i32::try_from(pause.as_millis().max(1)).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut ready: Vec<PollFd<'_>> = watch.iter().map(|watch| readable(watch.as_fd())).collect();
        ready.extend(pidfd.iter().map(|pidfd| readable(pidfd.as_fd())));
        if poll(&mut ready, timeout).is_ok() && watch.is_some() {
            match ready[0].revents() {
                Some(events) if events.contains(PollFlags::POLLIN) => return WaitEnd::GateLost,
                Some(events) if !events.is_empty() => watch = None, // Its thread is gone.
                _ => {}
            }
        }
    }
}

/// Returns once nobody has the other end of the pipe on descriptor 2: the daemon has left the cycle, or was killed.
fn wait_for_reader() {
    loop {
        let stderr = io::stderr();
        // A pipe without a reader tells POLLERR, which needs not be asked for.
        match poll(&mut [PollFd::new(stderr.as_fd(), PollFlags::empty())], PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_it_ended() {
        let why = "no such file or directory".to_owned();
        for ended in [Ended::Exit(0), Ended::Exit(255), Ended::Signal(9), Ended::TimedOut, Ended::NotStarted(why)]
            .into_iter()
            .chain([GateLoss::Replaced, GateLoss::Vanished].map(Ended::GateLost))
        {
            assert_eq!(Ended::parse(&format!("{ended}\n")), Some(ended));
        }
        for noise in ["", "exit", "exit x", "gate-lost", "gate-lost x", "thread 'main' panicked at"] {
            assert_eq!(Ended::parse(noise), None, "{noise}");
        }
    }

    #[test]
    fn the_order_survives_the_command_line() {
        let order =
            Order { dir: "/x y/.beads".into(), command: for_shell("a 'b'"), timeout: Duration::from_millis(1500) };
        let runner = order.runner(None, File::open("/").unwrap().into());
        let args: Vec<OsString> = runner.get_args().map(Into::into).collect();
        assert_eq!(args[0], ARGUMENT);
        let (read, daemon) = Order::parse(args[1..].to_vec()).unwrap();
        assert_eq!((&read, daemon.as_raw()), (&order, std::process::id().cast_signed()));
        assert_eq!(Order::parse(["x".into()]), None);
        let runner = Order { timeout: Duration::MAX, ..read }.runner(None, File::open("/").unwrap().into());
        let args = runner.get_args().skip(1).map(Into::into);
        assert_eq!(Order::parse(args).unwrap().0.timeout, Duration::from_millis(u64::MAX), "for ever");
    }

    #[test]
    fn a_group_of_zombies_is_gone_and_a_living_one_is_not() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let group = Pid::from_raw(child.id().cast_signed());
        let is_gone = || process::group_is_gone(group.as_raw());
        assert!(!is_gone());
        assert_eq!(wait_for(group, Duration::from_millis(20), None), WaitEnd::TimedOut);
        child.kill().unwrap();
        assert_eq!(wait_for(group, Duration::from_secs(10), None), WaitEnd::Ended);
        assert!(is_gone(), "the leader is a zombie");
        child.wait().unwrap();
        assert!(is_gone());
    }
}
