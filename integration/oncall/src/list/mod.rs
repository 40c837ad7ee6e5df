//! `beadlock list`: every lock below a directory. Never changes anything (docs/design.md#looking).
//!
//! ```text
//! mod.rs     this page, and the command
//! walk.rs    the search: parallel, one file system, no link followed, nothing ignored
//! table.rs   the lines for people
//! ```

pub mod listing;
mod table;
mod walk;

use beadlock_claim::error::Problem;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beadlock_base::error::system_words;
use beadlock_base::escape::escaped_path;
use beadlock_core::Options;
use beadlock_core::database;
use beadlock_core::look::look_all;
use clap::Args;

use beadlock_base::stdout::print;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::protocol::{self, answers_for_intent, worktrees};
use beadlock_claim::report::{Report, STATUS};
use beadlock_claim::target::Target;
use beadlock_claim::words::{Part, to_type};
use beadlock_console::Console;
use beadlock_console::answers::{Answers, not_written};
use beadlock_console::talk::Talk;
use beadlock_explain::explained::HostProcesses;
use beadlock_explain::explanation::Explanation;
use beadlock_explain::lines;
use beadlock_explain::seen::SeenTarget;
use table::Row;
use walk::Walk;

/// `beadlock list [ROOT…]`
#[derive(Debug, Args)]
#[command(after_help = "\
Locks of lock:PATH are found by their records, in files called lock, *.lock, *-lock or *_lock. Locks of file:PATH and
flock:PATH have no record and are not listed; `beadlock status file:PATH` looks at one.")]
pub struct List {
    /// The directories to look below; tower: is the lock directory [default: the working directory]
    #[arg(value_name = "ROOT")]
    pub roots: Vec<OsString>,
    /// Look into other file systems that are mounted below ROOT, too
    #[arg(long)]
    pub all_file_systems: bool,
}

/// Looks below every root; one that cannot be answered does not stop the others.
pub fn run(typed: &List, environment: &Environment, common: &Console) -> Answers {
    let mut answers = Answers {
        exits: vec![Exit::Done],
        ..Answers::default()
    };
    let around = environment.of_database();
    let mut roots = Vec::new();
    let here = [OsString::from(".")];
    let (mut named, mut directories) = (Vec::new(), None);
    for root in if typed.roots.is_empty() {
        &here
    } else {
        typed.roots.as_slice()
    } {
        if listing::is_root_of_names(root) {
            if directories.is_none() {
                let answers_there = answers_for_intent(environment);
                let answers_there = answers_there.map_err(|error| error.of_code(Code::Io));
                match answers_there.and_then(|()| listing::of_names(environment, &common.talk)) {
                    Ok((found, read)) => (named, directories) = (found, Some(read)),
                    Err(error) => answers.failed(error),
                }
            }
            continue;
        }
        match Root::named(root, environment) {
            Ok(root) if roots.iter().any(|known: &Root| known.dir == root.dir) => {}
            Ok(root) => roots.push(root),
            Err(error) => answers.failed(error),
        }
    }
    if typed.roots.is_empty() && !roots.is_empty() {
        roots.extend(of_worktrees(&roots, environment));
    }
    let closed = closed_below(&roots, typed.all_file_systems, environment, &common.talk);
    let walk = Walk::below(&roots, typed.all_file_systems, &closed, |walk| {
        if !common.json {
            common.talk.say_live(&walk, false);
        }
    });
    common.talk.end_live();
    for warning in walk.unread() {
        common.talk.warn(&warning);
    }
    let mut targets = targets(&walk, &roots, environment, common);
    targets.extend(with_age(&walk, &roots, &around, common));
    targets.extend(named);
    let looks = look_all(
        targets.iter().map(|target| &target.place),
        &Options::default(),
    );
    let seen = targets
        .into_iter()
        .zip(looks)
        .map(|(target, look)| SeenTarget { target, look });
    // One that has vanished since does not count as a lock any more.
    let mut seen: Vec<SeenTarget> = seen.filter(is_there).collect();
    seen.extend(at_paths(&walk, &roots, &around, &common.talk));
    let machine = HostProcesses::default();
    if common.json {
        answers.data = seen
            .iter()
            .map(|seen| explained(seen, &machine).json(STATUS))
            .collect();
    }
    let talk = &common.talk;
    let below = |seen: &SeenTarget| lines::below(&explained(seen, &machine), None);
    let row = |seen: &SeenTarget| Row::of(seen, talk, || below(seen));
    let rows: Vec<Row> = seen.iter().map(row).collect();
    if !common.json {
        // Now, and not with the answers: the count comes after it.
        if let Err(error) = print(table::of(&rows)) {
            answers.failed(not_written(&error));
            return answers;
        }
    }
    if !roots.is_empty() || directories.is_some() {
        talk.say(&table::counts(
            &rows,
            walk.directories() + directories.unwrap_or_default(),
        ));
    }
    answers
}

