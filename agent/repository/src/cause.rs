//! The cause for which a call of git has failed, where that can be told from git's words and from the repository. A
//! cause has a reason of its own, a sentence, and the command that ends it. A call that failed for another cause keeps
//! git's last line.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use beadlock_base::regular::{self, Links};
use nix::unistd::{Uid, User, geteuid};

use crate::TEXT_LIMIT;
use crate::{
    GitReason, Part, Repository, SyncStop, as_path, damage, escaped, escaped_path, locks, progress,
    reflog, to_type,
};

/// The stop with its cause, where that can be told.
pub fn explain(repository: &Repository, stop: SyncStop) -> SyncStop {
    let explained = match stop.reason() {
        GitReason::GitFailed => by_hook(&stop)
            .or_else(|| damage::of_ref(repository, stop.said()))
            .or_else(|| of_words(repository, stop.said(), Cause::of(stop.said())?))
            .or_else(|| of_full_disk(repository, &stop)),
        GitReason::RemoteUnreachable | GitReason::CannotPush | GitReason::PushRefused => {
            let said = here(stop.said());
            damage::of_ref(repository, &said).or_else(|| {
                let is_here = |cause: &Cause| {
                    matches!(cause, Cause::Lock | Cause::Objects | Cause::Permission)
                };
                of_words(repository, &said, Cause::of(&said).filter(is_here)?)
            })
        }
        // Our own files lie in the git directory, too.
        GitReason::Io => not_writable(repository, ""),
        _ => None,
    };
    match explained {
        Some(explained) => explained,
        None => trusting(stop),
    }
}

/// The stop for a write of git that failed on a full disk, of which git does not tell; `None` for another cause.
fn of_full_disk(repository: &Repository, stop: &SyncStop) -> Option<SyncStop> {
    /// With less than this, a file of a sync may not fit.
    const LITTLE: u64 = 1024 * 1024;
    let is_of_write = stop.said().contains("unable to write");
    let dirs = [&repository.git_dir, &repository.git.dir];
    let is_full = |dir: &&&PathBuf| {
        let stat = nix::sys::statvfs::statvfs(dir.as_path());
        stat.is_ok_and(|stat| stat.blocks_available() * stat.fragment_size() < LITTLE)
    };
    let full = dirs.iter().find(is_full).filter(|_| is_of_write)?;
    let why = format!(
        "{} (no space left on the file system of {})",
        stop.why(),
        escaped_path(full)
    );
    Some(SyncStop::failed(GitReason::GitFailed, why))
}

/// The lines of git itself, here. The other end and hooks have troubles of their own.
fn here(said: &str) -> String {
    let is_of_git = |line: &&str| {
        let is_said = line.starts_with("fatal: ") || line.starts_with("error: ");
        is_said && !line.starts_with("error: remote unpack failed: ")
    };
    said.lines()
        .filter(is_of_git)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The stop for a refusal of the hook `reference-transaction`; `None` for another cause.
fn by_hook(stop: &SyncStop) -> Option<SyncStop> {
    let is_hook = stop.said().contains("aborted by hook");
    let words = last_of_program(stop.said()).filter(|_| is_hook)?;
    let why = format!(
        "{}: the hook reference-transaction has failed: {}",
        stop.what(),
        escaped(&words)
    );
    Some(SyncStop::failed(GitReason::Hook, why))
}

/// Adds the command for a repository of another user, such as a remote that is a directory: git names it, and uses it
/// when it is told to.
fn trusting(stop: SyncStop) -> SyncStop {
    let words = "detected dubious ownership in repository at '";
    let named = stop.said().split_once(words);
    let path = named.and_then(|(_, rest)| rest.split('\'').next());
    let Some(path) = path.map(PathBuf::from) else {
        return stop;
    };
    let command = "git config --global --add safe.directory {}";
    stop.next(to_type(command, &[Part::Path(&path)]))
}

/// Which of the causes git's words are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Lock,
    Index,
    Objects,
    Permission,
    Identity,
    LineEnds,
    Filter,
    Encoding,
}

