//! The versions of the record files that have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use beadlock_base::regular::{self, Links};
use beadlock_records::BlemishKind;

use super::fault::{RecordLoss, blemish};
use crate::DatabaseChanges;
use beadlock_repository::names::is_record_name;
use beadlock_repository::{BranchHead, Repository, SyncStop, as_path, blobs};

/// The content of a version, kept once where two versions have the same.
pub(crate) type Text = Rc<Vec<u8>>;

/// A record file that has changed: its versions, each `None` where there is no file.
#[derive(Debug, Clone)]
pub(crate) struct RecordChange {
    /// The path from the top of the working tree.
    pub(crate) path: Vec<u8>,
    /// Its text in the last commit.
    pub(crate) head: Option<Text>,
    /// Its text in the newest commit of the place that the branch has.
    pub(crate) place: Option<Text>,
    /// Its text in the working tree.
    pub(crate) here: Option<Text>,
}

impl RecordChange {
    /// The changed record files, with the versions in the last commit and in `place`.
    pub(super) fn read_all(
        repository: &Repository,
        changes: &DatabaseChanges,
        head: &BranchHead,
        place: &str,
    ) -> Result<Vec<Self>, SyncStop> {
        let paths: BTreeSet<_> = changes
            .present
            .iter()
            .chain(&changes.gone)
            .filter(|path| is_record_name(path))
            .collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let of_place = match place == head.commit {
            true => None,
            false => Some(ids_in(repository, place)?),
        };
        let in_head = |path: &Vec<u8>| changes.in_head.get(path);
        let in_place = |path: &Vec<u8>| match &of_place {
            Some(ids) => ids.get(path),
            None => in_head(path),
        };
        let ids: BTreeSet<_> = paths
            .iter()
            .flat_map(|path| [in_head(path), in_place(path)])
            .flatten()
            .map(String::as_str)
            .collect();
        let texts = blobs::contents(&repository.git, ids.into_iter())?;
        let text = |id: Option<&String>| id.and_then(|id| texts.get(id)).cloned();
        let change = |path: &&Vec<u8>| {
            let file = repository.git.dir.join(as_path(path));
            let is_link = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_symlink());
            (!is_link).then(|| Self {
                path: (*path).clone(),
                head: text(in_head(path)),
                place: text(in_place(path)),
                here: read(&file).map(Rc::new),
            })
        };
        Ok(paths.iter().filter_map(change).collect())
    }

    pub(super) fn place(&self) -> Option<&[u8]> {
        self.place.as_ref().map(|text| text.as_slice())
    }

    pub(super) fn here(&self) -> Option<&[u8]> {
        self.here.as_ref().map(|text| text.as_slice())
    }

    pub(super) fn blemish(&self) -> Option<(BlemishKind, usize)> {
        let here = self.here()?;
        blemish(self.place().unwrap_or_default(), here)
    }

    pub(super) fn loss(&self) -> RecordLoss {
        RecordLoss::between(self.place(), self.here())
    }
}

/// The content of a regular file; `None` where there is none, or it cannot be read.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut file = regular::open(path, Links::Refused).ok()?;
    file.read_to_end(&mut content).ok()?;
    Some(content)
}

/// The ids of the files that a commit has in the database.
pub(super) fn ids_in(
    repository: &Repository,
    commit: &str,
) -> Result<BTreeMap<Vec<u8>, String>, SyncStop> {
    let ls_tree = repository.git.call(["ls-tree", "-r", "-z", commit]);
    let prefix = repository.prefix.as_os_str().as_encoded_bytes();
    let ls_tree = match prefix.is_empty() {
        true => ls_tree,
        false => ls_tree.paths([&b"--"[..], prefix]),
    };
    let entry = |entry: Vec<u8>| {
        // `MODE TYPE ID`, a tab, the path.
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let (fields, path) = entry.split_at(tab);
        let mut fields = fields.split(|byte| *byte == b' ');
        let is_file = fields.next()?.starts_with(b"100");
        let id = String::from_utf8_lossy(fields.nth(1)?).into_owned();
        is_file.then(|| (path[1..].to_vec(), id))
    };
    Ok(ls_tree.words()?.into_iter().filter_map(entry).collect())
}
