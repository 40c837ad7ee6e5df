//! Questions to the `git` program: whether it tracks a file, and what its configuration and attributes say.
//!
//! The answers come from the index and from files, and git starts no program for them: no file system monitor, no
//! transport, no hook. A directory that merely looks like a repository is not taken for one. The git is that of an absolute
//! directory of PATH, never one that lies in the repository. A git that does not answer in 5 s is ended, and a git that
//! fails has not said no.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::{
    env, os::unix::process::CommandExt, path::Path, path::PathBuf, thread, time::Duration,
    time::Instant,
};
use std::{
    ffi::OsStr, ffi::OsString, fs::File, io, io::PipeReader, io::Read, io::Write, os::fd::AsFd,
    os::fd::OwnedFd, os::unix::ffi::OsStrExt,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::{
    fcntl::FcntlArg, fcntl::OFlag, fcntl::fcntl, sys::signal::Signal, sys::signal::kill,
    unistd::AccessFlags, unistd::Pid, unistd::access,
};

use crate::{
    children::OwnChild, children::starting, duration::shown, error::system_words, escape::escaped,
    sys,
};

/// Variables that make git work on another repository, index or working tree than those of its working directory.
pub const MISLEADING: [&str; 17] = [
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

/// For how long an answer is waited for. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of each stream that are kept; the rest is read and thrown away.
const KEPT: usize = 64 * 1024;

/// Whether git tracks a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tracked {
    /// Git does not track the path, or there is no repository, or no git.
    No,
    /// Git tracks the path.
    Yes,
    /// Git did not say; the text says why.
    Unknown(String),
}

/// Whether git tracks the file `path`, relative to `dir`, in upper or lower case: a file system may see both as one.
pub fn tracks(dir: &Path, path: &Path) -> Tracked {
    tracks_within(PATIENCE, dir, path)
}

fn tracks_within(patience: Duration, dir: &Path, path: &Path) -> Tracked {
    let mut spec = OsString::from(":(icase,literal)");
    spec.push(path);
    let words = ["ls-files".into(), "-z".into(), "--".into(), spec];
    match ask_within(patience, dir, words) {
        GitReply::NoGit => Tracked::No,
        GitReply::Answered(answer) => answer.judged(path),
        GitReply::Unanswered(why) => Tracked::Unknown(why),
    }
}

/// Outcome of a question to git.
#[derive(Debug)]
pub enum GitReply {
    /// There is no git here.
    NoGit,
    /// Git has ended, with success or a failure.
    Answered(Answer),
    /// Git did not answer in time, or could not be started; the text says why.
    Unanswered(String),
}

/// Runs git with the arguments `words` in `dir`. They must be a command for which git starts no other program. The
/// first 64 KiB of each stream are kept.
pub fn ask<S: AsRef<OsStr>>(dir: &Path, words: impl IntoIterator<Item = S>) -> GitReply {
    ask_within(PATIENCE, dir, words)
}

/// [`ask`], with `input` on git's standard input. It must fit into a pipe: 4 KiB always do.
pub fn ask_with<S: AsRef<OsStr>>(
    dir: &Path,
    words: impl IntoIterator<Item = S>,
    input: &[u8],
) -> GitReply {
    match piped(input) {
        Ok(input) => match question(dir, words) {
            Ok(mut command) => answered(PATIENCE, dir, command.stdin(input)),
            Err(_) => GitReply::NoGit,
        },
        Err(error) => GitReply::Unanswered(system_words(&error)),
    }
}

fn piped(input: &[u8]) -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(input)?;
    Ok(reader)
}

fn ask_within<S: AsRef<OsStr>>(
    patience: Duration,
    dir: &Path,
    words: impl IntoIterator<Item = S>,
) -> GitReply {
    match question(dir, words) {
        Ok(mut command) => answered(patience, dir, &mut command),
        Err(_) => GitReply::NoGit,
    }
}

fn answered(patience: Duration, dir: &Path, command: &mut Command) -> GitReply {
    let (mut child, kept) = match starting(|| command.spawn(), Child::id) {
        Ok(started) => started,
        // The directory is there, so what is missing is the program.
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => {
            return GitReply::NoGit;
        }
        Err(error) => return GitReply::Unanswered(system_words(&error)),
    };
    match hear(&mut child, patience) {
        Ok(answer) => GitReply::Answered(answer),
        Err(why) => {
            // Git and what it has started: git leads a process group of its own.
            let _ = kill(Pid::from_raw(-child.id().cast_signed()), Signal::SIGKILL);
            // One that hangs in a file system ends when that answers; it is not waited for.
            let _ = thread::Builder::new().spawn(move || (child.wait(), kept));
            GitReply::Unanswered(why)
        }
    }
}