impl Cause {
    /// Reads the cause from git's words in English; `None`: it cannot be told.
    fn of(said: &str) -> Option<Self> {
        let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
        // A full disk is no damage: git's own words say it.
        if has(&["No space left on device", "Disk quota exceeded"]) {
            return None;
        }
        let is_lock =
            has(&[".lock': File exists", ".lock' exists"]) || locked_config(said).is_some();
        Some(if is_lock {
            Self::Lock
        } else if has(&[
            "index file corrupt",
            "index file smaller than expected",
            "bad index file sha1 signature",
            "bad signature 0x",
            "bad index version",
            "unknown index entry format",
            "unordered stage entries",
            "malformed name field in the index",
            "cache entry has null sha1",
        ]) {
            Self::Index
        } else if has(&["insufficient permission", "Permission denied"]) && !has(&["publickey"]) {
            Self::Permission
        } else if has(&[
            "ident name",
            "auto-detect email",
            "no email was given",
            "no name was given",
        ]) {
            Self::Identity
        } else if has(&["would be replaced by"]) {
            Self::LineEnds
        } else if has(&["failed to encode", "in working-tree-encoding"]) {
            Self::Encoding
        } else if has(&[
            "filter '",
            "filter-process",
            "subprocess '",
            "filter process",
            "remote end hung up",
        ]) && !has(&["Could not read from remote repository"])
        {
            Self::Filter
        } else if has(&[
            "object file",
            "loose object",
            "bad object",
            "bad tree object",
            "unable to read",
            "could not parse",
            "unable to parse commit",
            "failed to read object",
            "invalid sha1 pointer",
            "missing blob",
            "missing tree",
            "inflate:",
            "not a valid object",
            "unable to unpack",
            "invalid object",
            "bad revision 'HEAD'",
            "packed object",
        ]) {
            Self::Objects
        } else {
            return None;
        })
    }
}

fn of_words(repository: &Repository, said: &str, cause: Cause) -> Option<SyncStop> {
    match cause {
        Cause::Lock => lock_in(repository, said).and_then(|lock| locks::held(repository, &lock)),
        Cause::Index => Some(index(repository, said)),
        Cause::Permission => not_writable(repository, said),
        Cause::Identity => Some(identity(repository, said)),
        Cause::LineEnds => Some(line_ends(repository, said)),
        Cause::Encoding => Some(encoding(repository, said)),
        Cause::Filter => filter(repository, said),
        Cause::Objects => Some(damage::of_objects(repository, said)),
    }
}

/// git's last line that says what is the matter, without its `fatal: `.
pub(crate) fn last_line(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let begins = |word: &'static str| lines().find_map(|line| line.strip_prefix(word));
    let line = begins("fatal: ")
        .or_else(|| begins("error: "))
        .or_else(|| lines().next_back());
    line.unwrap_or_default().to_owned()
}

