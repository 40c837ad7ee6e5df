//! The changes under a database since the last commit, as git sees them.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::{HeldBack, index};
use beadlock_repository::names::is_record_name;
use beadlock_repository::stamp::{FileStamp, is_of_this_machine};
use beadlock_repository::{
    CommittedFiles, ExcludedNames, Git, LeftOut, Repository, SyncStop, as_path, refuse_databases,
    sqlite,
};

/// Paths from the top, without those that are never committed (but their removal from the index is here).
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DatabaseChanges {
    /// Files to commit as they are in the working tree.
    pub(crate) present: Vec<Vec<u8>>,
    /// The untracked files, until it is known that they are not databases.
    pub(crate) new: Vec<Vec<u8>>,
    /// Files that are no longer there, or no longer tracked.
    pub(crate) gone: Vec<Vec<u8>>,
    /// Repositories inside the database, which are not committed.
    pub(crate) repositories: Vec<Vec<u8>>,
    /// The ids in the last commit of the changed record files, by their paths.
    pub(crate) in_head: HashMap<Vec<u8>, String>,
    /// New files that are never committed, and are told.
    pub(crate) left_out: LeftOut,
    /// The stamps of the present files, from before they were looked into; `None` for a file whose stamp proves
    /// nothing.
    pub(crate) stamps: Vec<Option<FileStamp>>,
}

/// Files that the commit step has left out of the commit or removed, for the proof at the end.
#[derive(Debug, Default)]
pub(crate) struct CommitSeen {
    /// Files that are no longer here, or no longer tracked.
    pub(crate) gone: BTreeSet<Vec<u8>>,
    /// Not committed, and told: paths of files, and of directories with all that is below them.
    pub(crate) left_out: BTreeSet<Vec<u8>>,
    /// Files that are held back, or being written: the place need not have them as they are here.
    pub(crate) held: BTreeSet<Vec<u8>>,
}

impl CommitSeen {
    /// Whether a path, or a directory above it, is not committed.
    pub(crate) fn leaves_out(&self, path: &[u8]) -> bool {
        as_path(path)
            .ancestors()
            .any(|above| self.left_out.contains(above.as_os_str().as_encoded_bytes()))
    }
}

impl DatabaseChanges {
    /// A summary, for the agent, of the commit of these changes; `tree` is the id of its tree.
    pub(crate) fn committed(&self, repository: &Repository, tree: &str) -> CommittedFiles {
        let all = self.present.iter().chain(&self.gone);
        let file = |path: &[u8]| repository.git.dir.join(as_path(path));
        let sizes = self.present.iter().enumerate().map(|(place, path)| {
            let seen = self.stamps.get(place).cloned().flatten();
            let stamp = seen.or_else(|| FileStamp::of(&file(path)));
            (path, stamp.map_or(0, |stamp| stamp.size()))
        });
        let sizes: Vec<_> = sizes.collect();
        // A directory was changed when a file was last taken out of it.
        let gone = self.gone.iter().map(|path| {
            let path = file(path);
            let meta = fs::symlink_metadata(path.parent()?).ok()?;
            meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()
        });
        let present = self.present.iter().enumerate();
        let present = present.map(|(place, _)| Some(self.stamps.get(place)?.as_ref()?.changed()));
        let written: Option<Vec<Duration>> = present.chain(gone).collect();
        let written = written.unwrap_or_default();
        let largest = sizes.iter().max_by_key(|(_, size)| *size);
        let bytes: u64 = sizes.iter().map(|(_, size)| size).sum();
        CommittedFiles {
            shown: all
                .clone()
                .next()
                .map(|path| repository.shown(path))
                .unwrap_or_default(),
            count: all.count() as u64,
            written: written
                .iter()
                .min()
                .copied()
                .zip(written.iter().max().copied()),
            tree: tree.to_owned(),
            largest: largest.map_or_else(Default::default, |(path, size)| {
                (repository.shown(path), *size)
            }),
            // With its trees and the commit. Texts are stored in about a quarter of their size.
            loose: (self.present.len() as u64 + 3, bytes / 4),
        }
    }

