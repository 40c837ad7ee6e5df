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
//! | 2 | one line, at the end: [`RunEnd`] |
//! | one more, by number | of a cycle in a fleet: the deadline of the work, each later one ([`DeadlineWatch`]) |
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
//! The runner also watches over the gate's directory ([`GateWatch`]): a command whose gate is lost is ended. So is one
//! whose deadline in a fleet comes, on the runner's own account and with all that it has started (`Work`).

mod work;

use std::process::{Command, ExitStatus, Stdio};
use std::{
    ffi::OsStr, ffi::OsString, fmt, fs::File, io, io::PipeReader, io::Read, io::Write, os::fd::AsFd,
};
use std::{
    os::fd::AsRawFd, os::fd::OwnedFd, os::unix::process::CommandExt,
    os::unix::process::ExitStatusExt,
};
use std::{
    path::PathBuf, sync::Arc, sync::atomic::AtomicBool, sync::mpsc, thread, time::Duration,
    time::Instant,
};

use nix::unistd::setsid;
use nix::{
    errno::Errno, libc, poll::PollFd, poll::PollFlags, poll::PollTimeout, poll::poll,
    sys::prctl::set_name,
};
use nix::{sys::signal::Signal, sys::stat::fstat, unistd::Pid, unistd::close};

use crate::process_tree::ProcessTree;
use beadlock_base::deadline::{DeadlineWatch, Demand, WorkDeadline};
use beadlock_base::{error::system_words, filesystem::FileKind, sys};
use beadlock_core::{
    gate::Gate,
    gate_loss::{GateLoss, GateWatch},
};
use work::{FleetWork, WaitEnd, Work};

use beadlock_base::helper::{HelperProgram, Helpers, this_program};
/// The hidden first argument.
pub use beadlock_base::helper::{RUNNER as ARGUMENT, THIS};

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

/// The deadline of a cycle in a fleet.
#[derive(Debug)]
pub struct RunnerDeadline {
    /// That of the last renewal.
    pub first: WorkDeadline,
    /// The end that is read of the pipe for the later ones.
    pub later: PipeReader,
}

impl Order {
    /// The runner, ready to be started: its stdin is set, stdout and stderr are the caller's to collect. It works in
    /// `above`, the open directory above the database, and so does the command: the database's path, which may lead
    /// elsewhere by now, is not looked up again.
    pub fn runner(
        &self,
        helpers: Helpers,
        gate: Option<OwnedFd>,
        above: OwnedFd,
        deadline: Option<RunnerDeadline>,
    ) -> Command {
        let mut runner = this_program(helpers).unwrap_or_else(|_| Command::new(THIS));
        runner.arg(ARGUMENT);
        let millis = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        runner
            .arg(std::process::id().to_string())
            .arg(millis.to_string());
        runner.arg(
            deadline
                .as_ref()
                .map_or_else(|| NO_DEADLINE.to_owned(), RunnerDeadline::word),
        );
        runner.arg(&self.dir).args(&self.command);
        if let Some(RunnerDeadline { later, .. }) = deadline {
            sys::inherit(&mut runner, later.into());
        }
        runner.stdin(gate.map_or_else(Stdio::null, Stdio::from));
        sys::give_back_actions(&mut runner);
        sys::start_in(&mut runner, above);
        runner
    }

    /// The order, the daemon's PID, and the word for the deadline.
    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<(Self, Pid, OsString)> {
        let mut args = args.into_iter();
        let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
        let daemon = Pid::from_raw(i32::try_from(number()?).ok()?);
        let timeout = Duration::from_millis(number()?);
        let deadline = args.next()?;
        let dir = args.next()?.into();
        let command: Vec<_> = args.collect();
        (!command.is_empty()).then_some((
            Self {
                dir,
                command,
                timeout,
            },
            daemon,
            deadline,
        ))
    }
}

/// The word for a cycle that is not in a fleet.
const NO_DEADLINE: &str = "-";

impl RunnerDeadline {
    /// For the runner's command line: the number of the descriptor, and the deadline.
    fn word(&self) -> String {
        format!("{}:{}", self.later.as_raw_fd(), self.first)
    }

