//! One line of the audit trail: its fields in their order, from whatever happened.

use std::fmt::{self, Display};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{By, bounded};
use crate::dialect::beads::StartedAt;
use crate::facts;
use crate::verdict::{Reason, Removed, Skip, Watched};

/// The longest line, its line break included.
const LONGEST: usize = 128 * 1024;

/// What happened to a lock: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// It was claimed.
    LockAcquired,
    /// Its claim was ended by whoever had made it.
    LockReleased,
    /// It kept somebody from claiming, or a cycle from running.
    LockBlocked,
    /// Its holder was proved dead, and it was removed.
    LockStaleRemoved,
    /// Somebody took it away by hand (`beadlock break`).
    LockBroken,
    /// It vanished, changed or could not be kept up while it was held.
    LockLost,
}

impl Event {
    /// The word, e.g. `lock_acquired`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LockAcquired => "lock_acquired",
            Self::LockReleased => "lock_released",
            Self::LockBlocked => "lock_blocked",
            Self::LockStaleRemoved => "lock_stale_removed",
            Self::LockBroken => "lock_broken",
            Self::LockLost => "lock_lost",
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the work that a lock was held for has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The command ended with 0, or whoever held the lock said so.
    Success,
    /// Anything else.
    Failure,
}

/// One line to be: an event, made at the moment it happens. What is not set is null.
#[derive(Debug, Clone)]
#[must_use = "an event that is not written has not been audited"]
pub struct Entry {
    event: Event,
    request_id: String,
    timestamp: StartedAt,
    lock_name: String,
    lock_path: String,
    reason: Option<String>,
    detail: Option<String>,
    watched: Option<&'static str>,
    held: Option<Duration>,
    result: Option<Outcome>,
    error: Option<String>,
    lock: Option<Box<RawValue>>,
    previous_lock: Option<Box<RawValue>>,
    truncated: bool,
}

impl Entry {
    /// An event of now. `lock_name` is the target with its scheme (`beads:.beads`), `lock_path` the lock file.
    pub fn new(event: Event, request_id: &str, lock_name: &str, lock_path: &Path) -> Self {
        Self {
            event,
            request_id: request_id.to_owned(),
            timestamp: StartedAt::from_unix(facts::now().0.as_secs(), 0),
            lock_name: lock_name.to_owned(),
            lock_path: lock_path.to_string_lossy().into_owned(),
            reason: None,
            detail: None,
            watched: None,
            held: None,
            result: None,
            error: None,
            lock: None,
            previous_lock: None,
            truncated: false,
        }
    }

    /// Why, in one word; [`Reason`] has those of checks.
    pub fn reason(mut self, word: impl Display) -> Self {
        self.reason = Some(self.short(word));
        self
    }

    /// Why, in a sentence.
    pub fn detail(mut self, sentence: impl Display) -> Self {
        self.detail = Some(self.short(sentence));
        self
    }

    /// From the claim to its end.
    pub fn held_for(mut self, held: Duration) -> Self {
        self.held = Some(held);
        self
    }

    /// How the work has ended.
    pub fn result(mut self, result: Outcome) -> Self {
        self.result = Some(result);
        self
    }

    /// What went wrong, in a sentence.
    pub fn error(mut self, sentence: impl Display) -> Self {
        self.error = Some(self.short(sentence));
        self
    }

    /// The record in the lock file, of any dialect.
    pub fn lock(mut self, record: &impl Serialize) -> Self {
        self.lock = self.raw(record);
        self
    }

    /// The record that was removed or broken, of any dialect.
    pub fn previous_lock(mut self, record: &impl Serialize) -> Self {
        self.previous_lock = self.raw(record);
        self
    }

    /// The stale lock that was removed: why it could be, how it was watched, what it said.
    pub fn removed(mut self, removed: &Removed) -> Self {
        self.watched = Some(match removed.watched {
            Watched::ByLease => "lease",
            Watched::ByComparison => "comparison",
        });
        self.reason(removed.reason).previous_lock(&removed.record)
    }

    /// What was in the way: why, and the record; without one, what the check says of it.
    pub fn skip(self, skip: &Skip) -> Self {
        match skip {
            Skip::Locked(record, reason) => self.reason(reason).lock(record),
            Skip::InProgress => self.reason(Reason::GateBusy),
            Skip::CheckFailed { reason, detail, record } => {
                let entry = self.reason(reason).detail(detail);
                match record {
                    Some(record) => entry.lock(record),
                    None => entry,
                }
            }
        }
    }

    /// What happened.
    pub fn event(&self) -> Event {
        self.event
    }

    /// The lock file.
    pub(super) fn lock_path(&self) -> &Path {
        Path::new(&self.lock_path)
    }

