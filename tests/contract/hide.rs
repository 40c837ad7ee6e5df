//! What differs between two runs, or between two machines, is hidden in a snapshot: `[PID]` stands for a process.
//!
//! Nothing else may be hidden: `twice.rs` plays the same lines twice and compares them as they came.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use beadlock_tests::this_host;
use regex::Regex;

/// Part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// As it came.
    Kept(String),
    /// Hidden in the snapshot.
    Hidden {
        /// The word that stands for it.
        word: &'static str,
        /// What it was.
        was: String,
    },
}

/// The word for what the first group of the expression matches, in the order in which they are looked for.
static VALUES: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let age = r"\d+(?:\.\d+)?(?:ms|[smhd])(?: \d+[smh])?";
    let host = regex::escape(&this_host());
    let values = [
        // Where a host is said, and nowhere else: a machine may be called `release`.
        ("HOST", format!(r#"\bon ({host})(?:[),;:."]| \(|\n|$)"#)),
        ("HOST", format!(r#"\bhost:? ({host})(?:[,"]|\n|$)"#)),
        ("HOST", format!(r"this one \(({host})\)")),
        ("HOST", format!(r#""(?:host|hostname|host_id|here|record)": ?"({host})""#)),
        ("TIME", r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?)".to_owned()),
        ("TIME", r"\.broken-(\d{8}T\d{6}Z)".to_owned()),
        ("REQUEST", r"\b(req_[a-z0-9]{12})\b".to_owned()),
        ("SHA", r"\bsha256:([0-9a-f]{12})\b".to_owned()),
        ("MACHINE", r#""machine_id": ?"([0-9a-f]{32})""#.to_owned()),
        ("BOOT", r#"(?:"boot_id": ?"|\bboot )([0-9a-f-]{36})\b"#.to_owned()),
        ("ID", r"\b([0-9a-f]{32})\b".to_owned()),
        ("NAMESPACE", r"\b(?:pid|time):\[(\d+)\]".to_owned()),
        ("PID", r#"(?:\bPIDs? |\bprocess |"(?:pid|holder_pid|parent)": ?|\bholder_pid=|kill\(|ps -fp |args -p |\bkill -CONT |\bto end: kill |BEADLOCK_PID='?)(\d+)"#.to_owned()),
        ("PID", r"\bfor (\d+)(?:,| --)".to_owned()),
        ("TICKS", r#"(?:\btick |\bPID now |, start |"(?:start_ticks|boottime_ns)": ?|"(?:process|record)": ?)(\d+)"#.to_owned()),
        ("AGE", format!(r"\b(?:for|held|after|released after|last written|took|in) ({age})(?:\b|$)")),
        ("AGE", format!(r"({age}) (?:ago|left|old|more)\b")),
        ("AGE", format!(r"(?:by its age in |\(age: )({age})")),
        ("SIZE", r#"(?:"size": ?|\bfile: )(\d+)\b"#.to_owned()),
        ("FILE", r#"(?:"id": ?"|\bid: |BEADLOCK_(?:HELD_)?ID=)(\d+:\d+:\d+)\b"#.to_owned()),
        ("USER", r#""user": ?("[^"]+"|null)"#.to_owned()),
        ("MS", r#""(?:age_ms|duration_ms|retry_after_ms|waited_ms|held_ms|starts_in_ms)": ?(\d+)"#.to_owned()),
        ("MS", r#"(?:\bholder_age_ms=|"age_seconds": ?)(\d+)"#.to_owned()),
        ("SECONDS", r#""held_duration_seconds": ?(\d+)"#.to_owned()),
        ("UID", r#"(?:\bUID |"(?:owner|uid)": ?)(\d+)"#.to_owned()),
        ("VERSION", format!(r#"(?:"version": ?"|beadlock(?:-agent)? |v)({})"#, env!("CARGO_PKG_VERSION").replace('.', r"\."))),
    ];
    values
        .map(|(word, expression)| (word, Regex::new(&expression).expect("an expression")))
        .into()
});

/// The words that may stand in a snapshot for what is hidden.
pub fn words() -> BTreeSet<&'static str> {
    VALUES
        .iter()
        .map(|(word, _)| *word)
        .chain(["SCENE"])
        .collect()
}

/// What a setting knows of its values.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Values of this run, each with the word that stands for it. They are looked for first.
    pub values: Vec<(String, &'static str)>,
    /// Texts that are the same in every run, such as a log that the scene begins with. What stands in one is not hidden.
    pub given: Vec<String>,
    /// Words for values that are the same in every run here, such as an age between two times of such a log.
    pub fixed: Vec<&'static str>,
}

impl Known {
    fn is_given(&self, value: &str) -> bool {
        let ends = |text: &str| !text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let begins = |text: &str| !text.ends_with(|c: char| c.is_ascii_alphanumeric());
        let is_in = |text: &String| {
            text.match_indices(value)
                .any(|(at, value)| begins(&text[..at]) && ends(&text[at + value.len()..]))
        };
        // A short one may be the same by chance.
        value.len() > 3 && self.given.iter().any(is_in)
    }
}

/// The text in pieces.
pub fn pieces(text: &str, known: &Known) -> Vec<Piece> {
    let mut pieces = vec![Piece::Kept(text.to_owned())];
    for (value, word) in &known.values {
        // A path begins with a slash, which is no end of a word.
        let begin = if value.starts_with('/') { "" } else { r"\b" };
        let value = Regex::new(&format!(r"{begin}({})\b", regex::escape(value)));
        split(
            &mut pieces,
            word,
            &value.expect("an escaped value"),
            &Known::default(),
        );
    }
    for (word, value) in VALUES
        .iter()
        .filter(|(word, _)| !known.fixed.contains(word))
    {
        split(&mut pieces, word, value, known);
    }
    pieces
}

fn split(pieces: &mut Vec<Piece>, word: &'static str, value: &Regex, known: &Known) {
    for piece in std::mem::take(pieces) {
        let Piece::Kept(text) = piece else {
            pieces.push(piece);
            continue;
        };
        let mut at = 0;
        let found = value
            .captures_iter(&text)
            .filter_map(|groups| groups.get(1));
        // A name of a machine may be part of what is typed.
        let is_shown = |value: &str| word != "HOST" && known.is_given(value);
        for found in found.filter(|found| !is_shown(found.as_str())) {
            pieces.push(Piece::Kept(text[at..found.start()].to_owned()));
            pieces.push(Piece::Hidden {
                word,
                was: found.as_str().to_owned(),
            });
            at = found.end();
        }
        pieces.push(Piece::Kept(text[at..].to_owned()));
    }
    pieces.retain(|piece| *piece != Piece::Kept(String::new()));
}

/// A text of ours that is the same on every machine, such as help: only the version is hidden.
pub fn without_version(text: &str) -> String {
    text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
}

/// The text as a snapshot has it. What was typed, up to the exit code, stays as it is.
pub fn hidden(text: &str, known: &Known) -> String {
    let typed = text
        .starts_with("$ ")
        .then(|| text.find("\nexit "))
        .flatten();
    let (typed, text) = text.split_at(typed.unwrap_or_default());
    let word = |piece| match piece {
        Piece::Kept(text) => text,
        Piece::Hidden { word, .. } => format!("[{word}]"),
    };
    let answer: String = pieces(text, known).into_iter().map(word).collect();
    format!("{typed}{answer}")
}
