//! The `git` program: how it is started so that it never asks and never tidies up.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use beadlock_base::git::MISLEADING;
use beadlock_base::{error::system_words, sys};
use nix::sys::signal::Signal;

use crate::tree::FileTree;
use crate::{
    Beginnings, GitOutput, GitReason, KeptOutput, SyncMessage, SyncStop, converse, escaped, say,
};

static ENDING: OnceLock<Arc<AtomicBool>> = OnceLock::new();

static IS_TIMED: AtomicBool = AtomicBool::new(false);

/// From here on, SIGTERM lets the running git end and no new one start, so that what is held is let go in order.
pub fn prepare(is_timed: bool) {
    let ending = ENDING.get_or_init(Arc::default);
    // When this fails, SIGTERM ends the sync as it stands, and the next one clears up.
    let _ = signal_hook::flag::register(Signal::SIGTERM as i32, Arc::clone(ending));
    IS_TIMED.store(is_timed, Ordering::Relaxed);
}

/// Settings for every call: nothing in the background, nothing done to submodules.
const SETTINGS: [&str; 10] = [
    "gc.auto=0",
    "maintenance.auto=false",
    "core.fsmonitor=false",
    // A split index without hashes shares one file with every other: the one of our scratch.
    "index.skipHash=false",
    "core.quotePath=false",
    // A file that somebody adds stays where it was added, in the database or outside.
    "merge.directoryRenames=false",
    "submodule.recurse=false",
    "status.aheadBehind=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=30",
];

/// Where a program finds a person to ask: a terminal, a screen, or a dialog of ssh's.
const OF_A_PERSON: [&str; 4] = ["SSH_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY"];

/// Whether an editor has set `GIT_ASKPASS` to a dialog of its own. Any other one is a program that knows the password,
/// as in a container.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable says whose another one is"
)]
fn is_of_an_editor() -> bool {
    env::var_os("VSCODE_GIT_IPC_HANDLE").is_some()
}

/// Settings for a call that tidies up. A git that does not know one of them ignores it.
const TIDYING: [&str; 6] = [
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "pack.threads=1",
    "pack.windowMemory=256m",
];

/// A git that is started in one directory, with settings under which it asks nobody.
#[derive(Debug, Clone)]
pub struct Git {
    /// The directory, for lines and for paths.
    pub dir: PathBuf,
    /// The open directory: git starts there, whatever the path leads to by then.
    open: Option<Arc<File>>,
    ssh: Option<OsString>,
    /// The git directory and the working tree, where git is not to look for them.
    told: Option<(PathBuf, PathBuf)>,
}

/// One call of git, before it is made.
pub struct GitCall {
    command: Command,
    stdin: Vec<u8>,
    bound: Option<Duration>,
    kept: KeptOutput,
}

