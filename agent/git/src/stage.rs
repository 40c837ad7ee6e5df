//! The files of a move of the working tree, aside: the new ones until each is exchanged with the old one, and the old
//! ones after that, until nobody writes to them any more.
//!
//! The plan is written before the first file is exchanged. After a kill each file is wholly the old or wholly the new
//! one, and nothing else is noted: what lies here and in the working tree tells how far the move has come. A file that
//! is neither as it was nor as it was to be is somebody's writing, and is merged in ([`records`]).
//! Where the branch has not moved, the files go back ([`MoveStage::take_back`]); where it has, the move stands
//! ([`MoveStage::gather`]).

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::sys::{self, Flock};
use serde::{Deserialize, Serialize};

use crate::open_files::{self, InodeNumber, Writers};
use crate::{IndexLock, WorktreeMove, index, other_databases, records, versions};
use beadlock_repository::content::FileContent;
use beadlock_repository::tree::{FileTree, Put};
use beadlock_repository::{
    GitReason, Repository, RepositoryLock, SyncStop, as_path, entries, is_database_name,
    repository_lock,
};

/// Where the plan and the files are, in the git directory; and in the database, where that is on another mount.
const IN_GIT: &str = "beadlock.stage";
const IN_DATABASE: &str = ".exclusive-lock.stage";
const PLAN: &str = "plan";
/// The result of a merge that is not written whole yet.
const DRAFT: &str = "draft";
/// How often a file is merged again because somebody has written to it meanwhile.
const ROUNDS: usize = 20;
/// How long a program may have a file locked before the pull is left to the next cycle.
const PATIENCE: Duration = Duration::from_secs(2);
/// The least page of a file in memory.
const PAGE: usize = 4096;

/// Where a text can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The file as this commit has it, as it is checked out.
    Commit(String),
    /// A blob whose bytes are the file's.
    Blob(String),
    /// There is no such file.
    Nowhere,
}

/// A file that moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moving {
    /// The path from the top of the working tree.
    pub(crate) path: Vec<u8>,
    /// The content in the working tree before the move, where the old commit has it. `None` where nothing was there, or
    /// something else.
    pub(crate) old: Option<FileContent>,
    /// The content after the move; `None` for a file that goes.
    pub(crate) new: Option<FileContent>,
    pub(crate) old_text: Source,
    pub(crate) new_text: Source,
    /// Whether it is a record file of a database: text that is written meanwhile can be merged in.
    pub(crate) is_record_file: bool,
}

impl Moving {
    pub(crate) fn path(&self) -> &Path {
        as_path(&self.path)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    branch: String,
    from: String,
    to: String,
    files: Vec<Moving>,
    /// The stage in a database on another mount.
    in_database: Option<PathBuf>,
}

/// Files aside, all on one mount.
#[derive(Debug)]
struct Aside {
    dir: PathBuf,
    mount: u64,
    new: FileTree,
    gone: FileTree,
    /// The new files of which the end is added in place.
    appended: FileTree,
}

impl Aside {
    fn make(dir: PathBuf) -> Result<Self, SyncStop> {
        let make = |dir: &Path| {
            let [new, gone, appended] = ["new", "gone", "appended"].map(|name| dir.join(name));
            let new = FileTree::make(&new)?;
            let mount = new.mount_of(Path::new("x"))?;
            Ok((
                mount,
                new,
                FileTree::make(&gone)?,
                FileTree::make(&appended)?,
            ))
        };
        let made = make(&dir).map_err(|error| SyncStop::io("cannot make", &dir, &error));
        let (mount, new, gone, appended) = made?;
        Ok(Self {
            dir,
            mount,
            new,
            gone,
            appended,
        })
    }

    /// The results of merges, each in a tree of its own.
    fn merged(&self) -> Vec<FileTree> {
        let existing = |number: usize| {
            FileTree::existing(&self.dir.join(format!("merged{number}")))
                .ok()
                .flatten()
        };
        (0..).map_while(existing).collect()
    }

    fn has_merged(&self, path: &Path) -> bool {
        let has = |tree: &FileTree| matches!(tree.look(path), Ok(Some(_)));
        self.merged().iter().any(has)
    }

    /// The texts of a file in the results of merges, and those that were swapped out for them.
    fn texts(&self, path: &Path) -> Vec<Vec<u8>> {
        let read = |tree: &FileTree| tree.read(path).ok().flatten();
        self.merged().iter().filter_map(read).collect()
    }
}

/// Texts of files as they are checked out, by commit and path.
type HeadTexts = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// A move of the working tree, prepared or under way.
#[derive(Debug)]
#[must_use = "the files aside stay there"]
pub(crate) struct MoveStage<'a> {
    repository: &'a Repository,
    /// The working tree.
    files: FileTree,
    asides: Vec<Aside>,
    plan: Plan,
    /// The commit at which the branch is when this has ended.
    ends_at: RefCell<String>,
    /// The texts of files in the commits of `ends_at`.
    heads: RefCell<HeadTexts>,
    /// Files aside that nobody had open for writing when they were there already: nobody writes to them any more.
    closed: RefCell<BTreeSet<InodeNumber>>,
    /// The texts that were read from files aside, and are merged in.
    taken: RefCell<BTreeMap<InodeNumber, Vec<u8>>>,
    /// Files that a program was about to write anew when it was looked at last.
    unwritten: RefCell<BTreeSet<Vec<u8>>>,
}

