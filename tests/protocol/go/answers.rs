//! What the checker answers, for the module's tests to answer the same: to the recorded inputs where they are there, to rows
//! of our own, and to records that were spoilt at random.

use std::fs;
use std::io::Write;
use std::path::Path;

use beadlock_checker::{Decision, Proceed, Skip, should_skip_database};
use beadlock_tests::vector::{Zombie, filled, input};
use beadlock_tests::{Dice, skip};
use serde_json::json;
use tempfile::TempDir;

const SPOILT: usize = 2000;

/// Placeholders as in the recorded templates.
const ROWS: [&str; 9] = [
    r#"{"holder":"vc","pid":@LIVE@,"hostname":"@HOST@","started_at":"2025-10-25T12:00:00Z"}"#,
    r#"{"holder":"vc","pid":@LIVE@,"hostname":"@HOSTUPPER@","started_at":"2025-10-25T12:00:00Z"}"#,
    r#"{"holder":"v\u202ec\u001b[2J","pid":@DEAD@,"hostname":"@HOSTMIXED@","started_at":"2025-10-25T12:00:00Z"}"#,
    r#"{"holder":"vc","pid":@ZOMBIE@,"hostname":"@HOST@","started_at":"2025-10-25T12:00:00Z"}"#,
    r#"{"holder":"vc","pid":@DEAD@,"hostname":" @HOST@","started_at":"2025-10-25T12:00:00Z"}"#,
    r#"{"holder":"vc","pid":@DEAD@,"hostname":"@HOST@","started_at":"2025-10-25T12:00:00Z","beadlock":{"id":"a","pid_ns":"pid:[1]"}}"#,
    r#"{"holder":"vc","pid":@DEAD@,"hostname":"@HOST@","started_at":"2025-10-25T12:00:00Z","beadlock":{"id":"a","pid_ns":"pid:[1]","boot_id":"x"}}"#,
    r#"{"holder":"vc","pid":@DEAD@,"hostname":"@HOST@","started_at":"2025-10-25T12:00:00Z","beadlock":{"id":"a","machine_id":"x"}}"#,
    r#"{"holder":"vc","pid":2147483648,"hostname":"@HOST@","started_at":"2025-10-25T12:00:00Z"}"#,
];

/// Of another host, so that nobody is asked for: what is spoilt is the text.
const WHOLE: [&str; 3] = [
    r#"{"holder":"vc","pid":12345,"hostname":"remote","started_at":"2025-10-25T12:00:00Z","version":"1"}"#,
    "{\n  \"holder\": \"a\\u00e9b\",\n  \"pid\": 7,\n  \"hostname\": \"remote\",\n  \"started_at\": \"2025-10-25T12:00:00.5+05:30\"\n}\n",
    r#"{"Holder":null,"HOLDER":"x","pid":-0,"PID":8,"hostname":"remote","started_at":"2025-10-25T12:00:00-24:60","x":[{"y":[1e5,true]}]}"#,
];

const PIECES: [&[u8]; 36] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"0",
    b"-",
    b"1e3",
    b".5",
    b" ",
    b"\n",
    b"\0",
    b"\\u0000",
    b"\\ud800",
    b"\\u212a",
    "\u{212a}".as_bytes(),
    "\u{17f}".as_bytes(),
    b"\xff",
    b"\xc3(",
    b"\xed\xa0\x80",
    "\u{2028}".as_bytes(),
    b"\xef\xbb\xbf",
    b"Z",
    b"+24:60",
    b",5",
    b"T1:",
    b"\"pid\":",
    b"\"holder\":\"\",",
    b"\"hostname\":1,",
    b"\"started_at\":null,",
    b"\"started_at\":\"0001-01-01T00:00:00Z\",",
];

/// A directory with a database for each case, and `cases.jsonl` with the answers.
pub fn written() -> TempDir {
    let top = tempfile::Builder::new().prefix("beadlock-go-").tempdir();
    let top = top.expect("a temporary directory");
    let mut index = fs::File::create(top.path().join("cases.jsonl")).expect("a file");
    let zombie = Zombie::new();
    let mut count = 0;
    let mut add = |name: &str, bytes: &[u8]| {
        count += 1;
        // Each is checked twice, by one and by the other, and a check may remove it.
        let of = |who: &str| top.path().join(format!("{count}-{who}"));
        for dir in [of("ours"), of("theirs")] {
            fs::create_dir(&dir).expect("a directory");
            fs::write(dir.join(".exclusive-lock"), bytes).expect("a lock");
        }
        let line = answer(name, &of("ours"), &of("theirs"));
        writeln!(index, "{line}").expect("a line");
    };
    for (number, row) in ROWS.iter().enumerate() {
        add(&format!("row {number}"), filled(row, &zombie).as_bytes());
    }
    for (name, bytes) in recorded(&zombie) {
        add(&name, &bytes);
    }
    let mut dice = Dice::new(Dice::seed("GO_SEED"), "spoilt");
    for number in 0..SPOILT {
        let bytes = spoilt(&mut dice);
        add(
            &format!("spoilt {number}, {:?}", String::from_utf8_lossy(&bytes)),
            &bytes,
        );
    }
    // The zombie is asked for by the other process too.
    std::mem::forget(zombie);
    top
}

fn recorded(zombie: &Zombie) -> Vec<(String, Vec<u8>)> {
    let Some(shared) = skip::find_shared() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for folder in ["inputs", "variants"] {
        for entry in fs::read_dir(shared.join("vectors/beads").join(folder)).expect("the vectors") {
            let path = entry.expect("an entry").path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            // What a text says in words is in the module's own tests.
            if !matches!(extension, Some("txt" | "tsv")) {
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                found.extend(input(&path, zombie).map(|bytes| (name, bytes)));
            }
        }
    }
    found
}

fn answer(name: &str, ours: &Path, theirs: &Path) -> serde_json::Value {
    let decision = should_skip_database(ours);
    let class = match &decision {
        Decision::Proceed(Proceed::NoLock | Proceed::RemovedStale(..)) => "proceed",
        Decision::Skip(Skip::Locked(..)) => "locked",
        Decision::Skip(Skip::CheckFailed { reason, .. }) => reason.as_str(),
        other => panic!("no answer to an undisturbed check: {other:?}"),
    };
    let after = match ours.join(".exclusive-lock").exists() {
        true => "kept",
        false => "gone",
    };
    json!({
        "name": name,
        "dir": theirs,
        "class": class,
        "holder": decision.record().map(|record| record.holder()).unwrap_or_default(),
        "line": decision.to_string(),
        "after": after,
    })
}

/// A whole record with one to three pieces in the place of some bytes.
fn spoilt(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = dice.one_of(&WHOLE).as_bytes().to_vec();
    for _ in 0..=dice.below(3) {
        let mut below = |end: usize| usize::try_from(dice.below(end as u64)).expect("an index");
        let from = below(bytes.len() + 1);
        let to = (from + below(4)).min(bytes.len());
        bytes.splice(from..to, dice.one_of(&PIECES).iter().copied());
    }
    bytes
}
