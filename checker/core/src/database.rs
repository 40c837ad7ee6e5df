//! Which database is meant: by name, by the environment, or the nearest `.beads` up the tree (docs/design.md#targets).

use std::{
    ffi::CStr, ffi::OsStr, ffi::OsString, fs, io, os::fd::AsFd, os::unix::fs::MetadataExt,
    path::Path, path::PathBuf,
};

pub use crate::directory::{NoDatabase, NoDatabaseKind, Program};
use crate::{
    directory,
    read::{self, Sight},
    target::ParsedTarget,
};
use beadlock_base::shell::{Part, to_type};
use beadlock_base::{
    error::system_words,
    escape::{escaped_path, is_harmless},
};

mod plain;
mod suggest;

pub use suggest::{Directories, Suggest};

const BEADS: &str = ".beads";

/// The file in a database that says that it is elsewhere.
pub const REDIRECT: &str = "redirect";

/// The file in a database that says which fleet it has joined (docs/design.md#the-fleet).
pub const FLEET_MARK: &CStr = c".exclusive-fleet";

/// Variables and working directory that a search for a database uses; gathered where the command line is read.
#[derive(Debug, Clone, Default)]
pub struct DatabaseVariables {
    /// `$BEADLOCK_TARGET`: a target, `[beads:]DIR`.
    pub target: Option<OsString>,
    /// `$BEADS_DIR`: the database directory.
    pub beads_dir: Option<OsString>,
    /// The working directory.
    pub cwd: PathBuf,
}

/// A database: the directory that holds `.exclusive-lock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// The directory, without links and redirects.
    pub dir: PathBuf,
    /// How it was named or found, for lines.
    pub given: String,
    /// The directory that was named or found, without links; a redirect in it leads to `dir`.
    pub named: PathBuf,
    /// `named` as it was typed, made absolute; it may be a link that leads to `named`.
    pub(crate) at: PathBuf,
    lead: Lead,
    typed: PathBuf,
    /// The path that `given` shows.
    shown: PathBuf,
    inode: (u64, u64),
    /// It is `dir:PATH`: no redirect leads on from it.
    is_plain: bool,
}

impl Database {
    /// The database in the directory `path`, a redirect followed once. Fails when it does not exist, is not a
    /// directory, cannot be reached, or is the directory above a database.
    pub fn named(path: &Path, environment: &DatabaseVariables) -> Result<Self, NoDatabase> {
        let shown = escaped_path(path);
        let absolute = environment.cwd.join(path);
        // Without a slash at its end, which would lead over a link.
        let at: PathBuf = absolute.components().collect();
        // Looked at before it is followed: a change in between is a change since.
        let lead = Lead::of_link(&at);
        let dir = directory::of_database(&absolute, &shown)?;
        not_above_one(&dir, path, environment)?;
        let named = dir.clone();
        let lead = lead.and_redirect(&named);
        let dir = redirected(&absolute, dir, environment)?;
        let meta =
            fs::metadata(&dir).map_err(|error| directory::unreachable(&dir, &shown, &error))?;
        Ok(Self {
            inode: (meta.dev(), meta.ino()),
            dir,
            given: shown,
            named,
            at,
            lead,
            typed: path.to_owned(),
            shown: path.to_owned(),
            is_plain: false,
        })
    }

    /// The database that the same name leads to now, where a link or a redirect on the way is not what it was.
    /// `None`: all is as it was, which one `lstat` tells, or two for a database that is reached by a link.
    pub fn led_elsewhere(&self) -> Option<Result<Self, NoDatabase>> {
        if self.lead_now() == self.lead {
            return None;
        }
        // It was accepted as what it is called.
        let environment = DatabaseVariables {
            beads_dir: Some(self.at.clone().into()),
            ..DatabaseVariables::default()
        };
        let again = match self.is_plain {
            true => Self::plain(&self.at, &environment),
            false => Self::named(&self.at, &environment).and_then(Self::to_stay_with),
        };
        Some(again.map(|found| Self {
            given: self.given.clone(),
            shown: self.shown.clone(),
            ..found
        }))
    }

    /// Neither a link nor a redirect has led to its directory: it was where its name says.
    pub fn is_itself(&self) -> bool {
        self.lead.is_none() && self.at == self.named && self.named == self.dir
    }

    /// Nothing leads elsewhere from this open directory. Of one that [is itself](Self::is_itself) it says what
    /// [`Self::led_elsewhere`] would, and looks up one name instead of a path. False: perhaps.
    pub fn has_no_redirect(opened: impl AsFd) -> bool {
        matches!(read::exists_at(opened, REDIRECT), Ok(false))
    }

