//! A file whose name differs from the one in git in case alone. Where `core.ignoreCase` is set, git takes the two for
//! one: it says that the old one is gone, and never that there is a new one. A commit would be of the removal alone.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::{
    Event, GitReason, HindranceKind, Part, Repository, SyncStop, as_path, to_type, typed_all,
};

/// Refuses where one of the `gone` paths is there under a name that differs in case alone.
pub fn refuse(repository: &Repository, gone: &[Vec<u8>]) -> Result<(), SyncStop> {
    let mut folded = gone
        .iter()
        .filter_map(|path| Some((path, here(&repository.git.dir, as_path(path))?)));
    let Some((in_git, here)) = folded.next() else {
        return Ok(());
    };
    if !repository.settings()?.is_true("core.ignorecase") {
        return Ok(());
    }
    let here = here.as_os_str().as_encoded_bytes().to_vec();
    let top = || Part::Path(&repository.git.dir);
    let both = [in_git.clone(), here.clone()];
    let command = to_type(
        "git -C {} rm -q --cached -- {} && git -C {} add -f -- {} && git -C {} commit -q -m case -- {} && git -C {} push",
        &[
            top(),
            typed_all(&both[..1]),
            top(),
            typed_all(&both[1..]),
            top(),
            typed_all(&both),
            top(),
        ],
    );
    let why = format!(
        "{} here, {} in git (core.ignorecase)",
        repository.shown(&here),
        repository.shown(in_git)
    );
    let stop = SyncStop::notice(
        Event::NotCommitting,
        HindranceKind::NotPushing,
        GitReason::NameCase,
        why,
    );
    Err(stop.next(command))
}

/// Says that git does not show a new file, because of another one whose name differs in case alone.
pub fn refuse_twin(repository: &Repository, path: &[u8]) -> Result<(), SyncStop> {
    let Some(twin) = twin(&repository.git.dir, as_path(path)) else {
        return Ok(());
    };
    if !repository.settings()?.is_true("core.ignorecase") {
        return Ok(());
    }
    let why = format!(
        "git takes {} for {} (core.ignorecase)",
        repository.shown(path),
        repository.shown(twin.as_os_str().as_encoded_bytes())
    );
    let command = to_type(
        "git -C {} -c core.ignoreCase=false --literal-pathspecs add -f -- {}",
        &[Part::Path(&repository.git.dir), typed_all(&[path])],
    );
    let stop = SyncStop::notice(
        Event::NotCommitting,
        HindranceKind::NotPushing,
        GitReason::NameCase,
        why,
    );
    Err(stop.next(command))
}

/// Another file of the directory, whose name differs in case alone.
fn twin(top: &Path, path: &Path) -> Option<PathBuf> {
    let (dir, name) = (path.parent()?, path.file_name()?);
    let names = fs::read_dir(top.join(dir)).ok()?.flatten();
    let mut names = names.map(|entry| entry.file_name());
    let twin = names.find(|other| other != name && is_folded(other, name))?;
    Some(dir.join(twin))
}

/// The path as it is below a directory, when it is there in other letters alone.
fn here(top: &Path, path: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(top.join(path)).is_ok() {
        return None;
    }
    let mut found = PathBuf::new();
    for part in path.iter() {
        let exact = found.join(part);
        if fs::symlink_metadata(top.join(&exact)).is_ok() {
            found = exact;
            continue;
        }
        let names = fs::read_dir(top.join(&found)).ok()?.flatten();
        let mut names = names.map(|entry| entry.file_name());
        found.push(names.find(|name| is_folded(name, part))?);
    }
    Some(found)
}

/// Whether two names are the same but for the case of ASCII letters: so git folds names.
fn is_folded(name: &OsString, part: &OsStr) -> bool {
    name.eq_ignore_ascii_case(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_other_letters_is_found() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("Sub/deep")).unwrap();
        fs::write(top.path().join("Sub/deep/issues.jsonl"), "").unwrap();
        let here = |path: &str| here(top.path(), Path::new(path));
        let found = Some(PathBuf::from("Sub/deep/issues.jsonl"));
        assert_eq!(here("Sub/deep/Issues.jsonl"), found);
        assert_eq!(here("sub/DEEP/issues.jsonl"), found);
        assert_eq!(here("Sub/deep/issues.jsonl"), None, "it is there");
        assert_eq!(here("Sub/deep/other.jsonl"), None);
        let twin = |path: &str| twin(top.path(), Path::new(path));
        assert_eq!(twin("Sub/deep/Issues.jsonl"), found);
        assert_eq!(twin("Sub/deep/issues.jsonl"), None);
    }
}
