//! Which version of a record file a program had read before it wrote the file: one that holds its contents in memory
//! over a pull writes the old contents, and would delete what has come in. Of the last versions, the one with the
//! fewest differing records is what it had read; where that is not HEAD's, the file is merged with that one as base.
//!
//! A file in the git directory notes the commits that HEAD was at, and the texts that such a program has written,
//! because the program goes on from there. To lose the file costs only this.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use beadlock_core::facts;
use beadlock_records::{Id, Merged, RecordFile, differing, gone};
use serde::{Deserialize, Serialize};

use crate::{Event, kept, records, stage};
use beadlock_repository::{
    Repository, RepositoryLock, SyncMessage, SyncStop, as_path, repository_lock, say,
};

const NOTES: &str = "versions";
/// How many commits are noted, and how many different contents of a file are compared.
const COMMITS: usize = 64;
const CONTENTS: usize = 8;
/// How many contents of all files are noted that were only found.
const FOUND: usize = 32;
/// A program that takes the same records out again within this time does not know of them.
const AGAIN: Duration = Duration::from_secs(600);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    /// The oldest first.
    commits: Vec<String>,
    restored: Vec<Restored>,
    #[serde(default)]
    found: Vec<Found>,
    #[serde(default)]
    uncommitted: Vec<Uncommitted>,
}

/// A text that a sync has put into a file, and that is in no commit yet. A program that had read the file a moment
/// before does not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Uncommitted {
    path: Vec<u8>,
    /// The id of its blob.
    id: String,
    /// The commit at which the branch is. At another one this counts no more.
    on: String,
    /// Whether the commit that is being made has it.
    is_judged: bool,
}

/// A text of a program that did not know of everything. The program may go on from there, and never know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    path: Vec<u8>,
    /// The id of the blob with that text.
    id: String,
    /// The id of the blob with the merged text: with all that the program did not know of.
    merged: String,
    /// The id of the blob of a version that the branch had then, of which the merged text was made.
    head: String,
}

/// Records that were kept although a program has written a file without them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Restored {
    path: Vec<u8>,
    /// The ids of the records, as they are shown.
    ids: Vec<String>,
    /// When they were kept, in Unix seconds.
    at: i64,
}

/// A changed record file.
pub(crate) struct ChangedFile<'a> {
    /// The path from the top of the working tree.
    pub(crate) path: &'a [u8],
    /// The text of the file in HEAD.
    pub(crate) head: &'a [u8],
    /// The commit of HEAD.
    pub(crate) commit: &'a str,
    /// The text of the file in the working tree.
    pub(crate) here: Vec<u8>,
}

/// Result of the look at a changed record file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// The writer of the file knew of everything.
    Fine,
    /// The records that its writer did not know of were merged in: this text is in the file now.
    Merged(Vec<u8>),
    /// The same records were taken out again: the file is not committed. The sentence says why.
    Held(String),
}

/// Notes that the branch is at this commit, or was.
pub(crate) fn note(repository: &Repository, commit: &str) {
    let mut notes = read(repository);
    if notes.commits.last().is_some_and(|last| last == commit) {
        return;
    }
    notes.commits.retain(|noted| noted != commit);
    notes.commits.push(commit.to_owned());
    let surplus = notes.commits.len().saturating_sub(COMMITS);
    notes.commits.drain(..surplus);
    write(repository, &notes);
}

