//! Damage by a power loss or a full disk to HEAD, a branch, or objects: empty files, files of zeros, torn ones. What
//! was there before is told by the [logs](crate::reflog), and each sentence comes with the command that puts it back.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::reflog::{self, LastHead, LogEntry};
use crate::refs::{self, HeadLook, RefLook};
use crate::{
    Git, GitReason, Part, Repository, SyncStop, as_path, escaped, escaped_path, short, to_type,
};

/// How a small file of git's is damaged.
fn how(path: &Path) -> &'static str {
    match fs::read(path) {
        Ok(bytes)
            if bytes
                .iter()
                .all(|byte| *byte == 0 || byte.is_ascii_whitespace()) =>
        {
            "is empty"
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is gone",
        Ok(_) | Err(_) => "is damaged",
    }
}

/// Whether the directory looks like a git directory, whatever has become of its HEAD.
pub(crate) fn is_git_dir(dir: &Path) -> bool {
    ["objects", "refs"]
        .iter()
        .all(|name| dir.join(name).is_dir())
}

/// Why git does not take this git directory for one: HEAD. `None` when HEAD is as it should be.
pub(crate) fn of_head(git_dir: &Path, common_dir: &Path) -> Option<SyncStop> {
    let file = git_dir.join("HEAD");
    if refs::head(git_dir) != HeadLook::Unsure || names_a_ref(&file) {
        return None;
    }
    let why = format!("{} {}", escaped_path(&file), how(&file));
    let stop = |why| SyncStop::failed(GitReason::Damaged, why);
    let text = match last_head(git_dir, common_dir) {
        Some(LastHead::Branch(branch)) => format!("ref: refs/heads/{branch}"),
        Some(LastHead::Commit(commit)) => commit,
        None => {
            let why = format!("{why}, and it is not known which branch was checked out here");
            let parts = [Part::Path(&file)];
            return Some(stop(why).next(to_type("echo 'ref: refs/heads/BRANCH' >{}", &parts)));
        }
    };
    let parts = [Part::Word(OsStr::new(&text)), Part::Path(&file)];
    Some(stop(why).next(to_type("echo {} >{}", &parts)))
}

/// Whether git understands this HEAD, although this program does not: a link, or a ref that is not a branch.
fn names_a_ref(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let named = text.strip_prefix("ref:").map(str::trim);
    named.is_some_and(|name| name.starts_with("refs/") && !name.contains('\0'))
}

fn is_branch(common_dir: &Path, name: &str) -> bool {
    let name = format!("refs/heads/{name}");
    refs::read(common_dir, &name) != RefLook::Absent || common_dir.join("logs").join(&name).exists()
}

fn last_head(git_dir: &Path, common_dir: &Path) -> Option<LastHead> {
    let log = reflog::entries(&git_dir.join("logs/HEAD"));
    if let Some(last) = reflog::last_head(&log, |name| is_branch(common_dir, name)) {
        return Some(last);
    }
    // It was never switched. The branch that is where HEAD was, or the only one that no other worktree has.
    let elsewhere = heads_elsewhere(git_dir, common_dir);
    let mut branches = refs::branches(common_dir);
    branches.retain(|branch| !elsewhere.contains(branch));
    let at = log.first().map(|entry| entry.new.as_str());
    let is_there = |branch: &&String| {
        let found = refs::read(common_dir, &format!("refs/heads/{branch}"));
        at.is_some_and(|at| found == RefLook::Object(at.to_owned()))
    };
    let there: Vec<_> = branches.iter().filter(is_there).collect();
    match (there.as_slice(), branches.as_slice()) {
        ([one], _) => Some(LastHead::Branch((*one).clone())),
        (_, [one]) => Some(LastHead::Branch(one.clone())),
        _ => None,
    }
}

