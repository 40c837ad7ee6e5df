//! One database over time: cycles, skips, and what they came from. Pure: it is told events and asked at the end.

use std::time::Duration;

use super::downtime::{Down, Downtime};
use super::event::{Event, Held};
use super::holders::{Holders, SpellEnd};
use super::line::{Extra, Writer};
use super::repeats::Repeats;
use super::rhythm::{GapKind, Rhythm};
use super::spell::{Cause, Past, Spell};
use super::time::At;

/// As many unreadable spells are remembered, the latest; all are counted.
const KEPT: usize = 100;

/// How often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub complete: u64,
    pub failed: u64,
    pub timed_out: u64,
    /// Begun, and neither ended nor failed when the next one began.
    pub unfinished: u64,
    pub skips: u64,
    /// Spells with a busy gate, and the skips in them.
    pub busy: u64,
    pub unreadable: u64,
}

/// What the log said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing of a cycle.
    Unknown,
    Started(At),
    Complete(At),
    Failing {
        why: String,
        in_a_row: u64,
    },
    Skipping,
    /// What was in the way is gone, and the next cycle is about to begin.
    Resumed(At),
    Stopped(At),
}

#[derive(Debug)]
struct OpenCycle {
    at: At,
    trouble: Option<String>,
    /// A skip within it: its command's own words, unless the line that only the daemon writes follows.
    skipped: Option<(At, String)>,
}

/// The holder that a skip names; `…` at its end: that is not all of it.
fn holder(event: &Event<'_>) -> String {
    match event {
        Event::Locked(name) => (*name).to_owned(),
        Event::CutOff(name) => format!("{name}…"),
        _ => String::new(),
    }
}

/// One database.
#[derive(Debug)]
pub struct Story {
    /// As the log calls it; `None` when the log is about one database only.
    pub name: Option<String>,
    pub counts: Counts,
    pub holders: Holders,
    pub unreadable: Vec<Past>,
    pub failures: Repeats,
    pub notices: Repeats,
    pub rhythm: Rhythm,
    pub state: State,
    pub spell: Option<Spell>,
    pub downtime: Downtime,
    pub last_complete: Option<At>,
    pub first: Option<At>,
    pub last: Option<At>,
    /// How often the clock went back, and the most.
    pub clock_back: (u64, Duration),
    cycle: Option<OpenCycle>,
    has_begun: bool,
}

impl Story {
    pub fn new(name: Option<String>) -> Self {
        Self {
            name,
            counts: Counts::default(),
            holders: Holders::default(),
            unreadable: Vec::new(),
            failures: Repeats::default(),
            notices: Repeats::default(),
            rhythm: Rhythm::default(),
            state: State::Unknown,
            spell: None,
            downtime: Downtime::default(),
            last_complete: None,
            first: None,
            last: None,
            clock_back: (0, Duration::ZERO),
            cycle: None,
            has_begun: false,
        }
    }

    /// Nothing of a cycle was ever heard.
    pub fn is_blank(&self) -> bool {
        !self.has_begun
    }

    /// Since when a cycle runs that has not ended.
    pub fn in_cycle(&self) -> Option<At> {
        self.cycle.as_ref().map(|cycle| cycle.at)
    }

    /// What came before `from` is not asked for; what goes on still is.
    pub fn forget(&mut self, from: At) {
        self.counts = Counts::default();
        self.holders = Holders::default();
        self.unreadable.clear();
        self.failures = Repeats::default();
        self.notices = Repeats::default();
        self.rhythm.forget();
        self.downtime.forget(from);
        self.first = None;
        self.clock_back = Default::default();
    }

