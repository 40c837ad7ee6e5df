//! Record files that are held back: one with conflict markers, a torn line or NUL bytes, or one that has lost most of
//! its records, is neither committed nor pushed by the agent. A person who means it commits and pushes it by hand.
//!
//! A version is compared with the one at the place, so a fault that is there already holds nothing. The judgement
//! ([`blemish`], [`Loss`]) is pure; what it needs is read once ([`RecordChange`]).
//!
//! Limits: a symbolic link in the place of a record file is not looked into, and a file that git keeps as something
//! other than lines of JSON (encrypted, or as a pointer) is not judged.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use beadlock_checker::internal::facts;
use beadlock_records::{BlemishKind, Id, RecordFile, gone, new_blemishes, older};
use nix::libc::{O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK};
use serde_json::Value;

use crate::Upstream;
use crate::route::Route;
use crate::versions::{self, Looked};
use crate::{
    BranchHead, DatabaseChanges, Distance, Event, Git, GitReason, Hindrance, HindranceKind, Part,
    Repository, Stop, SyncMessage, SyncTurn, as_path, blobs, counted, kept, say, to_type,
};

/// How a record file ends. Every other file is as it is.
const ENDING: &[u8] = b".jsonl";
/// Files that say something to git, and are no records.
const OF_GIT: [&str; 2] = [".gitignore", ".gitattributes"];
/// With so many records, the loss of more than half of them is held.
const MANY: usize = 10;
/// How long a file with a torn last line must be left alone until that is told: its writer may be at work.
const QUIET: Duration = Duration::from_secs(10);
/// Two looks at a file that has lost records are so far apart.
const APART: Duration = Duration::from_secs(1);
/// How often a file is looked at that changes between two looks.
const LOOKS: usize = 3;

/// The content of a version, kept once where two versions have the same.
pub(crate) type Text = Rc<Vec<u8>>;

/// A record file that has changed: its versions, each `None` where there is no file.
#[derive(Debug, Clone)]
pub(crate) struct RecordChange {
    /// From the top.
    pub(crate) path: Vec<u8>,
    /// In the last commit.
    pub(crate) head: Option<Text>,
    /// In the newest commit of the place that the branch has.
    pub(crate) place: Option<Text>,
    /// In the working tree.
    pub(crate) here: Option<Text>,
}

/// A version that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeldFile {
    fault: Fault,
    /// The last commit has a version of it.
    is_in_head: bool,
}

/// Why a version is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A line that must not be there, by its number.
    Line(BlemishKind, usize),
    /// So many of so many records are gone; and the file is.
    Gone(usize, usize, bool),
    /// So many records have older contents.
    Older(usize),
}

/// What is held back of the changes of a database.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// From the top.
    paths: BTreeSet<Vec<u8>>,
    /// Files that somebody is writing just now: they are committed by a later cycle.
    pub(crate) writing: Vec<Vec<u8>>,
    /// What the state of the database says; `None` where nothing is held.
    pub(crate) hindrance: Option<Hindrance>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(BlemishKind::Marker, line) => {
                write!(f, ", line {line}, is a conflict marker")
            }
            Self::Line(BlemishKind::Nul, line) => write!(f, ": line {line} has NUL bytes"),
            Self::Line(BlemishKind::Torn, line) => {
                write!(f, ": line {line} is not JSON (cut off?)")
            }
            Self::Line(BlemishKind::NotJson, line) => write!(f, ": line {line} is not JSON"),
            Self::Gone(gone, of, is_file) => {
                let are = if *of == 1 { "record is" } else { "records are" };
                let file = if *is_file { ", with the file" } else { "" };
                write!(f, ": {gone} of {of} {are} gone{file}")
            }
            Self::Older(count) => write!(
                f,
                ": {count} records went back to older contents (a stale export, a backup?)"
            ),
        }
    }
}

impl Fault {
    /// A person has to edit the file: no older version of it is better as a whole.
    fn is_to_be_edited(self) -> bool {
        matches!(
            self,
            Self::Line(
                BlemishKind::Marker | BlemishKind::Torn | BlemishKind::NotJson,
                _
            )
        )
    }
}

/// Whether a path is one of a record file.
pub(crate) fn is_record_name(path: &[u8]) -> bool {
    path.ends_with(ENDING)
}

