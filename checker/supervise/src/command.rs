//! The command: found in PATH before any wait, forked before any thread, executed once the claim stands
//! (docs/design.md#start).

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{os::fd::BorrowedFd, os::unix::ffi::OsStrExt, os::unix::fs::OpenOptionsExt};

use beadlock_base::escape::{escaped, is_harmless};
use beadlock_base::sys::{Spawn, Waiting, fork_waiting};
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{AccessFlags, Pid, access};

use super::process_tree;

/// Where programs are looked for when there is no PATH, as execvp does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a command was not found, was given no process, or did not execute. Its words and exit codes are the caller's.
#[derive(Debug)]
pub enum CommandError {
    /// There is not even a first word.
    NoCommand,
    /// There is no program of this name: at this path when it has a slash, else in PATH.
    NotFound {
        /// The first word of the command.
        name: OsString,
    },
    /// There is one, and it cannot be executed.
    NotExecutable {
        /// The file that was found.
        program: PathBuf,
        /// What forbids it.
        why: NotExecutable,
    },
    /// A word, or an entry of the environment, has a NUL byte, which no command can be given.
    Nul {
        /// The word, or the entry of the environment.
        word: OsString,
    },
    /// The system gave it no process.
    Fork(io::Error),
    /// It was there when it was looked up; what is missing is what its first line names.
    Interpreter {
        /// The command's name.
        name: OsString,
        /// What the system says.
        source: io::Error,
    },
    /// Its process ended while it waited to execute.
    DiedWaiting {
        /// The command's name.
        name: OsString,
    },
    /// The system refused to execute it.
    Refused {
        /// The command's name.
        name: OsString,
        /// What the system says.
        source: io::Error,
    },
}

/// Why a file cannot be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotExecutable {
    /// It is a directory.
    IsDirectory,
    /// Its mode does not let this user execute it.
    NotPermitted,
}

/// A command that was found: its program and its words.
#[derive(Debug, Clone)]
pub struct Command {
    program: PathBuf,
    words: Vec<OsString>,
    parent_death: Option<Signal>,
}

/// The descriptors of ours that a command has.
#[derive(Debug, Default)]
pub struct Inheritance<'a> {
    /// Its standard input and output, where these are not ours.
    pub streams: Option<[BorrowedFd<'a>; 2]>,
    /// The gate of a cycle.
    pub gate: Option<BorrowedFd<'a>>,
}

impl Command {
    /// The words, as they were typed.
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Looks up the first word: a path when it has a slash, else a name in `path`.
    pub fn find(words: Vec<OsString>, path: Option<&OsStr>) -> Result<Self, CommandError> {
        let Some(name) = words.first() else {
            return Err(CommandError::NoCommand);
        };
        let not_found = || CommandError::NotFound { name: name.clone() };
        if name.as_bytes().contains(&b'/') {
            let program = PathBuf::from(name);
            return match look_at(&program) {
                Found::Executable => Ok(Self::at(program, words)),
                Found::Nothing => Err(not_found()),
                Found::NotExecutable(why) => Err(CommandError::NotExecutable { program, why }),
            };
        }
        let mut refused = None;
        let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
        if !name.is_empty() {
            for dir in std::env::split_paths(path) {
                // An empty entry is the working directory; the name must have a slash then.
                let dir = if dir.as_os_str().is_empty() {
                    PathBuf::from(".")
                } else {
                    dir
                };
                let program = dir.join(name);
                match look_at(&program) {
                    Found::Executable => return Ok(Self::at(program, words)),
                    Found::Nothing => {}
                    Found::NotExecutable(why) => refused = refused.or(Some((program, why))),
                }
            }
        }
        Err(match refused {
            Some((program, why)) => CommandError::NotExecutable { program, why },
            None => not_found(),
        })
    }

    fn at(program: PathBuf, words: Vec<OsString>) -> Self {
        Self {
            program,
            words,
            parent_death: None,
        }
    }

    /// It is told to end (SIGTERM) when this process dies: its lock is kept up by nobody then. A
    /// [`Watchdog`](crate::watchdog::Watchdog) does the same to what it has started.
    pub fn ending_with_us(self) -> Self {
        Self {
            parent_death: Some(Signal::SIGTERM),
            ..self
        }
    }

    /// What a record calls it when no other name was given.
    pub fn holder_name(&self) -> String {
        holder_name(self.words.first().map_or(OsStr::new(""), |word| {
            Path::new(word).file_name().unwrap_or(word)
        }))
    }

    /// Its first word for people, escaped.
    pub fn shown(&self) -> String {
        self.words
            .first()
            .map(|word| escaped(&word.to_string_lossy()).to_string())
            .unwrap_or_default()
    }

