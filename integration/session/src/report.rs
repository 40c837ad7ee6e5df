//! What became of a hold: the `data` of its envelope, and the file that `--report` names.

use beadlock_claim::error::Problem;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, time::Duration};

use beadlock_base::{error::system_words, escape::escaped_path, regular::CAREFULLY};
use beadlock_core::outputs::Taken;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::{AccessFlags, faccessat};
use serde_json::{Value, json};

use beadlock_claim::error::Error;
use beadlock_claim::words::millis;
use beadlock_console::Common;
use beadlock_supervise::tree::Ending;

/// What is known so far; null is what never came to pass.
#[derive(Debug, Default)]
pub struct Report {
    /// The target with its scheme, and its lock file.
    pub target: Option<(String, PathBuf)>,
    /// The holder's name in the record; `None` for a lock without one.
    pub holder: Option<String>,
    /// The claim's id; the outer one's when nested.
    pub id: Option<String>,
    /// Ran under an outer claim.
    pub nested: bool,
    /// The command's process, once it has executed; of `acquire`, the process of the claim.
    pub pid: Option<i32>,
    pub(crate) ending: Option<Ending>,
    /// How long the claim took; none before it stands.
    pub waited: Option<Duration>,
    pub(crate) held: Option<Duration>,
    pub(crate) released: bool,
    pub(crate) left: Vec<i32>,
    /// What became of each claim, where there are several.
    pub(crate) claims: Vec<ClaimOutcome>,
    /// The lock files of all targets: no report is written into one.
    pub locks: Vec<PathBuf>,
}

/// What became of one of several claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimOutcome {
    pub target: String,
    pub path: PathBuf,
    pub holder: Option<String>,
    pub id: Option<String>,
    pub nested: bool,
    pub held: Option<Duration>,
    pub released: bool,
}

impl ClaimOutcome {
    fn json(&self) -> Value {
        json!({
            "target": self.target,
            "path": self.path.to_string_lossy(),
            "holder": self.holder,
            "id": self.id,
            "nested": self.nested,
            "held_ms": self.held.map(millis),
            "released": self.released,
        })
    }
}

impl Report {
    /// As the envelope's `data`; null where no claim came to stand, lest its holder be taken for the lock's.
    pub fn json(&self) -> Value {
        let Some((target, path)) = self.target.as_ref().filter(|_| self.waited.is_some()) else {
            return Value::Null;
        };
        let (code, signal) = match self.ending {
            Some(Ending::Exited(code)) => (Some(code), None),
            Some(Ending::Killed(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let mut data = json!({
            "target": target,
            "path": path.to_string_lossy(),
            "holder": self.holder,
            "id": self.id,
            "nested": self.nested,
            "pid": self.pid,
            "exit_code": code,
            "signal": signal,
            "waited_ms": self.waited.map(millis),
            "held_ms": self.held.map(millis),
            "released": self.released,
            "left_behind": self.left,
        });
        if let (Some(data), false) = (data.as_object_mut(), self.claims.is_empty()) {
            data.insert(
                "claims".to_owned(),
                self.claims.iter().map(ClaimOutcome::json).collect(),
            );
        }
        data
    }
}

/// Says the error, and writes the file that `--report` names.
pub fn conclude(common: &Common, file: Option<&Path>, report: &Report, error: Option<&Error>) {
    common.talk.end_live();
    if let Some(error) = error {
        common.talk.error(&error.to_string());
    }
    // A claim that is refused for this has no report.
    let lock = report.target.as_ref().map(|(_, path)| path);
    let locks: Vec<&Path> = report
        .locks
        .iter()
        .chain(lock)
        .map(PathBuf::as_path)
        .collect();
    if let Some(path) = file.filter(|path| Taken::of(path, &locks).is_none()) {
        let envelope = common.envelope(report.json(), error);
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
