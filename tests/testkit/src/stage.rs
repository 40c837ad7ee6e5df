//! Which programs a scene starts, and how.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binaries;

/// What a scene is for.
pub(crate) enum Stage {
    /// Both programs of the build, with the PATH of the test and a HOME.
    Both,
    /// This one `beadlock`, in a session of its own and with a PATH and nothing else, so that it has no terminal and
    /// no home wherever the tests run.
    Beadlock(PathBuf),
    /// This one `beadlock-agent`, with a PATH and nothing else.
    Agent(PathBuf),
}

impl Stage {
    /// How the name of a scene's temporary directory begins.
    pub(crate) fn prefix(&self) -> &'static str {
        match self {
            Self::Both => "beadlock-test-",
            // Short: lines for a narrow terminal, and names of sockets, have this path in them.
            Self::Beadlock(_) | Self::Agent(_) => ".tmp",
        }
    }

    /// The directory above `.beads`: the agent's has no link in its path, and one above it that is the scene's too.
    pub(crate) fn path(&self, top: &Path) -> PathBuf {
        match self {
            Self::Both | Self::Beadlock(_) => top.to_path_buf(),
            Self::Agent(_) => top
                .canonicalize()
                .expect("a path without links")
                .join("repo"),
        }
    }

    /// The program `beadlock`.
    pub(crate) fn beadlock(&self) -> PathBuf {
        match self {
            Self::Beadlock(beadlock) => beadlock.clone(),
            Self::Both | Self::Agent(_) => binaries::beadlock(),
        }
    }

    /// The program `beadlock-agent`.
    pub(crate) fn agent(&self) -> PathBuf {
        match self {
            Self::Agent(agent) => agent.clone(),
            Self::Both | Self::Beadlock(_) => binaries::agent(),
        }
    }

    /// The program that the scene is for, and the variable that names it to a script.
    pub(crate) fn program(&self) -> (&'static str, PathBuf) {
        match self {
            Self::Both | Self::Beadlock(_) => ("BEADLOCK", self.beadlock()),
            Self::Agent(_) => ("AGENT", self.agent()),
        }
    }

    /// Any program, from an environment with nothing but PATH, perhaps HOME, which is this one, and in a session of
    /// its own `BEADLOCK`.
    pub(crate) fn command(&self, program: &Path, home: &Path) -> Command {
        let mut command = match self {
            Self::Both | Self::Agent(_) => Command::new(program),
            Self::Beadlock(_) => Command::new("setsid"),
        };
        command.env_clear().stdin(Stdio::null());
        match self {
            Self::Both => {
                command.env(
                    "PATH",
                    std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()),
                );
                command.env("HOME", home)
            }
            Self::Beadlock(beadlock) => {
                command
                    .arg(program)
                    .env("PATH", "/usr/bin:/bin")
                    .env("BEADLOCK", beadlock);
                command.stdout(Stdio::piped()).stderr(Stdio::piped())
            }
            Self::Agent(_) => {
                command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
                command.stdout(Stdio::piped()).stderr(Stdio::piped())
            }
        };
        command
    }
}
