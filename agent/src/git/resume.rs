//! What a sync that was killed in the middle of a move has left: brought to its end, or taken back.
//!
//! Of every file that the move changes it is known how it was and how it was to be. What is there now tells how far the
//! move has come, and what somebody has done since. Onwards, when the branch is where it was and nobody has touched
//! anything; back, when somebody has made a commit meanwhile, or has added to a file that the move had not come to. A
//! file that could be the one or the other is left to a person, and until then nothing is synced.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_checker::internal::log_line::Event;
use beadlock_checker::internal::shell::{Part, to_type};

use super::branch::{Move, move_branch, short};
use super::changes::Changes;
use super::index::{self, IndexLock};
use super::message::{SyncMessage, say};
use super::neighbours;
use super::repository::Repository;
use super::stop::{Stop, typed_all};
use super::turn::{Turn, remove};

/// git writes a file in pieces of whole pages: it is cut off at the end of one.
const PAGE: usize = 4096;

/// What is there of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    /// As before the move.
    Old,
    /// As after it.
    New,
    /// Nothing, or the new file's beginning: git removes the old one before it writes.
    CutOff,
    /// The new one, and more.
    NewAndMore,
    /// The old one, and more.
    OldAndMore,
    /// Whatever it is, it cannot be told from a file that was cut off and then added to.
    Unknown,
}

/// Where the files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Onwards,
    Back,
}

/// The turn, with nothing left to finish and nobody in the middle of something.
pub(super) fn begin(repository: &Repository) -> Result<Turn<'_>, Stop> {
    let mut turn = Turn::take(repository)?;
    let unfinished = turn.unfinished()?;
    repository.check_quiet()?;
    if let Some(way) = unfinished {
        resume(&mut turn, &way)?;
    }
    Ok(turn)
}

/// Finishes the move, or takes it back.
fn resume(turn: &mut Turn<'_>, way: &Move) -> Result<(), Stop> {
    let repository = turn.repository;
    let head = repository.head()?;
    let is_there = |commit: &str| head.branch == way.branch && head.commit == commit;
    let all = repository.differing(&way.from, &way.to, None)?;
    let _others = neighbours::enter(repository, &all)?;
    repository.check_unclaimed()?;
    let lock = IndexLock::take(turn)?;
    let states = look(repository, &lock, way, &all)?;
    let any = |now| states.iter().any(|(_, state)| *state == now);
    if is_there(&way.to) {
        // The working tree came before the branch: whatever is different by now was changed since.
        go(repository, &lock, Way::Onwards, &way.to, &[], &all)?;
        lock.replace()?;
    } else if is_there(&way.from) && any(Now::Unknown) {
        return Err(unknown(repository, way, &states));
    } else if is_there(&way.from) && !any(Now::OldAndMore) {
        go(repository, &lock, Way::Onwards, &way.to, &states, &all)?;
        lock.replace()?;
        if let Err(stop) = move_branch(repository, way, "pull (beadlock-agent)") {
            lock.put_back()?;
            return Err(stop);
        }
    } else {
        let elsewhere: BTreeSet<_> =
            repository.differing(&way.from, &head.commit, None)?.into_iter().collect();
        let kept: Vec<_> = states.into_iter().filter(|(path, _)| !elsewhere.contains(path)).collect();
        let paths: Vec<_> = kept.iter().map(|(path, _)| path.clone()).collect();
        go(repository, &lock, Way::Back, &head.commit, &kept, &paths)?;
        lock.replace()?;
        turn.forget();
        return Ok(());
    }
    drop(lock);
    turn.forget();
    let (from, to) = (short(&way.from), short(&way.to));
    say(&SyncMessage::Pulled(
        Event::Pulled.line(format_args!("what a sync that was killed had begun to ({from}..{to})")),
    ));
    Ok(())
}

/// Brings a copy of the index to what a commit has of `paths`, and the files that the move has changed or has yet to.
fn go(
    repository: &Repository,
    lock: &IndexLock<'_>,
    way: Way,
    commit: &str,
    states: &[(Vec<u8>, Now)],
    paths: &[Vec<u8>],
) -> Result<(), Stop> {
    let git = &repository.git;
    let scratch = lock.copy()?;
    index::set(repository, &scratch, commit, paths)?;
    let args = ["ls-files", "-z", "--cached"];
    let has: BTreeSet<_> = git.call(args).index(&scratch).words()?.into_iter().collect();
    let is_to_write = |now: &Now| match way {
        Way::Onwards => matches!(now, Now::Old | Now::CutOff),
        Way::Back => matches!(now, Now::New | Now::CutOff),
    };
    let to_write: Vec<_> = states.iter().filter(|(_, now)| is_to_write(now)).map(|(path, _)| path).collect();
    // What goes goes first: a directory may come in its place, or go with it. Without force, git then writes over
    // nothing.
    for path in to_write.iter().filter(|path| !is_beyond_a_link(repository, path)) {
        let path = here(repository, path);
        remove(&path);
        remove_empty(repository, &path);
    }
    let written: Vec<u8> = to_write
        .iter()
        .filter(|path| has.contains(**path))
        .flat_map(|path| [path, &b"\0"[..]].concat())
        .collect();
    let args = ["checkout-index", "--index", "-z", "--stdin"];
    git.call(args).index(&scratch).stdin(written).done()?;
    Ok(())
}

/// The directories above a file that have nothing in them any more.
fn remove_empty(repository: &Repository, path: &Path) {
    let above =
        path.ancestors().skip(1).take_while(|dir| *dir != repository.git.dir && *dir != repository.database);
    for dir in above {
        if fs::remove_dir(dir).is_err() {
            return;
        }
    }
}