    /// Forks its process, which waits before it executes.
    pub fn fork(
        &self,
        environment: &[(OsString, OsString)],
        own_group: bool,
        mask: SigSet,
        Inheritance { streams, gate }: Inheritance<'_>,
    ) -> Result<Waiting, CommandError> {
        let argv = self
            .words
            .iter()
            .map(|word| c_string(word))
            .collect::<Result<Vec<_>, _>>()?;
        let envp = environment
            .iter()
            .map(|(name, value)| c_string(&[name.as_os_str(), value].join(OsStr::new("="))));
        let envp = envp.collect::<Result<Vec<_>, _>>()?;
        let program = c_string(self.program.as_os_str())?;
        let parent_death = self.parent_death;
        let spawn = Spawn {
            program: &program,
            argv: &argv,
            envp: &envp,
            own_group,
            mask,
            parent_death,
            streams,
            inherited: gate,
        };
        fork_waiting(&spawn).map_err(CommandError::Fork)
    }

    /// Why its process, which was let go, has not executed it: `source` is what that process has said.
    pub fn not_executed(&self, source: io::Error) -> CommandError {
        let name = self.words.first().cloned().unwrap_or_default();
        match source.kind() {
            ErrorKind::NotFound => CommandError::Interpreter { name, source },
            ErrorKind::BrokenPipe => CommandError::DiedWaiting { name },
            _ => CommandError::Refused { name, source },
        }
    }
}

/// The command's process: killed while it still waits, and in any case reaped last.
pub struct Child(pub i32);

impl Drop for Child {
    fn drop(&mut self) {
        if process_tree::end_of(self.0).is_none() {
            // It has not executed, and may be stopped: it would not notice that its pipe is closed.
            let _ = kill(Pid::from_raw(self.0), Signal::SIGKILL);
        }
        process_tree::reap(self.0);
    }
}

/// A process without a controlling terminal cannot open `/dev/tty`.
pub fn has_terminal() -> bool {
    let flags = OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits())
        .open("/dev/tty")
        .is_ok()
}

/// A file name as a holder's name: what is not printable is replaced, and it is cut at 128 characters.
pub fn holder_name(name: &OsStr) -> String {
    let printable = |c: char| if is_harmless(c) { c } else { '?' };
    let shown: String = name
        .to_string_lossy()
        .chars()
        .map(printable)
        .take(128)
        .collect();
    if shown.trim().is_empty() {
        "beadlock".to_owned()
    } else {
        shown
    }
}

fn c_string(word: &OsStr) -> Result<CString, CommandError> {
    CString::new(word.as_bytes()).map_err(|_| CommandError::Nul {
        word: word.to_owned(),
    })
}

enum Found {
    Executable,
    NotExecutable(NotExecutable),
    Nothing,
}

fn look_at(program: &Path) -> Found {
    match fs::metadata(program) {
        Ok(meta) if meta.is_dir() => Found::NotExecutable(NotExecutable::IsDirectory),
        Ok(_) if access(program, AccessFlags::X_OK).is_ok() => Found::Executable,
        Ok(_) => Found::NotExecutable(NotExecutable::NotPermitted),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Found::NotExecutable(NotExecutable::NotPermitted)
        }
        Err(_) => Found::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn find(name: &str, path: Option<&OsStr>) -> Result<Command, CommandError> {
        Command::find(vec![name.into()], path)
    }

    #[test]
    fn looks_where_a_shell_looks() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = dir.path().join(name);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let tool = file("tool", 0o755);
        let data = file("data", 0o644);
        fs::create_dir(dir.path().join("folder")).unwrap();
        let path = Some(dir.path().as_os_str());
        assert_eq!(find("tool", path).unwrap().program, tool);
        assert_eq!(find(tool.to_str().unwrap(), None).unwrap().program, tool);
        for (name, refused) in [
            ("data", NotExecutable::NotPermitted),
            ("folder", NotExecutable::IsDirectory),
            (data.to_str().unwrap(), NotExecutable::NotPermitted),
        ] {
            let error = find(name, path).unwrap_err();
            let at = dir.path().join(name);
            assert!(
                matches!(&error, CommandError::NotExecutable { program, why } if *program == at && *why == refused),
                "{error:?}"
            );
        }
        for name in [
            "nothing",
            "./nothing",
            "",
            data.join("below").to_str().unwrap(),
        ] {
            let error = find(name, path).unwrap_err();
            assert!(
                matches!(&error, CommandError::NotFound { name: missing } if missing == name),
                "{error:?}"
            );
        }
        let error = Command::find(Vec::new(), path).unwrap_err();
        assert!(matches!(error, CommandError::NoCommand), "{error:?}");
        assert_eq!(find("sh", None).unwrap().program, Path::new("/bin/sh"));
    }

    #[test]
    fn a_base_name_makes_a_fit_holder() {
        for (word, name) in [
            ("/usr/bin/make", "make"),
            ("a\nb", "a?b"),
            ("", "beadlock"),
            ("..", ".."),
        ] {
            let command = Command::at(PathBuf::new(), vec![word.into()]);
            assert_eq!(command.holder_name(), name);
        }
        assert_eq!(
            holder_name(OsStr::new(&"é".repeat(300))).chars().count(),
            128
        );
    }
}
