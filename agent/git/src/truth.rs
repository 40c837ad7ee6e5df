//! The proof that `synced` is true: every file of the database lies at the place, byte for byte as git stores it.
//!
//! It asks neither the user's index nor its flags. An index of our own has the place's tree, and in it only the
//! database. It is kept between cycles and brought up to date by the difference alone, so git looks only into files
//! that have changed; and into those that were written in the last minute, because a page that is mapped changes
//! without another time. `git status` on that index tells what is not there, and what is ignored.
//!
//! What a filter has stored is judged by what it gives back: a filter may store something else each time, and one that
//! drops something looks right from its own side. So is a file that git would store in another way today, such as one
//! with CRLF from before `.gitattributes`: a clone would have it byte for byte.
//!
//! A file that was written while the cycle ran is not judged: the next cycle has it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use beadlock_base::regular::{self, Links};
use beadlock_core::facts;
use serde::{Deserialize, Serialize};

use crate::changes::CommitSeen;
use crate::{Event, Part, to_type};
use beadlock_repository::TEXT_LIMIT;
use beadlock_repository::filters::{self, FilterDriver};
use beadlock_repository::program::GitCall;
use beadlock_repository::stamp::FileStamp;
use beadlock_repository::walk::{DatabaseFiles, is_record};
use beadlock_repository::{
    GitReason, HindranceKind, Repository, SyncStop, as_path, name_case, nul_separated, remove,
    repository_lock, typed_all,
};

/// The claim of a cycle: this commit of the place has the files of the database.
pub(crate) struct PlaceClaim<'a> {
    /// The commit that the remote has told to be there.
    pub(crate) commit: &'a str,
    /// The name of the place in lines: `origin/main`.
    pub(crate) name: &'a str,
    /// The remote's name.
    pub(crate) remote: &'a str,
    /// The files that the commit step has left out of the commit or removed.
    pub(crate) seen: &'a CommitSeen,
}

/// Proves that the files of the database are at the place; the [`SyncStop`] says which is not, and why.
pub(crate) fn prove(repository: &Repository, claim: &PlaceClaim<'_>) -> Result<(), SyncStop> {
    let mut index = TruthIndex::open(repository);
    let compared = index.compare(claim.commit)?;
    let files = DatabaseFiles::of(repository);
    let proof = Proof {
        repository,
        claim,
        compared: &compared,
        files: &files,
        begun: begun(repository),
    };
    let judged = proof.judge(&mut index.note);
    index.keep();
    judged
}

/// When the cycle began, by the clock of files.
fn begun(repository: &Repository) -> Duration {
    /// The clock of files is the time of the last tick.
    const TICK: Duration = Duration::from_millis(10);
    let now = Duration::try_from(facts::now().0).unwrap_or_default();
    let since = repository.request.begun.map(|begun| begun.elapsed());
    now.saturating_sub(since.unwrap_or_default() + TICK)
}

struct Proof<'a> {
    repository: &'a Repository,
    claim: &'a PlaceClaim<'a>,
    compared: &'a Comparison,
    files: &'a DatabaseFiles,
    begun: Duration,
}

