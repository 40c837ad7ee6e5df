//! Which files of the database a filter stores, and whether git-lfs is set up for those that are for it.

use std::path::{Path, PathBuf};

use beadlock_base::regular::{self, Links};

use crate::TEXT_LIMIT;
use crate::walk::DatabaseFiles;
use crate::{
    Event, GitReason, HindranceKind, Part, Repository, SyncStop, escaped, escaped_path,
    nul_separated, to_type,
};

/// The filter of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterDriver {
    /// The setting that has its command: `filter.NAME.clean`.
    pub setting: String,
    /// The file of attributes that names it.
    pub source: String,
}

const LFS: &str = "lfs";

/// The files among `paths` that a filter stores. One call of git, and only where a file of attributes speaks of
/// filters at all.
pub fn of(
    repository: &Repository,
    files: &DatabaseFiles,
    paths: &[&Vec<u8>],
    remote: &str,
) -> Result<Vec<(Vec<u8>, FilterDriver)>, SyncStop> {
    let sources = sources(repository, files)?;
    if sources.is_empty() || paths.is_empty() {
        return Ok(Vec::new());
    }
    let stdin: Vec<u8> = paths
        .iter()
        .flat_map(|path| [path.as_slice(), b"\0"].concat())
        .collect();
    let asked = repository
        .git
        .call(["check-attr", "-z", "--stdin", "filter"]);
    let answer = asked.stdin(stdin).done()?;
    let settings = repository.settings()?;
    let mut filtered = Vec::new();
    for words in nul_separated(&answer.stdout).chunks(3) {
        let [path, _, name] = words else { continue };
        let name = String::from_utf8_lossy(name);
        let setting = ["clean", "process", "smudge"]
            .map(|kind| format!("filter.{name}.{kind}"))
            .into_iter()
            .find(|setting| settings.get(setting).is_some_and(|value| !value.is_empty()));
        let source = source_of(&sources, &name);
        if name == LFS {
            check_lfs(repository, path, setting.is_some(), &source, remote)?;
        }
        // Without a command git stores the file as it is.
        if let Some(setting) = setting {
            let setting = escaped(&setting).to_string();
            filtered.push((path.clone(), FilterDriver { setting, source }));
        }
    }
    Ok(filtered)
}

/// The files of attributes that speak of filters, each with its name for lines and its text.
fn sources(
    repository: &Repository,
    files: &DatabaseFiles,
) -> Result<Vec<(String, Vec<u8>)>, SyncStop> {
    let of_tree = files.attributes(repository).into_iter().map(|path| {
        let file = repository.git.dir.join(&path);
        (escaped_path(&path), file)
    });
    let settings = repository.settings()?;
    let others = crate::repository_facts::attributes_files(settings, &repository.git.dir);
    let others = others
        .into_iter()
        .chain([repository.common_dir.join("info/attributes")]);
    let others = others.map(|file: PathBuf| (escaped_path(&file), file));
    let speaks = |(shown, file): (String, PathBuf)| {
        let text = regular::read(&file, Links::Followed, TEXT_LIMIT).ok()?;
        text.windows(6)
            .any(|word| word == b"filter")
            .then_some((shown, text))
    };
    Ok(of_tree.chain(others).filter_map(speaks).collect())
}

fn source_of(sources: &[(String, Vec<u8>)], name: &str) -> String {
    let named = format!("filter={name}");
    let has_it = |(_, text): &&(String, Vec<u8>)| {
        text.windows(named.len())
            .any(|word| word == named.as_bytes())
    };
    let source = sources.iter().find(has_it).or_else(|| sources.first());
    source.map(|(shown, _)| shown.clone()).unwrap_or_default()
}

/// Refuses a file that git-lfs could not store elsewhere: it is not set up here, or no hook pre-push calls it.
fn check_lfs(
    repository: &Repository,
    path: &[u8],
    is_configured: bool,
    source: &str,
    remote: &str,
) -> Result<(), SyncStop> {
    let (file, top) = (repository.shown(path), || Part::Path(&repository.git.dir));
    let stop = |why: String, command: String| {
        let stop = SyncStop::notice(
            Event::NotCommitting,
            HindranceKind::NotPushing,
            GitReason::Lfs,
            why,
        );
        Err(stop.next(command))
    };
    if !is_configured {
        let why = format!("{file} is for git-lfs, which is not set up here ({source})");
        return stop(why, to_type("git -C {} lfs install", &[top()]));
    }
    if has_lfs_hook(repository)? {
        return Ok(());
    }
    let why = format!(
        "{file} is for git-lfs ({source}), and no hook pre-push calls it: what it stores stays here"
    );
    let remote = Part::Word(remote.as_ref());
    let command = to_type(
        "git -C {} lfs install --local && git -C {} lfs push --all {}",
        &[top(), top(), remote],
    );
    stop(why, command)
}

fn has_lfs_hook(repository: &Repository) -> Result<bool, SyncStop> {
    let settings = repository.settings()?;
    let dir = match settings.get("core.hookspath") {
        // Only git knows what that stands for.
        Some(dir) if dir.starts_with('%') => return Ok(true),
        Some(dir) => crate::repository_facts::expanded(dir, &repository.git.dir),
        None => Some(repository.common_dir.join("hooks")),
    };
    let Some(dir) = dir else { return Ok(true) };
    // husky's directory starts the scripts above it.
    let above = dir
        .ends_with("_")
        .then(|| dir.parent().map(Path::to_owned))
        .flatten();
    let calls = |dir: PathBuf| {
        let hook = dir.join("pre-push");
        let text = regular::read(&hook, Links::Followed, TEXT_LIMIT).unwrap_or_default();
        text.windows(3).any(|word| word == b"lfs")
    };
    Ok(settings.have_hooks() || calls(dir) || above.is_some_and(calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_the_file_that_names_the_filter() {
        let sources = [
            (".gitattributes".to_owned(), b"*.png filter=lfs\n".to_vec()),
            (
                ".beads/.gitattributes".to_owned(),
                b"* filter=no\n".to_vec(),
            ),
        ];
        assert_eq!(source_of(&sources, "no"), ".beads/.gitattributes");
        assert_eq!(source_of(&sources, "lfs"), ".gitattributes");
        assert_eq!(source_of(&sources, "macro"), ".gitattributes");
    }
}
