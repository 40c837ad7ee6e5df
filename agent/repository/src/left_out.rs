//! Which untracked files of a database are never committed: live state, databases, secrets, leavings of editors and
//! other tools, and files that the usual hosts refuse.
//!
//! A tracked file is a person's decision, so `git add -f FILE` is the way round. The agent's own files, a redirect and
//! SQLite's side files are not here but in [`names`](crate::names): these are never committed, whoever adds them.
//!
//! The judgement ([`judge`]) is pure: names, modes, sizes and first bytes come in from outside.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use beadlock_base::regular::{self, Links};
use beadlock_core::dolt::is_data_dir;

use crate::{Event, EventLine, Part, Repository, SyncMessage, as_path, sqlite, to_type, typed_all};

/// Why a file is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOutKind {
    /// The file is about a process that runs now on this machine: a lock, a pid, a socket.
    LiveState,
    /// The file is a database, or a part of one: a write at the same time would tear the copy in the commit.
    Database,
    /// The directory in which bd keeps the database in Dolt. [`dolt`](crate::dolt) tells that.
    Dolt,
    /// The file is a secret: by its name, by a key in its first line, or by permissions for the owner alone.
    Secret,
    /// An editor or another tool has left it, and did not mean it to stay.
    Leaving,
    /// The usual hosts refuse it. Then nothing else could be pushed from the branch either.
    TooLarge,
}

/// A file, as far as it has to be looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileLook<'a> {
    pub(crate) name: &'a [u8],
    /// Its permissions; `None` for a symbolic link, which has no content of its own either.
    pub(crate) mode: Option<u32>,
    /// The size in bytes.
    pub(crate) size: u64,
    /// Its first bytes, at most [`BEGINNING`].
    pub(crate) beginning: &'a [u8],
}

/// The other files of a file's directory, as far as the judgement needs them.
pub(crate) trait Surroundings {
    /// Whether a file of this name lies beside it.
    fn has(&self, name: &[u8]) -> bool;
    /// Whether users other than the owner may read at least one record file beside it. Then a file that nobody else may
    /// read is meant to be so, and not the work of a umask.
    fn has_shared_records(&self) -> bool;
}

/// How many bytes of a file are looked at.
const BEGINNING: usize = 128;
/// The largest file that is committed, in bytes: GitHub refuses 100 MiB.
const LARGEST: u64 = 95 * 1024 * 1024;
/// A larger `*.lock` is a list of versions, such as `Cargo.lock`.
const LARGEST_LOCK: u64 = 512;
/// How many paths are listed, and in how many bytes.
const LISTED: (usize, usize) = (24, 3000);

/// The longest command that a warning has, in bytes.
const LONGEST_COMMAND: usize = 1000;

