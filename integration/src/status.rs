//! `beadlock status`: who, since when, valid or not and why, what to type next. Never changes anything (DESIGN 8).

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use beadlock_checker::address::Address;
use beadlock_checker::dialect::memory::Limits;
use beadlock_checker::dialect::{Dialect, tower};
use beadlock_checker::duration::shown;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::{Decision, Gates, Look, Options, Proceed, Skip, Verdict, facts, look, raw};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::claim::nested;
use crate::environment::Environment;
use crate::exit::Exit;
use crate::failure::{Code, Error};
use crate::file::{self, FileTarget};
use crate::memory::options::Ages;
use crate::memory::status::Status;
use crate::next;
use crate::talk::{Talk, print_bytes};
use crate::target::Found;
use crate::witnesses::Witnesses;
use crate::words;

/// `beadlock status [TARGET…]`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The databases' directories, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH
    pub targets: Vec<OsString>,
    /// Print the lock file's own bytes, unchanged, and nothing else; of memory:DIR its document's status object
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Ask the agent that listens at ADDR how all its databases fare: IP:PORT, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = address(), conflicts_with_all = ["raw", "targets", "stale_after", "stale_after_remote"])]
    pub agent: Option<Address>,
    #[command(flatten)]
    pub ages: Ages,
}

fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::parse(&text))
}

/// Looks at every target; one that cannot be answered does not stop the others.
pub fn run(targets: &[OsString], ages: &Ages, environment: &Environment, talk: &Talk) -> Answers {
    let mut answers = Answers::default();
    for target in crate::answers::each(targets) {
        match FileTarget::meant(target.map(OsString::as_os_str), environment) {
            Ok(None) => {}
            Ok(Some(file)) => {
                if let Err(error) = ages.refuse_for(&file.given()) {
                    answers.failed(error);
                    continue;
                }
                let look = file::Look::at(file, &Gates::now());
                answers.exits.push(Exit::Done);
                answers.data.push(look.json());
                answers.text.push_str(&look.text(talk));
                continue;
            }
            Err(error) => {
                answers.failed(error);
                continue;
            }
        }
        let found = Found::to_look_at(target.map(OsString::as_os_str), environment, talk);
        match found.and_then(|target| Ok((ages.for_target(&target)?, target))) {
            Ok((limits, target)) => {
                target.warn(talk);
                // The one is what stops every claim; the other is still what is there.
                if let Err(error) = target.refuse_tracked() {
                    talk.warn(&error.to_string());
                }
                let options = Options { limits, ..Options::default() };
                let seen = Seen { look: look(&target.place, &options), target };
                let witnesses = Witnesses::gather(&seen.look, &seen.target).by(limits);
                answers.exits.push(Exit::Done);
                answers.data.push(seen.json(&witnesses));
                answers.text.push_str(&seen.text(&witnesses, talk));
            }
            Err(error) => answers.failed(error),
        }
    }
    answers
}

/// `status --raw`: the bytes of every target's lock file, one after the other, as they are; of one that is not there
/// none. What cannot be read is a failure: whoever keeps a copy must not take an empty one for it. Of the lock of a directory
/// it is the document's status object.
pub fn run_raw(targets: &[OsString], ages: &Ages, environment: &Environment, talk: &Talk) -> Answers {
    let mut answers = Answers::default();
    for target in crate::answers::each(targets) {
        let found = Found::to_look_at(target.map(OsString::as_os_str), environment, talk);
        let bytes = found.and_then(|target| {
            target.warn(talk);
            let limits = ages.for_target(&target)?;
            if target.has_age() {
                return of_memory(&target, limits, environment);
            }
            let not_read = |words| format!("{} was not read: {words}", escaped_path(&target.path()));
            let bytes = raw(&target.place).map_err(|words| Error::new(Code::Io, not_read(words)))?;
            Ok(bytes.unwrap_or_default())
        });
        match bytes.and_then(|bytes| print_bytes(&bytes).map_err(|error| not_written(&error))) {
            Ok(()) => answers.exits.push(Exit::Done),
            Err(error) => answers.failed(error),
        }
    }
    answers
}

fn of_memory(target: &Found, limits: Limits, environment: &Environment) -> Result<Vec<u8>, Error> {
    let look = look(&target.place, &Options { limits, ..Options::default() });
    if let Verdict::Unreadable(_) = look.verdict {
        let path = escaped_path(&target.path());
        return Err(Error::new(
            Code::LockUnreadable,
            format!("{path} cannot be understood: {}", look.detail),
        ));
    }
    let we_hold_it = nested::outer_claim(target, environment).is_some();
    let status = Status::of(&look, &limits, we_hold_it);
    let mut json = serde_json::to_vec_pretty(&status).unwrap_or_default();
    json.push(b'\n');
    Ok(json)
}

/// What was found could not be printed.
pub fn not_written(error: &io::Error) -> Error {
    Error::io(format!("failed to write to stdout: {}", beadlock_checker::system_words(error)), error.kind())
}