    /// One line about this database.
    pub fn hear(&mut self, at: At, event: &Event<'_>, message: &str, extra: &Extra, writer: Option<Writer>) {
        let is_agent = writer == Some(Writer::Agent);
        self.silence(at, event);
        let before = self.last.replace(at);
        self.first.get_or_insert(at);
        if let Some(cycle) = &mut self.cycle
            && is_agent
        {
            // Within a cycle of the agent only its end is the agent's own; the rest is its command's output.
            match event {
                Event::Locked(_) | Event::CutOff(_) => {
                    cycle.skipped = Some((at, holder(event)));
                    return;
                }
                Event::Held(_) if cycle.skipped.is_some() => {}
                Event::Busy
                | Event::Unreadable(_)
                | Event::Removed(_)
                | Event::Held(_)
                | Event::Resumed
                | Event::Trouble(_) => return,
                _ => {}
            }
        }
        match *event {
            Event::Begun => self.begun(at, is_agent),
            Event::Complete => self.complete(at),
            Event::Failed(why) => {
                self.counts.failed += 1;
                self.failed(why, at);
            }
            Event::TimedOut(after) => {
                self.counts.timed_out += 1;
                self.failed(&format!("timed out after {after}"), at);
            }
            Event::Trouble(why) => {
                if let Some(cycle) = &mut self.cycle {
                    cycle.trouble = Some(why.to_owned());
                }
            }
            Event::Locked(_) | Event::CutOff(_) => self.skipped(Cause::Held(holder(event)), extra, at),
            Event::Unreadable(why) => self.skipped(Cause::Unreadable(why.to_owned()), extra, at),
            Event::Busy => self.skipped(Cause::Busy, extra, at),
            Event::Removed(holder) => self.removed(holder, at),
            Event::Held(held) => self.held(&held),
            Event::Resumed => {
                self.over(at, SpellEnd::Released);
                self.state = State::Resumed(at);
            }
            Event::Started(_) => self.started(at, before),
            Event::Stopped(_) => self.stopped(at),
            Event::Notice => self.notices.add(message, at),
            Event::Header(_) | Event::Ending(_) | Event::Step | Event::Other => {}
        }
        self.has_begun |= event.is_of_a_cycle();
    }

    /// The end of the log, or of what is asked for.
    pub fn finish(&mut self, end: At) {
        let trouble = self.cycle.as_mut().and_then(|cycle| cycle.trouble.take());
        if let Some(why) = trouble {
            self.counts.failed += 1;
            self.failed(&why, end.min(self.last.unwrap_or(end)));
        }
        // Of the time after the last line the log knows nothing, once it is longer than usual.
        let end = self.last.filter(|last| end.since(*last) > self.rhythm.limit()).unwrap_or(end);
        if let Some(spell) = self.spell.clone() {
            self.past(spell, end, SpellEnd::Open);
        }
    }

    fn silence(&mut self, at: At, event: &Event<'_>) {
        let Some(last) = self.last else { return };
        let back = last.since(at);
        if back > Duration::from_secs(1) {
            self.clock_back = (self.clock_back.0 + 1, self.clock_back.1.max(back));
        }
        let kind = match (&self.state, event) {
            (State::Stopped(_), _) => return,
            (_, Event::Started(_)) => GapKind::Gone,
            _ if self.cycle.is_some() => GapKind::InCycle,
            _ => GapKind::Silent,
        };
        self.rhythm.silence(last, at, kind);
    }

    fn begun(&mut self, at: At, is_agent: bool) {
        self.rhythm.look(at);
        self.cut_short(at);
        if is_agent {
            self.over(at, SpellEnd::Released);
        }
        self.cycle = Some(OpenCycle { at, trouble: None, skipped: None });
    }

    /// The cycle that was running has ended without a word, or with one of trouble.
    fn cut_short(&mut self, at: At) {
        let Some(cycle) = self.cycle.take() else { return };
        match cycle.trouble {
            Some(why) => {
                self.counts.failed += 1;
                self.cycle = Some(OpenCycle { trouble: None, ..cycle });
                self.failed(&why, at);
            }
            None => {
                self.over(cycle.at, SpellEnd::Released);
                self.counts.unfinished += 1;
            }
        }
    }

    fn complete(&mut self, at: At) {
        let began = self.cycle.take().map_or(at, |cycle| cycle.at);
        self.over(began, SpellEnd::Released);
        self.counts.complete += 1;
        self.last_complete = Some(at);
        self.downtime.end(at);
        self.state = State::Complete(at);
    }

    fn failed(&mut self, why: &str, at: At) {
        let began = self.cycle.take().map_or(at, |cycle| cycle.at);
        self.over(began, SpellEnd::Released);
        // `exit code 3 after 1.2s` is the same failure after 1.3s.
        let kind = why
            .rsplit_once(" after ")
            .filter(|_| !why.starts_with("timed out"))
            .map_or(why, |(kind, _)| kind);
        self.failures.add(kind, at);
        self.is_down(began);
        let in_a_row = match self.state {
            State::Failing { in_a_row, .. } => in_a_row + 1,
            _ => 1,
        };
        self.state = State::Failing { why: kind.to_owned(), in_a_row };
    }