/// Name patterns of live state: of files, and of directories that stand for a lock.
const LIVE_STATE: [&str; 8] = [
    "*.startlock",
    "*.pid",
    "*.sock",
    "*.socket",
    // Dolt's server writes these beside its .pid.
    "dolt-server.port",
    "dolt-server.log",
    "dolt-server.activity",
    "*.lck",
];
const LOCK: &str = "*.lock";
const SECRETS: [&str; 10] = [
    "*.key",
    "*-key",
    "*.pem",
    "*.p12",
    "id_rsa*",
    "id_ed25519*",
    ".env",
    ".env.*",
    ".netrc",
    "credentials*",
];
/// Name patterns of files that are not secrets, although their names match one of [`SECRETS`].
const NO_SECRETS: [&str; 5] = [
    ".env.example",
    ".env.sample",
    ".env.template",
    "*.md",
    "*.jsonl",
];
/// How the first line of a private key begins, and what else it has.
const KEYS: [(&[u8], &[u8]); 3] = [
    (b"-----BEGIN ", b"PRIVATE KEY"),
    (b"PuTTY-User-Key-File-", b""),
    (b"AGE-SECRET-KEY-", b""),
];
/// Texts by their names: written aside and renamed, they often have no permissions for others.
const TEXTS: [&str; 10] = [
    "*.jsonl",
    "*.json",
    "*.md",
    "*.txt",
    "*.yaml",
    "*.yml",
    "*.toml",
    "*.csv",
    ".gitignore",
    ".gitattributes",
];
const LEAVINGS: [&str; 23] = [
    ".#*",
    "#*#",
    "*~",
    ".*.sw?",
    ".*.kate-swp",
    ".~lock.*#",
    ".nfs*",
    ".fuse_hidden*",
    ".goutputstream-*",
    "*___jb_tmp___",
    "*___jb_old___",
    ".DS_Store",
    "._*",
    "Thumbs.db",
    "desktop.ini",
    "*.sync-conflict-*",
    "*conflicted copy*",
    "*.orig",
    "*.rej",
    "*.mine",
    "*.tmp",
    ".merge_file_*",
    ".syncthing.*",
];
/// Endings of the files that a merge of records leaves beside `X.jsonl`: `X.base.jsonl`.
const OF_A_MERGE: [&[u8]; 3] = [b".base.jsonl", b".left.jsonl", b".right.jsonl"];
/// The files of LevelDB and RocksDB, in a directory that has the first two.
const OF_LEVELDB: [&str; 12] = [
    "CURRENT",
    "MANIFEST-*",
    "LOCK",
    "LOG",
    "LOG.old*",
    "IDENTITY",
    "OPTIONS-*",
    "*.ldb",
    "*.sst",
    "*.blob",
    "*.dbtmp",
    "??????.log",
];
/// The files of LMDB.
const OF_LMDB: [&str; 2] = ["data.mdb", "lock.mdb"];

impl LeftOutKind {
    /// The kind in the words of the log, for the parentheses behind the paths.
    fn words(self) -> &'static str {
        match self {
            Self::LiveState => "live state",
            Self::Database => "a database",
            Self::Dolt => "a Dolt database",
            Self::Secret => "a secret",
            Self::Leaving => "left behind by a tool",
            Self::TooLarge => "too large for the usual hosts",
        }
    }
}

/// Whether an untracked file is left out, and why.
pub(crate) fn judge(file: &FileLook<'_>, around: &impl Surroundings) -> Option<LeftOutKind> {
    let FileLook {
        name,
        mode,
        size,
        beginning,
    } = *file;
    let is_file = mode.is_some();
    if is_one_of(&LIVE_STATE, name)
        || (is_file && size <= LARGEST_LOCK && has_name_like(LOCK, name))
    {
        return Some(LeftOutKind::LiveState);
    }
    if is_file && is_database(name, size, beginning) {
        return Some(LeftOutKind::Database);
    }
    if is_secret(name, beginning) || mode.is_some_and(|mode| is_private(name, mode, around)) {
        return Some(LeftOutKind::Secret);
    }
    if is_leaving(name, around) {
        return Some(LeftOutKind::Leaving);
    }
    (is_file && size > LARGEST).then_some(LeftOutKind::TooLarge)
}

/// Whether a directory is one whose name says that nothing below it is meant to stay.
fn judge_dir(name: &[u8]) -> Option<LeftOutKind> {
    if is_one_of(&LIVE_STATE, name) || has_name_like(LOCK, name) {
        Some(LeftOutKind::LiveState)
    } else {
        is_one_of(&LEAVINGS, name).then_some(LeftOutKind::Leaving)
    }
}

fn is_database(name: &[u8], size: u64, beginning: &[u8]) -> bool {
    sqlite::begins(beginning)
        || beginning.get(8..12) == Some(b"DUCK")
        || (size == 0 && sqlite::has_usual_name(name))
}

