//! `dir:PATH`: a directory that need not be a database, with the lock and the gate of one (docs/design.md#targets).

use std::{fs, os::unix::fs::MetadataExt, path::Path, path::PathBuf};

use super::{Database, DatabaseVariables, Lead, NoDatabase};
use crate::target::{ParsedTarget, Scheme};
use crate::{directory, place::Place};
use beadlock_base::escape::escaped_path;

impl Database {
    /// The directory at `path` as it is: a file called `redirect` in it is none, and a `.beads` in it is not meant. Fails
    /// when it does not exist, is not a directory, or cannot be reached.
    pub fn plain(path: &Path, environment: &DatabaseVariables) -> Result<Self, NoDatabase> {
        let given = format!("{}{}", Scheme::Dir.prefix(), escaped_path(path));
        let at: PathBuf = environment.cwd.join(path).components().collect();
        // Looked at before it is followed: a change in between is a change since.
        let lead = Lead::of_link(&at);
        let dir = directory::plain(&at, &given)?;
        let meta =
            fs::metadata(&dir).map_err(|error| directory::unreachable(&dir, &given, &error))?;
        Ok(Self {
            inode: (meta.dev(), meta.ino()),
            named: dir.clone(),
            dir,
            given,
            at,
            lead,
            typed: path.to_owned(),
            shown: path.to_owned(),
            is_plain: true,
        })
    }

    /// The database that this words name, `[beads:]DIR` or `dir:PATH`. Fails as [`Self::named`] and [`Self::plain`].
    pub fn of_target(
        target: ParsedTarget,
        environment: &DatabaseVariables,
    ) -> Result<Self, NoDatabase> {
        match target {
            ParsedTarget {
                scheme: Scheme::Dir,
                rest,
            } => Self::plain(&rest, environment),
            other => Self::named(&other.into_database()?, environment),
        }
    }

    /// True if it was named as a directory that need not be a database: there is nothing in it to sync through git.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }
}

impl Place {
    /// The place of `dir:PATH`, with `path` relative to `cwd`: the directory without links. Fails as
    /// [`Database::plain`].
    pub fn of_directory(path: &Path, cwd: &Path) -> Result<Self, NoDatabase> {
        let environment = DatabaseVariables {
            cwd: cwd.to_owned(),
            ..DatabaseVariables::default()
        };
        Ok(Self::beads(Database::plain(path, &environment)?.dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_taken_as_it_is() {
        let top = tempfile::tempdir().unwrap();
        let environment = DatabaseVariables {
            cwd: fs::canonicalize(top.path()).unwrap(),
            ..DatabaseVariables::default()
        };
        let dir = environment.cwd.join("work");
        fs::create_dir_all(dir.join(".beads")).unwrap();
        fs::create_dir(environment.cwd.join("elsewhere")).unwrap();
        fs::write(dir.join("redirect"), "../elsewhere\n").unwrap();
        let found = Database::plain(Path::new("work/"), &environment).unwrap();
        assert_eq!((&found.dir, &*found.given), (&dir, "dir:work/"));
        assert!(found.led_elsewhere().is_none() && found.is_itself());
        let place = Place::of_directory(Path::new("work"), &environment.cwd).unwrap();
        assert_eq!(place.path(), dir.join(".exclusive-lock"));

        fs::write(environment.cwd.join("file"), "").unwrap();
        for (path, words) in [("file", "is not a directory"), ("none", "does not exist")] {
            let error = Database::plain(Path::new(path), &environment).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("dir:{path} {words}")),
                "{error}"
            );
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a link of the test")]
    fn a_link_may_lead_elsewhere_later() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        let environment = DatabaseVariables::default();
        for name in ["one", "two"] {
            fs::create_dir(top.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("one", top.join("now")).unwrap();
        let found = Database::plain(&top.join("now"), &environment).unwrap();
        assert!(found.led_elsewhere().is_none());
        fs::remove_file(top.join("now")).unwrap();
        std::os::unix::fs::symlink("two", top.join("now")).unwrap();
        let again = found.led_elsewhere().unwrap().unwrap();
        assert_eq!(again.dir, top.join("two"));
        assert!(again.is_plain());
    }
}
