//! Record files that are held back: one with conflict markers, a torn line or NUL bytes, or one that has lost most of
//! its records, is neither committed nor pushed by the agent. A person who means it commits and pushes it by hand.
//!
//! A version is compared with the one at the place, so a fault that is there already holds nothing. The judgement
//! ([`fault`]) is pure; what it needs is read once ([`RecordChange`]).
//!
//! Limits: a symbolic link in the place of a record file is not looked into, and a file that git keeps as something
//! other than lines of JSON (encrypted, or as a pointer) is not judged.

mod commits;
mod fault;
mod records;
mod words;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use beadlock_core::facts;
use beadlock_records::BlemishKind;

pub(crate) use self::commits::{refuse_ahead, refuse_arriving, refuse_changed};
use self::fault::{Fault, RecordLoss};
pub(crate) use self::records::RecordChange;
use self::records::{Text, ids_in, read};
use self::words::{held, hindrance, restore};
use crate::route::Route;
use crate::versions::{self, Looked};
use crate::{DatabaseChanges, Event, index, kept};
use beadlock_repository::names::is_record_name;
use beadlock_repository::{
    BranchHead, Hindrance, Repository, RepositoryLock, SyncMessage, SyncStop, as_path, blobs, say,
};

/// Files that say something to git, and are no records.
const OF_GIT: [&str; 2] = [".gitignore", ".gitattributes"];
/// How long a file with a torn last line must be left alone until that is told: its writer may be at work.
const QUIET: Duration = Duration::from_secs(10);
/// The time between two looks at a file that has lost records.
const APART: Duration = Duration::from_secs(1);
/// How often a file is looked at that changes between two looks.
const LOOKS: usize = 3;

/// A record file whose version here is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeldFile {
    fault: Fault,
    /// Whether the last commit has a version of it.
    is_in_head: bool,
}

/// The changes of a database that are held back, and the files that are being written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    /// The files that are held back, as paths from the top of the working tree.
    paths: BTreeSet<Vec<u8>>,
    /// The commit of the place that the versions were compared with; `None` for the last commit itself.
    place: Option<String>,
    /// Files that somebody is writing just now: they are committed by a later cycle.
    pub(crate) writing: Vec<Vec<u8>>,
    /// The record files that are committed, as they were judged.
    judged: BTreeMap<Vec<u8>, Text>,
    /// The hindrance for the state of the database; `None` where nothing is held back.
    pub(crate) hindrance: Option<Hindrance>,
}