/// Whether its name or its first line says that it is a secret.
fn is_secret(name: &[u8], beginning: &[u8]) -> bool {
    let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_key = |(begins, has): &(&[u8], &[u8])| {
        line.starts_with(begins)
            && (has.is_empty() || line.windows(has.len()).any(|part| part == *has))
    };
    KEYS.iter().any(is_key) || (is_one_of(&SECRETS, name) && !is_one_of(&NO_SECRETS, name))
}

/// Whether only the owner may read the file, and that was meant.
fn is_private(name: &[u8], mode: u32, around: &impl Surroundings) -> bool {
    mode & 0o077 == 0 && !is_one_of(&TEXTS, name) && around.has_shared_records()
}

fn is_leaving(name: &[u8], around: &impl Surroundings) -> bool {
    let is_of_a_merge = |ending: &&[u8]| {
        let stem = name.strip_suffix(*ending).filter(|stem| !stem.is_empty());
        stem.is_some_and(|stem| around.has(&[stem, b".jsonl"].concat()))
    };
    is_one_of(&LEAVINGS, name) || OF_A_MERGE.iter().any(is_of_a_merge)
}

fn is_one_of(patterns: &[&str], name: &[u8]) -> bool {
    patterns.iter().any(|pattern| has_name_like(pattern, name))
}

/// Whether a name matches a pattern, as in a shell: `*` any bytes, `?` one byte. Upper case is as lower case.
fn has_name_like(pattern: &str, name: &[u8]) -> bool {
    let pattern = pattern.as_bytes();
    let (mut at, mut done) = (0, 0);
    let mut star = None;
    while done < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, done));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[done]) => {
                at += 1;
                done += 1;
            }
            // The last star takes one byte more.
            _ => match star {
                Some((of_star, taken)) => {
                    star = Some((of_star, taken + 1));
                    (at, done) = (of_star + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The untracked files of a database that are left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Paths from the top; a directory, of which all is left out, ends in a slash.
    paths: BTreeMap<Vec<u8>, LeftOutKind>,
}

impl LeftOut {
    /// Takes the paths to leave out from `new`, the untracked paths of the database from the top.
    pub fn take_from(repository: &Repository, new: &mut Vec<Vec<u8>>) -> Self {
        let mut look = DirLooks {
            top: &repository.git.dir,
            prefix: &repository.prefix,
            known: HashMap::new(),
        };
        let mut paths = BTreeMap::new();
        new.retain(|path| match look.judge(as_path(path)) {
            Some((path, kind)) => {
                paths.insert(path, kind);
                false
            }
            None => true,
        });
        Self { paths }
    }

    /// The paths from the top: files, and directories with all that is below them.
    pub fn paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.paths.keys()
    }

    /// The lines for the log, one for each kind: `Not committing: .beads/x.pid and 3 more (live state)`.
    pub fn lines(&self, repository: &Repository) -> Vec<EventLine> {
        let mut of_kinds: BTreeMap<LeftOutKind, Vec<&[u8]>> = BTreeMap::new();
        let is_told_here = |kind: &LeftOutKind| *kind != LeftOutKind::Dolt;
        for (path, kind) in self.paths.iter().filter(|(_, kind)| is_told_here(kind)) {
            of_kinds.entry(*kind).or_default().push(path);
        }
        let line = |(kind, paths): (LeftOutKind, Vec<&[u8]>)| {
            let first = repository.shown(paths[0]);
            let more = match paths.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Event::NotCommitting.line(format_args!("{first}{more} ({})", kind.words()))
        };
        of_kinds.into_iter().map(line).collect()
    }

    /// The message to the agent: the paths, sorted; of many the first ones, and how many more there are.
    pub fn message(&self, repository: &Repository) -> SyncMessage {
        let count = u64::try_from(self.paths.len()).unwrap_or(u64::MAX);
        let mut shown: Vec<String> = Vec::new();
        let mut bytes = 0;
        for path in self.paths.keys() {
            let path = repository.shown(path);
            bytes += path.len();
            if shown.len() == LISTED.0 || bytes > LISTED.1 {
                shown.push(format!("and {} more", self.paths.len() - shown.len()));
                break;
            }
            shown.push(path);
        }
        SyncMessage::LeftOut { shown, count }
    }
}

/// The directories of a database, each looked at once.
struct DirLooks<'a> {
    top: &'a Path,
    prefix: &'a Path,
    known: HashMap<PathBuf, DirLook>,
}