/// The first line that a version has, that the one at the place has not, and that no record file should have. Without
/// a version at the place the file must begin to be a record file to be judged as one.
pub(crate) fn blemish(place: &[u8], here: &[u8]) -> Option<(BlemishKind, usize)> {
    // Most often lines were appended: only these are read.
    let appended = here
        .strip_prefix(place)
        .filter(|_| place.is_empty() || place.ends_with(b"\n"));
    let (known, text, skipped) = match appended {
        Some(tail) => (&b""[..], tail, count_lines(place)),
        None => (place, here, 0),
    };
    let new = new_blemishes(known, text);
    new.first()?;
    let is_new_file = place.trim_ascii().is_empty();
    let now = RecordFile::read(here);
    let judged = if is_new_file {
        now.is_record_file()
    } else {
        RecordFile::read(place).is_record_file()
    };
    let has_conflict = new
        .iter()
        .any(|blemish| blemish.text.starts_with(b"<<<<<<< "));
    let counts = |kind: BlemishKind, text: &[u8]| {
        judged
            || (is_new_file
                && match kind {
                    BlemishKind::Marker => has_conflict,
                    BlemishKind::Nul => true,
                    // One line, and it has only begun.
                    BlemishKind::Torn => {
                        new.len() == 1 && text.trim_ascii_start().starts_with(b"{")
                    }
                    BlemishKind::NotJson => false,
                })
    };
    new.iter()
        .find(|blemish| counts(blemish.kind, blemish.text))
        .map(|blemish| (blemish.kind, blemish.line + skipped))
}

fn count_lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// What a version has lost of the one at the place.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    /// The records that are gone.
    gone: Vec<Id>,
    /// How many the place has.
    of: usize,
    is_file_gone: bool,
    /// How many went back to an older time.
    older: usize,
}

impl Loss {
    pub(crate) fn between(place: Option<&[u8]>, here: Option<&[u8]>) -> Self {
        let Some(place) = place else {
            return Self::default();
        };
        if here.is_some_and(|here| here.starts_with(place)) {
            return Self::default();
        }
        let (before, now) = (
            RecordFile::read(place),
            RecordFile::read(here.unwrap_or_default()),
        );
        Self {
            gone: gone(&before, &now),
            of: before.records(),
            is_file_gone: here.is_none(),
            older: older(&before, &now).len(),
        }
    }

    /// Something is missing, few or many.
    fn is_any(&self) -> bool {
        !self.gone.is_empty() || self.is_file_gone
    }

    /// All records are gone, of at least two.
    fn is_of_all(&self) -> bool {
        self.of >= 2 && self.gone.len() == self.of
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        let (gone, of) = (self.gone.len(), self.of);
        let is_most = of >= MANY && gone * 2 > of;
        let is_held = match self.is_file_gone {
            true => is_most || gone >= MANY,
            false => is_most || self.is_of_all(),
        };
        if is_held {
            return Some(Fault::Gone(gone, of, self.is_file_gone));
        }
        (self.older >= MANY).then_some(Fault::Older(self.older))
    }

    /// Forgets the records that are in another file of the database: they were moved, not lost.
    pub(crate) fn forget_moved(
        &mut self,
        place: &[u8],
        others: impl Iterator<Item = impl AsRef<[u8]>>,
    ) {
        let wanted: HashSet<Id> = self.gone.iter().cloned().collect();
        let were = members(place, &wanted);
        for other in others {
            let are = members(other.as_ref(), &wanted);
            self.gone.retain(|id| {
                let (Some(were), Some(are)) = (were.get(id), are.get(id)) else {
                    return true;
                };
                // A line about the record, such as an event, has its id and little else of it.
                let is_copy = |of: &BTreeSet<String>| {
                    were.iter()
                        .any(|was| was.intersection(of).count() * 3 >= was.len() * 2)
                };
                !are.iter().any(is_copy)
            });
        }
    }
}

/// The names of the members of each line of these records.
fn members(file: &[u8], wanted: &HashSet<Id>) -> HashMap<Id, Vec<BTreeSet<String>>> {
    let mut found: HashMap<Id, Vec<BTreeSet<String>>> = HashMap::new();
    for line in file.split(|byte| *byte == b'\n') {
        let Ok(Value::Object(record)) = serde_json::from_slice(line) else {
            continue;
        };
        let id = match record.get("id") {
            Some(Value::String(id)) => Some(Id::text(id)),
            Some(Value::Number(id)) => id.as_i64().map(Id::integer),
            _ => None,
        };
        if let Some(id) = id.filter(|id| wanted.contains(id)) {
            let names = record.into_iter().map(|(name, _)| name).collect();
            found.entry(id).or_default().push(names);
        }
    }
    found
}

