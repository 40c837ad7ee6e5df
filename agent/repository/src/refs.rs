//! Refs, read as git reads them: HEAD, a loose ref, `packed-refs`. What is not as simple as that is left to git.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path};

use beadlock_base::regular::{self, Links};

/// The longest `packed-refs` that is read here.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Result of reading a ref from git's files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RefLook {
    /// The ref names this object, by its id in hexadecimal digits.
    Object(String),
    /// There is no such ref.
    Absent,
    /// Only git can tell.
    Unsure,
}

/// Result of reading HEAD from its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadLook {
    /// The full name of the branch, which need not be there.
    Branch(String),
    Detached,
    Unsure,
}

/// HEAD of a working tree with this git directory.
pub(crate) fn head(git_dir: &Path) -> HeadLook {
    let Ok(text) = read_small(&git_dir.join("HEAD")) else {
        return HeadLook::Unsure;
    };
    match text.strip_prefix("ref: ").map(str::trim_end) {
        Some(name) if is_branch(name) => HeadLook::Branch(name.to_owned()),
        None if is_object(text.trim_end()) => HeadLook::Detached,
        _ => HeadLook::Unsure,
    }
}

/// A ref that all working trees share, by its full name.
pub(crate) fn read(common_dir: &Path, name: &str) -> RefLook {
    if !is_shared(name) || common_dir.join("reftable").is_dir() {
        return RefLook::Unsure;
    }
    // git packs a ref before it removes its file, so what is nowhere is looked for once more.
    for _ in 0..2 {
        match read_small(&common_dir.join(name)) {
            Ok(text) if is_object(text.trim_end()) => {
                return RefLook::Object(text.trim_end().to_owned());
            }
            // `refs/heads/a` may be the directory of `refs/heads/a/b`.
            Err(error) if is_absent(&error) => {}
            Ok(_) | Err(_) => return RefLook::Unsure,
        }
        match packed(common_dir, name) {
            Ok(Some(object)) => return RefLook::Object(object),
            Ok(None) => {}
            Err(_) => return RefLook::Unsure,
        }
    }
    RefLook::Absent
}

/// All branches, without `refs/heads/`; none where refs are in tables.
pub(crate) fn branches(common_dir: &Path) -> Vec<String> {
    let heads = common_dir.join("refs/heads");
    let (mut dirs, mut found) = (vec![heads.clone()], BTreeSet::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.strip_prefix(&heads).ok().and_then(Path::to_str) {
                _ if path.is_dir() => dirs.push(path),
                Some(name) if !name.ends_with(".lock") => drop(found.insert(name.to_owned())),
                _ => {}
            }
        }
    }
    let packed = packed_text(common_dir).unwrap_or_default();
    let names = packed.lines().filter_map(|line| line.split_once(' '));
    let names = names.filter_map(|(_, name)| name.strip_prefix("refs/heads/"));
    found.extend(names.map(str::to_owned));
    found.into_iter().collect()
}