    /// The link and the redirect that lead to the directory now. One call of `lstat`, and one more where the database
    /// is reached by a link.
    pub fn lead_now(&self) -> Lead {
        // A link that was put there since is not followed by anybody.
        let link = if self.at == self.named {
            Lead::default()
        } else {
            Lead::of_link(&self.at)
        };
        match self.is_plain {
            true => link,
            false => link.and_redirect(&self.named),
        }
    }

    /// The link and the redirect that led to the directory when it was looked up.
    pub fn lead(&self) -> Lead {
        self.lead
    }

    /// The database when none is named: `$BEADLOCK_TARGET`, `$BEADS_DIR`, else the nearest `.beads` here or above.
    pub fn find(environment: &DatabaseVariables) -> Result<Self, NoDatabase> {
        if let Some(target) = environment
            .target
            .as_ref()
            .filter(|target| !target.is_empty())
        {
            let found =
                ParsedTarget::parse(target).and_then(|target| Self::of_target(target, environment));
            return found.map_err(|error| error.of_variable("BEADLOCK_TARGET"));
        }
        if let Some(dir) = environment.beads_dir.as_ref().filter(|dir| !dir.is_empty()) {
            let found = Self::named(Path::new(dir), environment);
            return found.map_err(|error| error.of_variable("BEADS_DIR"));
        }
        for above in environment.cwd.ancestors() {
            let dir = above.join(BEADS);
            if is_meant(&dir)? {
                let shown = match above == environment.cwd {
                    true => PathBuf::from(BEADS),
                    false => dir.clone(),
                };
                return Self::named(&dir, environment).map(|found| Self {
                    given: escaped_path(&shown),
                    shown,
                    ..found
                });
            }
        }
        Err(NoDatabase::not_found(format!(
            "no .beads here or above (looked in {} and above)",
            escaped_path(&environment.cwd)
        )))
    }

    /// This database, for a caller that stays with it. Fails where nobody can tell whether a redirect leads on from it:
    /// a directory that may not be searched may have one, and once it is opened, no claim uses its own lock.
    pub fn to_stay_with(self) -> Result<Self, NoDatabase> {
        if self.is_plain {
            return Ok(self);
        }
        let redirect = self.named.join(REDIRECT);
        match fs::symlink_metadata(&redirect) {
            Err(error) if is_denied(&error) => Err(directory::unreachable(
                &redirect,
                &escaped_path(&redirect),
                &error,
            )),
            _ => Ok(self),
        }
    }

    /// The path by which it was named or found, where a line shows that path as it is and nobody takes a part of it for
    /// an escape.
    pub fn as_given(&self) -> Option<&Path> {
        let is_plain =
            |c: char| is_harmless(c) && !['\\', char::REPLACEMENT_CHARACTER].contains(&c);
        let text = self.shown.to_str()?;
        text.chars().all(is_plain).then_some(&self.shown)
    }

    /// The device and the inode of `dir`, as they were when it was found.
    pub fn inode(&self) -> (u64, u64) {
        self.inode
    }

    /// True when both are the same directory by device and inode, whatever their paths.
    pub fn is_same(&self, other: &Self) -> bool {
        self.inode == other.inode
    }
}

/// Whether a database is to be looked for no further up than `dir`. Only where there is nothing, or something else, or
/// where nobody may even look, it is: the maker of a link there meant what it leads to.
fn is_meant(dir: &Path) -> Result<bool, NoDatabase> {
    let shown = escaped_path(dir);
    let leads_nowhere = |error: io::Error| {
        let message = format!(
            "{shown} is a link that leads nowhere ({}); mend it, or name another",
            system_words(&error)
        );
        NoDatabase::io(message)
    };
    match fs::symlink_metadata(dir) {
        Ok(meta) if meta.is_symlink() => Ok(fs::metadata(dir).map_err(leads_nowhere)?.is_dir()),
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied => Ok(false),
            _ => Err(directory::unreachable(dir, &shown, &error)),
        },
    }
}

/// Refuses a directory above a database: one with a `.beads` in it that is neither called `.beads` nor `$BEADS_DIR`.
fn not_above_one(
    dir: &Path,
    path: &Path,
    environment: &DatabaseVariables,
) -> Result<(), NoDatabase> {
    let is_named_beads = [dir, path]
        .iter()
        .any(|path| path.file_name() == Some(OsStr::new(BEADS)));
    if is_beads_dir(dir, environment) || is_named_beads || !dir.join(BEADS).is_dir() {
        return Ok(());
    }
    let (shown, meant) = (
        escaped_path(path),
        to_type("{}", &[Part::Path(&path.join(BEADS))]),
    );
    Err(NoDatabase::usage(format!(
        "{shown} is not a beads database; did you mean {meant}?"
    )))
}