/// The directory of the locks of the repository here (`lock:@NAME`), which in a linked working tree lies elsewhere.
fn of_worktrees(roots: &[Root], environment: &Environment) -> Option<Root> {
    let (dir, _) = worktrees::there(environment)?;
    let root = Root::named(dir.as_os_str(), environment).ok()?;
    let mut known = roots.iter();
    (!known.any(|known| root.dir.starts_with(&known.dir))).then_some(root)
}

fn explained(seen: &SeenTarget, machine: &HostProcesses) -> Report {
    seen.report(Explanation::on(
        machine,
        &seen.look,
        &seen.target,
        &Options::default(),
    ))
}

/// Whether a lock or its side file lies there: many other files have the name of a lock.
fn is_there(SeenTarget { target, look }: &SeenTarget) -> bool {
    target.is_its_lock(look) || look.side_file
}

/// The locks at paths, each once: many a file has such a name, and only a record makes it a lock.
fn at_paths(
    walk: &Walk,
    roots: &[Root],
    around: &database::DatabaseVariables,
    talk: &Talk,
) -> Vec<SeenTarget> {
    let mut targets = BTreeMap::new();
    for (path, root) in walk.lock_files() {
        let (Some(dir), Some(root)) = (path.parent(), roots.get(root)) else {
            continue;
        };
        match listing::at_path(&path, &root.typed(dir), around) {
            Ok(target) => drop(targets.insert(target.place.path(), target)),
            Err(error) => talk.warn(&error.to_string()),
        }
    }
    let targets: Vec<Target> = targets.into_values().collect();
    let looks = look_all(
        targets.iter().map(|target| &target.place),
        &Options::default(),
    );
    let seen = targets
        .into_iter()
        .zip(looks)
        .map(|(target, look)| SeenTarget { target, look });
    seen.filter(|seen| listing::is_lock_at_path(&seen.look))
        .collect()
}

/// A directory to look below.
#[derive(Debug)]
struct Root {
    /// The path of the directory, without links.
    dir: PathBuf,
    /// The directory as it was typed; empty for the working directory.
    shown: PathBuf,
}

impl Root {
    fn named(root: &OsStr, environment: &Environment) -> Result<Self, Error> {
        let one = |what: &str| {
            let (given, look) = (
                escaped_path(Path::new(root)),
                to_type("beadlock status {}", &[Part::of_path(root.as_ref())]),
            );
            Err(Error::usage(format!(
                "{given} is one {what}; look at it: {look}"
            )))
        };
        let shown = match protocol::root(root)? {
            Ok(dir) => dir,
            Err(what) => return one(what),
        };
        let cwd = environment.of_database().cwd;
        environment
            .remote()
            .answers_at(&cwd.join(&shown), &escaped_path(&shown), Code::Io)?;
        let words = |what: &str| {
            format!(
                "{} {what}; name a directory to look below",
                escaped_path(&shown)
            )
        };
        let dir =
            fs::canonicalize(cwd.join(&shown)).and_then(|dir| fs::read_dir(&dir).map(|_| dir));
        let dir = dir.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::new(Code::NoTarget, words("does not exist")),
            io::ErrorKind::NotADirectory => Error::new(Code::NoTarget, words("is not a directory")),
            kind => {
                let why = format!(
                    "cannot read {}: {}",
                    escaped_path(&shown),
                    system_words(&error)
                );
                Error::io(why, kind)
            }
        })?;
        let shown = if shown == Path::new(".") {
            PathBuf::new()
        } else {
            shown
        };
        Ok(Self { dir, shown })
    }

    /// The path to type for the directory `dir` below the root. It begins with `./` where it would look like an option
    /// or a scheme.
    fn typed(&self, dir: &Path) -> PathBuf {
        let typed = match dir.strip_prefix(&self.dir) {
            Ok(below) if below.as_os_str().is_empty() => self.shown.clone(),
            Ok(below) => self.shown.join(below),
            Err(_) => dir.to_owned(),
        };
        let first = typed
            .components()
            .next()
            .map(|first| first.as_os_str().as_bytes().to_owned());
        match first {
            None => PathBuf::from("."),
            Some(first) if first.starts_with(b"-") || first.contains(&b':') => {
                Path::new(".").join(typed)
            }
            Some(_) => typed,
        }
    }
}

