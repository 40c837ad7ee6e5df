//! The one question that is put to the `git` program here: whether it tracks a file.
//!
//! The answer comes from the index alone, and git starts no program for it: no file system monitor, no transport, no
//! hook. A directory that merely looks like a repository is not taken for one. A git that does not answer in
//! 5 s is ended, and a git that fails has not said no.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::duration::shown;
use crate::error::words;
use crate::escape::escaped;
use crate::sys;

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

/// What is kept of each stream; the rest is read and thrown away.
const KEPT: u64 = 64 * 1024;

/// Whether git tracks a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tracked {
    /// It does not, or there is no repository, or no git.
    No,
    /// It does.
    Yes,
    /// Git did not say, and why.
    Unknown(String),
}

/// Whether git, started in `dir`, tracks the file `path`, which is relative to it. Upper and lower case are the same: a
/// file system may see it so.
pub(crate) fn tracks(dir: &Path, path: &Path) -> Tracked {
    tracks_within(PATIENCE, dir, path)
}

fn tracks_within(patience: Duration, dir: &Path, path: &Path) -> Tracked {
    let child = match question(dir, path).spawn() {
        Ok(child) => child,
        // The directory is there, so what is missing is the program.
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => return Tracked::No,
        Err(error) => return Tracked::Unknown(words(&error)),
    };
    // With all that it starts: its group is its own.
    let group = Pid::from_raw(-child.id().cast_signed());
    let (tell, told) = mpsc::channel();
    // One that hangs in a file system ends when that answers; it is not waited for.
    let hearing = thread::Builder::new().spawn(move || tell.send(hear(child)));
    match hearing.map(|_| told.recv_timeout(patience)) {
        Ok(Ok(Ok(answer))) => judged(&answer, path),
        Ok(Ok(Err(error))) | Err(error) => Tracked::Unknown(words(&error)),
        Ok(Err(_)) => {
            let _ = kill(group, Signal::SIGKILL);
            Tracked::Unknown(format!("it took longer than {}", shown(patience)))
        }
    }
}

fn question(dir: &Path, path: &Path) -> Command {
    let mut command = Command::new("git");
    for name in MISLEADING.iter().chain(&["GIT_CEILING_DIRECTORIES"]) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    // Where objects are missing, they stay missing: to fetch them git would start what its configuration names.
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    command.env("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1");
    let mut spec = OsString::from(":(icase,literal)");
    spec.push(path);
    command.args([
        "-c",
        "core.fsmonitor=false",
        "-c",
        "safe.bareRepository=explicit",
        "ls-files",
        "-z",
        "--",
    ]);
    command.arg(spec).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    sys::end_with_this_thread(&mut command);
    command
}

/// What git says, and how it ends.
fn hear(mut child: Child) -> io::Result<Output> {
    let (stdout, stderr) = (kept(child.stdout.take())?, kept(child.stderr.take())?);
    Ok(Output { status: child.wait()?, stdout, stderr })
}

/// Reads a stream to its end.
fn kept(stream: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        stream.by_ref().take(KEPT).read_to_end(&mut kept)?;
        io::copy(&mut stream, &mut io::sink())?;
    }
    Ok(kept)
}

fn judged(answer: &Output, path: &Path) -> Tracked {
    let path = path.as_os_str().as_bytes();
    // What lies below a directory of that name is listed, too.
    if answer.stdout.split(|byte| *byte == 0).any(|listed| listed.eq_ignore_ascii_case(path)) {
        return Tracked::Yes;
    }
    if answer.status.success() {
        return Tracked::No;
    }
    let said = String::from_utf8_lossy(&answer.stderr);
    let line = said.lines().find_map(|line| line.strip_prefix("fatal: ")).or(said.lines().next());
    match line {
        // With a path instead of the parenthesis, there is one that does not work.
        Some(line) if line.starts_with("not a git repository (or any") => Tracked::No,
        Some(line) => Tracked::Unknown(escaped(line).to_string()),
        None => Tracked::Unknown(answer.status.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn answer(code: i32, stdout: &[u8], stderr: &[u8]) -> Tracked {
        let status = ExitStatus::from_raw(code << 8);
        let answer = Output { status, stdout: stdout.to_vec(), stderr: stderr.to_vec() };
        judged(&answer, Path::new(".beads"))
    }

    #[test]
    fn only_a_clear_no_is_one() {
        let nowhere = b"fatal: not a git repository (or any of the parent directories): .git\n";
        assert_eq!(answer(0, b"", b"warning: x\n"), Tracked::No);
        assert_eq!(answer(0, b".beads/x\0", b""), Tracked::No, "what lies below");
        assert_eq!(answer(0, b".Beads\0", b""), Tracked::Yes);
        assert_eq!(answer(128, b"", nowhere), Tracked::No);
        for (said, why) in [
            (&b"fatal: not a git repository: /nowhere\n"[..], "not a git repository: /nowhere"),
            (b"hint: x\nfatal: detected dubious ownership\n", "detected dubious ownership"),
            (b"git: not found\n", "git: not found"),
            (b"", "exit status: 1"),
        ] {
            assert_eq!(answer(1, b"", said), Tracked::Unknown(why.to_owned()));
        }
    }
}
