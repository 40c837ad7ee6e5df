//! Inside another hold, or inside a cycle (DESIGN 7 and 5).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use beadlock_checker::database::Database;
use beadlock_checker::escape::escaped_path;
use beadlock_checker::{Options, Verdict, look};

use crate::environment::Environment;
use crate::failure::{Code, Error};

/// A cycle that claimed its own database would wait for itself.
///
/// # Errors
/// At once, when `$BEADLOCK_CYCLE` names this database.
pub fn refuse_inside_a_cycle(database: &Database, environment: &Environment) -> Result<(), Error> {
    match environment.get("BEADLOCK_CYCLE") {
        Some(cycle) if names(cycle, &database.dir) => Err(Error::new(
            Code::DrainTimeout,
            format!(
                "this runs inside a sync cycle of {}, which a claim would wait for: it would wait for itself; leave \
                 the claim out here, or run it outside of the cycle",
                escaped_path(&database.dir)
            ),
        )),
        _ => Ok(()),
    }
}

/// The id of the claim that this runs under already: still in the file, and still held.
pub fn outer_claim(database: &Database, environment: &Environment) -> Option<String> {
    let of_hold = environment.get("BEADLOCK_HELD_ID").filter(|_| {
        environment.get("BEADLOCK_HELD_TARGET").is_some_and(|target| names(target, &database.dir))
    });
    let known = [of_hold, environment.get("BEADLOCK_ID")];
    let there = look(&database.dir, &Options::default());
    let id = there.id.filter(|_| matches!(there.verdict, Verdict::Held(_)))?;
    known.into_iter().flatten().any(|known| known == id.as_str()).then_some(id)
}

/// `[beads:]DIR` is the directory `dir`, by device and inode.
fn names(target: &OsStr, dir: &Path) -> bool {
    let path = target.as_bytes().strip_prefix(b"beads:").unwrap_or(target.as_bytes());
    let number = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let asked = number(Path::new(OsStr::from_bytes(path)));
    asked.is_some() && asked == number(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_directory_under_another_name_is_the_same() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(".beads");
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::symlink(&dir, top.path().join("link")).unwrap();
        let with_scheme = format!("beads:{}", dir.display());
        for name in [dir.as_os_str(), top.path().join("link").as_os_str(), OsStr::new(&with_scheme)] {
            assert!(names(name, &dir), "{name:?}");
        }
        for name in [top.path().as_os_str(), OsStr::new("/nowhere"), OsStr::new("")] {
            assert!(!names(name, &dir), "{name:?}");
        }
    }
}
