//! The directory that a tool's locks lie in (REQ-F-033, REQ-F-032): one user's own.

use beadlock_claim::error::Problem;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::{io, path::Path, path::PathBuf};

use beadlock_base::{error::system_words, escape::escaped_path};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat, geteuid};

use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::words::{Part, to_type};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directory {
    /// Where its author wants them: made where it is missing. Its author decides which users may write it.
    Given(PathBuf),
    /// The user's own: `locks` in this directory, which is the tool's.
    Own(PathBuf),
}

impl Directory {
    /// `$XDG_RUNTIME_DIR/TOOL/locks` where that is the user's own, else `TOOL-UID/locks` in `$TMPDIR` or `/tmp`.
    /// Relative paths do not count: they would differ with the working directory.
    pub fn of(tool: &str, environment: &Environment) -> Self {
        let us = geteuid().as_raw();
        let is_ours =
            |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == us);
        let named = |name| {
            environment
                .get(name)
                .map(PathBuf::from)
                .filter(|dir| dir.is_absolute())
        };
        Self::Own(match named("XDG_RUNTIME_DIR").filter(|dir| is_ours(dir)) {
            Some(runtime) => runtime.join(tool),
            None => named("TMPDIR")
                .unwrap_or_else(|| "/tmp".into())
                .join(format!("{tool}-{us}")),
        })
    }

    /// The directory itself.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Given(dir) => dir.clone(),
            Self::Own(parent) => parent.join("locks"),
        }
    }

    /// Makes it where it is missing, for this user alone. Refused where others could take any lock: when the directory,
    /// or the tool's above it, is another user's, a link, or others may write it or rename what is in it.
    pub fn make(&self) -> Result<(), Error> {
        match self {
            Self::Given(dir) => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
                made.map_err(|error| failed(dir, &error))?;
                check_open(dir)
            }
            Self::Own(parent) => {
                parent.parent().map_or(Ok(()), check_above)?;
                make_own(parent)?;
                make_own(&self.path())
            }
        }
    }
}

/// Makes one that only this user may write. The advice never names another directory: a process that follows it and one
/// that does not would take two locks that do not exclude each other.
fn make_own(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().mode(0o700).create(dir);
    if let Some(error) = made
        .err()
        .filter(|error| error.kind() != io::ErrorKind::AlreadyExists)
    {
        return Err(failed(dir, &error));
    }
    let meta = fs::symlink_metadata(dir).map_err(|error| failed(dir, &error))?;
    let (owner, us, mode) = (meta.uid(), geteuid().as_raw(), meta.mode() & 0o777);
    let command = |template| to_type(template, &[Part::Path(dir)]);
    let why = if meta.is_symlink() {
        format!(
            "it is a link; to see what it leads to: {}",
            command("ls -ld {}")
        )
    } else if !meta.is_dir() {
        format!(
            "it is not a directory; to see what it is: {}",
            command("ls -ld {}")
        )
    } else if owner != us {
        let remove = command("sudo rm -r -- {}");
        format!(
            "it belongs to user {owner}, and this is user {us}. While it is there, nothing takes this lock. If nobody \
             needs it, remove it as root: {remove}"
        )
    } else if mode & 0o022 != 0 {
        format!(
            "others may write it (mode {mode:03o}); {}",
            command("chmod 700 {}")
        )
    } else {
        return Ok(());
    };
    let shown = escaped_path(dir);
    Err(refused(
        &shown,
        format!("the lock directory {shown} is not to be trusted: {why}"),
    ))
}

/// Another user's tool may have made it, for itself alone.
fn check_open(dir: &Path) -> Result<(), Error> {
    let entered = faccessat(AT_FDCWD, dir, AccessFlags::X_OK, AtFlags::AT_EACCESS);
    let Ok(meta) = fs::metadata(dir) else {
        return Ok(());
    };
    if entered != Err(Errno::EACCES) {
        return Ok(());
    }
    let (shown, mode, owner, us) = (
        escaped_path(dir),
        meta.mode() & 0o7777,
        meta.uid(),
        geteuid(),
    );
    let message = format!(
        "the lock directory {shown} is closed to this user, {us}: it belongs to user {owner} (mode {mode:03o}); for a \
         lock between users it has to be one that all of them may write, without the sticky bit (chmod 2770)"
    );
    Err(refused(&shown, message))
}

/// The directory that the tool's own lies in: only its owner, root or this user, may rename what is in it.
fn check_above(dir: &Path) -> Result<(), Error> {
    let Ok(meta) = fs::metadata(dir) else {
        return Ok(());
    };
    let (owner, us, mode) = (meta.uid(), geteuid().as_raw(), meta.mode() & 0o7777);
    let why = if owner != us && owner != 0 {
        format!(
            "user {owner} owns it and may rename what is in it. Leave TMPDIR out for every program that takes this \
             lock: unset TMPDIR"
        )
    } else if mode & 0o1000 == 0 && mode & 0o022 != 0 {
        let writers = if mode & 0o002 != 0 {
            "everybody"
        } else {
            "its group"
        };
        let template = if owner == us {
            "chmod +t {}"
        } else {
            "sudo chmod +t {}"
        };
        let command = to_type(template, &[Part::Path(dir)]);
        format!("{writers} may rename what is in it (mode {mode:03o}); {command}")
    } else {
        return Ok(());
    };
    let shown = escaped_path(dir);
    Err(refused(
        &shown,
        format!("no lock directory can be trusted in {shown}: {why}"),
    ))
}