/// The mount points that are left out of the search, because what is mounted there does not answer; each that the
/// search would have entered is named.
fn closed_below(
    roots: &[Root],
    all_file_systems: bool,
    environment: &Environment,
    talk: &Talk,
) -> Arc<HashSet<PathBuf>> {
    let dirs: Vec<&Path> = roots.iter().map(|root| root.dir.as_path()).collect();
    let closed = environment.remote().closed_below(&dirs, all_file_systems);
    for (point, why) in &closed {
        if let Some(why) = why {
            talk.warn(&format!("{} was left out: {why}", escaped_path(point)));
        }
    }
    Arc::new(closed.into_iter().map(|(point, _)| point).collect())
}

/// The locks of the databases that were found, each directory once, by path.
fn targets(
    walk: &Walk,
    roots: &[Root],
    environment: &Environment,
    common: &Console,
) -> Vec<Target> {
    let mut around = environment.of_database();
    // Whatever is found is compared with it.
    around.beads_dir = around.beads_dir.filter(|dir| {
        let (dir, shown) = (around.cwd.join(dir), escaped_path(Path::new(dir)));
        environment
            .remote()
            .answers_at(&dir, &shown, Code::Io)
            .is_ok()
    });
    let mut known = HashSet::new();
    let mut targets = Vec::new();
    for (dir, root) in walk.found() {
        let (Some(inode), Some(root)) = (inode(&dir, &common.talk), roots.get(root)) else {
            continue;
        };
        // The same directory by way of another mount, or of another root.
        if !known.insert(inode) {
            continue;
        }
        if let Err(error) = environment.remote().answers_where_led(&dir) {
            common.talk.warn(&error.to_string());
            continue;
        }
        match listing::in_database(&dir, &root.typed(&dir), &around) {
            Ok(target) => targets.push(target),
            Err(_) if fs::metadata(&dir).is_err_and(|error| has_vanished(&error)) => {}
            Err(error) => common.talk.warn(&error.to_string()),
        }
    }
    targets
}

/// The locks of the directories that may have one of their own, each directory once, by path.
fn with_age(
    walk: &Walk,
    roots: &[Root],
    around: &database::DatabaseVariables,
    common: &Console,
) -> Vec<Target> {
    let mut known = HashSet::new();
    let mut targets = Vec::new();
    for (dir, root) in walk.maybe() {
        let (Some(inode), Some(root)) = (inode(&dir, &common.talk), roots.get(root)) else {
            continue;
        };
        if !known.insert(inode) {
            continue;
        }
        match listing::in_directory(&root.typed(&dir), around) {
            Ok(target) => targets.push(target),
            Err(error) => common.talk.warn(&error.to_string()),
        }
    }
    targets
}

/// The device and the inode of `dir`. `None`: it has vanished, or cannot be looked at any more; the latter is a
/// warning.
fn inode(dir: &Path, talk: &Talk) -> Option<(u64, u64)> {
    match fs::metadata(dir) {
        Ok(meta) => Some((meta.dev(), meta.ino())),
        Err(error) => {
            if !has_vanished(&error) {
                talk.warn(&not_read(dir, &system_words(&error)));
            }
            None
        }
    }
}

/// Whether the error says that nothing is there any more. No other error says that.
fn has_vanished(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The warning that `dir` was not read, with the reason and the command that looks there again.
fn not_read(dir: &Path, why: &str) -> String {
    format!(
        "{} was not read: {why}; to see what is there: {}",
        escaped_path(dir),
        as_root(dir)
    )
}

/// The command that looks again, as root, at a directory that could not be read.
fn as_root(dir: &Path) -> String {
    to_type("sudo beadlock list {}", &[Part::Path(dir)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Between the search and this somebody has changed what is there.
    #[test]
    fn what_has_vanished_is_passed_over_and_what_cannot_be_looked_at_is_said() {
        let top = tempfile::tempdir().unwrap();
        let talk = Talk::silent();
        assert_eq!(inode(&top.path().join("gone/.beads"), &talk), None);
        assert_eq!(talk.warnings(), [""; 0]);
        assert!(inode(top.path(), &talk).is_some());
        // As root too, who may search every directory.
        let dir = top.path().join("itself");
        symlink("itself", &dir).unwrap();
        assert_eq!(inode(&dir, &talk), None);
        let [said] = &talk.warnings()[..] else {
            panic!("{:?}", talk.warnings())
        };
        assert!(
            said.starts_with(&format!("{} was not read: ", dir.display())),
            "{said}"
        );
    }
}
