//! The start of helper processes: how they are started, and how they begin. Each is the running binary itself, started
//! again with a hidden first argument, and says by one byte on its stdout that it is at work.
//!
//! The command line of a helper of `beadlock` has three words: what it does, for `ps`; [`HELPER`]; and its request as
//! one JSON value, an object whose only key is the kind of the helper. A request without content is the kind alone, as
//! a string.
//!
//! Only a program that answers to such a command line may start a helper: a library that did would start its caller's
//! program once more, from the top. So all that starts one wants a [`Helpers`], which [`serve`] alone makes.

use std::{
    ffi::CStr, ffi::OsString, fs, fs::File, io, io::PipeReader, io::Read, io::Write, os::fd::AsFd,
    os::fd::RawFd,
};
use std::{
    os::unix::ffi::OsStrExt, os::unix::fs::FileExt, os::unix::process::CommandExt, path::Path,
    process::Command, time::Duration, time::Instant,
};

use nix::{
    errno::Errno, poll::PollFd, poll::PollFlags, poll::PollTimeout, poll::poll,
    sys::prctl::set_name,
};
use nix::{sys::signal::SigSet, unistd::chdir, unistd::close, unistd::dup2_stdout, unistd::setsid};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::process::Stat;
use crate::sys::{self, process_id};

/// The hidden first argument of the runner of a cycle's command.
pub const RUNNER: &str = "__run-cycle";

/// The hidden first argument of every helper process of `beadlock`.
pub const HELPER: &str = "__helper";

/// Name of a watchdog that ends the work of a command, in a list of processes.
pub const WATCHDOG: &CStr = c"beadlock-watch";

/// The running binary, for itself and for its children until they execute another.
pub const THIS: &str = "/proc/self/exe";

/// For how long a helper may take to say that it is at work. A helper that ends is noticed at once.
const START: Duration = Duration::from_secs(30);

/// The exit code of a helper whose request cannot be decoded.
const NOT_DECODED: u8 = 2;

