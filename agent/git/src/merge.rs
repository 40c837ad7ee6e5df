//! The merge of two trees in the object store. Record files that both sides changed are merged by `id`, whatever git
//! makes of their lines, unless the person has said otherwise by the attribute `merge`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use beadlock_base::regular::{self, Links};
use beadlock_records::Merged;

use crate::records::{self, is_record_file};
use crate::{Event, kept, rebase};
use beadlock_repository::TEXT_LIMIT;
use beadlock_repository::tree::FileTree;
use beadlock_repository::{
    Git, Repository, SyncMessage, SyncStop, as_path, nul_separated, repository_lock, say,
};

/// The sides of a merge: the change from `parent` to `ours` goes onto `onto`.
pub(crate) struct Trees<'a> {
    pub(crate) parent: &'a str,
    /// The commit at the remote, or the last one that was made anew on top of it.
    pub(crate) onto: &'a str,
    pub(crate) ours: &'a str,
}

/// The result of a merge.
pub(crate) struct MergedTree {
    pub(crate) tree: String,
    /// The record files that both sides changed.
    pub(crate) files: Vec<MergedFile>,
}

/// A record file that both sides changed.
pub(crate) struct MergedFile {
    /// The path from the top of the working tree.
    pub(crate) path: Vec<u8>,
    pub(crate) merged: Merged,
    /// The text of the file on our side, which is that of `commit`.
    pub(crate) ours: Vec<u8>,
    pub(crate) commit: String,
}

/// A file at one stage of a conflict.
#[derive(Debug, Clone)]
struct Staged {
    mode: String,
    id: String,
}

/// The stages of a path: the base, what is at the remote, and ours.
type Stages = [Option<Staged>; 3];

/// Merges the two sides. The inner error names the files that are in conflict.
pub(crate) fn merge(
    repository: &Repository,
    trees: &Trees<'_>,
) -> Result<Result<MergedTree, String>, SyncStop> {
    let git = &repository.git;
    // Until git 2.40 merge-tree finds merge bases by ancestry alone, so theirs becomes a sibling that nobody keeps.
    let theirs = rebase::sibling(git, trees.parent, trees.onto)?;
    let (tree, mut conflicts) = merge_tree(repository, &theirs, trees.ours)?;
    add_clean(repository, trees, &mut conflicts)?;
    let mut files = Vec::new();
    let mut entries = Vec::new();
    let mut hopeless = Vec::new();
    for (path, stages) in conflicts {
        if !is_record_file(&path) || !repository.has_anywhere(&path) {
            hopeless.push(repository.shown(&path));
            continue;
        }
        let [base, theirs, ours] = &stages;
        let (Some(theirs), Some(ours)) = (theirs, ours) else {
            // One side removed the file and the other changed it: a change is never lost to a removal.
            let Some(left) = theirs.as_ref().or(ours.as_ref()) else {
                continue;
            };
            entries.push((left.mode.clone(), left.id.clone(), path));
            continue;
        };
        let is_file = |staged: &Staged| staged.mode.starts_with("100");
        if !is_file(theirs) || !is_file(ours) {
            hopeless.push(repository.shown(&path));
            continue;
        }
        let ids: Vec<_> = base
            .iter()
            .chain([theirs, ours])
            .map(|staged| staged.id.as_str())
            .collect();
        let mut texts = records::blobs(git, &ids)?.into_iter();
        let base = match base {
            Some(_) => texts.next().unwrap_or_default(),
            None => Vec::new(),
        };
        let (theirs_text, ours_text) = (
            texts.next().unwrap_or_default(),
            texts.next().unwrap_or_default(),
        );
        match merge_file(repository, &base, &ours_text, &theirs_text)? {
            Ok(merged) => {
                let id = records::write_blob(git, merged.bytes.clone())?;
                entries.push((theirs.mode.clone(), id, path.clone()));
                files.push(MergedFile {
                    path,
                    merged,
                    ours: ours_text,
                    commit: trees.ours.to_owned(),
                });
            }
            Err(why) => hopeless.push(format!("{}{why}", repository.shown(&path))),
        }
    }
    if !hopeless.is_empty() {
        let more = match hopeless.len() {
            0..=3 => String::new(),
            count => format!(" and {} more", count - 3),
        };
        hopeless.truncate(3);
        return Ok(Err(hopeless.join(", ") + &more));
    }
    let tree = with_entries(repository, tree, &entries)?;
    Ok(Ok(MergedTree { tree, files }))
}