    fn short(&mut self, text: impl Display) -> String {
        let (short, cut) = bounded::text(&text.to_string());
        self.truncated |= cut;
        short
    }

    fn raw(&mut self, record: &impl Serialize) -> Option<Box<RawValue>> {
        let (short, cut) = bounded::json(&serde_json::to_string(record).ok()?);
        self.truncated |= cut;
        RawValue::from_string(short).ok()
    }

    /// The whole line, with its line break and no other.
    pub(super) fn line(&self, by: By<'_>) -> String {
        let line = self.json(by, self.truncated, [&self.lock, &self.previous_lock]);
        if line.len() <= LONGEST { line } else { self.json(by, true, [&None, &None]) }
    }

    fn json(
        &self,
        by: By<'_>,
        truncated: bool,
        [lock, previous_lock]: [&Option<Box<RawValue>>; 2],
    ) -> String {
        let line = Line {
            event: self.event,
            request_id: &self.request_id,
            timestamp: self.timestamp,
            lock_name: &self.lock_name,
            lock_path: &self.lock_path,
            by,
            reason: self.reason.as_deref(),
            detail: self.detail.as_deref(),
            watched: self.watched,
            held_duration_seconds: self.held.map(|held| held.as_secs()),
            result: self.result,
            error: self.error.as_deref(),
            lock: lock.as_deref(),
            previous_lock: previous_lock.as_deref(),
            truncated,
        };
        #[expect(clippy::expect_used, reason = "strings and integers under fixed names always serialize")]
        let mut json = serde_json::to_string(&line).expect("strings and integers under fixed names");
        json.push('\n');
        json
    }
}