/// Proof that the running program answers to the command lines of these helpers.
#[derive(Debug, Clone, Copy)]
pub struct Helpers(&'static [HelperProgram]);

/// The request of a helper, and what the process does that is started with it.
pub trait Helper: Serialize + DeserializeOwned {
    /// The key of the request. Helpers that share one are told apart by the rest of the request.
    const KIND: &'static str;

    /// False for a request that must not be followed although it can be read.
    fn is_sound(&self) -> bool {
        true
    }

    /// The life of the process. Returns its exit code.
    fn run(self) -> u8;
}

/// A kind of helper process that a program can be.
#[derive(Debug, Clone, Copy)]
pub struct HelperProgram {
    /// The hidden first argument.
    argument: &'static str,
    /// The key of its requests, where it has one.
    key: Option<&'static str>,
    /// Is the helper that the words after that ask for, and returns its exit code. `None`: they ask for another one.
    run: fn(&[OsString]) -> Option<u8>,
}

impl HelperProgram {
    /// The helper with this request, behind [`HELPER`].
    pub const fn of<H: Helper>() -> Self {
        Self {
            argument: HELPER,
            key: Some(H::KIND),
            run: run_helper::<H>,
        }
    }

    /// A process with a hidden first argument of its own, whose other words `run` reads.
    pub const fn behind(argument: &'static str, run: fn(&[OsString]) -> Option<u8>) -> Self {
        Self {
            argument,
            key: None,
            run,
        }
    }
}

fn run_helper<H: Helper>(words: &[OsString]) -> Option<u8> {
    let [request] = words else { return None };
    let helper: H = request_in(request.as_bytes())?;
    // It may write to files, and a limit on their size is no reason to die.
    sys::ignore_size_limit();
    Some(helper.run())
}

/// Is a helper, where the words of the command line ask for one: the first thing in `main`. `kinds` are all that the
/// program can be. Of those that share a key the first one is asked first.
///
/// # Errors
/// The exit code of the helper, which has done its work, or whose request could not be decoded.
pub fn serve(words: &[OsString], kinds: &'static [HelperProgram]) -> Result<Helpers, u8> {
    let [_, first, request @ ..] = words else {
        return Ok(Helpers(kinds));
    };
    let mut asked = kinds
        .iter()
        .filter(|kind| first == kind.argument)
        .peekable();
    if asked.peek().is_none() {
        return Ok(Helpers(kinds));
    }
    Err(asked
        .find_map(|kind| (kind.run)(request))
        .unwrap_or_else(|| {
            let _ = writeln!(io::stderr(), "this is for beadlock's own use");
            NOT_DECODED
        }))
}

/// The command line of a helper: what it does, [`HELPER`] and its request. Fails when the running program is not such a
/// helper, and when the request has no form in JSON.
pub fn helper_words<H: Helper>(
    helpers: Helpers,
    title: &str,
    request: &H,
) -> io::Result<[String; 3]> {
    if !helpers.0.iter().any(|kind| kind.key == Some(H::KIND)) {
        return Err(io::Error::other(format!(
            "this program is no helper of the kind {}",
            H::KIND
        )));
    }
    words(title, request)
}

fn words<H: Helper>(title: &str, request: &H) -> io::Result<[String; 3]> {
    let (kind, request) = (
        serde_json::to_string(H::KIND)?,
        serde_json::to_string(request)?,
    );
    let request = if request == "null" {
        kind
    } else {
        format!("{{{kind}:{request}}}")
    };
    Ok([title.to_owned(), HELPER.to_owned(), request])
}

/// Changes the command line of this process, a helper with a request of this kind: what `ps` and [`request_of`] read
/// from now on. The memory of a command line cannot grow, so the words must be as long together as they are now.
///
/// # Errors
/// The words are longer or shorter, `/proc` does not say where they are, or they cannot be written. Nothing has changed
/// then.
pub fn change_words<H: Helper>(title: &str, request: &H) -> io::Result<()> {
    let line = words(title, request)?.map(|word| word + "\0").concat();
    let place = Stat::read(process_id().cast_signed()).and_then(|stat| stat.command_line());
    let Some(place) = place.filter(|place| place.end - place.start == line.len() as u64) else {
        return Err(io::Error::other("the command line has another length"));
    };
    // The stack of this process, by its own file: no pointer is made of that address.
    let memory = File::options().write(true).open("/proc/self/mem")?;
    memory.write_all_at(line.as_bytes(), place.start)
}

/// A helper, ready to be started. Fails when the running binary cannot be found, and as [`helper_words`].
pub fn helper<H: Helper>(helpers: Helpers, title: &str, request: &H) -> io::Result<Command> {
    let [title, first, request] = helper_words(helpers, title, request)?;
    let mut command = this_program(helpers)?;
    command.arg0(title).arg(first).arg(request);
    Ok(command)
}

/// The running binary, to be started again. Fails when it cannot be found.
pub fn this_program(_: Helpers) -> io::Result<Command> {
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

/// The request that this argument of a command line is. `None`: it is of another kind, or not sound.
pub fn request_in<H: Helper>(argument: &[u8]) -> Option<H> {
    decoded(H::KIND, argument).filter(H::is_sound)
}

/// The request of the helper process `pid`. `None`: it is not a helper of this kind. Untrusted.
pub fn request_of<R: DeserializeOwned>(pid: i32, kind: &str) -> Option<R> {
    decoded(kind, &argument_of(pid, HELPER).ok()??)
}

/// The kind of the helper process `pid`. `None`: it is not a helper of `beadlock`. Untrusted.
pub fn kind_of(pid: i32) -> Option<String> {
    match serde_json::from_slice(&argument_of(pid, HELPER).ok()??).ok()? {
        Value::String(kind) => Some(kind),
        Value::Object(request) => request.into_iter().next().map(|(kind, _)| kind),
        _ => None,
    }
}

/// The content of a request of this kind.
pub fn decoded<R: DeserializeOwned>(kind: &str, argument: &[u8]) -> Option<R> {
    let request = match serde_json::from_slice(argument).ok()? {
        Value::String(alone) if alone == kind => Value::Null,
        Value::Object(mut request) if request.len() == 1 => request.remove(kind)?,
        _ => return None,
    };
    serde_json::from_value(request).ok()
}

/// The word after the hidden first argument `first` on the command line of the process `pid`. `None`: it has another.
pub fn argument_of(pid: i32, first: &str) -> io::Result<Option<Vec<u8>>> {
    let line = fs::read(format!("/proc/{pid}/cmdline"))?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let is_first = words.next().is_some_and(|word| word == first.as_bytes());
    Ok(words.next().filter(|_| is_first).map(<[u8]>::to_vec))
}

/// Waits for the one byte of a helper, for 30 s at most. Fails when the helper has ended without it, or the time is
/// over.
pub fn wait_ready(ready: PipeReader) -> io::Result<()> {
    has_said_so_within(ready, START)
}

/// [`wait_ready`], for `limit` at most. `TimedOut` when the time is over; another error when the helper has ended.
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

/// The first steps of a helper, called `name` in a list of processes. The descriptors `kept` stay open.
pub fn detach(name: &CStr, kept: &[RawFd]) {
    // Whatever can be blocked: it starts nothing that would inherit it.
    let _ = SigSet::all().thread_block();
    let _ = setsid();
    let _ = set_name(name); // Started by way of /proc it is "exe".
    let _ = chdir("/");
    close_all_but(kept);
}

/// Says that it is at work. Its stdout is `/dev/null` from then on.
pub fn report_ready() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sleeper {
        seconds: u64,
        name: String,
    }

    impl Helper for Sleeper {
        const KIND: &'static str = "Shared";

        fn is_sound(&self) -> bool {
            self.seconds > 0
        }

        fn run(self) -> u8 {
            10
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Waker {
        wakes: bool,
    }

    impl Helper for Waker {
        const KIND: &'static str = "Shared";

        fn run(self) -> u8 {
            11
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Bare;

    impl Helper for Bare {
        const KIND: &'static str = "Bare";

        fn run(self) -> u8 {
            12
        }
    }

    const KINDS: [HelperProgram; 4] = [
        HelperProgram::of::<Sleeper>(),
        HelperProgram::of::<Waker>(),
        HelperProgram::of::<Bare>(),
        HelperProgram::behind("__other", |words| Some(u8::try_from(words.len()).unwrap())),
    ];

    fn served(words: &[&str]) -> Option<u8> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        serve(&words, &KINDS).err()
    }

    #[test]
    fn a_program_is_the_helper_that_its_command_line_asks_for() {
        let helpers = serve(&[], &KINDS).unwrap();
        let of = |words: io::Result<[String; 3]>| {
            let words = words.unwrap();
            served(&words.each_ref().map(String::as_str))
        };
        let sleeper = |seconds| Sleeper {
            seconds,
            name: "\"\n\0é".to_owned(),
        };
        assert_eq!(of(helper_words(helpers, "t", &sleeper(1))), Some(10));
        let waker = Waker { wakes: true };
        assert_eq!(of(helper_words(helpers, "t", &waker)), Some(11));
        assert_eq!(of(helper_words(helpers, "t", &Bare)), Some(12));
        assert_eq!(
            of(helper_words(helpers, "t", &sleeper(0))),
            Some(2),
            "not sound"
        );
        assert_eq!(served(&["t", "__other", "a", "b"]), Some(2));
        for other in [&[][..], &["b"], &["b", "hold"], &["b", "hold", HELPER]] {
            assert_eq!(served(other), None, "{other:?}");
        }
        for wrong in [
            &["b", HELPER][..],
            &["b", HELPER, "x"],
            &["b", HELPER, "{}"],
            &["b", HELPER, "\"Other\""],
            &["b", HELPER, r#"{"Other":1}"#],
            &["b", HELPER, r#"{"Shared":{}}"#],
            &["b", HELPER, r#"{"Shared":{"wakes":true},"Bare":null}"#],
            &["b", HELPER, "\"Bare\"", "x"],
        ] {
            assert_eq!(served(wrong), Some(2), "{wrong:?}");
        }
        let words = [HELPER, "x"].map(OsString::from);
        assert!(serve(&["b".into()], &[]).is_ok() && serve(&words, &[]).is_ok());
    }

    /// Neighbours of other versions read it.
    #[test]
    fn a_request_stands_in_its_own_order_below_its_kind() {
        let helpers = serve(&[], &KINDS).unwrap();
        let sleeper = Sleeper {
            seconds: 7,
            name: "x".to_owned(),
        };
        let [title, first, request] = helper_words(helpers, "does it", &sleeper).unwrap();
        assert_eq!([title.as_str(), &first], ["does it", "__helper"]);
        assert_eq!(request, r#"{"Shared":{"seconds":7,"name":"x"}}"#);
        assert_eq!(request_in(request.as_bytes()), Some(sleeper));
        let [_, _, bare] = helper_words(helpers, "", &Bare).unwrap();
        assert_eq!(bare, "\"Bare\"");
        assert_eq!(request_in(bare.as_bytes()), Some(Bare));
    }
}