fn is_beads_dir(dir: &Path, environment: &DatabaseVariables) -> bool {
    let named = environment
        .beads_dir
        .as_ref()
        .filter(|named| !named.is_empty());
    named.is_some_and(|named| {
        fs::canonicalize(environment.cwd.join(named)).is_ok_and(|named| named == dir)
    })
}

/// Follows `DIR/redirect` once: its first line that is neither empty nor a comment is a path, relative to the
/// directory above the `.beads` it lies in. An empty one redirects nowhere, as with bd. Where nobody may look into
/// `dir` nothing in it can be read: neither a redirect nor the lock, and of the lock that is an answer (unreadable).
fn redirected(
    named: &Path,
    dir: PathBuf,
    environment: &DatabaseVariables,
) -> Result<PathBuf, NoDatabase> {
    let file = dir.join(REDIRECT);
    let shown = escaped_path(&named.join(REDIRECT));
    let refused = |words: String| {
        NoDatabase::io(format!("cannot follow {shown}: {words}; mend or remove it"))
    };
    let content = match read::open_path(file.as_path()) {
        Sight::Absent => return Ok(dir),
        Sight::Unreadable(_) if is_shut(&dir) => return Ok(dir),
        Sight::Unreadable(unread) => return Err(refused(unread.to_string())),
        Sight::File(file) => file.read().map_err(|unread| refused(unread.to_string()))?,
    };
    let text = String::from_utf8(content).map_err(|_| refused("it is not UTF-8".to_owned()))?;
    let is_path = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let Some(line) = text.lines().map(str::trim).find(is_path) else {
        return Ok(dir);
    };
    let above = dir.parent().unwrap_or(&dir);
    let there = directory::of_database(&above.join(line), &escaped_path(Path::new(line)))
        .and_then(|there| not_above_one(&there, Path::new(line), environment).map(|()| there));
    there.map_err(|error| refused(error.to_string()))
}

/// Whether the directory may not be searched, so that nothing in it can even be looked at.
fn is_shut(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(REDIRECT)).is_err_and(|error| is_denied(&error))
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether the name is of a file that beadlock or a daemon writes beside a database, or of a redirect: never a reason
/// for a cycle, never committed, never pulled. Any name that starts with `.exclusive-lock`, `.exclusive-fleet` or
/// `daemon.log`, and `daemon.lock`, `daemon.pid`, `bd.sock`, [`REDIRECT`]; in letters of either case. Where names have
/// no case, `Redirect` is the redirect, and whether they have depends on each directory.
pub fn is_own_name(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    let begins = |with: &[u8]| {
        let beginning = bytes.get(..with.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(with))
    };
    let begins_so = [
        &b".exclusive-lock"[..],
        FLEET_MARK.to_bytes(),
        b"daemon.log",
    ];
    let own = [&b"daemon.lock"[..], b"daemon.pid", b"bd.sock"];
    begins_so.into_iter().any(begins)
        || own.iter().any(|own| bytes.eq_ignore_ascii_case(own))
        || is_redirect(name)
}

/// Whether a name is that of a redirect, in letters of either case.
pub fn is_redirect(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(REDIRECT)
}

/// The link and the redirect that lead from a database's name to its directory. Where two leads are equal, git need not
/// be asked again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lead {
    pub(crate) link: Option<Stamp>,
    pub(crate) redirect: Option<Stamp>,
}

/// Device, inode, size, and the times of the last change of content and of anything.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Lead {
    /// The link in the place of a database, before it is followed: `at` is its name as it was typed.
    pub(crate) fn of_link(at: &Path) -> Self {
        let link = fs::symlink_metadata(at)
            .ok()
            .filter(fs::Metadata::is_symlink);
        Self {
            link: link.as_ref().map(stamp),
            redirect: None,
        }
    }

    /// Adds the redirect in the directory `named`, before it is read.
    pub(crate) fn and_redirect(self, named: &Path) -> Self {
        let redirect = fs::symlink_metadata(named.join(REDIRECT)).ok();
        Self {
            redirect: redirect.as_ref().map(stamp),
            ..self
        }
    }

    /// Nothing leads anywhere: the database is where its name says.
    pub fn is_none(&self) -> bool {
        self.link.is_none() && self.redirect.is_none()
    }
}

fn stamp(meta: &fs::Metadata) -> Stamp {
    let times = (
        (meta.mtime(), meta.mtime_nsec()),
        (meta.ctime(), meta.ctime_nsec()),
    );
    (meta.dev(), meta.ino(), meta.size(), times.0, times.1)
}

#[cfg(test)]
mod tests;
