//! The directory that is meant by a path, without links; and why there is none.

use std::{fmt, fs, io, path::Path, path::PathBuf};

use beadlock_base::{error::system_words, permission, shell::make_directory};

enum LeadsTo {
    /// A directory, by its path without links.
    Directory(PathBuf),
    Nothing,
    SomethingElse,
}

/// The directory of the lock file that `target` names, without links.
pub(crate) fn of_lock(parent: &Path, shown: &str, target: &str) -> Result<PathBuf, NoDatabase> {
    let what = match lead(parent, shown)? {
        LeadsTo::Directory(dir) => return Ok(dir),
        LeadsTo::Nothing => format!("does not exist; {}", make_directory(parent)),
        LeadsTo::SomethingElse => "is not a directory; name another".to_owned(),
    };
    let message = format!("the directory of {target} {what}");
    Err(NoDatabase::not_there(message))
}

/// The directory that `target` names, without links where it is there: one with a lock of its own need not be.
pub(crate) fn with_lock(absolute: &Path, shown: &str, target: &str) -> Result<PathBuf, NoDatabase> {
    match lead(absolute, shown)? {
        LeadsTo::Directory(dir) => Ok(dir),
        // A directory of the lock's own name would be in everybody's way.
        LeadsTo::Nothing if !absolute.ends_with(".lock") => Ok(absolute.to_owned()),
        LeadsTo::Nothing | LeadsTo::SomethingElse => {
            let message =
                format!("{target} is not a directory; name the one that .lock is, or will be, in");
            Err(NoDatabase::not_there(message))
        }
    }
}

pub(crate) fn of_database(absolute: &Path, shown: &str) -> Result<PathBuf, NoDatabase> {
    let message = match lead(absolute, shown)? {
        LeadsTo::Directory(dir) => return Ok(dir),
        LeadsTo::Nothing => {
            format!(
                "{shown} does not exist; name the directory of a beads database, such as path/.beads"
            )
        }
        LeadsTo::SomethingElse => {
            format!(
                "{shown} is not a directory; name the directory that holds .exclusive-lock, such as path/.beads"
            )
        }
    };
    Err(NoDatabase::not_there(message))
}

/// The directory that `target` names, whatever is in it.
pub(crate) fn plain(absolute: &Path, target: &str) -> Result<PathBuf, NoDatabase> {
    let what = match lead(absolute, target)? {
        LeadsTo::Directory(dir) => return Ok(dir),
        LeadsTo::Nothing => format!("does not exist; {}", make_directory(absolute)),
        LeadsTo::SomethingElse => "is not a directory; name one".to_owned(),
    };
    Err(NoDatabase::not_there(format!("{target} {what}")))
}

fn lead(absolute: &Path, shown: &str) -> Result<LeadsTo, NoDatabase> {
    let dir = match fs::canonicalize(absolute) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LeadsTo::Nothing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Ok(LeadsTo::SomethingElse);
        }
        Err(error) => return Err(unreachable(absolute, shown, &error)),
    };
    match fs::metadata(&dir) {
        Ok(meta) if meta.is_dir() => Ok(LeadsTo::Directory(dir)),
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Err(unreachable(&dir, shown, &error))
        }
        _ => Ok(LeadsTo::SomethingElse),
    }
}

/// The error for a path at which nobody can tell what lies there.
pub(crate) fn unreachable(path: &Path, shown: &str, error: &io::Error) -> NoDatabase {
    let why = permission::directory_above(path)
        .unwrap_or_else(|| "check the permissions of the directories above it".to_owned());
    NoDatabase::io(format!(
        "cannot reach {shown}: {}; {why}",
        system_words(error)
    ))
}

/// Why there is no database. `Display` says what to type next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoDatabase {
    kind: NoDatabaseKind,
    message: String,
    /// Whether the message ends with how to name a database to the program that shows it.
    names_one: bool,
}

/// Kinds of reason why there is no database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDatabaseKind {
    /// No database is at the place.
    NotThere,
    /// The command line is wrong.
    Usage,
    /// The place cannot be looked at, or what leads from there to it.
    Io,
}

/// The program in whose name advice is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `beadlock`
    Beadlock,
    /// `beadlock-agent`
    Agent,
}

impl Program {
    /// The command that names a database to this program.
    fn named_one(self) -> &'static str {
        match self {
            Self::Beadlock => "beadlock hold path/.beads -- …",
            Self::Agent => "beadlock-agent --db path/.beads",
        }
    }
}

impl NoDatabase {
    fn new(kind: NoDatabaseKind, message: String) -> Self {
        Self {
            kind,
            message,
            names_one: false,
        }
    }

    pub(crate) fn not_there(message: String) -> Self {
        Self::new(NoDatabaseKind::NotThere, message)
    }

    /// The error of a search without a name: the message goes on with how to name a database.
    pub(crate) fn not_found(message: String) -> Self {
        Self {
            names_one: true,
            ..Self::not_there(message)
        }
    }

    pub(crate) fn io(message: String) -> Self {
        Self::new(NoDatabaseKind::Io, message)
    }

    /// A mistake of the command line.
    pub fn usage(message: String) -> Self {
        Self::new(NoDatabaseKind::Usage, message)
    }

    /// This error, with the variable in front that the target came from: `$NAME: …`.
    pub fn of_variable(self, name: &str) -> Self {
        Self {
            message: format!("${name}: {}", self.message),
            ..self
        }
    }

    pub(crate) fn with(self, more: &str) -> Self {
        Self {
            message: self.message + more,
            ..self
        }
    }

    /// 2 when the command line is wrong, else 1 (docs/design.md#exit-codes).
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            NoDatabaseKind::Usage => 2,
            NoDatabaseKind::NotThere | NoDatabaseKind::Io => 1,
        }
    }

    /// Whether the database is not there, the command line is wrong, or the place cannot be looked at.
    pub fn kind(&self) -> NoDatabaseKind {
        self.kind
    }

    /// The message, with the command of `program` where it says how to name a database.
    pub fn shown(&self, program: Program) -> String {
        let Self { message, .. } = self;
        match self.names_one {
            true => format!("{message}; name one: {}", program.named_one()),
            false => message.clone(),
        }
    }
}

impl fmt::Display for NoDatabase {
    /// The message of `beadlock`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(Program::Beadlock))
    }
}

impl std::error::Error for NoDatabase {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_a_database_as_its_program_does() {
        let found = NoDatabase::not_found("no .beads here or above (looked in / and above)".into());
        let said = "no .beads here or above (looked in / and above); name one:";
        assert_eq!(
            found.to_string(),
            format!("{said} beadlock hold path/.beads -- …")
        );
        assert_eq!(
            found.shown(Program::Agent),
            format!("{said} beadlock-agent --db path/.beads")
        );
        assert_eq!(
            (found.kind(), found.exit_code()),
            (NoDatabaseKind::NotThere, 1)
        );
        let usage = NoDatabase::usage("x".to_owned())
            .with(" y")
            .of_variable("V");
        assert_eq!(
            (usage.shown(Program::Agent), usage.to_string()),
            ("$V: x y".into(), "$V: x y".into())
        );
        assert_eq!(
            (usage.kind(), usage.exit_code()),
            (NoDatabaseKind::Usage, 2)
        );
        let io = NoDatabase::io("x".to_owned());
        assert_eq!((io.kind(), io.exit_code()), (NoDatabaseKind::Io, 1));
    }
}
