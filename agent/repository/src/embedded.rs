//! A repository inside a database. git that is started there would use it instead of the real one, so it is refused;
//! a bare one can come by a pull.

use std::fs;
use std::path::Path;

use crate::{GitReason, Part, SyncStop, escaped_path, to_type};

/// The names by which git knows a repository: always the first, and either the next two or the last.
pub const NAMES: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// The names by which git takes a directory for a repository, of those that it has; empty for any other directory.
pub fn parts(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let [head, objects, refs, common] = NAMES;
    match (has(head), has(objects) && has(refs), has(common)) {
        (true, true, _) => vec![head, objects, refs],
        (true, false, true) => vec![head, common],
        _ => Vec::new(),
    }
}

/// Whether there is anything of this name in the directory, be it a link that leads nowhere.
pub fn is_in(dir: &Path, name: &str) -> bool {
    fs::symlink_metadata(dir.join(name)).is_ok()
}

pub(crate) fn refuse(database: &Path) -> Result<(), SyncStop> {
    let shown = escaped_path(database);
    if is_in(database, ".git") {
        let aside = database.parent().unwrap_or(database).join("beads.git");
        let why = format!(
            "{shown} has a git repository of its own (.git), which is never used: the agent syncs the one around it; \
             sync that one with --exec, or move it away"
        );
        let command = to_type(
            "mv {} {}",
            &[Part::Path(&database.join(".git")), Part::Path(&aside)],
        );
        return Err(SyncStop::failed(GitReason::Embedded, why).next(command));
    }
    let parts = parts(|name| is_in(database, name));
    if parts.is_empty() {
        return Ok(());
    }
    let parts = parts.join(", ");
    let why = format!(
        "{shown} has the files of a git repository in it ({parts}), and git started there would use that one"
    );
    let (head, aside) = (database.join("HEAD"), database.join("HEAD.aside"));
    Err(SyncStop::failed(GitReason::Embedded, why).next(to_type(
        "mv {} {}",
        &[Part::Path(&head), Part::Path(&aside)],
    )))
}

/// The refusal for a directory above the database that looks like a repository itself, and hides the real one.
pub(crate) fn around(dir: &Path) -> SyncStop {
    let parts = parts(|name| is_in(dir, name)).join(", ");
    let dir = escaped_path(dir);
    let why = format!(
        "{dir} has the files of a git repository in it ({parts}): git takes it for a bare one; move these files, or \
         the database, elsewhere"
    );
    SyncStop::failed(GitReason::Embedded, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_takes_for_a_repository() {
        let of = |names: &[&str]| parts(|name| names.contains(&name));
        assert_eq!(
            of(&["HEAD", "config", "objects", "refs"]),
            ["HEAD", "objects", "refs"]
        );
        assert_eq!(of(&["HEAD", "commondir"]), ["HEAD", "commondir"]);
        for names in [
            &["HEAD", "config", "objects"][..],
            &["objects", "refs", "commondir"],
            &["HEAD", "refs"],
        ] {
            assert!(of(names).is_empty(), "{names:?}");
        }
    }
}