    /// The removed files, those that are left out and those that are `held` back, for the proof at the end.
    pub(crate) fn seen(&self, held: &HeldBack) -> CommitSeen {
        CommitSeen {
            gone: self.gone.iter().cloned().collect(),
            left_out: self
                .left_out
                .paths()
                .chain(held.paths())
                .map(|path| path.strip_suffix(b"/").unwrap_or(path).to_vec())
                .collect(),
            held: held.paths().cloned().collect(),
        }
    }

    pub(crate) fn of(repository: &Repository) -> Result<Self, SyncStop> {
        let options = ["--untracked-files=all", "--ignore-submodules=dirty"];
        let status = if repository.request.contents {
            index::contents_status(repository, &options)?
        } else {
            repository.status(&options, &[repository.inside()])?
        };
        let parsed = Self::parse(&status, &repository.names);
        let mut changes = parsed.map_err(|paths| repository.unmerged(&paths))?;
        let file = |path: &[u8]| repository.git.dir.join(as_path(path));
        let all = || changes.present.iter().chain(&changes.new);
        let stamps = FileStamp::settled(&all().map(|path| file(path)).collect::<Vec<_>>());
        let stamps: HashMap<_, _> = all().cloned().zip(stamps).collect();
        let present = changes.present.iter().map(Vec::as_slice);
        refuse_databases(
            repository,
            &present
                .filter(|path| sqlite::is_at(&file(path)))
                .collect::<Vec<_>>(),
        )?;
        changes.left_out = LeftOut::take_from(repository, &mut changes.new);
        changes.present.append(&mut changes.new);
        changes.stamps = changes
            .present
            .iter()
            .map(|path| stamps.get(path).cloned().flatten())
            .collect();
        Ok(changes)
    }

    /// Takes these paths out, and what cannot be there beside them: a file in the place of a directory, or below it.
    pub(crate) fn leave(&mut self, paths: &BTreeSet<Vec<u8>>) {
        let is_left = |path: &[u8]| {
            paths.iter().any(|left| {
                let (path, left) = (as_path(path), as_path(left));
                path.starts_with(left) || left.starts_with(path)
            })
        };
        if paths.is_empty() {
            return;
        }
        let stamps = std::mem::take(&mut self.stamps);
        let present = std::mem::take(&mut self.present);
        (self.present, self.stamps) = present
            .into_iter()
            .zip(stamps)
            .filter(|(path, _)| !is_left(path))
            .unzip();
        self.gone.retain(|path| !is_left(path));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.gone.is_empty()
    }

    /// Whether no file has changed since it was looked into: then the staged files are those that were seen.
    pub(crate) fn are_as_seen(&self, repository: &Repository) -> bool {
        let mut seen = self.present.iter().zip(&self.stamps);
        is_of_this_machine(&repository.git.dir)
            && seen.all(|(path, stamp)| {
                stamp.is_some() && *stamp == FileStamp::of(&repository.git.dir.join(as_path(path)))
            })
    }

