//! Files that a move has replaced and that a program may still have open: what it writes to such a file is in no
//! directory. So the file stays aside until a read lease is granted on it, which is refused while anybody has it open
//! for writing or mapped, and what was added is merged in.
//!
//! # Limits
//! - A lease is granted to the file's owner and to root, on a local file system. Elsewhere a file stays for ten
//!   minutes after its last change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use beadlock_base::sys;
use beadlock_core::facts;
use nix::errno::Errno;
use nix::libc::{O_ACCMODE, O_APPEND, O_RDONLY};
use serde::{Deserialize, Serialize};

use crate::stage::Moving;
use crate::{Event, other_databases, records, stage, versions};
use beadlock_repository::tree::FileTree;
use beadlock_repository::{Repository, SyncMessage, SyncStop, as_path, repository_lock, say};

const OPEN: &str = "open";
const IN_DATABASE: &str = ".exclusive-lock.open";
/// How long a file stays where no lease tells whether it is open.
const UNSURE: Duration = Duration::from_secs(600);
/// How long after its last change a file may still be in the middle of being written anew.
const REWRITE: Duration = Duration::from_secs(2);
/// How long a program may go on before the log says so.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
struct OpenFile {
    /// The path from the top of the working tree.
    path: Vec<u8>,
    /// When it was replaced, in Unix seconds.
    since: u64,
}

/// Whether anybody writes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    None,
    Some,
    /// No lease can tell: only a change of the file would.
    Unsure,
}

/// Device and inode: they tell which file it is, whatever its name.
pub(crate) type InodeNumber = (u64, u64);

/// The device and inode of an open file; `None` where the system does not tell.
pub(crate) fn inode(file: &fs::File) -> Option<InodeNumber> {
    let meta = file.metadata().ok()?;
    Some((meta.dev(), meta.ino()))
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

/// Whether everybody who has this file open for writing writes at its end, whatever that is then: so text can be added
/// to the end in place. False where that cannot be told.
pub(crate) fn only_append(file: &fs::File) -> bool {
    let Ok(ours) = file.metadata() else {
        return false;
    };
    let mut appending = 0;
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name();
        if !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let descriptors = match fs::read_dir(process.path().join("fd")) {
            Ok(descriptors) => descriptors,
            // It has ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return false,
        };
        for descriptor in descriptors.flatten() {
            let is_this = fs::metadata(descriptor.path())
                .is_ok_and(|meta| (meta.dev(), meta.ino()) == (ours.dev(), ours.ino()));
            if !is_this {
                continue;
            }
            let info = process.path().join("fdinfo").join(descriptor.file_name());
            match flags(&info) {
                Some(flags) if flags & O_ACCMODE == O_RDONLY => {}
                Some(flags) if flags & O_APPEND != 0 => appending += 1,
                _ => return false,
            }
        }
    }
    appending > 0
}

/// The flags with which a descriptor was opened, by its file in `fdinfo`.
fn flags(info: &Path) -> Option<i32> {
    let text = fs::read_to_string(info).ok()?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
    i32::from_str_radix(flags.trim(), 8).ok()
}

/// Whether somebody has this file open for writing and may not have written all of it yet: the text that it lacks of
/// `base` may still come.
pub(crate) fn is_being_written(file: &fs::File, base: &[u8], text: &[u8]) -> bool {
    records::is_cut(base, text) && age(file) < REWRITE && writers(file) == Writers::Some
}

/// Whether there are such files: each cycle looks at them.
pub(crate) fn are_there(repository: &Repository) -> bool {
    let is_there = |top: &PathBuf| fs::symlink_metadata(top).is_ok();
    tops(repository).iter().any(is_there)
}

/// The directories of such files: in the git directory, and in the database, where that is on another mount.
fn tops(repository: &Repository) -> [PathBuf; 2] {
    [
        repository_lock::notes(repository).join(OPEN),
        repository.request.dir.join(IN_DATABASE),
    ]
}