/// Merges in the records that the writer of this file did not know of.
pub(crate) fn look(
    turn: &RepositoryLock<'_>,
    changed: ChangedFile<'_>,
) -> Result<Looked, SyncStop> {
    let repository = turn.repository;
    let ChangedFile {
        path,
        head,
        commit,
        here,
    } = changed;
    if !RecordFile::read(head).is_record_file() {
        return Ok(Looked::Fine);
    }
    let uncommitted = uncommitted(repository, path, commit)?;
    let latest = uncommitted.as_deref().unwrap_or(head);
    let known = known(repository, path, &[latest, head], &here)?;
    let mut notes = read(repository);
    let at = facts::now().0.as_secs();
    notes
        .restored
        .retain(|old| (0..AGAIN.as_secs().cast_signed()).contains(&(at - old.at)));
    let restored = notes.restored.iter().filter(|old| old.path == path);
    let (merged, names) = match judge(&known, (latest, &here), restored)? {
        Judged::Fine => {
            judged(repository, path);
            return Ok(Looked::Fine);
        }
        Judged::Held(why) => return Ok(Looked::Held(why)),
        Judged::Merged(merged, names) => (merged, names),
    };
    if !merged.conflicts.is_empty() {
        kept::keep(repository, as_path(path), &merged.conflicts, &known.text)?;
    }
    found(repository, path, &here, (&merged.bytes, head), commit)?;
    judged(repository, path);
    stage::bring_in(turn, as_path(path), here.clone(), merged.bytes.clone())?;
    let shown = repository.shown(path);
    let line = format_args!(
        "a program wrote old contents over {} in {shown}; both were kept",
        few(&names)
    );
    say(&SyncMessage::Notice(Event::Notice.line(line)));
    let noted = read(repository);
    (notes.found, notes.uncommitted) = (noted.found, noted.uncommitted);
    notes
        .restored
        .retain(|old| old.path != path || old.ids != names);
    notes.restored.push(Restored {
        path: path.to_vec(),
        ids: names,
        at,
    });
    write(repository, &notes);
    Ok(Looked::Merged(merged.bytes))
}

/// The judgement about a changed file, before anything is written.
enum Judged {
    Fine,
    /// The merge that is to be in the file, and the names of the records that its writer did not know of.
    Merged(Merged, Vec<String>),
    Held(String),
}

/// Judges a file: the latest version that has everything, the file's own, and the records that were kept in the last
/// minutes.
fn judge<'a>(
    known: &KnownText,
    (latest, here): (&[u8], &[u8]),
    mut restored: impl Iterator<Item = &'a Restored>,
) -> Result<Judged, SyncStop> {
    if known.is_first {
        return Ok(Judged::Fine);
    }
    let merged = records::merge(&known.base, &known.text, latest)?;
    if merged.bytes == here {
        return Ok(Judged::Fine);
    }
    let (after, now) = (RecordFile::read(&merged.bytes), RecordFile::read(here));
    let mut ids = gone(&after, &now);
    if ids.is_empty() {
        ids = changed_ids(&now, &merged.bytes, here);
    }
    if ids.is_empty() {
        return Ok(Judged::Fine);
    }
    let names: Vec<_> = ids.iter().map(Id::to_string).collect();
    let again = restored.find(|old| old.ids.iter().any(|id| names.contains(id)));
    // Who also writes something new does not take these out on purpose.
    if let Some(old) = again.filter(|_| known.is_old) {
        let time = clock_time(old.at);
        let why = format!(
            "{} came in by {time} and {} taken out twice: a program holds old contents (restart it)",
            few(&names),
            if names.len() == 1 { "was" } else { "were" }
        );
        return Ok(Judged::Held(why));
    }
    Ok(Judged::Merged(merged, names))
}

/// The version that the writer of a text had read, and what the writer has made of it.
pub(crate) struct KnownText {
    /// The version that it had read.
    pub(crate) base: Vec<u8>,
    /// The text that it has made of that version; also of its earlier text, which was merged without its knowledge.
    pub(crate) text: Vec<u8>,
    /// Whether that version is the first of those that the caller named.
    is_first: bool,
    /// Whether the text has the same records and lines as that version.
    is_old: bool,
}

/// The version that the writer of a text had read: one of `versions`, or of those that are noted; the nearest, the
/// first of equals.
pub(crate) fn known(
    repository: &Repository,
    path: &[u8],
    versions: &[&[u8]],
    text: &[u8],
) -> Result<KnownText, SyncStop> {
    let noted = || noted(repository, path);
    let blobs = |ids: &[&str]| records::cached_blobs(repository, ids);
    known_among(noted, blobs, versions, text)
}

