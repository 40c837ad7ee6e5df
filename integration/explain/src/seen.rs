//! A lock as `status` and `list` show it.

use std::time::Duration;

use beadlock_base::duration::shown;
use beadlock_core::look::Look;
use beadlock_core::{Decision, Proceed, Skip, Verdict};

use super::{checked::message, explanation::Explanation, lines};
use beadlock_claim::words::{self, shown_age};
use beadlock_claim::{report::Report, target::Target};
use beadlock_console::talk::Talk;

/// A target, and what lies there.
#[derive(Debug)]
pub struct SeenTarget {
    /// The target: where the lock lies, and how it was named.
    pub target: Target,
    /// The result of the look at the lock.
    pub look: Look,
}

impl SeenTarget {
    /// The decision that a check would log now, as a dry run has it.
    fn decision(&self) -> Decision {
        let record = self.look.record.clone().map(Box::new);
        match (self.look.verdict, record) {
            (Verdict::Free, _) => Decision::Proceed(Proceed::NoLock),
            (Verdict::Stale(reason), Some(record)) => match self.silence() {
                Some(age) => Decision::Skip(Skip::Stale {
                    record,
                    reason,
                    age,
                }),
                None => Decision::Proceed(Proceed::WouldRemoveStale(record, reason)),
            },
            (Verdict::Held(reason), Some(record)) => Decision::Skip(Skip::Locked(record, reason)),
            // What has no record has a reason for it. Should it have none, it counts as held.
            _ => {
                let why = self.look.no_record.clone();
                why.map_or(Skip::InProgress, Skip::from).into()
            }
        }
    }

    /// For how long a holder that sends heartbeats has said nothing.
    fn silence(&self) -> Option<Duration> {
        self.target.silence(&self.look)
    }

    /// The facts with their explanation.
    pub fn report(&self, explanation: Explanation) -> Report {
        explanation.added_to(Report {
            message: message(&self.decision(), self.target.rules().speaks_of_databases),
            ..Report::of_look(&self.target, &self.look)
        })
    }

    /// The verdict's word, in its colour.
    pub fn word(&self, talk: &Talk) -> String {
        talk.painted_data(self.look.verdict.as_str(), color(self.look.verdict))
    }

    /// The first line of the text. For a lock whose holder sends heartbeats it begins with `active` or `stale`.
    fn headline(&self, report: &Report, talk: &Talk) -> String {
        let (head, what) = match self.silence() {
            Some(silence) => self.of_silent(silence, talk),
            None => (String::new(), self.of_any(report, talk)),
        };
        format!("{head}{}: {what}\n", self.target.given)
    }

    /// The headline and at most four more lines: why, since when, what stands in the way, and what to type. What is
    /// known `besides` comes before that.
    pub fn brief(&self, report: &Report, besides: Option<String>, talk: &Talk) -> String {
        self.headline(report, talk) + &lines::brief(report, besides)
    }

    /// The headline and all that is known.
    pub fn text(&self, report: &Report, besides: Option<String>, talk: &Talk) -> String {
        self.headline(report, talk) + &lines::below(report, besides)
    }

    fn of_silent(&self, silence: Duration, talk: &Talk) -> (String, String) {
        let (reason, holder) = (
            self.look.verdict.reason(),
            self.target.holder(&self.look).unwrap_or_default(),
        );
        let silence = format!("heartbeat {} ago", shown(silence));
        match self.look.verdict {
            Verdict::Stale(_) => {
                let word = talk.painted_data("stale", "36");
                (
                    format!("{word} "),
                    format!("left by {holder}, last {silence} ({reason})"),
                )
            }
            _ => {
                let (word, long) = (talk.painted_data("active", "33"), self.for_how_long());
                (
                    format!("{word} "),
                    format!("held by {holder}{long} ({reason})"),
                )
            }
        }
    }

    fn of_any(&self, report: &Report, talk: &Talk) -> String {
        let (verdict, reason, word) = (
            self.look.verdict,
            self.look.verdict.reason(),
            self.word(talk),
        );
        match (verdict, self.target.holder(&self.look)) {
            (Verdict::Held(_), Some(holder)) => {
                format!(
                    "{word} by {}{holder}{} ({reason})",
                    report.holder_is,
                    self.for_how_long()
                )
            }
            (Verdict::Stale(_), Some(holder)) => format!("{word}, left by {holder} ({reason})"),
            (Verdict::Unreadable(_), _) => {
                let then = self.target.rules().then_unreadable;
                format!("{word}: {} ({reason}); {then}", self.look.detail())
            }
            (Verdict::Free, _) if self.look.no_record.is_some() => {
                format!(
                    "{word} ({reason}); what lies there is no lock: {}",
                    self.look.detail()
                )
            }
            _ => format!("{word} ({reason})"),
        }
    }

    /// ` for 3h 2m`; nothing where the clocks disagree.
    fn for_how_long(&self) -> String {
        words::known_age(&self.look)
            .map(|age| format!(" for {}", shown_age(age)))
            .unwrap_or_default()
    }
}

pub(crate) fn color(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Free => "32",
        Verdict::Held(_) => "33",
        Verdict::Stale(_) => "36",
        Verdict::Unreadable(_) => "31",
    }
}
