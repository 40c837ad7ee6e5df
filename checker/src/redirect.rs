//! What leads a database elsewhere. A `redirect` in it, or a link in its place, belongs to the user of the clone. When git tracks
//! it, everybody with permission to push decides which directory is claimed, checked and synced.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::database::{Database, NoDatabase, REDIRECT};
use crate::escape::escaped_path;
use crate::git::{Tracked, tracks};
use crate::shell::{Part, to_type};

/// What leads from a database's name to its directory, as it is now. Where two are the same, nothing has changed, and
/// git need not be asked again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lead {
    link: Option<Stamp>,
    redirect: Option<Stamp>,
}

/// Device, inode, size, and the times of the last change of content and of anything.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Lead {
    /// What a link in the place of a database is like, before it is followed: `at` is its name as it was typed.
    pub(crate) fn of_link(at: &Path) -> Self {
        let link = fs::symlink_metadata(at).ok().filter(Metadata::is_symlink);
        Self { link: link.as_ref().map(stamp), redirect: None }
    }

    /// And the redirect in the directory `named`, before that is read.
    pub(crate) fn and_redirect(self, named: &Path) -> Self {
        let redirect = fs::symlink_metadata(named.join(REDIRECT)).ok();
        Self { redirect: redirect.as_ref().map(stamp), ..self }
    }

    /// Of this database, as it is now. One call of `lstat`, and one more where the database is reached by a link.
    pub fn now(database: &Database) -> Self {
        // A link that was put there since is not followed by anybody.
        let link = if database.at == database.named { Self::default() } else { Self::of_link(&database.at) };
        link.and_redirect(&database.named)
    }

    /// Nothing leads anywhere: the database is where its name says.
    pub fn is_none(&self) -> bool {
        self.link.is_none() && self.redirect.is_none()
    }
}

fn stamp(meta: &Metadata) -> Stamp {
    let times = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
    (meta.dev(), meta.ino(), meta.size(), times.0, times.1)
}

/// Refuses a database that a redirect or a link leads to which git tracks. Git is asked only where there is one.
///
/// # Errors
/// What to type; also when there is a git that does not say whether it tracks it.
pub fn refuse_tracked(database: &Database) -> Result<(), NoDatabase> {
    let lead = database.lead();
    if lead.link.is_some()
        && let (Some(above), Some(name)) = (database.at.parent(), database.at.file_name())
    {
        refuse(What::Link, above, Path::new(name))?;
    }
    if lead.redirect.is_some() {
        let named = database.named.as_path();
        if let (Some(above), Some(name)) = (named.parent(), named.file_name()) {
            refuse(What::Redirect, above, &Path::new(name).join(REDIRECT))?;
        }
        // A repository of its own is not seen from above.
        if fs::symlink_metadata(named.join(".git")).is_ok() {
            refuse(What::Redirect, named, Path::new(REDIRECT))?;
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum What {
    Link,
    Redirect,
}

fn refuse(what: What, dir: &Path, path: &Path) -> Result<(), NoDatabase> {
    let shown = escaped_path(&dir.join(path));
    match tracks(dir, path) {
        Tracked::No => Ok(()),
        Tracked::Yes => {
            let is_tracked = match what {
                What::Link => "is a link that git tracks",
                What::Redirect => "is tracked by git",
            };
            Err(NoDatabase::io(format!(
                "{shown} {is_tracked}, so everybody who may push decides where it leads; type: {}",
                to_type("git -C {} rm --cached -- {}", &[Part::Path(dir), Part::Path(path)])
            )))
        }
        Tracked::Unknown(why) => Err(NoDatabase::io(format!(
            "cannot follow {shown}: git does not say whether it tracks it ({why}); make git work there, or name the \
             directory that it leads to"
        ))),
    }
}
