//! `lock:@NAME`: one lock for all working trees of a repository, `beadlock/NAME.lock` in the directory that they share
//! (`git rev-parse --git-common-dir`). Outside of a repository it is one for all programs of the user,
//! `$XDG_RUNTIME_DIR/beadlock/NAME.lock`. Where there is neither, it is refused: another place, chosen in silence, would
//! keep nobody out.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use beadlock_base::error::system_words;
use beadlock_base::escape::escaped_path;
use beadlock_base::git::{GitReply, ask};
use beadlock_core::Place;
use beadlock_core::place::Names;
use beadlock_core::target::Scheme;

use crate::environment::Environment;
use crate::error::{Error, Problem};
use crate::target::Target;

/// The directory of these locks in the one that they are shared by.
const DIRECTORY: &str = "beadlock";

/// The name in `@NAME`; `None`: it is the path of a file.
pub(super) fn name(rest: &Path) -> Option<&OsStr> {
    let name = rest.as_os_str().as_bytes().strip_prefix(b"@")?;
    Some(OsStr::from_bytes(name))
}

/// The target of `lock:@NAME`. Nothing is made yet.
pub(super) fn target(
    rest: &Path,
    name: &OsStr,
    environment: &Environment,
) -> Result<Target, Error> {
    let shown = format!("{}{}", Scheme::Lock.prefix(), escaped_path(rest));
    let file = file_of(name);
    let no_name = || {
        Error::usage(format!(
            "{shown} names no lock; name one of at most {} bytes, without a slash and without a dot in front, such as \
             lock:@staging; a file is lock:./{}",
            Names::LIMIT - b".lock".len(),
            escaped_path(rest)
        ))
    };
    if !is_name(name) {
        return Err(no_name());
    }
    let dir = directory(&shown, environment)?;
    let place = Place::named(dir, &file).ok_or_else(no_name)?;
    Ok(Target::at_path(Scheme::Lock, place, rest))
}

/// The name of the lock file.
fn file_of(name: &OsStr) -> OsString {
    [name, OsStr::new(".lock")].into_iter().collect()
}

/// Whether a lock can be called so.
fn is_name(name: &OsStr) -> bool {
    let (bytes, file) = (name.as_bytes(), file_of(name));
    let is_plain = !bytes.is_empty() && !bytes.contains(&b'/') && !bytes.starts_with(b".");
    is_plain && file.len() <= Names::LIMIT && Names::belongs_to(&file).is_none()
}

/// The directory that the locks of the working directory lie in, without links but for its last part.
pub fn directory(shown: &str, environment: &Environment) -> Result<PathBuf, Error> {
    let cwd = environment.of_database().cwd;
    let top = match shared_by_worktrees(&cwd) {
        InRepository::Yes(dir) => dir,
        InRepository::No => of_user(shown, environment)?,
        InRepository::Unknown(why) => {
            return Err(Error::usage(format!(
                "{shown} is a lock of the repository, and git does not say where its directory is: {why}; mend that, or \
                 name a file: lock:PATH"
            )));
        }
    };
    let top = fs::canonicalize(&top).map_err(|error| {
        let (dir, why) = (escaped_path(&top), system_words(&error));
        Error::usage(format!(
            "{shown} lies in {dir}, which cannot be reached: {why}; name a file: lock:PATH"
        ))
    })?;
    Ok(top.join(DIRECTORY))
}

enum InRepository {
    /// The directory that all working trees of the repository share.
    Yes(PathBuf),
    No,
    /// Something here is a repository's, and git has not said more than these words.
    Unknown(String),
}

fn shared_by_worktrees(cwd: &Path) -> InRepository {
    let has_git = |dir: &Path| fs::symlink_metadata(dir.join(".git")).is_ok();
    let has_none = || !cwd.ancestors().any(has_git);
    match ask(cwd, ["rev-parse", "--git-common-dir"]) {
        GitReply::Answered(answer) if answer.status.success() => {
            let mut line = answer.stdout;
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            InRepository::Yes(cwd.join(OsString::from_vec(line)))
        }
        GitReply::Answered(answer) if answer.is_of_no_repository() && has_none() => {
            InRepository::No
        }
        GitReply::Answered(answer) => InRepository::Unknown(answer.error()),
        GitReply::NoGit if has_none() => InRepository::No,
        GitReply::NoGit => InRepository::Unknown("there is no git on the PATH".to_owned()),
        GitReply::Unanswered(why) => InRepository::Unknown(why),
    }
}

/// `$XDG_RUNTIME_DIR`, which the login of the user has made.
fn of_user(shown: &str, environment: &Environment) -> Result<PathBuf, Error> {
    let dir = environment.get("XDG_RUNTIME_DIR").map(Path::new);
    match dir.filter(|dir| dir.is_absolute()) {
        Some(dir) => Ok(dir.to_owned()),
        None => Err(Error::usage(format!(
            "{shown} is a lock of the repository or of the user: here is no git repository, and $XDG_RUNTIME_DIR names \
             no directory (cron, containers); name a file: lock:PATH"
        ))),
    }
}

/// The directory of the locks of this repository, and their names, sorted; `None`: there are none here, or it is not
/// known. In the main working tree of a repository without such a lock, git is not asked. To be called once the working
/// directory has answered: this looks at it.
pub fn there(environment: &Environment) -> Option<(PathBuf, Vec<OsString>)> {
    let cwd = environment.of_database().cwd;
    let kind = |dir: &Path| fs::symlink_metadata(dir.join(".git")).ok();
    let top = cwd.ancestors().find(|dir| kind(dir).is_some());
    if top.is_none_or(|dir| {
        kind(dir).is_some_and(|git| git.is_dir()) && !dir.join(".git").join(DIRECTORY).is_dir()
    }) {
        return None;
    }
    let dir = directory("lock:@", environment).ok()?;
    let entries = fs::read_dir(&dir).ok()?;
    let name = |entry: fs::DirEntry| {
        let file = entry.file_name().into_vec();
        file.strip_suffix(b".lock")
            .map(|name| OsString::from_vec(name.to_vec()))
    };
    let names = entries.flatten().filter_map(name);
    let mut names: Vec<OsString> = names.filter(|name| is_name(name)).collect();
    names.sort();
    Some((dir, names))
}

/// Whether the target is one of these, whose directory a claim makes.
pub fn is_one(target: &Target) -> bool {
    target.scheme == Scheme::Lock && name(&target.typed).is_some()
}

/// Makes the directory of these locks.
pub fn make_directory(target: &Target) -> Result<(), Error> {
    match DirBuilder::new().mode(0o777).create(target.dir()) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            let (dir, why) = (escaped_path(target.dir()), system_words(&error));
            Err(Error::io(
                format!(
                    "{dir}, the directory of {}, cannot be made: {why}",
                    target.given
                ),
                error.kind(),
            ))
        }
        _ => Ok(()),
    }
}