#[derive(Debug, Default)]
struct DirLook {
    /// Why the whole directory is left out; `None`: its files are judged one by one.
    whole: Option<LeftOutKind>,
    /// Whether the directory has the files of LevelDB or RocksDB: `CURRENT` and a `MANIFEST-`.
    is_leveldb: bool,
    /// [`Surroundings::has_shared_records`], and whether there is any record file.
    records: OnceCell<(bool, bool)>,
}

impl DirLooks<'_> {
    /// The path that is left out, and why: `path` itself, or a directory that it lies in (this ends in a slash).
    /// `None`: it is not left out.
    fn judge(&mut self, path: &Path) -> Option<(Vec<u8>, LeftOutKind)> {
        let inside = path.strip_prefix(self.prefix).ok()?;
        let dirs: Vec<_> = inside
            .ancestors()
            .skip(1)
            .map(|dir| self.prefix.join(dir))
            .collect();
        // From the top: the outermost one is named.
        for dir in dirs.iter().rev() {
            let is_top = dir == self.prefix;
            let (look, path) = (self.look(dir, is_top), dir.as_os_str().as_bytes());
            if let Some(kind) = look.whole {
                return Some(([path, b"/"].concat(), kind));
            }
        }
        let name = path.file_name()?.as_bytes();
        let dir = dirs.first()?;
        let is_part = self.known.get(dir).is_some_and(|look| look.is_leveldb)
            && is_one_of(&OF_LEVELDB, name)
            || is_one_of(&OF_LMDB, name);
        if is_part {
            return Some((path.as_os_str().as_bytes().to_vec(), LeftOutKind::Database));
        }
        let file = self.top.join(path);
        let meta = fs::symlink_metadata(&file).ok()?;
        let beginning = if meta.is_file() {
            beginning(&file)
        } else {
            Vec::new()
        };
        let look = FileLook {
            name,
            mode: meta.is_file().then(|| meta.mode()),
            size: meta.len(),
            beginning: &beginning,
        };
        let around = Around { looks: self, dir };
        let kind = judge(&look, &around)?;
        Some((path.as_os_str().as_bytes().to_vec(), kind))
    }

    fn look(&mut self, dir: &Path, is_top: bool) -> &DirLook {
        let here = self.top.join(dir);
        self.known.entry(dir.to_owned()).or_insert_with(|| {
            let name = dir.file_name().map(OsStr::as_bytes).unwrap_or_default();
            let is_there = |name: &str| fs::symlink_metadata(here.join(name)).is_ok();
            let is_leveldb = is_there("CURRENT") && has_manifest(&here);
            let is_database = || {
                name == b".dolt"
                    || is_leveldb
                    || is_there(".dolt")
                    || is_there("noms/manifest")
                    || (name == b"noms" && is_there("manifest"))
                    || is_there("data.mdb")
            };
            let judge_all = || {
                let is_dolts = dir.parent() == Some(self.prefix) && is_data_dir(&here);
                let database = || is_database().then_some(LeftOutKind::Database);
                judge_dir(name)
                    .or(is_dolts.then_some(LeftOutKind::Dolt))
                    .or_else(database)
            };
            // The database's own directory has its records in it, whatever else lies there.
            let whole = (!is_top).then(judge_all).flatten();
            DirLook {
                whole,
                is_leveldb,
                records: OnceCell::new(),
            }
        })
    }
}

fn has_manifest(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| entry.file_name().as_bytes().starts_with(b"MANIFEST-"))
}

