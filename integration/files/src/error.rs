//! Why a file did not get its content. Its words are the whole message; the kind of the system's error says what the
//! caller makes of it.

use std::path::{Path, PathBuf};
use std::{borrow::Cow, fmt, io};

use beadlock_base::{error::system_words, escape::escaped_path};

use super::json::Spilled;

/// An operation on a file that failed. `Display` is the whole message, and says what has become of the file.
#[derive(Debug)]
pub enum Error {
    /// The system refused: `failed to DOING PATH: what the system said`.
    Io {
        /// The step that failed, as the message says it after `failed to`.
        doing: Cow<'static, str>,
        /// The file or directory of that step.
        path: PathBuf,
        /// The error that the system returned.
        source: io::Error,
        /// Advice at the end of the message; `None`: there is none.
        hint: Option<Hint>,
    },
    /// Something else than a regular file has a name that the operation needs.
    InTheWay {
        /// The path of the thing in the way.
        path: PathBuf,
        /// The kind of the thing, as the message says it: `a directory`.
        what: &'static str,
    },
    /// An attribute of the file keeps every other file from taking its name.
    Pinned {
        /// The file that was to be replaced.
        path: PathBuf,
        /// The attribute.
        by: Pin,
    },
    /// The content for the file at `path` did not arrive, or is not what it has to be. The file stays as it was.
    Content {
        /// The file that was to get the content.
        path: PathBuf,
        /// The source of the content, as messages call it.
        from: String,
        /// Why the content did not arrive, or what is wrong with it.
        why: Spilled,
    },
    /// The lines were not added as a whole.
    NotAdded {
        /// The file that was to get the lines.
        path: PathBuf,
        /// The error that the system returned for the write or the sync.
        source: io::Error,
        /// The state in which the file was left.
        remains: Remains,
    },
    /// There is no schema to check by.
    Schema(SchemaError),
    /// The file has its new content, and its backups were not moved.
    Backup(Box<Error>),
    /// The lock does not protect the file any more; the error of the lock says why.
    Lost(Box<dyn std::error::Error + Send + Sync>),
}

/// Advice about an [`Error::Io`], or a fact that a person has to know besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// A write needs a writable directory.
    WritableDirectory,
    /// A replacement without a lock needs a writable directory, too.
    WritableDirectoryToReplace,
    /// The file's owner, whose process could write it.
    Owner { uid: u32, gid: u32 },
    /// The new content is in place, and not proved to be on the disk.
    MayBeUndone,
}

/// An attribute that keeps every other file from taking a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    MountPoint,
    Immutable,
    AppendOnly,
}

/// State of a file to which lines could not be added.
#[derive(Debug)]
pub enum Remains {
    /// The file is as it was.
    AsItWas,
    /// The file was made for the lines, and is removed again.
    NoFile,
    /// The file keeps `added` bytes of the lines, because another process has added to it without the lock.
    Part { added: usize },
    /// The file could not be cut back to the size that it had.
    NotCut { size: u64, why: io::Error },
}

/// Why there is no schema.
#[derive(Debug)]
pub enum SchemaError {
    /// The file `name` is not a schema.
    NotOne {
        /// The path of the file, escaped.
        name: String,
        /// Why it is no schema, escaped.
        why: String,
    },
    /// This build cannot check by a schema.
    NotBuilt,
}

impl Error {
    /// `failed to DOING PATH: what the system said`.
    pub fn io(
        doing: impl Into<Cow<'static, str>>,
        path: &Path,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io {
            doing: doing.into(),
            path: path.to_owned(),
            source: source.into(),
            hint: None,
        }
    }

    /// This error with a hint after it. Only an [`Error::Io`] takes one.
    pub fn with(mut self, new: Hint) -> Self {
        if let Self::Io { hint, .. } = &mut self {
            *hint = Some(new);
        }
        self
    }

    /// The lock does not protect the file any more, and `why` says it.
    pub fn lost(why: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Lost(Box::new(why))
    }

    /// True when the content is not what it has to be: the same content fails again.
    pub fn is_invalid_content(&self) -> bool {
        matches!(
            self,
            Self::Content {
                why: Spilled::Invalid(_),
                ..
            }
        )
    }

    /// The kind of the system's error that this error comes from, or amounts to.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Io { source, .. } | Self::NotAdded { source, .. } => source.kind(),
            Self::InTheWay { .. } => io::ErrorKind::InvalidInput,
            Self::Pinned { by, .. } => by.kind(),
            Self::Content { why, .. } => match why {
                Spilled::Read(source) | Spilled::Write(source) => source.kind(),
                Spilled::Invalid(_) => io::ErrorKind::InvalidData,
            },
            Self::Schema(SchemaError::NotOne { .. }) => io::ErrorKind::InvalidInput,
            Self::Schema(SchemaError::NotBuilt) => io::ErrorKind::Unsupported,
            Self::Backup(error) => error.kind(),
            Self::Lost(_) => io::ErrorKind::Other,
        }
    }
}

