//! The files that are never committed and never pulled over: lock files, logs, our side files, a redirect, and SQLite's
//! databases with what it keeps beside them while they are open.
//!
//! Where names have no case, another spelling is the same file; whether they have any depends on each directory. So
//! these names are compared without it everywhere.

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use beadlock_core::database::{is_own_name, is_redirect};

use serde::{Deserialize, Serialize};

use crate::{
    EventLine, GitReason, Part, Repository, SyncRequest, SyncStop, as_path, dolt, index_flags,
    left_out, sqlite, to_type, typed_all,
};

/// The files that SQLite writes while a database is open. Under another open database they would damage it.
const OF_SQLITE: [&[u8]; 3] = [b"-wal", b"-shm", b"-journal"];

/// Which paths from the top of a repository are left out.
#[derive(Debug)]
pub struct ExcludedNames {
    /// Where the paths begin; empty for absolute ones.
    pub top: PathBuf,
    /// The database's directory, from the top.
    pub prefix: PathBuf,
    /// The agent's own files, from the top.
    pub own: Vec<PathBuf>,
}

impl ExcludedNames {
    pub(crate) fn of(request: &SyncRequest, top: &Path, prefix: &Path) -> Self {
        let from_top = |path: &PathBuf| path.strip_prefix(top).ok().map(Path::to_owned);
        let own = request.own_files.iter().filter_map(from_top).collect();
        Self {
            top: top.to_owned(),
            prefix: prefix.to_owned(),
            own,
        }
    }

    /// Whether a path from the top is never committed.
    pub fn is_left_out(&self, path: &[u8]) -> bool {
        let path = as_path(path);
        let Ok(inside) = path.strip_prefix(&self.prefix) else {
            return false;
        };
        let first = inside
            .components()
            .next()
            .is_some_and(|first| is_own_name(first.as_os_str()));
        let is_agents = || self.own.iter().any(|own| is_own_file(path, own));
        first || is_agents() || self.is_of_sqlite(path)
    }

    /// Whether SQLite keeps this file beside an open database: `team-journal` is none without a file `team`.
    fn is_of_sqlite(&self, path: &Path) -> bool {
        let name = path
            .file_name()
            .map(OsStr::as_encoded_bytes)
            .unwrap_or_default();
        let is_beside = |ending: &&[u8]| {
            let database = name.len().checked_sub(ending.len()).filter(|at| *at > 0);
            let database = database.and_then(|at| name.split_at_checked(at));
            database.is_some_and(|(name, rest)| {
                if !rest.eq_ignore_ascii_case(ending) {
                    return false;
                }
                let beside = path.with_file_name(OsStr::from_bytes(name));
                fs::symlink_metadata(self.top.join(beside)).is_ok()
            })
        };
        OF_SQLITE.iter().any(is_beside)
    }

    /// Whether a path from the top is never committed, in any `.beads` of the repository.
    pub fn is_left_out_anywhere(&self, path: &[u8]) -> bool {
        let parts: Vec<_> = as_path(path).iter().collect();
        let is_in_one = |pair: &[&OsStr]| is_database_name(pair[0]) && is_own_name(pair[1]);
        let is_in_this = || {
            let inside = parts.get(self.prefix.iter().count());
            let is_own = inside.is_some_and(|name| is_own_name(name));
            is_own && is_above(as_path(path), &self.prefix)
        };
        parts.windows(2).any(is_in_one) || is_in_this() || self.is_left_out(path)
    }
}

/// Whether a path is one of a record file. Every other file is as it is.
pub fn is_record_name(path: &[u8]) -> bool {
    path.ends_with(b".jsonl")
}

/// Whether a name is the one that databases have.
pub fn is_database_name(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".beads")
}

/// Whether a path is below another one, or is that: where names have no case, too.
pub fn is_above(path: &Path, above: &Path) -> bool {
    let (mut path, mut above) = (path.iter(), above.iter());
    above.all(|name| {
        path.next()
            .is_some_and(|part| part.eq_ignore_ascii_case(name))
    })
}

/// Whether a path is a file of the agent's own, or an older version of it, which has a number as its extension.
pub fn is_own_file(path: &Path, own: &Path) -> bool {
    let is_number = |text: &OsStr| text.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    path == own || (path.with_extension("") == own && path.extension().is_some_and(is_number))
}

/// An index in which nothing is unmerged, and nothing is tracked that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookedIndex {
    /// The stamp of the index, as text.
    pub stamp: String,
    /// A commit, and its tree, of which the index is a copy.
    pub copy_of: Option<(String, String)>,
    /// The line about the secrets that are tracked.
    #[serde(default)]
    pub warning: Option<EventLine>,
}

