//! How a database that beads keeps in Dolt is recognised. Since bd 0.51 that is where bd has the issues: bd syncs them
//! by `bd dolt push` and `pull`, asks for no lock, and writes `*.jsonl` as an export (docs/guide/beads.md).
//!
//! By what Dolt itself writes: a directory is not taken for Dolt's because of its name. Where the database is on a
//! server, `metadata.json` alone names it. Where `metadata.json` names another backend, Dolt's files are what a move to
//! that backend has left behind.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::read::{self, Sight};

/// Dolt's data directories in a database: of bd's embedded Dolt, of its server, and of the server behind its proxy. Each
/// has a directory for each of Dolt's databases, or is such a database itself.
const DATA_DIRS: [&str; 3] = ["embeddeddolt", "dolt", "proxieddb"];

/// Entries that Dolt makes in each of its databases.
const MARKS: [&str; 2] = [".dolt/noms", ".dolt/repo_state.json"];

/// The file in which bd says where a database is.
const METADATA: &str = "metadata.json";

/// By what a Dolt database was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dolt {
    /// By Dolt's own files in this directory of the database.
    Files(&'static str),
    /// By bd's `metadata.json` alone: the database is on a server, or was not fetched yet.
    Metadata,
}

impl Dolt {
    /// How the database in the directory `database` is recognised as Dolt's; `None`: it is not, as far as can be seen.
    pub fn of(database: &Path) -> Option<Self> {
        let named = named(&database.join(METADATA));
        if named == Some(Named::Other) {
            return None;
        }
        let files = DATA_DIRS
            .into_iter()
            .find(|name| has_databases(&database.join(name)));
        files
            .map(Self::Files)
            .or_else(|| (named == Some(Named::Dolt)).then_some(Self::Metadata))
    }

    /// The file or directory of the database by which it was recognised: `embeddeddolt`, `metadata.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files(name) => name,
            Self::Metadata => METADATA,
        }
    }
}

/// Whether a directory right below a database is one in which bd keeps Dolt databases, with all that is in it.
pub fn is_data_dir(dir: &Path) -> bool {
    DATA_DIRS.iter().any(|name| dir.ends_with(name)) && has_databases(dir)
}

/// Whether Dolt's files are in this directory, or in one right below it.
fn has_databases(dir: &Path) -> bool {
    has_mark(dir)
        || fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| has_mark(&entry.path()))
}

fn has_mark(dir: &Path) -> bool {
    MARKS
        .iter()
        .any(|mark| fs::symlink_metadata(dir.join(mark)).is_ok())
}

/// The backend that bd's own file names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Dolt,
    Other,
}

/// The backend in this `metadata.json`; `None`: it cannot be read, or names none. Not every version of bd has written a
/// `backend`. Without one, `database` is `dolt` or the name of a file; a file may be left over, so it says nothing.
fn named(metadata: &Path) -> Option<Named> {
    let Sight::File(file) = read::open_path(metadata) else {
        return None;
    };
    let metadata: Value = serde_json::from_slice(&file.read().ok()?).ok()?;
    match (metadata.get("backend"), metadata.get("database")) {
        (Some(backend), _) if backend == "dolt" => Some(Named::Dolt),
        (Some(Value::String(_)), _) => Some(Named::Other),
        (None, Some(database)) if database == "dolt" => Some(Named::Dolt),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Option<Dolt> {
        let top = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Dolt::of(top.path())
    }

    #[test]
    fn each_layout_of_bd_is_recognised() {
        for (files, by) in [
            // bd 0.50 to 0.62, and `bd init --server` since.
            (&[("dolt/beads/.dolt/noms/manifest", "")][..], "dolt"),
            // A database in the data directory itself.
            (&[("dolt/.dolt/repo_state.json", "{}")], "dolt"),
            // bd 0.63 and later.
            (
                &[
                    ("embeddeddolt/bd/.dolt/repo_state.json", "{}"),
                    (
                        "metadata.json",
                        r#"{"backend":"dolt","dolt_mode":"embedded"}"#,
                    ),
                    ("issues.jsonl", ""),
                ],
                "embeddeddolt",
            ),
            // bd 1.x with its proxy.
            (&[("proxieddb/bd/.dolt/noms/manifest", "")], "proxieddb"),
            // On a server, or in a clone before `bd bootstrap`.
            (
                &[("metadata.json", r#"{"database":"beads","backend":"dolt"}"#)],
                "metadata.json",
            ),
            (
                &[(
                    "metadata.json",
                    r#"{"database":"dolt","jsonl_export":"issues.jsonl"}"#,
                )],
                "metadata.json",
            ),
            // What is left of SQLite does not hide it.
            (
                &[
                    ("metadata.json", r#"{"database":"beads.db"}"#),
                    ("dolt/beads/.dolt/noms/manifest", ""),
                ],
                "dolt",
            ),
        ] {
            assert_eq!(of(files).map(Dolt::name), Some(by), "{files:?}");
        }
    }

    #[test]
    fn a_name_alone_is_not_a_dolt_database() {
        for files in [
            &[][..],
            &[("dolt/notes.md", "about Dolt")],
            &[("dolt/beads/noms/manifest", "")],
            &[("dolt/a/b/.dolt/noms/manifest", "")],
            &[("dolt/.doltcfg/privileges.db", "")],
            &[("embeddeddolt", "a file")],
            &[("elsewhere/.dolt/noms/manifest", "")],
            &[(
                "metadata.json",
                r#"{"database":"beads.db","jsonl_export":"issues.jsonl"}"#,
            )],
            &[("metadata.json", r#"{"backend":"sqlite","database":"dolt"}"#)],
            // Left behind by a move to another backend.
            &[
                ("metadata.json", r#"{"backend":"sqlite"}"#),
                ("dolt/beads/.dolt/noms/manifest", ""),
            ],
            &[("metadata.json", r#"{"backend":["dolt"]}"#)],
            &[("metadata.json", r#"["dolt"]"#)],
            &[("metadata.json", "backend: dolt")],
        ] {
            assert_eq!(of(files), None, "{files:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_bds_is_not_read() {
        let (link, pipe) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink("/dev/zero", link.path().join(METADATA)).unwrap();
        nix::unistd::mkfifo(&pipe.path().join(METADATA), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(Dolt::of(link.path()), None);
        assert_eq!(Dolt::of(pipe.path()), None);
    }
}