impl Proof<'_> {
    /// Judges the files of the database. The error is the first cause that is found.
    fn judge(&self, note: &mut TruthNote) -> Result<(), SyncStop> {
        self.in_git()?;
        self.ignored()?;
        self.links()?;
        self.repositories()?;
        let judged = self.judged_by_trip(note)?;
        self.bytes(&judged)
    }

    /// Refuses where the place has no file of the database.
    fn in_git(&self) -> Result<(), SyncStop> {
        let Self {
            repository,
            compared,
            files,
            ..
        } = self;
        let is_in_git = |path: &Vec<u8>| !self.is_new(path) && !compared.is_ignored(path);
        if files.is_cut_off
            || !compared.differing.is_empty()
            || !compared.missing.is_empty()
            || files.all.iter().any(is_in_git)
        {
            return Ok(());
        }
        let dir = repository.shown(inside(repository));
        let ignored = |path: &&Vec<u8>| compared.is_ignored(path);
        let mut wanted: Vec<_> = files.all.iter().filter(ignored).collect();
        if wanted.iter().any(|path| is_record(path)) {
            wanted.retain(|path| is_record(path));
        }
        let rules = IgnoreRule::of(repository, &wanted)?;
        let (why, next) = match rules.first() {
            Some(rule) => (
                format!("git ignores {dir} ({})", rule.shown()),
                Some(self.add(&wanted)),
            ),
            None if self
                .compared
                .untracked
                .iter()
                .any(|path| !self.is_left_out(path)) =>
            {
                return Ok(());
            }
            None => (format!("{dir} has no file that is in git"), None),
        };
        let stop = SyncStop::notice(
            Event::NothingToSync,
            HindranceKind::Idle,
            GitReason::NothingInGit,
            why,
        );
        Err(match next {
            Some(next) => stop.next(next),
            None => stop,
        })
    }

    /// Refuses a record file that git ignores. One that the database's own `.gitignore` names is meant to stay here, as
    /// long as another one is in git.
    fn ignored(&self) -> Result<(), SyncStop> {
        let Self {
            repository,
            compared,
            files,
            ..
        } = self;
        let (ignored, others): (Vec<_>, Vec<_>) = files
            .all
            .iter()
            .filter(|path| is_record(path))
            .partition(|path| compared.is_ignored(path));
        let has_records = others.iter().any(|path| !self.is_new(path));
        let is_meant = |path: &[u8]| has_records && !is_main_record(path);
        let asked: Vec<_> = ignored
            .into_iter()
            .filter(|path| !self.is_young(path))
            .filter(|path| !(is_meant(path) && files.is_named_in_gitignore(repository, path)))
            .collect();
        let rules = IgnoreRule::of(repository, &asked)?;
        let told: Vec<_> = rules
            .iter()
            .filter(|rule| !(is_meant(&rule.path) && rule.is_deliberate(repository)))
            .collect();
        let Some(first) = told.first() else {
            return Ok(());
        };
        let paths: Vec<_> = told.iter().map(|rule| &rule.path).collect();
        let why = format!(
            "git ignores {} ({})",
            repository.shown_all(&paths),
            first.shown()
        );
        Err(not_committing(GitReason::Ignored, why).next(self.add(&paths)))
    }

    /// Refuses a link that leads to records outside of the synced files.
    fn links(&self) -> Result<(), SyncStop> {
        let Self {
            repository, files, ..
        } = self;
        let is_ignored = |path: &[u8]| self.compared.is_ignored(path);
        let is_out = |path: &&Vec<u8>| {
            !is_ignored(path)
                && !self.is_left_out(path)
                && files.leads_out(repository, path, is_ignored)
        };
        let Some(first) = files.links.iter().find(is_out) else {
            return Ok(());
        };
        let file = repository.git.dir.join(as_path(first));
        let (shown, path) = (repository.shown(first), || Part::Path(&file));
        if fs::metadata(&file).is_err() {
            let why = format!("{shown} is a link that leads nowhere");
            return Err(not_committing(GitReason::Link, why).next(to_type("rm {}", &[path()])));
        }
        let command = to_type(
            "T=$(readlink -f {}) && [ -e \"$T\" ] && rm {} && mv \"$T\" {}",
            &[path(), path(), path()],
        );
        let why = format!("{shown} is a link: what it leads to is not synced");
        Err(not_committing(GitReason::Link, why).next(command))
    }

    /// Refuses a directory of the database that is a repository of its own.
    fn repositories(&self) -> Result<(), SyncStop> {
        let Self {
            repository,
            compared,
            ..
        } = self;
        let Some(first) = compared.repositories.first() else {
            return Ok(());
        };
        let dir = repository.git.dir.join(as_path(first));
        let name = dir.file_name().unwrap_or_default().to_owned();
        let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        let free = (0..100).map(|number| {
            let mut free = name.clone();
            free.push(match number {
                0 => ".git".to_owned(),
                number => format!(".{number}.git"),
            });
            repository.common_dir.join(free)
        });
        let Some(free) = free.into_iter().find(is_free) else {
            return Ok(());
        };
        let why = format!(
            "{} is a repository of its own",
            repository.shown_all(&compared.repositories)
        );
        let command = to_type(
            "mv {} {}",
            &[Part::Path(&dir.join(".git")), Part::Path(&free)],
        );
        Err(not_committing(GitReason::NestedRepository, why).next(command))
    }

    /// The paths that were judged by what a clone would have: all that a filter has stored, and what differs by git's
    /// own comparison.
    fn judged_by_trip(&self, note: &mut TruthNote) -> Result<BTreeSet<Vec<u8>>, SyncStop> {
        let Self {
            repository, files, ..
        } = self;
        let tracked = |path: &&Vec<u8>| {
            !self.is_new(path) && !self.compared.is_ignored(path) && !self.is_held(path)
        };
        let tracked: Vec<_> = files.all.iter().filter(tracked).collect();
        let filtered = filters::of(repository, files, &tracked, self.claim.remote)?;
        let mut judged = BTreeSet::new();
        let mut trips = Vec::new();
        for (path, driver) in &filtered {
            let stamp = FileStamp::of(&repository.git.dir.join(as_path(path)));
            let known = stamp.map(|stamp| (path.clone(), stamp));
            let was_right = known
                .as_ref()
                .is_some_and(|known| note.trips.contains(known));
            if !was_right && !self.is_young(path) {
                self.filtered(path, driver)?;
            }
            judged.insert(path.clone());
            trips.extend(known);
        }
        note.trips = trips;
        for path in &self.compared.differing {
            let is_open = !judged.contains(path) && !self.is_held(path) && !self.is_young(path);
            if is_open && self.trip(path)? == RoundTrip::Same {
                judged.insert(path.clone());
            }
        }
        Ok(judged)
    }

    /// Refuses where git's own comparison finds a difference in a file that was not `judged` otherwise.
    fn bytes(&self, judged: &BTreeSet<Vec<u8>>) -> Result<(), SyncStop> {
        let Self {
            repository,
            claim,
            compared,
            ..
        } = self;
        let place = claim.name;
        let is_wrong = |path: &&Vec<u8>| {
            !judged.contains(*path) && !self.is_held(path) && !self.is_young(path)
        };
        let differing: Vec<_> = compared.differing.iter().filter(is_wrong).collect();
        let missing: Vec<_> = compared
            .missing
            .iter()
            .filter(|path| claim.seen.gone.contains(*path))
            .collect();
        let new: Vec<_> = compared
            .untracked
            .iter()
            .filter(|path| !self.is_left_out(path) && !self.is_young(path))
            .collect();
        if let Some(path) = new.first() {
            name_case::refuse_twin(repository, path)?;
        }
        let shown = |paths: &[&Vec<u8>]| repository.shown_all(paths);
        let why = if !differing.is_empty() {
            format!(
                "what {place} has of {} is not what is here",
                shown(&differing)
            )
        } else if !new.is_empty() {
            format!("{place} does not have {}", shown(&new))
        } else if !missing.is_empty() {
            format!("{place} still has {}", shown(&missing))
        } else {
            return Ok(());
        };
        // The commit step may have been misled by times: once more, with a look at the contents.
        let stop = not_committing(GitReason::NotAtPlace, why);
        Err(if repository.request.contents {
            stop
        } else {
            stop.unseen()
        })
    }

    /// Refuses a file that its filter does not give back.
    fn filtered(&self, path: &[u8], driver: &FilterDriver) -> Result<(), SyncStop> {
        let FilterDriver { setting, source } = driver;
        let shown = self.repository.shown(path);
        let why = match self.trip(path)? {
            RoundTrip::Same => return Ok(()),
            RoundTrip::Different => format!("{setting} drops part of {shown} ({source})"),
            RoundTrip::Failed(why) => {
                format!("{setting} ({source}): a clone would not get {shown} back: {why}")
            }
        };
        Err(not_committing(GitReason::Filter, why))
    }

    /// Compares the file here with the one that a clone of the place would have.
    fn trip(&self, path: &[u8]) -> Result<RoundTrip, SyncStop> {
        let object = [self.claim.commit.as_bytes(), b":", path].concat();
        let call = self.repository.git.call(["cat-file", "--filters"]);
        let answer = call.paths([object]).run()?;
        if !answer.status.success() {
            return Ok(RoundTrip::Failed(answer.last_line()));
        }
        let file = self.repository.git.dir.join(as_path(path));
        let here = regular::read(&file, Links::Followed, u64::MAX);
        let is_same = here.is_ok_and(|here| here == answer.stdout);
        Ok(if is_same {
            RoundTrip::Same
        } else {
            RoundTrip::Different
        })
    }

    /// Whether the place has no such file.
    fn is_new(&self, path: &[u8]) -> bool {
        self.compared.untracked.contains(path)
    }

    fn is_left_out(&self, path: &[u8]) -> bool {
        self.claim.seen.leaves_out(path) || self.repository.names.is_left_out(path)
    }

    /// Whether the commit step has told of the file, or leaves it to a later cycle. A file that is left out by its name
    /// and tracked all the same is judged.
    fn is_held(&self, path: &[u8]) -> bool {
        self.claim.seen.held.contains(path)
    }

    /// Whether the file was written while the cycle ran, or is gone meanwhile.
    fn is_young(&self, path: &[u8]) -> bool {
        let Ok(meta) = fs::symlink_metadata(self.repository.git.dir.join(as_path(path))) else {
            return true;
        };
        let at = |seconds: i64, nanos: i64| {
            Duration::new(
                u64::try_from(seconds).unwrap_or_default(),
                u32::try_from(nanos).unwrap_or_default(),
            )
        };
        at(meta.mtime(), meta.mtime_nsec()).max(at(meta.ctime(), meta.ctime_nsec())) >= self.begun
    }

    /// The command that adds what git ignores.
    fn add(&self, paths: &[&Vec<u8>]) -> String {
        to_type(
            "git -C {} --literal-pathspecs add -f -- {}",
            &[Part::Path(&self.repository.git.dir), typed_all(paths)],
        )
    }
}