/// Merges one record file, or a file that only has the name of one, as text. The inner error says why not.
fn merge_file(
    repository: &Repository,
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
) -> Result<Result<Merged, String>, SyncStop> {
    let has_records =
        |text: &[u8]| text.is_empty() || beadlock_records::RecordFile::read(text).is_record_file();
    if !(has_records(ours) && has_records(theirs)) {
        let merged = merge_text(repository, base, ours, theirs)?;
        return Ok(merged.ok_or_else(|| " (most of its lines are no records)".to_owned()));
    }
    let merged = records::merge(base, ours, theirs)?;
    let of_file = merged
        .conflicts
        .iter()
        .find(|conflict| kept::is_of_file(conflict));
    Ok(match of_file {
        Some(conflict) => Err(format!(" ({})", conflict.told(records::SIDES))),
        None => Ok(merged),
    })
}

/// Merges a text line by line, as git does; `None` where that is a conflict.
fn merge_text(
    repository: &Repository,
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
) -> Result<Option<Merged>, SyncStop> {
    let dir = scratch(repository)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).map_err(|error| SyncStop::io("cannot write", &path, &error))
    };
    write("ours", ours)?;
    write("base", base)?;
    write("theirs", theirs)?;
    let names = ["ours", "base", "theirs"].map(|name| dir.join(name));
    let answer = repository
        .git
        .call(["merge-file", "-p", "-q"])
        .paths(names.iter().map(|path| path.as_os_str().as_encoded_bytes()))
        .run();
    let _ = fs::remove_dir_all(&dir);
    let answer = answer?;
    Ok(match answer.status.code() {
        Some(0) => Some(Merged {
            bytes: answer.stdout,
            conflicts: Vec::new(),
            notes: Vec::new(),
            merged: 0,
        }),
        _ => None,
    })
}

/// The merge as git makes it, and what it leaves open. Attributes of the person count; where there is none for a record
/// file, git leaves it open whatever its lines are.
fn merge_tree(
    repository: &Repository,
    theirs: &str,
    ours: &str,
) -> Result<(String, BTreeMap<Vec<u8>, Stages>), SyncStop> {
    let scratch = scratch(repository)?;
    let attributes = scratch.join("attributes");
    write_attributes(repository, &attributes)?;
    let mut setting = std::ffi::OsString::from("core.attributesFile=");
    setting.push(&attributes);
    let tree = FileTree::make(&scratch.join("tree"))
        .map_err(|error| SyncStop::io("cannot make", &scratch, &error))?;
    copy_attributes(repository, &tree)?;
    if has_drivers(repository)? {
        link_programs(repository, &tree.path);
    }
    // A driver leaves its files where it is started, when it is killed.
    let git = repository.git.in_tree(&repository.git_dir, &tree);
    let args = [
        "merge-tree",
        "--write-tree",
        "--no-messages",
        "-z",
        theirs,
        ours,
    ];
    let answer = git
        .call([std::ffi::OsStr::new("-c"), &setting])
        .paths(args)
        .run();
    let _ = fs::remove_dir_all(&scratch);
    let answer = answer?;
    let mut words = nul_separated(&answer.stdout).into_iter();
    let tree = String::from_utf8_lossy(&words.next().unwrap_or_default()).into_owned();
    match answer.status.code() {
        Some(0) => Ok((tree, BTreeMap::new())),
        Some(1) => Ok((tree, parse(words))),
        _ => Err(answer.refused("git merge-tree failed")),
    }
}

/// Reads `MODE ID STAGE<tab>PATH`, until an empty word.
fn parse(words: impl Iterator<Item = Vec<u8>>) -> BTreeMap<Vec<u8>, Stages> {
    let mut conflicts: BTreeMap<Vec<u8>, Stages> = BTreeMap::new();
    for word in words.take_while(|word| !word.is_empty()) {
        let Some(tab) = word.iter().position(|byte| *byte == b'\t') else {
            continue;
        };
        let head = String::from_utf8_lossy(&word[..tab]).into_owned();
        if let [mode, id, stage] = head.split(' ').collect::<Vec<_>>().as_slice()
            && let Ok(stage @ 1..=3) = stage.parse::<usize>()
        {
            let [mode, id] = [mode, id].map(|field| (*field).to_owned());
            conflicts.entry(word[tab + 1..].to_vec()).or_default()[stage - 1] =
                Some(Staged { mode, id });
        }
    }
    conflicts
}

