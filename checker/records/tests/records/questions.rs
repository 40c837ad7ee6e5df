//! Questions about one version of a file, or two; and what conflicts, notes and blemishes say.

use beadlock_records::{
    BlemishKind, ConflictKind, ConflictLabels, Id, MAX_LINES, Note, RecordFile, Side, SideNames,
    Undecided, ahead_of, blemishes, differing, gone, merge, new_blemishes, older,
};

use super::marked;

/// One text a line, with single quotes for those of JSON.
fn file(lines: &[&str]) -> Vec<u8> {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect::<String>().replace('\'', "\"").into_bytes()
}

#[test]
fn a_file_knows_its_records() {
    let bytes = file(&[
        "{'id':'b'}",
        "",
        "{'id':7}",
        "{'e':1}",
        "{'id':'b','t':1}",
        "{'id':",
    ]);
    let read = RecordFile::read(&bytes);
    assert_eq!(read.records(), 2);
    assert_eq!(
        read.ids().collect::<Vec<_>>(),
        [Id::text("b"), Id::integer(7)]
    );
    assert!(read.contains(&Id::integer(7)) && !read.contains(&Id::text("7")));
}

#[test]
fn a_record_file_has_more_json_than_other_lines() {
    let cases: [(&[&str], bool); 5] = [
        (&[], false),
        (&["", " "], false),
        (&["{'id':'a'}"], true),
        (&["{'e':1}", "7", "hello"], true),
        (&["{'id':'a'}", "hello"], false),
    ];
    for (lines, is_one) in cases {
        assert_eq!(
            RecordFile::read(&file(lines)).is_record_file(),
            is_one,
            "{lines:?}"
        );
    }
}

#[test]
fn what_differs_is_counted_by_record_and_line() {
    let one = file(&[
        "{'id':'a','x':1}",
        "{'id':'b'}",
        "{'id':'c'}",
        "{'e':1}",
        "{'e':1}",
        "oops",
    ]);
    let two = file(&[
        "{'x':1, 'id':'a'}",
        "{'id':'b','x':1}",
        "{'id':'d'}",
        "{'e':1}",
        "{'e':2}",
    ]);
    let (one, two) = (RecordFile::read(&one), RecordFile::read(&two));
    // b; c and d; one {"e":1}, {"e":2}, oops.
    assert_eq!((differing(&one, &two), differing(&two, &one)), (6, 6));
    assert_eq!(differing(&one, &one), 0);
    assert_eq!(gone(&one, &two), [Id::text("c")]);
    assert_eq!(gone(&two, &one), [Id::text("d")]);
}

#[test]
fn records_that_went_back_are_those_with_an_older_time_and_other_content() {
    let before = file(&[
        "{'id':'a','t':1,'updated_at':'2026-04-02T00:00:00Z'}",
        "{'id':'b','t':1,'updated_at':'2026-04-02T00:00:00Z'}",
        "{'id':'c','t':1,'updated_at':'2026-04-02T00:00:00Z'}",
        "{'id':'d','t':1,'modifiedAt':5}",
        "{'id':'e','t':1,'updated_at':'2026-04-02T00:00:00'}",
        "{'id':'f','t':1,'updated_at':'2026-04-02T00:00:00Z'}",
    ]);
    let now = file(&[
        "{'id':'a','t':0,'updated_at':'2026-04-02T00:30:00+01:00'}",
        "{'id':'b','t':0,'updated_at':'2026-04-03T00:00:00Z'}",
        "{'updated_at':'2026-04-02T00:00:00Z','id':'c','t':1}",
        "{'id':'d','t':0,'modifiedAt':4}",
        "{'id':'e','t':0,'updated_at':'2026-04-01T00:00:00'}",
        "{'id':'f','t':1}",
    ]);
    let (before, now) = (RecordFile::read(&before), RecordFile::read(&now));
    assert_eq!(older(&before, &now), [Id::text("a"), Id::text("d")]);
    assert_eq!(older(&now, &before), [Id::text("b")]);
}

