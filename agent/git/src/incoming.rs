//! Files that must never come in by a pull, into this database or another one of the repository. They are refused by
//! name, before anything has changed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use beadlock_core::database::is_redirect;

use crate::{Event, WorktreeMove, to_type};
use beadlock_repository::entries::Difference;
use beadlock_repository::{
    Git, GitReason, HindranceKind, Repository, SyncStop, TreeEntry, Upstream, as_path, blobs, dolt,
    embedded, entries, is_above, is_database_name, sqlite, typed_all,
};

/// Refuses such files where the new commit has them and the old one has not, or has them otherwise. Returns the files
/// in which the two commits differ.
pub(crate) fn refuse(
    repository: &Repository,
    upstream: &Upstream,
    way: &WorktreeMove,
) -> Result<Vec<Difference>, SyncStop> {
    let (entries, differences) = entries::all(&repository.git, &way.from, &way.to)?;
    let refuse_these = |paths: &[&[u8]], what: &str, command: &'static str| {
        if paths.is_empty() {
            return Ok(());
        }
        let why = format!(
            "{} has {}{what}",
            upstream.name(),
            repository.shown_all(paths)
        );
        let stop = SyncStop::notice(
            Event::NotPulling,
            HindranceKind::NotPulling,
            GitReason::RefusedContent,
            why,
        );
        Err(stop.next_at(
            "; where that was committed, type: ",
            to_type(command, &[typed_all(paths)]),
        ))
    };
    let (redirects, live): (Vec<&[u8]>, Vec<&[u8]>) = entries
        .iter()
        .filter(|entry| repository.names.is_left_out_anywhere(&entry.path))
        .map(|entry| entry.path.as_slice())
        .partition(|path| as_path(path).iter().any(is_redirect));
    let untrack = "git rm --cached -- {}";
    refuse_these(
        &live,
        ", and a pull would put it over what is live here",
        untrack,
    )?;
    refuse_these(
        &redirects,
        ", and everybody who may push would decide where a database is",
        untrack,
    )?;
    let what = ", a submodule or a link that a pull would put in the place of files of a database";
    refuse_these(&in_the_place(repository, &entries), what, untrack)?;
    for dir in dirs_that_change(repository, &entries) {
        let parts = embedded_after(repository, &dir, &way.to)?;
        let paths: Vec<_> = parts.iter().map(|part| dir.join(part)).collect();
        let paths: Vec<_> = paths
            .iter()
            .map(|path| path.as_os_str().as_encoded_bytes())
            .collect();
        let dir = repository.shown(dir.as_os_str().as_encoded_bytes());
        let what = format!(", and git would take {dir} for a repository");
        refuse_these(&paths, &what, "git rm --cached -r -- {}")?;
    }
    let in_databases = || {
        let entries = entries.iter();
        entries.filter(|entry| repository.has_anywhere(&entry.path))
    };
    let of_dolt = dolt::own_dirs(in_databases().map(|entry| entry.path.as_slice()));
    refuse_these(
        &of_dolt.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        ", and a pull would replace a Dolt database that may be open here",
        "git --literal-pathspecs rm -r -q --cached -- {}",
    )?;
    let databases = databases(&repository.git, in_databases())?;
    let what = ", and a pull would replace an SQLite database that may be open here";
    refuse_these(
        &databases,
        what,
        "git --literal-pathspecs rm --cached -- {}",
    )?;
    Ok(differences)
}

pub(crate) fn databases<'a>(
    git: &Git,
    entries: impl Iterator<Item = &'a TreeEntry>,
) -> Result<Vec<&'a [u8]>, SyncStop> {
    let files: Vec<_> = entries.filter(|entry| entry.is_file()).collect();
    let beginnings = blobs::beginnings(git, files.iter().map(|entry| entry.id.as_str()))?;
    let of_sqlite = files
        .iter()
        .zip(beginnings)
        .filter(|(_, beginning)| sqlite::begins(beginning));
    Ok(of_sqlite.map(|(entry, _)| entry.path.as_slice()).collect())
}

/// Links and submodules in the place of a database or of a directory above it, and submodules inside one.
fn in_the_place<'a>(repository: &Repository, entries: &'a [TreeEntry]) -> Vec<&'a [u8]> {
    let is_in_the_place = |entry: &&TreeEntry| {
        let path = entry.path();
        let is_database =
            path.file_name().is_some_and(is_database_name) || is_above(&repository.prefix, path);
        (entry.leads_elsewhere() && is_database)
            || (entry.is_submodule() && repository.has_anywhere(&entry.path))
    };
    entries
        .iter()
        .filter(is_in_the_place)
        .map(|entry| entry.path.as_slice())
        .collect()
}

/// The databases, and the directories above this one, in which a name changes by which git knows a repository.
fn dirs_that_change(repository: &Repository, entries: &[TreeEntry]) -> BTreeSet<PathBuf> {
    let is_part = |part: &OsStr| {
        embedded::NAMES
            .iter()
            .any(|name| part.eq_ignore_ascii_case(name))
    };
    let is_looked_into = |dir: &&Path| {
        let is_top = dir.as_os_str().is_empty();
        let is_database = dir.file_name().is_some_and(is_database_name);
        !is_top && (is_database || is_above(&repository.prefix, dir))
    };
    let paths = entries.iter().flat_map(|entry| entry.path().ancestors());
    let parts = paths.filter(|path| path.file_name().is_some_and(is_part));
    parts
        .filter_map(Path::parent)
        .filter(is_looked_into)
        .map(Path::to_owned)
        .collect()
}

/// The names by which git takes this directory for a repository, of those that a commit has there and those that lie
/// there already; empty for any other directory.
fn embedded_after(
    repository: &Repository,
    dir: &Path,
    commit: &str,
) -> Result<Vec<&'static str>, SyncStop> {
    let below = [dir.as_os_str().as_encoded_bytes(), b"/"].concat();
    let ls_tree = repository
        .git
        .call(["ls-tree", "-z", "--name-only", commit, "--"]);
    let listed = ls_tree.paths([&below]).words()?;
    let listed: Vec<_> = listed
        .iter()
        .filter_map(|path| path.strip_prefix(below.as_slice()))
        .collect();
    let here = repository.git.dir.join(dir);
    let is_listed = |name: &str| {
        listed
            .iter()
            .any(|listed| listed.eq_ignore_ascii_case(name.as_bytes()))
    };
    Ok(embedded::parts(|name| {
        is_listed(name) || embedded::is_in(&here, name)
    }))
}