impl RecordChange {
    /// The changed record files, with the versions in the last commit and in `place`.
    pub(crate) fn read_all(
        repository: &Repository,
        changes: &DatabaseChanges,
        head: &BranchHead,
        place: &str,
    ) -> Result<Vec<Self>, Stop> {
        let paths: BTreeSet<_> = changes
            .present
            .iter()
            .chain(&changes.gone)
            .filter(|path| is_record_name(path))
            .collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let of_place = match place == head.commit {
            true => None,
            false => Some(ids_in(repository, place)?),
        };
        let in_head = |path: &Vec<u8>| changes.in_head.get(path);
        let in_place = |path: &Vec<u8>| match &of_place {
            Some(ids) => ids.get(path),
            None => in_head(path),
        };
        let ids: BTreeSet<_> = paths
            .iter()
            .flat_map(|path| [in_head(path), in_place(path)])
            .flatten()
            .map(String::as_str)
            .collect();
        let texts = blobs::contents(&repository.git, ids.into_iter())?;
        let text = |id: Option<&String>| id.and_then(|id| texts.get(id)).cloned();
        let change = |path: &&Vec<u8>| {
            let file = repository.git.dir.join(as_path(path));
            let is_link = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_symlink());
            (!is_link).then(|| Self {
                path: (*path).clone(),
                head: text(in_head(path)),
                place: text(in_place(path)),
                here: read(&file).map(Rc::new),
            })
        };
        Ok(paths.iter().filter_map(change).collect())
    }

    fn place(&self) -> Option<&[u8]> {
        self.place.as_ref().map(|text| text.as_slice())
    }

    fn here(&self) -> Option<&[u8]> {
        self.here.as_ref().map(|text| text.as_slice())
    }

    fn blemish(&self) -> Option<(BlemishKind, usize)> {
        let here = self.here()?;
        blemish(self.place().unwrap_or_default(), here)
    }

    fn loss(&self) -> Loss {
        Loss::between(self.place(), self.here())
    }
}

/// The content of a regular file; `None` where there is none, or it cannot be read.
fn read(path: &Path) -> Option<Vec<u8>> {
    let opened = File::options()
        .read(true)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        .open(path)
        .ok()?;
    let mut content = Vec::new();
    let mut file = opened.metadata().ok()?.is_file().then_some(opened)?;
    file.read_to_end(&mut content).ok()?;
    Some(content)
}

/// The ids of the files that a commit has in the database.
fn ids_in(repository: &Repository, commit: &str) -> Result<BTreeMap<Vec<u8>, String>, Stop> {
    let ls_tree = repository.git.call(["ls-tree", "-r", "-z", commit]);
    let prefix = repository.prefix.as_os_str().as_encoded_bytes();
    let ls_tree = match prefix.is_empty() {
        true => ls_tree,
        false => ls_tree.paths([&b"--"[..], prefix]),
    };
    let entry = |entry: Vec<u8>| {
        // `MODE TYPE ID`, a tab, the path.
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let (fields, path) = entry.split_at(tab);
        let mut fields = fields.split(|byte| *byte == b' ');
        let is_file = fields.next()?.starts_with(b"100");
        let id = String::from_utf8_lossy(fields.nth(1)?).into_owned();
        is_file.then(|| (path[1..].to_vec(), id))
    };
    Ok(ls_tree.words()?.into_iter().filter_map(entry).collect())
}

/// The newest commit of the place that the branch has: what is changed here was changed from there on. Without a place
/// it is the last commit.
fn place_of(repository: &Repository, head: &BranchHead) -> Result<String, Stop> {
    let settings = repository.settings()?;
    let route = Route::of(repository, settings, &head.branch).ok();
    let tracking = route.as_ref().and_then(|route| {
        let place = route.places().next().unwrap_or_else(|| route.first());
        Some(place.tracking.as_str())
    });
    let place = match tracking {
        Some(tracking) => repository.commit_of(tracking)?,
        None => None,
    };
    let Some(place) = place.filter(|place| *place != head.commit) else {
        return Ok(head.commit.clone());
    };
    let base = repository
        .git
        .call(["merge-base", &place, &head.commit])
        .run()?
        .ok_text();
    Ok(base.unwrap_or_else(|| head.commit.clone()))
}

