//! Which version of a record file a program had read before it wrote the file: one that holds its contents in memory
//! over a pull writes the old contents, and would delete what has come in. Of the last versions, the one with the
//! fewest differing records is what it had read; where that is not HEAD's, the file is merged with that one as base.
//!
//! The commits that HEAD was at are noted in a file in the git directory, and what such a program has written: it goes on
//! from there. To lose it costs only this.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use beadlock_checker::internal::facts;
use beadlock_records::{Id, RecordFile, differing, gone};
use serde::{Deserialize, Serialize};

use crate::{
    Event, Repository, Stop, SyncMessage, SyncTurn, as_path, kept, records, say, stage, turn,
};

const NOTES: &str = "versions";
/// How many commits are noted, and how many different contents of a file are compared.
const COMMITS: usize = 64;
const CONTENTS: usize = 8;
/// How many contents of all files are noted that were only found.
const FOUND: usize = 32;
/// Who takes the same records out again within this time does not know of them.
const AGAIN: Duration = Duration::from_secs(600);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    /// The oldest first.
    commits: Vec<String>,
    restored: Vec<Restored>,
    #[serde(default)]
    found: Vec<Found>,
}

/// What a program has written that did not know of everything. It may go on from there, and never know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    path: Vec<u8>,
    /// The blob that it has written.
    id: String,
    /// What came of it, with all that it did not know of.
    merged: String,
    /// A version that the branch had then, of which that was made.
    head: String,
}

/// Records that were kept although a program has written a file without them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Restored {
    path: Vec<u8>,
    /// As they are shown.
    ids: Vec<String>,
    /// In Unix seconds.
    at: i64,
}

/// A changed record file.
pub(crate) struct Changed<'a> {
    /// From the top.
    pub(crate) path: &'a [u8],
    /// As HEAD has it.
    pub(crate) head: &'a [u8],
    /// As it is in the working tree.
    pub(crate) here: Vec<u8>,
}

/// What has come of the look at a changed file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Its writer knew of everything.
    Fine,
    /// What its writer did not know of was merged in: this is in the file now.
    Merged(Vec<u8>),
    /// The same records were taken out again: it is not committed. The sentence says why.
    Held(String),
}

/// The branch is at this commit, or was.
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

/// Merges in what the writer of this file did not know of.
pub(crate) fn look(turn: &SyncTurn<'_>, changed: Changed<'_>) -> Result<Looked, Stop> {
    let repository = turn.repository;
    let Changed { path, head, here } = changed;
    let (before, now) = (RecordFile::read(head), RecordFile::read(&here));
    if !before.is_record_file() || has_all(&before, &now) {
        return Ok(Looked::Fine);
    }
    let known = known(repository, path, &[head], &here)?;
    if !known.is_noted {
        return Ok(Looked::Fine);
    }
    let merged = records::merge(&known.base, &known.text, head)?;
    if merged.bytes == here {
        return Ok(Looked::Fine);
    }
    let after = RecordFile::read(&merged.bytes);
    let mut ids = gone(&after, &now);
    if ids.is_empty() {
        ids = changed_ids(&now, &merged.bytes, &here);
    }
    if ids.is_empty() {
        return Ok(Looked::Fine);
    }
    let names: Vec<_> = ids.iter().map(Id::to_string).collect();
    let at = facts::now().0.as_secs();
    let is_recent = |old: &Restored| (0..AGAIN.as_secs().cast_signed()).contains(&(at - old.at));
    let notes = read(repository);
    let again = notes.restored.iter().find(|old| {
        is_recent(old) && old.path == path && old.ids.iter().any(|id| names.contains(id))
    });
    // Who also writes something new does not take these out on purpose.
    if let Some(old) = again.filter(|_| known.is_old) {
        let time = clock_time(old.at);
        let why = format!(
            "{} came in by {time} and {} taken out twice: a program holds old contents (restart it)",
            few(&names),
            if names.len() == 1 { "was" } else { "were" }
        );
        return Ok(Looked::Held(why));
    }
    if !merged.conflicts.is_empty() {
        kept::keep(repository, as_path(path), &merged.conflicts, &known.text)?;
    }
    stage::bring_in(turn, as_path(path), here.clone(), merged.bytes.clone())?;
    let shown = repository.shown(path);
    let line = format_args!(
        "a program wrote old contents over {} in {shown}; both were kept",
        few(&names)
    );
    say(&SyncMessage::Notice(Event::Notice.line(line)));
    // By now there is more in them.
    let mut notes = read(repository);
    notes
        .restored
        .retain(|old| is_recent(old) && (old.path != path || old.ids != names));
    notes.restored.push(Restored {
        path: path.to_vec(),
        ids: names,
        at,
    });
    write(repository, &notes);
    Ok(Looked::Merged(merged.bytes))
}

/// What the writer of a text knew.
pub(crate) struct Known {
    /// The version that it had read.
    pub(crate) base: Vec<u8>,
    /// What it has made of that; also of what it has written before, and did not know to be merged.
    pub(crate) text: Vec<u8>,
    /// It is not one of the versions that were named.
    is_noted: bool,
    /// It has written nothing but an old version.
    is_old: bool,
}