impl Git {
    /// A git in this directory.
    pub fn in_dir(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            open: None,
            ssh: None,
            told: None,
        }
    }

    /// A git in a directory that is open; `dir` is its path, for lines.
    pub(crate) fn in_open(open: Arc<File>, dir: PathBuf) -> Self {
        Self {
            dir,
            open: Some(open),
            ssh: None,
            told: None,
        }
    }

    fn place(&self) -> PathBuf {
        let of_open =
            |open: &Arc<File>| PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        self.open
            .as_ref()
            .map(of_open)
            .filter(|place| place.is_dir())
            .unwrap_or_else(|| self.dir.clone())
    }

    /// A git for the same repository with another working tree, in which it is started.
    pub fn in_tree(&self, git_dir: &Path, tree: &FileTree) -> Self {
        Self {
            dir: tree.path.clone(),
            open: None,
            ssh: self.ssh.clone(),
            told: Some((git_dir.to_owned(), tree.path.clone())),
        }
    }

    /// This git with another command for ssh; `None`: none is given to it.
    pub fn with_ssh(mut self, command: Option<OsString>) -> Self {
        self.ssh = command;
        self
    }

    /// The command for ssh that it was given.
    pub fn ssh(&self) -> Option<&OsStr> {
        self.ssh.as_deref()
    }

    /// This git for the network: ssh asks nobody either, whatever command for it is configured.
    pub fn with_batch_ssh(self, configured: Option<&str>) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "settings of git's, read beside its others"
        )]
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        let command = variable("GIT_SSH_COMMAND").or_else(|| configured.map(OsString::from));
        if command.is_none() && variable("GIT_SSH").is_some() {
            return self; // A program of the user's, without options.
        }
        let mut command = command.unwrap_or_else(|| "ssh".into());
        let program = command
            .as_encoded_bytes()
            .split(|byte| *byte == b' ')
            .next()
            .unwrap_or_default();
        if program == b"ssh" || program.ends_with(b"/ssh") {
            command.push(" -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15");
        }
        self.with_ssh(Some(command))
    }

    /// A call with these arguments.
    pub fn call<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> GitCall {
        self.call_with(&SETTINGS, args)
    }

    /// A call that tidies up: in the foreground, with little memory, and by the settings of the user.
    pub fn tidying<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> GitCall {
        self.call_with(&TIDYING, args)
    }

    fn call_with<S: AsRef<OsStr>>(
        &self,
        settings: &[&str],
        args: impl IntoIterator<Item = S>,
    ) -> GitCall {
        let mut command = Command::new("git");
        for name in MISLEADING.iter().chain(&OF_A_PERSON) {
            command.env_remove(name);
        }
        if is_of_an_editor() {
            command.env_remove("GIT_ASKPASS");
        }
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GCM_INTERACTIVE", "never");
        command
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GIT_OPTIONAL_LOCKS", "0");
        command
            .env("GIT_EDITOR", ":")
            .env("GIT_SEQUENCE_EDITOR", ":")
            .env("GIT_PAGER", "cat")
            // What git says is read; names and texts keep their encoding.
            .env("LANGUAGE", "C");
        if let Some(ssh) = &self.ssh {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        if let Some((git_dir, tree)) = &self.told {
            command.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", tree);
        }
        command.current_dir(self.place()).arg("--no-pager");
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        command.args(args);
        GitCall {
            command,
            stdin: Vec::new(),
            bound: None,
            kept: KeptOutput::All,
        }
    }

    /// Makes a call. Returns its stdout without the last newline.
    ///
    /// # Errors
    /// When git fails, or cannot be started.
    pub fn text<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String, SyncStop> {
        self.call(args).text()
    }
}

impl GitCall {
    /// The arguments of this call, without those of every call, for lines.
    fn shown(&self) -> Vec<String> {
        let own = self.command.get_args().skip(1 + 2 * SETTINGS.len());
        own.map(|arg| escaped(&arg.to_string_lossy()).to_string())
            .collect()
    }

    /// Adds arguments that need not be UTF-8.
    pub fn paths(mut self, paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        for path in paths {
            self.command.arg(OsStr::from_bytes(path.as_ref()));
        }
        self
    }

    /// The call uses this file as its index.
    pub fn index(mut self, file: &Path) -> Self {
        self.command.env("GIT_INDEX_FILE", file);
        self
    }

    /// git may write the index that it is given (our own) when it has looked at files.
    pub fn with_locks(mut self) -> Self {
        self.command.env("GIT_OPTIONAL_LOCKS", "1");
        self
    }

    /// The call is given these bytes on its stdin.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// The call is ended after so long.
    pub fn within(self, bound: Duration) -> Self {
        Self {
            bound: Some(bound),
            ..self
        }
    }

    /// The output may come from a stranger: of a long text the middle is not kept.
    pub fn of_strangers(self) -> Self {
        Self {
            kept: KeptOutput::BothEnds,
            ..self
        }
    }

    pub(crate) fn beginnings(self) -> Self {
        Self {
            kept: KeptOutput::Beginnings(Beginnings::default()),
            ..self
        }
    }