/// Does the work of [`known`]. `noted` returns the noted versions, the newest first, and `blobs` the bytes of blobs.
fn known_among(
    noted: impl FnOnce() -> Result<Vec<Noted>, SyncStop>,
    blobs: impl FnOnce(&[&str]) -> Result<Vec<Vec<u8>>, SyncStop>,
    versions: &[&[u8]],
    text: &[u8],
) -> Result<KnownText, SyncStop> {
    let now = RecordFile::read(text);
    let first = versions.first().copied().unwrap_or_default();
    let named = records::nearer(versions, text);
    let is_first = named == first;
    let known = |base: &[u8], is_first: bool, distance: Distance| KnownText {
        base: base.to_vec(),
        text: text.to_vec(),
        is_first,
        is_old: distance.0 == 0,
    };
    let distance = distance(named, &now);
    if is_first && has_all(&RecordFile::read(first), &now) {
        return Ok(known(named, true, distance));
    }
    let Some((noted, distance)) = nearest(noted()?, distance, &now) else {
        return Ok(known(named, is_first, distance));
    };
    let Some(found) = noted.version.found else {
        return Ok(known(&noted.text, false, distance));
    };
    let base = if noted.version.is_merged_committed {
        &found.merged
    } else {
        &found.head
    };
    let texts = blobs(&[base, &found.merged])?;
    let [base, merged] = texts.as_slice() else {
        return Ok(known(&noted.text, false, distance));
    };
    Ok(KnownText {
        base: base.clone(),
        text: records::merge(&noted.text, text, merged)?.bytes,
        is_first: false,
        is_old: distance.0 == 0,
    })
}

/// How far a text is from a version: how many records differ, and how many of these it lacks. So of two versions that
/// are equally near it was rather made of the one of which it lacks less.
type Distance = (usize, usize);

fn distance(version: &[u8], now: &RecordFile<'_>) -> Distance {
    let version = RecordFile::read(version);
    (differing(&version, now), gone(&version, now).len())
}

/// The noted version that is nearest to a text, the first of equals, with its distance. `None` where no distance is
/// less than `best`.
fn nearest(
    noted: Vec<Noted>,
    mut best: Distance,
    now: &RecordFile<'_>,
) -> Option<(Noted, Distance)> {
    let mut nearest = None;
    for version in noted {
        let distance = distance(&version.text, now);
        if distance < best {
            best = distance;
            nearest = Some((version, distance));
        }
    }
    nearest
}

/// The text that a sync has put into a file and no commit has yet; `None` without one, or where it was put at another
/// commit than this one.
pub(crate) fn uncommitted(
    repository: &Repository,
    path: &[u8],
    commit: &str,
) -> Result<Option<Vec<u8>>, SyncStop> {
    let notes = read(repository);
    let is_this = |last: &&Uncommitted| last.path == path && last.on == commit;
    match notes.uncommitted.iter().find(is_this) {
        Some(last) => Ok(records::cached_blobs(repository, &[&last.id])?.pop()),
        None => Ok(None),
    }
}

impl Notes {
    fn put(&mut self, path: &[u8], id: &str, on: &str) {
        let is_this = |last: &Uncommitted| last.path == path && last.id == id && last.on == on;
        if self.uncommitted.iter().any(is_this) {
            return;
        }
        self.uncommitted.retain(|last| last.path != path);
        self.uncommitted.push(Uncommitted {
            path: path.to_vec(),
            id: id.to_owned(),
            on: on.to_owned(),
            is_judged: false,
        });
    }
}

/// Notes that the text which is now to be committed has all that was put into the file.
fn judged(repository: &Repository, path: &[u8]) {
    let mut notes = read(repository);
    let of_this = notes
        .uncommitted
        .iter_mut()
        .filter(|last| last.path == path);
    let changed = of_this.map(|last| last.is_judged = true).count();
    if changed > 0 {
        write(repository, &notes);
    }
}

/// Notes that a commit has moved the branch. It has what was put into the files of these paths, as far as that was
/// judged.
pub(crate) fn committed(
    repository: &Repository,
    (from, to): (&str, &str),
    has: impl Fn(&[u8]) -> bool,
) {
    moved(repository, (from, to), |last| {
        last.is_judged && has(&last.path)
    });
}

/// Notes that a pull has moved the branch, and the files of these paths.
pub(crate) fn pulled(
    repository: &Repository,
    (from, to): (&str, &str),
    has: impl Fn(&[u8]) -> bool,
) {
    moved(repository, (from, to), |last| has(&last.path));
}

/// Notes that the branch has not moved to this commit: nothing was put into a file there.
pub(crate) fn not_moved(repository: &Repository, to: &str) {
    let mut notes = read(repository);
    if notes.uncommitted.iter().any(|last| last.on == to) {
        notes.uncommitted.retain(|last| last.on != to);
        write(repository, &notes);
    }
}

