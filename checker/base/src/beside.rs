//! What helper processes have in common: how they are started, and how they begin. Each is the running binary itself,
//! started again with a hidden first argument, and says by one byte on its stdout that it is at work.
//!
//! The command line of a helper of `beadlock` has three words: what it does, for `ps`; [`HELPER`]; and its request as
//! one JSON value, an object whose only key is the kind of the helper.

use std::{
    ffi::CStr, fs, fs::File, io, io::PipeReader, io::Read, io::Write, os::fd::AsFd, os::fd::RawFd,
};
use std::{
    os::unix::process::CommandExt, path::Path, process::Command, time::Duration, time::Instant,
};

use nix::{
    errno::Errno, poll::PollFd, poll::PollFlags, poll::PollTimeout, poll::poll,
    sys::prctl::set_name,
};
use nix::{sys::signal::SigSet, unistd::chdir, unistd::close, unistd::dup2_stdout, unistd::setsid};
use serde::{Serialize, de::DeserializeOwned};

/// The hidden first argument of the runner of a cycle's command.
pub const RUNNER: &str = "__run-cycle";

/// The hidden first argument of every helper process of `beadlock`.
pub const HELPER: &str = "__helper";

/// What a watchdog that ends the work of a command is called in a list of processes.
pub const WATCHDOG: &CStr = c"beadlock-watch";

/// The running binary, for itself and for its children until they execute another.
pub const THIS: &str = "/proc/self/exe";

/// One that ends says so by its end: only one that stands still is given up after this.
const START: Duration = Duration::from_secs(30);

/// The command line of a helper: what it does, [`HELPER`] and its request. Fails when the request has no form in JSON.
pub fn helper_words(title: &str, request: &impl Serialize) -> io::Result<[String; 3]> {
    Ok([
        title.to_owned(),
        HELPER.to_owned(),
        serde_json::to_string(request)?,
    ])
}

/// A helper, ready to be started. Fails when the running binary cannot be found, and as [`helper_words`].
pub fn helper(title: &str, request: &impl Serialize) -> io::Result<Command> {
    let [title, first, request] = helper_words(title, request)?;
    let mut command = this_program()?;
    command.arg0(title).arg(first).arg(request);
    Ok(command)
}

/// The running binary, to be started again. Fails when it cannot be found.
pub fn this_program() -> io::Result<Command> {
    let this = Path::new(THIS);
    // Where there is no /proc; the first finds the binary also after it was replaced.
    let program = if this.exists() {
        this.to_path_buf()
    } else {
        std::env::current_exe()?
    };
    let mut command = Command::new(program);
    command.arg0(std::env::args_os().next().unwrap_or_default());
    Ok(command)
}

/// The request of the helper process `pid`. `None`: it is not a helper of this kind. Untrusted.
pub fn request_of<R: DeserializeOwned>(pid: i32) -> Option<R> {
    serde_json::from_slice(&argument_of(pid, HELPER).ok()??).ok()
}

/// What follows the hidden first argument `first` on the command line of the process `pid`. `None`: it has another.
pub fn argument_of(pid: i32, first: &str) -> io::Result<Option<Vec<u8>>> {
    let line = fs::read(format!("/proc/{pid}/cmdline"))?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let is_first = words.next().is_some_and(|word| word == first.as_bytes());
    Ok(words.next().filter(|_| is_first).map(<[u8]>::to_vec))
}

/// Waits for the one byte, for 30 s at most. Fails when it has ended without it, or the time is over.
pub fn has_said_so(ready: PipeReader) -> io::Result<()> {
    has_said_so_within(ready, START)
}

/// The same, for `limit` at most. `TimedOut` when the time is over; another error when it has ended without the byte.
pub fn has_said_so_within(mut ready: PipeReader, limit: Duration) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(
            &mut [PollFd::new(ready.as_fd(), PollFlags::POLLIN)],
            timeout,
        ) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => {
                return ready
                    .read_exact(&mut [0])
                    .map_err(|_| io::Error::other("it has ended"));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// What one does first, called `name` in a list of processes. The descriptors `kept` stay open.
pub fn stand_apart(name: &CStr, kept: &[RawFd]) {
    // Whatever can be blocked: it starts nothing that would inherit it.
    let _ = SigSet::all().thread_block();
    let _ = setsid();
    let _ = set_name(name); // Started by way of /proc it is "exe".
    let _ = chdir("/");
    close_all_but(kept);
}

/// Says that it is at work. Its stdout is `/dev/null` from then on.
pub fn say_so() {
    // The pipe of a parent that was killed meanwhile: there is nobody to be told.
    let _ = io::stdout()
        .write_all(b".")
        .and_then(|()| io::stdout().flush());
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(null);
    }
}

/// Closes what the parent was started with beside its streams: a pipe of somebody else's must not stay open through us.
pub fn close_the_rest() {
    close_all_but(&[]);
}

fn close_all_but(kept: &[RawFd]) {
    let entries = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<RawFd>().ok();
    // All first: among them is the descriptor of the listing itself, which is closed by the end of it.
    let fds: Vec<RawFd> = entries
        .filter_map(number)
        .filter(|fd| *fd > 2 && !kept.contains(fd))
        .collect();
    for fd in fds {
        let _ = close(fd);
    }
}