/// A question that git is at work on, for a caller that has something else to do meanwhile. Its answer is what git
/// writes: in a process that collects orphans its exit status may be gone. Git is killed with the
/// thread that has started it.
#[derive(Debug)]
#[must_use = "nobody reads the answer"]
pub struct Pending {
    child: Child,
    #[expect(dead_code, reason = "for as long as it is kept")]
    kept: OwnChild,
}

/// Starts git as [`ask_with`] does, and does not wait for it.
///
/// # Errors
/// When git could not be started: mostly there is none.
pub fn start<S: AsRef<OsStr>>(
    dir: &Path,
    words: impl IntoIterator<Item = S>,
    input: &[u8],
) -> io::Result<Pending> {
    let mut command = question(dir, words)?;
    // Nobody reads what it says besides.
    command.stdin(piped(input)?).stderr(Stdio::null());
    // Where the caller has blocked signals, so has git.
    sys::killed_with_this_thread(&mut command);
    let (child, kept) = starting(|| command.spawn(), Child::id)?;
    Ok(Pending { child, kept })
}

impl Pending {
    /// Git's process, which leads a group of its own.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// All that git has written to its standard output, of which 64 KiB are kept. Waits until git has closed it; one that
    /// does not in 5 s is ended, and has said nothing.
    pub fn stdout(mut self) -> Vec<u8> {
        let Some(stdout) = self.child.stdout.take() else {
            return Vec::new();
        };
        let (mut stream, begun) = (Stream::new(stdout.into()), Instant::now());
        while !stream.read_what_is_there() {
            if begun.elapsed() >= PATIENCE {
                // Git and what it has started: git leads a process group of its own.
                let _ = kill(Pid::from_raw(-self.pid()), Signal::SIGKILL);
                stream.bytes.clear();
                break;
            }
            let mut open = [PollFd::new(stream.file.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut open, PollTimeout::from(100_u8));
        }
        // It has ended, or is about to; then it is collected by others, or with this process.
        let _ = self.child.try_wait();
        stream.bytes
    }
}

/// The path of git in PATH; fails with `NotFound` where there is none.
fn program() -> io::Result<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "by it the system finds a program, whoever asks"
    )]
    let path = env::var_os("PATH");
    program_in(&path.unwrap_or_else(|| "/bin:/usr/bin".into()))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The git in the directories of this PATH. One that is not absolute is passed over: git is started in the database,
/// where a repository may have brought a program of that name.
fn program_in(path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("git"))
        .find(|file| file.is_file() && access(file, AccessFlags::X_OK).is_ok())
}