    /// The watch over the deadline of this word; `None` where the cycle is not in a fleet.
    fn watch(word: &OsStr) -> io::Result<Option<DeadlineWatch>> {
        if word == NO_DEADLINE {
            return Ok(None);
        }
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let (fd, deadline) = word
            .to_str()
            .and_then(|word| word.split_once(':'))
            .ok_or_else(wrong)?;
        let pipe = sys::inherited(fd.parse().map_err(|_| wrong())?)?;
        DeadlineWatch::start(pipe, WorkDeadline::parse(deadline).ok_or_else(wrong)?).map(Some)
    }
}

/// How a command ended. `Display` is the runner's line on descriptor 2, [`RunEnd::parse`] reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// By itself, with this exit code.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
    /// It ran out of time; its group was ended.
    TimedOut,
    /// The gate's directory was replaced or removed while it worked; its group was ended.
    GateLost(GateLoss),
    /// Its deadline in the fleet came; all that it had started was ended.
    FleetLost,
    /// It never ran, and why.
    NotStarted(String),
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TimedOut => f.write_str("timed-out"),
            Self::GateLost(loss) => write!(f, "gate-lost {}", loss.as_str()),
            Self::FleetLost => f.write_str("fleet-lost"),
            Self::NotStarted(why) => write!(f, "not-started {why}"),
        }
    }
}

impl RunEnd {
    /// Reads the runner's line. `None`: the runner ended without one, so it was killed.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line
            .trim_end()
            .split_once(' ')
            .unwrap_or((line.trim_end(), ""));
        match word {
            "exit" => Some(Self::Exit(rest.parse().ok()?)),
            "signal" => Some(Self::Signal(rest.parse().ok()?)),
            "timed-out" => Some(Self::TimedOut),
            "gate-lost" => Some(Self::GateLost(GateLoss::parse(rest)?)),
            "fleet-lost" => Some(Self::FleetLost),
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
            Err(error) => Self::NotStarted(format!("its end is unknown: {}", system_words(&error))),
        }
    }
}

/// The runner, for the programs that start one.
pub const KIND: HelperProgram = HelperProgram::behind(ARGUMENT, |args| Some(main(args)));

/// The runner's `main`, with the arguments after [`ARGUMENT`]. Returns the exit code.
fn main(args: &[OsString]) -> u8 {
    let Some((order, _, deadline)) = Order::parse(args.iter().cloned()) else {
        let _ = writeln!(
            io::stderr(),
            "{}",
            RunEnd::NotStarted("this is for beadlock's own use".to_owned())
        );
        return 2;
    };
    let ended =
        run(&order, &deadline).unwrap_or_else(|error| RunEnd::NotStarted(system_words(&error)));
    // The daemon reads the output to its end, and that must not need an open file to be had.
    let _ = close(libc::STDOUT_FILENO);
    // In one piece: half a word would be another one.
    match io::stderr().write_all(format!("{ended}\n").as_bytes()) {
        Ok(()) => wait_for_reader(),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        // The daemon lives, and has not been told: it takes this for a death, ends what is left, and lets the gate go.
        Err(_) => return 1,
    }
    Gate::unlock(io::stdin());
    0
}

fn run(order: &Order, deadline: &OsStr) -> io::Result<RunEnd> {
    // First: it takes the descriptor out of what the command could inherit.
    let deadline = RunnerDeadline::watch(deadline)?;
    // Handlers and not SIG_IGN or a mask: the command must not inherit them. One for SIGCHLD too, for a daemon
    // that was started with it ignored would never learn how the command ended.
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGCHLD,
    ] {
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
        return Ok(RunEnd::NotStarted("there is no command".to_owned()));
    };
    let mut command = Command::new(program);
    // In the directory that this process was started in.
    command.args(args);
    command
        .env("BEADS_DIR", &order.dir)
        .env("BEADLOCK_CYCLE", &order.dir)
        .process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(for_command.try_clone()?)
        .stderr(for_command);
    let watch = if has_gate() {
        sys::inherit(&mut command, sys::to_pass_on(io::stdin())?);
        Some(GateWatch::start(io::stdin(), &order.dir)?)
    } else {
        None
    };
    let mut fleet = None;
    if let Some(mut deadline) = deadline {
        // Also what has left its group is found, and what is left when this process is killed does not work on.
        let tree = ProcessTree::as_subreaper()?;
        sys::killed_with_this_thread(&mut command);
        if deadline.demand() > Demand::Nothing {
            return Ok(RunEnd::FleetLost);
        }
        fleet = Some(FleetWork { deadline, tree });
    }
    let child = command.spawn()?;
    drop(command); // It has the pipe's other end.

    let mut work = Work::new(child, fleet);
    let ended = match work.wait(order.timeout, watch.as_ref()) {
        WaitEnd::TimedOut => {
            let _ = work.end();
            RunEnd::TimedOut
        }
        WaitEnd::Deadline => {
            let _ = work.end();
            RunEnd::FleetLost
        }
        // What it has started would work on, and its gate would be gone.
        end if end == WaitEnd::GateLost || work.was_killed() => RunEnd::of_work(work.end(), watch),
        _ => RunEnd::of_work(work.reap(), watch),
    };
    drop(stopper);
    // Never a message, only its end. A write that still blocks then ends with this process.
    let _ = relayed.recv_timeout(LAST_RELAY);
    Ok(ended)
}