/// The branches that other worktrees of the repository have.
fn heads_elsewhere(git_dir: &Path, common_dir: &Path) -> Vec<String> {
    let trees = fs::read_dir(common_dir.join("worktrees"))
        .into_iter()
        .flatten()
        .flatten();
    let dirs = trees.map(|tree| tree.path()).chain([common_dir.to_owned()]);
    let same = |dir: &Path| fs::canonicalize(dir).ok() == fs::canonicalize(git_dir).ok();
    let others = dirs.filter(|dir| !same(dir));
    others
        .filter_map(|dir| match refs::head(&dir) {
            HeadLook::Branch(name) => name.strip_prefix("refs/heads/").map(str::to_owned),
            HeadLook::Detached | HeadLook::Unsure => None,
        })
        .collect()
}

/// The branch that HEAD has left last, where it is still there; or the only one.
pub(crate) fn left_branch(repository: &Repository) -> Option<String> {
    let common_dir = &repository.common_dir;
    let log = reflog::entries(&repository.git_dir.join("logs/HEAD"));
    let is_branch = |name: &str| is_branch(common_dir, name);
    let mut branches = refs::branches(common_dir);
    reflog::left_branch(&log, is_branch).or_else(|| branches.pop().filter(|_| branches.is_empty()))
}

/// Why a branch has no commit that git can read. `None` when there was never one.
pub(crate) fn of_branch(repository: &Repository, name: &str) -> Option<SyncStop> {
    let common_dir = &repository.common_dir;
    let (file, log) = (
        common_dir.join(name),
        reflog::entries(&common_dir.join("logs").join(name)),
    );
    let is_there = file.is_file();
    if common_dir.join("reftable").is_dir() || (!is_there && log.is_empty()) {
        return None;
    }
    let shown = escaped(name);
    let why = format!("{shown} in {} {}", escaped_path(common_dir), how(&file));
    let stop = |why| SyncStop::failed(GitReason::Damaged, why);
    let Some((commit, is_last)) = last_whole(&repository.git, &candidates(repository, name, &log))
    else {
        let why = format!("{why}, and no commit of it is known that is whole");
        let command = to_type(
            "git -C {} fsck --lost-found",
            &[Part::Path(&repository.git.dir)],
        );
        return Some(stop(why).next(command));
    };
    let (to, ends) = (
        short(&commit),
        if is_last && !log.is_empty() {
            "its log ends at"
        } else {
            "the last commit that is known and whole is"
        },
    );
    let why = format!("{why}; {ends} {to}");
    let words = [OsStr::new(name), OsStr::new(&commit)].map(Part::Word);
    let [name, commit] = words;
    let top = Part::Path(&repository.git.dir);
    Some(stop(why).next(if is_there {
        let parts = [Part::Path(&file), top, name, commit];
        to_type("rm {} && git -C {} update-ref {} {}", &parts)
    } else {
        to_type("git -C {} update-ref {} {}", &[top, name, commit])
    }))
}

/// A ref that git has named as broken: a branch, or a copy of a remote's, which is fetched anew.
pub(crate) fn of_ref(repository: &Repository, said: &str) -> Option<SyncStop> {
    let named = ["unable to resolve reference '", "bad object "]
        .iter()
        .filter_map(|words| said.split_once(words))
        .filter_map(|(_, rest)| rest.split(['\'', '\n']).next());
    let name = named.into_iter().find(|name| name.starts_with("refs/"))?;
    let file = repository.common_dir.join(name);
    if !file.is_file() || refs::read(&repository.common_dir, name) != RefLook::Unsure {
        return None;
    }
    let Some(of_remote) = name.strip_prefix("refs/remotes/") else {
        return of_branch(repository, name);
    };
    let remote = of_remote.split('/').next()?;
    let (shown, dir) = (escaped(name), escaped_path(&repository.common_dir));
    let why = format!("{shown} in {dir} {}", how(&file));
    let parts = [
        Part::Path(&file),
        Part::Path(&repository.git.dir),
        Part::Word(OsStr::new(remote)),
    ];
    let stop = SyncStop::failed(GitReason::Damaged, why);
    Some(stop.next(to_type("rm {} && git -C {} fetch {}", &parts)))
}

