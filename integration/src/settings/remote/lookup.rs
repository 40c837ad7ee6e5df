//! What a helper looks at.

use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, ffi::OsString, fs};

use beadlock_checker::internal::{database::REDIRECT, mounts::Mounts};
use serde::{Deserialize, Serialize};

/// What databases are called.
pub const BEADS: &str = ".beads";

/// What a helper looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lookup {
    /// This path, and the directory that a redirect in it leads to.
    #[serde(with = "every_byte")]
    Path(PathBuf),
    /// The nearest database in this directory or above.
    #[serde(with = "every_byte")]
    Nearest(PathBuf),
}

/// A path in a request, also where it is not UTF-8.
mod every_byte {
    use super::{Deserialize, OsString, Path, PathBuf, Serialize};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

impl Lookup {
    /// Under the name of its kind, as the requests of all helpers are.
    pub fn as_request(&self) -> impl Serialize {
        BTreeMap::from([("Lookup", self)])
    }

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