    /// Adds settings to this call alone. They are not on its command line, which everybody may read.
    pub(crate) fn with_settings(mut self, settings: &[(String, String)]) -> Self {
        if !settings.is_empty() {
            let count = settings.len().to_string();
            self.command.env("GIT_CONFIG_COUNT", count);
        }
        for (number, (key, value)) in settings.iter().enumerate() {
            self.command.env(format!("GIT_CONFIG_KEY_{number}"), key);
            self.command
                .env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        self
    }

    /// Adds variables to the environment of this call.
    pub fn variables(mut self, variables: &[(OsString, OsString)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (name, value));
        self.command.envs(variables);
        self
    }

    /// Makes git speak English, for messages that are read.
    pub(crate) fn in_english(mut self) -> Self {
        self.command.env("LC_ALL", "C");
        self
    }

    /// Its result, also when it fails. An error means that it could not be run.
    pub fn run(mut self) -> Result<GitOutput, SyncStop> {
        if ENDING
            .get()
            .is_some_and(|ending| ending.load(Ordering::Relaxed))
        {
            return Err(SyncStop::failed(GitReason::Killed, "it was told to end"));
        }
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A git that outlived its sync would work without the gate.
        sys::end_with_this_thread(&mut self.command);
        let begun = Instant::now();
        let args = self.shown();
        let failed = |error: io::Error| {
            SyncStop::failed(
                GitReason::GitFailed,
                format!("git {}: {}", args.join(" "), system_words(&error)),
            )
        };
        let mut child = self.command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.command.get_current_dir().is_some_and(Path::is_dir) => {
                SyncStop::failed(GitReason::GitFailed, "there is no program git; install it")
            }
            _ => failed(error),
        })?;
        let answer = converse(&mut child, self.stdin, self.bound, self.kept).map_err(failed);
        if answer.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if IS_TIMED.load(Ordering::Relaxed) {
            let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            // A setting (`-c name=value`) is not a subcommand.
            let step = args
                .iter()
                .find(|arg| !arg.starts_with('-') && !arg.contains('='));
            say(&SyncMessage::Step {
                name: step.cloned().unwrap_or_default(),
                millis,
            });
        }
        answer
    }

    /// Its result, when it succeeds; else its stderr goes to the log.
    pub fn done(self) -> Result<GitOutput, SyncStop> {
        let args = self.shown().join(" ");
        let answer = self.run()?;
        if answer.status.success() {
            Ok(answer)
        } else {
            Err(answer.refused(&format!("git {args} failed")))
        }
    }

    /// Its stdout without the last newline, when it succeeds.
    pub fn text(self) -> Result<String, SyncStop> {
        let answer = self.done()?;
        Ok(String::from_utf8_lossy(answer.stdout.trim_ascii_end()).into_owned())
    }

    /// Makes the call. Returns the words of its stdout that NUL bytes end.
    ///
    /// # Errors
    /// When git fails, or cannot be started.
    pub fn words(self) -> Result<Vec<Vec<u8>>, SyncStop> {
        Ok(nul_separated(&self.done()?.stdout))
    }
}

/// The words of an output of git's with `-z`: the last NUL byte ends the last of them.
pub fn nul_separated(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut words: Vec<_> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    if words.last().is_some_and(Vec::is_empty) {
        words.pop();
    }
    words
}

/// A path as git prints it with `-z`.
pub fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
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
        git.call(["init", "--quiet"])
            .done()
            .unwrap_or_else(|_| panic!());
        let long = vec![b'x'; 3_000_000];
        let id = git
            .call(["hash-object", "-w", "--stdin"])
            .stdin(long.clone())
            .text()
            .unwrap_or_default();
        let answer = git
            .call(["cat-file", "blob", &id])
            .run()
            .unwrap_or_else(|_| panic!());
        assert_eq!(answer.stdout.len(), long.len());
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let (_root, git) = git();
        let begun = Instant::now();
        let call = git
            .call(["-c", "alias.x=!exec sleep 60", "x"])
            .within(Duration::from_millis(200));
        let answer = call.run().unwrap_or_else(|_| panic!());
        assert!(answer.timed_out && !answer.status.success());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn of_a_long_answer_of_a_stranger_the_ends_are_kept() {
        let (_root, git) = git();
        let script = "!echo first; yes | head -c 30000000; echo last";
        let call = git.call(["-c", &format!("alias.x={script}"), "x"]);
        let answer = call.of_strangers().run().unwrap_or_else(|_| panic!());
        assert!(answer.stdout.len() < 1024 * 1024, "{}", answer.stdout.len());
        assert!(answer.stdout.starts_with(b"first\n") && answer.stdout.ends_with(b"last\n"));
    }

    #[test]
    fn what_was_left_behind_is_not_waited_for() {
        let (_root, git) = git();
        let begun = Instant::now();
        let answer = git
            .call(["-c", "alias.x=!sleep 30 & echo $!", "x"])
            .run()
            .unwrap_or_else(|_| panic!());
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
