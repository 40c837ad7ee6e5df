//! The command: found in PATH before any wait, forked before any thread, executed once the claim stands
//! (docs/design.md#start).

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{os::fd::BorrowedFd, os::unix::ffi::OsStrExt, os::unix::fs::OpenOptionsExt};

use beadlock_base::error::system_words;
use beadlock_base::escape::{escaped, is_harmless};
use beadlock_base::sys::{Spawn, Waiting, fork_waiting};
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{AccessFlags, Pid, access};

use super::{event::failed_to, tree};
use crate::error::{Code, Error, Exit};

/// Where programs are looked for when there is no PATH, as execvp does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

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

    /// Looks up the first word: a path when it has a slash, else a name in `path`. Exit 127 where there is none, 126
    /// where it cannot be executed.
    pub fn find(words: Vec<OsString>, path: Option<&OsStr>) -> Result<Self, Error> {
        let Some(name) = words.first() else {
            return Err(Error::usage("no command; type: beadlock hold -- CMD"));
        };
        let shown = escaped(&name.to_string_lossy()).to_string();
        if name.as_bytes().contains(&b'/') {
            return match look_at(Path::new(name)) {
                Found::Executable => Ok(Self::at(PathBuf::from(name), words)),
                Found::Nothing => Err(not_found(format!("{shown}: no such file"))),
                Found::NotExecutable(why) => Err(cannot_execute(&shown, why)),
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
            Some((program, why)) => cannot_execute(&program.to_string_lossy(), why),
            None => not_found(format!("{shown}: command not found in PATH")),
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
    /// [`Watchdog`](crate::run::watchdog::Watchdog) does the same to what it has started.
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
    ) -> Result<Waiting, Error> {
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
        fork_waiting(&spawn).map_err(|error| failed_to("make the command's process", &error))
    }

    pub fn not_executed(&self, error: &io::Error) -> Error {
        let (name, why) = (self.shown(), system_words(error));
        match error.kind() {
            // It was there when it was looked up; what is missing is what its first line names.
            ErrorKind::NotFound => not_found(format!("{name}: {why}; is its interpreter there?")),
            ErrorKind::BrokenPipe => Error::new(
                Code::Io,
                format!("{name}: its process ended before it could execute"),
            )
            .ending(Exit::NotStarted),
            kind => Error::io(format!("{name}: cannot be executed: {why}"), kind)
                .ending(Exit::CannotExecute),
        }
    }
}

/// The command's process: killed while it still waits, and in any case reaped last.
pub struct Child(pub i32);

impl Drop for Child {
    fn drop(&mut self) {
        if tree::ending(self.0).is_none() {
            // It has not executed, and may be stopped: it would not notice that its pipe is closed.
            let _ = kill(Pid::from_raw(self.0), Signal::SIGKILL);
        }
        tree::reap(self.0);
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

fn c_string(word: &OsStr) -> Result<CString, Error> {
    let nul = || {
        Error::usage(format!(
            "{:?} has a NUL byte, which no command can be given",
            word.to_string_lossy()
        ))
    };
    CString::new(word.as_bytes()).map_err(|_| nul())
}

enum Found {
    Executable,
    NotExecutable(&'static str),
    Nothing,
}

fn look_at(program: &Path) -> Found {
    match fs::metadata(program) {
        Ok(meta) if meta.is_dir() => Found::NotExecutable("is a directory"),
        Ok(_) if access(program, AccessFlags::X_OK).is_ok() => Found::Executable,
        Ok(_) => Found::NotExecutable("permission denied"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Found::NotExecutable("permission denied")
        }
        Err(_) => Found::Nothing,
    }
}

fn not_found(message: String) -> Error {
    Error::usage(message).ending(Exit::NotFound)
}

fn cannot_execute(program: &str, why: &str) -> Error {
    let message = format!("{}: cannot be executed: {why}", escaped(program));
    Error::new(Code::NotPermitted, message).ending(Exit::CannotExecute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn find(name: &str, path: Option<&OsStr>) -> Result<Command, Error> {
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
        for (name, exit) in [
            ("data", Exit::CannotExecute),
            ("folder", Exit::CannotExecute),
            (data.to_str().unwrap(), Exit::CannotExecute),
            ("nothing", Exit::NotFound),
            ("./nothing", Exit::NotFound),
            ("", Exit::NotFound),
            (data.join("below").to_str().unwrap(), Exit::NotFound),
        ] {
            assert_eq!(find(name, path).unwrap_err().exit, exit, "{name}");
        }
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