/// The commits that a branch may have been at, the likeliest first.
fn candidates(repository: &Repository, name: &str, log: &[LogEntry]) -> Vec<String> {
    let head = reflog::entries(&repository.git_dir.join("logs/HEAD"));
    let is_real = |id: &String| id.bytes().any(|byte| byte != b'0');
    let logged = log.iter().chain(&head).take(16);
    let logged = logged.map(|entry| entry.new.clone()).filter(is_real);
    let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
    let tracking = format!("refs/remotes/origin/{branch}");
    let there = match refs::read(&repository.common_dir, &tracking) {
        RefLook::Object(commit) => Some(commit),
        RefLook::Absent | RefLook::Unsure => None,
    };
    logged.chain(there).collect()
}

/// The first of these commits that is whole, as far as its trees and what it has beyond the remotes, and whether it is
/// the first of all.
fn last_whole(git: &Git, commits: &[String]) -> Option<(String, bool)> {
    // One call for each: git ends at the first object that is damaged.
    let is_whole = |id: &&String| {
        let args = ["rev-list", "--objects", "--quiet", id, "--not", "--remotes"];
        let asked = git.call(args).within(Duration::from_secs(30)).run();
        asked.is_ok_and(|answer| answer.status.success())
    };
    let found = commits.iter().take(20).find(is_whole)?;
    Some((found.clone(), commits.first() == Some(found)))
}

/// Objects that are missing or damaged, by what git has said.
pub(crate) fn of_objects(repository: &Repository, said: &str) -> SyncStop {
    let git_dir = &repository.common_dir;
    let (top, words) = (
        Part::Path(&repository.git.dir),
        crate::cause::last_line(said),
    );
    let stop = |why| SyncStop::failed(GitReason::Damaged, why);
    let damaged = damaged_files(git_dir, said);
    let branch = match refs::head(&repository.git_dir) {
        HeadLook::Branch(name) => Some(name),
        HeadLook::Detached | HeadLook::Unsure => None,
    };
    let remote = remote_of(repository, branch.as_deref().unwrap_or_default());
    if let [first, ..] = damaged.as_slice() {
        let shown = escaped_path(first);
        let more = match damaged.len() {
            1 => "is damaged".to_owned(),
            count => format!("and {} more are damaged", count - 1),
        };
        let aside = git_dir.join("damaged");
        let paths = damaged.iter().take(50).map(|path| path.as_path()).collect();
        let parts = [
            Part::Path(&aside),
            Part::Paths(paths),
            Part::Path(&aside),
            top,
            Part::Word(OsStr::new(&remote)),
        ];
        let why = format!("{shown} {more} ({words}); fetched anew, what {remote} has is whole");
        let command = "mkdir -p {} && mv {} {} && git -C {} fetch --refetch {}";
        return stop(why).next(to_type(command, &parts));
    }
    if let Some(stop) = of_pack(repository, said, &remote) {
        return stop;
    }
    if let Some(file) = still_here(repository, said) {
        let why = format!(
            "the object of {} is missing or damaged ({words}); the file has what was in it",
            repository.shown(&file)
        );
        let parts = [top, Part::Paths(vec![as_path(&file)])];
        return stop(why).next(to_type("git -C {} hash-object -w -- {}", &parts));
    }
    // What no remote has cannot be fetched: the branch goes back to the last commit that is whole, and the files stay.
    if let Some(name) = branch
        && let RefLook::Object(now) = refs::read(git_dir, &name)
        && let log = reflog::entries(&git_dir.join("logs").join(&name))
        && let Some((commit, _)) = last_whole(&repository.git, &candidates(repository, &name, &log))
        && commit != now
    {
        let why = format!(
            "what {} has is damaged ({words}); the last commit that is whole is {}, and your files stay as they are",
            escaped(&name),
            short(&commit)
        );
        let parts = [
            top,
            Part::Word(OsStr::new(&name)),
            Part::Word(OsStr::new(&commit)),
        ];
        return stop(why).next(to_type("git -C {} update-ref {} {}", &parts));
    }
    let why = format!("an object is missing or damaged: {words}");
    stop(why).next(to_type(
        "git -C {} fetch --refetch {}",
        &[top, Part::Word(OsStr::new(&remote))],
    ))
}

