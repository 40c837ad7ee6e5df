//! A rebase that touches nothing: the commits that are ahead are made anew on top of the upstream, in the object store
//! alone. So a conflict is found before anything has changed.
//!
//! What is made here has no signature: only what becomes the branch's is signed ([`signing`]).
//!
//! Commits of ours that follow each other are taken together, as one: half of a rewrite that was committed on the way
//! is no conflict then. A commit of a person stays one.

use crate::merge::{self, MergedTree, Trees};
use crate::{Part, join, pull, signing, to_type};
use beadlock_repository::{Git, GitReason, Repository, SyncStop, counted, entries, short};

/// How the message of a commit of ours begins.
pub(crate) const SUBJECT: &str = "chore: sync .beads (";

pub(crate) struct Commit {
    pub(crate) tree: String,
    pub(crate) parents: Vec<String>,
    /// The other lines of its head but the committer's, in order.
    pub(crate) author: Vec<u8>,
    /// The time in the committer's line, with the space before it: ` 1767225600 +0100`.
    pub(crate) committed: Vec<u8>,
    is_signed: bool,
    /// The message, with the empty line before it.
    pub(crate) message: Vec<u8>,
}

/// Commits that are made anew as one: several of ours, or a single one.
struct Unit {
    /// The parent of the first.
    parent: String,
    /// The last of them.
    last: String,
    /// The commit that stands for them all.
    commit: Commit,
    count: usize,
}

/// Commits on top of the upstream.
pub(crate) struct Replayed {
    /// The last of them.
    pub(crate) commit: String,
    /// The record files that were merged on the way.
    pub(crate) merged: Vec<MergedTree>,
}

/// Makes the commits of `upstream..head` anew on top of `upstream`.
pub(crate) fn replay(
    repository: &Repository,
    head: &str,
    upstream: &str,
    name: &str,
) -> Result<Replayed, SyncStop> {
    let git = &repository.git;
    let range = format!("{upstream}..{head}");
    let ahead = git.text(["rev-list", "--reverse", "--topo-order", &range])?;
    let committer = git.text(["var", "GIT_COMMITTER_IDENT"])?;
    let committer = committer.split_inclusive('>').next().unwrap_or_default();
    let are_signed = signing::is_wanted(repository)?;
    let mut replayed = Replayed {
        commit: upstream.to_owned(),
        merged: Vec::new(),
    };
    for unit in units(repository, &ahead, name, are_signed)? {
        let onto = &replayed.commit;
        let short = short(&unit.last);
        let trees = Trees {
            parent: &unit.parent,
            onto,
            ours: &unit.last,
        };
        let merged = merge::merge(repository, &trees)?.map_err(|conflict| {
            let why = format!("conflict with {name} in {conflict}; nothing was changed");
            let command = to_type("git -C {} pull --rebase", &[Part::Path(&git.dir)]);
            SyncStop::failed(GitReason::Conflict, why).next(command)
        })?;
        let onto_tree = tree_of(git, onto)?;
        // The upstream has this change already, unless the commit was empty from the start.
        if merged.tree == onto_tree && unit.commit.tree != tree_of(git, &unit.parent)? {
            replayed.merged.push(merged);
            continue;
        }
        // A commit of ours is signed anew.
        if unit.commit.is_signed && !unit.commit.is_ours(are_signed) {
            return Err(pull::left_to_a_merge(
                repository,
                GitReason::SignedAhead,
                &format!("{short}, ahead of {name}, is signed: a rebase takes its signature away"),
            ));
        }
        // With the time as before it is the same object in every cycle, until it can be pulled.
        let committer = [committer.as_bytes(), unit.commit.committed.as_slice()].concat();
        let mut anew = unit.commit;
        if unit.count > 1 {
            let files = entries::both(git, &onto_tree, &merged.tree)?.len();
            anew.message = format!("\n{SUBJECT}{})\n", counted(files, "file")).into_bytes();
        }
        replayed.commit = write(git, &anew.anew(&merged.tree, onto, &committer))?;
        replayed.merged.push(merged);
    }
    Ok(replayed)
}

/// The commits as they are taken together. A merge is left to a person.
fn units(
    repository: &Repository,
    ahead: &str,
    name: &str,
    are_signed: bool,
) -> Result<Vec<Unit>, SyncStop> {
    let git = &repository.git;
    let mut units: Vec<Unit> = Vec::new();
    for id in ahead.lines() {
        let commit = Commit::parse(&git.call(["cat-file", "commit", id]).done()?.stdout);
        let [parent] = commit.parents.as_slice() else {
            // What it brought is in the commit that the others come upon.
            if join::is_join(repository, id)? {
                continue;
            }
            let short = short(id);
            return Err(pull::left_to_a_merge(
                repository,
                GitReason::MergeAhead,
                &format!("{short} is a merge, ahead of {name}: a rebase would flatten it"),
            ));
        };
        let parent = parent.clone();
        match units.last_mut() {
            Some(unit)
                if unit.last == parent
                    && unit.commit.is_ours(are_signed)
                    && commit.is_ours(are_signed) =>
            {
                unit.last = id.to_owned();
                unit.commit = commit;
                unit.count += 1;
            }
            _ => units.push(Unit {
                parent,
                last: id.to_owned(),
                commit,
                count: 1,
            }),
        }
    }
    Ok(units)
}

