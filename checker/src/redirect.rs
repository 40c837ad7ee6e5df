//! What leads a database elsewhere. A `redirect` in it, or a link in its place, belongs to the user of the clone.
//! When git tracks it, everybody with permission to push decides which directory is claimed, checked and synced.

use std::{fs, path::Path};

pub use crate::database::Lead;
use crate::database::{Database, NoDatabase, REDIRECT};
use crate::{escape::escaped_path, git::Tracked, git::tracks, shell::Part, shell::to_type};

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
            to_type("git -C {} rm --cached -- {}", &[Part::Path(dir), Part::Path(path)])
        ))),
        Tracked::Unknown(why) => Err(NoDatabase::io(format!(
            "cannot follow {shown}: git does not say whether it tracks it ({why}); make git work there, or name the \
             directory that it leads to"
        ))),
    }
}