/// A lock as `status` and `list` show it.
#[derive(Debug)]
pub struct Seen {
    pub target: Found,
    pub look: Look,
}

impl Seen {
    /// What a check would log now, as a dry run says it.
    fn decision(&self) -> Decision {
        let record = self.look.record.clone().map(Box::new);
        match (self.look.verdict, record) {
            (Verdict::Free, _) => Decision::Proceed(Proceed::NoLock),
            (Verdict::Stale(reason), Some(record)) if record.as_tower().is_some() => {
                let age = self.silence().unwrap_or_default();
                Decision::Skip(Skip::Stale { record, reason, age })
            }
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

    /// For how long the holder of a named lock has said nothing.
    fn silence(&self) -> Option<Duration> {
        let record = self.look.record.as_ref()?.as_tower()?;
        Some(tower::silence(record, self.look.facts.as_ref()?.now))
    }

    /// One element of `data` in the JSON contract.
    pub fn json(&self, witnesses: &Witnesses<'_>) -> Value {
        let record = self.look.record.as_ref();
        let age = record.map(|record| words::millis(words::age(record)));
        json!({
            "target": self.target.name(),
            "path": self.target.path().to_string_lossy(),
            "verdict": self.look.verdict.as_str(),
            "holder": record.map(|record| record.holder()),
            "id": self.look.id,
            "reason": self.look.verdict.reason().as_str(),
            "message": self.decision().to_string(),
            "record": record.and_then(|record| serde_json::to_value(record).ok()),
            "age_ms": age,
            "witnesses": witnesses.json(),
            "next": next::next(witnesses),
        })
    }

    /// The verdict's word, in its colour.
    pub fn word(&self, talk: &Talk) -> String {
        let color = match self.look.verdict {
            Verdict::Free => "32",
            Verdict::Held(_) => "33",
            Verdict::Stale(_) => "36",
            Verdict::Unreadable(_) => "31",
        };
        talk.painted_data(self.look.verdict.as_str(), color)
    }

    /// All that is said of one lock. Of a named one that somebody has, the first word is the document's: `active` or
    /// `stale`.
    pub fn text(&self, witnesses: &Witnesses<'_>, talk: &Talk) -> String {
        let (head, what) = match self.silence() {
            Some(silence) => self.of_tower(silence, talk),
            None => (String::new(), self.of_any(witnesses, talk)),
        };
        format!("{head}{}: {what}\n{}", self.target.given, self.below(witnesses))
    }

    fn of_tower(&self, silence: Duration, talk: &Talk) -> (String, String) {
        let (reason, holder) = (self.look.verdict.reason(), words::holder(&self.look).unwrap_or_default());
        let silence = format!("heartbeat {} ago", shown(silence));
        match self.look.verdict {
            Verdict::Stale(_) => {
                let word = talk.painted_data("stale", "36");
                (format!("{word} "), format!("left by {holder}, last {silence} ({reason})"))
            }
            _ => {
                let (word, long) = (talk.painted_data("active", "33"), self.for_how_long());
                (format!("{word} "), format!("held by {holder}{long} ({reason})"))
            }
        }
    }

    fn of_any(&self, witnesses: &Witnesses<'_>, talk: &Talk) -> String {
        let (verdict, reason, word) = (self.look.verdict, self.look.verdict.reason(), self.word(talk));
        match (verdict, words::holder(&self.look)) {
            (Verdict::Held(_), Some(holder)) => {
                let zombie = if witnesses.zombie().is_some() { "a zombie, " } else { "" };
                format!("{word} by {zombie}{holder}{} ({reason})", self.for_how_long())
            }
            (Verdict::Stale(_), Some(holder)) => format!("{word}, left by {holder} ({reason})"),
            (Verdict::Unreadable(_), _) => {
                let then = match self.target.place.dialect() {
                    Dialect::Beads => "every daemon skips",
                    Dialect::Tower | Dialect::Memory => "it is never taken",
                };
                format!("{word}: {} ({reason}); {then}", self.look.detail)
            }
            (Verdict::Free, _) if !self.look.detail.is_empty() => {
                format!("{word} ({reason}); what lies there is no lock: {}", self.look.detail)
            }
            _ => format!("{word} ({reason})"),
        }
    }

    /// ` for 3h 2m`; nothing where the clocks disagree.
    fn for_how_long(&self) -> String {
        let since = self.look.record.as_ref().and_then(|record| record.started_at());
        let age = since.map(|since| since.age(facts::now()));
        let age = age.and_then(|age| Duration::try_from(age).ok());
        age.map(|age| format!(" for {}", shown(age))).unwrap_or_default()
    }

    /// The witnesses, and what to type, one line each.
    pub fn below(&self, witnesses: &Witnesses<'_>) -> String {
        let mut lines = witnesses.lines();
        lines.extend(self.look.id.as_ref().map(|id| format!("id: {}", escaped(id))));
        lines.push(format!("next: {}", next::next(witnesses)));
        lines.iter().map(|line| format!("  {line}\n")).collect()
    }
}