/// What the writer of a text had read: one of these versions, or of those that are noted; the nearest, the first of
/// equals.
pub(crate) fn known(
    repository: &Repository,
    path: &[u8],
    versions: &[&[u8]],
    text: &[u8],
) -> Result<Known, Stop> {
    let now = RecordFile::read(text);
    let first = versions.first().copied().unwrap_or_default();
    let named = records::nearer(versions, text);
    let known = |base: &[u8]| Known {
        base: base.to_vec(),
        text: text.to_vec(),
        is_noted: false,
        is_old: false,
    };
    if named == first && has_all(&RecordFile::read(first), &now) {
        return Ok(known(named));
    }
    let best = differing(&RecordFile::read(named), &now);
    let Some(noted) = nearest(repository, path, (best, &now))? else {
        return Ok(known(named));
    };
    let is_old = noted.distance == 0;
    let Some(found) = noted.found else {
        return Ok(Known {
            is_noted: true,
            is_old,
            ..known(&noted.text)
        });
    };
    let base = if noted.is_merged_committed {
        &found.merged
    } else {
        &found.head
    };
    let texts = records::blobs(&repository.git, &[base, &found.merged])?;
    let [base, merged] = texts.as_slice() else {
        return Ok(known(named));
    };
    Ok(Known {
        base: base.clone(),
        text: records::merge(&noted.text, text, merged)?.bytes,
        is_noted: true,
        is_old,
    })
}

/// Notes what a program has written, what was made of it, and a version that the branch had then.
pub(crate) fn found(
    repository: &Repository,
    path: &[u8],
    text: &[u8],
    (merged, head): (&[u8], &[u8]),
) -> Result<(), Stop> {
    let blob = |bytes: &[u8]| records::write_blob(&repository.git, bytes.to_vec());
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
    notes.found.push(found);
    let surplus = notes.found.len().saturating_sub(FOUND);
    notes.found.drain(..surplus);
    write(repository, &notes);
    Ok(())
}

/// Nothing of the one is missing or other in the other: it was only added to.
fn has_all(before: &RecordFile<'_>, now: &RecordFile<'_>) -> bool {
    differing(before, now) == now.records().saturating_sub(before.records())
        && gone(before, now).is_empty()
}

/// A version that is noted.
struct Noted {
    text: Vec<u8>,
    distance: usize,
    /// It was found in the file, and is in no commit.
    found: Option<Found>,
    /// What came of it is in a commit.
    is_merged_committed: bool,
}

/// The noted version that is nearest to the file and has fewer differences from it than the `best` so far.
fn nearest(
    repository: &Repository,
    path: &[u8],
    (mut best, now): (usize, &RecordFile<'_>),
) -> Result<Option<Noted>, Stop> {
    let Some(name) = std::str::from_utf8(path)
        .ok()
        .filter(|path| !path.contains('\n'))
    else {
        return Ok(None);
    };
    let notes = read(repository);
    let of_this = notes.found.iter().rev().filter(|found| found.path == path);
    // What was made of it was in the file, too.
    let both = |found: &Found| {
        let id = found.merged.clone();
        [
            found.clone(),
            Found {
                id,
                ..found.clone()
            },
        ]
    };
    let of_this: Vec<_> = of_this.take(CONTENTS).flat_map(both).collect();
    let commits = notes.commits.iter().rev();
    let asked: String = of_this
        .iter()
        .map(|found| format!("{}\n", found.id))
        .chain(commits.map(|commit| format!("{commit}:{name}\n")))
        .collect();
    if asked.is_empty() {
        return Ok(None);
    }
    let answer = repository
        .git
        .call(["cat-file", "--batch-check"])
        .stdin(asked)
        .run()?;
    // `ID blob SIZE`, or that it is missing.
    let printed = String::from_utf8_lossy(&answer.stdout);
    let blobs: Vec<_> = printed
        .lines()
        .map(|line| {
            let (id, rest) = line.split_once(' ')?;
            rest.starts_with("blob ").then_some(id)
        })
        .collect();
    let (found, committed) = blobs.split_at(of_this.len().min(blobs.len()));
    let mut ids: Vec<&str> = Vec::new();
    for id in committed.iter().flatten() {
        if !ids.contains(id) {
            ids.push(id);
        }
    }
    let are_committed = ids.clone();
    // HEAD's own is among them.
    ids.truncate(CONTENTS + 1);
    let mut sources: Vec<Option<&Found>> = ids.iter().map(|_| None).collect();
    for (id, found) in std::iter::zip(found, &of_this) {
        if let Some(id) = id {
            ids.push(id);
            sources.push(Some(found));
        }
    }
    let mut nearest = None;
    for (text, source) in std::iter::zip(records::blobs(&repository.git, &ids)?, sources) {
        let distance = differing(&RecordFile::read(&text), now);
        if distance < best {
            best = distance;
            nearest = Some(Noted {
                text,
                distance,
                found: source.cloned(),
                is_merged_committed: source
                    .is_some_and(|found| are_committed.contains(&found.merged.as_str())),
            });
        }
    }
    Ok(nearest)
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
    fs::read(turn::notes(repository).join(NOTES))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// What cannot be written is not known the next time.
fn write(repository: &Repository, notes: &Notes) {
    let text = serde_json::to_vec(notes).unwrap_or_default();
    let _ = turn::write_whole(&turn::notes(repository).join(NOTES), &text);
}

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