pub(crate) fn tree_of(git: &Git, commit: &str) -> Result<String, SyncStop> {
    git.text(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])
}

/// A commit that nobody keeps, with this parent and the tree of another.
pub(crate) fn sibling(git: &Git, parent: &str, of: &str) -> Result<String, SyncStop> {
    let sibling = Commit::parse(b"author beadlock <> 0 +0000\n\n");
    write(
        git,
        &sibling.anew(&tree_of(git, of)?, parent, b"beadlock <> 0 +0000"),
    )
}

/// Makes a merge of two commits with this tree. Without a time of its own it is the same object each time.
pub(crate) fn merge_commit(
    git: &Git,
    tree: &str,
    [ours, theirs]: [&str; 2],
    message: &str,
) -> Result<String, SyncStop> {
    let ident = git.text(["var", "GIT_COMMITTER_IDENT"])?;
    let ident = ident.split_inclusive('>').next().unwrap_or_default();
    let mut time = (0, Vec::new());
    for parent in [ours, theirs] {
        let commit = Commit::parse(&git.call(["cat-file", "commit", parent]).done()?.stdout);
        let text = String::from_utf8_lossy(&commit.committed).into_owned();
        let seconds = text.split_ascii_whitespace().next();
        let seconds = seconds.and_then(|it| it.parse::<i64>().ok());
        time = time.max((seconds.unwrap_or_default(), commit.committed));
    }
    let time = String::from_utf8_lossy(&time.1).into_owned();
    let head = format!("tree {tree}\nparent {ours}\nparent {theirs}\n");
    let object = format!("{head}author {ident}{time}\ncommitter {ident}{time}\n\n{message}");
    write(git, object.as_bytes())
}

fn write(git: &Git, object: &[u8]) -> Result<String, SyncStop> {
    git.call(["hash-object", "-t", "commit", "-w", "--stdin"])
        .stdin(object)
        .text()
}

impl Commit {
    pub(crate) fn parse(object: &[u8]) -> Self {
        let end = object
            .windows(2)
            .position(|pair| pair == b"\n\n")
            .map_or(object.len(), |at| at + 1);
        let (head, message) = object.split_at(end);
        let (mut tree, mut parents, mut author) = (String::new(), Vec::new(), Vec::new());
        let (mut committed, mut is_signed, mut is_skipped) = (Vec::new(), false, false);
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            let text = || String::from_utf8_lossy(line[word.len()..].trim_ascii()).into_owned();
            // A line that begins with a space goes on with the one before.
            if !word.is_empty() {
                is_skipped = true;
                match word {
                    b"tree" => tree = text(),
                    b"parent" => parents.push(text()),
                    b"committer" => {
                        let name = line.iter().rposition(|byte| *byte == b'>');
                        let time = &line[name.map_or(line.len(), |at| at + 1)..];
                        committed = time.trim_ascii_end().to_vec();
                    }
                    b"gpgsig" | b"gpgsig-sha256" => is_signed = true,
                    _ => is_skipped = false,
                }
            }
            if !is_skipped {
                author.extend_from_slice(line);
            }
        }
        Self {
            tree,
            parents,
            author,
            committed,
            is_signed,
            message: message.to_vec(),
        }
    }

    /// Whether a sync has made the commit, of this agent or another one. A signed commit counts where it is signed
    /// anew.
    fn is_ours(&self, are_signed: bool) -> bool {
        (are_signed || !self.is_signed)
            && self
                .message
                .trim_ascii_start()
                .starts_with(SUBJECT.as_bytes())
    }

    /// The object, with another tree and parent, committed by somebody else.
    fn anew(&self, tree: &str, parent: &str, committer: &[u8]) -> Vec<u8> {
        let mut object = format!("tree {tree}\nparent {parent}\n").into_bytes();
        let author = self
            .author
            .split_inclusive(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        object.extend_from_slice(author);
        object.extend_from_slice(&[b"committer ", committer, b"\n"].concat());
        object.extend_from_slice(&self.author[author.len()..]);
        object.extend_from_slice(&self.message);
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_commit_but_tree_parent_and_committer_stays() {
        let object = b"tree 1\nparent 2\nauthor A \xe9 <a@b> 1 +0200\ncommitter C <c@d> 2 +0000\nencoding latin1\n\
            \nbetreff\n\ntree x\n\n";
        let commit = Commit::parse(object);
        assert_eq!(commit.committed, b" 2 +0000");
        assert_eq!(
            (commit.tree.as_str(), commit.parents.as_slice()),
            ("1", &["2".to_owned()][..])
        );
        assert!(!commit.is_signed);
        let expected = b"tree 3\nparent 4\nauthor A \xe9 <a@b> 1 +0200\ncommitter D <> 3 +0000\nencoding latin1\n\
            \nbetreff\n\ntree x\n\n";
        assert_eq!(commit.anew("3", "4", b"D <> 3 +0000"), expected);
    }

    #[test]
    fn signatures_and_merges_are_seen() {
        let object = b"tree 1\nparent 2\nparent 3\nauthor A <> 1 +0000\n\
            committer A <> 1 +0000\ngpgsig -----BEGIN\n \n abc\n\nx\n";
        let commit = Commit::parse(object);
        assert!(commit.is_signed);
        assert_eq!(commit.parents.len(), 2);
        assert_eq!(commit.author, b"author A <> 1 +0000\n");
        assert_eq!(commit.message, b"\nx\n");
    }
}
