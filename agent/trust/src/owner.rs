//! The owners whose databases are served. A cycle runs commands in the directory above the database, and git runs what
//! its repository tells it to: what another user may put there would run as this one.
//!
//! So the database, the directory above it and the directory whose redirect leads to it belong to this user or to root,
//! and nobody else may write to them. Nor may another user write to a directory above these, for then that user could
//! put another directory in their place; the sticky bit is enough there, as in `/tmp`.
//!
//! Everything is asked of open directories. A cycle goes on with the very descriptors that were asked, so that a rename
//! between the question and the work changes nothing.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use beadlock_base::error::Error;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::shell::{Part, to_type};
use beadlock_base::{error::system_words, filesystem::FileKind, open_directory::OpenDirectory};
use beadlock_core::database::Database;
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, geteuid};

use crate::{Doubt, Doubted, Sticky, Trusted, WayEnd};

/// The owners whose databases are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The trusted user and root.
    Trusted(Trusted),
    /// Every user.
    All,
}

/// Why a database is not served. `Display` says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Whether the refusal is about a directory further above, where another user could put something else in the place
    /// of the database.
    pub is_of_ancestor: bool,
    words: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// The open database, or why it could not be opened: what is to be done there then fails by itself.
pub type Opened = Result<OpenDirectory, Error>;

/// How the directory of a database is opened: with the directory above it, or alone.
type How = fn(&Path) -> Result<OpenDirectory, Error>;

impl Owners {
    /// The user of this process and root; every user where `allow_foreign_owner` is true.
    pub fn of_this_user(allow_foreign_owner: bool) -> Self {
        if allow_foreign_owner {
            Self::All
        } else {
            Self::Trusted(Trusted::this_user())
        }
    }

    /// Whether a database may be served, as it is now.
    ///
    /// # Errors
    /// Why not.
    pub fn check(self, database: &Database) -> Result<(), Refusal> {
        self.open_alone(database).map(drop)
    }

    /// Opens a database that may be served. The cycle goes on with these descriptors and looks its path up no more.
    ///
    /// # Errors
    /// Why it may not be served.
    pub fn open(self, database: &Database) -> Result<Opened, Refusal> {
        self.open_by(database, OpenDirectory::open)
    }

    /// Opens a database for a cycle without any work: the directory above is checked, but not kept open.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_alone(self, database: &Database) -> Result<Opened, Refusal> {
        self.open_by(database, OpenDirectory::open_alone)
    }

    fn open_by(self, database: &Database, how: How) -> Result<Opened, Refusal> {
        let dir = database.dir.as_path();
        let opened = open(dir, how)?;
        if let (Self::Trusted(trusted), Ok(opened)) = (self, &opened) {
            ask_above(trusted, opened)?;
            if database.named != dir {
                check_redirect(trusted, &database.named)?;
            }
            Refusal::of(trusted.doubts_opened(opened), dir, Position::AtWork)?;
            let above = trusted.doubts_just_above(opened, Sticky::IsNot);
            Refusal::of(above, dir.parent().unwrap_or(dir), Position::AtWork)?;
        }
        Ok(opened)
    }

    /// Whether an open directory belongs to somebody whose databases are served; `shown` is its path.
    ///
    /// # Errors
    /// Whose it is, and what to do.
    pub fn check_open(self, dir: impl AsFd, shown: &Path) -> Result<(), String> {
        let Self::Trusted(trusted) = self else {
            return Ok(());
        };
        let answer = trusted.doubts_owner(dir);
        Refusal::of(answer, shown, Position::AtWork).map_err(|refusal| refusal.words)
    }
}

/// Opens a directory through no symbolic link.
fn open(dir: &Path, how: How) -> Result<Opened, Refusal> {
    match how(dir) {
        Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
            Err(Refusal::of_link(&error))
        }
        opened => Ok(opened),
    }
}