    pub(crate) fn count(&self) -> usize {
        self.present
            .iter()
            .chain(&self.gone)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Reads the entries of `git status --porcelain=v2 -z`. An error is the unmerged paths.
    fn parse(status: &[Vec<u8>], names: &ExcludedNames) -> Result<Self, Vec<Vec<u8>>> {
        let mut changes = Self::default();
        let mut unmerged = Vec::new();
        for entry in status {
            let Some((kind, rest)) = entry.split_first_chunk::<2>() else {
                continue;
            };
            let fields =
                |count: usize| rest.splitn(count, |byte| *byte == b' ').collect::<Vec<_>>();
            match kind {
                b"? " => match rest.strip_suffix(b"/") {
                    Some(path) => changes.repositories.push(path.to_vec()),
                    None if names.is_left_out(rest) => {}
                    None => changes.new.push(rest.to_vec()),
                },
                b"1 " => {
                    let fields = fields(8);
                    let (Some([index, tree]), Some(path)) = (fields.first(), fields.get(7)) else {
                        continue;
                    };
                    let (mode, id) = (fields.get(2), fields.get(5));
                    if let (Some(mode), Some(id)) = (mode, id)
                        && is_record_name(path)
                        && mode.starts_with(b"100")
                    {
                        let id = String::from_utf8_lossy(id).into_owned();
                        changes.in_head.insert(path.to_vec(), id);
                    }
                    match (index, tree) {
                        (b'D', _) => changes.gone.push(path.to_vec()),
                        _ if names.is_left_out(path) => {}
                        (_, b'D') => changes.gone.push(path.to_vec()),
                        _ => changes.present.push(path.to_vec()),
                    }
                }
                b"u " => unmerged.extend(fields(10).get(9).map(|path| path.to_vec())),
                _ => {}
            }
        }
        if unmerged.is_empty() {
            Ok(changes)
        } else {
            Err(unmerged)
        }
    }

    pub(crate) fn stage(&self, git: &Git, index: &Path) -> Result<(), SyncStop> {
        let update = |how: &[&str], paths: &[Vec<u8>]| -> Result<(), SyncStop> {
            if !paths.is_empty() {
                let paths: Vec<u8> = paths
                    .iter()
                    .flat_map(|path| [path.as_slice(), b"\0"].concat())
                    .collect();
                let args = ["update-index"].iter().chain(how).chain(&["-z", "--stdin"]);
                git.call(args).index(index).stdin(paths).done()?;
            }
            Ok(())
        };
        update(&["--force-remove"], &self.gone)?;
        // A file may have gone since it was listed, or have come where a directory was.
        update(&["--add", "--remove", "--replace"], &self.present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_by_what_becomes_of_them() {
        let names = ExcludedNames {
            top: std::path::PathBuf::new(),
            prefix: ".beads".into(),
            own: Vec::new(),
        };
        let hash = "0123456789012345678901234567890123456789";
        let one = |xy: &str, path: &str| {
            format!("1 {xy} N... 100644 100644 100644 {hash} {hash} {path}").into_bytes()
        };
        let status = [
            one(".M", ".beads/a b"),
            one("A.", ".beads/staged"),
            one(".D", ".beads/deleted"),
            one("D.", ".beads/untracked again"),
            b"? .beads/untracked again".to_vec(),
            one("D.", ".beads/.exclusive-lock"),
            one(".M", ".beads/daemon.log.1"),
            one("M.", ".beads/x.jsonl"),
            b"? .beads/daemon.log".to_vec(),
            b"? .beads/nested/".to_vec(),
            b"? .beads/\xff".to_vec(),
        ];
        let changes = DatabaseChanges::parse(&status, &names).unwrap();
        let paths = |paths: &[&[u8]]| paths.iter().map(|path| path.to_vec()).collect::<Vec<_>>();
        let expected = DatabaseChanges {
            present: paths(&[b".beads/a b", b".beads/staged", b".beads/x.jsonl"]),
            new: paths(&[b".beads/untracked again", b".beads/\xff"]),
            gone: paths(&[
                b".beads/deleted",
                b".beads/untracked again",
                b".beads/.exclusive-lock",
            ]),
            repositories: paths(&[b".beads/nested"]),
            in_head: HashMap::from([(b".beads/x.jsonl".to_vec(), hash.to_owned())]),
            ..DatabaseChanges::default()
        };
        assert_eq!(changes, expected);
        assert_eq!(changes.count(), 6);
        let unmerged =
            format!("u UU N... 100644 100644 100644 100644 {hash} {hash} {hash} .beads/x y")
                .into_bytes();
        assert_eq!(
            DatabaseChanges::parse(&[unmerged], &names),
            Err(paths(&[b".beads/x y"]))
        );
    }
}
