//! Record files: which they are, their texts, and how versions of them are merged by `id` (the crate
//! `beadlock-records`).

use std::collections::BTreeSet;
use std::path::Path;

use beadlock_records::{
    Conflict, ConflictKind, Merged, RecordFile, Side, SideNames, Undecided, blemishes, differing,
    gone,
};

use crate::{Event, kept};
use beadlock_repository::{Git, GitReason, Repository, SyncMessage, SyncStop, as_path, say};

/// The names of the two sides of a merge for a line.
pub(crate) const SIDES: SideNames<'_> = SideNames {
    ours: "here",
    theirs: "at the remote",
};

/// Whether a file has records, a line each, by its name.
pub(crate) fn is_record_file(path: &[u8]) -> bool {
    as_path(path)
        .extension()
        .is_some_and(|extension| extension == "jsonl")
}

/// A file as a commit has it, as it is checked out; `None` where that has no such file.
pub(crate) fn text_of(git: &Git, commit: &str, path: &Path) -> Result<Option<Vec<u8>>, SyncStop> {
    let name = [commit.as_bytes(), b":", path.as_os_str().as_encoded_bytes()].concat();
    let answer = git.call(["cat-file", "--filters"]).paths([name]).run()?;
    Ok(answer.status.success().then_some(answer.stdout))
}

