//! Flags of the index, and a sparse checkout, by which git does not look at files of the database. What is written
//! there would be in no commit, or a commit would take back what it was told not to check out. So nothing is committed
//! while they are set.

use std::fs;
use std::path::{Path, PathBuf};

use crate::names::IndexEntry;
use crate::{
    Event, GitReason, HindranceKind, Part, Repository, SyncStop, as_path, nul_separated, to_type,
    typed_all,
};

/// The most paths that are typed one by one.
const FEW: usize = 8;

/// Refuses where entries of the database have such a flag.
pub(crate) fn refuse(repository: &Repository, entries: &[IndexEntry]) -> Result<(), SyncStop> {
    let flagged: Vec<_> = entries
        .iter()
        .filter(|entry| entry.is_assumed || entry.is_skipped)
        .collect();
    if flagged.is_empty() {
        return Ok(());
    }
    if flagged.iter().any(|entry| entry.is_skipped)
        && let Some(patterns) = SparsePatterns::of(repository)?
    {
        return Err(outside_sparse(repository, patterns)?);
    }
    let paths: Vec<_> = flagged.iter().map(|entry| &entry.path).collect();
    let top = || Part::Path(&repository.git.dir);
    // git takes one of the two options in a call, in silence.
    let command = if paths.len() <= FEW {
        to_type(
            "git -C {} update-index --no-assume-unchanged -- {} && git -C {} update-index --no-skip-worktree -- {}",
            &[top(), typed_all(&paths), top(), typed_all(&paths)],
        )
    } else {
        let inside = || Part::Path(inside(repository));
        to_type(
            "git -C {} --literal-pathspecs ls-files -z -- {} | git -C {} update-index --no-assume-unchanged -z --stdin \
             && git -C {} --literal-pathspecs ls-files -z -- {} | git -C {} update-index --no-skip-worktree -z --stdin",
            &[top(), inside(), top(), top(), inside(), top()],
        )
    };
    let (cause, command) = if flagged.iter().any(|entry| entry.is_assumed)
        && repository.settings()?.is_true("core.ignorestat")
    {
        // git would set the flags again with the next change.
        let off = to_type("git -C {} config core.ignoreStat false && ", &[top()]);
        ("core.ignoreStat", off + &command)
    } else {
        (flags(&flagged), command)
    };
    let why = format!(
        "git is told not to look at {} ({cause})",
        repository.shown_all(&paths)
    );
    let stop = SyncStop::notice(
        Event::NotCommitting,
        HindranceKind::NotPushing,
        GitReason::IndexFlags,
        why,
    );
    Err(stop.next(command))
}

/// The names of the flags that are set.
fn flags(flagged: &[&IndexEntry]) -> &'static str {
    let is_assumed = flagged.iter().any(|entry| entry.is_assumed);
    let is_skipped = flagged.iter().any(|entry| entry.is_skipped);
    match (is_assumed, is_skipped) {
        (true, true) => "assume-unchanged, skip-worktree",
        (true, false) => "assume-unchanged",
        _ => "skip-worktree",
    }
}

/// The database's directory from the top; `.` where it is the top.
fn inside(repository: &Repository) -> &Path {
    match repository.prefix.as_os_str().is_empty() {
        true => Path::new("."),
        false => &repository.prefix,
    }
}

/// How the patterns of a sparse checkout are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SparsePatterns {
    /// Directories.
    Cone,
    /// Lines as in `.gitignore`.
    Lines,
}

impl SparsePatterns {
    /// Reads the settings of the sparse checkout; `None` without one.
    fn of(repository: &Repository) -> Result<Option<Self>, SyncStop> {
        let asked = [
            "config",
            "-z",
            "--bool",
            "--get-regexp",
            r"^core\.sparsecheckout(cone)?$",
        ];
        let answer = repository.git.call(asked).run()?;
        let is_set = |name: &str| {
            let mut words = nul_separated(&answer.stdout).into_iter().rev();
            let last = words.find_map(|word| {
                let text = String::from_utf8(word).ok()?;
                let (key, value) = text.split_once('\n')?;
                (key == name).then(|| value == "true")
            });
            last.unwrap_or_default()
        };
        Ok(
            is_set("core.sparsecheckout").then(|| match is_set("core.sparsecheckoutcone") {
                true => Self::Cone,
                false => Self::Lines,
            }),
        )
    }
}

fn outside_sparse(repository: &Repository, patterns: SparsePatterns) -> Result<SyncStop, SyncStop> {
    let prefix = &repository.prefix;
    let lines = Path::new("/").join(prefix).join("");
    let (top, added) = (
        || Part::Path(&repository.git.dir),
        Part::Path(match patterns {
            SparsePatterns::Cone => prefix,
            SparsePatterns::Lines => &lines,
        }),
    );
    // What a tool has made anew there would stay, in the place of what git has: both are wanted.
    let anew = repository
        .git
        .call(["diff", "--name-only", "-z", "--no-ext-diff", "--"]);
    let anew: Vec<_> = anew
        .paths([repository.inside()])
        .words()?
        .into_iter()
        .map(|path| repository.git.dir.join(as_path(&path)))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()))
        .collect();
    let mine = |path: &Path| {
        let mut mine = path.as_os_str().to_owned();
        mine.push(".mine");
        PathBuf::from(mine)
    };
    let kept: Vec<_> = anew.iter().map(|path| mine(path)).collect();
    let saved = anew.iter().zip(&kept).take(FEW);
    let save = saved
        .clone()
        .map(|(file, kept)| to_type("mv -n {} {} && ", &[Part::Path(file), Part::Path(kept)]));
    let join = saved.map(|(file, kept)| {
        to_type(
            " && git merge-file --union {} /dev/null {}",
            &[Part::Path(file), Part::Path(kept)],
        )
    });
    let add = to_type("git -C {} sparse-checkout add {}", &[top(), added]);
    let command = save.chain([add]).chain(join).collect::<String>();
    let why = format!(
        "{} is outside the sparse checkout",
        repository.shown(prefix.as_os_str().as_encoded_bytes())
    );
    Ok(SyncStop::failed(GitReason::Sparse, why).next(command))
}
