//! A database that bd keeps in Dolt. The sync takes its record files, which bd exports, and nothing of Dolt's: a commit
//! would tear an open database, and a pull would replace it under its users.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use beadlock_core::dolt::Dolt;

use crate::names::is_record_name;
use crate::{
    Event, GitReason, HindranceKind, Part, Repository, SyncMessage, SyncStop, as_path, say,
    to_type, typed_all,
};

/// bd's own way to bring the issues to other clones, as a part of a sentence.
const BY_BD: &str = "bd dolt push and pull sync it";

/// Why nothing is synced of the database in `dir`, where it is in Dolt and git has no record file of it.
pub fn instead(dir: &Path) -> Option<SyncStop> {
    Dolt::of(dir).map(|_| stop())
}

fn stop() -> SyncStop {
    SyncStop::notice(
        Event::NothingToSync,
        HindranceKind::NotServing,
        GitReason::Dolt,
        format_args!("this is a Dolt database; {BY_BD}"),
    )
}

/// Refuses a Dolt database of which git tracks no record file. Where git tracks one, a notice says what is not synced.
pub fn refuse_alone(repository: &Repository) -> Result<(), SyncStop> {
    let Some(dolt) = Dolt::of(&repository.request.dir) else {
        return Ok(());
    };
    let listed = repository.git.call(["ls-files", "-z", "--"]);
    let tracked = listed.paths([repository.inside()]).words()?;
    if !tracked.iter().any(|path| is_record_name(path)) {
        return Err(stop());
    }
    let by = repository.prefix.join(dolt.name());
    let shown = repository.shown(by.as_os_str().as_encoded_bytes());
    let what = match dolt {
        Dolt::Files(_) => format!("{shown}/ (a Dolt database"),
        Dolt::Metadata => {
            format!("the Dolt database that {shown} names (on a server, or not fetched yet")
        }
    };
    say(&SyncMessage::NoticeOnce(Event::NotCommitting.line(
        format_args!("{what}; {BY_BD}, and the agent syncs the record files)"),
    )));
    Ok(())
}

/// The directory of Dolt's own, `.dolt`, that a path is in.
pub fn own_dir(path: &[u8]) -> Option<PathBuf> {
    let path = as_path(path);
    let is_own = |dir: &&Path| dir.file_name() == Some(OsStr::new(".dolt"));
    // The outermost one.
    path.ancestors()
        .skip(1)
        .filter(is_own)
        .last()
        .map(Path::to_owned)
}

/// The directories of Dolt's own among these paths, each once.
pub fn own_dirs<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let dirs: BTreeSet<PathBuf> = paths.filter_map(own_dir).collect();
    dirs.into_iter()
        .map(|dir| dir.into_os_string().into_encoded_bytes())
        .collect()
}

/// Refuses while git tracks files of Dolt's own.
pub(crate) fn refuse_tracked(repository: &Repository, tracked: &[Vec<u8>]) -> Result<(), SyncStop> {
    let dirs = own_dirs(tracked.iter().map(Vec::as_slice));
    if dirs.is_empty() {
        return Ok(());
    }
    let (is, has) = if dirs.len() == 1 {
        ("is", "it is a Dolt database")
    } else {
        ("are", "they are Dolt databases")
    };
    let why = format!(
        "{} {is} tracked by git, and {has}: a commit would tear what is open, and a pull would replace it",
        repository.shown_all(&dirs),
    );
    let (top, ignore) = (
        Part::Path(&repository.git.dir),
        repository.request.dir.join(".gitignore"),
    );
    let command = to_type(
        "git -C {} --literal-pathspecs rm -r -q --cached -f -- {} && printf '\\n%s\\n' .dolt/ >>{}",
        &[top, typed_all(&dirs), Part::Path(&ignore)],
    );
    Err(SyncStop::failed(GitReason::Tracked, why).next(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_directory_of_dolts_own_is_named_once() {
        let of = |path: &str| own_dir(path.as_bytes());
        assert_eq!(
            of(".beads/dolt/x/.dolt/noms/manifest"),
            Some(".beads/dolt/x/.dolt".into())
        );
        assert_eq!(
            of(".beads/.dolt/stats/.dolt/noms/m"),
            Some(".beads/.dolt".into())
        );
        for path in [
            ".beads/.dolt",
            ".beads/dolt/x",
            ".beads/x.dolt/y",
            ".beads/.doltcfg/y",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
        let paths: [&[u8]; 3] = [
            b".beads/a/.dolt/x",
            b".beads/issues.jsonl",
            b".beads/a/.dolt/noms/y",
        ];
        assert_eq!(own_dirs(paths.into_iter()), [b".beads/a/.dolt".to_vec()]);
    }
}