fn not_committing(reason: GitReason, why: String) -> SyncStop {
    SyncStop::notice(Event::NotCommitting, HindranceKind::NotPushing, reason, why)
}

/// The database from the top; `.` where it is the top.
fn inside(repository: &Repository) -> &[u8] {
    match repository.prefix.as_os_str().as_encoded_bytes() {
        b"" => b".",
        prefix => prefix,
    }
}

/// Result of a comparison of a file here with what git gives back for it.
#[derive(Debug, PartialEq, Eq)]
enum RoundTrip {
    Same,
    Different,
    /// git's words.
    Failed(String),
}

/// The names under which tools keep their records.
fn is_main_record(path: &[u8]) -> bool {
    [&b"issues.jsonl"[..], b"beads.jsonl"]
        .iter()
        .any(|name| path.rsplit(|byte| *byte == b'/').next() == Some(name))
}

/// How the files here compare to the place. Paths from the top.
#[derive(Debug, Default, PartialEq, Eq)]
struct Comparison {
    differing: BTreeSet<Vec<u8>>,
    missing: BTreeSet<Vec<u8>>,
    untracked: BTreeSet<Vec<u8>>,
    repositories: Vec<Vec<u8>>,
    /// A directory ends in a slash.
    ignored: BTreeSet<Vec<u8>>,
}

