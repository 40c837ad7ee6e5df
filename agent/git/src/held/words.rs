//! The sentences about held files for the state of the database, and the commands to type.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::HeldFile;
use crate::{Part, to_type};
use beadlock_repository::{GitReason, Hindrance, HindranceKind, Repository, as_path};

pub(super) fn held(why: String, next: Option<String>) -> Hindrance {
    Hindrance {
        kind: HindranceKind::NotPushing,
        reason: GitReason::Held,
        why,
        next,
    }
}

/// The hindrance for the held files: it names the first of them, and how many more there are. `None` without any.
pub(super) fn hindrance(
    repository: &Repository,
    all: &BTreeMap<Vec<u8>, HeldFile>,
) -> Option<Hindrance> {
    let (path, HeldFile { fault, is_in_head }) = all.iter().next()?;
    let more = match all.len() - 1 {
        0 => String::new(),
        1 => "; 1 more file is held back".to_owned(),
        more => format!("; {more} more files are held back"),
    };
    let what = if fault.is_to_be_edited() {
        "edit the file, or commit and push it yourself if it is meant"
    } else {
        "restore the file, or commit and push it yourself if it is meant"
    };
    let why = format!("{}{fault}{more}; {what}", repository.shown(path));
    let next = match fault.is_to_be_edited() || !is_in_head {
        true => None,
        false => restore(repository, path),
    };
    Some(held(why, next))
}

/// The hindrance for a file whose writer does not know what has come in.
pub(super) fn of_outdated(repository: &Repository, path: &[u8], why: &str) -> Hindrance {
    let path = repository.shown(path);
    held(
        format!("{path}: {why}, or commit and push it yourself if it is meant"),
        None,
    )
}

/// The command that brings back the file of the last commit, and keeps what lies there now. Without a path it is that
/// of the whole database.
pub(super) fn restore(repository: &Repository, path: &[u8]) -> Option<String> {
    let (git, prefix) = (
        &repository.git,
        repository.prefix.as_os_str().as_encoded_bytes(),
    );
    let what = match (path, prefix) {
        (b"", b"") => b".",
        (b"", prefix) => prefix,
        (path, _) => path,
    };
    let is_plain = |byte: &u8| !b"*?[\\:".contains(byte);
    let literal: &[&str] = if what.iter().all(is_plain) {
        &[]
    } else {
        &["--literal-pathspecs"]
    };
    let literal = || Part::Words(literal.iter().map(Into::into).collect());
    let (top, what) = (Part::Path(&git.dir), as_path(what));
    let file = git.dir.join(what);
    let meta = (!path.is_empty())
        .then(|| fs::symlink_metadata(&file).ok())
        .flatten();
    let Some(meta) = meta else {
        return Some(to_type(
            "git -C {} {} checkout HEAD -- {}",
            &[top, literal(), Part::Path(what)],
        ));
    };
    let mine = mine(&file)?;
    let (file, mine) = (Part::Path(&file), Part::Path(&mine));
    let parts = [file, mine, top, literal(), Part::Path(what)];
    Some(if meta.is_file() {
        to_type("cp -p {} {} && git -C {} {} checkout HEAD -- {}", &parts)
    } else {
        to_type("mv {} {} && git -C {} {} checkout HEAD -- {}", &parts)
    })
}

/// A free name beside the file, of a kind that is not committed.
fn mine(file: &Path) -> Option<PathBuf> {
    (1..100_u32)
        .map(|number| {
            let mut name = file.file_name().unwrap_or_default().to_owned();
            if number > 1 {
                name.push(format!(".{number}"));
            }
            name.push(".mine");
            file.with_file_name(name)
        })
        .find(|mine| fs::symlink_metadata(mine).is_err())
}