#[test]
fn the_latest_record_that_is_ahead_of_the_clock_is_named() {
    /// 2026-04-01T00:00:00Z.
    const NOW: i64 = 1_775_001_600;
    let ahead = |lines: &[&str]| {
        let bytes = file(lines);
        ahead_of(&RecordFile::read(&bytes), NOW).map(|ahead| ahead.to_string())
    };
    let late = "{'id':'a','updated_at':'2026-04-01T00:05:00Z'}";
    assert_eq!(ahead(&[late]), None);
    assert_eq!(
        ahead(&[
            late,
            "{'id':'b','updated_at':'2026-04-01T02:05:01.5+02:00'}"
        ])
        .as_deref(),
        Some("b has the time 2026-04-01T02:05:01.5+02:00, 5 minutes ahead of this clock")
    );
    // In seconds, milli-, micro- and nanoseconds; the latest of all.
    let numbers = [
        "{'id':1,'updatedAt':1775005200}",
        "{'id':2,'updatedAt':1775008800000}",
        "{'id':3,'updatedAt':1775012400000000}",
        "{'id':4,'updatedAt':1775260800000000000}",
    ];
    assert_eq!(
        ahead(&numbers).as_deref(),
        Some("4 has the time 1775260800000000000, 3 days ahead of this clock")
    );
    assert_eq!(
        ahead(&numbers[..3]).as_deref(),
        Some("3 has the time 1775012400000000, 3 hours ahead of this clock")
    );
}

#[test]
fn blemishes_are_told_by_line_and_those_of_old_are_left_out() {
    let before = b"{\"id\":\"a\"}\noops\n";
    let now = b"\xef\xbb\xbfoops\r\noops\n\n<<<<<<< HEAD\n{\"id\":\"a\"}\n=======\n======= \n>>>>>>> x\n\0\0\n{\"id\":\"b";
    let all: Vec<String> = blemishes(now).iter().map(ToString::to_string).collect();
    assert_eq!(
        all,
        [
            "line 1 is not JSON",
            "line 2 is not JSON",
            "line 4 is a conflict marker",
            "line 6 is a conflict marker",
            "line 7 is not JSON",
            "line 8 is a conflict marker",
            "line 9 has a NUL byte",
            "line 10 is not JSON (cut off?)",
        ]
    );
    let new = new_blemishes(before, now);
    assert_eq!(new.first().map(|blemish| blemish.line), Some(2));
    assert_eq!(new.len(), 7);
    assert_eq!(new_blemishes(now, now), []);
    let torn = new.last().unwrap();
    assert_eq!(
        (torn.kind, torn.text),
        (BlemishKind::Torn, &b"{\"id\":\"b"[..])
    );
    assert_eq!(
        blemishes(b"{\"id\":\"a\"}\n{\"id\":\"b\"}"),
        [],
        "a whole record is not torn"
    );
}

/// Sentences about a merge of these versions, with the sides called "here" and "at origin".
fn said(base: &[&str], ours: &[&str], theirs: &[&str]) -> Vec<String> {
    let merged = marked(&file(base), &file(ours), &file(theirs), 7);
    let names = SideNames {
        ours: "here",
        theirs: "at origin",
    };
    let conflicts = merged.conflicts.iter().map(|it| it.told(names).to_string());
    conflicts
        .chain(merged.notes.iter().map(|it| it.told(names).to_string()))
        .collect()
}

