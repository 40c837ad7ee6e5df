//! The files that differ between two trees.

use std::path::Path;

use crate::{Git, SyncStop, as_path};

/// A file as the second tree has it.
#[derive(Debug, PartialEq, Eq)]
pub struct TreeEntry {
    mode: Vec<u8>,
    /// Its object: the blob, or the commit of a submodule.
    pub id: String,
    /// The path from the top of the working tree.
    pub path: Vec<u8>,
}

/// The entries that the second tree has and the first has not, or has otherwise.
pub fn changed(git: &Git, from: &str, to: &str) -> Result<Vec<TreeEntry>, SyncStop> {
    let args = [
        "diff-tree",
        "-r",
        "-z",
        "--no-renames",
        "--diff-filter=d",
        from,
        to,
    ];
    Ok(parse(&git.call(args).words()?))
}

/// How two trees differ in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path from the top of the working tree.
    pub path: Vec<u8>,
    /// The blob's id in the first tree; `None` where it has no such file or link.
    pub old: Option<String>,
    /// The blob's id in the second tree; `None` where it has no such file or link.
    pub new: Option<String>,
    /// The second tree has a submodule there, and the first has not.
    pub becomes_submodule: bool,
}

/// The files in which two trees differ.
pub fn both(git: &Git, from: &str, to: &str) -> Result<Vec<Difference>, SyncStop> {
    let words = git
        .call(["diff-tree", "-r", "-z", "--no-renames", from, to])
        .words()?;
    Ok(parse_both(&words))
}

/// The results of [`changed`] and [`both`], by one call of git.
pub fn all(git: &Git, from: &str, to: &str) -> Result<(Vec<TreeEntry>, Vec<Difference>), SyncStop> {
    let words = git
        .call(["diff-tree", "-r", "-z", "--no-renames", from, to])
        .words()?;
    let mut entries = parse(&words);
    entries.retain(|entry| entry.mode != b"000000");
    Ok((entries, parse_both(&words)))
}

fn parse_both(words: &[Vec<u8>]) -> Vec<Difference> {
    let difference = |pair: &[Vec<u8>]| {
        let text = std::str::from_utf8(&pair[0]).ok()?;
        let mut fields = text.trim_start_matches(':').split(' ');
        let (old_mode, new_mode) = (fields.next()?, fields.next()?);
        let (old, new) = (fields.next()?, fields.next()?);
        let blob = |mode: &str, id: &str| {
            let is_blob = mode.starts_with("100") || mode == "120000";
            is_blob.then(|| id.to_owned())
        };
        Some(Difference {
            path: pair[1].clone(),
            old: blob(old_mode, old),
            new: blob(new_mode, new),
            becomes_submodule: new_mode == "160000" && old_mode != "160000",
        })
    };
    words.chunks_exact(2).filter_map(difference).collect()
}

fn parse(words: &[Vec<u8>]) -> Vec<TreeEntry> {
    let entry = |pair: &[Vec<u8>]| {
        // `:MODE MODE ID ID STATUS`, then the path.
        let mut fields = pair[0].split(|byte| *byte == b' ');
        let (mode, id) = (fields.nth(1)?.to_vec(), fields.nth(1)?);
        Some(TreeEntry {
            mode,
            id: String::from_utf8_lossy(id).into_owned(),
            path: pair[1].clone(),
        })
    };
    words.chunks_exact(2).filter_map(entry).collect()
}

impl TreeEntry {
    /// Its path from the top.
    pub fn path(&self) -> &Path {
        as_path(&self.path)
    }

    /// A regular file.
    pub fn is_file(&self) -> bool {
        self.mode.starts_with(b"100")
    }

    /// A submodule: its entry names a commit.
    pub fn is_submodule(&self) -> bool {
        self.mode == b"160000"
    }

    /// A link or a submodule: what is found under its name is not in the tree.
    pub fn leads_elsewhere(&self) -> bool {
        self.is_submodule() || self.mode == b"120000"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_side_is_read() {
        let words = [
            &b":000000 100755 0000 abcd A"[..],
            b"a b",
            b":100644 160000 abcd ef01 T",
            b"\xff",
        ];
        let entries = parse(&words.map(<[u8]>::to_vec));
        assert_eq!(
            (entries[0].id.as_str(), entries[0].path.as_slice()),
            ("abcd", &b"a b"[..])
        );
        assert!(entries[0].is_file() && !entries[0].leads_elsewhere());
        assert!(entries[1].is_submodule() && !entries[1].is_file() && entries[1].id == "ef01");
    }

    #[test]
    fn both_sides_are_read() {
        let words = [
            &b":000000 100755 0000 abcd A"[..],
            b"a b",
            b":100644 160000 abcd ef01 T",
            b"\xff",
            b":120000 000000 abcd 0000 D",
            b"l",
        ];
        let found = parse_both(&words.map(<[u8]>::to_vec));
        let sides: Vec<_> = found
            .iter()
            .map(|found| {
                (
                    found.old.as_deref(),
                    found.new.as_deref(),
                    found.becomes_submodule,
                )
            })
            .collect();
        assert_eq!(
            sides,
            [
                (None, Some("abcd"), false),
                (Some("abcd"), None, true),
                (Some("abcd"), None, false)
            ]
        );
    }
}
