//! The cases beside the checkout: each both ways round, and absorbed.

use std::fs;
use std::path::{Path, PathBuf};

use beadlock_records::{ConflictLabels, Merged, Undecided, merge};
use beadlock_testkit::skip;

/// A case, as its directory has it.
struct Case {
    name: String,
    base: Vec<u8>,
    ours: Vec<u8>,
    theirs: Vec<u8>,
    result: Vec<u8>,
    is_conflict: bool,
}

impl Case {
    fn read(dir: &Path) -> Self {
        let file = |name: &str| fs::read(dir.join(name));
        let version = |name: &str| file(name).unwrap_or_else(|why| panic!("{dir:?}: {why}"));
        let clean = file("expected.jsonl");
        Self {
            name: dir.file_name().unwrap().to_string_lossy().into_owned(),
            base: version("base.jsonl"),
            ours: version("ours.jsonl"),
            theirs: version("theirs.jsonl"),
            is_conflict: clean.is_err(),
            result: clean.unwrap_or_else(|_| version("conflict.jsonl")),
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |what: &str, merged: &Merged, is_conflict: bool| {
            let is_right =
                merged.bytes == self.result && merged.conflicts.is_empty() != is_conflict;
            if !is_right {
                let [is, should_be] =
                    [&merged.bytes, &self.result].map(|b| b.escape_ascii().to_string());
                let said = &merged.conflicts;
                problems.push(format!(
                    "{} {what}: {said:?}\n  is        {is}\n  should be {should_be}",
                    self.name
                ));
            }
        };
        let merged = merged(&self.base, &self.ours, &self.theirs, "ours", "theirs");
        check("as it is", &merged, self.is_conflict);
        let swapped = merged_with_halves_swapped(&self.base, &self.ours, &self.theirs);
        check("swapped", &swapped, self.is_conflict);
        // A record that is twice in one file is not absorbed, as the rules say.
        if !self.is_conflict && self.name != "067-duplicate-without-times-last-line" {
            for side in [&self.ours, &self.theirs] {
                check(
                    "absorbed",
                    &self::merged(&self.base, &self.result, side, "ours", "theirs"),
                    false,
                );
            }
        }
        problems
    }
}

fn merged(base: &[u8], ours: &[u8], theirs: &[u8], label: &str, other: &str) -> Merged {
    let labels = ConflictLabels {
        ours: label.as_bytes(),
        theirs: other.as_bytes(),
        marker_size: 7,
    };
    merge(base, ours, theirs, &Undecided::Mark(labels)).expect("small files")
}

/// Merges with the sides exchanged, and exchanges the halves of each hunk.
fn merged_with_halves_swapped(base: &[u8], ours: &[u8], theirs: &[u8]) -> Merged {
    let mut merged = merged(base, theirs, ours, "theirs", "ours");
    merged.bytes = super::halves_swapped(&merged.bytes, 7);
    merged
}

#[test]
fn every_case_is_merged_as_recorded_both_ways_round_and_absorbed() {
    let Some(shared) = skip::shared() else { return };
    let all = shared.join("vectors/jsonl-merge");
    let mut cases: Vec<PathBuf> = fs::read_dir(all)
        .expect("the cases")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(cases.len() >= 87, "{} cases", cases.len());
    let problems: Vec<String> = cases
        .iter()
        .flat_map(|dir| Case::read(dir).problems())
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
