//! Whether git ignores a lock file. `git add -A` inside a hold commits a lock that git does not ignore, and every
//! other clone then has a lock that no check may remove.
//!
//! No git is started: the answer comes from the ignore files alone, so that a repository cannot run code in our name.
//! Limits: the index is not read, so a lock that is tracked already counts by its patterns; `core.excludesFile` is
//! found in the repository's, the user's and the system's configuration, but not in files that these include.
//!
//! ```text
//! mod.rs         this page, and the answer
//! work_tree.rs   the work tree around a directory, and its git directory
//! patterns.rs    the ignore files that have a say, and what they say
//! stamp.rs       when a repository was last spoken of
//! advice.rs      the line to type
//! reminder.rs    the reminder of hold and acquire, beside the work
//! ```

mod advice;
mod patterns;
mod reminder;
mod stamp;
mod work_tree;

use std::path::Path;

pub use advice::IgnoreAdvice;
pub use reminder::Reminder;

use patterns::Patterns;
use work_tree::WorkTree;

/// What git makes of some files of one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitAnswer {
    /// They do not lie in a git work tree.
    NoWorkTree,
    /// It ignores all of them.
    Ignored,
    /// It does not ignore this one.
    NotIgnored(String),
    /// There is no telling, and why.
    Unknown(String),
}

impl GitAnswer {
    /// For files called `names` in `dir`, a path without links.
    pub fn about(dir: &Path, names: &[&str]) -> Self {
        let Some(tree) = WorkTree::around(dir) else { return Self::NoWorkTree };
        if !tree.is_ours() {
            return Self::Unknown("the repository belongs to another user".to_owned());
        }
        match Patterns::around(dir, names, &tree) {
            Ok(patterns) => match names.iter().find(|name| !patterns.ignore(&dir.join(name))) {
                Some(name) => Self::NotIgnored((*name).to_owned()),
                None => Self::Ignored,
            },
            Err(why) => Self::Unknown(why),
        }
    }
}