impl Pin {
    fn kind(self) -> io::ErrorKind {
        match self {
            Self::MountPoint => io::ErrorKind::ResourceBusy,
            Self::Immutable | Self::AppendOnly => io::ErrorKind::PermissionDenied,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                doing,
                path,
                source,
                hint,
            } => {
                let (path, why) = (escaped_path(path), system_words(source));
                write!(f, "failed to {doing} {path}: {why}")?;
                hint.map_or(Ok(()), |hint| write!(f, "{hint}"))
            }
            Self::InTheWay { path, what } => {
                write!(
                    f,
                    "{} is {what}; move it out of the way",
                    escaped_path(path)
                )
            }
            Self::Pinned { path, by } => {
                write!(f, "{} {by}; it stays as it was", escaped_path(path))
            }
            Self::Content { path, from, why } => {
                let path = escaped_path(path);
                match why {
                    Spilled::Read(source) => {
                        let why = system_words(source);
                        write!(f, "failed to read {from}: {why}; {path} stays as it was")
                    }
                    Spilled::Write(source) => {
                        let why = system_words(source);
                        write!(
                            f,
                            "failed to write the new content of {path}: {why}; it stays as it was"
                        )
                    }
                    Spilled::Invalid(why) => write!(f, "{from} is {why}; {path} stays as it was"),
                }
            }
            Self::NotAdded {
                path,
                source,
                remains,
            } => {
                let (path, why) = (escaped_path(path), system_words(source));
                write!(f, "failed to add to {path}: {why}; ")?;
                match remains {
                    Remains::AsItWas => f.write_str("it stays as it was"),
                    Remains::NoFile => f.write_str("there is no such file still"),
                    Remains::Part { added } => write!(
                        f,
                        "{added} bytes of it are there, for somebody without the lock has added to it at the same \
                         time"
                    ),
                    Remains::NotCut { size, why } => write!(
                        f,
                        "it could not be cut back to its {size} bytes: {}; cut it: truncate -s {size} {path}",
                        system_words(why)
                    ),
                }
            }
            Self::Schema(error) => write!(f, "{error}"),
            Self::Backup(error) => {
                write!(
                    f,
                    "{error}; the file is new, and the next write moves its backups"
                )
            }
            Self::Lost(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for Hint {
    /// The hint, with the sign that it begins with after the system's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WritableDirectory => {
                f.write_str("; its directory must be writable, for a write makes a new file")
            }
            Self::WritableDirectoryToReplace => {
                f.write_str("; its directory must be writable, for a new file is made")
            }
            Self::Owner { uid, gid } => write!(
                f,
                ": it belongs to UID {uid}, GID {gid}; write it as that user"
            ),
            Self::MayBeUndone => {
                f.write_str("; the file is new, and may be the old one again after a power cut")
            }
        }
    }
}

impl fmt::Display for Pin {
    /// The state of the file, and what to do. The system's error for the rename says nothing of the cause.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MountPoint => {
                "is a mount point of its own (docker -v file:file); mount its directory instead"
            }
            Self::Immutable => "is immutable (chattr +i); chattr -i lets it be written again",
            Self::AppendOnly => "is append-only (chattr +a); beadlock append adds lines to it",
        })
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOne { name, why } => {
                write!(f, "{name} is no JSON Schema that could be used: {why}")
            }
            Self::NotBuilt => f.write_str(
                "--schema needs the cargo feature validate-schema, and this beadlock was built without it; build it \
                 with: cargo install --locked --path integration/cli --features validate-schema",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::NotAdded { source, .. } => Some(source),
            Self::Backup(error) => Some(error),
            Self::Lost(why) => Some(why.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    fn io(hint: Option<Hint>) -> Error {
        let error = Error::io("create", Path::new("/d/x"), Errno::EACCES);
        hint.into_iter().fold(error, Error::with)
    }

    #[test]
    fn a_message_says_what_failed_and_what_has_become_of_the_file() {
        let content = |why| Error::Content {
            path: "/d/x".into(),
            from: "standard input".to_owned(),
            why,
        };
        let full = || io::Error::from(Errno::ENOSPC);
        let not_added = |remains| Error::NotAdded {
            path: "/d/x".into(),
            source: full(),
            remains,
        };
        let not_cut = Remains::NotCut {
            size: 7,
            why: full(),
        };
        let owner = Hint::Owner { uid: 1, gid: 2 };
        for (error, words) in [
            (io(None), "failed to create /d/x: permission denied"),
            (
                io(Some(owner)),
                "failed to create /d/x: permission denied: it belongs to UID 1, GID 2; write it as that user",
            ),
            (
                Error::Backup(Box::new(io(Some(Hint::WritableDirectory)))),
                "failed to create /d/x: permission denied; its directory must be writable, for a write makes a new \
                 file; the file is new, and the next write moves its backups",
            ),
            (
                content(Spilled::Read(full())),
                "failed to read standard input: no space left on device; /d/x stays as it was",
            ),
            (
                content(Spilled::Write(full())),
                "failed to write the new content of /d/x: no space left on device; it stays as it was",
            ),
            (
                content(Spilled::Invalid("not valid JSON".to_owned())),
                "standard input is not valid JSON; /d/x stays as it was",
            ),
            (
                not_added(Remains::Part { added: 3 }),
                "failed to add to /d/x: no space left on device; 3 bytes of it are there, for somebody without the \
                 lock has added to it at the same time",
            ),
            (
                not_added(not_cut),
                "failed to add to /d/x: no space left on device; it could not be cut back to its 7 bytes: no space \
                 left on device; cut it: truncate -s 7 /d/x",
            ),
            (
                not_added(Remains::NoFile),
                "failed to add to /d/x: no space left on device; there is no such file still",
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn the_kind_is_that_of_the_systems_error() {
        let backup = Error::Backup(Box::new(io(None)));
        assert_eq!(backup.kind(), io::ErrorKind::PermissionDenied);
        let (path, by) = (PathBuf::from("x"), Pin::MountPoint);
        assert_eq!(
            Error::Pinned { path, by }.kind(),
            io::ErrorKind::ResourceBusy
        );
    }
}
