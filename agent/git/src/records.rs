//! Record files: which they are, their texts, and how versions of them are merged by `id` (the crate
//! `beadlock-records`).

use std::path::Path;

use beadlock_records::{Merged, RecordFile, SideNames, Undecided};

use crate::{Event, Git, GitReason, Repository, Stop, SyncMessage, as_path, kept, say, versions};

/// What the two sides of a merge are called in a line.
pub(crate) const SIDES: SideNames<'_> = SideNames {
    ours: "here",
    theirs: "at the remote",
};

/// By its name: a file of records, a line each.
pub(crate) fn is_record_file(path: &[u8]) -> bool {
    as_path(path)
        .extension()
        .is_some_and(|extension| extension == "jsonl")
}

/// A file as a commit has it, as it is checked out; `None` where that has no such file.
pub(crate) fn text_of(git: &Git, commit: &str, path: &Path) -> Result<Option<Vec<u8>>, Stop> {
    let name = [commit.as_bytes(), b":", path.as_os_str().as_encoded_bytes()].concat();
    let answer = git.call(["cat-file", "--filters"]).paths([name]).run()?;
    Ok(answer.status.success().then_some(answer.stdout))
}

/// Blobs' bytes, in the order of their ids, by one process.
pub(crate) fn blobs(git: &Git, ids: &[&str]) -> Result<Vec<Vec<u8>>, Stop> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let asked: String = ids.iter().flat_map(|id| [id, "\n"]).collect();
    let printed = git
        .call(["cat-file", "--batch", "--buffer"])
        .stdin(asked)
        .done()?
        .stdout;
    parse_batch(&printed, ids.len()).ok_or_else(|| {
        Stop::failed(
            GitReason::GitFailed,
            "git cat-file has not shown every file that was asked for",
        )
    })
}

/// Reads `ID blob SIZE`, the bytes and a newline, as often as asked.
fn parse_batch(mut printed: &[u8], count: usize) -> Option<Vec<Vec<u8>>> {
    let mut blobs = Vec::new();
    for _ in 0..count {
        let end = printed.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&printed[..end]).ok()?;
        let size: usize = head.split(' ').nth(2)?.parse().ok()?;
        let bytes = printed.get(end + 1..)?.get(..size)?;
        blobs.push(bytes.to_vec());
        printed = printed.get(end + 1 + size + 1..)?;
    }
    Some(blobs)
}

/// Writes a blob. Returns its id.
pub(crate) fn write_blob(git: &Git, bytes: Vec<u8>) -> Result<String, Stop> {
    git.call(["hash-object", "-w", "--no-filters", "--stdin"])
        .stdin(bytes)
        .text()
}

/// Merges by record; what cannot be decided is as in `theirs`, and is told in [`Merged::conflicts`].
pub(crate) fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Merged, Stop> {
    beadlock_records::merge(base, ours, theirs, &Undecided::Theirs)
        .map_err(|error| Stop::failed(GitReason::Conflict, error.to_string()))
}

/// What somebody has written to a record file while it was replaced: `here` and `late` are both made of `base`, unless
/// `late` is nearer to an older version: then its writer had read that one, before an earlier pull. A record
/// that cannot be decided stays as it is `here`, and the other one is kept beside the file. `None` where the file as a
/// whole cannot be merged: it was emptied, or has lines that are no records.
pub(crate) fn late(
    repository: &Repository,
    path: &Path,
    base: &[u8],
    here: &[u8],
    late: &[u8],
) -> Result<Option<Vec<u8>>, Stop> {
    let versions = (&RecordFile::read(base), &RecordFile::read(late));
    let read = versions::read_by_writer(repository, path.as_os_str().as_encoded_bytes(), versions)?;
    let merged = merge(read.as_deref().unwrap_or(base), late, here)?;
    if merged.conflicts.iter().any(kept::is_of_file) {
        return Ok(None);
    }
    if !merged.conflicts.is_empty() {
        kept::keep(repository, path, &merged.conflicts, late)?;
    }
    Ok(Some(merged.bytes))
}

/// Puts a version that cannot be merged beside the file, as `FILE.mine`, where that name is free.
pub(crate) fn put_beside(repository: &Repository, path: &Path, bytes: &[u8]) {
    let mut mine = path.as_os_str().to_owned();
    mine.push(".mine");
    let _ = repository.files.write_new(Path::new(&mine), bytes);
}

/// Tells what a merge of a file has come to.
pub(crate) fn tell(repository: &Repository, path: &[u8], merged: &Merged) {
    let path = repository.shown(path);
    let records = crate::counted(merged.merged, "record");
    let notes: Vec<_> = merged
        .notes
        .iter()
        .take(3)
        .map(|note| note.told(SIDES).to_string())
        .collect();
    let more = match merged.notes.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!("; {}{more}", notes.join(", "))
    };
    say(&SyncMessage::Pulled(
        Event::Merged.line(format_args!("{records} in {path}{notes}")),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_read_whatever_is_in_them() {
        let printed = b"a1 blob 3\nx\ny\nb2 blob 0\n\n";
        assert_eq!(
            parse_batch(printed, 2),
            Some(vec![b"x\ny".to_vec(), Vec::new()])
        );
        assert_eq!(parse_batch(b"a1 missing\n", 1), None);
        assert_eq!(parse_batch(b"a1 blob 9\nx\n", 1), None);
    }

    #[test]
    fn a_record_file_is_known_by_its_name() {
        assert!(is_record_file(b".beads/issues.jsonl"));
        for path in [
            &b".beads/issues.json"[..],
            b"jsonl",
            b".jsonl",
            b"a.jsonl/x",
        ] {
            assert!(!is_record_file(path), "{path:?}");
        }
    }
}
