use beadlock_records::{
    ConflictLabels, Merged, RecordFile, Undecided, ahead_of, blemishes, differing, gone, merge,
    new_blemishes, older,
};

use super::is_fit_to_be_said;

/// Three versions of a record file, with a byte between them that no JSON has. Whichever side is ours, the merge is the
/// same, a new record is in it, and what is said about it is fit to be said.
pub fn records(bytes: &[u8]) {
    let mut versions = bytes.splitn(3, |byte| *byte == 0x1f);
    let [base, ours, theirs] = [(); 3].map(|()| versions.next().unwrap_or_default());
    let merged = |ours: &[u8], theirs: &[u8], undecided: &Undecided<'_>| -> Merged {
        merge(base, ours, theirs, undecided).expect("small files")
    };
    let marked = merged(ours, theirs, &Undecided::Mark(ConflictLabels::default()));
    let same = merged(theirs, ours, &Undecided::Theirs);
    assert_eq!(same.conflicts.len(), marked.conflicts.len());
    assert_eq!(same.notes.len(), marked.notes.len());
    assert_eq!(same.bytes, merged(ours, theirs, &Undecided::Ours).bytes);
    if marked.conflicts.is_empty() {
        assert_eq!(same.bytes, marked.bytes);
    }
    let said = marked.conflicts.iter().map(ToString::to_string);
    said.chain(marked.notes.iter().map(ToString::to_string))
        .for_each(|words| is_fit_to_be_said(&words));

    let [before, now, result] = [base, ours, &marked.bytes].map(RecordFile::read);
    for id in now.ids() {
        // In a file of the mark alone and a line, the line may begin with another mark.
        let is_new =
            !before.contains(&id) && !bytes.windows(3).any(|three| three == b"\xef\xbb\xbf");
        assert!(!is_new || result.contains(&id), "{id} is lost");
        is_fit_to_be_said(&id.to_string());
    }
    let differs = differing(&before, &now);
    assert_eq!(differs, differing(&now, &before));
    assert!(gone(&before, &now).len() + older(&before, &now).len() <= differs);
    if let Some(ahead) = ahead_of(&now, 0) {
        is_fit_to_be_said(&ahead.to_string());
    }
    let new = new_blemishes(base, ours);
    assert!(new.len() <= blemishes(ours).len());
    new.iter()
        .for_each(|blemish| is_fit_to_be_said(&blemish.to_string()));
}
