//! What an event means for a database: a pure function and its table (docs/design.md#when-a-cycle-runs).

use std::path::{Path, PathBuf};

use beadlock_core::database::is_own_name;
use beadlock_git::is_own_file;

/// The name whose disappearance starts a cycle.
pub(super) const LOCK: &str = ".exclusive-lock";

#[derive(Debug, PartialEq)]
pub(super) enum ChangeKind {
    /// The database's own content.
    Changed,
    /// The lock is no longer under its name.
    LockGone,
    /// The database's directory itself was removed or moved away.
    DirectoryGone,
}

/// What an event on a path in a database means. Beadlock's own names and the agent's own files mean nothing; of the
/// lock and of the directory itself only the disappearance counts.
pub(super) fn classify(
    database: &Path,
    path: &Path,
    is_gone: bool,
    own: &[PathBuf],
) -> Option<ChangeKind> {
    let inside = path.strip_prefix(database).ok()?;
    match inside {
        _ if inside == Path::new("") => return is_gone.then_some(ChangeKind::DirectoryGone),
        _ if inside == Path::new(LOCK) => return is_gone.then_some(ChangeKind::LockGone),
        _ if own.iter().any(|own| is_own_file(path, own)) => return None,
        _ => {}
    }
    let first = inside.components().next()?;
    (!is_own_name(first.as_os_str())).then_some(ChangeKind::Changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts() {
        let (write, create, here, remove, away) = (false, false, false, true, true);
        let table = [
            ("issues.jsonl", write, Some(ChangeKind::Changed)),
            ("sub/.exclusive-lock", remove, Some(ChangeKind::Changed)),
            ("beads.db-wal", write, Some(ChangeKind::Changed)),
            (".exclusive-lock", create, None),
            (".exclusive-lock", write, None),
            (".exclusive-lock", here, None),
            (".exclusive-lock", remove, Some(ChangeKind::LockGone)),
            (".exclusive-lock", away, Some(ChangeKind::LockGone)),
            (".exclusive-lock.aside", remove, None),
            ("daemon.log", write, None),
            ("daemon.log.1", here, None),
            ("bd.sock", create, None),
            ("logs/sync.log", write, None),
            ("logs/sync.log.1", here, None),
            ("logs/sync.log.old", write, Some(ChangeKind::Changed)),
            ("logs/sync", write, Some(ChangeKind::Changed)),
            ("sync.log", write, Some(ChangeKind::Changed)),
            ("", write, None),
            ("", away, Some(ChangeKind::DirectoryGone)),
            ("", remove, Some(ChangeKind::DirectoryGone)),
        ];
        for (path, is_gone, expected) in table {
            let database = Path::new("/x/.beads");
            let (path, log) = (database.join(path), database.join("logs/sync.log"));
            assert_eq!(
                classify(database, &path, is_gone, &[log]),
                expected,
                "{path:?} {is_gone}"
            );
        }
    }
}
