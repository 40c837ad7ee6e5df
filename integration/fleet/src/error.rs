//! Why something of the fleet cannot be had. `Display` is the whole message: what, where, and what to do next.

use std::{fmt, io, path::Path};

use beadlock_base::{error::system_words, escape::escaped_path};

/// Kind of a failure: the exit code and the word of the contract follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No node has answered. The same may succeed later.
    Unreachable,
    /// The fleet is younger than [`T`](crate::T): nobody may begin anything yet.
    New,
    /// The server refuses: password, TLS, permission.
    Refused,
    /// There is no fleet below the prefix.
    NoFleet,
    /// There is a fleet, but not the one that the mark names.
    OtherFleet,
    /// Nobody has joined under this name.
    NoName,
    /// The database's directory has no mark.
    NotJoined,
    /// The fleet asks for a newer beadlock.
    TooOld,
    /// There is no configuration file.
    NoConfig,
    /// The configuration file is wrong.
    Config,
    /// The mark cannot be understood.
    Mark,
    /// The system refused.
    Io,
    /// The system refused for lack of permission.
    NotPermitted,
    /// An argument is wrong.
    Usage,
}

impl ErrorKind {
    /// Whether the same call may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Unreachable | Self::New)
    }
}

/// Why something of the fleet cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// The failure of each node, where none has answered; `None`: another kind of error.
    nodes: Option<String>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            nodes: None,
        }
    }

    /// The error of an etcd at `url` of which no node has answered; `nodes` says what each did.
    pub(crate) fn unreachable(url: &str, nodes: String) -> Self {
        let message = format!("no node of {url} answers: {nodes}");
        Self {
            nodes: Some(nodes),
            ..Self::new(ErrorKind::Unreachable, message)
        }
    }

    /// The failure of each node, where none has answered; else the message.
    pub(crate) fn nodes(&self) -> &str {
        self.nodes.as_ref().unwrap_or(&self.message)
    }

    /// `failed to DOING PATH: what the system said`.
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let kind = if error.kind() == io::ErrorKind::PermissionDenied {
            ErrorKind::NotPermitted
        } else {
            ErrorKind::Io
        };
        Self::new(
            kind,
            format!(
                "failed to {doing} {}: {}",
                escaped_path(path),
                system_words(error)
            ),
        )
    }

    /// The kind of the failure, from which the exit code follows.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
