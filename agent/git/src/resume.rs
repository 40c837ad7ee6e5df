//! What a sync that was killed in the middle of a move has left: finished, or taken back.
//!
//! How each file was and was to be is known, so its content tells how far the move has come and what somebody has done
//! since. The move goes on when the branch is where it was and nobody has touched anything. It is taken back when
//! somebody has committed meanwhile, or has added to a file that the move had not come to. A file that could be either
//! is left to a person, and until then nothing is synced.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{
    DatabaseChanges, Event, GitReason, IndexLock, Move, Part, Repository, Stop, SyncMessage,
    SyncTurn, as_path, index, move_branch, neighbours, remove, say, short, to_type, typed_all,
};

/// git writes a file in pieces of whole pages, so a cut-off one ends at a page.
const PAGE: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    Old,
    New,
    /// Nothing, or the new file's beginning: git removes the old one before it writes.
    CutOff,
    NewAndMore,
    OldAndMore,
    /// It may be a file that was cut off and then added to.
    Unknown,
}

type FileStates = Vec<(Vec<u8>, FileState)>;

/// The states in which a file is written when the move goes on, and when it is taken back.
const ONWARDS: [FileState; 2] = [FileState::Old, FileState::CutOff];
const BACK: [FileState; 2] = [FileState::New, FileState::CutOff];

/// Takes the turn, with nothing left to finish and nobody in the middle of something.
pub(crate) fn begin(repository: &Repository) -> Result<SyncTurn<'_>, Stop> {
    let mut turn = SyncTurn::take(repository)?;
    let unfinished = turn.unfinished()?;
    repository.check_quiet()?;
    if let Some(way) = unfinished {
        resume(&mut turn, &way)?;
    }
    Ok(turn)
}

fn resume(turn: &mut SyncTurn<'_>, way: &Move) -> Result<(), Stop> {
    let repository = turn.repository;
    let head = repository.head()?;
    let is_there = |commit: &str| head.branch == way.branch && head.commit == commit;
    let all = repository.differing(&way.from, &way.to, None)?;
    let _others = neighbours::enter(repository, &all)?;
    let lock = IndexLock::take(turn)?;
    let states = look(&lock, way, &all)?;
    let any = |wanted| states.iter().any(|(_, state)| *state == wanted);
    if is_there(&way.to) {
        // The working tree came before the branch, so all differences are later changes.
        go(&lock, ONWARDS, &way.to, &[], &all)?;
        lock.replace()?;
    } else if is_there(&way.from) && any(FileState::Unknown) {
        return Err(unknown(repository, way, &states));
    } else if is_there(&way.from) && !any(FileState::OldAndMore) {
        go(&lock, ONWARDS, &way.to, &states, &all)?;
        lock.replace()?;
        if let Err(stop) = move_branch(repository, way, "pull (beadlock-agent)") {
            lock.put_back()?;
            return Err(stop);
        }
    } else {
        let elsewhere: BTreeSet<_> = repository
            .differing(&way.from, &head.commit, None)?
            .into_iter()
            .collect();
        let kept: Vec<_> = states
            .into_iter()
            .filter(|(path, _)| !elsewhere.contains(path))
            .collect();
        let paths: Vec<_> = kept.iter().map(|(path, _)| path.clone()).collect();
        go(&lock, BACK, &head.commit, &kept, &paths)?;
        lock.replace()?;
        turn.forget();
        return Ok(());
    }
    drop(lock);
    turn.forget();
    let (from, to) = (short(&way.from), short(&way.to));
    let line = format_args!("what a sync that was killed had begun to ({from}..{to})");
    say(&SyncMessage::Pulled(Event::Pulled.line(line)));
    Ok(())
}

/// Brings a copy of the index to what a commit has of `paths`, and changes the files that have yet to follow.
fn go(
    lock: &IndexLock<'_>,
    written: [FileState; 2],
    commit: &str,
    states: &[(Vec<u8>, FileState)],
    paths: &[Vec<u8>],
) -> Result<(), Stop> {
    let repository = lock.repository;
    let git = &repository.git;
    let scratch = lock.copy()?;
    index::set(git, &scratch, commit, paths)?;
    let args = ["ls-files", "-z", "--cached"];
    let has: BTreeSet<_> = git
        .call(args)
        .index(&scratch)
        .words()?
        .into_iter()
        .collect();
    let to_write = states.iter().filter(|(_, state)| written.contains(state));
    let to_write: Vec<_> = to_write.map(|(path, _)| path).collect();
    // Files are removed first: a directory may come in their place, or go with them. git is not told to force, so it
    // then writes over nothing.
    for path in to_write
        .iter()
        .filter(|path| !is_beyond_a_link(repository, path))
    {
        let path = here(repository, path);
        remove(&path);
        remove_empty(repository, &path);
    }
    let written = to_write.iter().filter(|path| has.contains(**path));
    let written: Vec<u8> = written
        .flat_map(|path| [path, &b"\0"[..]].concat())
        .collect();
    let args = ["checkout-index", "--index", "-z", "--stdin"];
    git.call(args).index(&scratch).stdin(written).done()?;
    Ok(())
}

fn remove_empty(repository: &Repository, path: &Path) {
    let is_below = |dir: &&Path| *dir != repository.git.dir && *dir != repository.request.dir;
    let mut above = path.ancestors().skip(1).take_while(is_below);
    let _ = above.find(|dir| fs::remove_dir(dir).is_err());
}