#[test]
fn conflicts_and_notes_are_sentences() {
    let time = |day| format!("'updated_at':'2026-04-0{day}T00:00:00Z'");
    let record = |members: &str, day| format!("{{'id':'bd-7',{members},{}}}", time(day));
    let [old, older, newer] = [
        record("'title':'a','meta':{'k':1}", 1),
        record("'title':'b','meta':{'k':2}", 2),
        record("'title':'c','meta':{'k':3}", 3),
    ];
    let tie = record("'title':'c','meta':{'k':3}", 2);
    assert_eq!(
        said(&[&old], &[&older], &[&tie]),
        ["bd-7: both sides changed title, meta.k"]
    );
    assert_eq!(
        said(&[&old], &[&older], &[&newer]),
        ["by updated_at: bd-7 title, meta.k"]
    );
    assert_eq!(
        said(
            &["{'id':'bd-7','updated_at':'?'}"],
            &["{'id':'bd-7','updated_at':'today','x':1}"],
            &["{'id':'bd-7','updated_at':'now','x':2}"]
        ),
        ["bd-7: both sides changed x"]
    );
    assert_eq!(
        said(
            &["{'id':1}"],
            &["{'id':1,'x':1}", "{'id':'bd-9','x':1}"],
            &["{'id':1}", "{'id':'bd-9','x':2}"]
        ),
        ["bd-9 was made twice, for two things; give one another id"]
    );
    let [bd_3, changed, other] = ["{'id':'bd-3'}", "{'id':'bd-3','x':1}", "{'id':1}"];
    assert_eq!(
        said(&[bd_3, other], &[other], &[changed, other]),
        ["bd-3: changed at origin, deleted here: kept"]
    );
    assert_eq!(
        said(&[bd_3, other], &[changed, other], &[other]),
        ["bd-3: changed here, deleted at origin: kept"]
    );
    assert_eq!(
        said(&[bd_3], &[changed, "{'id"], &[bd_3, other]),
        ["line 2 is not JSON, added here"]
    );
    assert_eq!(
        said(&[bd_3, other], &[], &[changed, other]),
        ["all 2 records are gone here: nothing was removed"]
    );
    assert_eq!(
        said(&[bd_3], &["{'id':'bd-3','x':1,'x':2}"], &[changed]),
        [
            "bd-3: both sides changed it, and it cannot be merged by member (a name comes twice in it)"
        ]
    );
    assert_eq!(
        said(
            &["{'id':'a\\u001b[2J\\n'}"],
            &["{'id':'a\\u001b[2J\\n','x':1}"],
            &["{'id':'a\\u001b[2J\\n','x':2}"]
        ),
        ["a\\u{1b}[2J\\n: both sides changed x"]
    );
}

#[test]
fn what_is_undecided_can_be_either_sides_lines_as_they_are() {
    let base = file(&["{'id':'z'}", "{'id':'a','x':1,'y':1}"]);
    let ours = file(&[
        "{'id':'z','o':1}",
        "{'id':'a','x':2,'y':2}",
        "{'id':'n','x':1}",
        "torn",
    ]);
    let theirs = file(&["{'id':'z'}", "{'id':'a','x':3,'y':1}", "{'id':'n','x':2}"]);
    let merged = |undecided: Undecided<'_>| {
        let merged = merge(&base, &ours, &theirs, &undecided).unwrap();
        assert_eq!(merged.conflicts.len(), 3);
        assert_eq!(merged.merged, 0);
        merged.bytes
    };
    assert_eq!(merged(Undecided::Ours), ours);
    assert_eq!(
        merged(Undecided::Theirs),
        file(&[
            "{'id':'z','o':1}",
            "{'id':'a','x':3,'y':1}",
            "{'id':'n','x':2}"
        ])
    );
    let labels = ConflictLabels {
        ours: b"HEAD",
        theirs: b"",
        marker_size: 3,
    };
    assert_eq!(
        merged(Undecided::Mark(labels)),
        file(&[
            "{'id':'z','o':1}",
            "<<< HEAD",
            "{'id':'a','x':2,'y':2}",
            "===",
            "{'id':'a','x':3,'y':2}",
            ">>>",
            "<<< HEAD",
            "{'id':'n','x':1}",
            "===",
            "{'id':'n','x':2}",
            ">>>",
            "<<< HEAD",
            "torn",
            "===",
            ">>>",
        ])
    );
}