/// Keeps a file that was replaced, and to which somebody may still write. `aside` is the tree in which it is now;
/// `merged` is the text that it had when that was merged in.
pub(crate) fn keep(
    repository: &Repository,
    aside: &FileTree,
    moving: &Moving,
    merged: &[u8],
) -> Result<(), SyncStop> {
    let path = moving.path();
    let failed = |error| SyncStop::io("cannot keep", &aside.path.join(path), &error);
    // A second name for the same file: across mounts there can be none.
    let from = aside.path.join(path);
    let linked = tops(repository).into_iter().find_map(|top| {
        let dir = free(&top);
        let tree = FileTree::make(&dir).ok()?;
        if fs::hard_link(&from, dir.join("file")).is_ok() {
            return Some(tree);
        }
        let _ = fs::remove_dir_all(&dir);
        let _ = fs::remove_dir(&top);
        None
    });
    let Some(tree) = linked else {
        return Ok(());
    };
    let note = OpenFile {
        path: moving.path.clone(),
        since: now(),
    };
    let note = serde_json::to_vec(&note).unwrap_or_default();
    tree.write_new(Path::new("seen"), merged).map_err(failed)?;
    tree.write_new(Path::new("note"), &note).map_err(failed)
}

/// Merges in what programs have written to such files since the last look, and lets go of those that nobody has open.
/// Returns true where anything was merged in.
pub(crate) fn look(turn: &beadlock_repository::RepositoryLock<'_>) -> Result<bool, SyncStop> {
    let repository = turn.repository;
    let mut is_merged = false;
    for top in tops(repository) {
        let Ok(entries) = fs::read_dir(&top) else {
            continue;
        };
        for entry in entries.flatten() {
            is_merged |= look_at(turn, &entry.path())?;
        }
        // It stays while anything is in it.
        let _ = fs::remove_dir(&top);
    }
    Ok(is_merged)
}

fn look_at(turn: &beadlock_repository::RepositoryLock<'_>, dir: &Path) -> Result<bool, SyncStop> {
    let repository = turn.repository;
    let read = |name: &str| fs::read(dir.join(name)).ok();
    let note = read("note").and_then(|note| serde_json::from_slice::<OpenFile>(&note).ok());
    let (Some(note), Some(seen), Some(now_is)) = (note, read("seen"), read("file")) else {
        let _ = fs::remove_dir_all(dir);
        return Ok(false);
    };
    let mut is_merged = false;
    let path = as_path(&note.path);
    let file = fs::File::open(dir.join("file"))
        .map_err(|error| SyncStop::io("cannot open", &dir.join("file"), &error))?;
    if now_is != seen && !is_being_written(&file, &seen, &now_is) {
        // It may be a file of another database.
        let paths = [note.path.clone()];
        let Ok(_other) = other_databases::enter(repository, &paths) else {
            return Ok(false);
        };
        let files = repository.files.clone();
        let failed = |error| SyncStop::io("cannot read", &repository.git.dir.join(path), &error);
        let (here, merged) = match files.read(path).map_err(failed)? {
            Some(here) => {
                let whole = whole(repository, &note.path, here.clone())?;
                let known = versions::known(repository, &note.path, &[&seen], &now_is)?;
                let merged = records::late(repository, path, &known.base, &whole, &known.text)?;
                (here, merged)
            }
            // The file was removed: only what is new is brought.
            None => (Vec::new(), records::added(&seen, &now_is)),
        };
        is_merged = here != merged;
        stage::bring_in(turn, path, here, merged)?;
        repository_lock::write_whole(&dir.join("seen"), &now_is)?;
    }
    let is_let_go = match writers(&file) {
        // Whoever had it open may have written between the look and its end.
        Writers::None => {
            let (now, seen) = (read("file"), read("seen"));
            now.is_some() && now == seen
        }
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
    Ok(is_merged)
}

/// The text of the file, with the records that its writer did not know of.
fn whole(repository: &Repository, path: &[u8], here: Vec<u8>) -> Result<Vec<u8>, SyncStop> {
    let commit = repository.head()?.commit;
    let Some(head) = records::text_of(&repository.git, &commit, as_path(path))? else {
        return Ok(here);
    };
    let uncommitted = versions::uncommitted(repository, path, &commit)?;
    let latest = uncommitted.as_deref().unwrap_or(&head);
    versions::completed(repository, path, (latest, &head), here)
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