fn question<S: AsRef<OsStr>>(
    dir: &Path,
    words: impl IntoIterator<Item = S>,
) -> io::Result<Command> {
    let mut command = Command::new(program()?);
    command.arg0("git");
    for name in MISLEADING.iter().chain(&["GIT_CEILING_DIRECTORIES"]) {
        command.env_remove(name);
    }
    command
        .env("LC_ALL", "C")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0");
    // Where objects are missing, they stay missing: to fetch them git would start what its configuration names.
    command
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none");
    command.env("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1");
    command.args([
        "-c",
        "core.fsmonitor=false",
        "-c",
        "safe.bareRepository=explicit",
    ]);
    command.args(words).current_dir(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    sys::end_with_this_thread(&mut command);
    Ok(command)
}

/// Exit status and output of a git that has ended.
#[derive(Debug)]
pub struct Answer {
    /// How git ended.
    pub status: ExitStatus,
    /// The first 64 KiB of git's standard output.
    pub stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Answer {
    /// Git's error in one line, untrusted and escaped; its exit status where it wrote no error.
    pub fn error(&self) -> String {
        let said = String::from_utf8_lossy(&self.stderr);
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix("fatal: "))
            .or(said.lines().next());
        line.map_or_else(|| self.status.to_string(), |line| escaped(line).to_string())
    }

    fn judged(&self, path: &Path) -> Tracked {
        let path = path.as_os_str().as_bytes();
        // What lies below a directory of that name is listed, too.
        if self
            .stdout
            .split(|byte| *byte == 0)
            .any(|listed| listed.eq_ignore_ascii_case(path))
        {
            return Tracked::Yes;
        }
        if self.status.success() {
            return Tracked::No;
        }
        match self.is_of_no_repository() {
            true => Tracked::No,
            false => Tracked::Unknown(self.error()),
        }
    }

    /// True if git has found no repository. Its exit status is the same for one that it cannot read.
    pub fn is_of_no_repository(&self) -> bool {
        // With a path instead of the parenthesis, there is one that does not work.
        self.error().starts_with("not a git repository (or any")
    }
}

/// Reads both streams to the end of the child. Without a thread: `hold` forks next, and threads must not be there then.
fn hear(child: &mut Child, patience: Duration) -> Result<Answer, String> {
    let failed = |error: io::Error| system_words(&error);
    let streams = [
        child.stdout.take().map(OwnedFd::from),
        child.stderr.take().map(OwnedFd::from),
    ];
    let mut streams = streams.map(|stream| stream.map(Stream::new));
    let begun = Instant::now();
    loop {
        let ended = child.try_wait().map_err(failed)?;
        // Both, whatever the first one is at.
        let read = |all: bool, stream: &mut Stream| stream.read_what_is_there() && all;
        let is_at_end = streams.iter_mut().flatten().fold(true, read);
        if let Some(status) = ended {
            let [stdout, stderr] =
                streams.map(|stream| stream.map(|stream| stream.bytes).unwrap_or_default());
            return Ok(Answer {
                status,
                stdout,
                stderr,
            });
        }
        if begun.elapsed() >= patience {
            return Err(format!("it took longer than {}", shown(patience)));
        }
        if is_at_end {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let open = streams.iter().flatten().filter(|stream| !stream.is_at_end);
        let mut open: Vec<_> = open
            .map(|stream| PollFd::new(stream.file.as_fd(), PollFlags::POLLIN))
            .collect();
        let _ = poll(&mut open, PollTimeout::from(20_u8));
    }
}

struct Stream {
    file: File,
    bytes: Vec<u8>,
    is_at_end: bool,
}

impl Stream {
    fn new(stream: OwnedFd) -> Self {
        // Should that fail, it is not read: a question without an answer.
        let is_at_end = fcntl(&stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_err();
        Self {
            file: File::from(stream),
            bytes: Vec::new(),
            is_at_end,
        }
    }

    fn read_what_is_there(&mut self) -> bool {
        let mut buffer = [0; 4096];
        while !self.is_at_end {
            match self.file.read(&mut buffer) {
                Ok(0) => self.is_at_end = true,
                Ok(read) => {
                    let room = KEPT.saturating_sub(self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..read.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_at_end = true,
            }
        }
        self.is_at_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn no_git_of_a_repository_is_started() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join("git");
        std::fs::write(&git, "#!/bin/sh\n").unwrap();
        let path = |dirs: &[&Path]| program_in(&env::join_paths(dirs).unwrap());
        assert_eq!(path(&[dir.path()]), None, "it cannot be executed");
        std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(path(&[dir.path()]), Some(git.clone()));
        for relative in ["", ".", "bin", "node_modules/.bin"] {
            let (relative, here) = (Path::new(relative), dir.path());
            assert_eq!(path(&[relative]), None, "{}", relative.display());
            assert_eq!(path(&[relative, here]), Some(git.clone()));
        }
    }

    fn answer(code: i32, stdout: &[u8], stderr: &[u8]) -> Tracked {
        let status = ExitStatus::from_raw(code << 8);
        Answer {
            status,
            stdout: stdout.to_vec(),
            stderr: stderr.to_vec(),
        }
        .judged(Path::new(".beads"))
    }

    #[test]
    fn only_a_clear_no_is_one() {
        let nowhere = b"fatal: not a git repository (or any of the parent directories): .git\n";
        assert_eq!(answer(0, b"", b"warning: x\n"), Tracked::No);
        assert_eq!(
            answer(0, b".beads/x\0", b""),
            Tracked::No,
            "what lies below"
        );
        assert_eq!(answer(0, b".Beads\0", b""), Tracked::Yes);
        assert_eq!(answer(128, b"", nowhere), Tracked::No);
        for (said, why) in [
            (
                &b"fatal: not a git repository: /nowhere\n"[..],
                "not a git repository: /nowhere",
            ),
            (
                b"hint: x\nfatal: detected dubious ownership\n",
                "detected dubious ownership",
            ),
            (b"git: not found\n", "git: not found"),
            (b"", "exit status: 1"),
        ] {
            assert_eq!(answer(1, b"", said), Tracked::Unknown(why.to_owned()));
        }
    }
}
