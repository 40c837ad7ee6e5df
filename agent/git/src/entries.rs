//! The files that differ between two trees.

use std::path::Path;

use crate::{Git, Stop, as_path};

/// A file as the second tree has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    mode: Vec<u8>,
    pub(crate) id: String,
    /// From the top.
    pub(crate) path: Vec<u8>,
}

/// The entries that the second tree has and the first has not, or has otherwise.
pub(crate) fn changed(git: &Git, from: &str, to: &str) -> Result<Vec<TreeEntry>, Stop> {
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
    pub(crate) fn path(&self) -> &Path {
        as_path(&self.path)
    }

    pub(crate) fn is_file(&self) -> bool {
        self.mode.starts_with(b"100")
    }

    pub(crate) fn is_submodule(&self) -> bool {
        self.mode == b"160000"
    }

    /// A link or a submodule: what is found under its name is not in the tree.
    pub(crate) fn leads_elsewhere(&self) -> bool {
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
}