/// A pack that is damaged: what can be read of it is unpacked, the rest is fetched.
fn of_pack(repository: &Repository, said: &str, remote: &str) -> Option<SyncStop> {
    let hints = ["inflate:", "packed object", "index CRC", ".pack"];
    if !hints.iter().any(|hint| said.contains(hint)) {
        return None;
    }
    let dir = repository.common_dir.join("objects/pack");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut packs = entries.map(|entry| entry.path());
    let is_damaged = |path: &PathBuf| {
        let verify = repository.git.call(["verify-pack", "--"]);
        let verify = verify.paths([path.as_os_str().as_encoded_bytes()]);
        path.extension().is_some_and(|end| end == "pack")
            && verify
                .within(Duration::from_secs(60))
                .run()
                .is_ok_and(|answer| !answer.status.success() && !answer.timed_out)
    };
    let pack = packs.find(is_damaged)?;
    let aside = repository.common_dir.join("damaged");
    let ends = ["pack", "idx", "rev"].map(|end| pack.with_extension(end));
    let files = ends.iter().filter(|path| path.is_file());
    let moved = aside.join(pack.file_name()?);
    let top = Part::Path(&repository.git.dir);
    let parts = [
        Part::Path(&aside),
        Part::Paths(files.map(PathBuf::as_path).collect()),
        Part::Path(&aside),
        top.clone(),
        Part::Path(&moved),
        top,
        Part::Word(OsStr::new(remote)),
    ];
    let why = format!(
        "{} is damaged ({}); what can be read of it is unpacked, and {remote} has the rest",
        escaped_path(&pack),
        crate::cause::last_line(said)
    );
    // unpack-objects ends with an error, for what it could not read.
    let command = "mkdir -p {} && mv {} {} && { git -C {} unpack-objects -q -r <{}; git -C {} fetch --refetch {}; }";
    let stop = SyncStop::failed(GitReason::Damaged, why);
    Some(stop.next(to_type(command, &parts)))
}

/// A file of the index whose object git has named as missing, and which still has the same content.
fn still_here(repository: &Repository, said: &str) -> Option<Vec<u8>> {
    let mut ids = said.split(|c: char| !c.is_ascii_hexdigit());
    let id = ids.rfind(|word| matches!(word.len(), 40 | 64))?;
    let listed = repository.git.call(["ls-files", "-s", "-z"]).words().ok()?;
    let of_id = |entry: &&Vec<u8>| entry.windows(id.len()).any(|part| part == id.as_bytes());
    let entry = listed.iter().find(of_id)?;
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let path = entry[tab + 1..].to_vec();
    let hash = repository.git.call(["hash-object", "--"]).paths([&path]);
    (hash.text().ok()? == id).then_some(path)
}

/// The remote of a branch, by its full name.
fn remote_of(repository: &Repository, branch: &str) -> String {
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let key = format!("branch.{branch}.remote");
    let settings = repository.settings().ok();
    let set = settings.and_then(|settings| settings.get(&key).map(str::to_owned));
    set.unwrap_or_else(|| "origin".to_owned())
}

/// The loose objects that are empty, and the one that git has named.
fn damaged_files(git_dir: &Path, said: &str) -> Vec<PathBuf> {
    let objects = git_dir.join("objects");
    let dirs = fs::read_dir(&objects).into_iter().flatten().flatten();
    let dirs = dirs.filter(|dir| dir.file_name().len() == 2);
    let files = dirs.flat_map(|dir| fs::read_dir(dir.path()).into_iter().flatten().flatten());
    let is_empty = |file: &fs::DirEntry| {
        file.metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() == 0)
    };
    let mut found: Vec<_> = files.filter(is_empty).map(|file| file.path()).collect();
    found.sort();
    let ids = said.split(|c: char| !c.is_ascii_hexdigit() && c != '/');
    for word in ids {
        let id = word
            .rsplit("objects/")
            .next()
            .unwrap_or(word)
            .replace('/', "");
        let path = match id.len() {
            40 | 64 => objects.join(&id[..2]).join(&id[2..]),
            _ => continue,
        };
        let is_named = said.contains("corrupt") || said.contains("unable to unpack");
        if is_named && path.is_file() && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}