impl Comparison {
    /// Reads the entries of `git status --porcelain=v2 -z --ignored=matching`.
    fn parse(status: &[Vec<u8>]) -> Self {
        let mut compared = Self::default();
        for entry in status {
            let Some((kind, rest)) = entry.split_first_chunk::<2>() else {
                continue;
            };
            match kind {
                b"? " => match rest.strip_suffix(b"/") {
                    Some(path) => compared.repositories.push(path.to_vec()),
                    None => drop(compared.untracked.insert(rest.to_vec())),
                },
                b"! " => drop(compared.ignored.insert(rest.to_vec())),
                b"1 " => {
                    let fields: Vec<_> = rest.splitn(8, |byte| *byte == b' ').collect();
                    let (Some([_, change]), Some(mode), Some(path)) =
                        (fields.first(), fields.get(3), fields.get(7))
                    else {
                        continue;
                    };
                    match change {
                        b'.' => {}
                        b'D' => drop(compared.missing.insert(path.to_vec())),
                        // A submodule is there when its directory is.
                        _ if *mode == b"160000" => {}
                        _ => drop(compared.differing.insert(path.to_vec())),
                    }
                }
                _ => {}
            }
        }
        compared
    }

    /// Whether git ignores the path, or a directory above it.
    fn is_ignored(&self, path: &[u8]) -> bool {
        let is_dir = |at: usize| self.ignored.contains(&path[..=at]);
        let mut slashes = (0..path.len()).filter(|at| path[*at] == b'/');
        self.ignored.contains(path) || slashes.any(is_dir)
    }
}