impl Held {
    /// Takes out of the changes what is held, and what is being written.
    pub(crate) fn take_out(
        turn: &SyncTurn<'_>,
        head: &BranchHead,
        changes: &mut DatabaseChanges,
    ) -> Result<Self, Stop> {
        let repository = turn.repository;
        let are_records = |paths: &[Vec<u8>]| paths.iter().any(|path| is_record_name(path));
        if changes.gone.is_empty() && !are_records(&changes.present) {
            return Ok(Self::default());
        }
        let place = place_of(repository, head)?;
        let mut records = RecordChange::read_all(repository, changes, head, &place)?;
        let mut judge = Judge {
            repository,
            changes,
            held: BTreeMap::new(),
            outdated: BTreeMap::new(),
            writing: BTreeSet::new(),
        };
        judge.blemishes(&mut records)?;
        // It may give back what seems to be lost.
        judge.merge_in_the_unknown(turn, &mut records)?;
        judge.losses(&mut records)?;
        if let Some(held) = judge.all_gone(&place, &records)? {
            *changes = DatabaseChanges::default();
            return Ok(held);
        }
        let Judge {
            held,
            outdated,
            writing,
            ..
        } = judge;
        let paths: BTreeSet<_> = held.keys().chain(outdated.keys()).cloned().collect();
        let held = Self {
            hindrance: hindrance(repository, &held)
                .or_else(|| outdated.first_key_value().map(of_outdated(repository))),
            writing: writing.iter().cloned().collect(),
            paths,
        };
        changes.leave(&held.paths);
        changes.leave(&writing);
        Ok(held)
    }

    /// What is held back, or being written, from the top.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.paths.iter().chain(&self.writing)
    }

    /// Whether a path from the top is held back, or being written.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(path) || self.writing.iter().any(|writing| writing == path)
    }

    /// Tells the agent what is not committed.
    pub(crate) fn say(&self, repository: &Repository) {
        if let Some(hindrance) = &self.hindrance {
            let next = hindrance
                .next
                .as_ref()
                .map(|next| format!("; type: {next}"))
                .unwrap_or_default();
            let line = Event::NotCommitting.line(format_args!("{}{next}", hindrance.why));
            say(&SyncMessage::Notice(line));
            say(&SyncMessage::Held(Box::new(hindrance.clone())));
        }
        if !self.writing.is_empty() {
            say(&SyncMessage::Writing(repository.shown_all(&self.writing)));
        }
    }
}

/// What has been found out about the changed record files.
struct Judge<'a> {
    repository: &'a Repository,
    changes: &'a DatabaseChanges,
    held: BTreeMap<Vec<u8>, HeldFile>,
    /// Files whose writer does not know what has come in, twice, and the sentence about each.
    outdated: BTreeMap<Vec<u8>, String>,
    writing: BTreeSet<Vec<u8>>,
}

