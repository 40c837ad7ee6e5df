//! Files that a move has replaced and that a program may still have open: what it writes to such a file is in no
//! directory. So the file stays aside until a read lease is granted on it, which is refused while anybody has it open
//! for writing or mapped, and what was added is merged in.
//!
//! # Limits
//! - A lease is granted to the file's owner and to root, on a local file system. Elsewhere a file stays for ten
//!   minutes after its last change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use beadlock_checker::internal::{facts, sys};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::stage::Moving;
use crate::tree::FileTree;
use crate::{Event, Repository, Stop, SyncMessage, as_path, records, say, stage, turn};

const OPEN: &str = "open";
/// How long a file stays where no lease tells whether it is open.
const UNSURE: Duration = Duration::from_secs(600);
/// How long a program may go on before the log says so.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
struct OpenFile {
    /// From the top.
    path: Vec<u8>,
    /// When it was replaced, in Unix seconds.
    since: u64,
}

/// Whether anybody writes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    None,
    Some,
    /// Only a change would tell.
    Unsure,
}

/// Whether anybody has this file, which is open for reading here, open for writing.
pub(crate) fn writers(file: &fs::File) -> Writers {
    match sys::take_lease(file) {
        Ok(()) => {
            sys::drop_lease(file);
            Writers::None
        }
        Err(Errno::EAGAIN | Errno::EBUSY) => Writers::Some,
        Err(_) => Writers::Unsure,
    }
}

/// There are such files: each cycle looks at them.
pub(crate) fn are_there(repository: &Repository) -> bool {
    fs::symlink_metadata(turn::notes(repository).join(OPEN)).is_ok()
}

/// Keeps a file that was replaced, where somebody may still write to it. `aside` is the tree in which it is now.
pub(crate) fn keep(repository: &Repository, aside: &FileTree, moving: &Moving) -> Result<(), Stop> {
    let path = moving.path();
    if !moving.is_record_file {
        return Ok(());
    }
    let failed = |error| Stop::io("cannot keep", &aside.path.join(path), &error);
    let Some(file) = aside.open_file(path).map_err(failed)? else {
        return Ok(());
    };
    if writers(&file) == Writers::None {
        return Ok(());
    }
    let Some(seen) = aside.read(path).map_err(failed)? else {
        return Ok(());
    };
    let dir = free(&turn::notes(repository).join(OPEN));
    let tree = FileTree::make(&dir).map_err(failed)?;
    // A second name for the same file: across mounts there can be none.
    let (from, to) = (aside.path.join(path), dir.join("file"));
    if fs::hard_link(&from, &to).is_err() {
        let _ = fs::remove_dir_all(&dir);
        return Ok(());
    }
    let note = OpenFile {
        path: moving.path.clone(),
        since: now(),
    };
    let note = serde_json::to_vec(&note).unwrap_or_default();
    tree.write_new(Path::new("seen"), &seen).map_err(failed)?;
    tree.write_new(Path::new("note"), &note).map_err(failed)
}

/// Merges in what programs have written to such files since the last look, and lets go of those that nobody has open.
pub(crate) fn look(turn: &crate::SyncTurn<'_>) -> Result<(), Stop> {
    let repository = turn.repository;
    let top = turn::notes(repository).join(OPEN);
    let Ok(entries) = fs::read_dir(&top) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        look_at(turn, &entry.path())?;
    }
    // It stays while anything is in it.
    let _ = fs::remove_dir(&top);
    Ok(())
}

fn look_at(turn: &crate::SyncTurn<'_>, dir: &Path) -> Result<(), Stop> {
    let repository = turn.repository;
    let read = |name: &str| fs::read(dir.join(name)).ok();
    let note = read("note").and_then(|note| serde_json::from_slice::<OpenFile>(&note).ok());
    let (Some(note), Some(seen), Some(now_is)) = (note, read("seen"), read("file")) else {
        let _ = fs::remove_dir_all(dir);
        return Ok(());
    };
    let path = as_path(&note.path);
    if !repository.has(&note.path) {
        // That is for the sync of the other database.
        return Ok(());
    }
    if now_is != seen {
        let files = repository.files.clone();
        let failed = |error| Stop::io("cannot read", &repository.git.dir.join(path), &error);
        let here = files.read(path).map_err(failed)?.unwrap_or_default();
        match records::late(repository, path, &seen, &here, &now_is)? {
            Some(merged) => stage::bring_in(turn, path, here, merged)?,
            None => records::put_beside(repository, path, &now_is),
        }
        fs::write(dir.join("seen"), &now_is)
            .map_err(|error| Stop::io("cannot write", &dir.join("seen"), &error))?;
    }
    let file = fs::File::open(dir.join("file"))
        .map_err(|error| Stop::io("cannot open", &dir.join("file"), &error))?;
    let is_let_go = match writers(&file) {
        // Whoever had it open may have written between the look and its end.
        Writers::None => read("file").as_ref() == Some(&now_is),
        Writers::Some => false,
        Writers::Unsure => age(&file) >= UNSURE,
    };
    if is_let_go {
        let _ = fs::remove_dir_all(dir);
    } else if now().saturating_sub(note.since) >= PATIENCE.as_secs() {
        let path = repository.shown(&note.path);
        say(&SyncMessage::Notice(Event::Notice.line(format_args!(
            "a program still writes to {path} as it was before the pull; restart it"
        ))));
    }
    Ok(())
}

/// How long ago a file was changed.
fn age(file: &fs::File) -> Duration {
    let changed = file
        .metadata()
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    Duration::from_secs(now()).saturating_sub(changed.unwrap_or_default())
}

fn now() -> u64 {
    u64::try_from(facts::now().0.as_secs()).unwrap_or_default()
}

/// The first name of a directory that is free.
fn free(top: &Path) -> PathBuf {
    let mut number = 0;
    loop {
        let dir = top.join(number.to_string());
        if fs::symlink_metadata(&dir).is_err() {
            return dir;
        }
        number += 1;
    }
}
