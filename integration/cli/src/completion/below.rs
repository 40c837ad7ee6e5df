//! The short search for locks below the working directory: breadth first, on one file system, until its time is over.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::{fs, time::Instant};

use beadlock_base::mounts::Mounts;
use beadlock_core::Options;
use beadlock_core::look::look;

use beadlock_claim::{environment::Environment, remote::BEADS};
use beadlock_oncall::list::listing;

/// No directory further down is read.
const DEPTH: usize = 5;

/// The databases and locks, as they are typed: the databases first.
pub fn targets(environment: &Environment, mounts: &Mounts, until: Instant) -> Vec<String> {
    let around = environment.of_database();
    let (mut databases, mut locks) = (BTreeSet::new(), BTreeSet::new());
    let mut left: VecDeque<(PathBuf, usize)> = [(PathBuf::new(), 0)].into();
    while let Some((dir, depth)) = left.pop_front() {
        let Ok(entries) = fs::read_dir(around.cwd.join(&dir)) else {
            continue;
        };
        for entry in entries.flatten() {
            if Instant::now() >= until {
                return databases.into_iter().chain(locks).collect();
            }
            let (name, path) = (entry.file_name(), dir.join(entry.file_name()));
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                let is_hidden = name.as_encoded_bytes().starts_with(b".");
                if name == BEADS {
                    databases.extend(typed(&path));
                } else if !is_hidden
                    && depth < DEPTH
                    && !mounts.is_remote_point(&around.cwd.join(&path))
                {
                    left.push_back((path, depth + 1));
                }
            } else if kind.is_file() && listing::is_lock_of_database(&name) {
                databases.extend(typed(&dir));
            } else if kind.is_file() && listing::is_lock_of_directory(&name) {
                let target = typed(&dir).and_then(|_| listing::in_directory(&dir, &around).ok());
                let target = target
                    .filter(|target| target.is_its_lock(&look(&target.place, &Options::default())));
                locks.extend(target.map(|target| target.given));
            } else if kind.is_file() && listing::may_be_lock_at_path(&name) {
                let target = typed(&path)
                    .and_then(|_| listing::at_path(&around.cwd.join(&path), &dir, &around).ok());
                let target = target.filter(|target| {
                    listing::is_lock_at_path(&look(&target.place, &Options::default()))
                });
                locks.extend(target.map(|target| target.given));
            }
        }
    }
    databases.into_iter().chain(locks).collect()
}

/// A path that is typed as it is. `None`: it would look like an option or a scheme, or is not text.
fn typed(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| !text.is_empty())?;
    let first = text.split('/').next().unwrap_or_default();
    (!first.starts_with('-') && !first.contains(':')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_search_ends_with_its_time() {
        let (environment, mounts) = (Environment::default(), Mounts::now());
        assert_eq!(targets(&environment, &mounts, Instant::now()), [""; 0]);
        // The working directory of a unit test is that of its crate.
        let begun = Instant::now();
        targets(&environment, &mounts, begun + Duration::from_millis(1));
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
    }

    #[test]
    fn what_would_be_an_option_or_a_scheme_is_not_offered() {
        for (path, offered) in [
            ("a/.beads", true),
            (".beads", true),
            ("-x/.beads", false),
            ("a:b/.beads", false),
            ("", false),
        ] {
            assert_eq!(typed(Path::new(path)).is_some(), offered, "{path}");
        }
    }
}
