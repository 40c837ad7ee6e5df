//! The errors of a command's process, as the contract has them: why it was not started, and what it needs around it.

use crate::error::Problem;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use beadlock_base::{error::system_words, escape::escaped};

use super::event::failed_to;
use crate::error::{Code, Error, Exit};
use crate::observe::NotAcquired;
use beadlock_supervise::command::{CommandError, NotExecutable};

impl Error {
    /// Signals cannot be read from a descriptor.
    #[doc(hidden)]
    pub fn of_signals(error: io::Error) -> Self {
        Self::failed("prepare for signals", &error)
    }

    /// The orphans of a command do not fall to this process.
    #[doc(hidden)]
    pub fn of_subreaper(error: io::Error) -> Self {
        Self::failed("become the subreaper of the command", &error)
    }
}

#[doc(hidden)]
impl From<CommandError> for Error {
    fn from(error: CommandError) -> Self {
        let not_found = |words: String| Self::usage(words).ending(Exit::NotFound);
        match error {
            CommandError::NoCommand => Self::usage("no command; type: beadlock hold -- CMD"),
            CommandError::NotFound { name } => {
                let why = if name.as_bytes().contains(&b'/') {
                    "no such file"
                } else {
                    "command not found in PATH"
                };
                not_found(format!("{}: {why}", shown(&name)))
            }
            CommandError::NotExecutable { program, why } => {
                let why = match why {
                    NotExecutable::IsDirectory => "is a directory",
                    NotExecutable::NotPermitted => "permission denied",
                };
                let program = shown(program.as_os_str());
                Self::new(
                    Code::NotPermitted,
                    format!("{program}: cannot be executed: {why}"),
                )
                .ending(Exit::CannotExecute)
            }
            CommandError::Nul { word } => Self::usage(format!(
                "{:?} has a NUL byte, which no command can be given",
                word.to_string_lossy()
            )),
            CommandError::Fork(error) => failed_to("make the command's process", &error),
            CommandError::Interpreter { name, source } => not_found(format!(
                "{}: {}; is its interpreter there?",
                shown(&name),
                system_words(&source)
            )),
            CommandError::DiedWaiting { name } => Self::new(
                Code::Io,
                format!(
                    "{}: its process ended before it could execute",
                    shown(&name)
                ),
            )
            .ending(Exit::NotStarted),
            CommandError::Refused { name, source } => Self::io(
                format!(
                    "{}: cannot be executed: {}",
                    shown(&name),
                    system_words(&source)
                ),
                source.kind(),
            )
            .ending(Exit::CannotExecute),
        }
    }
}

impl From<CommandError> for NotAcquired {
    fn from(error: CommandError) -> Self {
        Self::Failed(error.into())
    }
}

fn shown(name: &OsStr) -> String {
    escaped(&name.to_string_lossy()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// The words, the code and the exit code of each: scripts rely on them.
    #[test]
    fn each_error_of_a_command_has_its_words_and_its_exit_code() {
        let name = || "a\nb".into();
        let refused = |kind: ErrorKind| CommandError::Refused {
            name: name(),
            source: kind.into(),
        };
        let not_executable = |why| CommandError::NotExecutable {
            program: "/bin".into(),
            why,
        };
        for (error, words, code, exit) in [
            (
                CommandError::NoCommand,
                "no command; type: beadlock hold -- CMD",
                Code::Usage,
                2,
            ),
            (
                CommandError::NotFound { name: name() },
                "a\\nb: command not found in PATH",
                Code::Usage,
                127,
            ),
            (
                CommandError::NotFound { name: "./x".into() },
                "./x: no such file",
                Code::Usage,
                127,
            ),
            (
                not_executable(NotExecutable::IsDirectory),
                "/bin: cannot be executed: is a directory",
                Code::NotPermitted,
                126,
            ),
            (
                not_executable(NotExecutable::NotPermitted),
                "/bin: cannot be executed: permission denied",
                Code::NotPermitted,
                126,
            ),
            (
                CommandError::Nul { word: "a\0".into() },
                "\"a\\0\" has a NUL byte, which no command can be given",
                Code::Usage,
                2,
            ),
            (
                CommandError::Fork(io::Error::from_raw_os_error(11)),
                "failed to make the command's process: no more processes are allowed to this user (ulimit -u)",
                Code::Io,
                1,
            ),
            (
                CommandError::Interpreter {
                    name: name(),
                    source: io::Error::from_raw_os_error(2),
                },
                "a\\nb: no such file or directory; is its interpreter there?",
                Code::Usage,
                127,
            ),
            (
                CommandError::DiedWaiting { name: name() },
                "a\\nb: its process ended before it could execute",
                Code::Io,
                125,
            ),
            (
                refused(ErrorKind::PermissionDenied),
                "a\\nb: cannot be executed: permission denied",
                Code::NotPermitted,
                126,
            ),
            (
                refused(ErrorKind::OutOfMemory),
                "a\\nb: cannot be executed: out of memory",
                Code::Io,
                126,
            ),
        ] {
            let shown = format!("{error:?}");
            let error = Error::from(error);
            assert_eq!(
                (error.message.as_str(), error.code, error.exit.code()),
                (words, code, exit),
                "{shown}"
            );
        }
    }
}
