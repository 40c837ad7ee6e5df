//! One look below the roots. It walks through one file system below each, follows no link, ignores nothing, and enters
//! neither `.git` nor `.beads`; a `.beads` that is itself a link to a directory counts. A redirect is followed once.
//!
//! The same directory, by device and inode, is one database, however many ways lead to it: one that is named is not
//! found, and what was found before keeps its path.
//!
//! What cannot be read says nothing: a database that was found there before, stays. It is gone when its `.beads` is.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use beadlock_checker::database::{Database, Environment};
use beadlock_checker::system_words;
use ignore::WalkBuilder;

use super::Ground;
use crate::log::{Line, own};

/// What holds a database.
const BEADS: &str = ".beads";
/// What nobody keeps one in.
const GIT: &str = ".git";

/// A database below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    root: PathBuf,
    /// The `.beads`, which may be a link, or have a redirect in it.
    at: PathBuf,
    pub(crate) database: Database,
}

impl Found {
    /// It lies below a root there, and is none of those that are named.
    pub(super) fn is_on(&self, ground: &Ground) -> bool {
        ground.roots.contains(&self.root) && !ground.named.contains(&self.database.dir)
    }
}

/// What a look has come upon.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// By path; each database once.
    pub(crate) found: Vec<Found>,
    pub(crate) troubles: BTreeSet<Trouble>,
}

/// What somebody should know of, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// A root or a directory cannot be read.
    Unread(PathBuf, String),
    /// A database is not served.
    NotServed(PathBuf, String),
}

impl Trouble {
    /// As a line for the log.
    pub(crate) fn line(&self) -> Line {
        match self {
            Self::Unread(dir, why) => own::cannot_look(dir, why),
            Self::NotServed(dir, why) => own::not_serving(dir, why),
        }
    }
}

/// Looks below every root; `before` is what the last look has found. `None` when it was told to stop.
pub(crate) fn look(ground: &Ground, before: &[Found], stop: &AtomicBool) -> Option<Look> {
    let mut seen = Seen::default();
    for root in &ground.roots {
        seen.below(root, stop)?;
    }
    let stays =
        |found: &&Found| seen.is_unread(found) && !seen.found.contains_key(&found.at) && found.is_there();
    let staying: Vec<Found> = before.iter().filter(stays).cloned().collect();
    seen.found.extend(staying.into_iter().map(|found| (found.at.clone(), found)));
    let mut found: Vec<Found> = Vec::new();
    for one in seen.found.into_values() {
        match ground.owners.check(&one.database) {
            Ok(()) => found.push(one),
            Err(why) => drop(seen.troubles.insert(Trouble::NotServed(one.at, why))),
        }
    }
    let known: HashSet<&Path> = before.iter().map(|found| found.database.dir.as_path()).collect();
    found.sort_by_key(|found| !known.contains(found.database.dir.as_path()));
    let named = ground.named.iter().filter_map(|dir| fs::metadata(dir).ok());
    let mut inodes: HashSet<(u64, u64)> = named.map(|meta| (meta.dev(), meta.ino())).collect();
    found.retain(|found| inodes.insert(found.database.inode()));
    found.sort_by(|one, other| one.database.dir.cmp(&other.database.dir));
    Some(Look { found, troubles: seen.troubles })
}

#[derive(Debug, Default)]
struct Seen {
    /// By the path of the `.beads`.
    found: BTreeMap<PathBuf, Found>,
    /// Roots, directories, and a `.beads` that could not be read.
    unread: BTreeSet<PathBuf>,
    troubles: BTreeSet<Trouble>,
}

impl Seen {
    /// Everything below one root. `None` when it was told to stop.
    fn below(&mut self, root: &Path, stop: &AtomicBool) -> Option<()> {
        let top = match fs::canonicalize(root) {
            Ok(top) => top,
            Err(error) => {
                self.failed(root, &error);
                return Some(());
            }
        };
        let (beads, found) = mpsc::channel();
        let mut builder = WalkBuilder::new(&top);
        builder.standard_filters(false).follow_links(false).same_file_system(true);
        builder.filter_entry(move |entry| {
            let is_beads = entry.file_name() == BEADS;
            if is_beads {
                let _ = beads.send(entry.path().to_owned());
            }
            !is_beads && entry.file_name() != GIT
        });
        for entry in builder.build() {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Err(error) = entry {
                let path = path_of(&error).unwrap_or(&top).to_owned();
                let error = error.into_io_error().unwrap_or_else(|| io::Error::other("it cannot be read"));
                // What has vanished meanwhile is no trouble, but the root itself.
                if path == top || !is_absence(&error) {
                    self.failed(if path == top { root } else { &path }, &error);
                }
            }
        }
        found.try_iter().for_each(|at| self.open(root, at));
        Some(())
    }

    /// A root or a directory could not be read. Where there is nothing, nothing stays.
    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.troubles.insert(Trouble::Unread(path.to_owned(), words(error)));
        if !is_absence(error) {
            self.unread.insert(path.to_owned());
        }
    }

    fn open(&mut self, root: &Path, at: PathBuf) {
        match fs::metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return,
            Err(error) if is_absence(&error) => return,
            Err(error) => return self.failed(&at, &error),
        }
        match Database::named(&at, &Environment::default()) {
            Ok(database) => {
                let found = Found { root: root.to_owned(), at, database };
                self.found.insert(found.at.clone(), found);
            }
            // Most likely a redirect that leads nowhere, perhaps only for a moment.
            Err(error) => {
                self.troubles.insert(Trouble::NotServed(at.clone(), error.to_string()));
                self.unread.insert(at);
            }
        }
    }

    /// It lies where something could not be read.
    fn is_unread(&self, found: &Found) -> bool {
        self.unread.contains(&found.root) || found.at.ancestors().any(|dir| self.unread.contains(dir))
    }
}

impl Found {
    /// It is not known to be gone.
    fn is_there(&self) -> bool {
        fs::metadata(&self.database.dir).map_or_else(|error| !is_absence(&error), |meta| meta.is_dir())
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The system's own words, which may be wrapped into those of a library.
fn words(error: &io::Error) -> String {
    let mut source = error.get_ref().map(|inner| inner as &dyn std::error::Error);
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return system_words(error);
        }
        source = inner.source();
    }
    system_words(error)
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}
