//! Output for scripts: lines for `eval`, or for a file of environment variables (docs/design.md#claims-that-last).

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::{fs::File, os::fd::AsFd, os::unix::ffi::OsStrExt};

use beadlock_base::sys::stdout_was_closed;

use crate::words::quoted;
use beadlock_base::stdout::print;

/// Where stdout leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// A person reads it, and may paste it.
    Terminal,
    /// A pipe, as of `eval "$(…)"`.
    Shell,
    /// A regular file of variables, such as `$GITHUB_ENV`.
    Variables,
}

impl Script {
    /// Where the stdout of this process leads; anything but a terminal and a regular file counts as a pipe.
    pub fn of_stdout() -> Self {
        let stdout = io::stdout();
        let file = stdout.as_fd().try_clone_to_owned().map(File::from);
        let is_file = || file.and_then(|file| Ok(file.metadata()?.is_file()));
        if stdout.is_terminal() {
            Self::Terminal
        } else if is_file().unwrap_or_default() {
            Self::Variables
        } else {
            Self::Shell
        }
    }

    /// The line that sets a variable.
    pub fn set(self, name: &str, value: &OsStr) -> Vec<u8> {
        let (before, word) = match self {
            Self::Variables => ("", assigned(value)),
            Self::Terminal | Self::Shell => ("export ", exported(value)),
        };
        [before.as_bytes(), name.as_bytes(), b"=", &word, b"\n"].concat()
    }

    /// The lines that take variables back.
    pub fn unset(self, names: &[&str]) -> String {
        match self {
            Self::Terminal => String::new(),
            Self::Shell if names.is_empty() => String::new(),
            Self::Shell => format!("unset {}\n", names.join(" ")),
            Self::Variables => names.iter().map(|name| format!("{name}=\n")).collect(),
        }
    }

    /// Prints the exit code where `eval "$(…)"` drops it.
    pub fn fail(code: u8) {
        if code != 0 && Self::of_stdout() == Self::Shell {
            // A reader that is gone has the exit code.
            let _ = print(format!("(exit {code})\n"));
        }
    }
}

/// Prints text that the caller must have: a pipe that is closed is a failure here.
pub fn print_all(text: &[u8]) -> io::Result<()> {
    if stdout_was_closed() {
        return Err(io::Error::other("it is closed"));
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

/// A word as every shell reads it back: this is data, and so is no more escaped than the line needs. Only what would
/// break it has other quotes ([`quoted`]).
fn assigned(word: &OsStr) -> Vec<u8> {
    let (bytes, shown) = (word.as_bytes(), quoted(word));
    if !shown.starts_with(['$', '"']) || bytes.iter().any(u8::is_ascii_control) {
        return shown.into_bytes();
    }
    in_quotes(bytes)
}

/// A word as every shell reads it back, always in quotes.
fn exported(word: &OsStr) -> Vec<u8> {
    match word.as_bytes() {
        bytes if bytes.iter().any(u8::is_ascii_control) => quoted(word).into_bytes(),
        bytes => in_quotes(bytes),
    }
}

fn in_quotes(bytes: &[u8]) -> Vec<u8> {
    let inner = bytes
        .split(|byte| *byte == b'\'')
        .collect::<Vec<_>>()
        .join(&br"'\''"[..]);
    [b"'", inner.as_slice(), b"'"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_has_its_form() {
        let set = |script: Script, value: &str| {
            String::from_utf8(script.set("A", OsStr::new(value))).unwrap()
        };
        assert_eq!(set(Script::Shell, "beads:/x"), "export A='beads:/x'\n");
        assert_eq!(set(Script::Terminal, "it's"), "export A='it'\\''s'\n");
        assert_eq!(set(Script::Variables, "beads:/x"), "A=beads:/x\n");
        let names = ["A", "B"];
        assert_eq!(Script::Shell.unset(&names), "unset A B\n");
        assert_eq!(Script::Variables.unset(&names), "A=\nB=\n");
        assert_eq!(Script::Terminal.unset(&names), "");
    }
}