/// Blobs' bytes, in the order of their ids, by one process.
pub(crate) fn blobs(git: &Git, ids: &[&str]) -> Result<Vec<Vec<u8>>, SyncStop> {
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
        SyncStop::failed(
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

/// Blobs' bytes, in the order of their ids: from the cache of this sync, or from the repository, by one process.
pub(crate) fn cached_blobs(
    repository: &Repository,
    ids: &[&str],
) -> Result<Vec<Vec<u8>>, SyncStop> {
    let mut cache = repository.blobs.borrow_mut();
    let mut missing = ids.to_vec();
    missing.retain(|id| cache.blob(id).is_none());
    missing.dedup();
    let read = blobs(&repository.git, &missing)?;
    for (id, bytes) in std::iter::zip(&missing, &read) {
        cache.keep(id, bytes);
    }
    // What the cache has no room for is here.
    let read = |id: &str| {
        let index = missing.iter().position(|missing| *missing == id);
        index.and_then(|index| read.get(index))
    };
    let all = ids.iter().map(|id| read(id).or(cache.blob(id)).cloned());
    Ok(all.flatten().collect())
}

/// The ids of the blobs with these names, `COMMIT:PATH` or an id itself, a name a line; `None` where no blob has it.
pub(crate) fn cached_ids(
    repository: &Repository,
    names: &[String],
) -> Result<Vec<Option<String>>, SyncStop> {
    let mut cache = repository.blobs.borrow_mut();
    let missing = names.iter().filter(|name| cache.id(name).is_none());
    let missing: Vec<_> = missing.cloned().collect();
    if !missing.is_empty() {
        let mut asked = missing.join("\n");
        asked.push('\n');
        let call = repository.git.call(["cat-file", "--batch-check"]);
        let answer = call.stdin(asked).run()?;
        // `ID blob SIZE`, or that it is missing.
        let printed = String::from_utf8_lossy(&answer.stdout);
        for (name, line) in std::iter::zip(&missing, printed.lines()) {
            if let Some((id, rest)) = line.split_once(' ')
                && rest.starts_with("blob ")
            {
                cache.keep_id(name, id);
            }
        }
    }
    Ok(names.iter().map(|name| cache.id(name).cloned()).collect())
}

/// Writes a blob, unless this sync has seen it in the repository. Returns its id.
pub(crate) fn cached_write(repository: &Repository, bytes: &[u8]) -> Result<String, SyncStop> {
    let mut cache = repository.blobs.borrow_mut();
    if let Some(id) = cache.id_of(bytes) {
        return Ok(id.clone());
    }
    let id = write_blob(&repository.git, bytes.to_vec())?;
    cache.keep(&id, bytes);
    cache.keep_id(&id, &id);
    Ok(id)
}

/// Writes a blob. Returns its id.
pub(crate) fn write_blob(git: &Git, bytes: Vec<u8>) -> Result<String, SyncStop> {
    git.call(["hash-object", "-w", "--no-filters", "--stdin"])
        .stdin(bytes)
        .text()
}

/// Merges by record; what cannot be decided is as in `theirs`, and is told in [`Merged::conflicts`].
pub(crate) fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Merged, SyncStop> {
    beadlock_records::merge(base, ours, theirs, &Undecided::Theirs)
        .map_err(|error| SyncStop::failed(GitReason::Conflict, error.to_string()))
}

/// Merges the text that somebody has written to a record file while it was replaced: `here` and `late` are both made of
/// `base`. A conflict stays as it is `here`, and the other value is kept beside the file. Lines that are no JSON are
/// added as they are: whether they are committed is decided later.
pub(crate) fn late(
    repository: &Repository,
    path: &Path,
    base: &[u8],
    here: &[u8],
    late: &[u8],
) -> Result<Vec<u8>, SyncStop> {
    let (merged, conflicts) = merge_late(base, here, late)?;
    if !conflicts.is_empty() {
        kept::keep(repository, path, &conflicts, late)?;
    }
    Ok(merged)
}

fn merge_late(base: &[u8], here: &[u8], late: &[u8]) -> Result<(Vec<u8>, Vec<Conflict>), SyncStop> {
    let [base, here, late] = [base, here, late].map(split_torn);
    let merged = merge(base.0, late.0, here.0)?;
    let mut bytes = merged.bytes;
    let lines: Vec<_> = late.0.split_inclusive(|byte| *byte == b'\n').collect();
    for conflict in &merged.conflicts {
        if let ConflictKind::BadLine {
            side: Side::Ours,
            line,
        } = conflict.kind
            && let Some(text) = line.checked_sub(1).and_then(|index| lines.get(index))
        {
            end_line(&mut bytes);
            bytes.extend_from_slice(text);
        }
    }
    // The line that is not written whole: where both are at one, its end comes to the old file, and is merged in then.
    let torn = if late.1 == base.1 || !here.1.is_empty() && here.1 != base.1 {
        here.1
    } else {
        late.1
    };
    if !torn.is_empty() {
        end_line(&mut bytes);
        bytes.extend_from_slice(torn);
    }
    Ok((bytes, merged.conflicts))
}

fn end_line(bytes: &mut Vec<u8>) {
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
}

/// A text, and the line at its end that somebody has only begun to write.
pub(crate) fn split_torn(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    let (whole, rest) = text.split_at(end.map_or(0, |end| end + 1));
    if blemishes(rest).is_empty() {
        (text, b"")
    } else {
        (whole, rest)
    }
}

/// Whether `text` lacks records that `base` has, or ends in the middle of a line that `base` does not have so.
pub(crate) fn is_cut(base: &[u8], text: &[u8]) -> bool {
    let torn = split_torn(text).1;
    !torn.is_empty() && torn != split_torn(base).1
        || !gone(&RecordFile::read(base), &RecordFile::read(text)).is_empty()
}

/// The lines that `now` has and `base` has not.
pub(crate) fn added(base: &[u8], now: &[u8]) -> Vec<u8> {
    let lines = |text| <[u8]>::split_inclusive(text, |byte: &u8| *byte == b'\n');
    let old: BTreeSet<_> = lines(base).collect();
    lines(now)
        .filter(|line| !old.contains(line))
        .flatten()
        .copied()
        .collect()
}

/// The one of these texts with the fewest differences from `of`, the first of equals: `of` is made of it.
pub(crate) fn nearer<'a>(texts: &[&'a [u8]], of: &[u8]) -> &'a [u8] {
    let of = RecordFile::read(of);
    let distance = |text: &&&[u8]| differing(&RecordFile::read(text), &of);
    texts.iter().min_by_key(distance).copied().unwrap_or(b"")
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
    let records = beadlock_repository::counted(merged.merged, "record");
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

    fn late(base: &str, here: &str, late: &str) -> String {
        let merged = merge_late(base.as_bytes(), here.as_bytes(), late.as_bytes());
        String::from_utf8(merged.unwrap_or_else(|_| panic!()).0).unwrap()
    }

    #[test]
    fn a_line_that_is_only_begun_stays_at_the_end() {
        let (a, b, c) = ("{\"id\":\"a\"}\n", "{\"id\":\"b\"}\n", "{\"id\":\"c\"}\n");
        let half = "{\"id\":\"c";
        let begun = late(a, &[a, b].concat(), &[a, half].concat());
        assert_eq!(begun, [a, b, half].concat());
        // Its writer ends it, in the file that was swapped out.
        let ended = late(&[a, half].concat(), &begun, &[a, c].concat());
        assert_eq!(ended, [a, b, c].concat());
    }

    #[test]
    fn lines_that_are_no_json_are_added_as_they_are() {
        let (a, b) = ("{\"id\":\"a\"}\n", "{\"id\":\"b\"}\n");
        let merged = late(a, &[a, b].concat(), &[a, "no json\n"].concat());
        assert_eq!(merged, [a, b, "no json\n"].concat());
    }

    #[test]
    fn a_file_that_is_not_there_whole_is_seen() {
        let (a, b) = ("{\"id\":\"a\"}\n", "{\"id\":\"b\"}\n");
        let both = [a, b].concat();
        let is_cut = |base: &str, text: &str| is_cut(base.as_bytes(), text.as_bytes());
        assert!(is_cut(&both, "") && is_cut(&both, a) && is_cut(a, "{\"id\":\"a\"}\n{\"id"));
        assert!(
            !is_cut(a, &both)
                && !is_cut(&both, &both)
                && !is_cut("", "")
                && !is_cut(a, a.trim_end())
        );
    }

    #[test]
    fn a_text_is_made_of_the_one_that_is_nearest() {
        let (a, b) = (
            &b"{\"id\":\"a\"}\n{\"id\":\"c\"}\n"[..],
            &b"{\"id\":\"b\"}\n"[..],
        );
        assert_eq!(nearer(&[a, b""], b"{\"id\":\"a\"}\n"), a);
        assert_eq!(nearer(&[a, b""], b), b"");
        assert_eq!(nearer(&[], b), b"");
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