/// Refuses while one of them, or an SQLite database, is in the index: git overwrites, moves and deletes what it tracks.
/// Nothing is looked at when the index is still the last one that was `looked` at.
pub fn refuse_tracked(
    repository: &Repository,
    looked: Option<&LookedIndex>,
) -> Result<Option<LookedIndex>, SyncStop> {
    let stamp = index_now(repository);
    if let Some(looked) = looked.filter(|looked| Some(&looked.stamp) == stamp.as_ref()) {
        return Ok(Some(looked.clone()));
    }
    let entries = IndexEntry::all(repository)?;
    let mut unmerged: Vec<_> = entries
        .iter()
        .filter(|entry| entry.stage != b'0')
        .map(|entry| &entry.path)
        .collect();
    unmerged.dedup();
    if !unmerged.is_empty() {
        return Err(repository.unmerged(unmerged));
    }
    let of_database: Vec<_> = entries
        .into_iter()
        .filter(|entry| repository.has(&entry.path))
        .collect();
    index_flags::refuse(repository, &of_database)?;
    let tracked: Vec<_> = of_database.into_iter().map(|entry| entry.path).collect();
    refuse_names(repository, &tracked)?;
    dolt::refuse_tracked(repository, &tracked)?;
    let is_database = |path: &&[u8]| sqlite::is_at(&repository.git.dir.join(as_path(path)));
    let databases: Vec<_> = tracked
        .iter()
        .map(Vec::as_slice)
        .filter(is_database)
        .collect();
    refuse_databases(repository, &databases)?;
    Ok(stamp.map(|stamp| LookedIndex {
        stamp,
        copy_of: None,
        warning: left_out::tracked_secrets(repository, &tracked),
    }))
}

/// One entry of the index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The file is taken for unchanged (`--assume-unchanged`).
    pub(crate) is_assumed: bool,
    /// The file is not to be looked at (`--skip-worktree`).
    pub(crate) is_skipped: bool,
    /// `0`, or which side of a conflict it is.
    pub(crate) stage: u8,
    /// The path from the top of the working tree.
    pub(crate) path: Vec<u8>,
}

/// An index of this size (some ten thousand entries) is listed for the database alone.
const LARGE: u64 = 2 * 1024 * 1024;

impl IndexEntry {
    /// The entries of the database, and those of the repository that are unmerged, among others. One call of git,
    /// where the index is not large.
    fn all(repository: &Repository) -> Result<Vec<Self>, SyncStop> {
        // Without this git forgets that a file is not to be looked at as soon as there is one.
        let args = [
            "-c",
            "sparse.expectFilesOutsideOfPatterns=true",
            "ls-files",
            "-s",
            "-v",
            "-z",
        ];
        let listed = |more: &[&str], paths: Vec<Vec<u8>>| {
            let call = repository.git.call(args.iter().chain(more).chain(&["--"]));
            call.paths(paths).words()
        };
        let is_large =
            fs::symlink_metadata(repository.index()).is_ok_and(|meta| meta.len() > LARGE);
        let lines = if is_large {
            let mut lines = listed(&["--unmerged"], Vec::new())?;
            lines.extend(listed(&[], vec![repository.inside()])?);
            lines
        } else {
            listed(&[], Vec::new())?
        };
        Ok(lines.iter().filter_map(|line| Self::parse(line)).collect())
    }

    /// Reads `H 100644 HASH 0<tab>PATH`. The letter is a small one where the file is taken for unchanged.
    fn parse(line: &[u8]) -> Option<Self> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (fields, path) = line.split_at_checked(tab)?;
        let (tag, stage) = (*fields.first()?, *fields.last()?);
        Some(Self {
            is_assumed: tag.is_ascii_lowercase(),
            is_skipped: tag.eq_ignore_ascii_case(&b'S'),
            stage,
            path: path.get(1..)?.to_vec(),
        })
    }
}

fn refuse_names(repository: &Repository, tracked: &[Vec<u8>]) -> Result<(), SyncStop> {
    let left_out = tracked
        .iter()
        .filter(|path| repository.names.is_left_out(path));
    let is_one = |path: &&Vec<u8>| {
        let inside = as_path(path).strip_prefix(&repository.prefix);
        inside.is_ok_and(|inside| inside.iter().next().is_some_and(is_redirect))
    };
    let (redirects, live): (Vec<_>, Vec<_>) = left_out.partition(is_one);
    let (paths, why) = match (live.is_empty(), redirects.is_empty()) {
        (false, _) => (
            live,
            "a pull would delete a live lock or damage an open database",
        ),
        (true, false) => (
            redirects,
            "everybody who may push would decide where the database is",
        ),
        (true, true) => return Ok(()),
    };
    let command = to_type(
        "git -C {} rm --cached -- {}",
        &[Part::Path(&repository.git.dir), typed_all(&paths)],
    );
    let why = format!(
        "{} tracked by git, and {why}",
        is_or_are(repository, &paths)
    );
    Err(SyncStop::failed(GitReason::Tracked, why).next(command))
}

