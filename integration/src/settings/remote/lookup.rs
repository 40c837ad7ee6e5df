//! What a helper looks at.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use beadlock_checker::internal::database::REDIRECT;
use beadlock_checker::internal::mounts::Mounts;
use serde::{Deserialize, Serialize};

/// What a helper is asked to look at, as [`Lookup`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LookupRequest {
    /// As [`Lookup::Path`].
    Path(OsString),
    /// As [`Lookup::Nearest`].
    Nearest(OsString),
}

impl LookupRequest {
    /// Under the name of its kind, as the requests of all helpers are.
    pub fn tagged(&self) -> impl Serialize {
        BTreeMap::from([("Lookup", self)])
    }
}

impl From<&Lookup> for LookupRequest {
    fn from(lookup: &Lookup) -> Self {
        match lookup {
            Lookup::Path(path) => Self::Path(path.into()),
            Lookup::Nearest(path) => Self::Nearest(path.into()),
        }
    }
}

/// What databases are called.
pub const BEADS: &str = ".beads";

/// What a helper looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// This path, and the directory that a redirect in it leads to.
    Path(PathBuf),
    /// The nearest database in this directory or above.
    Nearest(PathBuf),
}

impl Lookup {
    /// Where it begins, absolute.
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) | Self::Nearest(path) => path,
        }
    }

    /// The path whose mount is to be named when there is no answer.
    pub fn shown(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Nearest(path) => path.join(BEADS),
        }
    }
}

/// Of a directory that may be a database: by its own path, by the database that may be in it, or by a redirect.
pub fn of_directory(at: &Path, mounts: &Mounts) -> Option<Lookup> {
    let may_hang = mounts.on_the_way(&at.join(BEADS)).is_some()
        // What a redirect says is read by the helper.
        || fs::symlink_metadata(at.join(REDIRECT)).is_ok();
    may_hang.then(|| Lookup::Path(at.to_owned()))
}
