//! Each rule of the merge, by small cases. They are written with single quotes for the double ones of JSON, and one text a
//! line; `U1`, `U2` and `U3` stand for `'updated_at':'…'` of three days, in their order.
#![expect(clippy::too_many_lines, reason = "a table of cases is one piece")]

use super::{halves_swapped, marked};

/// Expected result of a merge.
enum Should {
    Be(&'static [&'static str]),
    /// A conflict, and this file: hunks as [`marked`] makes them.
    Conflict(&'static [&'static str]),
}
use Should::{Be, Conflict};

type Lines = &'static [&'static str];

fn file(lines: &[&str]) -> Vec<u8> {
    let mut file = lines
        .iter()
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    for day in 1..=3 {
        file = file.replace(
            &format!("U{day}"),
            &format!("'updated_at':'2026-04-0{day}T08:00:00Z'"),
        );
    }
    file.replace('\'', "\"").into_bytes()
}

/// Plays cases of a base, two sides and a result, each both ways round.
#[track_caller]
fn play(cases: &[(&str, Lines, Lines, Lines, Should)]) {
    let mut problems = Vec::new();
    for (what, base, ours, theirs, should) in cases {
        let [base, ours, theirs] = [base, ours, theirs].map(|lines| file(lines));
        let (result, is_conflict) = match should {
            Be(result) => (file(result), false),
            Conflict(result) => (file(result), true),
        };
        let merged = marked(&base, &ours, &theirs, 7);
        let mut swapped = marked(&base, &theirs, &ours, 7);
        swapped.bytes = halves_swapped(&swapped.bytes, 7);
        let way_back = String::from_utf8_lossy(&swapped.bytes)
            .replace("<<<<<<< theirs", "<<<<<<< ours")
            .replace(">>>>>>> ours", ">>>>>>> theirs");
        for (way, bytes, conflicts) in [
            (
                "",
                String::from_utf8_lossy(&merged.bytes).into_owned(),
                merged.conflicts,
            ),
            ("swapped: ", way_back, swapped.conflicts),
        ] {
            let result = String::from_utf8_lossy(&result);
            if bytes != result || conflicts.is_empty() == is_conflict {
                problems.push(format!(
                    "{what}: {way}{conflicts:?}\nis\n{bytes}should be\n{result}"
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn lines_are_records_by_id_or_other_json_or_bad() {
    play(&[
        (
            "1 and '1' are two ids, and an escape is the same id",
            &["{'id':1}", "{'id':'ab'}"],
            &["{'id':1,'o':1}", "{'id':'ab'}", "{'id':'1','o':1}"],
            &["{'id':1}", "{'id':'\\u0061b','t':1}"],
            Be(&[
                "{'id':1,'o':1}",
                "{'id':'\\u0061b','t':1}",
                "{'id':'1','o':1}",
            ]),
        ),
        (
            "no id: an empty text, a fraction, null, a list, an inner id",
            &["{'x':0}"],
            &["{'x':0}", "{'id':''}", "{'id':1.0}", "{'id':null}"],
            &["{'x':0}", "{'id':''}", "{'id':['a']}", "{'in':{'id':'a'}}"],
            Be(&[
                "{'x':0}",
                "{'id':''}",
                "{'id':1.0}",
                "{'id':['a']}",
                "{'id':null}",
                "{'in':{'id':'a'}}",
            ]),
        ),
        (
            "the same other line twice is two lines",
            &["{'e':1}", "{'x':0}"],
            &["{'e':1}", "{'x':0}", "{'e':1}"],
            &["{'e':1}", "{'x':0}", "{'e':2}"],
            Be(&["{'e':1}", "{'x':0}", "{'e':1}", "{'e':2}"]),
        ),
        (
            "other lines are the same by their bytes",
            &["{'e':1}"],
            &["{'e':1}", "{'x':1,'y':2}"],
            &["{'e':1}", "{'y':2,'x':1}"],
            Be(&["{'e':1}", "{'x':1,'y':2}", "{'y':2,'x':1}"]),
        ),
        (
            "a bad line that one side adds is a conflict, whatever keeps it from being JSON",
            &["{'id':'a'}"],
            &["{'id':'a'}", "{'id':'b','t':NaN}"],
            &["{'id':'a'}", "{'id':'c'}"],
            Conflict(&[
                "{'id':'a'}",
                "{'id':'c'}",
                "<<<<<<< ours",
                "{'id':'b','t':NaN}",
                "=======",
                ">>>>>>> theirs",
            ]),
        ),
        (
            "one that both add is kept, and one that a side removes goes",
            &["{'id':'a'}", "{'id':'z'}", "{'id':'b',}"],
            &["{'id':'a','o':1}", "{'id':'z'}", "}", "{'id':'b',}"],
            &["{'id':'a'}", "{'id':'z','t':1}", "}"],
            Be(&["{'id':'a','o':1}", "{'id':'z','t':1}", "}"]),
        ),
    ]);
}

#[test]
fn what_one_side_removes_goes_if_the_other_left_it_as_it_was() {
    play(&[
        (
            "order of members and escapes are no change, at any depth",
            &[
                "{'id':'a'}",
                "{'id':'b','x':{'p':[1,{'q':2,'r':'é'}],'s':true}}",
            ],
            &["{'id':'a','o':1}"],
            &[
                "{'id':'a'}",
                "{'x':{'s':true,'p':[1,{'r':'\\u00e9','q':2}]},'id':'b'}",
            ],
            Be(&["{'id':'a','o':1}"]),
        ),
        (
            "other digits are a change",
            &["{'id':'a'}", "{'id':'b','n':1}", "{'id':'c','n':100}"],
            &["{'id':'a','o':1}"],
            &["{'id':'a'}", "{'id':'b','n':1.0}", "{'id':'c','n':1e2}"],
            Be(&[
                "{'id':'a','o':1}",
                "{'id':'b','n':1.0}",
                "{'id':'c','n':1e2}",
            ]),
        ),
        (
            "another time alone is no change, under each of its names",
            &[
                "{'id':'a'}",
                "{'id':'b','modified_at':1}",
                "{'id':'c',U1}",
                "{'id':'d'}",
            ],
            &["{'id':'a','o':1}"],
            &[
                "{'id':'a'}",
                "{'id':'b','modified_at':2}",
                "{U3,'id':'c'}",
                "{'id':'d',U1}",
            ],
            Be(&["{'id':'a','o':1}"]),
        ),
        (
            "an object with a name twice is equal only to its bytes",
            &["{'id':'a'}", "{'id':'b','x':1,'x':1}"],
            &["{'id':'a','o':1}"],
            &["{'id':'a'}", "{'id':'b', 'x':1,'x':1}"],
            Be(&["{'id':'a','o':1}", "{'id':'b', 'x':1,'x':1}"]),
        ),
    ]);
}

#[test]
fn of_two_lines_that_say_the_same_the_changed_one_or_the_smaller_is_taken() {
    play(&[
        (
            "a side that still has the bytes of base",
            &["{'id':'a','x':1}", "{'id':'b'}"],
            &["{'id':'a','x':1}", "{'id':'b','o':1}"],
            &["{'x':1,'id':'a'}", "{'id':'b'}"],
            Be(&["{'x':1,'id':'a'}", "{'id':'b','o':1}"]),
        ),
        (
            "neither has them",
            &["{'id':'a','x':1}"],
            &["{'id':'a', 'x':1}"],
            &["{'x':1,'id':'a'}"],
            Be(&["{'id':'a', 'x':1}"]),
        ),
        (
            "added by both",
            &["{'id':'z'}", "{'id':'b'}"],
            &["{'id':'z'}", "{'id':'b'}", "{'id':'a','x':'é'}"],
            &["{'id':'z'}", "{'id':'b'}", "{'id':'a','x':'\\u00e9'}"],
            Be(&["{'id':'z'}", "{'id':'b'}", "{'id':'a','x':'\\u00e9'}"]),
        ),
    ]);
}

#[test]
fn a_record_that_is_twice_in_a_file_counts_once() {
    play(&[
        (
            "the newer one, also where it comes first",
            &["{'id':'y'}", "{'id':'x'}"],
            &[
                "{'id':'y'}",
                "{'id':'x'}",
                "{'id':'n','t':2,U2}",
                "{'id':'n','t':1,U1}",
            ],
            &["{'id':'y','t':1}", "{'id':'x'}"],
            Be(&["{'id':'y','t':1}", "{'id':'x'}", "{'id':'n','t':2,U2}"]),
        ),
        (
            "the later one where neither is newer, even if it has come before",
            &["{'id':'y'}", "{'id':'x'}"],
            &[
                "{'id':'y'}",
                "{'id':'x'}",
                "{'id':'n','t':1}",
                "{'id':'n','t':2}",
                "{'id':'n','t':1}",
            ],
            &["{'id':'y','t':1}", "{'id':'x'}"],
            Be(&["{'id':'y','t':1}", "{'id':'x'}", "{'id':'n','t':1}"]),
        ),
        (
            "created at two times: two things, which both sides have",
            &["{'id':'y'}"],
            &[
                "{'id':'y','o':1}",
                "{'id':'n','created_at':1,U1}",
                "{'id':'n','created_at':2,U1}",
            ],
            &[
                "{'id':'y'}",
                "{'id':'n','created_at':1,U1}",
                "{'id':'n','created_at':2,U1}",
            ],
            Be(&[
                "{'id':'y','o':1}",
                "{'id':'n','created_at':1,U1}",
                "{'id':'n','created_at':2,U1}",
            ]),
        ),
        (
            "two things where the other side has what base has",
            &["{'id':'y'}", "{'id':'n','created_at':1,U1}"],
            &[
                "{'id':'y'}",
                "{'id':'n','created_at':1,U1}",
                "{'id':'n','created_at':2,U1}",
            ],
            &["{'id':'y','t':1}", "{'id':'n','created_at':1,U1}"],
            Be(&[
                "{'id':'y','t':1}",
                "{'id':'n','created_at':1,U1}",
                "{'id':'n','created_at':2,U1}",
            ]),
        ),
        (
            "two things where the other side changed its one",
            &["{'id':'y'}", "{'id':'n','created_at':1,U1}"],
            &[
                "{'id':'y'}",
                "{'id':'n','created_at':1,U1}",
                "{'id':'n','created_at':2,U1}",
            ],
            &["{'id':'y'}", "{'id':'n','created_at':1,U2}"],
            Conflict(&[
                "{'id':'y'}",
                "<<<<<<< ours",
                "{'id':'n','created_at':1,U1}",
                "{'id':'n','created_at':2,U1}",
                "=======",
                "{'id':'n','created_at':1,U2}",
                ">>>>>>> theirs",
            ]),
        ),
    ]);
}

#[test]
fn lines_of_one_id_that_are_not_versions_of_one_record_are_all_kept() {
    play(&[
        (
            "without times, in base",
            &["{'id':'j','e':'made'}", "{'id':'j','e':'seen'}"],
            &[
                "{'id':'j','e':'made'}",
                "{'id':'j','e':'seen'}",
                "{'id':'j','e':'sold'}",
            ],
            &[
                "{'id':'j','e':'made'}",
                "{'id':'j','e':'seen'}",
                "{'id':'j','e':'lost'}",
            ],
            Be(&[
                "{'id':'j','e':'made'}",
                "{'id':'j','e':'seen'}",
                "{'id':'j','e':'lost'}",
                "{'id':'j','e':'sold'}",
            ]),
        ),
        (
            "on both sides alone",
            &["{'id':'z'}", "{'id':'k'}"],
            &[
                "{'id':'z'}",
                "{'id':'k'}",
                "{'id':'j','e':1}",
                "{'id':'j','e':2}",
            ],
            &["{'id':'z'}", "{'id':'k'}", "{'id':'j','e':3}"],
            Be(&[
                "{'id':'z'}",
                "{'id':'k'}",
                "{'id':'j','e':1}",
                "{'id':'j','e':2}",
                "{'id':'j','e':3}",
            ]),
        ),
        (
            "times, but other members and no created_at",
            &["{'id':'j','a':1,U1}", "{'id':'j','b':1,U2}"],
            &[
                "{'id':'j','a':1,U1}",
                "{'id':'j','b':1,U2}",
                "{'id':'j','c':1,U3}",
            ],
            &["{'id':'j','a':1,U1}", "{'id':'j','b':1,U2}", "{'x':1}"],
            Be(&[
                "{'id':'j','a':1,U1}",
                "{'id':'j','b':1,U2}",
                "{'id':'j','c':1,U3}",
                "{'x':1}",
            ]),
        ),
        (
            "other members and an equal created_at: versions, the newer counts",
            &["{'id':'j','created_at':5,'a':1,U1}"],
            &[
                "{'id':'j','created_at':5,'a':1,U1}",
                "{'id':'j','created_at':5,'b':1,U2}",
            ],
            &["{'id':'j','created_at':5,'a':1,U1}", "{'id':'i'}"],
            Be(&["{'id':'j','created_at':5,'b':1,U2}", "{'id':'i'}"]),
        ),
        (
            "in a log an id that both sides add is two lines, but with a time it is a record",
            &["{'id':'j','e':1}", "{'id':'j','e':2}"],
            &[
                "{'id':'j','e':1}",
                "{'id':'j','e':2}",
                "{'id':'k','e':1}",
                "{'id':'l','e':1,U1}",
            ],
            &[
                "{'id':'j','e':1}",
                "{'id':'j','e':2}",
                "{'id':'k','e':2}",
                "{'id':'l','e':2,U1}",
            ],
            Conflict(&[
                "{'id':'j','e':1}",
                "{'id':'j','e':2}",
                "{'id':'k','e':1}",
                "{'id':'k','e':2}",
                "<<<<<<< ours",
                "{'id':'l','e':1,U1}",
                "=======",
                "{'id':'l','e':2,U1}",
                ">>>>>>> theirs",
            ]),
        ),
    ]);
}

#[test]
fn an_emptied_side_removes_nothing() {
    play(&[
        (
            "lines of spaces are no lines",
            &["{'id':'a'}", "{'id':'b'}"],
            &["", " \t\r"],
            &["{'id':'a'}", "", "{'id':'c'}"],
            Conflict(&["{'id':'a'}", "", "{'id':'c'}"]),
        ),
        (
            "both are empty",
            &["{'id':'a'}", "{'id':'b'}"],
            &[],
            &[" "],
            Be(&[]),
        ),
        (
            "base had one",
            &["{'id':'a'}"],
            &[" "],
            &["{'id':'a'}", "{'id':'b'}"],
            Be(&["{'id':'b'}"]),
        ),
    ]);
}

#[test]
fn what_both_added_is_one_record_if_it_was_created_at_one_time() {
    play(&[
        (
            "members that one side has are there, of the others the newer",
            &["{'id':'a'}"],
            &["{'id':'a'}", "{'id':'n','created_at':7,'x':1,'p':1,U1}"],
            &["{'id':'a'}", "{'id':'n','created_at':7,'x':2,'q':1,U2}"],
            Be(&[
                "{'id':'a'}",
                "{'id':'n','created_at':7,'x':2,'p':1,'q':1,U2}",
            ]),
        ),
        (
            "neither is newer",
            &[],
            &["{'id':'n','created_at':7,'x':1,'p':1}"],
            &["{'id':'n','created_at':7,'x':2}"],
            Conflict(&[
                "<<<<<<< ours",
                "{'id':'n','created_at':7,'x':1,'p':1}",
                "=======",
                "{'id':'n','created_at':7,'x':2,'p':1}",
                ">>>>>>> theirs",
            ]),
        ),
    ]);
}

#[test]
fn members_that_both_changed_are_the_newer_records() {
    play(&[
        (
            "absence is a value",
            &["{'id':'a','x':1,'y':1,U1}"],
            &["{'id':'a','y':2,U2}"],
            &["{'id':'a','x':2,U3}"],
            Be(&["{'id':'a','x':2,U3}"]),
        ),
        (
            "a day earlier by the clock and later as an instant",
            &["{'id':'a','x':1}"],
            &["{'id':'a','x':2,'updated_at':'2026-04-01T23:30:00-01:00'}"],
            &["{'id':'a','x':3,'updated_at':'2026-04-02T01:00:00+00:45'}"],
            Be(&["{'id':'a','x':2,'updated_at':'2026-04-01T23:30:00-01:00'}"]),
        ),
        (
            "numbers of any length",
            &["{'id':'a','x':1,'updatedAt':1}"],
            &["{'id':'a','x':2,'updatedAt':99999999999999999999}"],
            &["{'id':'a','x':3,'updatedAt':100000000000000000000}"],
            Be(&["{'id':'a','x':3,'updatedAt':100000000000000000000}"]),
        ),
        (
            "a number and a date are not compared",
            &["{'id':'a','x':1,'updated_at':1}"],
            &["{'id':'a','x':2,'updated_at':2}"],
            &["{'id':'a','x':1,'y':3,U2}"],
            Conflict(&[
                "<<<<<<< ours",
                "{'id':'a','x':2,'y':3,'updated_at':2}",
                "=======",
                "{'id':'a','x':2,'y':3,U2}",
                ">>>>>>> theirs",
            ]),
        ),
        (
            "no day is the 30th of February, and no time a text with words behind it",
            &["{'id':'a','x':1}"],
            &["{'id':'a','x':2,'updated_at':'2026-02-30T00:00:00Z'}"],
            &["{'id':'a','x':3,'updated_at':'2026-02-28T00:00:00Z or so'}"],
            Conflict(&[
                "<<<<<<< ours",
                "{'id':'a','x':2,'updated_at':'2026-02-30T00:00:00Z'}",
                "=======",
                "{'id':'a','x':3,'updated_at':'2026-02-28T00:00:00Z or so'}",
                ">>>>>>> theirs",
            ]),
        ),
        (
            "an object on one side, and one with a name twice, are one value",
            &["{'id':'a','x':{'k':1},'y':{'k':1},U1}"],
            &["{'id':'a','x':{'k':2},'y':{'k':2},U2}"],
            &["{'id':'a','x':3,'y':{'k':1,'k':3},U3}"],
            Be(&["{'id':'a','x':3,'y':{'k':1,'k':3},U3}"]),
        ),
        (
            "a record with a name twice is not taken apart",
            &["{'id':'a','x':1,U1}"],
            &["{'id':'a','x':2,U2}"],
            &["{'id':'a','x':1,'x':3,U3}"],
            Conflict(&[
                "<<<<<<< ours",
                "{'id':'a','x':2,U2}",
                "=======",
                "{'id':'a','x':1,'x':3,U3}",
                ">>>>>>> theirs",
            ]),
        ),
        (
            "objects of objects, where base has none",
            &["{'id':'a',U1}"],
            &["{'id':'a','x':{'k':{'o':1},'l':1},U2}"],
            &["{'id':'a','x':{'k':{'t':1},'l':2},U3}"],
            Be(&["{'id':'a','x':{'k':{'o':1,'t':1},'l':2},U3}"]),
        ),
    ]);
}

#[test]
fn status_goes_with_what_belongs_to_it() {
    play(&[
        (
            "to the newer record, also what the older one alone has",
            &["{'id':'a','status':'open','original_type':'x',U1}"],
            &["{'id':'a','status':'closed','close_reason':'done','original_type':'y',U2}"],
            &["{'id':'a','status':'held','original_type':'x',U3}"],
            Be(&["{'id':'a','status':'held','original_type':'x',U3}"]),
        ),
        (
            "an older tombstone wins",
            &["{'id':'a','status':'open',U1}"],
            &["{'id':'a','status':'tombstone','deleted_by':'ann',U2}"],
            &["{'id':'a','status':'closed','closed_at':3,'deleted_by':'bob',U3}"],
            Be(&["{'id':'a','status':'tombstone','deleted_by':'ann',U3}"]),
        ),
        (
            "the same status on both: the rest goes by itself",
            &["{'id':'a','status':'open',U1}"],
            &["{'id':'a','status':'closed','closed_at':2,'close_reason':'done',U2}"],
            &["{'id':'a','status':'closed','closed_at':3,U3}"],
            Be(&["{'id':'a','status':'closed','closed_at':3,'close_reason':'done',U3}"]),
        ),
        (
            "changed by one: the rest goes by itself",
            &["{'id':'a','status':'closed','closed_at':1,'delete_reason':'x',U1}"],
            &["{'id':'a','status':'open','delete_reason':'x',U3}"],
            &["{'id':'a','status':'closed','closed_at':1,U2}"],
            Be(&["{'id':'a','status':'open',U3}"]),
        ),
        (
            "neither is newer: each half has its own",
            &["{'id':'a','status':'open','x':1}"],
            &["{'id':'a','status':'closed','closed_at':2,'x':1}"],
            &["{'id':'a','status':'held','x':2}"],
            Conflict(&[
                "<<<<<<< ours",
                "{'id':'a','status':'closed','closed_at':2,'x':2}",
                "=======",
                "{'id':'a','status':'held','x':2}",
                ">>>>>>> theirs",
            ]),
        ),
    ]);
}

#[test]
fn lists_of_texts_and_objects_are_sets() {
    play(&[
        (
            "added and removed by either",
            &["{'id':'a','l':['p','q','r'],U1}"],
            &["{'id':'a','l':['o','q','p'],U2}"],
            &["{'id':'a','l':['r','p','t'],U3}"],
            Be(&["{'id':'a','l':['p','t','o'],U3}"]),
        ),
        (
            "where base has none, and of objects in any order of members",
            &["{'id':'a',U1}"],
            &["{'id':'a','l':[{'x':1,'y':2},'p'],U2}"],
            &["{'id':'a','l':[{'y':2,'x':1}],U3}"],
            Be(&["{'id':'a','l':[{'y':2,'x':1},'p'],U3}"]),
        ),
        (
            "all removed",
            &["{'id':'a','l':['p','q'],U1}"],
            &["{'id':'a','l':['p'],U2}"],
            &["{'id':'a','l':['q'],U3}"],
            Be(&["{'id':'a','l':[],U3}"]),
        ),
        (
            "with equal elements, with others, or removed by one: one value",
            &["{'id':'a','l':['p'],'m':['p'],'n':['p'],U1}"],
            &["{'id':'a','l':['p','q'],'m':['p','q'],'n':['p','q'],U2}"],
            &["{'id':'a','l':['p','r','r'],'m':['p',1],U3}"],
            Be(&["{'id':'a','l':['p','r','r'],'m':['p',1],U3}"]),
        ),
        (
            "in the style of the leading side",
            &["{'id': 'a', 'l': ['p'], U1}"],
            &["{'id':'a','l':['p','q'],U2}"],
            &["{'id': 'a', 'l': [ 'r' ], U3}"],
            Be(&["{'id': 'a', 'l': [ 'r', 'q' ], U3}"]),
        ),
    ]);
}

#[test]
fn a_merged_record_is_written_as_the_leading_side_writes_it() {
    play(&[
        (
            "without times the larger line leads; a member that only the other has follows the same one as there",
            &["{'id':'a','x':1,'y':1}"],
            &["{'n':1,'id':'a','x':1,'m':1,'l':1,'y':2}"],
            &["{'y':1,'id':'a','x':2}"],
            Be(&["{'n':1,'y':2,'id':'a','x':2,'m':1,'l':1}"]),
        ),
        (
            "spaces at the begin and the end, and between",
            &["{'id':'a','x':1,'y':1,U1}"],
            &["{'id':'a','x':2,'y':1,U2}"],
            &["  { 'id':'a' , 'x':1 , 'y':2 , U3 } "],
            Be(&["  { 'id':'a' , 'x':2 , 'y':2 , U3 } "]),
        ),
        (
            "a member's own bytes come with it",
            &["{'id':'a','x':1,'y':'é',U1}"],
            &["{'id':'a','x' : 2,'y':'é',U2}"],
            &["{'id':'a','x':1,'y':'\\u00e8',U3}"],
            Be(&["{'id':'a','x' : 2,'y':'\\u00e8',U3}"]),
        ),
        (
            "what is equal to a side is that side's line",
            &["{'id':'a','x':1,U1}"],
            &["{'id':'a','x':2,U2}"],
            &["{ U3, 'x':2, 'id':'a' }"],
            Be(&["{ U3, 'x':2, 'id':'a' }"]),
        ),
        (
            "equal instants: the smaller spelling",
            &["{'id':'a',U1}"],
            &["{'id':'a','x':1,'updated_at':'2026-04-02T00:00:00.50Z'}"],
            &["{'id':'a','y':1,'updated_at':'2026-04-02T00:00:00.5z'}"],
            Be(&["{'id':'a','x':1,'y':1,'updated_at':'2026-04-02T00:00:00.50Z'}"]),
        ),
    ]);
}

#[test]
fn sorted_files_stay_sorted_and_others_keep_their_order() {
    play(&[
        (
            "sorted: texts before numbers, by bytes",
            &["{'id':'b'}", "{'id':9}"],
            &["{'id':'B'}", "{'id':'b'}", "{'id':9}"],
            &["{'id':'b'}", "{'id':'é'}", "{'id':10}", "{'id':9}"],
            Be(&[
                "{'id':'B'}",
                "{'id':'b'}",
                "{'id':'é'}",
                "{'id':10}",
                "{'id':9}",
            ]),
        ),
        (
            "the order of the side that alone changed it; what only one still has goes where base has it",
            &["{'id':'c'}", "{'id':'b'}", "{'id':'x','v':1}", "{'id':'a'}"],
            &["{'id':'a'}", "{'id':'b'}", "{'id':'c'}"],
            &[
                "{'id':'c','t':1}",
                "{'id':'b'}",
                "{'id':'x','v':2}",
                "{'id':'a'}",
            ],
            Be(&[
                "{'id':'a'}",
                "{'id':'b'}",
                "{'id':'x','v':2}",
                "{'id':'c','t':1}",
            ]),
        ),
        (
            "both changed it: the order of base",
            &["{'id':'d'}", "{'id':'c'}", "{'id':'b'}"],
            &["{'id':'c'}", "{'id':'d'}", "{'id':'b','o':1}"],
            &["{'id':'d'}", "{'id':'b'}", "{'id':'c'}"],
            Be(&["{'id':'d'}", "{'id':'c'}", "{'id':'b','o':1}"]),
        ),
        (
            "additions come after their neighbour, or the nearest that is left",
            &["{'id':'z'}", "{'id':'y'}", "{'id':'x'}"],
            &[
                "{'id':'z'}",
                "{'id':'y'}",
                "{'id':'b'}",
                "{'id':'x'}",
                "{'id':'d'}",
            ],
            &["{'id':'a'}", "{'id':'z'}", "{'id':'c'}", "{'id':'x'}"],
            Be(&[
                "{'id':'a'}",
                "{'id':'z'}",
                "{'id':'b'}",
                "{'id':'c'}",
                "{'id':'x'}",
                "{'id':'d'}",
            ]),
        ),
        (
            "what both added at two places is at the earlier one",
            &["{'id':'z'}", "{'id':'y'}"],
            &["{'id':'z'}", "{'id':'n'}", "{'id':'y'}"],
            &["{'id':'z'}", "{'id':'y'}", "{'id':'n'}"],
            Be(&["{'id':'z'}", "{'id':'n'}", "{'id':'y'}"]),
        ),
        (
            "by time: instants, numbers of any kind, other texts, and then what has none",
            &["{'id':'z'}", "{'id':'y'}"],
            &[
                "{'id':'z'}",
                "{'id':'y'}",
                "{'id':'m1','created_at':'2026-04-01T10:00:00+02:00'}",
                "{'id':'m2','ts':3.25}",
                "{'id':'m3','time':'monday'}",
                "{'id':'m4'}",
            ],
            &[
                "{'id':'z'}",
                "{'id':'y'}",
                "{'id':'n1','timestamp':'2026-04-01T09:00:00Z','ts':1}",
                "{'id':'n2','ts':3.5}",
                "{'id':'n3','time':'tuesday'}",
                "{'id':'n4','created_at':null}",
            ],
            Be(&[
                "{'id':'z'}",
                "{'id':'y'}",
                "{'id':'m1','created_at':'2026-04-01T10:00:00+02:00'}",
                "{'id':'n1','timestamp':'2026-04-01T09:00:00Z','ts':1}",
                "{'id':'m2','ts':3.25}",
                "{'id':'n2','ts':3.5}",
                "{'id':'m3','time':'monday'}",
                "{'id':'n3','time':'tuesday'}",
                "{'id':'m4'}",
                "{'id':'n4','created_at':null}",
            ]),
        ),
        (
            "each side's own order stays, around what both have",
            &["{'id':'z'}", "{'id':'y'}"],
            &[
                "{'id':'z'}",
                "{'id':'y'}",
                "{'id':'c'}",
                "{'id':'b'}",
                "{'id':'a'}",
            ],
            &[
                "{'id':'z'}",
                "{'id':'y'}",
                "{'id':'x'}",
                "{'id':'b'}",
                "{'id':'d'}",
            ],
            Be(&[
                "{'id':'z'}",
                "{'id':'y'}",
                "{'id':'c'}",
                "{'id':'x'}",
                "{'id':'b'}",
                "{'id':'a'}",
                "{'id':'d'}",
            ]),
        ),
        (
            "records before other lines",
            &["{'id':'z'}", "{'id':'y'}"],
            &["{'id':'z'}", "{'id':'y'}", "{'a':1}"],
            &["{'id':'z'}", "{'id':'y'}", "{'id':'b'}"],
            Be(&["{'id':'z'}", "{'id':'y'}", "{'id':'b'}", "{'a':1}"]),
        ),
    ]);
}

#[test]
fn line_ends_and_the_mark_at_the_begin_are_those_of_the_side_that_changed_them() {
    let cases: [(&str, &str, &str, &str, &str); 9] = [
        (
            "both",
            "1\r\n",
            "1\r\n2\r\n",
            "1\r\n3\r\n",
            "1\r\n2\r\n3\r\n",
        ),
        (
            "one changed to LF",
            "1\r\n",
            "1\n2\n",
            "1\r\n3\r\n",
            "1\n2\n3\n",
        ),
        (
            "one changed to CRLF",
            "1\n",
            "1\r\n2\r\n",
            "1\n3\n",
            "1\r\n2\r\n3\r\n",
        ),
        (
            "a line of CRLF among others is no file of CRLF",
            "1\n",
            "1\n2\r\n",
            "1\n3\n",
            "1\n2\n3\n",
        ),
        (
            "a side without an end says nothing",
            "1\r\n",
            "1",
            "3\r\n1\r\n",
            "3\r\n1\r\n",
        ),
        (
            "a CR at the end of a file is an end as well",
            "1\n",
            "1\n2\r",
            "1\n3\r",
            "1\n2\n3\n",
        ),
        (
            "the mark of both",
            "\u{feff}1\n",
            "\u{feff}1\n2\n",
            "\u{feff}3\n1\n",
            "\u{feff}3\n1\n2\n",
        ),
        (
            "the mark that one added",
            "1\n",
            "\u{feff}1\n2\n",
            "1\n3\n",
            "\u{feff}1\n2\n3\n",
        ),
        (
            "the mark that one removed",
            "\u{feff}1\n",
            "1\n2\n",
            "\u{feff}1\n3\n",
            "1\n2\n3\n",
        ),
    ];
    for (what, base, ours, theirs, result) in cases {
        for (ours, theirs) in [(ours, theirs), (theirs, ours)] {
            let merged = marked(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), 7);
            assert_eq!(String::from_utf8_lossy(&merged.bytes), result, "{what}");
        }
    }
}

#[test]
fn a_file_that_one_side_alone_changed_is_taken_byte_for_byte() {
    let (base, changed) = (
        b"{\"id\":\"a\"}\n".as_slice(),
        b"\r\n<<<<<<< x\n{\"id\":\"a\"}".as_slice(),
    );
    for (ours, theirs) in [(changed, base), (base, changed), (changed, changed)] {
        let merged = marked(base, ours, theirs, 7);
        assert_eq!((merged.bytes.as_slice(), merged.merged), (changed, 0));
        assert_eq!((merged.conflicts, merged.notes), (vec![], vec![]));
    }
}
