//! The record's golden files: `golden/read` is what may lie there, each with its answer in `golden/read.tsv`;
//! `golden/written` is what beadlock writes, byte for byte. The mutation test starts from all of them.
#![expect(
    clippy::panic,
    reason = "a helper of these tests says which file it could not read"
)]

use std::fs;
use std::path::{Path, PathBuf};

use beadlock_base::escape::escaped;
use beadlock_core::record::beads::{BeadlockKey, Record, Rejected, StartedAt};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn all(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(golden(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Class, holder, PID, host, time, version and words, as the index has them.
fn answer(result: Result<Record, Rejected>) -> [String; 7] {
    let rejected = |class: &str, rejected: Rejected| {
        let mut row: [String; 7] = Default::default();
        row[0] = class.to_owned();
        row[6] = rejected.to_string();
        row
    };
    match result {
        Ok(record) => [
            "locked".to_owned(),
            escaped(&record.holder).to_string(),
            record.pid.to_string(),
            escaped(&record.hostname).to_string(),
            record.started_at.to_string(),
            escaped(&record.version).to_string(),
            String::new(),
        ],
        Err(malformed @ Rejected::Malformed(_)) => rejected("malformed", malformed),
        Err(invalid @ Rejected::Invalid(_)) => rejected("invalid", invalid),
    }
}

#[test]
fn every_file_is_read_as_the_index_says() {
    let index = String::from_utf8(bytes(golden("read.tsv"))).expect("the index is text");
    let mut named = Vec::new();
    for line in index.lines().skip(1) {
        let (file, expected) = line.split_once('\t').expect("a file and its answer");
        let answer = answer(Record::parse(&bytes(golden("read").join(file))));
        let mut answer = answer.join("\t");
        // The words after this are serde_json's.
        if let Some((ours, _)) = answer.split_once("not JSON: ") {
            answer = format!("{ours}not JSON: …");
        }
        assert_eq!(answer, expected, "{file}");
        named.push(golden("read").join(file));
    }
    named.sort();
    assert_eq!(named, all("read"), "each file has its line");
    assert!(named.len() >= 40, "{} files", named.len());
}

/// 2026-03-04T05:06:07.9Z: the fraction is written in our own key alone.
fn moment() -> StartedAt {
    StartedAt::from_unix(1_772_600_767, 900_000_000)
}

#[test]
fn what_is_written_is_the_same_byte_for_byte() {
    let mark = BeadlockKey {
        id: "00112233445566778899aabbccddeeff".to_owned(),
        version: Some("0.1.0".to_owned()),
        started_at: Some(moment()),
        boottime_ns: Some(1_234_560_000_000),
        about: Some("https://ci.example/shop/runs/991".to_owned()),
        machine_id: Some("0123456789abcdef0123456789abcdef".to_owned()),
        boot_id: Some("3b9d1c6e-6f0e-4d0a-9a51-6f2f6b1f6c11".to_owned()),
        pid_ns: Some("pid:[4026531836]".to_owned()),
        time_ns: Some("time:[4026531834]".to_owned()),
        start_ticks: Some(123_456),
        acquired: false,
    };
    let whole = Record {
        holder: "nightly-export".to_owned(),
        pid: 4711,
        hostname: "build-7".to_owned(),
        started_at: moment(),
        version: "2.1.0".to_owned(),
        beadlock: Some(mark),
    };
    let part = BeadlockKey {
        id: "x".to_owned(),
        boot_id: Some("y".to_owned()),
        ..BeadlockKey::default()
    };
    let known_in_part = Record {
        holder: "a \"b\" é".to_owned(),
        pid: 1,
        started_at: StartedAt::from_unix(946_684_799, 1),
        version: String::new(),
        beadlock: Some(part),
        ..whole.clone()
    };
    let without_mark = Record {
        holder: "line\nbreak".to_owned(),
        pid: i64::MAX,
        started_at: StartedAt::from_unix(253_402_300_799, 0),
        version: "1".to_owned(),
        beadlock: None,
        ..whole.clone()
    };
    let rows = [
        ("known-in-part", known_in_part),
        ("whole", whole),
        ("without-mark", without_mark),
    ];
    for (name, record) in &rows {
        let file = golden("written").join(format!("{name}.json"));
        let on_disk = bytes(&file);
        assert_eq!(
            record.to_json().as_bytes(),
            on_disk,
            "{name}: {}",
            record.to_json()
        );
        let read = Record::parse(&on_disk).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read, in_whole_seconds(record), "{name}");
        assert_eq!(
            read.to_json().as_bytes(),
            on_disk,
            "{name}: read and written again"
        );
    }
    assert_eq!(all("written").len(), rows.len(), "each file has its record");
}

fn in_whole_seconds(record: &Record) -> Record {
    let nanos = record.started_at.0.subsec_nanos();
    let seconds = record.started_at.0.as_secs() - i64::from(nanos < 0);
    Record {
        started_at: StartedAt::from_unix(seconds, 0),
        ..record.clone()
    }
}

/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z, in seconds since the Unix epoch.
const YEAR_0: i64 = -62_167_219_200;
const YEAR_9999: i64 = 253_402_300_799;

/// Marsaglia's xorshift: the same cases in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or_default() % limit.max(1)
    }
}

