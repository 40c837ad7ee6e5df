//! What has changed under a database since the last commit, as git sees it.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::unchanged::{FileStamp, is_of_this_machine};
use crate::{ExcludedNames, Git, Repository, Stop, as_path, index, refuse_databases, sqlite};

/// Paths from the top, without those that are never committed (but their removal from the index is here).
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DatabaseChanges {
    /// To be taken as they are in the working tree.
    pub(crate) present: Vec<Vec<u8>>,
    /// The untracked ones, until it is known that they are not databases.
    pub(crate) new: Vec<Vec<u8>>,
    /// No longer there, or no longer tracked.
    pub(crate) gone: Vec<Vec<u8>>,
    /// Repositories inside the database, which are not committed.
    pub(crate) repositories: Vec<Vec<u8>>,
    /// Untracked ones that are never committed.
    pub(crate) left_out: Vec<Vec<u8>>,
    /// How the present files were before they were looked into.
    pub(crate) stamps: Vec<Option<FileStamp>>,
}

/// What the commit step has seen, for the proof at the end.
#[derive(Debug, Default)]
pub(crate) struct CommitSeen {
    /// No longer here, or no longer tracked.
    pub(crate) gone: BTreeSet<Vec<u8>>,
    /// Untracked, and never committed.
    pub(crate) left_out: BTreeSet<Vec<u8>>,
}

impl DatabaseChanges {
    pub(crate) fn seen(&self) -> CommitSeen {
        CommitSeen {
            gone: self.gone.iter().cloned().collect(),
            left_out: self.left_out.iter().cloned().collect(),
        }
    }

    pub(crate) fn of(repository: &Repository) -> Result<Self, Stop> {
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
        let (databases, new) = std::mem::take(&mut changes.new)
            .into_iter()
            .partition(|path| sqlite::is_or_becomes(&file(path)));
        changes.new = new;
        changes.left_out.extend::<Vec<_>>(databases);
        changes.present.append(&mut changes.new);
        changes.stamps = changes
            .present
            .iter()
            .map(|path| stamps.get(path).cloned().flatten())
            .collect();
        Ok(changes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.gone.is_empty()
    }

    /// No file has changed since it was looked into: what was staged meanwhile is what was seen.
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
                    None if names.is_left_out(rest) => changes.left_out.push(rest.to_vec()),
                    None => changes.new.push(rest.to_vec()),
                },
                b"1 " => {
                    let fields = fields(8);
                    let (Some([index, tree]), Some(path)) = (fields.first(), fields.get(7)) else {
                        continue;
                    };
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

    pub(crate) fn stage(&self, git: &Git, index: &Path) -> Result<(), Stop> {
        let update = |how: &[&str], paths: &[Vec<u8>]| -> Result<(), Stop> {
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
            one(".M", ".beads/beads.db-wal"),
            b"? .beads/daemon.log".to_vec(),
            b"? .beads/nested/".to_vec(),
            b"? .beads/\xff".to_vec(),
        ];
        let changes = DatabaseChanges::parse(&status, &names).unwrap();
        let paths = |paths: &[&[u8]]| paths.iter().map(|path| path.to_vec()).collect::<Vec<_>>();
        let expected = DatabaseChanges {
            present: paths(&[b".beads/a b", b".beads/staged"]),
            new: paths(&[b".beads/untracked again", b".beads/\xff"]),
            gone: paths(&[
                b".beads/deleted",
                b".beads/untracked again",
                b".beads/.exclusive-lock",
            ]),
            repositories: paths(&[b".beads/nested"]),
            left_out: paths(&[b".beads/daemon.log"]),
            stamps: Vec::new(),
        };
        assert_eq!(changes, expected);
        assert_eq!(changes.count(), 5);
        let unmerged =
            format!("u UU N... 100644 100644 100644 100644 {hash} {hash} {hash} .beads/x y")
                .into_bytes();
        assert_eq!(
            DatabaseChanges::parse(&[unmerged], &names),
            Err(paths(&[b".beads/x y"]))
        );
    }
}
