//! The `git` program: how it is started so that it never asks, never tidies up, and never outlives its time.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{env, thread};

use beadlock_checker::escape::escaped;
use beadlock_checker::{sys, system_words};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::Stop;
use super::descendants::Descendants;
use super::word::{Word, say};

/// How long what is still coming is read after the end of a program: what it left behind may have the pipe for ever.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long a git that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// What is kept of the beginning and of the end of what a program says to people.
const KEPT: usize = 64 * 1024;

/// SIGTERM has come.
static ENDING: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on SIGTERM, which every git of this sync gets too, starts no new one, and what is held is let go.
pub(super) fn end_in_order() {
    let ending = ENDING.get_or_init(Arc::default);
    // Without it SIGTERM ends the sync as it stands, and the next one clears up.
    let _ = signal_hook::flag::register(Signal::SIGTERM as i32, Arc::clone(ending));
}

/// What would make git work on another repository than the one it is started in.
const MISLEADING: [&str; 17] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Settings for every call: nothing in the background, nobody asked, nothing done to submodules.
const SETTINGS: [&str; 12] = [
    "gc.auto=0",
    "maintenance.auto=false",
    "core.fsmonitor=false",
    // A split index without hashes shares one file with every other: the one of our scratch.
    "index.skipHash=false",
    "core.askPass=",
    "core.quotePath=false",
    "credential.interactive=false",
    // A file that somebody adds stays where it was added, in the database or outside.
    "merge.directoryRenames=false",
    "submodule.recurse=false",
    "status.aheadBehind=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=30",
];

/// git in one directory.
#[derive(Debug, Clone)]
pub(super) struct Git {
    pub(super) dir: PathBuf,
    /// For `GIT_SSH_COMMAND`, where it is known.
    ssh: Option<OsString>,
}

/// What one call has come to.
pub(super) struct Answer {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// It was ended, for its time was over.
    pub(super) timed_out: bool,
}

/// One call in the making.
pub(super) struct Call {
    command: Command,
    name: String,
    stdin: Vec<u8>,
    bound: Option<Duration>,
}

impl Git {
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), ssh: None }
    }

    /// From here on for the network: ssh asks nobody either, whatever command for it is configured.
    pub(super) fn with_batch_ssh(mut self) -> Result<Self, Stop> {
        let configured = self.call(["config", "--get", "core.sshCommand"]).run()?;
        #[expect(clippy::disallowed_methods, reason = "settings of git's, read beside its others")]
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        let command = variable("GIT_SSH_COMMAND").or_else(|| configured.ok_text().map(OsString::from));
        if command.is_none() && variable("GIT_SSH").is_some() {
            return Ok(self); // A program of the user's, without options.
        }
        let mut command = command.unwrap_or_else(|| "ssh".into());
        let program = command.as_encoded_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        if program == b"ssh" || program.ends_with(b"/ssh") {
            command.push(" -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15");
        }
        self.ssh = Some(command);
        Ok(self)
    }

    /// A call with these arguments, to be run.
    pub(super) fn call<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Call {
        let mut command = Command::new("git");
        for name in MISLEADING {
            command.env_remove(name);
        }
        for name in ["GIT_ASKPASS", "SSH_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(name);
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("GCM_INTERACTIVE", "never");
        command.env("SSH_ASKPASS_REQUIRE", "never").env("GIT_OPTIONAL_LOCKS", "0");
        command.env("GIT_EDITOR", ":").env("GIT_SEQUENCE_EDITOR", ":").env("GIT_PAGER", "cat");
        if let Some(ssh) = &self.ssh {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        command.current_dir(&self.dir).arg("--no-pager");
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        let mut name = String::from("git");
        for arg in args {
            let arg = arg.as_ref();
            command.arg(arg);
            name = format!("{name} {}", escaped(&arg.to_string_lossy()));
        }
        Call { command, name, stdin: Vec::new(), bound: None }
    }

    /// What a call prints that must succeed, without its last newline.
    pub(super) fn text<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<String, Stop> {
        self.call(args).text()
    }
}

impl Call {
    /// With another index than the repository's.
    pub(super) fn index(mut self, file: &Path) -> Self {
        self.command.env("GIT_INDEX_FILE", file);
        self
    }

    pub(super) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// It is ended when it takes longer.
    pub(super) fn within(mut self, bound: Duration) -> Self {
        self.bound = Some(bound);
        self
    }

    /// With messages in English, where they are read.
    pub(super) fn in_english(mut self) -> Self {
        self.command.env("LC_ALL", "C");
        self
    }

    /// Its answer, whatever it is.
    ///
    /// # Errors
    /// When it could not be run.
    pub(super) fn run(mut self) -> Result<Answer, Stop> {
        if ENDING.get().is_some_and(|ending| ending.load(Ordering::Relaxed)) {
            return Err(Stop::Refused("it was told to end".to_owned()));
        }
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: io::Error| Stop::Refused(format!("{}: {}", self.name, system_words(&error)));
        let mut child = self.command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.command.get_current_dir().is_some_and(Path::is_dir) => {
                Stop::Refused("there is no program git; install it".to_owned())
            }
            _ => failed(error),
        })?;
        let answer = converse(&mut child, std::mem::take(&mut self.stdin), self.bound).map_err(failed);
        if answer.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        answer
    }

    /// Its answer, when it succeeds; else what it printed goes to the log.
    pub(super) fn done(self) -> Result<Answer, Stop> {
        let name = self.name.clone();
        let answer = self.run()?;
        if answer.status.success() {
            return Ok(answer);
        }
        answer.show();
        Err(Stop::Refused(format!("{name} failed: {}", answer.last_line())))
    }

    /// What it prints, without its last newline, when it succeeds.
    pub(super) fn text(self) -> Result<String, Stop> {
        let answer = self.done()?;
        Ok(String::from_utf8_lossy(answer.stdout.trim_ascii_end()).into_owned())
    }

    /// The same as paths or other words, each of which ends in a NUL.
    pub(super) fn words(self) -> Result<Vec<Vec<u8>>, Stop> {
        Ok(nul_separated(&self.done()?.stdout))
    }
}