/// Whether somebody has the turn, or was killed in it, or has left something to be looked at.
pub(crate) fn anything_is_left(repository: &Repository) -> bool {
    fs::symlink_metadata(repository_lock::path(repository)).is_ok()
        || is_left(repository)
        || open_files::are_there(repository)
}

/// Whether a stage is there: a sync was killed, or is at work.
pub(crate) fn is_left(repository: &Repository) -> bool {
    fs::symlink_metadata(repository.git_dir.join(IN_GIT)).is_ok()
}

impl<'a> MoveStage<'a> {
    /// An empty stage, for the sync that has the turn.
    pub(crate) fn begin(repository: &'a Repository, way: &WorktreeMove) -> Result<Self, SyncStop> {
        remove_all(&repository.git_dir.join(IN_GIT))?;
        let in_git = Aside::make(repository.git_dir.join(IN_GIT))?;
        let files = repository.files.clone();
        let beside = |error| SyncStop::io("cannot look at", &repository.request.dir, &error);
        let here = files
            .mount_of(&repository.prefix.join("x"))
            .map_err(beside)?;
        let mut asides = vec![in_git];
        let mut in_database = None;
        if here != asides[0].mount {
            let dir = repository.request.dir.join(IN_DATABASE);
            remove_all(&dir)?;
            asides.push(Aside::make(dir.clone())?);
            in_database = Some(dir);
        }
        let WorktreeMove { branch, from, to } = way.clone();
        let plan = Plan {
            branch,
            from,
            to,
            files: Vec::new(),
            in_database,
        };
        let ends_at = plan.to.clone();
        Ok(Self {
            repository,
            files,
            asides,
            plan,
            ends_at: RefCell::new(ends_at),
            heads: RefCell::default(),
            closed: RefCell::default(),
            taken: RefCell::default(),
            unwritten: RefCell::default(),
        })
    }

    /// The stage that a sync has left which was killed. `None` where nothing was exchanged; it is removed then.
    pub(crate) fn left(repository: &'a Repository) -> Result<Option<Self>, SyncStop> {
        let dir = repository.git_dir.join(IN_GIT);
        if fs::symlink_metadata(&dir).is_err() {
            return Ok(None);
        }
        let Some(plan) = fs::read(dir.join(PLAN))
            .ok()
            .and_then(|text| serde_json::from_slice::<Plan>(&text).ok())
        else {
            remove_all(&dir)?;
            remove_all(&repository.request.dir.join(IN_DATABASE))?;
            return Ok(None);
        };
        let mut asides = vec![Aside::make(dir)?];
        if let Some(dir) = plan.in_database.clone().filter(|dir| dir.is_dir()) {
            asides.push(Aside::make(dir)?);
        }
        let ends_at = plan.to.clone();
        for (aside, moving) in asides
            .iter()
            .flat_map(|aside| plan.files.iter().map(move |moving| (aside, moving)))
        {
            for tree in [&aside.new].into_iter().chain(&aside.merged()) {
                let ended = tree.end_exchange(moving.path());
                ended.map_err(|error| SyncStop::io("cannot replace", &tree.path, &error))?;
            }
        }
        Ok(Some(Self {
            repository,
            files: repository.files.clone(),
            asides,
            plan,
            ends_at: RefCell::new(ends_at),
            heads: RefCell::default(),
            closed: RefCell::default(),
            taken: RefCell::default(),
            unwritten: RefCell::default(),
        }))
    }

    pub(crate) fn way(&self) -> WorktreeMove {
        let Plan {
            branch, from, to, ..
        } = self.plan.clone();
        WorktreeMove { branch, from, to }
    }

    pub(crate) fn files(&self) -> &FileTree {
        &self.files
    }

    /// Whether the path is a record file of a database, this one or another.
    pub(crate) fn is_of_records(&self, path: &[u8]) -> bool {
        records::is_record_file(path) && self.repository.has_anywhere(path)
    }

