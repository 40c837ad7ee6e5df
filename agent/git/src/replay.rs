//! A rebase that touches nothing: the commits that are ahead are made anew on top of the upstream, in the object store
//! alone. So a conflict is found before anything has changed.

use crate::HindranceKind::NotPulling;
use crate::{Git, GitReason, Part, Repository, Stop, join, nul_separated, short, to_type};

struct Commit {
    tree: String,
    parents: Vec<String>,
    /// The other lines of its head but the committer's, in order.
    author: Vec<u8>,
    /// The time in the committer's line, with the space before it: ` 1767225600 +0100`.
    committed: Vec<u8>,
    is_signed: bool,
    /// With the empty line before it.
    message: Vec<u8>,
}

/// Makes the commits of `upstream..head` anew on top of `upstream`. Returns the last of them.
pub(crate) fn replay(
    repository: &Repository,
    head: &str,
    upstream: &str,
    name: &str,
) -> Result<String, Stop> {
    let git = &repository.git;
    let range = format!("{upstream}..{head}");
    let ahead = git.text(["rev-list", "--reverse", "--topo-order", &range])?;
    let committer = git.text(["var", "GIT_COMMITTER_IDENT"])?;
    let committer = committer.split_inclusive('>').next().unwrap_or_default();
    let mut onto = upstream.to_owned();
    for id in ahead.lines() {
        let commit = Commit::parse(&git.call(["cat-file", "commit", id]).done()?.stdout);
        let short = short(id);
        let [parent] = commit.parents.as_slice() else {
            // What it brought is in the commit that the others come upon.
            if join::is_join(repository, id)? {
                continue;
            }
            return Err(repository.by_hand(
                NotPulling,
                GitReason::MergeAhead,
                &format!("{short} is a merge, ahead of {name}"),
            ));
        };
        let tree = match merge_trees(git, parent, &onto, id)? {
            Ok(tree) => tree,
            Err(conflicts) => {
                let paths = repository.shown_all(conflicts);
                let why = format!("conflict with {name} in {paths}; nothing was changed");
                let command = to_type("git -C {} pull --rebase", &[Part::Path(&git.dir)]);
                return Err(Stop::failed(GitReason::Conflict, why).next(command));
            }
        };
        // The upstream has this change already, unless the commit was empty from the start.
        if tree == tree_of(git, &onto)? && commit.tree != tree_of(git, parent)? {
            continue;
        }
        if commit.is_signed {
            return Err(repository.by_hand(
                NotPulling,
                GitReason::SignedAhead,
                &format!("{short}, ahead of {name}, is signed"),
            ));
        }
        // With the time as before it is the same object in every cycle, until it can be pulled.
        let committer = [committer.as_bytes(), commit.committed.as_slice()].concat();
        onto = write(git, &commit.anew(&tree, &onto, &committer))?;
    }
    Ok(onto)
}

pub(crate) fn tree_of(git: &Git, commit: &str) -> Result<String, Stop> {
    git.text(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])
}

/// The tree of `ours` with the change from `parent` to `theirs`; or the paths in conflict.
pub(crate) fn merge_trees(
    git: &Git,
    parent: &str,
    ours: &str,
    theirs: &str,
) -> Result<Result<String, Vec<Vec<u8>>>, Stop> {
    // Until git 2.40 merge-tree finds merge bases by ancestry alone, so ours becomes a sibling that nobody keeps.
    let sibling = Commit::parse(b"author beadlock <> 0 +0000\n\n");
    let sibling = write(
        git,
        &sibling.anew(&tree_of(git, ours)?, parent, b"beadlock <> 0 +0000"),
    )?;
    let args = [
        "merge-tree",
        "--write-tree",
        "--name-only",
        "--no-messages",
        "-z",
        &sibling,
        theirs,
    ];
    let answer = git.call(args).run()?;
    let mut words = nul_separated(&answer.stdout).into_iter();
    let tree = String::from_utf8_lossy(&words.next().unwrap_or_default()).into_owned();
    match answer.status.code() {
        Some(0) => Ok(Ok(tree)),
        Some(1) => Ok(Err(words.filter(|path| !path.is_empty()).collect())),
        _ => Err(answer.refused("git merge-tree failed")),
    }
}

/// Makes a merge of two commits with this tree. Without a time of its own it is the same object each time.
pub(crate) fn merge_commit(
    git: &Git,
    tree: &str,
    [ours, theirs]: [&str; 2],
    message: &str,
) -> Result<String, Stop> {
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

fn write(git: &Git, object: &[u8]) -> Result<String, Stop> {
    git.call(["hash-object", "-t", "commit", "-w", "--stdin"])
        .stdin(object)
        .text()
}

impl Commit {
    fn parse(object: &[u8]) -> Self {
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