/// Checks the directory whose redirect leads to the database, and the directories above it.
fn check_redirect(trusted: Trusted, named: &Path) -> Result<(), Refusal> {
    let Ok(opened) = open(named, OpenDirectory::open_alone)? else {
        return Ok(());
    };
    ask_above(trusted, &opened)?;
    let above = trusted.doubts_just_above(&opened, Sticky::IsEnough);
    Refusal::of(
        above,
        named.parent().unwrap_or(named),
        Position::Above(named),
    )?;
    Refusal::of(trusted.doubts_opened(&opened), named, Position::AtWork)
}

/// Checks the directories above the parent directory of `opened`.
fn ask_above(trusted: Trusted, opened: &OpenDirectory) -> Result<(), Refusal> {
    let dir = opened.path();
    match trusted.doubts_above(opened) {
        Ok(None) => Ok(()),
        Ok(Some((above, doubt))) => Refusal::of(Ok(Some(doubt)), above, Position::Above(dir)),
        Err(error) => Refusal::of(Err(error), dir, Position::Above(dir)),
    }
}

/// Why a directory matters to a cycle: for its work, or for the path to another directory.
#[derive(Clone, Copy)]
enum Position<'a> {
    /// The cycle works in the directory, or follows what is written there.
    AtWork,
    /// The path to this directory leads through the checked one.
    Above(&'a Path),
}

impl Refusal {
    /// Turns the answer about the directory `dir` into a refusal; `Ok` where nothing is doubted.
    fn of(
        answer: io::Result<Option<Doubt>>,
        dir: &Path,
        position: Position<'_>,
    ) -> Result<(), Self> {
        let (fault, remedy) = match answer {
            Ok(None) => return Ok(()),
            Err(error) => {
                let words = system_words(&error);
                (
                    format!(
                        "{} or a directory above it cannot be looked at ({words})",
                        escaped_path(dir)
                    ),
                    None,
                )
            }
            Ok(Some(Doubt::Owner(uid))) => (
                format!("{} belongs to {}", escaped_path(dir), user(uid)),
                None,
            ),
            Ok(Some(Doubt::Writers {
                mode,
                group,
                everybody,
            })) => {
                let writers = writers(group, everybody);
                let chmod = match (group, everybody) {
                    (Some(_), true) => "chmod go-w {}",
                    (Some(_), false) => "chmod g-w {}",
                    (None, _) => "chmod o-w {}",
                };
                let fault = format!(
                    "{writers} may write to {} (mode {mode:04o})",
                    escaped_path(dir)
                );
                (
                    fault,
                    Some(format!("type: {}", to_type(chmod, &[Part::Path(dir)]))),
                )
            }
        };
        let remedy = remedy.as_deref().unwrap_or("run it as that user");
        let danger = match position {
            Position::AtWork if geteuid().is_root() => {
                "as root the agent would run commands there".to_owned()
            }
            Position::AtWork => format!(
                "the agent would run commands there as {}",
                user(geteuid().as_raw())
            ),
            Position::Above(below) => {
                format!(
                    "another directory could be put in the place of {}",
                    escaped_path(below)
                )
            }
        };
        let words = format!("{fault}, and {danger}; {remedy}, or give --allow-foreign-owner");
        Err(Self {
            is_of_ancestor: matches!(position, Position::Above(_)),
            words,
        })
    }

    /// The refusal for a symbolic link that has come since the path of the database was found.
    fn of_link(error: &Error) -> Self {
        let link = escaped_path(error.path());
        let words = format!(
            "{link} is a symbolic link now; to follow it, send SIGHUP to the agent, or start it again"
        );
        Self {
            is_of_ancestor: true,
            words,
        }
    }
}

/// How git uses a file or directory: it runs it, or follows what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitUse {
    /// git reads from its files what to do: the top of a working tree, a git directory.
    LooksInto,
    /// git runs the files in it: a directory of hooks.
    RunsFrom,
    /// git runs the file itself: a hook.
    Runs,
    /// git does what its text says: a configuration, a file that leads to a git directory.
    Reads,
}