    pub(crate) fn moving(&self) -> &[Moving] {
        &self.plan.files
    }

    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        self.plan
            .files
            .iter()
            .map(|moving| moving.path.clone())
            .collect()
    }

    /// The directories for files aside on the mount of this path; `None` where it is on another mount than they are.
    fn aside(&self, path: &Path) -> Option<&Aside> {
        let mount = self.files.mount_of(path).ok()?;
        self.asides.iter().find(|aside| aside.mount == mount)
    }

    /// The tree in which the new file of this path waits, and the old one stays after the exchange.
    pub(crate) fn new_of(&self, path: &Path) -> Result<&FileTree, SyncStop> {
        match self.aside(path) {
            Some(aside) => Ok(&aside.new),
            None => Err(self.elsewhere(path)),
        }
    }

    fn elsewhere(&self, path: &Path) -> SyncStop {
        let path = self.repository.shown(path.as_os_str().as_encoded_bytes());
        let why = format!("{path} is on another mount than the repository and the database");
        SyncStop::not_pulling(GitReason::InTheWay, why)
    }

    /// Writes the plan: the files that are about to move. From here on, the next sync finishes the stage after a kill.
    pub(crate) fn note(&mut self, files: Vec<Moving>) -> Result<(), SyncStop> {
        self.plan.files = files;
        let dir = self.asides[0].dir.clone();
        let failed = |error| SyncStop::io("cannot write", &dir, &error);
        self.sync_files().map_err(failed)?;
        let text = serde_json::to_vec(&self.plan).unwrap_or_default();
        repository_lock::write_whole(&dir.join(PLAN), &text)?;
        fs::File::open(&dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)
    }

    /// Writes out the new files: an exchange does not do so, as a plain rename does.
    fn sync_files(&self) -> io::Result<()> {
        const FEW: usize = 32;
        for aside in &self.asides {
            if self.plan.files.len() > FEW {
                aside.new.sync_all()?;
                continue;
            }
            for moving in &self.plan.files {
                aside.new.sync_file(moving.path())?;
                aside.new.sync_dir(moving.path())?;
            }
        }
        Ok(())
    }

    /// Writes out the directories of the moved files, so that the move survives a power cut.
    pub(crate) fn sync_tree(&self) -> Result<(), SyncStop> {
        let mut dirs: Vec<_> = self
            .plan
            .files
            .iter()
            .map(|moving| moving.path().parent().unwrap_or(Path::new("")).join("x"))
            .collect();
        dirs.sort();
        dirs.dedup();
        let synced = match dirs.len() {
            0..=32 => dirs.iter().try_for_each(|dir| self.files.sync_dir(dir)),
            _ => self.files.sync_all(),
        };
        synced.map_err(|error| SyncStop::io("cannot write out", &self.files.path, &error))
    }

    /// Exchanges one file, puts it where nothing was, or takes it away.
    pub(crate) fn step(&self, moving: &Moving) -> Result<Stepped, SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let aside = self.aside(path).ok_or_else(|| self.elsewhere(path))?;
        if moving.new.is_none() {
            return self.take_away(moving, aside);
        }
        for _ in 0..ROUNDS {
            match self.files.look(path).map_err(failed)? {
                // It is there already.
                there if there == moving.new => return Ok(Stepped::Done),
                // All files of a directory that goes are gone by now.
                Some(FileContent::Other) if self.files.remove_dir(path) => {}
                Some(FileContent::Other) => return Ok(Stepped::InTheWay),
                // Nobody is to see the file without what is in it now.
                Some(there @ FileContent::File { .. })
                    if moving.is_record_file
                        && (moving.old.as_ref() != Some(&there)
                            || self.latest(moving)?.is_some()) =>
                {
                    return self.join(moving, aside);
                }
                Some(_) => match self.files.exchange(&aside.new, path) {
                    Ok(()) => {
                        if let Some(stepped) = self.swapped(moving, aside)? {
                            return Ok(stepped);
                        }
                    }
                    // A tool that replaces a file may remove the old one first.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(failed(error)),
                },
                None => {
                    if aside.new.move_to(&self.files, path).map_err(failed)? == Put::Done {
                        return Ok(Stepped::Done);
                    }
                }
            }
            if aside.new.look(path).map_err(failed)?.is_none() {
                return Err(failed(io::ErrorKind::NotFound.into()));
            }
        }
        Err(self.never_rests(moving))
    }

    fn take_away(&self, moving: &Moving, aside: &Aside) -> Result<Stepped, SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let moved = self.files.move_to(&aside.gone, path).map_err(failed)?;
        self.look_who_writes(&aside.gone, path)?;
        if moved == Put::Otherwise || aside.gone.look(path).map_err(failed)? == moving.old {
            return Ok(Stepped::Done);
        }
        // What somebody has written is no longer what was to go.
        self.put_back(moving, aside)?;
        Ok(if moving.is_record_file {
            Stepped::Done
        } else {
            Stepped::InTheWay
        })
    }

    /// Looks at what was swapped out. What somebody has just written has its place again; `None` where that is to be
    /// merged in.
    fn swapped(&self, moving: &Moving, aside: &Aside) -> Result<Option<Stepped>, SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        self.look_who_writes(&aside.new, path)?;
        let out = aside.new.look(path).map_err(failed)?;
        if out == moving.old || out == moving.new {
            return Ok(Some(Stepped::Done));
        }
        self.files.exchange(&aside.new, path).map_err(failed)?;
        if moving.is_record_file {
            return Ok(None);
        }
        if aside.new.look(path).map_err(failed)? != moving.new {
            self.save(moving, &aside.new)?;
        }
        Ok(Some(Stepped::InTheWay))
    }

    /// Merges what is in a record file, and in no commit, with the new one, and puts that there.
    fn join(&self, moving: &Moving, aside: &Aside) -> Result<Stepped, SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let base = self.text(&moving.old_text, path)?;
        let new = self.text(&moving.new_text, path)?;
        let there = self.late_text(moving, &self.files, &base)?;
        let merged = match self.latest(moving)? {
            Some(latest) => {
                let versions = (latest.as_slice(), base.as_slice());
                let (repository, path) = (self.repository, &moving.path);
                let whole = versions::completed(repository, path, versions, there.clone())?;
                let merged = records::late(repository, as_path(path), &base, &new, &whole)?;
                self.note_late(moving, &there, &merged)?;
                merged
            }
            None => self.late(moving, &[&base], &new, &there)?,
        };
        // In its place for a moment, the new one may have been written to.
        let merged = match aside.new.look(path).map_err(failed)? == moving.new {
            true => merged,
            false => {
                let written = self.late_text(moving, &aside.new, &new)?;
                self.late(moving, &[&new, &base], &merged, &written)?
            }
        };
        self.merge_in(moving, there, merged)?;
        Ok(Stepped::Merged)
    }

    /// The text that a sync has put into a record file, and that no commit has yet; `None` without one.
    fn latest(&self, moving: &Moving) -> Result<Option<Vec<u8>>, SyncStop> {
        let Plan { from, to, .. } = &self.plan;
        if !moving.is_record_file || from == to {
            return Ok(None);
        }
        versions::uncommitted(self.repository, &moving.path, from)
    }

    /// A file that is aside gets no new writers. So before it is read this asks whether it has any.
    fn look_who_writes(&self, tree: &FileTree, path: &Path) -> Result<(), SyncStop> {
        let opened = tree.open_file(path);
        let Some(file) = opened.map_err(|error| self.failed(path, &error))? else {
            return Ok(());
        };
        let inode = open_files::inode(&file);
        match open_files::writers(&file) {
            Writers::None => self.closed.borrow_mut().extend(inode),
            _ => {
                let mut closed = self.closed.borrow_mut();
                closed.retain(|closed| Some(*closed) != inode);
            }
        }
        Ok(())
    }

    /// The text that somebody has written to a file that is replaced, made of `base`. For a program that is about to
    /// write all of it anew this waits a little; then nothing counts as written yet, and the file is kept.
    fn late_text(
        &self,
        moving: &Moving,
        tree: &FileTree,
        base: &[u8],
    ) -> Result<Vec<u8>, SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let begun = Instant::now();
        loop {
            let Some(file) = tree.open_file(path).map_err(failed)? else {
                return Ok(base.to_vec());
            };
            self.look_who_writes(tree, path)?;
            let text = tree.read(path).map_err(failed)?.unwrap_or_default();
            if !open_files::is_being_written(&file, base, &text) {
                let inode = open_files::inode(&file);
                let taken = inode.map(|inode| (inode, text.clone()));
                self.taken.borrow_mut().extend(taken);
                return Ok(text);
            }
            if begun.elapsed() >= PATIENCE {
                return Ok(base.to_vec());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Brings the result of a merge to a file in which `here` was, and merges in what is written meanwhile.
    fn merge_in(
        &self,
        moving: &Moving,
        mut here: Vec<u8>,
        mut merged: Vec<u8>,
    ) -> Result<(), SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let aside = self.aside(path).ok_or_else(|| self.elsewhere(path))?;
        for _ in 0..ROUNDS {
            if merged == here {
                return Ok(());
            }
            let tree = self.write_merged(aside, path, &merged)?;
            match self.files.exchange(&tree, path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match tree.move_to(&self.files, path).map_err(failed)? {
                        Put::Done => return Ok(()),
                        Put::Otherwise => continue,
                    }
                }
                Err(error) => return Err(failed(error)),
            }
            let out = self.late_text(moving, &tree, &here)?;
            if out == here {
                return Ok(());
            }
            let more = self.late(moving, &[&here], &merged, &out)?;
            (here, merged) = (merged, more);
        }
        Err(self.never_rests(moving))
    }

    /// Merges a text into another one. It was made of one of these versions, or of an older one.
    fn late(
        &self,
        moving: &Moving,
        of: &[&[u8]],
        here: &[u8],
        late: &[u8],
    ) -> Result<Vec<u8>, SyncStop> {
        if of.contains(&late) {
            return Ok(here.to_vec());
        }
        let repository = self.repository;
        let known = versions::known(repository, &moving.path, of, late)?;
        let path = moving.path();
        let merged = records::late(repository, path, &known.base, here, &known.text)?;
        self.note_late(moving, late, &merged)?;
        Ok(merged)
    }

    /// Notes a text that a program has written, and what was made of it: the program goes on from its own text.
    fn note_late(&self, moving: &Moving, late: &[u8], merged: &[u8]) -> Result<(), SyncStop> {
        let (repository, on) = (self.repository, self.ends_at.borrow());
        let mut heads = self.heads.borrow_mut();
        let key = (on.clone(), moving.path.clone());
        let head = match heads.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let text = records::text_of(&repository.git, &on, moving.path())?;
                new.insert(text.unwrap_or_default())
            }
        };
        versions::found(repository, &moving.path, late, (merged, head), &on)
    }

    /// Writes the result of a merge aside: whole, or not at all.
    fn write_merged(&self, aside: &Aside, path: &Path, bytes: &[u8]) -> Result<FileTree, SyncStop> {
        let draft = aside.dir.join(DRAFT);
        remove_all(&draft)?;
        let name = aside.dir.join(format!("merged{}", aside.merged().len()));
        let write = || {
            let tree = FileTree::make(&draft)?;
            tree.write_new(path, bytes)?;
            tree.dress_as(&self.files, path)?;
            tree.sync_file(path)?;
            tree.renamed(&name)
        };
        write().map_err(|error| self.failed(path, &error))
    }

    fn never_rests(&self, moving: &Moving) -> SyncStop {
        let path = self.repository.shown(&moving.path);
        let why = format!("a program writes to {path} all the time");
        SyncStop::not_pulling(GitReason::InUse, why)
    }

    /// Puts a file that has no place any more beside the one that has.
    fn save(&self, moving: &Moving, tree: &FileTree) -> Result<(), SyncStop> {
        let bytes = tree.read(moving.path());
        if let Some(bytes) = bytes.map_err(|error| self.failed(moving.path(), &error))? {
            records::put_beside(self.repository, moving.path(), &bytes);
        }
        Ok(())
    }

    pub(crate) fn text(&self, source: &Source, path: &Path) -> Result<Vec<u8>, SyncStop> {
        let git = &self.repository.git;
        Ok(match source {
            Source::Commit(commit) => records::text_of(git, commit, path)?.unwrap_or_default(),
            Source::Blob(id) => git.call(["cat-file", "blob", id]).done()?.stdout,
            Source::Nowhere => Vec::new(),
        })
    }

    /// Puts every file back as it was before the move, with the text that was written since.
    pub(crate) fn take_back(&self) -> Result<(), SyncStop> {
        self.ends(&self.plan.from);
        self.take_back_of(|_| true)
    }

    /// Notes the commit at which the branch is when this has ended: it need not be the planned one.
    fn ends(&self, at: &str) {
        if self.plan.to != at {
            versions::not_moved(self.repository, &self.plan.to);
        }
        self.ends_at.replace(at.to_owned());
    }

    /// Puts the wanted files back as they were before the move, with the text that was written since.
    fn take_back_of(&self, is_wanted: impl Fn(&Moving) -> bool) -> Result<(), SyncStop> {
        // The last comes first: it may have the place of a directory in which an earlier one was.
        let files = self.plan.files.iter().rev();
        files
            .filter(|moving| is_wanted(moving))
            .try_for_each(|moving| self.take_back_one(moving))
    }

    fn take_back_one(&self, moving: &Moving) -> Result<(), SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let Some(aside) = self.aside(path) else {
            return Ok(());
        };
        if moving.new.is_none() {
            return match aside.gone.look(path).map_err(failed)? {
                Some(_) => self.put_back(moving, aside),
                None => Ok(()),
            };
        }
        let is_new_here = self.files.look(path).map_err(failed)? == moving.new;
        let out = aside.new.look(path).map_err(failed)?;
        let has_merged = aside.has_merged(path);
        let is_appended = matches!(aside.appended.look(path), Ok(Some(_)));
        if out.is_none() && !is_appended {
            if is_new_here {
                self.take_out(moving, aside)?;
            }
            return Ok(());
        }
        if out == moving.new && !has_merged {
            // Its turn had not come.
            return Ok(());
        }
        // What is no version of a commit is merged in and noted: a program may have read the new text meanwhile.
        let is_plain = out == moving.old || !moving.is_record_file;
        if is_new_here && !has_merged && !is_appended && is_plain {
            self.files.exchange(&aside.new, path).map_err(failed)?;
            if aside.new.look(path).map_err(failed)? == moving.new {
                return Ok(());
            }
            if !moving.is_record_file {
                // What somebody has just written stays.
                return self.files.exchange(&aside.new, path).map_err(failed);
            }
        }
        if !moving.is_record_file {
            return Ok(());
        }
        let (old, new) = (
            self.text(&moving.old_text, path)?,
            self.text(&moving.new_text, path)?,
        );
        let here = self.files.read(path).map_err(failed)?.unwrap_or_default();
        // Where nothing was swapped out, that is the old text.
        let out = self.late_text(moving, &aside.new, &old)?;
        let mut others = aside.texts(path);
        others.extend([out, here.clone()]);
        let all = self.merge_all(moving, [&new, &old], old.clone(), &others)?;
        // What is merged is made of what is there: so that is the base.
        self.merge_in(moving, here, all)
    }

    /// Takes out a file that was put where nothing was.
    fn take_out(&self, moving: &Moving, aside: &Aside) -> Result<(), SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        if self.files.move_to(&aside.new, path).map_err(failed)? == Put::Done
            && aside.new.look(path).map_err(failed)? != moving.new
        {
            // Somebody has written to it.
            if aside.new.move_to(&self.files, path).map_err(failed)? == Put::Otherwise {
                self.save(moving, &aside.new)?;
            }
            return Ok(());
        }
        // A file may have had the place of the directory.
        self.remove_empty_above(path);
        Ok(())
    }

    /// Puts a file that was taken away back in its place, together with the text that has come there meanwhile.
    fn put_back(&self, moving: &Moving, aside: &Aside) -> Result<(), SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let put = || match aside.gone.move_to(&self.files, path) {
            // Somebody has put a file in the place of a directory above: it stays.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Put::Otherwise),
            ended => ended.map_err(failed),
        };
        // A directory may have been made there, and nothing in it yet.
        if put()? == Put::Done || self.files.remove_dir(path) && put()? == Put::Done {
            return Ok(());
        }
        let (gone, here) = (
            aside.gone.look(path).map_err(failed)?,
            self.files.look(path).map_err(failed)?,
        );
        if gone.is_none() || gone == here {
            return Ok(());
        }
        if !moving.is_record_file || !matches!(here, Some(FileContent::File { .. })) {
            // What is in a commit is lost to nobody.
            return if gone == moving.old {
                Ok(())
            } else {
                self.save(moving, &aside.gone)
            };
        }
        let gone = aside.gone.read(path).map_err(failed)?.unwrap_or_default();
        let here = self.files.read(path).map_err(failed)?.unwrap_or_default();
        // Who made the file anew may have known the old one, or not.
        let base = records::nearer(&[&gone, b""], &here).to_vec();
        let all = records::late(self.repository, path, &base, &here, &gone)?;
        self.merge_in(moving, here, all)
    }

    /// Removes directories that are empty now, as git does; never the database, whose gate is an open directory.
    pub(crate) fn remove_empty_above(&self, path: &Path) {
        self.files.remove_empty_above(path, |dir| {
            self.repository.prefix.starts_with(dir) || dir.file_name().is_some_and(is_database_name)
        });
    }

    /// Merges other texts into one of a file; each was made of one of these versions, or of an older one.
    fn merge_all(
        &self,
        moving: &Moving,
        versions: [&[u8]; 2],
        mut all: Vec<u8>,
        others: &[Vec<u8>],
    ) -> Result<Vec<u8>, SyncStop> {
        for other in others {
            all = self.late(moving, &versions, &all, other)?;
        }
        Ok(all)
    }

    /// Lets the move stand, and merges in the text that was written to files which it has replaced.
    pub(crate) fn gather(&self) -> Result<(), SyncStop> {
        self.gather_of(|_| true)
    }

    fn gather_of(&self, is_wanted: impl Fn(&Moving) -> bool) -> Result<(), SyncStop> {
        let files = self.plan.files.iter();
        files
            .filter(|moving| is_wanted(moving))
            .try_for_each(|moving| self.gather_one(moving))
    }

    fn gather_one(&self, moving: &Moving) -> Result<(), SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let Some(aside) = self.aside(path) else {
            return Ok(());
        };
        if moving.new.is_none() {
            let gone = aside.gone.look(path).map_err(failed)?;
            return match gone.is_some() && gone != moving.old {
                true => self.put_back(moving, aside),
                false => Ok(()),
            };
        }
        let out = aside.new.look(path).map_err(failed)?;
        if out.is_none() || out == moving.old || out == moving.new {
            return Ok(());
        }
        let here = self.files.look(path).map_err(failed)?;
        if moving.is_record_file && here.is_some() {
            let (old, new) = (
                self.text(&moving.old_text, path)?,
                self.text(&moving.new_text, path)?,
            );
            let here = self.files.read(path).map_err(failed)?.unwrap_or_default();
            let mut others = aside.texts(path);
            // Who has written what is there may not have known the new text.
            others.extend([self.late_text(moving, &aside.new, &old)?, here.clone()]);
            let all = self.merge_all(moving, [&new, &old], new.clone(), &others)?;
            self.merge_in(moving, here, all)
        } else if here == moving.new {
            self.files.exchange(&aside.new, path).map_err(failed)
        } else {
            self.save(moving, &aside.new)
        }
    }

    /// Removes the files aside, but for those to which somebody may still write.
    pub(crate) fn end(self) -> Result<(), SyncStop> {
        for moving in self
            .plan
            .files
            .iter()
            .filter(|moving| moving.is_record_file)
        {
            let Some(aside) = self.aside(moving.path()) else {
                continue;
            };
            let merged = aside.merged();
            for tree in [&aside.new, &aside.gone].into_iter().chain(&merged) {
                self.keep(moving, tree)?;
            }
        }
        self.remove()
    }

    /// Keeps a file aside, where somebody may still write to it, or has done so since it was looked at.
    fn keep(&self, moving: &Moving, tree: &FileTree) -> Result<(), SyncStop> {
        let path = moving.path();
        let failed = |error: io::Error| self.failed(path, &error);
        let Some(file) = tree.open_file(path).map_err(failed)? else {
            return Ok(());
        };
        let inode = open_files::inode(&file);
        let is_closed = inode.is_some_and(|inode| self.closed.borrow().contains(&inode));
        let is_unwritten = self.unwritten.borrow().contains(&moving.path);
        if is_closed && !is_unwritten {
            return Ok(());
        }
        let writers = open_files::writers(&file);
        let now = tree.read(path).map_err(failed)?.unwrap_or_default();
        let is_known = |content: &Option<FileContent>| {
            content
                .as_ref()
                .is_some_and(|content| content.has_bytes(&now))
        };
        let taken = inode.and_then(|inode| self.taken.borrow().get(&inode).cloned());
        let merged = match taken {
            Some(taken) if !is_unwritten => taken,
            None if !is_unwritten && (is_known(&moving.old) || is_known(&moving.new)) => {
                now.clone()
            }
            _ => self.text(&moving.old_text, path)?,
        };
        if writers == Writers::None && merged == now && !is_unwritten {
            return Ok(());
        }
        open_files::keep(self.repository, tree, moving, &merged)
    }

    /// Removes the files aside, and the plan first: without it the rest means nothing.
    fn remove(&self) -> Result<(), SyncStop> {
        beadlock_repository::remove(&self.asides[0].dir.join(PLAN));
        for aside in &self.asides {
            remove_all(&aside.dir)?;
        }
        Ok(())
    }

    /// Waits a little until nobody has a file of this database locked (flock, fcntl), and keeps it locked against those
    /// who ask: two programs that lock the file before and after an exchange would lock two files.
    pub(crate) fn hold(&self, moving: &Moving) -> Result<Option<fs::File>, SyncStop> {
        let path = moving.path();
        if !self.repository.has(&moving.path) {
            return Ok(None);
        }
        let begun = Instant::now();
        loop {
            let Some(file) = self.files.open_file(path).ok().flatten() else {
                return Ok(None);
            };
            // Open for writing here for no longer than that, or this would be a program that writes to it.
            let is_free_of_ranges = |file: &fs::File| {
                let writable = self.files.open_to_append(path);
                writable.is_none_or(|file| sys::range_lock(&file, Flock::Try).unwrap_or(true))
                    && sys::range_lock(file, Flock::TryShared).unwrap_or(true)
            };
            // A file system without locks has none that are held.
            let is_free = sys::flock(&file, Flock::Try).unwrap_or(true) && is_free_of_ranges(&file);
            let is_still_there = || {
                let named = self.files.stat(path).ok().flatten();
                let open = rustix::fs::fstat(&file).ok();
                named.zip(open).is_some_and(|(named, open)| {
                    (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
                })
            };
            if is_free && is_still_there() {
                return Ok(Some(file));
            }
            if begun.elapsed() >= PATIENCE {
                let path = self.repository.shown(&moving.path);
                let why = format!("a program has {path} locked; the next cycle tries again");
                return Err(SyncStop::not_pulling(GitReason::InUse, why));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether somebody has a record file of this database open, and writes at its end. Asked before [`MoveStage::hold`]
    /// opens it.
    pub(crate) fn is_appended_to(&self, moving: &Moving) -> bool {
        moving.is_record_file
            && self.repository.has(&moving.path)
            && matches!(self.files.open_file(moving.path()), Ok(Some(file))
                if open_files::writers(&file) == Writers::Some && open_files::only_append(&file))
    }

    /// Where the new file is the old one and more: adds that in one write. So what a program that has the file open
    /// writes later is in the file, too.
    pub(crate) fn append(&self, moving: &Moving) -> Result<bool, SyncStop> {
        let path = moving.path();
        if !moving.is_record_file || moving.old.is_none() || moving.new.is_none() {
            return Ok(false);
        }
        let failed = |error: io::Error| self.failed(path, &error);
        let (Some(new), Some(here)) = (
            self.new_of(path)?.read(path).map_err(failed)?,
            self.files.read(path).map_err(failed)?,
        ) else {
            return Ok(false);
        };
        let tail = new.strip_prefix(here.as_slice()).unwrap_or_default();
        let is_whole = here.is_empty() || here.ends_with(b"\n");
        let Some(mut file) = self.files.open_to_append(path) else {
            return Ok(false);
        };
        // A kill cannot cut a write that stays within a page.
        let is_in_one = here.len() % PAGE + tail.len() <= PAGE;
        if tail.is_empty()
            || !is_whole
            || !is_in_one
            || self.files.look(path).map_err(failed)? != moving.old
        {
            return Ok(false);
        }
        // After a kill that tells what may have been done.
        let aside = self.aside(path).ok_or_else(|| self.elsewhere(path))?;
        aside.new.move_to(&aside.appended, path).map_err(failed)?;
        file.write_all(tail).map_err(failed)?;
        Ok(true)
    }

    fn failed(&self, path: &Path, error: &io::Error) -> SyncStop {
        const BUSY: i32 = nix::errno::Errno::EBUSY as i32;
        const OTHER_MOUNT: i32 = nix::errno::Errno::EXDEV as i32;
        match error.raw_os_error() {
            Some(BUSY | OTHER_MOUNT) => {
                let path = self.repository.shown(path.as_os_str().as_encoded_bytes());
                SyncStop::not_pulling(
                    GitReason::InTheWay,
                    format!("{path} is a mount point of its own; mount the directory"),
                )
            }
            _ => SyncStop::io("cannot replace", &self.files.path.join(path), error),
        }
    }
}

/// Brings another text to a record file in which `was` was read: in one step, and with what is written meanwhile.
pub(crate) fn bring_in(
    turn: &RepositoryLock<'_>,
    path: &Path,
    was: Vec<u8>,
    text: Vec<u8>,
) -> Result<(), SyncStop> {
    if text == was {
        return Ok(());
    }
    let repository = turn.repository;
    let head = repository.head()?;
    let way = WorktreeMove {
        branch: head.branch,
        from: head.commit.clone(),
        to: head.commit.clone(),
    };
    let mut stage = MoveStage::begin(repository, &way)?;
    let failed = |error| SyncStop::io("cannot write", &repository.git.dir.join(path), &error);
    let new = stage.new_of(path)?;
    new.write_new(path, &text).map_err(failed)?;
    let old = stage.files.look(path).map_err(failed)?;
    if old.is_some() && !new.dress_as(&stage.files, path).map_err(failed)? {
        let path = repository.shown(path.as_os_str().as_encoded_bytes());
        let why =
            format!("{path} would be open to fewer than it is; the agent must run as its owner");
        return Err(SyncStop::not_pulling(GitReason::InTheWay, why));
    }
    let git = &repository.git;
    let id = records::write_blob(git, text.clone())?;
    // Somebody may have read it, and may write it back.
    let name = path.as_os_str().as_encoded_bytes();
    let of_head = records::text_of(git, &head.commit, path)?.unwrap_or_default();
    versions::found(repository, name, &was, (&text, &of_head), &head.commit)?;
    let moving = Moving {
        path: path.as_os_str().as_encoded_bytes().to_vec(),
        old: old.filter(|old| old.has_bytes(&was)),
        new: new.look(path).map_err(failed)?,
        old_text: Source::Blob(records::write_blob(git, was)?),
        new_text: Source::Blob(id),
        is_record_file: true,
    };
    stage.note(vec![moving])?;
    for moving in stage.moving() {
        let _held = stage.hold(moving)?;
        stage.step(moving)?;
    }
    stage.sync_tree()?;
    stage.end()
}

/// Result of one step of the move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    Done,
    /// Somebody has written to the file meanwhile, and the text was merged in.
    Merged,
    /// Somebody has written to the file meanwhile, and it was left as it is.
    InTheWay,
}

/// Removes a directory, where it is there.
fn remove_all(dir: &Path) -> Result<(), SyncStop> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SyncStop::io("cannot remove", dir, &error))
        }
        _ => Ok(()),
    }
}