/// Adds the record files of which git has made something although they are to be merged by `id`, and fails for those
/// in conflict that are to be merged otherwise.
fn add_clean(
    repository: &Repository,
    trees: &Trees<'_>,
    conflicts: &mut BTreeMap<Vec<u8>, Stages>,
) -> Result<(), SyncStop> {
    let git = &repository.git;
    let is_of_records = |path: &[u8]| is_record_file(path) && repository.has_anywhere(path);
    let ours = changed(git, trees.parent, trees.ours, is_of_records)?;
    if ours.is_empty() {
        return Ok(());
    }
    let theirs = changed(git, trees.parent, trees.onto, is_of_records)?;
    let both = ours.keys().filter(|path| theirs.contains_key(*path));
    let asked: BTreeSet<_> = both
        .chain(conflicts.keys().filter(|path| is_of_records(path)))
        .cloned()
        .collect();
    for (path, attribute) in attributes(git, &asked)? {
        match Way::of(repository, &attribute)? {
            Way::ByRecord => {}
            Way::NotSetUp => {
                let name = crate::escaped(&attribute).to_string();
                let line = format_args!("merge={name} is not set up here; merged by id");
                say(&SyncMessage::Notice(Event::Notice.line(line)));
            }
            Way::Union => {
                let line =
                    "merge=union doubles records that both sides change; merge=beadlock does not";
                say(&SyncMessage::Notice(Event::Notice.line(line)));
                continue;
            }
            Way::OfThePerson => {
                // In conflict it stays so: without its sides nothing is merged here.
                if let Some(stages) = conflicts.get_mut(&path) {
                    stages
                        .iter_mut()
                        .flatten()
                        .for_each(|staged| "000000".clone_into(&mut staged.mode));
                }
                continue;
            }
        }
        if let (Some(ours), Some(theirs)) = (ours.get(&path), theirs.get(&path))
            && ours.1.id != theirs.1.id
            && !conflicts.contains_key(&path)
        {
            let stages = [ours.0.clone(), Some(theirs.1.clone()), Some(ours.1.clone())];
            conflicts.insert(path, stages);
        }
    }
    Ok(())
}

/// How a record file that both sides changed is merged.
enum Way {
    ByRecord,
    /// Its driver is not set up here: it is merged by record.
    NotSetUp,
    Union,
    /// The person's own way: a driver, a merge as text, or no merge.
    OfThePerson,
}

impl Way {
    fn of(repository: &Repository, attribute: &str) -> Result<Self, SyncStop> {
        Ok(match attribute {
            "unspecified" | "beadlock" => Self::ByRecord,
            "union" => Self::Union,
            "set" | "unset" | "text" | "binary" => Self::OfThePerson,
            name => {
                let driver = format!("merge.{name}.driver");
                match repository.settings()?.get(&driver) {
                    Some(command) if is_there(repository, command) => Self::OfThePerson,
                    _ => Self::NotSetUp,
                }
            }
        })
    }
}

/// Whether the program of a command is there. A word that is more than a name counts as there: only a shell could tell.
fn is_there(repository: &Repository, command: &str) -> bool {
    let word = command.split_ascii_whitespace().next().unwrap_or_default();
    let is_plain = word
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
    if word.is_empty() || !is_plain {
        return !word.is_empty();
    }
    if word.contains('/') {
        return repository.git.dir.join(word).is_file();
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "git finds the program of a driver by this variable"
    )]
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(word).is_file())
        || ["true", "false", "cd", "exit", "test", "exec", "eval"].contains(&word)
}

/// The files that one side changed, as they were and as they are.
type ChangedFiles = BTreeMap<Vec<u8>, (Option<Staged>, Staged)>;

fn changed(
    git: &Git,
    from: &str,
    to: &str,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<ChangedFiles, SyncStop> {
    let words = git
        .call([
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--diff-filter=AM",
            from,
            to,
        ])
        .words()?;
    let file = |pair: &[Vec<u8>]| {
        let text = std::str::from_utf8(&pair[0]).ok()?;
        let mut fields = text.trim_start_matches(':').split(' ').map(str::to_owned);
        let (old_mode, mode) = (fields.next()?, fields.next()?);
        let (old, id) = (fields.next()?, fields.next()?);
        let before = old_mode.starts_with("100").then_some(Staged {
            mode: old_mode,
            id: old,
        });
        (mode.starts_with("100") && is_wanted(&pair[1]))
            .then(|| (pair[1].clone(), (before, Staged { mode, id })))
    };
    Ok(words.chunks_exact(2).filter_map(file).collect())
}

/// The attribute `merge` of these paths.
fn attributes(git: &Git, paths: &BTreeSet<Vec<u8>>) -> Result<Vec<(Vec<u8>, String)>, SyncStop> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let asked: Vec<u8> = paths
        .iter()
        .flat_map(|path| [path, &b"\0"[..]].concat())
        .collect();
    let words = git
        .call(["check-attr", "-z", "--stdin", "merge"])
        .stdin(asked)
        .words()?;
    let answer = |words: &[Vec<u8>]| {
        let value = String::from_utf8_lossy(&words[2]).into_owned();
        (words[0].clone(), value)
    };
    Ok(words.chunks_exact(3).map(answer).collect())
}