fn refused(shown: &str, message: String) -> Error {
    Error::new(Code::NotPermitted, message).detailed(format!("lock_dir={shown}"))
}

fn failed(dir: &Path, error: &io::Error) -> Error {
    let (shown, why) = (escaped_path(dir), system_words(error));
    Error::io(
        format!("the lock directory {shown} cannot be made: {why}; see to that"),
        error.kind(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(dir: &Path, mode: u32) {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn it_is_below_the_runtime_directory_where_that_is_ours() {
        let top = tempfile::tempdir().unwrap();
        let of = |value: &str| {
            Directory::of("tool", &Environment::of(&[("XDG_RUNTIME_DIR", value)])).path()
        };
        let below = |temporary: &Path| temporary.join(format!("tool-{}", geteuid())).join("locks");
        let own = below(Path::new("/tmp"));
        assert_eq!(
            of(top.path().to_str().unwrap()),
            top.path().join("tool/locks")
        );
        for other in ["", ".", "run", "/nowhere/at/all", "/dev/null"] {
            assert_eq!(of(other), own, "{other:?}");
        }
        let of = |value: &str| Directory::of("tool", &Environment::of(&[("TMPDIR", value)])).path();
        assert_eq!(
            (of("/var/tmp"), of("tmp"), of("")),
            (below(Path::new("/var/tmp")), own.clone(), own)
        );
    }

    #[test]
    fn it_is_made_for_one_user_alone_and_found_again() {
        let top = tempfile::tempdir().unwrap();
        let directory = Directory::Own(top.path().join("tool"));
        for _ in 0..2 {
            directory.make().unwrap();
            for dir in [top.path().join("tool"), directory.path()] {
                assert_eq!(fs::metadata(dir).unwrap().mode() & 0o777, 0o700);
            }
        }
        Directory::Given(top.path().join("a/b")).make().unwrap();
        assert_eq!(
            fs::metadata(top.path().join("a/b")).unwrap().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn what_others_could_change_is_refused_and_says_what_to_do() {
        let top = tempfile::tempdir().unwrap();
        let refused = |name: &str| {
            let error = Directory::Own(top.path().join(name)).make().unwrap_err();
            assert_eq!(error.code(), Code::NotPermitted, "{error}");
            error.to_string()
        };
        for dir in ["open/locks", "inside/locks", "other/locks", "all/tool"] {
            fs::create_dir_all(top.path().join(dir)).unwrap();
        }
        mode(&top.path().join("open"), 0o770);
        mode(&top.path().join("inside"), 0o700);
        mode(&top.path().join("inside/locks"), 0o702);
        symlink(top.path().join("other"), top.path().join("link")).unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        assert!(refused("open").contains(&format!(
            "(mode 770); chmod 700 {}/open",
            top.path().display()
        )));
        assert!(
            refused("inside")
                .contains("inside/locks is not to be trusted: others may write it (mode 702)")
        );
        assert!(refused("link").contains("it is a link"));
        assert!(refused("file").contains("it is not a directory"));
        mode(&top.path().join("all"), 0o777);
        assert!(
            refused("all/tool").contains("everybody may rename what is in it (mode 777); chmod +t")
        );
        mode(&top.path().join("all"), 0o775);
        assert!(
            refused("all/tool").contains("its group may rename what is in it (mode 775); chmod +t")
        );
        for sticky in [0o1777, 0o1775] {
            mode(&top.path().join("all"), sticky);
            Directory::Own(top.path().join("all/tool")).make().unwrap();
        }
    }

    #[test]
    fn the_advice_never_leads_to_a_second_directory() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        for directory in [
            Directory::Own(top.path().join("file/tool")),
            Directory::Given(top.path().join("file/locks")),
            Directory::Own(top.path().join("file")),
        ] {
            let error = directory.make().unwrap_err().to_string();
            assert!(
                !error.contains("XDG_RUNTIME_DIR") && !error.contains("TMPDIR"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_another_user_may_rename_is_refused() {
        if !beadlock_testkit::root() {
            return;
        }
        let top = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(top.path(), Some(65534), None).unwrap();
        mode(top.path(), 0o1777);
        let error = Directory::Own(top.path().join("tool")).make().unwrap_err();
        assert_eq!(error.code(), Code::NotPermitted);
        assert!(
            error
                .to_string()
                .contains("user 65534 owns it and may rename what is in it"),
            "{error}"
        );
        assert!(error.to_string().ends_with("unset TMPDIR"), "{error}");
        assert!(!top.path().join("tool").exists());
    }

    #[test]
    fn another_users_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let (dir, words) = if geteuid().is_root() {
            let dir = top.path().join("tool");
            fs::create_dir(&dir).unwrap();
            std::os::unix::fs::chown(&dir, Some(65534), None).unwrap();
            (dir, "it belongs to user 65534, and this is user 0")
        } else {
            (
                PathBuf::from("/usr"),
                "it belongs to user 0, and this is user",
            )
        };
        let error = Directory::Own(dir).make().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
