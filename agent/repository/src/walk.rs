//! The files of a database, read from its directories and not from git.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use beadlock_base::regular::{self, Links};

use crate::TEXT_LIMIT;
use crate::{Repository, as_path};

/// The most entries that are looked at.
const MANY: usize = 10_000;

/// Paths from the top, without those that are never committed, and without repositories inside.
#[derive(Debug, Default)]
pub struct DatabaseFiles {
    /// Files and links.
    pub all: Vec<Vec<u8>>,
    /// The symbolic links among them.
    pub links: Vec<Vec<u8>>,
    /// Whether the database has more entries than were looked at.
    pub is_cut_off: bool,
}

impl DatabaseFiles {
    /// Looks at the files of the database in the working tree.
    pub fn of(repository: &Repository) -> Self {
        let mut files = Self::default();
        let mut dirs = vec![repository.prefix.clone()];
        let mut entries = 0;
        while let Some(dir) = dirs.pop() {
            let Ok(read) = fs::read_dir(repository.git.dir.join(&dir)) else {
                continue;
            };
            for entry in read.flatten() {
                let path = dir.join(entry.file_name());
                let bytes = path.as_os_str().as_encoded_bytes();
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if entry.file_name() == ".git" || repository.names.is_left_out(bytes) {
                    continue;
                }
                entries += 1;
                if entries > MANY {
                    files.is_cut_off = true;
                    return files;
                }
                if kind.is_dir() {
                    let is_repository = fs::symlink_metadata(entry.path().join(".git")).is_ok();
                    if !is_repository {
                        dirs.push(path);
                    }
                } else if kind.is_file() || kind.is_symlink() {
                    if kind.is_symlink() {
                        files.links.push(bytes.to_vec());
                    }
                    files.all.push(bytes.to_vec());
                }
            }
        }
        files.all.sort();
        files.links.sort();
        files
    }

    /// Whether a link leads to records that are not in the database, or are ignored there.
    pub fn leads_out(
        &self,
        repository: &Repository,
        path: &[u8],
        is_ignored: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let link = repository.git.dir.join(as_path(path));
        let Ok(target) = fs::canonicalize(&link) else {
            return is_record(path);
        };
        let from_top = target.strip_prefix(&repository.git.dir).ok();
        let is_inside = from_top.is_some_and(|target| {
            let target = target.as_os_str().as_encoded_bytes();
            repository.has(target) && !repository.names.is_left_out(target) && !is_ignored(target)
        });
        !is_inside && (is_record(path) || has_records(&target))
    }

    /// Whether the `.gitignore` of the database has a line with this very name, or the first name on the way to it.
    pub fn is_named_in_gitignore(&self, repository: &Repository, path: &[u8]) -> bool {
        let path = as_path(path);
        let inside = path.strip_prefix(&repository.prefix).unwrap_or(path);
        let top = inside.iter().next().map(OsStr::as_encoded_bytes);
        let name = inside.file_name().map(OsStr::as_encoded_bytes);
        let dir = repository.git.dir.join(&repository.prefix);
        let text = regular::read(&dir.join(".gitignore"), Links::Followed, TEXT_LIMIT);
        let is_it = |line: &[u8]| {
            let line = line.trim_ascii();
            let line = line.strip_prefix(b"/").unwrap_or(line);
            let line = Some(line.strip_suffix(b"/").unwrap_or(line));
            line == name || line == top
        };
        text.is_ok_and(|text| text.split(|byte| *byte == b'\n').any(is_it))
    }

    /// The files of attributes in the database and above it.
    pub(crate) fn attributes(&self, repository: &Repository) -> Vec<PathBuf> {
        let above = repository.prefix.ancestors().skip(1);
        let above = above.map(|dir| dir.join(".gitattributes"));
        let inside = self.all.iter().map(|path| as_path(path).to_owned());
        let inside = inside.filter(|path| path.file_name() == Some(OsStr::new(".gitattributes")));
        above.chain(inside).collect()
    }
}

/// Whether a file has records, by its name, and is not left over from a merge.
pub fn is_record(path: &[u8]) -> bool {
    let of_merge = [&b".base.jsonl"[..], b".left.jsonl", b".right.jsonl"];
    path.ends_with(b".jsonl") && !of_merge.iter().any(|ending| path.ends_with(ending))
}

fn has_records(dir: &Path) -> bool {
    let mut entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.any(|entry| is_record(entry.file_name().as_encoded_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_file_is_known_by_its_name() {
        for (path, is_one) in [
            (".beads/issues.jsonl", true),
            (".beads/base.jsonl", true),
            (".beads/beads.base.jsonl", false),
            (".beads/x.right.jsonl", false),
            (".beads/issues.json", false),
        ] {
            assert_eq!(is_record(path.as_bytes()), is_one, "{path}");
        }
    }
}