/// Pieces that have a meaning somewhere in a lock file.
const PIECES: [&[u8]; 32] = [
    b"",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"\\ude80",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"-",
    b"+",
    b".",
    b"e",
    b"0",
    b"9",
    b"Z",
    b"T",
    b"+24:60",
    b"0001-01-01T00:00:00Z",
    b"null",
    b"true",
    b"\n",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xe2\x84\xaa",
    b"\xc5\xbf",
    b"\"pid\":1,",
    b"\"holder\":null,",
];

fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let end = bytes.len().min(at + dice.below(12));
        match dice.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = PIECES[dice.below(PIECES.len())];
                drop(bytes.splice(at..at, piece.iter().copied()));
            }
            3 => {
                let other = &others[dice.below(others.len())];
                let from = dice.below(other.len() + 1);
                drop(bytes.splice(at.., other[from..].iter().copied()));
            }
            4 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
}

#[test]
fn no_input_panics_and_what_is_accepted_can_be_written_and_read_again() {
    let seeds: Vec<Vec<u8>> = all("read")
        .into_iter()
        .chain(all("written"))
        .map(bytes)
        .collect();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut locked, mut malformed, mut invalid) = (0, 0, 0);
    for _ in 0..40_000 {
        let mut input = seeds[dice.below(seeds.len())].clone();
        mutate(&mut input, &seeds, &mut dice);
        let record = match Record::parse(&input) {
            Ok(record) => record,
            Err(rejected) => {
                let words = rejected.to_string();
                assert!(
                    words.chars().count() < 160 && escaped(&words).to_string() == words,
                    "{words:?}"
                );
                match rejected {
                    Rejected::Malformed(_) => malformed += 1,
                    Rejected::Invalid(_) => invalid += 1,
                }
                continue;
            }
        };
        locked += 1;
        assert_eq!(record.validate(), Ok(()));
        let _ = record.started_at.age(moment());
        let again = Record::parse(record.to_json().as_bytes());
        // Whole seconds may make Go's zero time of a fraction after it, and four digits write no other year.
        let whole = in_whole_seconds(&record);
        if (YEAR_0..=YEAR_9999).contains(&whole.started_at.0.as_secs()) {
            assert_eq!(
                again,
                whole.validate().map(|()| whole),
                "{}",
                String::from_utf8_lossy(&input)
            );
        }
    }
    assert!(
        locked > 1000 && malformed > 1000 && invalid > 1000,
        "{locked} {malformed} {invalid}"
    );
}
