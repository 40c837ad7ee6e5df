//! The agent's own names in the repository's `info/exclude`, so that a person's `git add -A` does not track them.
//!
//! They are written once for a database: above them stands a comment, and where that is, nothing is written again,
//! whatever else a person has removed. The file is replaced as a whole. No tracked file is written.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use beadlock_base::error::system_words;
use nix::libc::{O_CLOEXEC, O_NOFOLLOW};
use nix::unistd::geteuid;

use crate::{Event, escaped_path};
use beadlock_repository::{Repository, SyncMessage, remove, say, sqlite};

/// How the comment begins. The database's path from the top follows.
const COMMENT: &str = "# beadlock-agent's own files in ";
/// The names in a database, as patterns. None of them matches a file that somebody else may have put there, such as
/// `daemon.log-format.md`.
const NAMES: [&str; 10] = [
    ".exclusive-lock",
    ".exclusive-lock.*",
    ".exclusive-fleet",
    ".exclusive-fleet.*",
    "daemon.log",
    "daemon.log.[0-9]*",
    "daemon.lock",
    "daemon.pid",
    "bd.sock",
    "redirect",
];

/// Writes the names into `info/exclude`, unless they were written before. Where that cannot be done, a notice says so.
pub(crate) fn write(repository: &Repository) {
    let file = repository.common_dir.join("info/exclude");
    if let Err(why) = add(repository, &file) {
        let line = Event::NotWriting.line(format_args!(
            "its own names to {}: {why}",
            escaped_path(&file)
        ));
        say(&SyncMessage::Notice(line));
    }
}

fn add(repository: &Repository, file: &Path) -> Result<(), String> {
    let words = |error: io::Error| system_words(&error).to_string();
    let before = match fs::symlink_metadata(file) {
        Ok(meta) if !meta.is_file() => {
            return Err("it is a link, or not a file".to_owned());
        }
        Ok(meta) if meta.uid() != geteuid().as_raw() => {
            return Err("it belongs to another user".to_owned());
        }
        Ok(meta) => {
            let opened = OpenOptions::new()
                .read(true)
                .custom_flags(O_NOFOLLOW | O_CLOEXEC)
                .open(file);
            let mut content = Vec::new();
            opened
                .and_then(|mut opened| io::Read::read_to_end(&mut opened, &mut content))
                .map_err(words)?;
            Some((content, meta.mode() & 0o777))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(words(error)),
    };
    let (content, mode) = before.unwrap_or((Vec::new(), 0o644));
    let lines = lines(repository);
    let Some(comment) = lines.first() else {
        return Ok(());
    };
    if content
        .split(|byte| *byte == b'\n')
        .any(|line| line.trim_ascii_end() == comment.trim_ascii_end())
    {
        return Ok(());
    }
    let mut new = content;
    if new.last().is_some_and(|last| *last != b'\n') {
        new.push(b'\n');
    }
    for line in lines {
        new.extend(line);
        new.push(b'\n');
    }
    replace(file, &new, mode).map_err(words)
}

/// The comment, and the lines for the database.
fn lines(repository: &Repository) -> Vec<Vec<u8>> {
    let anchored = |path: &Path| sqlite::ignored(path);
    let mut comment = COMMENT.as_bytes().to_vec();
    comment.extend(anchored(&repository.prefix));
    let mut lines = vec![comment];
    let mut dir = anchored(&repository.prefix);
    if dir.last() != Some(&b'/') {
        dir.push(b'/');
    }
    lines.extend(
        NAMES
            .iter()
            .map(|name| [dir.as_slice(), name.as_bytes()].concat()),
    );
    // A log elsewhere in the database, and its older files.
    for own in &repository.names.own {
        let name = own.strip_prefix(&repository.prefix).unwrap_or(own);
        let is_listed = name == Path::new("daemon.log") || !own.starts_with(&repository.prefix);
        if !is_listed {
            let line = anchored(own);
            lines.extend([line.clone(), [line.as_slice(), b".[0-9]*"].concat()]);
        }
    }
    lines
}

/// Replaces the file by one with this content, in one step.
#[expect(
    clippy::disallowed_methods,
    reason = "a file of git's settings is replaced as git does it"
)]
fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let dir = file.parent().unwrap_or(file);
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if !fs::symlink_metadata(dir)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let aside = aside(file);
    let write = || {
        let mut new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .custom_flags(O_NOFOLLOW | O_CLOEXEC)
            .open(&aside)?;
        new.set_permissions(Permissions::from_mode(mode))?;
        new.write_all(content)?;
        new.sync_all()?;
        fs::rename(&aside, file)?;
        File::open(dir)?.sync_all()
    };
    let written = write();
    if written.is_err() {
        remove(&aside);
    }
    written
}

/// A name of this process's own beside the file.
fn aside(file: &Path) -> PathBuf {
    let mut name = file.file_name().map(OsStr::to_owned).unwrap_or_default();
    name.push(format!(".beadlock-{}", std::process::id()));
    file.with_file_name(name)
}
