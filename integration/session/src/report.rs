//! What became of a hold: the `data` of its envelope, and the file that `--report` names.

use beadlock_claim::error::Problem;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt};

use beadlock_base::{error::system_words, escape::escaped_path, regular::CAREFULLY};
use beadlock_core::reserved::Reserved;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::{AccessFlags, faccessat};
use serde_json::Value;

use beadlock_claim::error::Error;
use beadlock_claim::report::{HOLD, Report};
use beadlock_console::Console;

/// The envelope's `data`; null where no claim came to stand, lest its holder be taken for the lock's.
pub fn data(report: &Report) -> Value {
    match report.waited {
        Some(_) => report.json(HOLD),
        None => Value::Null,
    }
}

/// Prints the error, and writes the file that `--report` names.
pub fn conclude(common: &Console, file: Option<&Path>, report: &Report, error: Option<&Error>) {
    common.talk.end_live();
    if let Some(error) = error {
        common.talk.error(&error.to_string());
    }
    // A claim that is refused for this has no report.
    let locks: Vec<&Path> = std::iter::once(report)
        .chain(&report.claims)
        .map(|claim| claim.path.as_path())
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if let Some(path) = file.filter(|path| Reserved::of(path, &locks).is_none()) {
        let envelope = common.envelope(data(report), error);
        if let Err(why) = write(path, &envelope) {
            let (path, why) = (escaped_path(path), system_words(&why));
            common
                .talk
                .warn(&format!("failed to write the report {path}: {why}"));
        }
    }
}

/// Refuses a report that cannot be written, before anything is claimed for it. Makes no file.
pub fn refuse_unwritable(path: Option<&Path>) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(FLAGS.bits())
        .open(path)
        .map(drop);
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let tried = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = above.unwrap_or(Path::new("."));
            let rights = AccessFlags::W_OK | AccessFlags::X_OK;
            faccessat(AT_FDCWD, above, rights, AtFlags::AT_EACCESS).map_err(io::Error::from)
        }
        tried => tried,
    };
    tried.map_err(|why: io::Error| {
        let message = format!(
            "the report {} cannot be written: {}; nothing is claimed",
            escaped_path(path),
            system_words(&why)
        );
        Error::io(message, why.kind())
    })
}

/// Never through a symlink, and never into something that would block.
const FLAGS: OFlag = OFlag::O_NOFOLLOW.union(CAREFULLY);

/// Writes the envelope to `path`, never through a symlink and never into something that would block.
pub fn write(path: &Path, envelope: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(FLAGS.bits())
        .open(path)?;
    file.write_all(envelope.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_goes_through_no_symlink() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        write(&file, "old and longer\n").unwrap();
        write(&file, "new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "other").unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");
    }
}
