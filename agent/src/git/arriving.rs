//! What never comes in by a pull, in this database and in others of the repository: it is refused by name, before
//! anything has changed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_checker::internal::database::REDIRECT;
use beadlock_checker::internal::shell::to_type;

use super::branch::Move;
use super::entries::{self, TreeEntry};
use super::names::Names;
use super::repository::Repository;
use super::stop::{Stop, typed_all};
use super::upstream::Upstream;
use super::{blobs, embedded, sqlite};

/// Refuses what the new commit has and the old one has not, or not so.
pub(super) fn refuse(
    repository: &Repository,
    names: &Names,
    upstream: &Upstream,
    way: &Move,
) -> Result<(), Stop> {
    let entries = entries::changed(&repository.git, &way.from, &way.to)?;
    let refused = |paths: &[&[u8]], what: &str, command: &'static str| {
        Err(Stop::Refused(format!(
            "{} has {}{what}; where that was committed, type: {}",
            upstream.name(),
            repository.shown_all(paths.iter().copied()),
            to_type(command, &[typed_all(paths)])
        )))
    };
    let (redirects, live): (Vec<&[u8]>, Vec<&[u8]>) = entries
        .iter()
        .filter(|entry| names.is_left_out_anywhere(&entry.path))
        .map(|entry| entry.path.as_slice())
        .partition(|path| Path::new(OsStr::from_bytes(path)).iter().any(|part| part == REDIRECT));
    if !live.is_empty() {
        return refused(&live, ", and a pull would put it over what is live here", "git rm --cached -- {}");
    }
    if !redirects.is_empty() {
        let what = ", and everybody who may push would decide where a database is";
        return refused(&redirects, what, "git rm --cached -- {}");
    }
    let in_the_place = in_the_place(repository, &entries);
    if !in_the_place.is_empty() {
        let what = ", a submodule or a link that a pull would put in the place of files of a database";
        return refused(&in_the_place, what, "git rm --cached -- {}");
    }
    for dir in dirs_that_change(repository, &entries) {
        let parts = embedded_after(repository, &dir, &way.to)?;
        let paths: Vec<_> = parts.iter().map(|part| dir.join(part)).collect();
        let paths: Vec<_> = paths.iter().map(|path| path.as_os_str().as_bytes()).collect();
        if !paths.is_empty() {
            let dir = repository.shown(dir.as_os_str().as_bytes());
            let what = format!(", and git would take {dir} for a repository");
            return refused(&paths, &what, "git rm --cached -r -- {}");
        }
    }
    let databases =
        databases(repository, entries.iter().filter(|entry| repository.has_anywhere(&entry.path)))?;
    if !databases.is_empty() {
        let what = ", and a pull would replace an SQLite database that may be open here";
        return refused(&databases, what, "git --literal-pathspecs rm --cached -- {}");
    }
    Ok(())
}

/// The SQLite databases among these files.
pub(super) fn databases<'a>(
    repository: &Repository,
    entries: impl Iterator<Item = &'a TreeEntry>,
) -> Result<Vec<&'a [u8]>, Stop> {
    let files: Vec<_> = entries.filter(|entry| entry.is_file()).collect();
    let beginnings = blobs::beginnings(&repository.git, files.iter().map(|entry| entry.id.as_str()))?;
    let of_sqlite = files.iter().zip(beginnings).filter(|(_, beginning)| sqlite::begins(beginning));
    Ok(of_sqlite.map(|(entry, _)| entry.path.as_slice()).collect())
}

/// What would be a database, or what it lies in, and is none of the tree's own directories; and repositories inside.
fn in_the_place<'a>(repository: &Repository, entries: &'a [TreeEntry]) -> Vec<&'a [u8]> {
    let is_in_the_place = |entry: &&TreeEntry| {
        let path = entry.path();
        let is_database =
            path.file_name() == Some(OsStr::new(".beads")) || repository.prefix.starts_with(path);
        (entry.leads_elsewhere() && is_database)
            || (entry.is_submodule() && repository.has_anywhere(&entry.path))
    };
    entries.iter().filter(is_in_the_place).map(|entry| entry.path.as_slice()).collect()
}

/// The databases, and the directories between this one and the top, in which something changes that git knows a
/// repository by.
fn dirs_that_change(repository: &Repository, entries: &[TreeEntry]) -> BTreeSet<PathBuf> {
    let dir_of_part = |entry: &TreeEntry| {
        let path = entry.path().to_owned();
        let is_part = |part: &OsStr| embedded::NAMES.iter().any(|name| part.eq_ignore_ascii_case(name));
        let dirs =
            path.ancestors().filter(|path| path.file_name().is_some_and(is_part)).filter_map(Path::parent);
        dirs.map(Path::to_owned).collect::<Vec<_>>()
    };
    let is_looked_into = |dir: &PathBuf| {
        let is_top = dir.as_os_str().is_empty();
        !is_top && (dir.ends_with(".beads") || repository.prefix.starts_with(dir))
    };
    entries.iter().flat_map(dir_of_part).filter(is_looked_into).collect()
}

/// What makes this directory a repository, with what a commit has of it and what lies there already.
fn embedded_after(repository: &Repository, dir: &Path, commit: &str) -> Result<Vec<&'static str>, Stop> {
    let below = [dir.as_os_str().as_bytes(), b"/"].concat();
    let ls_tree = repository.git.call(["ls-tree", "-z", "--name-only", commit, "--"]);
    let listed = ls_tree.paths([&below]).words()?;
    let listed: Vec<_> = listed.iter().filter_map(|path| path.strip_prefix(below.as_slice())).collect();
    let here = repository.git.dir.join(dir);
    let is_listed = |name: &str| listed.iter().any(|listed| listed.eq_ignore_ascii_case(name.as_bytes()));
    Ok(embedded::parts(|name| is_listed(name) || embedded::is_in(&here, name)))
}