/// Writes attributes that leave record files open. Those of the person come after them, and so before them in rank.
fn write_attributes(repository: &Repository, path: &Path) -> Result<(), SyncStop> {
    let mut text = b"*.jsonl merge=binary\n".to_vec();
    if let Some(file) = global_attributes(repository)? {
        text.extend(regular::read(&file, Links::Followed, TEXT_LIMIT).unwrap_or_default());
    }
    fs::write(path, text).map_err(|error| SyncStop::io("cannot write", path, &error))
}

/// The file of attributes that this user has for all repositories.
#[expect(
    clippy::disallowed_methods,
    reason = "git finds its attributes by these variables"
)]
fn global_attributes(repository: &Repository) -> Result<Option<std::path::PathBuf>, SyncStop> {
    let home = || std::env::var_os("HOME").map(std::path::PathBuf::from);
    Ok(match repository.settings()?.get("core.attributesfile") {
        Some(file) => match file.strip_prefix("~/") {
            Some(rest) => home().map(|home| home.join(rest)),
            None => Some(repository.git.dir.join(file)),
        },
        None => std::env::var_os("XDG_CONFIG_HOME")
            .filter(|dir| !dir.is_empty())
            .map(std::path::PathBuf::from)
            .or_else(|| home().map(|home| home.join(".config")))
            .map(|dir| dir.join("git/attributes")),
    })
}

/// Copies the files of attributes: merge-tree looks for them in the working tree alone.
fn copy_attributes(repository: &Repository, tree: &FileTree) -> Result<(), SyncStop> {
    for path in attributes_files(&repository.git, None)? {
        let path = as_path(&path);
        if let Ok(Some(bytes)) = repository.files.read(path) {
            tree.write_new(path, &bytes)
                .map_err(|error| SyncStop::io("cannot write", &tree.path.join(path), &error))?;
        }
    }
    Ok(())
}

/// The tracked files of attributes, from the top.
pub(crate) fn attributes_files(git: &Git, index: Option<&Path>) -> Result<Vec<Vec<u8>>, SyncStop> {
    let call = git.call(["ls-files", "-z", "--", ":(top,glob)**/.gitattributes"]);
    match index {
        Some(index) => call.index(index).words(),
        None => call.words(),
    }
}

fn has_drivers(repository: &Repository) -> Result<bool, SyncStop> {
    Ok(repository.settings()?.has_merge_drivers())
}

/// Links the entries of the top into `tree`: a driver may be named from the top of the working tree.
fn link_programs(repository: &Repository, tree: &Path) {
    let entries = fs::read_dir(&repository.git.dir).into_iter().flatten();
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            let _ = std::os::unix::fs::symlink(entry.path(), tree.join(name));
        }
    }
}

/// Makes an empty directory of our own for a merge.
fn scratch(repository: &Repository) -> Result<std::path::PathBuf, SyncStop> {
    let dir = repository_lock::own(repository, "merge");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).map_err(|error| SyncStop::io("cannot make", &dir, &error))?;
    Ok(dir)
}

/// Writes the tree with these entries in it, and returns its id.
fn with_entries(
    repository: &Repository,
    tree: String,
    entries: &[(String, String, Vec<u8>)],
) -> Result<String, SyncStop> {
    if entries.is_empty() {
        return Ok(tree);
    }
    let (git, index) = (
        &repository.git,
        repository_lock::own(repository, "merge.index"),
    );
    git.call(["read-tree", &tree]).index(&index).done()?;
    let info: Vec<u8> = entries
        .iter()
        .flat_map(|(mode, id, path)| {
            [mode.as_bytes(), b" ", id.as_bytes(), b"\t", path, b"\0"].concat()
        })
        .collect();
    git.call(["update-index", "-z", "--index-info"])
        .index(&index)
        .stdin(info)
        .done()?;
    let written = git.call(["write-tree"]).index(&index).text();
    beadlock_repository::remove(&index);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_of_a_conflict_are_read() {
        let words = [
            &b"100644 aa 1\t.beads/x y.jsonl"[..],
            b"100644 bb 2\t.beads/x y.jsonl",
            b"120000 cc 3\tl",
            b"",
            b"a message",
        ];
        let conflicts = parse(words.iter().map(|word| word.to_vec()));
        let ids = |path: &[u8]| {
            conflicts[path]
                .each_ref()
                .map(|staged| staged.as_ref().map(|staged| staged.id.clone()))
        };
        assert_eq!(
            ids(b".beads/x y.jsonl"),
            [Some("aa".to_owned()), Some("bb".to_owned()), None]
        );
        assert_eq!(ids(b"l"), [None, None, Some("cc".to_owned())]);
        assert_eq!(conflicts.len(), 2);
    }
}
