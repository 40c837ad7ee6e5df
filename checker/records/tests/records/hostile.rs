//! Files that nobody would write: bytes that are not UTF-8, members that come twice, markers, torn lines, deep nesting, marks at
//! the begin, every line end. No merge panics, each is symmetric and loses nothing, and its result is absorbed.

use std::collections::{BTreeSet, HashSet};

use beadlock_records::{Id, Merged, RecordFile, Undecided, blemishes, differing, merge};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::random::holds;
use super::{halves_swapped, marked};

/// Three versions of a file.
#[derive(Debug, Clone)]
struct Versions {
    base: Vec<u8>,
    ours: Vec<u8>,
    theirs: Vec<u8>,
}

impl Versions {
    fn shown(&self) -> String {
        let [base, ours, theirs] = [&self.base, &self.ours, &self.theirs].map(|v| v.escape_ascii());
        format!("base   b\"{base}\"\nours   b\"{ours}\"\ntheirs b\"{theirs}\"")
    }
}

/// A line of a few members out of small sets, so that two of them often meet.
fn records() -> impl Strategy<Value = Vec<u8>> {
    let member = select(vec![
        r#""t":1"#,
        r#""t":2"#,
        r#""t":"x""#,
        r#""t":"\u0078""#,
        r#""t":[1,2]"#,
        r#""t":{"a":1,"b":[]}"#,
        r#""t":{"a":2,"b":["x"]}"#,
        r#""t":{"a":1,"a":1}"#,
        r#""t":NaN"#,
        r#""t":1.0"#,
        r#""t":null"#,
        r#""p":1"#,
        r#""p":2"#,
        r#""p":1e3"#,
        r#""\u0070":3"#,
        r#""l":["a"]"#,
        r#""l":["a","b"]"#,
        r#""l":["b","c","a"]"#,
        r#""l":["a","a"]"#,
        r#""l":[]"#,
        r#""l":[{"x":1,"y":2},"a"]"#,
        r#""l":[{"y":2,"x":1}]"#,
        r#""status":"open""#,
        r#""status":"closed""#,
        r#""status":"tombstone""#,
        r#""closed_at":1"#,
        r#""closed_at":2"#,
        r#""deleted_at":3"#,
        r#""created_at":"2026-01-01T00:00:00Z""#,
        r#""created_at":"2026-01-02T00:00:00Z""#,
        r#""ts":5"#,
        r#""ts":4.5"#,
        r#""updated_at":"2026-02-01T00:00:00Z""#,
        r#""updated_at":"2026-02-01T01:00:00+01:00""#,
        r#""updated_at":"2026-02-02T00:00:00.5Z""#,
        r#""updated_at":"2026-02-03T00:00:00""#,
        r#""updated_at":7"#,
        r#""updated_at":8"#,
        r#""updatedAt":9"#,
        r#""modified_at":null"#,
    ]);
    let id = select(vec![
        r#""id":"a""#,
        r#""id":"a""#,
        r#""id":"b""#,
        r#""id":"c""#,
        r#""id":"d""#,
        r#""id":1"#,
        r#""id":"1""#,
        r#""id":"""#,
        r#""id":-0"#,
        r#""i\u0064":"e""#,
        r#""id":"\ud800""#,
        r#""e":1"#,
    ]);
    let comma = select(vec![",", ",", ",", ", ", " ,"]);
    let members = prop_oneof![4 => vec(member.clone(), 0..4), 1 => vec(member, 0..9)];
    (id, members, any::<Index>(), comma).prop_map(|(id, mut members, at, comma)| {
        // Each name once, mostly: a line with one twice is a case of its own.
        let mut names = HashSet::new();
        members.retain(|member| names.insert(member.split(':').next()) || member.len() % 5 == 0);
        members.insert(at.index(members.len() + 1), id);
        format!("{{{}}}", members.join(comma)).into_bytes()
    })
}