impl Answer {
    /// The first line of stdout, when it succeeded and there is one.
    pub(super) fn ok_text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stdout);
        text.lines().next().filter(|line| self.status.success() && !line.is_empty()).map(str::to_owned)
    }

    /// What it printed for people goes to the log.
    pub(super) fn show(&self) {
        for line in String::from_utf8_lossy(&self.stderr).split(['\n', '\r']) {
            if !line.trim().is_empty() {
                say(&Word::Output(line.trim_end().to_owned()));
            }
        }
    }

    /// Why it failed, in one line.
    pub(super) fn last_line(&self) -> String {
        if self.timed_out {
            return "it took too long".to_owned();
        }
        let text = String::from_utf8_lossy(&self.stderr);
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let begins = |word: &'static str| lines().find(|line| line.starts_with(word));
        let line = begins("fatal: ").or_else(|| begins("error: ")).or_else(|| lines().next_back());
        match line {
            Some(line) => line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned(),
            None => self.status.to_string(),
        }
    }
}

/// The words of `-z` output.
pub(super) fn nul_separated(bytes: &[u8]) -> Vec<Vec<u8>> {
    let words = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let mut words: Vec<_> = words.collect();
    if words.last().is_some_and(Vec::is_empty) {
        words.pop();
    }
    words
}