/// The newest commit of the place that the branch has: what is changed here was changed from there on. Without a place
/// it is the last commit.
fn place_of(repository: &Repository, head: &BranchHead) -> Result<String, SyncStop> {
    let settings = repository.settings()?;
    let route = Route::of(repository, settings, &head.branch).ok();
    let place = match &route {
        Some(route) => {
            let place = route.places().next().unwrap_or_else(|| route.first());
            repository.commit_of(&place.tracking)?
        }
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

impl HeldBack {
    /// Takes the files that are held back or being written out of the changes.
    pub(crate) fn take_out(
        turn: &RepositoryLock<'_>,
        head: &BranchHead,
        changes: &mut DatabaseChanges,
    ) -> Result<Self, SyncStop> {
        let repository = turn.repository;
        let are_records = |paths: &[Vec<u8>]| paths.iter().any(|path| is_record_name(path));
        if changes.gone.is_empty() && !are_records(&changes.present) {
            return Ok(Self::default());
        }
        let place = place_of(repository, head)?;
        let mut records = RecordChange::read_all(repository, changes, head, &place)?;
        let mut judge = Judge {
            repository,
            commit: &head.commit,
            changes,
            held: BTreeMap::new(),
            outdated: BTreeMap::new(),
            writing: BTreeSet::new(),
            judged: BTreeMap::new(),
            filtered: BTreeSet::new(),
        };
        judge.blemishes(&mut records)?;
        // It may give back what seems to be lost.
        judge.merge_in_the_unknown(turn, &mut records)?;
        judge.losses(&mut records)?;
        // That takes its time, in which somebody may have written.
        judge.merge_in_the_unknown(turn, &mut records)?;
        if let Some(held) = judge.all_gone(&place, &records)? {
            *changes = DatabaseChanges::default();
            return Ok(held);
        }
        let Judge {
            held,
            outdated,
            writing,
            mut judged,
            filtered,
            ..
        } = judge;
        judged.retain(|path, _| !filtered.contains(path));
        let paths: BTreeSet<_> = held.keys().chain(outdated.keys()).cloned().collect();
        let of_outdated = || {
            let (path, why) = outdated.first_key_value()?;
            Some(words::of_outdated(repository, path, why))
        };
        let held = Self {
            hindrance: hindrance(repository, &held).or_else(of_outdated),
            place: (place != head.commit).then_some(place),
            writing: writing.iter().cloned().collect(),
            judged,
            paths,
        };
        changes.leave(&held.paths);
        changes.leave(&writing);
        Ok(held)
    }

    /// Sets the held files in an index back to those of a commit: a hook may have added them.
    pub(crate) fn set_back(
        &self,
        repository: &Repository,
        index: &Path,
        commit: &str,
    ) -> Result<(), SyncStop> {
        let paths: Vec<_> = self.paths.iter().chain(&self.writing).cloned().collect();
        match paths.is_empty() {
            true => Ok(()),
            false => index::set(&repository.git, index, commit, &paths),
        }
    }

    /// Puts record files into an index as they were judged, where somebody has written to them since: what nobody has
    /// judged is for the next cycle.
    pub(crate) fn stage_as_judged(
        &self,
        repository: &Repository,
        index: &Path,
    ) -> Result<(), SyncStop> {
        let git = &repository.git;
        let is_changed = |path: &[u8], text: &Text| {
            !self.has(path) && read(&git.dir.join(as_path(path))).as_ref() != Some(text)
        };
        let mut entries = Vec::new();
        for (path, text) in &self.judged {
            if !is_changed(path, text) {
                continue;
            }
            let listed = git.call(["ls-files", "--stage", "-z", "--"]).index(index);
            let listed = listed.paths([path]).words()?;
            let mode = listed.first().and_then(|entry| entry.get(..6));
            let mode = mode.unwrap_or(b"100644");
            let mut how = b"--path=".to_vec();
            how.extend_from_slice(path);
            let id = git.call(["hash-object", "-w", "--stdin"]).paths([how]);
            let id = id.stdin(text.to_vec()).text()?;
            entries.extend([mode, b" ", id.as_bytes(), b"\t", path, b"\0"].concat());
        }
        if entries.is_empty() {
            return Ok(());
        }
        let args = ["update-index", "--replace", "-z", "--index-info"];
        git.call(args).index(index).stdin(entries).done().map(drop)
    }

    /// The files that are held back or being written, as paths from the top of the working tree.
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

/// The findings about the changed record files, while they are judged one after another.
struct Judge<'a> {
    repository: &'a Repository,
    /// The last commit.
    commit: &'a str,
    changes: &'a DatabaseChanges,
    held: BTreeMap<Vec<u8>, HeldFile>,
    /// Files whose writer does not know what has come in, twice, and the sentence about each.
    outdated: BTreeMap<Vec<u8>, String>,
    writing: BTreeSet<Vec<u8>>,
    /// The contents of which it is known that their writers knew of everything.
    judged: BTreeMap<Vec<u8>, Text>,
    /// Files that git commits otherwise than they lie here.
    filtered: BTreeSet<Vec<u8>>,
}

impl Judge<'_> {
    /// Merges into each file the records that its writer did not know of: they had come in since the writer read the
    /// file.
    fn merge_in_the_unknown(
        &mut self,
        turn: &RepositoryLock<'_>,
        records: &mut [RecordChange],
    ) -> Result<(), SyncStop> {
        for change in records {
            let (Some(head), Some(here)) = (&change.head, &change.here) else {
                continue;
            };
            if self.is_taken(&change.path) || self.judged.get(&change.path) == Some(here) {
                continue;
            }
            self.judged.insert(change.path.clone(), here.clone());
            kept::edited(self.repository, &change.path, head, here)?;
            let changed = versions::ChangedFile {
                path: &change.path,
                head,
                commit: self.commit,
                here: here.to_vec(),
            };
            match versions::look(turn, changed)? {
                Looked::Fine => {}
                Looked::Merged(merged) => {
                    let merged = Text::new(merged);
                    self.judged.insert(change.path.clone(), merged.clone());
                    change.here = Some(merged);
                }
                Looked::Held(why) => drop(self.outdated.insert(change.path.clone(), why)),
            }
        }
        Ok(())
    }

    /// Holds back files with lines that must not be there.
    fn blemishes(&mut self, records: &mut [RecordChange]) -> Result<(), SyncStop> {
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

    /// Holds back files in which records are gone, or older.
    fn losses(&mut self, records: &mut [RecordChange]) -> Result<(), SyncStop> {
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
    fn look_twice(&mut self, records: &mut [RecordChange]) -> BTreeMap<usize, RecordLoss> {
        let file = |change: &RecordChange| self.repository.git.dir.join(as_path(&change.path));
        let mut losses: BTreeMap<usize, RecordLoss> = (0..records.len())
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
                change.here = again.map(Rc::new);
                let loss = change.loss();
                // Whoever adds to the file at its end is not in the middle of it.
                let is_only_longer = losses[&at].lost_the_same_as(&loss);
                losses.insert(at, loss);
                if is_only_longer {
                    continue;
                }
                is_same = false;
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

    /// Whether somebody has written to the file a moment ago. With `--once` no other cycle comes that could look again.
    fn is_at_work(&self, path: &[u8]) -> bool {
        let file = self.repository.git.dir.join(as_path(path));
        !self.repository.request.is_once && !left_until(&file, QUIET).is_zero()
    }

    /// The file as git would commit it, where it is not as it lies here: a filter or another encoding. Returns whether
    /// it is another content.
    fn clean(&mut self, change: &mut RecordChange) -> Result<bool, SyncStop> {
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
                self.filtered.insert(change.path.clone());
                change.here = Some(text);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The other record files that are, or will be, in git.
    fn others(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, SyncStop> {
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
    fn all_gone(
        &self,
        place: &str,
        records: &[RecordChange],
    ) -> Result<Option<HeldBack>, SyncStop> {
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
        Ok(Some(HeldBack {
            judged: BTreeMap::new(),
            paths: ids.into_keys().collect(),
            place: None,
            writing: Vec::new(),
            hindrance: Some(held(why, next)),
        }))
    }

    /// The ids that the new files would have in git.
    fn new_ids(&self) -> Result<HashSet<String>, SyncStop> {
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