fn moved(
    repository: &Repository,
    (from, to): (&str, &str),
    is_gone: impl Fn(&Uncommitted) -> bool,
) {
    let mut notes = read(repository);
    if !notes.uncommitted.is_empty() {
        notes.uncommitted = carried(notes.uncommitted, (from, to), is_gone);
        write(repository, &notes);
    }
}

/// The uncommitted texts after the branch has moved: those on the old commit are on the new one, unless they are gone.
fn carried(
    mut all: Vec<Uncommitted>,
    (from, to): (&str, &str),
    is_gone: impl Fn(&Uncommitted) -> bool,
) -> Vec<Uncommitted> {
    all.retain(|last| last.on == to || last.on == from && !is_gone(last));
    for last in &mut all {
        last.is_judged = false;
        to.clone_into(&mut last.on);
    }
    all
}

/// A text, with what a sync has put into the file and its writer did not know.
pub(crate) fn completed(
    repository: &Repository,
    path: &[u8],
    (latest, head): (&[u8], &[u8]),
    text: Vec<u8>,
) -> Result<Vec<u8>, SyncStop> {
    let known = known(repository, path, &[latest, head], &text)?;
    if known.is_first {
        return Ok(text);
    }
    Ok(records::merge(&known.base, &known.text, latest)?.bytes)
}

/// Notes a text that a program has written, the merged text that was made of it, a version that the branch had then,
/// and the commit at which the branch is from now on.
pub(crate) fn found(
    repository: &Repository,
    path: &[u8],
    text: &[u8],
    (merged, head): (&[u8], &[u8]),
    on: &str,
) -> Result<(), SyncStop> {
    let blob = |bytes: &[u8]| records::cached_write(repository, bytes);
    let found = Found {
        path: path.to_vec(),
        id: blob(text)?,
        merged: blob(merged)?,
        head: blob(head)?,
    };
    let mut notes = read(repository);
    notes
        .found
        .retain(|old| (&old.path, &old.id) != (&found.path, &found.id));
    notes.put(path, &found.merged, on);
    notes.found.push(found);
    let surplus = notes.found.len().saturating_sub(FOUND);
    notes.found.drain(..surplus);
    write(repository, &notes);
    Ok(())
}

/// Whether `now` has all records of `before`, unchanged: records were only added.
fn has_all(before: &RecordFile<'_>, now: &RecordFile<'_>) -> bool {
    differing(before, now) == now.records().saturating_sub(before.records())
        && gone(before, now).is_empty()
}

/// A version that is noted.
#[derive(Debug, Clone)]
struct Noted {
    text: Vec<u8>,
    version: Version,
}

/// The noted versions of a file: the last that commits have, the newest first, then those that were found.
fn noted(repository: &Repository, path: &[u8]) -> Result<Vec<Noted>, SyncStop> {
    let Some(name) = std::str::from_utf8(path)
        .ok()
        .filter(|path| !path.contains('\n'))
    else {
        return Ok(Vec::new());
    };
    let notes = read(repository);
    let of_this = notes.found.iter().rev().filter(|found| found.path == path);
    let of_this: Vec<_> = of_this.take(CONTENTS).collect();
    let commits = notes.commits.iter().rev();
    let of_found = of_this
        .iter()
        .flat_map(|found| [found.id.clone(), found.merged.clone()]);
    let names: Vec<_> = of_found
        .chain(commits.map(|commit| format!("{commit}:{name}")))
        .collect();
    let blobs = records::cached_ids(repository, &names)?;
    let (of_found, of_commits) = blobs.split_at(2 * of_this.len());
    let is_there = |id: &String| of_found.iter().flatten().any(|there| there == id);
    let found: Vec<_> = of_this
        .into_iter()
        .filter(|found| is_there(&found.id) && is_there(&found.merged))
        .collect();
    let versions = versions(
        of_commits.iter().flatten().map(String::as_str),
        &found,
        CONTENTS,
    );
    let ids: Vec<_> = versions.iter().map(|version| version.id.as_str()).collect();
    let texts = records::cached_blobs(repository, &ids)?;
    let noted = |(text, version)| Noted { text, version };
    Ok(std::iter::zip(texts, versions).map(noted).collect())
}

