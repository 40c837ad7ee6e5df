//! `beadlock status`: who, since when, valid or not and why, what to type next. Never changes anything (DESIGN 8).

use std::ffi::OsString;

use beadlock_checker::database::Database;
use beadlock_checker::duration::shown;
use beadlock_checker::{Decision, Look, Options, Proceed, Skip, Verdict, look};
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::exit::Exit;
use crate::failure::Error;
use crate::next;
use crate::program::Answers;
use crate::talk::Talk;
use crate::target;
use crate::witnesses::Witnesses;
use crate::words::{self, lock_path};

/// Looks at every target; one that cannot be answered does not stop the others.
pub fn run(targets: &[OsString], environment: &Environment, talk: &Talk) -> Answers {
    let mut answers = Answers::default();
    for target in crate::program::each(targets) {
        match Seen::new(target, environment) {
            Ok(seen) => {
                answers.exits.push(Exit::Done);
                answers.data.push(seen.json());
                answers.text.push_str(&seen.text(talk));
            }
            Err(error) => answers.failed(error),
        }
    }
    answers
}

struct Seen {
    database: Database,
    look: Look,
}

impl Seen {
    fn new(target: Option<&OsString>, environment: &Environment) -> Result<Self, Error> {
        let database = target::resolve(target.map(OsString::as_os_str), environment)?;
        let look = look(&database.dir, &Options::default());
        Ok(Self { look, database })
    }

    /// What a check would log now, as a dry run says it.
    fn decision(&self) -> Decision {
        let record = self.look.record.clone().map(Box::new);
        match (self.look.verdict, record) {
            (Verdict::Free, _) => Decision::Proceed(Proceed::NoLock),
            (Verdict::Stale(reason), Some(record)) => {
                Decision::Proceed(Proceed::WouldRemoveStale(record, reason))
            }
            (Verdict::Held(reason), Some(record)) => Decision::Skip(Skip::Locked(record, reason)),
            (verdict, record) => {
                let (reason, detail) = (verdict.reason(), self.look.detail.clone());
                Decision::Skip(Skip::CheckFailed { reason, detail, record })
            }
        }
    }

    fn next(&self) -> String {
        next::to_type(&self.look, &self.database)
    }

    fn json(&self) -> Value {
        let record = self.look.record.as_ref();
        let age = record.map(|record| u64::try_from(words::age(record).as_millis()).unwrap_or(u64::MAX));
        json!({
            "target": format!("beads:{}", self.database.given),
            "path": lock_path(&self.database.dir).to_string_lossy(),
            "verdict": self.look.verdict.as_str(),
            "holder": record.map(|record| &record.holder),
            "id": self.look.id,
            "reason": self.look.verdict.reason().as_str(),
            "message": self.decision().to_string(),
            "record": record.and_then(|record| serde_json::to_value(record).ok()),
            "age_ms": age,
            "witnesses": Witnesses::gather(&self.look, &self.database.dir).json(),
            "next": self.next(),
        })
    }

    fn text(&self, talk: &Talk) -> String {
        let (verdict, reason) = (self.look.verdict, self.look.verdict.reason());
        let (word, color) = match verdict {
            Verdict::Free => ("free", "32"),
            Verdict::Held(_) => ("held", "33"),
            Verdict::Stale(_) => ("stale", "36"),
            Verdict::Unreadable(_) => ("unreadable", "31"),
        };
        let word = talk.painted_data(word, color);
        let age = self
            .look
            .record
            .as_ref()
            .map(|record| format!("for {}", shown(words::age(record))))
            .unwrap_or_default();
        let what = match (verdict, words::holder(&self.look)) {
            (Verdict::Held(_), Some(holder)) => format!("{word} by {holder} {age} ({reason})"),
            (Verdict::Stale(_), Some(holder)) => format!("{word}, left by {holder} ({reason})"),
            (Verdict::Unreadable(_), _) => {
                format!("{word}: {} ({reason}); every daemon skips", self.look.detail)
            }
            _ => format!("{word} ({reason})"),
        };
        let mut text = format!("{}: {what}\n", self.database.given);
        for line in Witnesses::gather(&self.look, &self.database.dir).lines() {
            text.push_str(&format!("  {line}\n"));
        }
        if let Some(id) = &self.look.id {
            text.push_str(&format!("  id: {}\n", beadlock_checker::escape::escaped(id)));
        }
        text.push_str(&format!("  next: {}\n", self.next()));
        text
    }
}