/// The rule by which git ignores a path.
struct IgnoreRule {
    source: Vec<u8>,
    line: Vec<u8>,
    pattern: Vec<u8>,
    path: Vec<u8>,
}

impl IgnoreRule {
    /// The rules of the paths that are ignored.
    fn of(repository: &Repository, paths: &[&Vec<u8>]) -> Result<Vec<Self>, SyncStop> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let args = ["check-ignore", "-v", "-n", "--no-index", "-z", "--stdin"];
        let stdin: Vec<u8> = paths
            .iter()
            .flat_map(|path| [path.as_slice(), b"\0"].concat())
            .collect();
        let answer = repository.git.call(args).stdin(stdin).run()?;
        let words = nul_separated(&answer.stdout);
        let rule = |words: &[Vec<u8>]| match words {
            [source, line, pattern, path] if !source.is_empty() && !pattern.starts_with(b"!") => {
                Some(Self {
                    source: source.clone(),
                    line: line.clone(),
                    pattern: pattern.clone(),
                    path: path.clone(),
                })
            }
            _ => None,
        };
        Ok(words.chunks(4).filter_map(rule).collect())
    }

    /// The place of the rule, as `FILE:LINE`.
    fn shown(&self) -> String {
        let line = String::from_utf8_lossy(&self.line);
        format!("{}:{line}", crate::escaped_path(as_path(&self.source)))
    }

    /// Whether the rule stands in a `.gitignore` of the database, and is meant for some files: a pattern of all names
    /// is that only where other lines take names out again.
    fn is_deliberate(&self, repository: &Repository) -> bool {
        if !repository.has(&self.source) || !self.source.ends_with(b".gitignore") {
            return false;
        }
        let is_of_all = |pattern: &[u8]| {
            let names = pattern.rsplit(|byte| *byte == b'/').next();
            let names = names.filter(|names| !names.is_empty());
            names.is_some_and(|names| matches!(names, b"*" | b"**" | b"*.*" | b"*.jsonl"))
        };
        let file = repository.git.dir.join(as_path(&self.source));
        let text = regular::read(&file, Links::Followed, TEXT_LIMIT).unwrap_or_default();
        let mut lines = text.split(|byte| *byte == b'\n');
        !is_of_all(&self.pattern) || lines.any(|line| line.starts_with(b"!"))
    }
}

/// The note about the index of the place's tree, which the next cycle reads.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TruthNote {
    commit: String,
    /// The stamp of the index: while it is the same, nobody else has written the index.
    stamp: Option<FileStamp>,
    /// Files that a filter gives back as they are.
    trips: Vec<(Vec<u8>, FileStamp)>,
}

/// An index of our own, of the place's tree below the database.
struct TruthIndex<'a> {
    repository: &'a Repository,
    path: PathBuf,
    note_path: PathBuf,
    note: TruthNote,
}

/// Settings of the comparison, whatever the user's are: the bytes count, and nothing is run.
const SETTINGS: [&str; 10] = [
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.ignoreStat=false",
    "core.checkStat=default",
    "core.trustctime=true",
    "core.ignoreCase=false",
    "core.hooksPath=/dev/null",
    "index.sparse=false",
    "advice.statusHints=false",
];
/// How long after a write a file is compared by its contents.
const FRESH: Duration = Duration::from_secs(60);

impl<'a> TruthIndex<'a> {
    fn open(repository: &'a Repository) -> Self {
        let name = match repository.prefix.as_path() {
            prefix if prefix == Path::new(".beads") => "truth".to_owned(),
            // Other databases of the repository have theirs.
            prefix => {
                let mut hasher = DefaultHasher::new();
                prefix.hash(&mut hasher);
                format!("truth.{:016x}", hasher.finish())
            }
        };
        let dir = repository_lock::notes(repository);
        // Where it cannot be made, git says so.
        let _ = fs::create_dir_all(&dir);
        let (path, note_path) = (dir.join(&name), dir.join(format!("{name}.json")));
        let note = fs::read(&note_path).ok();
        let note = note
            .and_then(|note| serde_json::from_slice(&note).ok())
            .unwrap_or_default();
        Self {
            repository,
            path,
            note_path,
            note,
        }
    }

