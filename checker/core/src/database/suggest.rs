//! Whether a directory that was named looks like a database. A claim of any other directory protects nothing, and
//! still exits with 0. Only command lines ask: a program that calls the library has chosen its directory.

use std::{ffi::OsStr, fs, fs::DirEntry, os::unix::ffi::OsStrExt, path::Path, path::PathBuf};

use super::{BEADS, Database, DatabaseVariables, NoDatabase, REDIRECT, is_beads_dir};
use crate::target::ParsedTarget;
use beadlock_base::shell::{quoted, quoted_path};

/// Which directories are taken for databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Directories {
    /// Directories that look like a database.
    #[default]
    LikeOne,
    /// All directories: the user insists.
    Any,
}

impl Directories {
    /// [`Self::Any`] where an option of the user insists, else [`Self::LikeOne`].
    pub fn any(insists: bool) -> Self {
        if insists { Self::Any } else { Self::LikeOne }
    }
}

/// Kinds of target that a message suggests instead of a directory that is not a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suggest {
    /// The path of a database.
    Path,
    /// A path, and a target of another scheme.
    PathOrScheme,
}

impl Database {
    /// True when the directory is called `.beads`, as it was typed or as it is; when it is `$BEADS_DIR`; or when a
    /// database file lies in it, or in the directory whose redirect leads to it. The directory is read only where its
    /// name says nothing. A directory that cannot be read may be a database.
    pub fn looks_like_one(&self, environment: &DatabaseVariables) -> bool {
        let (dir, named) = (self.dir.as_path(), self.named.as_path());
        let is_called = |path: &Path| path.file_name() == Some(OsStr::new(BEADS));
        [&self.typed, named, dir].into_iter().any(is_called)
            || [named, dir]
                .into_iter()
                .any(|dir| is_beads_dir(dir, environment))
            || has_database_file(named)
            || (dir != named && has_database_file(dir))
    }

    /// Why the directory is not taken for a database, and what to type instead. `None`: it looks like one.
    pub fn doubt(&self, suggest: Suggest, environment: &DatabaseVariables) -> Option<NoDatabase> {
        if self.is_plain() || self.looks_like_one(environment) {
            return None;
        }
        let path = quoted_path(&unambiguous(self.nearest(environment)));
        let meant = match suggest {
            Suggest::Path => path,
            Suggest::PathOrScheme => format!(
                "{}, or {path}",
                quoted(&ParsedTarget::lock_of_directory(&self.typed))
            ),
        };
        Some(NoDatabase::usage(format!(
            "{} is not a beads database (it has no *.db, *.sqlite*, *.jsonl or redirect); did you mean {meant}?",
            self.given
        )))
    }

    /// This database, where `directories` accepts it. The error says what to type instead.
    pub fn accepted(
        self,
        directories: Directories,
        suggest: Suggest,
        environment: &DatabaseVariables,
    ) -> Result<Self, NoDatabase> {
        if directories == Directories::LikeOne
            && let Some(doubt) = self.doubt(suggest, environment)
        {
            return Err(doubt.with(" --any-directory insists"));
        }
        Ok(self)
    }

    /// The `.beads` that lies nearest above the directory, as it is typed from here; else the one that could lie in it.
    fn nearest(&self, environment: &DatabaseVariables) -> PathBuf {
        let absolute = environment.cwd.join(&self.typed);
        let mut above = absolute.ancestors().skip(1).map(|dir| dir.join(BEADS));
        let is_there = |dir: &PathBuf| fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
        match above.find(is_there) {
            Some(dir) => dir
                .strip_prefix(&environment.cwd)
                .map(Path::to_owned)
                .unwrap_or(dir),
            None => self.typed.join(BEADS),
        }
    }
}

fn unambiguous(path: PathBuf) -> PathBuf {
    if ParsedTarget::is_plain(&path) {
        path
    } else {
        Path::new(".").join(path)
    }
}

fn has_database_file(dir: &Path) -> bool {
    let is_one = |entry: DirEntry| {
        is_database_name(&entry.file_name()) && entry.file_type().is_ok_and(|kind| !kind.is_dir())
    };
    match fs::read_dir(dir) {
        Ok(entries) => entries.flatten().any(is_one),
        Err(_) => true,
    }
}

fn is_database_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let has_sqlite = || {
        bytes
            .windows(b".sqlite".len())
            .any(|part| part == b".sqlite")
    };
    name == OsStr::new(REDIRECT)
        || bytes.ends_with(b".db")
        || bytes.ends_with(b".jsonl")
        || has_sqlite()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::NoDatabaseKind;

    fn scene() -> (tempfile::TempDir, DatabaseVariables) {
        let top = tempfile::tempdir().unwrap();
        let cwd = fs::canonicalize(top.path()).unwrap();
        fs::create_dir(cwd.join("shop")).unwrap();
        (
            top,
            DatabaseVariables {
                cwd,
                ..DatabaseVariables::default()
            },
        )
    }

    fn shop(environment: &DatabaseVariables) -> Database {
        Database::named(Path::new("shop"), environment).unwrap()
    }

    #[test]
    fn names_of_database_files() {
        for name in [
            "beads.db",
            "x.sqlite",
            "x.sqlite3-wal",
            "issues.jsonl",
            "redirect",
        ] {
            assert!(is_database_name(OsStr::new(name)), "{name}");
        }
        for name in [
            "db",
            "beads.db.bak",
            "sqlite",
            "issues.json",
            "redirects",
            ".exclusive-lock",
            "",
        ] {
            assert!(!is_database_name(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn an_empty_directory_is_doubted_until_it_has_a_database_file() {
        let (_keep, environment) = scene();
        let doubt = shop(&environment)
            .doubt(Suggest::PathOrScheme, &environment)
            .unwrap();
        assert_eq!(
            (doubt.exit_code(), doubt.kind()),
            (2, NoDatabaseKind::Usage)
        );
        assert_eq!(
            doubt.to_string(),
            "shop is not a beads database (it has no *.db, *.sqlite*, *.jsonl or redirect); did you mean \
             memory:shop, or shop/.beads?"
        );
        fs::create_dir(environment.cwd.join(BEADS)).unwrap();
        let doubt = shop(&environment)
            .doubt(Suggest::Path, &environment)
            .unwrap()
            .to_string();
        assert!(doubt.ends_with("did you mean .beads?"), "{doubt}");
        fs::write(environment.cwd.join("shop/beads.db"), "").unwrap();
        assert_eq!(shop(&environment).doubt(Suggest::Path, &environment), None);
    }

    #[test]
    fn the_option_accepts_any_directory() {
        let (_keep, environment) = scene();
        let accepted =
            |directories| shop(&environment).accepted(directories, Suggest::Path, &environment);
        let refused = accepted(Directories::LikeOne).unwrap_err().to_string();
        assert!(refused.ends_with("? --any-directory insists"), "{refused}");
        assert!(accepted(Directories::Any).is_ok());
    }
}
