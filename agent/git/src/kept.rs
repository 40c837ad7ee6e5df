//! Records that nobody could decide: both sides changed the same member, and neither is newer. The file has the value
//! of the remote; the line that was here is kept in `FILE.mine` beside it, and under `refs/beadlock/kept/`, until a
//! person edits the record or removes that file.

use std::fs;
use std::path::{Path, PathBuf};

use beadlock_records::{Conflict, ConflictKind, Id, RecordFile};
use serde::{Deserialize, Serialize};

use crate::merge::MergedFile;
use crate::records::SIDES;
use crate::{Event, records};
use beadlock_repository::{
    GitReason, HindranceKind, Repository, SyncStop, as_path, repository_lock, short,
};

const NOTES: &str = "kept";
const REFS: &str = "refs/beadlock/kept";
/// How much of a value a sentence shows.
const SHOWN: usize = 60;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The record file, from the top.
    path: Vec<u8>,
    /// The line that was here.
    line: Vec<u8>,
    /// The conflict, as a sentence for a person.
    what: String,
    /// The id of the commit or blob that has the whole file as it was here.
    object: String,
}

/// Whether no record can be held back for a conflict: then the whole file is left to a person.
pub(crate) fn is_of_file(conflict: &Conflict) -> bool {
    conflict.id.is_none()
}

/// Keeps the records of these conflicts as `ours` has them.
pub(crate) fn keep(
    repository: &Repository,
    path: &Path,
    conflicts: &[Conflict],
    ours: &[u8],
) -> Result<(), SyncStop> {
    let object = records::write_blob(&repository.git, ours.to_vec())?;
    keep_in(repository, path, conflicts, ours, object)
}

/// Keeps the records that nobody could decide in a file that was merged.
pub(crate) fn keep_file(repository: &Repository, file: &MergedFile) -> Result<(), SyncStop> {
    let (conflicts, commit) = (&file.merged.conflicts, file.commit.clone());
    keep_in(
        repository,
        as_path(&file.path),
        conflicts,
        &file.ours,
        commit,
    )
}

/// Keeps the records as [`keep`] does; `object` is the commit or blob in which all of `ours` is.
fn keep_in(
    repository: &Repository,
    path: &Path,
    conflicts: &[Conflict],
    ours: &[u8],
    object: String,
) -> Result<(), SyncStop> {
    let mut all = read(repository);
    let mut lines = Vec::new();
    for conflict in conflicts {
        let Some(id) = &conflict.id else {
            continue;
        };
        for line in lines_of(ours, id) {
            let kept = Kept {
                path: path.as_os_str().as_encoded_bytes().to_vec(),
                line: line.to_vec(),
                what: sentence(conflict),
                object: object.clone(),
            };
            if !all
                .iter()
                .any(|old| old.path == kept.path && old.line == kept.line)
            {
                lines.push(line.to_vec());
                all.push(kept);
            }
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let name = format!("{REFS}/{}", short(&object));
    repository.git.call(["update-ref", &name, &object]).done()?;
    let mine = mine(path);
    let failed = |error| SyncStop::io("cannot write", &repository.git.dir.join(&mine), &error);
    // A sync that was killed after it had written them has not noted them.
    let there = repository
        .files
        .read(&mine)
        .map_err(failed)?
        .unwrap_or_default();
    lines.retain(|line| {
        !there
            .split(|byte| *byte == b'\n')
            .any(|other| other == line)
    });
    let lines: Vec<u8> = lines
        .iter()
        .flat_map(|line| [line, &b"\n"[..]].concat())
        .collect();
    match repository.files.open_to_append(&mine) {
        Some(mut file) => std::io::Write::write_all(&mut file, &lines).map_err(failed)?,
        None => repository.files.write_new(&mine, &lines).map_err(failed)?,
    }
    write(repository, &all)
}

/// Refuses while records wait for a person. Those whose `.mine` file a person has removed are let go.
pub(crate) fn refuse(repository: &Repository) -> Result<(), SyncStop> {
    let all = read(repository);
    let is_there = |kept: &Kept| {
        matches!(
            repository.files.look(&mine(as_path(&kept.path))),
            Ok(Some(_))
        )
    };
    let kept = let_go(repository, all, is_there)?;
    let mut of_this = kept.iter().filter(|kept| repository.has(&kept.path));
    let Some(first) = of_this.next() else {
        return Ok(());
    };
    let more = match of_this.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let mine = repository.shown(mine(as_path(&first.path)).as_os_str().as_encoded_bytes());
    let why = format!(
        "{}{more}; yours is in {mine}: edit the record, or remove that file",
        first.what
    );
    Err(SyncStop::notice(
        Event::NotPushing,
        HindranceKind::NotPushing,
        GitReason::Conflict,
        why,
    ))
}

/// Lets go of the records that somebody has edited here since.
pub(crate) fn edited(
    repository: &Repository,
    path: &[u8],
    head: &[u8],
    here: &[u8],
) -> Result<(), SyncStop> {
    let all = read(repository);
    if !all.iter().any(|kept| kept.path == path) {
        return Ok(());
    }
    let is_waiting = |kept: &Kept| {
        let Some(id) = RecordFile::read(&kept.line).ids().next() else {
            return true;
        };
        kept.path != path || lines_of(head, &id) == lines_of(here, &id)
    };
    let kept = let_go(repository, all, is_waiting)?;
    if !kept.iter().any(|kept| kept.path == path) {
        repository.files.remove(&mine(as_path(path)));
    }
    Ok(())
}

/// Keeps those for which `stays` is true. Returns them.
fn let_go(
    repository: &Repository,
    all: Vec<Kept>,
    stays: impl Fn(&Kept) -> bool,
) -> Result<Vec<Kept>, SyncStop> {
    let count = all.len();
    let (kept, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(stays);
    if kept.len() == count {
        return Ok(kept);
    }
    write(repository, &kept)?;
    for gone in gone {
        if !kept.iter().any(|kept| kept.object == gone.object) {
            let name = format!("{REFS}/{}", short(&gone.object));
            repository.git.call(["update-ref", "-d", &name]).run()?;
        }
    }
    Ok(kept)
}

fn sentence(conflict: &Conflict) -> String {
    let said = conflict.told(SIDES).to_string();
    let ConflictKind::Members(members) = &conflict.kind else {
        return said;
    };
    let Some(member) = members.first() else {
        return said;
    };
    let value = |value: &Option<Vec<u8>>| match value {
        Some(value) => {
            let text = String::from_utf8_lossy(value);
            let mut shown: String = text.chars().take(SHOWN).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            crate::escaped(&shown).to_string()
        }
        None => "nothing".to_owned(),
    };
    format!(
        "{said} ({} {}, {} {})",
        value(&member.ours),
        SIDES.ours,
        value(&member.theirs),
        SIDES.theirs
    )
}

/// The lines of a record, without their ends.
fn lines_of<'a>(text: &'a [u8], id: &Id) -> Vec<&'a [u8]> {
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty() && RecordFile::read(line).contains(id))
        .collect()
}

fn mine(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".mine");
    PathBuf::from(name)
}

fn read(repository: &Repository) -> Vec<Kept> {
    fs::read(repository_lock::notes(repository).join(NOTES))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

fn write(repository: &Repository, all: &[Kept]) -> Result<(), SyncStop> {
    let path = repository_lock::notes(repository).join(NOTES);
    if all.is_empty() {
        beadlock_repository::remove(&path);
        return Ok(());
    }
    let text = serde_json::to_vec(all).unwrap_or_default();
    repository_lock::write_whole(&path, &text)
}