/// A version that somebody may have read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    id: String,
    /// The note about it, where it was found in the file or put there; `None` for a version of a commit.
    found: Option<Found>,
    /// Whether a noted commit has the merged text of that note.
    is_merged_committed: bool,
}

/// The versions that somebody may have read: those of the last commits, the newest first, those that were found in the
/// file, and those that were put there.
fn versions<'a>(
    of_commits: impl Iterator<Item = &'a str>,
    found: &[&Found],
    contents: usize,
) -> Vec<Version> {
    let mut committed: Vec<&str> = Vec::new();
    for id in of_commits {
        if !committed.contains(&id) {
            committed.push(id);
        }
    }
    // HEAD's own is among them.
    let mut versions: Vec<_> = committed
        .iter()
        .take(contents + 1)
        .map(|id| Version {
            id: (*id).to_owned(),
            found: None,
            is_merged_committed: false,
        })
        .collect();
    let found = &found[..contents.min(found.len())];
    versions.extend(found.iter().map(|found| Version {
        id: found.id.clone(),
        found: Some((*found).clone()),
        is_merged_committed: committed.contains(&found.merged.as_str()),
    }));
    let is_uncommitted = |found: &&&Found| !committed.contains(&found.merged.as_str());
    let put = found.iter().filter(is_uncommitted).map(|found| Version {
        id: found.merged.clone(),
        found: Some(Found {
            id: found.merged.clone(),
            ..(*found).clone()
        }),
        is_merged_committed: false,
    });
    let put: Vec<_> = put.collect();
    versions.extend(put);
    versions
}

/// The records that `merged` has with another line than `here`, which has them too.
fn changed_ids(now: &RecordFile<'_>, merged: &[u8], here: &[u8]) -> Vec<Id> {
    let lines = |text| <[u8]>::split(text, |byte: &u8| *byte == b'\n');
    let there: BTreeSet<_> = lines(here).collect();
    lines(merged)
        .filter(|line| !there.contains(line))
        .filter_map(|line| RecordFile::read(line).ids().next())
        .filter(|id| now.contains(id))
        .collect()
}

/// The hour and the minute of a time in Unix seconds: `10:02`, in UTC.
fn clock_time(at: i64) -> String {
    let minutes = at.rem_euclid(86_400) / 60;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// The first three names, and how many more.
pub(crate) fn few(names: &[String]) -> String {
    match names {
        [] => "records".to_owned(),
        [one] => one.clone(),
        [first, last] => format!("{first} and {last}"),
        [first, second, third] => format!("{first}, {second} and {third}"),
        [first, second, third, more @ ..] => {
            format!("{first}, {second}, {third} and {} more", more.len())
        }
    }
}

fn read(repository: &Repository) -> Notes {
    fs::read(repository_lock::notes(repository).join(NOTES))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// Writes the notes. Where that fails, they are not known the next time.
fn write(repository: &Repository, notes: &Notes) {
    let text = serde_json::to_vec(notes).unwrap_or_default();
    let _ = repository_lock::write_whole(&repository_lock::notes(repository).join(NOTES), &text);
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_names_are_said_and_the_rest_is_counted() {
        let few = |count: usize| few(&["a", "b", "c", "d", "e"].map(str::to_owned)[..count]);
        assert_eq!(few(1), "a");
        assert_eq!(few(2), "a and b");
        assert_eq!(few(3), "a, b and c");
        assert_eq!(few(5), "a, b, c and 2 more");
        assert_eq!(clock_time(36_120), "10:02");
        assert_eq!(clock_time(-60), "23:59");
    }

    #[test]
    fn a_file_that_was_only_added_to_needs_no_look() {
        let line = |id: &str, title: &str| format!("{{\"id\":\"{id}\",\"title\":\"{title}\"}}\n");
        let before = line("a", "1") + &line("b", "1");
        let has_all = |now: &str| {
            has_all(
                &RecordFile::read(before.as_bytes()),
                &RecordFile::read(now.as_bytes()),
            )
        };
        assert!(has_all(&before) && has_all(&(before.clone() + &line("c", "1"))));
        assert!(!has_all(&line("a", "1")) && !has_all(&(line("a", "2") + &line("b", "1"))));
        assert!(
            !has_all(&(line("a", "1") + &line("c", "1"))),
            "one went and one came"
        );
    }
}
