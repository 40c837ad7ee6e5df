//! A repository byte for byte: what a daemon that keeps its hands off must leave as it was.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

/// What the daemon may have changed between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Nothing at all but the daemon's own log and objects that nobody refers to.
    Nothing,
    /// What a fetch does: the refs of the remote and their logs.
    Fetch,
    /// A commit of `.beads` and its push or pull: the branch, its logs, `.beads`, and the index entries of it, which
    /// are compared by their own list ([`Snapshot::outside`]).
    Sync,
}

/// Every file of a repository, its `.git` included, by its path.
pub struct Snapshot {
    files: BTreeMap<String, Found>,
    /// The index entries outside `.beads`, with their flags and what git remembers of the files.
    pub outside: String,
    /// The refs of the remote.
    pub remote: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    kind: &'static str,
    mode: u32,
    bytes: Vec<u8>,
    /// Of files in the working tree: git takes another time for a change, and so do make and editors.
    written: Option<SystemTime>,
}

impl Snapshot {
    /// Reads all of it. `outside` and `remote` come from git, which writes nothing for them.
    pub fn take(top: &Path, outside: String, remote: String) -> Self {
        let mut files = BTreeMap::new();
        walk(top, top, &mut files);
        Self {
            files,
            outside,
            remote,
        }
    }

    /// What is different in `after`, in words; empty when nothing is that is not allowed.
    pub fn differences(&self, after: &Self, allowed: Allowed) -> Vec<String> {
        let mut words = Vec::new();
        for (path, before) in &self.files {
            if may_differ(path, allowed) {
                continue;
            }
            match after.files.get(path) {
                None => words.push(format!("gone: {path}")),
                Some(after) if path == EXCLUDE && before.is_continued_by(after) => {}
                Some(after) => words.extend(
                    before
                        .differences(after)
                        .map(|what| format!("{what}: {path}")),
                ),
            }
        }
        let is_new = |path: &&String| !self.files.contains_key(*path);
        let new = after
            .files
            .keys()
            .filter(is_new)
            .filter(|path| !may_appear(path, allowed));
        words.extend(new.map(|path| format!("new: {path}")));
        words.extend(lines_that_differ(
            "index entry",
            &self.outside,
            &after.outside,
        ));
        if allowed != Allowed::Sync {
            words.extend(lines_that_differ(
                "ref of the remote",
                &self.remote,
                &after.remote,
            ));
        }
        words
    }
}

/// Where the agent writes its own names, once, behind what is there.
const EXCLUDE: &str = ".git/info/exclude";

impl Found {
    fn is_continued_by(&self, after: &Self) -> bool {
        (self.kind, self.mode) == (after.kind, after.mode) && after.bytes.starts_with(&self.bytes)
    }

    fn read(path: &Path, metadata: &Metadata, is_git: bool) -> Self {
        let kind = metadata.file_type();
        let (kind, bytes) = if kind.is_symlink() {
            (
                "link",
                fs::read_link(path)
                    .map(|to| to.into_os_string().into_encoded_bytes())
                    .unwrap_or_default(),
            )
        } else if kind.is_dir() {
            ("directory", Vec::new())
        } else if kind.is_fifo() || kind.is_socket() {
            ("special file", Vec::new())
        } else {
            ("file", fs::read(path).unwrap_or_default())
        };
        let written =
            (kind != "directory" && !is_git).then(|| metadata.modified().expect("a time"));
        Self {
            kind,
            mode: metadata.mode(),
            bytes,
            written,
        }
    }

    fn differences(&self, after: &Self) -> impl Iterator<Item = String> {
        let kind = (self.kind != after.kind).then(|| format!("now a {}", after.kind));
        let mode = (self.mode != after.mode)
            .then(|| format!("mode {:o}, was {:o}", after.mode, self.mode));
        let bytes = (self.bytes != after.bytes).then(|| {
            format!(
                "{} bytes with other content, were {}",
                after.bytes.len(),
                self.bytes.len()
            )
        });
        let written = (self.written != after.written && bytes.is_none())
            .then(|| "written again with the same content".to_owned());
        [kind, mode, bytes, written].into_iter().flatten()
    }
}

