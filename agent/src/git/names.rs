//! What is never committed, and never pulled over: lock files, logs, our side files, and what SQLite keeps beside a
//! database while it is open (DESIGN 8).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_checker::database::is_own_name;
use beadlock_checker::shell::{Part, to_type};

use super::repository::Repository;
use super::{Order, Stop, typed_all};
use crate::watch::is_own_file;

/// What SQLite writes while a database is open. Elsewhere it is worthless, and under an open database it is poison.
const OF_SQLITE: [&[u8]; 3] = [b"-wal", b"-shm", b"-journal"];

/// Which paths from the top of a repository are left out.
pub(super) struct Names {
    prefix: PathBuf,
    /// The agent's own files, from the top.
    own: Vec<PathBuf>,
}

impl Names {
    pub(super) fn of(repository: &Repository, order: &Order) -> Self {
        let from_top = |path: &PathBuf| path.strip_prefix(&repository.git.dir).ok().map(Path::to_owned);
        Self { prefix: repository.prefix.clone(), own: order.own_files.iter().filter_map(from_top).collect() }
    }

    #[cfg(test)]
    pub(super) fn for_test(prefix: &str) -> Self {
        Self { prefix: prefix.into(), own: Vec::new() }
    }

    /// A path from the top is one that is never committed.
    pub(super) fn is_left_out(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let Ok(inside) = path.strip_prefix(&self.prefix) else { return false };
        let first = inside.components().next().is_some_and(|first| is_own_name(first.as_os_str()));
        let is_agents = || self.own.iter().any(|own| is_own_file(path, own));
        first || is_agents() || is_of_sqlite(inside)
    }

    /// The same for every database in the repository: each `.beads`.
    pub(super) fn is_left_out_anywhere(&self, path: &[u8]) -> bool {
        let path_of = |path| Path::new(OsStr::from_bytes(path));
        let mut parts = path_of(path).components();
        let in_another = parts.any(|part| part.as_os_str() == ".beads")
            && parts.next().is_some_and(|first| is_own_name(first.as_os_str()));
        in_another || self.is_left_out(path)
    }

    /// Refuses while one of them is in the index: what git tracks it puts back, moves and deletes.
    pub(super) fn refuse_tracked(&self, repository: &Repository) -> Result<(), Stop> {
        let inside = OsStr::from_bytes(&repository.inside()).to_owned();
        let tracked = repository
            .git
            .call(["ls-files", "-z", "--cached", "--"].map(OsStr::new).into_iter().chain([&*inside]));
        let tracked = tracked.words()?;
        let tracked: Vec<_> =
            tracked.iter().map(Vec::as_slice).filter(|path| self.is_left_out(path)).collect();
        if tracked.is_empty() {
            return Ok(());
        }
        Err(Stop::Refused(format!(
            "{} tracked by git, and a pull would delete a live lock or damage an open database; type: {}",
            is_or_are(&repository.shown_all(tracked.iter().copied()), tracked.len()),
            to_type("git -C {} rm --cached -- {}", &[Part::Path(&repository.git.dir), typed_all(&tracked)])
        )))
    }
}

fn is_or_are(paths: &str, count: usize) -> String {
    format!("{paths} {}", if count == 1 { "is" } else { "are" })
}

fn is_of_sqlite(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    OF_SQLITE.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out() {
        let names = Names { prefix: "a/.beads".into(), own: vec!["a/.beads/logs/sync.log".into()] };
        for path in [
            ".exclusive-lock",
            ".exclusive-lock.aside",
            ".exclusive-lock.broken-20260101T000000Z.json",
            "daemon.log",
            "daemon.log.1",
            "daemon.lock",
            "daemon.pid",
            "bd.sock",
            "beads.db-wal",
            "sub/x.db-shm",
            "beads.db-journal",
            "logs/sync.log",
            "logs/sync.log.2",
        ] {
            assert!(names.is_left_out(format!("a/.beads/{path}").as_bytes()), "{path}");
            assert!(!names.is_left_out(path.as_bytes()), "{path} is not below the database");
        }
        for path in
            ["issues.jsonl", "sub/.exclusive-lock", "-wal", "logs/sync.log.old", "daemon.locked", "beads.db"]
        {
            assert!(!names.is_left_out(format!("a/.beads/{path}").as_bytes()), "{path}");
        }
        let at_top = Names { prefix: PathBuf::new(), own: Vec::new() };
        assert!(names.is_left_out_anywhere(b"b/.beads/daemon.log"));
        assert!(!names.is_left_out_anywhere(b"b/.beads/x") && !names.is_left_out_anywhere(b"b/daemon.log"));
        assert!(at_top.is_left_out(b".exclusive-lock") && !at_top.is_left_out(b"issues.jsonl"));
    }
}