/// A ref, and those that it stands for, as far as they are files.
pub(crate) fn chain(common_dir: &Path, name: String) -> Vec<String> {
    /// git follows no more.
    const LONGEST: usize = 5;
    let mut chain = vec![name];
    while chain.len() <= LONGEST
        && let Some(name) = chain.last().filter(|name| is_shared(name))
        && let Ok(text) = read_small(&common_dir.join(name))
        && let Some(next) = text.strip_prefix("ref: ")
    {
        chain.push(next.trim_end().to_owned());
    }
    chain
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

fn packed(common_dir: &Path, name: &str) -> io::Result<Option<String>> {
    let entry = |line: &str| {
        let (object, found) = line.split_once(' ')?;
        (found == name && is_object(object)).then(|| object.to_owned())
    };
    Ok(packed_text(common_dir)?.lines().find_map(entry))
}

fn packed_text(common_dir: &Path) -> io::Result<String> {
    let mut text = String::new();
    match open(&common_dir.join("packed-refs")) {
        Ok(file) if file.metadata()?.len() > LONGEST => {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(file) => file.take(LONGEST).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(text)
}

fn read_small(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(4096).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a file, neither through a link nor waiting for the other end of a pipe.
fn open(path: &Path) -> io::Result<File> {
    Ok(regular::open(path, Links::Refused)?)
}

fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_branch(name: &str) -> bool {
    name.starts_with("refs/heads/") && is_shared(name)
}

/// Whether all working trees share the ref of this name, and the name leads to no other directory.
fn is_shared(name: &str) -> bool {
    let is_plain = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let is_known = ["refs/heads/", "refs/remotes/", "refs/beadlock/"]
        .iter()
        .any(|kind| name.len() > kind.len() && name.starts_with(kind));
    is_plain && is_known && !name.ends_with("/.invalid") && !name.ends_with(".lock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn object(id: &str) -> RefLook {
        RefLook::Object(id.to_owned())
    }

    #[test]
    fn a_loose_ref_comes_before_a_packed_one() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path();
        fs::create_dir_all(dir.join("refs/heads/a")).unwrap();
        assert_eq!(read(dir, "refs/heads/main"), RefLook::Absent);
        fs::write(
            dir.join("packed-refs"),
            format!("# pack-refs with: peeled\n{ONE} refs/heads/main\n^{TWO}\n"),
        )
        .unwrap();
        assert_eq!(read(dir, "refs/heads/main"), object(ONE));
        assert_eq!(read(dir, "refs/heads/mai"), RefLook::Absent);
        fs::write(dir.join("refs/heads/main"), format!("{TWO}\n")).unwrap();
        assert_eq!(read(dir, "refs/heads/main"), object(TWO));
        assert_eq!(read(dir, "refs/heads/a"), RefLook::Absent, "a directory");
        assert_eq!(
            read(dir, "refs/heads/main/x"),
            RefLook::Absent,
            "below a file"
        );
    }

    #[test]
    fn what_is_not_simple_is_left_to_git() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path();
        fs::create_dir_all(dir.join("refs/heads")).unwrap();
        for (name, text) in [
            ("symbolic", "ref: refs/heads/main\n"),
            ("empty", ""),
            ("torn", "1111\n"),
            ("bytes", "\0"),
        ] {
            fs::write(dir.join("refs/heads").join(name), text).unwrap();
            assert_eq!(
                read(dir, &format!("refs/heads/{name}")),
                RefLook::Unsure,
                "{name}"
            );
        }
        std::os::unix::fs::symlink("symbolic", dir.join("refs/heads/link")).unwrap();
        for name in [
            "refs/heads/link",
            "refs/bisect/bad",
            "refs/heads/../../x",
            "refs/heads/",
            "HEAD",
            "/etc/x",
        ] {
            assert_eq!(read(dir, name), RefLook::Unsure, "{name}");
        }
        fs::create_dir(dir.join("reftable")).unwrap();
        assert_eq!(
            read(dir, "refs/heads/nowhere"),
            RefLook::Unsure,
            "refs in tables"
        );
    }

    #[test]
    fn branches_are_loose_or_packed() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path();
        assert!(branches(dir).is_empty());
        fs::create_dir_all(dir.join("refs/heads/a")).unwrap();
        fs::write(dir.join("refs/heads/a/b"), "").unwrap();
        fs::write(dir.join("refs/heads/main.lock"), "").unwrap();
        let packed = format!("# pack-refs\n{ONE} refs/heads/main\n^{TWO}\n{ONE} refs/tags/v1\n");
        fs::write(dir.join("packed-refs"), packed).unwrap();
        assert_eq!(branches(dir), ["a/b", "main"]);
    }

    #[test]
    fn head_names_a_branch_or_a_commit() {
        let top = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            fs::write(top.path().join("HEAD"), text).unwrap();
            head(top.path())
        };
        assert_eq!(
            of("ref: refs/heads/a/b\n"),
            HeadLook::Branch("refs/heads/a/b".to_owned())
        );
        assert_eq!(of(&format!("{ONE}\n")), HeadLook::Detached);
        for text in [
            "ref: refs/heads/.invalid\n",
            "ref: refs/tags/x\n",
            "ref: refs/heads/../x\n",
            "",
            "x\n",
        ] {
            assert_eq!(of(text), HeadLook::Unsure, "{text:?}");
        }
    }
}