/// A line of any kind, without its end.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let deep = |depth: usize| {
        format!(
            "{{\"id\":\"deep\",\"n\":{}1{}}}",
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let odd: Vec<Vec<u8>> = [
        "",
        " ",
        "\r",
        "{}",
        "[]",
        "7",
        "\"x\"",
        "null",
        "{\"e\":1}",
        "{\"e\":2}",
        "{\"e\":1}",
        "oops",
        "{\"id\":\"b\",\"ti",
        "<<<<<<< ours",
        "=======",
        ">>>>>>> theirs",
        "{\"id\":\"a\"}\r",
        " {\"id\":\"a\"} ",
        "{\"id\":\"a\",\"id\":\"b\"}",
        "{\"id\":NaN}",
        "{\"id\":\"a\"}{}",
        "\u{feff}{\"id\":\"a\"}",
        "{\"id\":\"a\nb\"}",
        "\0",
        "{\"id\":\"a\",\"t\":\"\0\"}",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into_iter()
    .chain([b"{\"id\":\"\xff\"}".to_vec(), b"\xc3".to_vec()])
    .chain([3, 255, 256, 257, 5_000].map(|depth| deep(depth).into_bytes()))
    .collect();
    prop_oneof![8 => records(), 2 => select(odd), 1 => vec(any::<u8>(), 0..8)]
}

/// A change of a side to base: it cuts lines out, puts one in, or moves one.
#[derive(Debug, Clone)]
struct Step {
    at: Index,
    cut: usize,
    lines: Vec<Vec<u8>>,
    moves_to: Option<Index>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lines = prop_oneof![3 => vec(lines(), 0..2), 1 => vec(lines(), 0..4)];
    let cut = prop_oneof![4 => 0..2_usize, 1 => Just(9)];
    let moves_to = proptest::option::weighted(0.1, any::<Index>());
    let step = (any::<Index>(), cut, lines, moves_to).prop_map(|(at, cut, lines, moves_to)| Step {
        at,
        cut,
        lines,
        moves_to,
    });
    vec(step, 0..4)
}

fn changed(base: &[Vec<u8>], steps: &[Step]) -> Vec<Vec<u8>> {
    let mut lines = base.to_vec();
    for step in steps {
        let at = step.at.index(lines.len() + 1);
        let end = (at + step.cut).min(lines.len());
        let cut: Vec<_> = lines.splice(at..end, step.lines.iter().cloned()).collect();
        if let Some(to) = step.moves_to {
            let to = to.index(lines.len() + 1);
            lines.splice(to..to, cut);
        }
    }
    lines
}

/// How a file is written: the end of its lines, that of its last, and its mark.
type Style = (&'static str, bool, bool);

fn file(lines: &[Vec<u8>], (end, last_ends, has_mark): Style) -> Vec<u8> {
    let mut file = if has_mark {
        b"\xef\xbb\xbf".to_vec()
    } else {
        Vec::new()
    };
    for (index, line) in lines.iter().enumerate() {
        file.extend_from_slice(line);
        if last_ends || index + 1 < lines.len() {
            file.extend_from_slice(end.as_bytes());
        }
    }
    file
}

fn versions() -> impl Strategy<Value = Versions> {
    let end = || prop_oneof![8 => Just("\n"), 2 => Just("\r\n")];
    let style = || {
        (
            end(),
            proptest::bool::weighted(0.9),
            proptest::bool::weighted(0.05),
        )
    };
    let base = vec(lines(), 0..7);
    let styles = [style(), style(), style()];
    (base, steps(), steps(), styles, any::<bool>()).prop_map(
        |(mut base, ours, theirs, styles, is_sorted)| {
            let mut versions = [changed(&base, &ours), changed(&base, &theirs)];
            if is_sorted {
                base.sort();
                versions.iter_mut().for_each(|lines| lines.sort());
            }
            let [ours, theirs] = versions;
            Versions {
                base: file(&base, styles[0]),
                ours: file(&ours, styles[1]),
                theirs: file(&theirs, styles[2]),
            }
        },
    )
}

fn without_mark(file: &[u8]) -> &[u8] {
    file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file)
}

/// Whether a file has an id on several lines, or another line several times.
fn has_any_twice(file: &[u8]) -> bool {
    let lines = without_mark(file).split(|byte| *byte == b'\n');
    let mut seen = HashSet::new();
    let is_twice = lines.clone().any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        !line.trim_ascii().is_empty() && !seen.insert(line)
    });
    is_twice || count_ids(file) > RecordFile::read(file).records()
}

fn is_symmetric(versions: &Versions, merged: &Merged) {
    let Versions { base, ours, theirs } = versions;
    let labels = beadlock_records::ConflictLabels {
        ours: b"theirs",
        theirs: b"ours",
        marker_size: MARKERS,
    };
    let swapped = merge(base, theirs, ours, &Undecided::Mark(labels)).unwrap();
    let swapped_back = halves_swapped(&swapped.bytes, MARKERS);
    assert_eq!(
        swapped_back.escape_ascii().to_string(),
        merged.bytes.escape_ascii().to_string()
    );
    assert_eq!(swapped.conflicts.len(), merged.conflicts.len());
    assert_eq!(swapped.notes.len(), merged.notes.len());
}