/// Takes the turn, with nothing left to finish and nobody in the middle of something.
pub(crate) fn begin(repository: &Repository) -> Result<RepositoryLock<'_>, SyncStop> {
    let turn = RepositoryLock::take(repository)?;
    repository.check_quiet()?;
    if let Some(stage) = MoveStage::left(repository)? {
        recover(&turn, stage)?;
    }
    open_files::look(&turn)?;
    Ok(turn)
}

/// Finishes the stage of a sync that was killed: where the last commit has a file as it was before the move, it goes
/// back; else the move stands.
fn recover(turn: &RepositoryLock<'_>, stage: MoveStage<'_>) -> Result<(), SyncStop> {
    let repository = turn.repository;
    let (git, way, head) = (&repository.git, stage.way(), repository.head()?);
    let _others = other_databases::enter(repository, &stage.paths())?;
    stage.ends_at.replace(head.commit.clone());
    if way.from == way.to {
        stage.gather()?;
        return stage.end();
    }
    // Somebody may have committed since, or have switched to another branch.
    let elsewhere: BTreeSet<_> = entries::both(git, &way.from, &head.commit)?
        .into_iter()
        .map(|difference| difference.path)
        .collect();
    let is_as_before = |path: &Vec<u8>| !elsewhere.contains(path);
    stage.ends(&head.commit);
    stage.take_back_of(|moving| is_as_before(&moving.path))?;
    stage.gather_of(|moving| !is_as_before(&moving.path))?;
    let lock = IndexLock::take(turn)?;
    let index = lock.copy()?;
    // The index may have moved already.
    let args = [
        "diff-index",
        "--cached",
        "-z",
        "--name-only",
        "--no-renames",
        &way.to,
        "--",
    ];
    let others: BTreeSet<_> = git.call(args).index(&index).words()?.into_iter().collect();
    let mut paths: Vec<_> = entries::both(git, &way.from, &way.to)?
        .into_iter()
        .map(|difference| difference.path)
        .collect();
    paths.retain(|path| is_as_before(path) && !others.contains(path));
    if !paths.is_empty() {
        index::set(git, &index, &head.commit, &paths)?;
        lock.replace()?;
    }
    drop(lock);
    stage.end()
}
