//! The redirects and links that lead a database elsewhere. A `redirect` in a database, or a link in its place, belongs
//! to the user of the clone. When git tracks it, everybody with permission to push decides which directory is claimed,
//! checked and synced.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

pub use crate::database::Lead;
use crate::database::{Database, FLEET_MARK, NoDatabase, REDIRECT};
use beadlock_base::{
    escape::escaped_path,
    git::{Tracked, tracks},
    shell::{Part, to_type},
};

/// Refuses the mark of a fleet in the database `dir` where git tracks it, or may: then a branch takes a clone out of
/// its fleet, or into another.
pub fn refuse_tracked_mark(dir: &Path) -> Result<(), NoDatabase> {
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Ok(());
    };
    let mark = Path::new(OsStr::from_bytes(FLEET_MARK.to_bytes()));
    let is_repository = fs::symlink_metadata(dir.join(".git")).is_ok();
    let asked = [(above, Path::new(name).join(mark)), (dir, mark.to_owned())];
    for (dir, path) in asked.into_iter().take(if is_repository { 2 } else { 1 }) {
        let shown = escaped_path(&dir.join(&path));
        match tracks(dir, &path) {
            Tracked::No => {}
            Tracked::Yes => {
                return Err(NoDatabase::io(format!(
                    "{shown} is tracked by git, so a branch or a pull would take this clone out of its fleet or into \
                     another; type: {}",
                    to_type(
                        "git -C {} rm --cached -- {}",
                        &[Part::Path(dir), Part::Path(&path)]
                    )
                )));
            }
            Tracked::Unknown(why) => {
                return Err(NoDatabase::io(format!(
                    "git does not say whether it tracks {shown} ({why}); make git work there"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses a database that a redirect or a link leads to which git tracks, or may track. Git is asked only then.
pub fn refuse_tracked(database: &Database) -> Result<(), NoDatabase> {
    let lead = database.lead();
    if lead.link.is_some()
        && let (Some(above), Some(name)) = (database.at.parent(), database.at.file_name())
    {
        refuse("is a link that git tracks", above, Path::new(name))?;
    }
    if lead.redirect.is_some() {
        let named = database.named.as_path();
        if let (Some(above), Some(name)) = (named.parent(), named.file_name()) {
            refuse("is tracked by git", above, &Path::new(name).join(REDIRECT))?;
        }
        // A repository of its own is not seen from above.
        if fs::symlink_metadata(named.join(".git")).is_ok() {
            refuse("is tracked by git", named, Path::new(REDIRECT))?;
        }
    }
    Ok(())
}

fn refuse(is_tracked: &str, dir: &Path, path: &Path) -> Result<(), NoDatabase> {
    let shown = escaped_path(&dir.join(path));
    match tracks(dir, path) {
        Tracked::No => Ok(()),
        Tracked::Yes => Err(NoDatabase::io(format!(
            "{shown} {is_tracked}, so everybody who may push decides where it leads; type: {}",
            to_type(
                "git -C {} rm --cached -- {}",
                &[Part::Path(dir), Part::Path(path)]
            )
        ))),
        Tracked::Unknown(why) => Err(NoDatabase::io(format!(
            "cannot follow {shown}: git does not say whether it tracks it ({why}); make git work there, or name the \
             directory that it leads to"
        ))),
    }
}