/// Objects are never removed or changed, so only new ones are beside the point.
fn may_appear(path: &str, allowed: Allowed) -> bool {
    let is_scratch = allowed == Allowed::Sync && path.starts_with(".git/beadlock-");
    may_differ(path, allowed)
        || is_scratch
        || path.contains(".git/objects/")
        || path.contains(".git/modules/")
}

fn may_differ(path: &str, allowed: Allowed) -> bool {
    let is_log = path.contains(".beads/daemon.log");
    // What syncs note from cycle to cycle, in the git directory of a working tree.
    let is_note =
        path.starts_with(".git/") && (path.ends_with("/beadlock") || path.contains("/beadlock/"));
    let is_fetch = [
        ".git/refs/remotes",
        ".git/logs/refs/remotes",
        ".git/logs/refs",
    ]
    .iter()
    .any(|dir| path == *dir || (path.starts_with(dir) && path.contains("/remotes")));
    let names = [
        ".git/index",
        ".git/logs/HEAD",
        ".git/COMMIT_EDITMSG",
        ".git/FETCH_HEAD",
        ".git/ORIG_HEAD",
    ];
    let is_branch =
        path.starts_with(".git/refs/heads/") || path.starts_with(".git/logs/refs/heads/");
    let is_sync = is_branch || names.contains(&path) || path.starts_with(".beads");
    is_log
        || is_note
        || match allowed {
            Allowed::Nothing => false,
            Allowed::Fetch => is_fetch,
            Allowed::Sync => is_fetch || is_sync,
        }
}

fn walk(top: &Path, dir: &Path, files: &mut BTreeMap<String, Found>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let metadata = fs::symlink_metadata(&path).expect("what is listed is there");
        let name = path
            .strip_prefix(top)
            .expect("below the top")
            .to_string_lossy()
            .into_owned();
        let is_git = name.split('/').any(|part| part == ".git");
        files.insert(name, Found::read(&path, &metadata, is_git));
        if metadata.is_dir() {
            walk(top, &path, files);
        }
    }
}

fn lines_that_differ(what: &str, before: &str, after: &str) -> Vec<String> {
    let only = |one: &str, other: &str, word: &str| -> Vec<String> {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|other| other == *line));
        lines.map(|line| format!("{what} {word}: {line}")).collect()
    };
    let mut words = only(before, after, "gone");
    words.extend(only(after, before, "new"));
    words
}

#[test]
fn a_snapshot_sees_what_was_done() {
    use std::os::unix::fs::PermissionsExt;
    let top = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| top.path().join(name);
    for dir in [
        ".git/objects/aa",
        ".git/refs/remotes/origin",
        ".beads",
        "src",
    ] {
        fs::create_dir_all(at(dir)).expect("create");
    }
    for name in [
        ".git/index",
        ".git/HEAD",
        ".git/objects/aa/1",
        ".beads/daemon.log",
        "src/x",
        "src/y",
        "src/z",
    ] {
        fs::write(at(name), "one").expect("write");
    }
    let take = |index: &str| Snapshot::take(top.path(), index.to_owned(), "main 1\n".to_owned());
    let before = take("a\nb\n");
    assert_eq!(
        before.differences(&take("a\nb\n"), Allowed::Nothing),
        Vec::<String>::new()
    );
    fs::write(at(".git/index"), "two").expect("write");
    fs::write(at(".git/objects/aa/2"), "new").expect("write");
    fs::write(at(".git/MERGE_HEAD"), "new").expect("write");
    fs::write(at(".git/refs/remotes/origin/main"), "new").expect("write");
    fs::write(at(".beads/daemon.log"), "more").expect("write");
    fs::remove_file(at("src/x")).expect("remove");
    fs::File::options()
        .append(true)
        .open(at("src/y"))
        .and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH))
        .expect("touch");
    fs::set_permissions(at("src/z"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let words = [
        "3 bytes with other content, were 3: .git/index",
        "gone: src/x",
        "written again with the same content: src/y",
        "mode 100755, was 100644: src/z",
        "new: .git/MERGE_HEAD",
        "index entry gone: b",
    ];
    assert_eq!(before.differences(&take("a\n"), Allowed::Fetch), words);
    assert_eq!(
        before.differences(&take("a\n"), Allowed::Nothing).len(),
        words.len() + 1
    );
}