#[test]
fn a_conflict_has_both_values_and_a_note_the_side() {
    let base = file(&["{'id':'a','x':1,'y':1}", "{'id':'b'}"]);
    let ours = file(&[
        "{'id':'a','x': 'é','y':2}",
        "{'id':'b','o':1,'updated_at':1}",
    ]);
    let theirs = file(&["{'id':'a','y':2}", "{'id':'b','o':2,'updated_at':2}"]);
    let merged = marked(&base, &ours, &theirs, 7);
    let [conflict] = &merged.conflicts[..] else {
        panic!("{:?}", merged.conflicts)
    };
    let ConflictKind::Members(members) = &conflict.kind else {
        panic!("{conflict:?}")
    };
    assert_eq!(conflict.id, Some(Id::text("a")));
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].name, "x");
    assert_eq!(members[0].ours.as_deref(), Some("\"é\"".as_bytes()));
    assert_eq!(members[0].theirs, None);
    assert_eq!(
        merged.notes,
        [Note::ByTime {
            id: Id::text("b"),
            time: "updated_at",
            newer: Side::Theirs,
            members: vec!["o".to_owned()],
        }]
    );
}

#[test]
fn what_is_merged_is_what_theirs_brought() {
    let base = file(&["{'id':'a'}", "{'id':'b'}", "{'id':'c'}", "{'id':'d'}"]);
    let ours = file(&[
        "{'id':'a','o':1}",
        "{'id':'b'}",
        "{'id':'c'}",
        "{'id':'d'}",
        "{'id':'o'}",
    ]);
    let theirs = file(&[
        "{'id':'a','t':1}",
        "{'id':'b','t':1}",
        "{'id':'d'}",
        "{'id':'t'}",
    ]);
    // a by member, b, c that is gone, t.
    assert_eq!(marked(&base, &ours, &theirs, 7).merged, 4);
    let both = file(&["{'id':'a'}", "{'id':'o'}"]);
    let other = file(&["{'id':'a'}", "{'id':'t'}"]);
    assert_eq!(marked(&file(&["{'id':'a'}"]), &both, &other, 7).merged, 1);
}

#[test]
fn a_file_of_too_many_lines_is_refused_in_words() {
    let large = vec![b'\n'; MAX_LINES + 1];
    let refused = merge(b"", &large, b"", &Undecided::Ours).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "8388609 lines are too many to merge (at most 8388608)"
    );
}

#[test]
fn nesting_of_200_levels_is_merged_inside_and_no_depth_is_fatal() {
    let nested = |depth: usize, value: &str| {
        let (open, close) = ("{\"k\":".repeat(depth), "}".repeat(depth));
        format!("{{\"id\":\"a\",\"n\":{open}{{{value}}}{close}}}\n").into_bytes()
    };
    let [base, ours, theirs, both] = [
        "\"x\":1,\"y\":1",
        "\"x\":2,\"y\":1",
        "\"x\":1,\"y\":2",
        "\"x\":2,\"y\":2",
    ]
    .map(|value| nested(200, value));
    let merged = marked(&base, &ours, &theirs, 7);
    assert_eq!((merged.bytes, merged.conflicts), (both, vec![]));

    // Deeper than what is taken apart: one value.
    let [base, ours, theirs] =
        ["\"x\":1", "\"x\":2", "\"x\":3"].map(|value| nested(100_000, value));
    assert_eq!(marked(&base, &ours, &theirs, 7).conflicts.len(), 1);
    assert_eq!(marked(&base, &ours, b"{\"id\":\"b\"}\n", 7).conflicts, []);

    let brackets = [b"[".repeat(1_000_000), b"\n".to_vec()].concat();
    assert_eq!(
        marked(b"", &brackets, b"{\"id\":\"b\"}\n", 7)
            .conflicts
            .len(),
        1
    );
}