/// Markers of a length that none of the hostile lines has.
const MARKERS: usize = 11;

/// The lines in any order, and the bytes of each as well, without spaces and escapes. Where both sides sort anew, or neither
/// record is newer and both have a list, what a merge makes of its result and one side may be in that side's order and form.
fn in_any_order(file: &[u8]) -> Vec<Vec<u8>> {
    let lines = without_mark(file).split(|byte| *byte == b'\n');
    let sorted = lines.map(|line| {
        let line = line.escape_ascii().to_string().replace(' ', "");
        let line = line.replace("\\\\u0078", "x").replace("\\\\u0070", "p");
        let mut line = line.into_bytes();
        line.sort_unstable();
        line
    });
    let mut lines: Vec<Vec<u8>> = sorted.collect();
    lines.sort_unstable();
    lines
}

fn check(versions: &Versions) {
    let Versions { base, ours, theirs } = versions;
    let merged = marked(base, ours, theirs, MARKERS);
    is_symmetric(versions, &merged);

    for side in [Undecided::Ours, Undecided::Theirs] {
        let decided = merge(base, ours, theirs, &side).unwrap();
        assert_eq!(decided.conflicts, merged.conflicts);
        if merged.conflicts.is_empty() {
            assert_eq!(decided.bytes, merged.bytes);
        }
    }

    let any_twice = [base, ours, theirs]
        .into_iter()
        .any(|file| has_any_twice(file));

    // What one side added is there, whatever else happened; and what all have, but for lines of a log.
    let [in_base, in_ours, in_theirs, result] =
        [base, ours, theirs, &merged.bytes].map(|bytes| RecordFile::read(bytes));
    let all: BTreeSet<Id> = in_ours.ids().chain(in_theirs.ids()).collect();
    for id in all {
        let is_new = !in_base.contains(&id);
        let is_everywhere = in_ours.contains(&id) && in_theirs.contains(&id);
        if is_new || is_everywhere && !any_twice {
            assert!(result.contains(&id), "{id} is lost");
        }
    }
    // A line that begins with the mark is not JSON, until it is the first of a file.
    let has_mark_inside = |file: &Vec<u8>| {
        let mut rest = without_mark(file).windows(3);
        rest.any(|bytes| bytes == b"\xef\xbb\xbf")
    };
    if [ours, theirs].into_iter().any(has_mark_inside) {
        return;
    }
    for id in result.ids() {
        assert!(
            in_ours.contains(&id) || in_theirs.contains(&id),
            "{id} comes from nowhere"
        );
    }

    // A result that is BASE again is a file that did not change, and an empty one is an emptied side.
    let has_changed = merged.bytes != *base && merged.bytes.len() > 3;
    // One CR is the end of a line. A second one is part of it, and the end of it in the result if that has LF.
    let has_two_cr = [ours, theirs].into_iter().any(|file| {
        let mut pairs = file.windows(2);
        pairs.any(|pair| pair == b"\r\r")
    });
    // Sides that name the time differently are compared by both; the merged record has both, and one time.
    let all = [&ours[..], theirs].concat();
    let has = |name: &str| {
        all.windows(name.len())
            .any(|bytes| bytes == name.as_bytes())
    };
    let has_two_names = has("updated_at") && (has("updatedAt") || has("modified_at"));
    let is_exempt = any_twice || has_two_cr || has_two_names;
    if merged.conflicts.is_empty() && has_changed && !is_exempt {
        assert_eq!(result.records(), count_ids(&merged.bytes), "an id is twice");
        for side in [ours, theirs] {
            let again = marked(base, &merged.bytes, side, MARKERS);
            assert_eq!(again.conflicts, []);
            if in_any_order(&again.bytes) != in_any_order(&merged.bytes) {
                assert_eq!(
                    again.bytes.escape_ascii().to_string(),
                    merged.bytes.escape_ascii().to_string()
                );
            }
        }
    }
    let _ = (differing(&in_ours, &in_theirs), blemishes(ours));
}

fn count_ids(file: &[u8]) -> usize {
    let lines = file.split(|byte| *byte == b'\n');
    lines.map(|line| RecordFile::read(line).records()).sum()
}

#[test]
fn no_hostile_file_breaks_a_promise() {
    holds(2_000, &versions(), Versions::shown, check);
}