/// The first bytes of a file; none of one that cannot be read.
fn beginning(path: &Path) -> Vec<u8> {
    let opened = regular::open(path, Links::Refused);
    let mut bytes = Vec::new();
    let read = opened.map(|file| file.take(BEGINNING as u64).read_to_end(&mut bytes));
    if matches!(read, Ok(Ok(_))) {
        bytes
    } else {
        Vec::new()
    }
}

struct Around<'a, 'b> {
    looks: &'a DirLooks<'b>,
    dir: &'a Path,
}

impl Around<'_, '_> {
    /// Whether others may read a record file of this directory, and whether it has any.
    fn records(&self, dir: &Path) -> (bool, bool) {
        let read = || {
            let entries = fs::read_dir(self.looks.top.join(dir));
            let records = entries
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.file_name().as_bytes().ends_with(b".jsonl"));
            let modes: Vec<_> = records
                .filter_map(|entry| entry.metadata().ok())
                .filter(fs::Metadata::is_file)
                .map(|meta| meta.mode())
                .collect();
            let is_shared = modes.iter().any(|mode| mode & 0o077 != 0);
            (is_shared, !modes.is_empty())
        };
        match self.looks.known.get(dir) {
            Some(look) => *look.records.get_or_init(read),
            None => read(),
        }
    }
}

impl Surroundings for Around<'_, '_> {
    fn has(&self, name: &[u8]) -> bool {
        let file = self.looks.top.join(self.dir).join(OsStr::from_bytes(name));
        fs::symlink_metadata(file).is_ok()
    }

    fn has_shared_records(&self) -> bool {
        match self.records(self.dir) {
            (is_shared, true) => is_shared,
            // Those of the database itself count where none lies beside it.
            (_, false) => self.records(self.looks.prefix).0,
        }
    }
}

/// The warning of the secrets among the tracked files, given from the top; `None` where there are none. Its mode does
/// not make a tracked file a secret: git keeps none.
pub(crate) fn tracked_secrets(repository: &Repository, tracked: &[Vec<u8>]) -> Option<EventLine> {
    let is_tracked_secret = |path: &&[u8]| {
        let path = as_path(path);
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let file = repository.git.dir.join(path);
        let is_there = || fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file());
        // A key has another name than these, and there may be thousands of them.
        let content = || match is_one_of(&TEXTS, name) {
            true => Vec::new(),
            false => beginning(&file),
        };
        is_secret(name, b"") || (is_there() && is_secret(name, &content()))
    };
    let secrets: BTreeSet<_> = tracked
        .iter()
        .map(Vec::as_slice)
        .filter(is_tracked_secret)
        .collect();
    let secrets: Vec<_> = secrets.into_iter().collect();
    let lines: Vec<_> = secrets
        .iter()
        .map(|path| {
            let path = as_path(path);
            sqlite::ignored(path.strip_prefix(&repository.prefix).unwrap_or(path))
        })
        .collect();
    if secrets.is_empty() {
        return None;
    }
    let ignore = repository.request.dir.join(".gitignore");
    let command = to_type(
        "git -C {} --literal-pathspecs rm --cached -- {} && printf '\\n%s\\n' {} >>{}",
        &[
            Part::Path(&repository.git.dir),
            typed_all(&secrets),
            typed_all(&lines),
            Part::Path(&ignore),
        ],
    );
    let (paths, it) = (
        repository.shown_all(&secrets),
        if secrets.len() == 1 { "it" } else { "them" },
    );
    let line = Event::TrackedSecret.line(format_args!(
        "{paths}; whoever can read the repository has {it}, also from its history: change the secret, and take {it} \
         out"
    ));
    // A part of a command must not be typed.
    Some(match command.len() <= LONGEST_COMMAND {
        true => line.with(&format!("; type: {command}")),
        false => line,
    })
}

#[cfg(test)]
mod tests;