/// Feeds a child, reads both its streams, and waits for its end; not for who else may have the streams.
fn converse(child: &mut Child, stdin: Vec<u8>, bound: Option<Duration>) -> io::Result<Answer> {
    if let Some(mut pipe) = child.stdin.take() {
        // Beside: what is longer than the pipe would wait for a child that waits for us to read.
        thread::Builder::new().spawn(move || pipe.write_all(&stdin))?;
    }
    let mut streams = [
        child.stdout.take().map(|stream| Stream::new(stream.into(), false)).transpose()?,
        child.stderr.take().map(|stream| Stream::new(stream.into(), true)).transpose()?,
    ];
    let pidfd = sys::pidfd_open(child.id().cast_signed()).ok();
    let begun = Instant::now();
    let (mut told, mut ended) = (None::<(Instant, Descendants)>, None::<Instant>);
    let status = loop {
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        for stream in streams.iter_mut().flatten() {
            stream.read_what_is_there();
        }
        let is_silent = streams.iter().flatten().all(|stream| stream.is_at_end);
        if let Some(ended) = ended
            && (is_silent || ended.elapsed() >= LAST_WORDS)
        {
            break child.wait()?;
        }
        if ended.is_none() && bound.is_some_and(|bound| begun.elapsed() >= bound) {
            match &told {
                None => {
                    let all = Descendants::of(child.id().cast_signed());
                    all.signal(Signal::SIGTERM);
                    told = Some((Instant::now(), all));
                }
                Some((told, _)) if told.elapsed() >= GRACE => child.kill()?,
                Some(_) => {}
            }
        }
        let mut open: Vec<PollFd<'_>> = Vec::with_capacity(3);
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        open.extend(
            streams
                .iter()
                .flatten()
                .filter(|stream| !stream.is_at_end)
                .map(|stream| readable(stream.file.as_fd())),
        );
        if let (None, Some(pidfd)) = (ended, &pidfd) {
            open.push(readable(pidfd.as_fd()));
        }
        // The streams and the end wake it; the clock is for bounds, and for systems without a pidfd.
        let pause: u16 = if pidfd.is_some() && ended.is_none() && bound.is_none() { 1000 } else { 20 };
        let _ = poll(&mut open, PollTimeout::from(pause));
    };
    // Who did not end with it has nobody to work for.
    if let Some((_, all)) = &told {
        all.signal(Signal::SIGKILL);
    }
    let [stdout, stderr] = streams.map(|stream| stream.map(|stream| stream.bytes).unwrap_or_default());
    Ok(Answer { status, stdout, stderr, timed_out: told.is_some() })
}

struct Stream {
    file: File,
    bytes: Vec<u8>,
    is_at_end: bool,
    /// Words, and no data: of many the middle is left out.
    is_for_people: bool,
}

impl Stream {
    fn new(stream: OwnedFd, is_for_people: bool) -> io::Result<Self> {
        fcntl(&stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { file: File::from(stream), bytes: Vec::new(), is_at_end: false, is_for_people })
    }

    fn read_what_is_there(&mut self) {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => self.is_at_end = true,
                Ok(read) => {
                    self.bytes.extend_from_slice(&buffer[..read]);
                    if self.is_for_people && self.bytes.len() > 4 * KEPT {
                        self.bytes.splice(KEPT..self.bytes.len() - KEPT, *b"\n(much left out)\n");
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.is_at_end = true,
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    use super::*;

    fn git() -> (tempfile::TempDir, Git) {
        let root = tempfile::tempdir().unwrap();
        let git = Git::in_dir(root.path());
        (root, git)
    }

    #[test]
    fn what_goes_in_comes_out_however_long() {
        let (_root, git) = git();
        git.call(["init", "--quiet"]).done().unwrap_or_else(|_| panic!());
        let long = vec![b'x'; 3_000_000];
        let id = git.call(["hash-object", "-w", "--stdin"]).stdin(long.clone()).text().unwrap_or_default();
        let answer = git.call(["cat-file", "blob", &id]).run().unwrap_or_else(|_| panic!());
        assert_eq!(answer.stdout.len(), long.len());
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let (_root, git) = git();
        let begun = Instant::now();
        let call = git.call(["-c", "alias.x=!exec sleep 60", "x"]).within(Duration::from_millis(200));
        let answer = call.run().unwrap_or_else(|_| panic!());
        assert!(answer.timed_out && !answer.status.success());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_was_left_behind_is_not_waited_for() {
        let (_root, git) = git();
        let begun = Instant::now();
        let answer = git.call(["-c", "alias.x=!sleep 30 & echo $!", "x"]).run().unwrap_or_else(|_| panic!());
        assert!(begun.elapsed() < Duration::from_secs(10));
        let left = answer.ok_text().unwrap().parse().unwrap();
        let _ = kill(Pid::from_raw(left), Signal::SIGKILL);
    }

    #[test]
    fn words_end_in_a_nul() {
        assert_eq!(nul_separated(b"a\0b c\0"), [b"a".to_vec(), b"b c".to_vec()]);
        assert!(nul_separated(b"").is_empty());
    }
}