/// Refuses where git tracks SQLite databases. The command has `-f`, because a live one differs from its staged copy.
pub fn refuse_databases(repository: &Repository, paths: &[&[u8]]) -> Result<(), SyncStop> {
    if paths.is_empty() {
        return Ok(());
    }
    let begins = if paths.len() == 1 {
        "begins as an SQLite database"
    } else {
        "begin as SQLite databases"
    };
    let line = |path: &&[u8]| {
        let path = as_path(path);
        sqlite::ignored(path.strip_prefix(&repository.prefix).unwrap_or(path))
    };
    let lines: Vec<_> = paths.iter().map(line).collect();
    let (top, ignore) = (
        Part::Path(&repository.git.dir),
        repository.request.dir.join(".gitignore"),
    );
    let command = to_type(
        "git -C {} --literal-pathspecs rm --cached -f -- {} && printf '\\n%s\\n' {} >>{}",
        &[
            top,
            typed_all(paths),
            typed_all(&lines),
            Part::Path(&ignore),
        ],
    );
    let why = format!(
        "{} tracked by git, and {begins}: a commit would tear what is open, and a pull would replace it",
        is_or_are(repository, paths),
    );
    Err(SyncStop::failed(GitReason::Tracked, why).next(command))
}

/// How the index is known: a changed one has another inode or other times. With other files of its own, the agent looks
/// at it again.
pub fn index_now(repository: &Repository) -> Option<String> {
    let meta = fs::symlink_metadata(repository.index()).ok()?;
    let (written, changed) = (
        (meta.mtime(), meta.mtime_nsec()),
        (meta.ctime(), meta.ctime_nsec()),
    );
    let numbers = format!("{}.{}.{}", meta.dev(), meta.ino(), meta.size());
    let mut own = DefaultHasher::new();
    repository.names.own.hash(&mut own);
    Some(format!(
        "{numbers}.{}.{}.{}.{}.{:x}",
        written.0,
        written.1,
        changed.0,
        changed.1,
        own.finish()
    ))
}

fn is_or_are(repository: &Repository, paths: &[impl AsRef<[u8]>]) -> String {
    format!(
        "{} {}",
        repository.shown_all(paths),
        if paths.len() == 1 { "is" } else { "are" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_index_tells_its_flags() {
        let parse = |line: &str| IndexEntry::parse(line.as_bytes()).unwrap();
        let entry = |is_assumed, is_skipped, stage, path: &str| IndexEntry {
            is_assumed,
            is_skipped,
            stage,
            path: path.as_bytes().to_vec(),
        };
        let hash = "0123456789012345678901234567890123456789";
        for (tag, is_assumed, is_skipped) in [
            ("H", false, false),
            ("h", true, false),
            ("S", false, true),
            ("s", true, true),
        ] {
            let line = format!("{tag} 100644 {hash} 0\t.beads/a\tb\nc");
            assert_eq!(
                parse(&line),
                entry(is_assumed, is_skipped, b'0', ".beads/a\tb\nc")
            );
        }
        let unmerged = format!("M 100644 {hash} 2\tx");
        assert_eq!(parse(&unmerged), entry(false, false, b'2', "x"));
        assert_eq!(IndexEntry::parse(b"H 100644"), None);
    }

    #[test]
    fn what_is_left_out() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("a/.beads/sub")).unwrap();
        for database in ["beads.db", "sub/x.db"] {
            fs::write(top.path().join("a/.beads").join(database), "").unwrap();
        }
        let names = ExcludedNames {
            top: top.path().to_owned(),
            prefix: "a/.beads".into(),
            own: vec!["a/.beads/logs/sync.log".into()],
        };
        for path in [
            ".exclusive-lock",
            ".exclusive-lock.aside",
            ".exclusive-lock.broken-20260101T000000Z.json",
            "daemon.log",
            "daemon.log.1",
            "daemon.lock",
            "daemon.pid",
            "bd.sock",
            "redirect",
            "beads.db-wal",
            "sub/x.db-shm",
            "beads.db-journal",
            "logs/sync.log",
            "logs/sync.log.2",
            ".Exclusive-Lock",
            "REDIRECT",
            "beads.db-WAL",
        ] {
            assert!(
                names.is_left_out(format!("a/.beads/{path}").as_bytes()),
                "{path}"
            );
            assert!(
                !names.is_left_out(path.as_bytes()),
                "{path} is not below the database"
            );
        }
        for path in [
            "issues.jsonl",
            "sub/.exclusive-lock",
            "-wal",
            "team-journal",
            "sub/beads.db-wal",
            "logs/sync.log.old",
            "daemon.locked",
            "beads.db",
        ] {
            assert!(
                !names.is_left_out(format!("a/.beads/{path}").as_bytes()),
                "{path}"
            );
        }
        let at_top = ExcludedNames {
            top: PathBuf::new(),
            prefix: PathBuf::new(),
            own: Vec::new(),
        };
        assert!(names.is_left_out_anywhere(b"b/.beads/daemon.log"));
        assert!(
            !names.is_left_out_anywhere(b"b/.beads/x")
                && !names.is_left_out_anywhere(b"b/daemon.log")
        );
        assert!(names.is_left_out_anywhere(b"b/.beads/x/.beads/redirect"));
        assert!(names.is_left_out_anywhere(b"b/.Beads/Redirect"));
        assert!(names.is_left_out_anywhere(b"A/.BEADS/daemon.LOG"));
        assert!(at_top.is_left_out(b".exclusive-lock") && !at_top.is_left_out(b"issues.jsonl"));
    }
}