/// How far the move has come with each path.
fn look(
    repository: &Repository,
    lock: &IndexLock<'_>,
    way: &Move,
    all: &[Vec<u8>],
) -> Result<Vec<(Vec<u8>, Now)>, Stop> {
    let is_there = |path: &&Vec<u8>| {
        let meta = fs::symlink_metadata(here(repository, path));
        meta.is_ok_and(|meta| !meta.is_dir()) && !is_beyond_a_link(repository, path)
    };
    let there: Vec<_> = all.iter().filter(is_there).cloned().collect();
    let scratch = lock.copy()?;
    // So that nothing is in the index where a file is now.
    index::set(repository, &scratch, &way.from, all)?;
    Changes { present: there.clone(), ..Changes::default() }.stage(&repository.git, &scratch)?;
    let differ = |commit: &str| -> Result<BTreeSet<Vec<u8>>, Stop> {
        let args = ["diff-index", "--cached", "--name-only", "--no-renames", "-z", commit];
        Ok(repository.git.call(args).index(&scratch).words()?.into_iter().collect())
    };
    let (from, to) = (differ(&way.from)?, differ(&way.to)?);
    let there: BTreeSet<_> = there.into_iter().collect();
    let state = |path: &Vec<u8>| match (there.contains(path), from.contains(path), to.contains(path)) {
        (true, false, _) => Now::Old,
        (true, _, false) => Now::New,
        (true, true, true) => compare(repository, way, path),
        (false, ..) => Now::CutOff,
    };
    Ok(all.iter().map(|path| (path.clone(), state(path))).collect())
}

fn compare(repository: &Repository, way: &Move, path: &[u8]) -> Now {
    let file = here(repository, path);
    let is_file = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file());
    let now = fs::read(&file).ok().filter(|_| is_file);
    let of = |commit: &str| -> Option<Vec<u8>> {
        let name = [commit.as_bytes(), b":", path].concat();
        let answer = repository.git.call(["cat-file", "--filters"]).paths([name]).run().ok()?;
        answer.status.success().then_some(answer.stdout)
    };
    match now {
        Some(now) => judge(&now, of(&way.from).as_deref(), of(&way.to).as_deref()),
        None => Now::Unknown,
    }
}

/// What a file is that is neither `old` nor `new`, where there was and will be one.
fn judge(now: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Now {
    let begins_as_new = new.map_or(0, |new| now.iter().zip(new).take_while(|(a, b)| a == b).count());
    if new.is_some_and(|new| new.len() >= now.len() && begins_as_new == now.len()) {
        return Now::CutOff;
    }
    if new.is_some_and(|new| !new.is_empty() && begins_as_new == new.len()) {
        return Now::NewAndMore;
    }
    match old {
        // Were it cut off and then added to, it would be as the new one for whole pages beyond the old.
        Some(old) if !old.is_empty() && now.starts_with(old) && begins_as_new / PAGE <= old.len() / PAGE => {
            Now::OldAndMore
        }
        _ => Now::Unknown,
    }
}

fn unknown(repository: &Repository, way: &Move, states: &[(Vec<u8>, Now)]) -> Stop {
    let paths: Vec<_> = states.iter().filter(|(_, now)| *now == Now::Unknown).map(|(path, _)| path).collect();
    let (from, to) = (short(&way.from), short(&way.to));
    let parts = [Part::Path(&repository.git.dir), Part::Word(OsStr::new(to)), typed_all(&paths)];
    Stop::Refused(format!(
        "a pull has stopped in the middle, and {} is neither as in {from} nor as in {to}; \
         keep what it is now elsewhere, then type: {}",
        repository.shown_all(paths.iter().map(|path| path.as_slice())),
        to_type("git -C {} checkout {} -- {}", &parts)
    ))
}

fn here(repository: &Repository, path: &[u8]) -> PathBuf {
    repository.git.dir.join(OsStr::from_bytes(path))
}

/// A link has taken the place of a directory above it: what is there is another file.
fn is_beyond_a_link(repository: &Repository, path: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let is_link =
        |dir: &Path| fs::symlink_metadata(repository.git.dir.join(dir)).is_ok_and(|meta| meta.is_symlink());
    path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()).any(is_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_that_is_neither_old_nor_new() {
        let old = Some(&b"a\n"[..]);
        let new = Some(&b"a\nb\n"[..]);
        let table: [(&[u8], Now); 7] = [
            (b"", Now::CutOff),
            (b"a", Now::CutOff),
            (b"a\nb\nmine\n", Now::NewAndMore),
            (b"a\nmine\n", Now::OldAndMore),
            (b"mine\n", Now::Unknown),
            (b"b\na\n", Now::Unknown),
            (b"am\n", Now::Unknown),
        ];
        for (now, state) in table {
            assert_eq!(judge(now, old, new), state, "{now:?}");
        }
        let long = vec![b'x'; 3 * PAGE];
        let cut_off_and_more = [&long[..PAGE], b"mine"].concat();
        assert_eq!(judge(&cut_off_and_more, Some(b"x"), Some(&long)), Now::Unknown);
        assert_eq!(judge(b"xmine", Some(b"x"), Some(&long)), Now::OldAndMore);
        assert_eq!(judge(b"mine", None, Some(b"new")), Now::Unknown, "somebody's own");
        assert_eq!(judge(b"old and mine", Some(b"old"), None), Now::OldAndMore);
    }
}