/// The fields in the order of the document.
#[derive(Serialize)]
struct Line<'a> {
    event: Event,
    request_id: &'a str,
    timestamp: StartedAt,
    lock_name: &'a str,
    lock_path: &'a str,
    by: By<'a>,
    reason: Option<&'a str>,
    detail: Option<&'a str>,
    watched: Option<&'a str>,
    held_duration_seconds: Option<u64>,
    result: Option<Outcome>,
    error: Option<&'a str>,
    lock: Option<&'a RawValue>,
    previous_lock: Option<&'a RawValue>,
    truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::super::Author;
    use super::*;
    use crate::dialect::beads::{Mark, Record};
    use serde_json::Value;

    const FIELDS: [&str; 15] = [
        "event",
        "request_id",
        "timestamp",
        "lock_name",
        "lock_path",
        "by",
        "reason",
        "detail",
        "watched",
        "held_duration_seconds",
        "result",
        "error",
        "lock",
        "previous_lock",
        "truncated",
    ];

    fn entry(event: Event) -> Entry {
        Entry::new(event, "r1", "beads:.beads", Path::new("/r/.beads/.exclusive-lock"))
    }

    fn line(entry: &Entry) -> String {
        entry.line(Author::new("beadlock", "1.2.3").holder("ci").by())
    }

    fn record(holder: &str) -> Box<Record> {
        let started_at = StartedAt::from_unix(1_767_323_045, 0);
        let (pid, hostname, version) = (7, "box".to_owned(), "1".to_owned());
        Box::new(Record { holder: holder.to_owned(), pid, hostname, started_at, version, beadlock: None })
    }

    /// Where each of the fields begins in the line, which is to be their order.
    fn assert_in_order(line: &str) {
        let places: Vec<_> = FIELDS.iter().map(|field| line.find(&format!("\"{field}\":"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {line:.9999}");
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value.as_object().unwrap().len(), FIELDS.len());
        assert_eq!(line.find('\n'), Some(line.len() - 1));
    }

    #[test]
    fn a_line_has_every_field_in_the_order_of_the_document() {
        let entry = entry(Event::LockReleased)
            .reason("command_ended")
            .detail("d")
            .held_for(Duration::from_millis(61_900))
            .result(Outcome::Failure)
            .error("exit code 3")
            .lock(&record("a\n\u{1b}[2J"));
        let line = line(&entry);
        assert_in_order(&line);
        let value: Value = serde_json::from_str(&line).unwrap();
        let stamp = value["timestamp"].as_str().unwrap();
        assert_eq!((stamp.len(), &stamp[10..11], &stamp[19..]), (20, "T", "Z"), "{stamp}");
        assert_eq!(value["by"]["pid"], std::process::id());
        assert_eq!(value["by"]["uid"], nix::unistd::getuid().as_raw());
        assert_eq!(value["by"]["hostname"].as_str(), facts::hostname().as_deref());
        assert!(
            line.contains(r#""by":{"holder":"ci","program":"beadlock","version":"1.2.3","pid":"#),
            "{line}"
        );
        let tail = concat!(
            r#""reason":"command_ended","detail":"d","watched":null,"held_duration_seconds":61,"#,
            r#""result":"failure","error":"exit code 3","lock":{"holder":"a\n\u001b[2J","pid":7,"#,
            r#""hostname":"box","started_at":"2026-01-02T03:04:05Z","version":"1"},"#,
            r#""previous_lock":null,"truncated":false}"#,
        );
        assert!(line.ends_with(&format!("{tail}\n")), "{line}");
    }

    #[test]
    fn nothing_known_is_null() {
        let line = line(&entry(Event::LockLost));
        assert_in_order(&line);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(FIELDS[6..14].iter().map(|field| &value[field]).collect::<Vec<_>>(), [&Value::Null; 8]);
    }

    #[test]
    fn the_words_of_the_events_are_the_contracts() {
        let words = ["acquired", "released", "blocked", "stale_removed", "broken", "lost"];
        let events = [
            Event::LockAcquired,
            Event::LockReleased,
            Event::LockBlocked,
            Event::LockStaleRemoved,
            Event::LockBroken,
            Event::LockLost,
        ];
        for (event, word) in events.into_iter().zip(words) {
            assert_eq!(event.to_string(), format!("lock_{word}"));
            assert!(line(&entry(event)).starts_with(&format!(r#"{{"event":"{event}","request_id":"r1","#)));
        }
    }

    #[test]
    fn a_removal_has_its_proof_its_watch_and_its_record() {
        for (watched, word) in [(Watched::ByLease, "lease"), (Watched::ByComparison, "comparison")] {
            let removed = Removed { record: record("dead"), reason: Reason::PidGone, watched };
            let line = line(&entry(Event::LockStaleRemoved).removed(&removed));
            let value: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(
                (&value["reason"], &value["watched"], &value["previous_lock"]["holder"], &value["lock"]),
                (&Value::from("pid_gone"), &word.into(), &"dead".into(), &Value::Null)
            );
        }
    }

    #[test]
    fn a_block_has_what_is_in_the_way() {
        let check_failed = |reason, record| {
            let detail = "malformed lock file: unexpected EOF".to_owned();
            Skip::CheckFailed { reason, detail, record }
        };
        let rows = [
            (Skip::Locked(record("h"), Reason::OtherHost), "other_host", false, true),
            (Skip::InProgress, "gate_busy", false, false),
            (check_failed(Reason::Malformed, None), "malformed", true, false),
            (check_failed(Reason::RemovalFailed, Some(record("h"))), "removal_failed", true, true),
        ];
        for (skip, reason, has_detail, has_record) in rows {
            let line = line(&entry(Event::LockBlocked).skip(&skip));
            let value: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["reason"], reason);
            assert_eq!(!value["detail"].is_null(), has_detail, "{line}");
            assert_eq!(value["lock"]["holder"] == "h", has_record, "{line}");
        }
    }

    #[test]
    fn however_long_the_values_the_line_is_not() {
        let long = "\u{1}".repeat(60_000);
        let mark = Mark {
            id: long.clone(),
            machine_id: Some(long.clone()),
            boot_id: Some(long.clone()),
            pid_ns: Some(long.clone()),
            time_ns: Some(long.clone()),
            start_ticks: Some(u64::MAX),
        };
        let hostile = Record { hostname: long.clone(), version: long.clone(), ..*record(&long) };
        let marked = Record { beadlock: Some(mark), ..hostile.clone() };
        let one = line(&entry(Event::LockBlocked).lock(&hostile).reason(&long).detail(&long).error(&long));
        assert_in_order(&one);
        let value: Value = serde_json::from_str(&one).unwrap();
        assert!(value["lock"]["holder"] == "\u{1}".repeat(1024) + "…");
        assert_eq!((&value["lock"]["pid"], &value["truncated"]), (&7.into(), &true.into()));
        // The longest path there is, in the worst of bytes, twice, and all that a record can have, twice.
        let path = long.get(..4096).unwrap();
        let worst = Entry::new(Event::LockBroken, "r", path, Path::new(path));
        let worst = worst.lock(&marked).previous_lock(&marked).reason(&long).detail(&long).error(&long);
        let worst = line(&worst);
        assert_in_order(&worst);
        let value: Value = serde_json::from_str(&worst).unwrap();
        assert!(value["lock"].is_null() && value["previous_lock"].is_null() && value["truncated"] == true);
        assert!(value["lock_path"] == path, "a path is never cut");
        assert!(one.len() <= LONGEST && worst.len() <= LONGEST, "{} {}", one.len(), worst.len());
    }
}