impl Judge<'_> {
    /// Merges into each file what its writer did not know of, because it had come in since it read the file.
    fn merge_in_the_unknown(
        &mut self,
        turn: &SyncTurn<'_>,
        records: &mut [RecordChange],
    ) -> Result<(), Stop> {
        for change in records {
            let (Some(head), Some(here)) = (&change.head, &change.here) else {
                continue;
            };
            if self.held.contains_key(&change.path) || self.writing.contains(&change.path) {
                continue;
            }
            kept::edited(self.repository, &change.path, head, here)?;
            let (head, file) = (
                Rc::clone(head),
                self.repository.git.dir.join(as_path(&change.path)),
            );
            // A program that never rests may have written again meanwhile.
            for _ in 0..LOOKS {
                let Some(here) = &change.here else {
                    break;
                };
                let changed = versions::Changed {
                    path: &change.path,
                    head: &head,
                    here: here.to_vec(),
                };
                match versions::look(turn, changed)? {
                    Looked::Fine => break,
                    Looked::Merged => change.here = read(&file).map(Text::new),
                    Looked::Held(why) => {
                        self.outdated.insert(change.path.clone(), why);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lines that must not be there.
    fn blemishes(&mut self, records: &mut [RecordChange]) -> Result<(), Stop> {
        for change in records {
            let Some(mut found) = change.blemish() else {
                continue;
            };
            if self.clean(change)? {
                match change.blemish() {
                    Some(still) => found = still,
                    None => continue,
                }
            }
            let (kind, line) = found;
            if kind == BlemishKind::Torn && self.is_at_work(&change.path) {
                self.writing.insert(change.path.clone());
            } else {
                self.hold(change, Fault::Line(kind, line));
            }
        }
        Ok(())
    }

    /// Records that are gone, or older.
    fn losses(&mut self, records: &mut [RecordChange]) -> Result<(), Stop> {
        let losses = self.look_twice(records);
        for (at, mut loss) in losses {
            let change = &mut records[at];
            if self.is_taken(&change.path) || loss.fault().is_none() {
                continue;
            }
            if self.clean(change)? {
                loss = change.loss();
            }
            if matches!(loss.fault(), Some(Fault::Gone(..))) {
                let others = self.others(&change.path)?;
                loss.forget_moved(change.place().unwrap_or_default(), others.into_iter());
            }
            if let Some(fault) = loss.fault() {
                self.hold(&records[at], fault);
            }
        }
        Ok(())
    }

    fn hold(&mut self, change: &RecordChange, fault: Fault) {
        let is_in_head = change.head.is_some();
        self.held
            .insert(change.path.clone(), HeldFile { fault, is_in_head });
    }

    /// The losses, by the number of the change. A writer may be in the middle of a file that has lost records: it is
    /// committed only as two looks have seen it.
    fn look_twice(&mut self, records: &mut [RecordChange]) -> BTreeMap<usize, Loss> {
        let file = |change: &RecordChange| self.repository.git.dir.join(as_path(&change.path));
        let mut losses: BTreeMap<usize, Loss> = (0..records.len())
            .filter(|at| !self.is_taken(&records[*at].path))
            .map(|at| (at, records[at].loss()))
            .collect();
        for look in 1..=LOOKS {
            let lost: Vec<usize> = losses
                .iter()
                .filter(|(_, loss)| loss.is_any())
                .map(|(at, _)| *at)
                .collect();
            let wait = lost
                .iter()
                .map(|at| left_until(&file(&records[*at]), APART));
            let Some(wait) = wait.max() else {
                break;
            };
            thread::sleep(wait);
            let mut is_same = true;
            for at in lost {
                let change = &mut records[at];
                let again = read(&file(change));
                if again.as_deref() == change.here() {
                    continue;
                }
                is_same = false;
                change.here = again.map(Rc::new);
                losses.insert(at, change.loss());
                if look == LOOKS {
                    self.writing.insert(change.path.clone());
                }
            }
            if is_same {
                break;
            }
        }
        losses
    }

    fn is_taken(&self, path: &[u8]) -> bool {
        self.held.contains_key(path) || self.writing.contains(path)
    }

    /// Somebody has written to the file a moment ago. Of `--once` no other cycle comes that could look again.
    fn is_at_work(&self, path: &[u8]) -> bool {
        let file = self.repository.git.dir.join(as_path(path));
        !self.repository.request.is_once && !left_until(&file, QUIET).is_zero()
    }

    /// The file as git would commit it, where it is not as it lies here: a filter or another encoding. Returns whether
    /// it is another content.
    fn clean(&self, change: &mut RecordChange) -> Result<bool, Stop> {
        if change.here.is_none() {
            return Ok(false);
        }
        let git = &self.repository.git;
        let cleaned = git.call(["hash-object", "-w", "--"]).paths([&change.path]);
        let Some(id) = cleaned.run()?.ok_text() else {
            return Ok(false);
        };
        let mut texts = blobs::contents(git, [id.as_str()].into_iter())?;
        match texts.remove(&id) {
            Some(text) if Some(text.as_slice()) != change.here() => {
                change.here = Some(text);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The other record files that are, or will be, in git.
    fn others(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Stop> {
        let repository = self.repository;
        let ls_files = repository.git.call(["ls-files", "-z", "--cached", "--"]);
        let tracked = ls_files.paths([repository.inside()]).words()?;
        let all: BTreeSet<_> = tracked.iter().chain(&self.changes.present).collect();
        let is_other = |other: &&Vec<u8>| {
            is_record_name(other)
                && *other != path
                && !self.is_taken(other)
                && !repository.names.is_left_out(other)
        };
        Ok(all
            .into_iter()
            .filter(is_other)
            .filter_map(|other| read(&repository.git.dir.join(as_path(other))))
            .collect())
    }

    /// Everything is gone at once: of the files at the place none is here any more, but for those that have lost all
    /// their records.
    fn all_gone(&self, place: &str, records: &[RecordChange]) -> Result<Option<Held>, Stop> {
        let repository = self.repository;
        if self.changes.gone.is_empty() {
            return Ok(None);
        }
        let ids = ids_in(repository, place)?;
        let is_of_git = |path: &[u8]| {
            let name = as_path(path).file_name();
            name.is_some_and(|name| OF_GIT.iter().any(|of_git| name == *of_git))
        };
        let files: BTreeMap<_, _> = ids
            .iter()
            .filter(|(path, _)| !is_of_git(path) && !repository.names.is_left_out(path))
            .collect();
        let is_emptied = |path: &[u8]| {
            let fault = self.held.get(path).map(|held| held.fault);
            matches!(fault, Some(Fault::Gone(gone, of, _)) if gone == of)
        };
        let is_here =
            |path: &[u8]| fs::symlink_metadata(repository.git.dir.join(as_path(path))).is_ok();
        let is_there = |path: &&&Vec<u8>| is_here(path) && !is_emptied(path);
        if files.is_empty() || files.keys().any(|path| is_there(&path)) {
            return Ok(None);
        }
        // A file that has only been moved has another name, and its records or its content.
        let new: HashSet<_> = self.new_ids()?;
        let is_moved = |(path, id): &(&&Vec<u8>, &&String)| {
            let of_records = records
                .iter()
                .find(|change| change.path == ***path)
                .filter(|change| change.here.is_none());
            let are_elsewhere = || {
                let Some(change) = of_records else {
                    return false;
                };
                let mut loss = change.loss();
                let others = self.others(path).unwrap_or_default();
                let of = loss.of;
                loss.forget_moved(change.place().unwrap_or_default(), others.into_iter());
                of > 0 && loss.gone.is_empty()
            };
            new.contains(id.as_str()) || are_elsewhere()
        };
        if files.iter().any(|file| is_moved(&file)) {
            return Ok(None);
        }
        let count = files.len();
        let database = match repository.prefix.as_os_str().is_empty() {
            true => repository.top(),
            false => repository.shown(repository.prefix.as_os_str().as_encoded_bytes()),
        };
        let all = match count {
            1 => format!("the only file of {database} is gone"),
            count => format!("all {count} files of {database} are gone"),
        };
        let emptied = if files.keys().any(|path| is_here(path)) {
            " or have lost their records"
        } else {
            ""
        };
        let why = format!(
            "{all}{emptied}; is a volume not mounted? Else restore them, or commit and push that yourself if it is \
             meant"
        );
        let next = match emptied {
            "" => restore(repository, b""),
            _ => None,
        };
        Ok(Some(Held {
            paths: ids.into_keys().collect(),
            writing: Vec::new(),
            hindrance: Some(held(why, next)),
        }))
    }

    /// The ids that the new files would have in git.
    fn new_ids(&self) -> Result<HashSet<String>, Stop> {
        let git = &self.repository.git;
        let mut ids = HashSet::new();
        let is_file = |path: &&Vec<u8>| {
            fs::symlink_metadata(git.dir.join(as_path(path))).is_ok_and(|meta| meta.is_file())
        };
        let files: Vec<_> = self.changes.present.iter().filter(is_file).collect();
        for some in files.chunks(500) {
            let hash_object = git.call(["hash-object", "--"]).paths(some);
            ids.extend(hash_object.text()?.lines().map(str::to_owned));
        }
        Ok(ids)
    }
}

/// How long it is until nobody has written to the file, or removed it, for so long. A time in the future says nothing.
fn left_until(path: &Path, quiet: Duration) -> Duration {
    let meta =
        fs::symlink_metadata(path).or_else(|_| fs::symlink_metadata(path.parent().unwrap_or(path)));
    let Ok(meta) = meta else {
        return Duration::ZERO;
    };
    let now = Duration::try_from(facts::now().0).unwrap_or_default();
    let since = |seconds: i64, nanos: i64| {
        let at = Duration::new(
            u64::try_from(seconds).unwrap_or_default(),
            u32::try_from(nanos).unwrap_or_default(),
        );
        now.checked_sub(at)
    };
    let ages = [
        since(meta.mtime(), meta.mtime_nsec()),
        since(meta.ctime(), meta.ctime_nsec()),
    ];
    let left = |age: Option<Duration>| age.map(|age| quiet.saturating_sub(age));
    ages.into_iter().filter_map(left).max().unwrap_or_default()
}

fn held(why: String, next: Option<String>) -> Hindrance {
    Hindrance {
        kind: HindranceKind::NotPushing,
        reason: GitReason::Held,
        why,
        next,
    }
}

/// What the state says of the held files: the first of them, and how many more there are.
fn hindrance(repository: &Repository, all: &BTreeMap<Vec<u8>, HeldFile>) -> Option<Hindrance> {
    let (path, HeldFile { fault, is_in_head }) = all.iter().next()?;
    let more = match all.len() - 1 {
        0 => String::new(),
        1 => "; 1 more file is held back".to_owned(),
        more => format!("; {more} more files are held back"),
    };
    let what = if fault.is_to_be_edited() {
        "edit the file, or commit and push it yourself if it is meant"
    } else {
        "restore the file, or commit and push it yourself if it is meant"
    };
    let why = format!("{}{fault}{more}; {what}", repository.shown(path));
    let next = match fault.is_to_be_edited() || !is_in_head {
        true => None,
        false => restore(repository, path),
    };
    Some(held(why, next))
}

/// What is said of a file whose writer does not know what has come in.
fn of_outdated(repository: &Repository) -> impl FnOnce((&Vec<u8>, &String)) -> Hindrance {
    move |(path, why)| {
        let path = repository.shown(path);
        held(
            format!("{path}: {why}, or commit and push it yourself if it is meant"),
            None,
        )
    }
}

/// The command that brings back the file of the last commit, and keeps what lies there now. Without a path it is that
/// of the whole database.
fn restore(repository: &Repository, path: &[u8]) -> Option<String> {
    let (git, prefix) = (
        &repository.git,
        repository.prefix.as_os_str().as_encoded_bytes(),
    );
    let what = match (path, prefix) {
        (b"", b"") => b".",
        (b"", prefix) => prefix,
        (path, _) => path,
    };
    let is_plain = |byte: &u8| !b"*?[\\:".contains(byte);
    let literal: &[&str] = if what.iter().all(is_plain) {
        &[]
    } else {
        &["--literal-pathspecs"]
    };
    let literal = || Part::Words(literal.iter().map(Into::into).collect());
    let (top, what) = (Part::Path(&git.dir), as_path(what));
    let file = git.dir.join(what);
    let meta = (!path.is_empty())
        .then(|| fs::symlink_metadata(&file).ok())
        .flatten();
    let Some(meta) = meta else {
        return Some(to_type(
            "git -C {} {} checkout HEAD -- {}",
            &[top, literal(), Part::Path(what)],
        ));
    };
    let mine = mine(&file)?;
    let (file, mine) = (Part::Path(&file), Part::Path(&mine));
    let parts = [file, mine, top, literal(), Part::Path(what)];
    Some(if meta.is_file() {
        to_type("cp -p {} {} && git -C {} {} checkout HEAD -- {}", &parts)
    } else {
        to_type("mv {} {} && git -C {} {} checkout HEAD -- {}", &parts)
    })
}

/// A free name beside the file, of a kind that is not committed.
fn mine(file: &Path) -> Option<std::path::PathBuf> {
    (1..100_u32)
        .map(|number| {
            let mut name = file.file_name().unwrap_or_default().to_owned();
            if number > 1 {
                name.push(format!(".{number}"));
            }
            name.push(".mine");
            file.with_file_name(name)
        })
        .find(|mine| fs::symlink_metadata(mine).is_err())
}

/// A record file in two commits, by its ids.
struct TwoVersions {
    path: Vec<u8>,
    old: Option<String>,
    new: Option<String>,
}

/// The record files of the database that two commits have otherwise.
fn changed_between(
    repository: &Repository,
    from: &str,
    to: &str,
) -> Result<Vec<TwoVersions>, Stop> {
    let args = ["diff-tree", "-r", "-z", "--no-renames", from, to, "--"];
    let words = repository
        .git
        .call(args)
        .paths([repository.inside()])
        .words()?;
    let id = |mode: &[u8], id: &[u8]| {
        let is_file = mode.trim_ascii_start().starts_with(b"100");
        is_file.then(|| String::from_utf8_lossy(id).into_owned())
    };
    let versions = |pair: &[Vec<u8>]| {
        // `:MODE MODE ID ID STATUS`, then the path.
        let fields: Vec<_> = pair[0].split(|byte| *byte == b' ').collect();
        let [old_mode, new_mode, old, new, ..] = fields.as_slice() else {
            return None;
        };
        let old_mode = old_mode.strip_prefix(b":").unwrap_or(old_mode);
        is_record_name(&pair[1]).then(|| TwoVersions {
            path: pair[1].clone(),
            old: id(old_mode, old),
            new: id(new_mode, new),
        })
    };
    Ok(words.chunks_exact(2).filter_map(versions).collect())
}

fn texts_of(git: &Git, versions: &[TwoVersions]) -> Result<HashMap<String, Text>, Stop> {
    let ids: BTreeSet<_> = versions
        .iter()
        .flat_map(|versions| [&versions.old, &versions.new])
        .flatten()
        .map(String::as_str)
        .collect();
    blobs::contents(git, ids.into_iter())
}

/// Refuses to push commits with a version that is held: somebody has committed it by hand, and pushes it by hand.
pub(crate) fn refuse_ahead(repository: &Repository, distance: &Distance) -> Result<(), Stop> {
    // One commit of this very sync was looked at before it was made.
    let Some(place) = distance.upstream.as_ref().filter(|_| !distance.is_ours) else {
        return Ok(());
    };
    let head = &distance.head.commit;
    let versions = changed_between(repository, place, head)?;
    let texts = texts_of(&repository.git, &versions)?;
    let text = |id: &Option<String>| {
        id.as_ref()
            .and_then(|id| texts.get(id))
            .map(|text| text.as_slice())
    };
    let mut faults = BTreeMap::new();
    for version in &versions {
        let (old, new) = (text(&version.old), text(&version.new));
        let blemish = new.and_then(|new| blemish(old.unwrap_or_default(), new));
        let mut fault = blemish.map(|(kind, line)| Fault::Line(kind, line));
        let mut loss = Loss::between(old, new);
        if fault.is_none() && loss.fault().is_some() {
            let ids = ids_in(repository, head)?;
            let others: BTreeSet<_> = ids
                .iter()
                .filter(|(path, _)| is_record_name(path) && **path != version.path)
                .map(|(_, id)| id.as_str())
                .collect();
            let others = blobs::contents(&repository.git, others.into_iter())?;
            loss.forget_moved(
                old.unwrap_or_default(),
                others.values().map(|text| text.as_slice()),
            );
            fault = loss.fault();
        }
        if let Some(fault) = fault {
            faults.insert(version.path.as_slice(), fault);
        }
    }
    let Some((path, fault)) = faults.first_key_value() else {
        return Ok(());
    };
    let what = if fault.is_to_be_edited() {
        "edit the file, or push that yourself if it is meant"
    } else {
        "push that yourself if it is meant"
    };
    let why = format!(
        "{}{fault}, in {} that {} not pushed; {what}",
        repository.shown(path),
        counted(distance.ahead, "commit"),
        if distance.ahead == 1 { "is" } else { "are" },
    );
    let stop = Stop::notice(
        Event::NotPushing,
        HindranceKind::NotPushing,
        GitReason::Held,
        why,
    );
    Err(match fault.is_to_be_edited() {
        true => stop,
        false => stop.next(to_type(
            "git -C {} push",
            &[Part::Path(&repository.git.dir)],
        )),
    })
}

/// Refuses a pull of a record file with a line that no record file should have, and that the one here has not.
pub(crate) fn refuse_arriving(
    repository: &Repository,
    upstream: &Upstream,
    (from, to): (&str, &str),
) -> Result<(), Stop> {
    let mut versions = changed_between(repository, from, to)?;
    versions.retain(|versions| versions.new.is_some());
    let texts = texts_of(&repository.git, &versions)?;
    let text = |id: &Option<String>| {
        id.as_ref()
            .and_then(|id| texts.get(id))
            .map(|text| text.as_slice())
            .unwrap_or_default()
    };
    let found = versions.iter().find_map(|versions| {
        let (kind, line) = blemish(text(&versions.old), text(&versions.new))?;
        Some((&versions.path, kind, line))
    });
    let Some((path, kind, line)) = found else {
        return Ok(());
    };
    let what = match kind {
        BlemishKind::Marker => "conflict markers",
        BlemishKind::Nul => "NUL bytes",
        BlemishKind::Torn => "a line that is not JSON (cut off?)",
        BlemishKind::NotJson => "a line that is not JSON",
    };
    let why = format!(
        "{} has {what} in {}, line {line}; pull it yourself if it is meant",
        upstream.name(),
        repository.shown(path),
    );
    let stop = Stop::notice(
        Event::NotPulling,
        HindranceKind::NotPulling,
        GitReason::Held,
        why,
    );
    let top = Part::Path(&repository.git.dir);
    // Where commits are ahead, git would ask how to go on.
    let is_ahead = repository.commit_of(&upstream.tracking)?.as_deref() != Some(to);
    Err(stop.next(if is_ahead {
        to_type("git -C {} pull --rebase", &[top])
    } else {
        to_type("git -C {} pull", &[top])
    }))
}

/// Refuses a tree that has become another one since its files were looked at, where it has a version that is held: the
/// next look sees it.
pub(crate) fn refuse_changed(
    repository: &Repository,
    before: &str,
    tree: &str,
) -> Result<(), Stop> {
    let versions = changed_between(repository, before, tree)?;
    let texts = texts_of(&repository.git, &versions)?;
    let text = |id: &Option<String>| {
        id.as_ref()
            .and_then(|id| texts.get(id))
            .map(|text| text.as_slice())
    };
    let is_held = |versions: &&TwoVersions| {
        let (old, new) = (text(&versions.old), text(&versions.new));
        let has_blemish = || {
            new.and_then(|new| blemish(old.unwrap_or_default(), new))
                .is_some()
        };
        new.is_some() && (has_blemish() || Loss::between(old, new).is_of_all())
    };
    let mut refused = versions.iter().find(is_held);
    for versions in &versions {
        if let (Some(old), Some(new), None) = (text(&versions.old), text(&versions.new), refused)
            && versions::is_outdated(repository, &versions.path, (old, new))?
        {
            refused = Some(versions);
        }
    }
    match refused {
        None => Ok(()),
        Some(versions) => Err(Stop::moved(format!(
            "{} was written while it was committed; the next cycle looks at it again",
            repository.shown(&versions.path)
        ))),
    }
}

#[cfg(test)]
mod tests;