/// The last words of a program that git has started: the last line that is not git's own.
fn last_of_program(said: &str) -> Option<String> {
    let is_of_git = |line: &&str| {
        ["fatal: ", "error: ", "warning: ", "hint: "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let lines = said.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !is_of_git(line));
    lines.next_back().map(str::to_owned)
}

/// The lock file that git could not make.
fn lock_in(repository: &Repository, said: &str) -> Option<PathBuf> {
    let quoted = said.split('\'').skip(1).step_by(2);
    let mut paths = quoted.filter(|path| path.ends_with(".lock")).map(Path::new);
    let found = paths.find(|path| path.is_absolute() && path.exists());
    let of_config = || {
        Some(
            repository
                .git
                .dir
                .join(format!("{}.lock", locked_config(said)?)),
        )
    };
    found.map(Path::to_owned).or_else(of_config)
}

/// The file of settings that git could not lock, as git names it: from the top.
fn locked_config(said: &str) -> Option<&str> {
    let mut lines = said.lines();
    lines.find_map(|line| {
        let file = line.split_once("could not lock config file ")?.1;
        file.strip_suffix(": File exists")
    })
}

fn index(repository: &Repository, said: &str) -> SyncStop {
    let file = repository.index();
    let aside = progress::free(&file.with_file_name("index.damaged"));
    let why = format!(
        "{} is damaged ({}); made anew, it is as the last commit, and your files stay as they are",
        escaped_path(&file),
        last_line(said)
    );
    let parts = [
        Part::Path(&file),
        Part::Path(&aside),
        Part::Path(&repository.git.dir),
    ];
    SyncStop::failed(GitReason::Damaged, why)
        .next(to_type("mv {} {} && git -C {} reset -q", &parts))
}

/// The first file of git's that another user has, so that this one cannot write there.
fn not_writable(repository: &Repository, said: &str) -> Option<SyncStop> {
    let me = geteuid();
    let git_dir = &repository.common_dir;
    let is_foreign = |path: &Path| {
        let meta = fs::symlink_metadata(path).ok()?;
        let is_mine = meta.uid() == me.as_raw();
        (!is_mine && !may_write(path)).then(|| (path.to_owned(), meta.uid()))
    };
    let below = |name: &str| {
        let entries = fs::read_dir(git_dir.join(name))
            .into_iter()
            .flatten()
            .flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let named = said
        .split('\'')
        .skip(1)
        .step_by(2)
        .map(|path| git_dir.join(path));
    let few = [
        "",
        "objects",
        "refs",
        "refs/heads",
        "logs",
        "logs/refs/heads",
        "index",
        "HEAD",
    ];
    let (path, uid) = named
        .filter(|path| path.starts_with(git_dir))
        .chain(few.map(|name| git_dir.join(name)))
        .chain(
            [
                "objects",
                "refs/heads",
                "refs/remotes",
                "logs",
                "logs/refs/heads",
                "",
            ]
            .into_iter()
            .flat_map(below),
        )
        .find_map(|path| is_foreign(&path))?;
    let name = |uid: Uid| {
        let user = User::from_uid(uid).ok().flatten();
        user.map_or_else(|| format!("user {uid}"), |user| user.name)
    };
    let (owner, this) = (name(Uid::from_raw(uid)), name(me));
    let why = format!(
        "{} belongs to {}, and {} cannot write there",
        escaped_path(&path),
        escaped(&owner),
        escaped(&this)
    );
    let me = this
        .strip_prefix("user ")
        .map_or_else(|| this.clone(), str::to_owned);
    let parts = [Part::Word(OsStr::new(&me)), Part::Path(git_dir)];
    Some(SyncStop::failed(GitReason::NotWritable, why).next(to_type("sudo chown -R {} {}", &parts)))
}

fn may_write(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok()
}

/// The stop where git does not know the committer. The likeliest one has committed here before.
fn identity(repository: &Repository, said: &str) -> SyncStop {
    let line = last_line(said);
    let what = match line.contains("email") {
        true => "user.email",
        false => "user.name",
    };
    let why = format!("git does not know who you are ({what}): {line}");
    let log = reflog::entries(&repository.git_dir.join("logs/HEAD"));
    let before = log
        .iter()
        .find(|entry| entry.verb() == "commit" && !entry.who.0.is_empty());
    let (name, mail) = before.map_or(("Your Name", "you@example.org"), |entry| {
        (&entry.who.0, &entry.who.1)
    });
    let top = Part::Path(&repository.git.dir);
    let [name, mail] = [name, mail].map(|word| Part::Word(OsStr::new(word)));
    let parts = [top.clone(), name, top, mail];
    let command = "git -C {} config user.name {} && git -C {} config user.email {}";
    SyncStop::failed(GitReason::NoIdentity, why).next(to_type(command, &parts))
}

fn refused(why: String) -> SyncStop {
    SyncStop::failed(GitReason::GitRefuses, why)
}

/// The stop for line ends that `core.safecrlf=true` refuses.
fn line_ends(repository: &Repository, said: &str) -> SyncStop {
    let line = last_line(said);
    let (what, file) = match line.split_once(" would be replaced by ") {
        Some((from, rest)) => {
            let (to, file) = rest.split_once(" in ").unwrap_or((rest, "a file"));
            let to = to.trim_end_matches('.');
            (
                format!("{from} would be replaced by {to}"),
                file.trim_end_matches('.'),
            )
        }
        None => (line.clone(), "a file"),
    };
    let why = format!("git refuses {}: {what} (core.safecrlf)", escaped(file));
    let top = [Part::Path(&repository.git.dir)];
    refused(why).next(to_type("git -C {} config core.safecrlf warn", &top))
}

/// The stop for a file that does not fit its `working-tree-encoding`.
fn encoding(repository: &Repository, said: &str) -> SyncStop {
    let line = last_line(said);
    let file = line.split('\'').nth(1).unwrap_or("a file").to_owned();
    let set = attribute_line(repository, file.as_bytes(), "working-tree-encoding=");
    refused(format!(
        "git refuses {}: {}{set}",
        escaped(&file),
        escaped(&line)
    ))
}

/// The stop for a filter that has to be there, and fails; `None` where the file is not known.
fn filter(repository: &Repository, said: &str) -> Option<SyncStop> {
    let line = last_line(said);
    // `F: clean filter 'NAME' failed`
    let named = line.split_once(" filter '").and_then(|(before, rest)| {
        let file = before.rsplit_once(": ").map(|(file, _)| file);
        let name = rest.split('\'').next()?;
        Some((file?.as_bytes().to_vec(), name.to_owned()))
    });
    let (file, name) = named.or_else(|| filtered(repository))?;
    let words = last_of_program(said).unwrap_or(line);
    let shown = repository.shown(&file);
    let set = attribute_line(repository, &file, &format!("filter={name}"));
    Some(refused(format!(
        "git refuses {shown}: filter {}: {}{set}",
        escaped(&name),
        escaped(&words)
    )))
}

/// The first file of the database that has a filter, and which.
fn filtered(repository: &Repository) -> Option<(Vec<u8>, String)> {
    let listed = repository
        .git
        .call(["ls-files", "-z", "-c", "-o", "--exclude-standard", "--"])
        .paths([repository.inside()])
        .run()
        .ok()?;
    let asked = repository
        .git
        .call(["check-attr", "-z", "--stdin", "filter"])
        .stdin(listed.stdout)
        .words()
        .ok()?;
    let is_set = |value: &[u8]| !matches!(value, b"unspecified" | b"unset" | b"set");
    let found = asked.chunks_exact(3).find(|entry| is_set(&entry[2]))?;
    let name = String::from_utf8_lossy(&found[2]).into_owned();
    Some((found[0].clone(), name))
}

/// Where an attribute of a file is set: ` (.gitattributes, line 1)`; "" when it is not found.
fn attribute_line(repository: &Repository, file: &[u8], attribute: &str) -> String {
    let dirs = as_path(file).ancestors().skip(1);
    let files = dirs.map(|dir| dir.join(".gitattributes"));
    for path in files {
        let file = repository.git.dir.join(&path);
        let text = regular::read_text(&file, Links::Followed, TEXT_LIMIT).unwrap_or_default();
        let has = |line: &str| {
            let is_comment = line.starts_with('#');
            let mut words = line.split_whitespace().skip(1);
            !is_comment && words.any(|word| word.starts_with(attribute))
        };
        let found = text
            .lines()
            .enumerate()
            .filter(|(_, line)| has(line))
            .last();
        if let Some((at, _)) = found {
            return format!(" ({}, line {})", escaped_path(&path), at + 1);
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_tells_the_cause() {
        let table = [
            (
                "fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git process",
                Some(Cause::Lock),
            ),
            (
                "error: bad signature 0x00000000\nfatal: index file corrupt",
                Some(Cause::Index),
            ),
            (
                "fatal: .git/index: index file smaller than expected",
                Some(Cause::Index),
            ),
            (
                "error: insufficient permission for adding an object to repository database .git/objects",
                Some(Cause::Permission),
            ),
            (
                "git@host: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                None,
            ),
            (
                "fatal: empty ident name (for <a@b>) not allowed",
                Some(Cause::Identity),
            ),
            (
                "fatal: unable to auto-detect email address (got 'root@x.(none)')",
                Some(Cause::Identity),
            ),
            (
                "fatal: CRLF would be replaced by LF in a.jsonl",
                Some(Cause::LineEnds),
            ),
            ("fatal: a: clean filter 'no' failed", Some(Cause::Filter)),
            (
                "git-lfs: command not found\nfatal: the remote end hung up unexpectedly",
                Some(Cause::Filter),
            ),
            (
                "fatal: the remote end hung up unexpectedly\nfatal: Could not read from remote repository.",
                None,
            ),
            (
                "error: object file .git/objects/ab/cd is empty",
                Some(Cause::Objects),
            ),
            (
                "fatal: failed to encode 'a' from UTF-99 to UTF-8",
                Some(Cause::Encoding),
            ),
            ("fatal: not something we can merge", None),
            (
                "error: unable to write loose object file: No space left on device",
                None,
            ),
        ];
        for (said, cause) in table {
            assert_eq!(Cause::of(said), cause, "{said}");
        }
    }

    #[test]
    fn a_programs_last_line_is_not_gits() {
        let said =
            "sh: 1: /no/such: not found\nerror: external filter '/no/such' failed 127\nfatal: x\n";
        assert_eq!(
            last_of_program(said).as_deref(),
            Some("sh: 1: /no/such: not found")
        );
        assert_eq!(last_line(said), "x");
        assert_eq!(last_of_program("fatal: x"), None);
    }
}