    fn skipped(&mut self, cause: Cause, extra: &Extra, at: At) {
        match self.cycle.take() {
            // The original daemon says first that a cycle starts, and then that it is skipped.
            Some(cycle) if cycle.trouble.is_some() => {
                self.cycle = Some(cycle);
                self.cut_short(at);
            }
            Some(_) => {}
            None => self.rhythm.look(at),
        }
        let is_first = !self.has_begun && self.state == State::Unknown;
        self.is_down(at);
        self.state = State::Skipping;
        self.counts.skips += 1;
        match &mut self.spell {
            // Who releases or changes the lock has the gate for a moment.
            Some(spell) if spell.cause == cause || cause == Cause::Busy => {
                spell.skips += 1;
                spell.extra.complete(extra);
                return;
            }
            // Another word for what is the same trouble.
            Some(Spell { cause: Cause::Unreadable(why), skips, .. })
                if matches!(cause, Cause::Unreadable(_)) =>
            {
                *skips += 1;
                if let Cause::Unreadable(new) = cause {
                    *why = new;
                }
                return;
            }
            _ => {}
        }
        self.over(at, SpellEnd::TakenOver);
        self.spell = Some(Spell { cause, since: at, is_first, skips: 1, extra: extra.clone() });
    }

    fn removed(&mut self, holder: &str, at: At) {
        let is_its = matches!(&self.spell, Some(Spell { cause: Cause::Held(name), .. }) if name == holder);
        let could_not = matches!(&self.spell, Some(Spell { cause: Cause::Unreadable(_), .. }));
        if is_its || could_not {
            self.over(at, SpellEnd::RemovedStale);
        } else {
            self.over(at, SpellEnd::TakenOver);
        }
        if !is_its {
            self.holders.removed_at_once(holder, at);
        }
        self.state = State::Resumed(at);
    }

    fn held(&mut self, held: &Held<'_>) {
        if let Some(skipped) = self.cycle.as_mut().and_then(|cycle| cycle.skipped.take()) {
            // It was the daemon's own skip: the end of the cycle before it is not in the log.
            self.cut_short(skipped.0);
            self.skipped(Cause::Held(skipped.1), &Extra::default(), skipped.0);
        }
        if let Some(spell) = &mut self.spell {
            spell.extra.complete(&Extra {
                pid: Some(held.pid),
                host: Some(held.host.to_owned()),
                since: Some(held.since.to_owned()),
                reason: Some(held.reason.to_owned()),
            });
        }
    }

    fn started(&mut self, at: At, before: Option<At>) {
        if let (false, Some(before)) = (matches!(self.state, State::Stopped(_)), before) {
            // The one before was killed; its last line is all that is known.
            self.cut_short(before);
            self.over(before, SpellEnd::AgentStopped);
            if self.has_begun {
                self.is_down(before);
            }
            self.rhythm.was_gone(at);
        }
        self.rhythm.restart();
        self.state = State::Started(at);
    }

    fn stopped(&mut self, at: At) {
        self.cut_short(at);
        self.over(at, SpellEnd::AgentStopped);
        self.is_down(at);
        self.state = State::Stopped(at);
    }

    fn is_down(&mut self, at: At) {
        let is_first = !self.has_begun && self.state == State::Unknown;
        self.downtime.begin(Down { since: at, is_first });
    }

    /// The spell that was going on is over.
    fn over(&mut self, at: At, end: SpellEnd) {
        if let Some(spell) = self.spell.take() {
            self.past(spell, at, end);
        }
    }

    fn past(&mut self, spell: Spell, until: At, end: SpellEnd) {
        match &spell.cause {
            Cause::Held(name) => self.holders.held(name, spell.since, until, spell.skips, end),
            Cause::Busy => self.counts.busy += 1,
            Cause::Unreadable(_) => {
                self.counts.unreadable += 1;
                if self.unreadable.len() == KEPT {
                    self.unreadable.remove(0);
                }
                self.unreadable.push(Past { spell, until, end });
            }
        }
    }
}