    /// Compares the files here to a commit.
    fn compare(&mut self, commit: &str) -> Result<Comparison, SyncStop> {
        let is_ours = self.note.stamp.is_some() && self.note.stamp == FileStamp::of(&self.path);
        if is_ours && let Ok(compared) = self.try_compare(commit) {
            return Ok(compared);
        }
        self.clear();
        self.try_compare(commit)
    }

    fn try_compare(&mut self, commit: &str) -> Result<Comparison, SyncStop> {
        let spec = || [self.repository.inside()];
        if self.note.commit != commit {
            let reset = self.call(&["reset", "--quiet", "--no-refresh", commit, "--"]);
            reset.paths(spec()).done()?;
        }
        let since = if self.repository.request.contents {
            SystemTime::UNIX_EPOCH + Duration::from_secs(1)
        } else {
            SystemTime::UNIX_EPOCH
                + Duration::try_from(facts::now().0)
                    .unwrap_or_default()
                    .saturating_sub(FRESH)
        };
        forget_since(&self.path, since);
        let status = self.call(&[
            "status",
            "--porcelain=v2",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignored=matching",
            "--ignore-submodules=dirty",
            "--",
        ]);
        let status = status.paths(spec()).words()?;
        commit.clone_into(&mut self.note.commit);
        self.note.stamp = FileStamp::of(&self.path);
        Ok(Comparison::parse(&status))
    }

    fn call(&self, args: &[&str]) -> GitCall {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let call = self
            .repository
            .git
            .call(settings.chain(args.iter().copied()));
        call.index(&self.path).with_locks()
    }

    /// Removes an index that is not ours, or was cut off, and the note about it.
    fn clear(&mut self) {
        let mut lock = self.path.as_os_str().to_owned();
        lock.push(".lock");
        for path in [&self.note_path, &self.path, Path::new(&lock)] {
            remove(path);
        }
        self.note = TruthNote::default();
    }

    /// Writes the note about the index. Without it the next cycle begins anew.
    fn keep(&self) {
        if let Ok(note) = serde_json::to_vec(&self.note) {
            let _ = fs::write(&self.note_path, note);
        }
    }
}

/// Makes git compare the contents of files that were written since.
pub(crate) fn forget_since(index: &Path, since: SystemTime) {
    let file = File::options().write(true).open(index);
    let _ = file.and_then(|file| file.set_modified(since));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read() {
        let hash = "0123456789012345678901234567890123456789";
        let one = |xy: &str, mode: &str, path: &str| {
            format!("1 {xy} N... 100644 {mode} 100644 {hash} {hash} {path}").into_bytes()
        };
        let compared = Comparison::parse(&[
            one("..", "100644", ".beads/same"),
            one("M.", "100644", ".beads/head"),
            one(".M", "100644", ".beads/a b"),
            one(".T", "120000", ".beads/link"),
            one(".M", "160000", ".beads/module"),
            one(".D", "160000", ".beads/gone module"),
            one(".D", "100644", ".beads/\"x\n"),
            b"? .beads/new".to_vec(),
            b"? .beads/sub/".to_vec(),
            b"! .beads/x.tmp".to_vec(),
            b"! .beads/cache/".to_vec(),
        ]);
        let set = |paths: &[&str]| paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let expected = Comparison {
            differing: set(&[".beads/a b", ".beads/link"]),
            missing: set(&[".beads/gone module", ".beads/\"x\n"]),
            untracked: set(&[".beads/new"]),
            repositories: vec![b".beads/sub".to_vec()],
            ignored: set(&[".beads/x.tmp", ".beads/cache/"]),
        };
        assert_eq!(compared, expected);
        for (path, is_ignored) in [
            (".beads/x.tmp", true),
            (".beads/x.tmp2", false),
            (".beads/cache/a/b", true),
            (".beads/cache", false),
        ] {
            assert_eq!(compared.is_ignored(path.as_bytes()), is_ignored, "{path}");
        }
    }

    #[test]
    fn only_some_names_are_the_main_records() {
        assert!(is_main_record(b".beads/issues.jsonl") && is_main_record(b"beads.jsonl"));
        assert!(!is_main_record(b".beads/sync_base.jsonl") && !is_main_record(b"old-issues.jsonl"));
    }
}