/// Passes on what the command writes. Nobody may be reading any more: then it is read and thrown away, so that an
/// orphaned command neither dies of SIGPIPE nor stands still.
fn relay(mut output: PipeReader, stop: &PipeReader, mut stdout: File) {
    let mut buffer = vec![0; 64 * 1024];
    let mut stopped: Option<Instant> = None;
    loop {
        let mut ready = [
            PollFd::new(output.as_fd(), PollFlags::POLLIN),
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
        ];
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

/// Returns once nobody has the other end of the pipe on descriptor 2: the daemon has left the cycle, or was killed.
fn wait_for_reader() {
    loop {
        let stderr = io::stderr();
        // A pipe without a reader tells POLLERR, which needs not be asked for.
        match poll(
            &mut [PollFd::new(stderr.as_fd(), PollFlags::empty())],
            PollTimeout::NONE,
        ) {
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
        let ended = [
            RunEnd::Exit(0),
            RunEnd::Exit(255),
            RunEnd::Signal(9),
            RunEnd::TimedOut,
            RunEnd::FleetLost,
        ];
        for ended in ended
            .into_iter()
            .chain([RunEnd::NotStarted(why)])
            .chain([GateLoss::Replaced, GateLoss::Vanished].map(RunEnd::GateLost))
        {
            assert_eq!(RunEnd::parse(&format!("{ended}\n")), Some(ended));
        }
        for noise in [
            "",
            "exit",
            "exit x",
            "gate-lost",
            "gate-lost x",
            "thread 'main' panicked at",
        ] {
            assert_eq!(RunEnd::parse(noise), None, "{noise}");
        }
    }

    #[test]
    fn the_order_survives_the_command_line() {
        let order = Order {
            dir: "/x y/.beads".into(),
            command: for_shell("a 'b'"),
            timeout: Duration::from_millis(1500),
        };
        let (later, _sender) = beadlock_base::deadline::DeadlineSender::pipe().unwrap();
        let first = WorkDeadline {
            ask_at: Duration::from_secs(7),
            kill_at: Duration::from_secs(8),
        };
        let (deadline, fd) = (RunnerDeadline { first, later }, File::open("/").unwrap());
        let word = deadline.word();
        let helpers = beadlock_base::helper::serve(&[], &[]).unwrap();
        let runner = order.runner(helpers, None, fd.into(), Some(deadline));
        let args: Vec<OsString> = runner.get_args().map(Into::into).collect();
        assert_eq!(args[0], ARGUMENT);
        let (read, daemon, of_deadline) = Order::parse(args[1..].to_vec()).unwrap();
        assert!(
            of_deadline == word.as_str() && word.ends_with(":7000000000-8000000000"),
            "{word}"
        );
        assert_eq!(
            (&read, daemon.as_raw()),
            (&order, std::process::id().cast_signed())
        );
        assert_eq!(Order::parse(["x".into()]), None);
        let runner = Order {
            timeout: Duration::MAX,
            ..read
        }
        .runner(helpers, None, File::open("/").unwrap().into(), None);
        let args = runner.get_args().skip(1).map(Into::into);
        assert_eq!(
            Order::parse(args).unwrap().0.timeout,
            Duration::from_millis(u64::MAX),
            "for ever"
        );
    }
}