/// The remedy for a file or directory that is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// Take the right to write away from the group, from everybody else, or from both.
    Chmod {
        /// Whether to take it from the group.
        group: bool,
        /// Whether to take it from everybody else.
        everybody: bool,
    },
    /// Look at its content, and make this user its owner.
    Chown,
    /// Run the agent as its owner.
    RunAsOwner,
}

/// A file, link or directory that decides what git does, and that another user may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayRefusal {
    /// Its path without links.
    pub path: PathBuf,
    /// Which file, whose, with which rights, and what could happen.
    pub why: String,
    /// The remedy: other rights, another owner, or another user for the agent.
    pub mend: Mend,
}

impl Owners {
    /// The parts of the way to a path that another user may change: the file or directory itself, and each directory
    /// and link on the way there. Empty: only root and the trusted user decide what git finds. It is also empty for a
    /// path with nothing at it, where no other user could put anything.
    ///
    /// # Errors
    /// As [`Trusted::go`].
    pub fn refusals_of(self, path: &Path, by: GitUse) -> io::Result<Vec<WayRefusal>> {
        let Self::Trusted(trusted) = self else {
            return Ok(Vec::new());
        };
        Ok(match trusted.go(path)? {
            WayEnd::There(..) | WayEnd::Nothing => Vec::new(),
            WayEnd::Doubted(doubted) => doubted
                .into_iter()
                .map(|doubted| WayRefusal::of(doubted, path, by))
                .collect(),
        })
    }
}

impl WayRefusal {
    fn of(doubted: Doubted, path: &Path, by: GitUse) -> Self {
        let Doubted { mode, kind, .. } = doubted;
        let shown = escaped_path(&doubted.path);
        let (fault, mend) = match doubted.doubt {
            Doubt::Owner(uid) => {
                let is_small = kind != FileKind::Directory || by == GitUse::RunsFrom;
                let mend = match is_small && !doubted.is_on_the_way {
                    true => Mend::Chown,
                    false => Mend::RunAsOwner,
                };
                let owner = user(uid);
                (
                    format!("{shown} belongs to {owner} (mode {mode:04o})"),
                    mend,
                )
            }
            Doubt::Writers {
                group, everybody, ..
            } => {
                let writers = writers(group, everybody);
                let fault = format!("{writers} may write to {shown} (mode {mode:04o})");
                let group = group.is_some();
                (fault, Mend::Chmod { group, everybody })
            }
        };
        let me = match geteuid() {
            me if me.is_root() => "root".to_owned(),
            me => user(me.as_raw()),
        };
        let danger = match by {
            _ if doubted.is_on_the_way => {
                let path = escaped_path(path);
                format!("something else could be put in the place of {path}")
            }
            GitUse::Runs => format!("git would run it as {me}"),
            GitUse::RunsFrom => format!("git would run what lies there as {me}"),
            GitUse::Reads => format!("git would do what it says as {me}"),
            GitUse::LooksInto => format!("git would do what is set up there as {me}"),
        };
        Self {
            why: format!("{fault}, and {danger}"),
            path: doubted.path,
            mend,
        }
    }
}

/// The users that may write, beside the owner: a group, or `everybody`.
fn writers(group: Option<u32>, everybody: bool) -> String {
    match group {
        Some(gid) if !everybody => self::group(gid),
        _ => "everybody".to_owned(),
    }
}

/// A user, by name where there is one.
fn user(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("{} (uid {uid})", escaped(&user.name)),
        _ => format!("uid {uid}"),
    }
}

/// A group, by name where there is one.
fn group(gid: u32) -> String {
    match Group::from_gid(Gid::from_raw(gid)) {
        Ok(Some(group)) => format!("the group {} (gid {gid})", escaped(&group.name)),
        _ => format!("the group with gid {gid}"),
    }
}

#[cfg(test)]
mod tests;