fn look(lock: &IndexLock<'_>, way: &Move, all: &[Vec<u8>]) -> Result<FileStates, Stop> {
    let repository = lock.repository;
    let is_there = |path: &&Vec<u8>| {
        let meta = fs::symlink_metadata(here(repository, path));
        meta.is_ok_and(|meta| !meta.is_dir()) && !is_beyond_a_link(repository, path)
    };
    let there: Vec<_> = all.iter().filter(is_there).cloned().collect();
    let scratch = lock.copy()?;
    // First to the old state: nothing in the index may be where a file is now.
    index::set(&repository.git, &scratch, &way.from, all)?;
    DatabaseChanges {
        present: there.clone(),
        ..DatabaseChanges::default()
    }
    .stage(&repository.git, &scratch)?;
    let differ = |commit: &str| -> Result<BTreeSet<Vec<u8>>, Stop> {
        let args = [
            "diff-index",
            "--cached",
            "--name-only",
            "--no-renames",
            "-z",
            commit,
        ];
        Ok(repository
            .git
            .call(args)
            .index(&scratch)
            .words()?
            .into_iter()
            .collect())
    };
    let (from, to) = (differ(&way.from)?, differ(&way.to)?);
    let there: BTreeSet<_> = there.into_iter().collect();
    let state =
        |path: &Vec<u8>| match (there.contains(path), from.contains(path), to.contains(path)) {
            (true, false, _) => FileState::Old,
            (true, _, false) => FileState::New,
            (true, true, true) => compare(repository, way, path),
            (false, ..) => FileState::CutOff,
        };
    Ok(all.iter().map(|path| (path.clone(), state(path))).collect())
}

fn compare(repository: &Repository, way: &Move, path: &[u8]) -> FileState {
    let file = here(repository, path);
    let is_file = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file());
    let Some(now) = fs::read(&file).ok().filter(|_| is_file) else {
        return FileState::Unknown;
    };
    let of = |commit: &str| -> Option<Vec<u8>> {
        let name = [commit.as_bytes(), b":", path].concat();
        let answer = repository
            .git
            .call(["cat-file", "--filters"])
            .paths([name])
            .run()
            .ok()?;
        answer.status.success().then_some(answer.stdout)
    };
    judge(&now, of(&way.from).as_deref(), of(&way.to).as_deref())
}

/// The state of a file that is neither `old` nor `new`, by the contents before and after.
fn judge(now: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> FileState {
    let begins_as_new = new.map_or(0, |new| {
        now.iter().zip(new).take_while(|(a, b)| a == b).count()
    });
    match (old, new) {
        (_, Some(new)) if new.len() >= now.len() && begins_as_new == now.len() => FileState::CutOff,
        (_, Some(new)) if !new.is_empty() && begins_as_new == new.len() => FileState::NewAndMore,
        // Were it cut off and then added to, it would be as the new one for whole pages beyond the old.
        (Some(old), _)
            if !old.is_empty()
                && now.starts_with(old)
                && begins_as_new / PAGE <= old.len() / PAGE =>
        {
            FileState::OldAndMore
        }
        _ => FileState::Unknown,
    }
}

fn unknown(repository: &Repository, way: &Move, states: &[(Vec<u8>, FileState)]) -> Stop {
    let unknown = states
        .iter()
        .filter(|(_, state)| *state == FileState::Unknown);
    let paths: Vec<_> = unknown.map(|(path, _)| path).collect();
    let (from, to) = (short(&way.from), short(&way.to));
    let parts = [
        Part::Path(&repository.git.dir),
        Part::Word(OsStr::new(to)),
        typed_all(&paths),
    ];
    let why = format!(
        "a pull has stopped in the middle, and {} is neither as in {from} nor as in {to}",
        repository.shown_all(&paths)
    );
    let command = to_type("git -C {} checkout {} -- {}", &parts);
    Stop::failed(GitReason::InProgress, why)
        .next_at("; keep what it is now elsewhere, then type: ", command)
}

fn here(repository: &Repository, path: &[u8]) -> PathBuf {
    repository.git.dir.join(as_path(path))
}

/// A link has taken the place of a directory above it, so another file is there.
fn is_beyond_a_link(repository: &Repository, path: &[u8]) -> bool {
    let is_link = |dir: &Path| {
        fs::symlink_metadata(repository.git.dir.join(dir)).is_ok_and(|meta| meta.is_symlink())
    };
    as_path(path)
        .ancestors()
        .skip(1)
        .filter(|dir| !dir.as_os_str().is_empty())
        .any(is_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_that_is_neither_old_nor_new() {
        let old = Some(&b"a\n"[..]);
        let new = Some(&b"a\nb\n"[..]);
        let table: [(&[u8], FileState); 7] = [
            (b"", FileState::CutOff),
            (b"a", FileState::CutOff),
            (b"a\nb\nmine\n", FileState::NewAndMore),
            (b"a\nmine\n", FileState::OldAndMore),
            (b"mine\n", FileState::Unknown),
            (b"b\na\n", FileState::Unknown),
            (b"am\n", FileState::Unknown),
        ];
        for (now, state) in table {
            assert_eq!(judge(now, old, new), state, "{now:?}");
        }
        let long = vec![b'x'; 3 * PAGE];
        let cut_off_and_more = [&long[..PAGE], b"mine"].concat();
        assert_eq!(
            judge(&cut_off_and_more, Some(b"x"), Some(&long)),
            FileState::Unknown
        );
        assert_eq!(
            judge(b"xmine", Some(b"x"), Some(&long)),
            FileState::OldAndMore
        );
        assert_eq!(
            judge(b"mine", None, Some(b"new")),
            FileState::Unknown,
            "somebody's own"
        );
        assert_eq!(
            judge(b"old and mine", Some(b"old"), None),
            FileState::OldAndMore
        );
    }
}
