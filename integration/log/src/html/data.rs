//! Data for the page's script: the spans of the timelines as JSON, in a short form.
//!
//! `{"from","to","words":[…],"lost","logs":[{"runs","databases"}]}`. Times are Unix seconds. Words are places in
//! `words`; -1 is no word. `lost` words had no room.
//! - `runs`: `[from, length, end, words]` of each daemon.
//! - `databases`: `{"id","name","short","cycles","claims","states","gaps","marks"}`.
//!   - `cycles`: `{"d","l","k","n","w"}`: seconds since the start of the one before, lengths, a digit each for how it
//!     ended ([`CycleEnd`]); where a run has several cycles their number, and where there are words these, by place.
//!   - `claims`: `[from, length, kind, holder, skips, end, words]`; kind 0 is held, 1 unreadable, 2 busy.
//!   - `states`: `[from, length, state, words]`; `gaps`: `[from, length, words]`.
//!   - `marks`: `[at, kind, words]`; kind 0 is a removed stale lock, 1 a notice.

use std::collections::HashMap;

use beadlock_base::escape::escaped;
use serde_json::{Map, Value, json};

use super::HtmlDatabase;
use crate::parse::time::LogTime;
use crate::report::{CLAIM_ENDS, LogReport, UNREADABLE_ENDS};
use crate::timeline::agents::{AgentEnd, AgentRun};
use crate::timeline::database::DatabaseTimeline;
use crate::timeline::rhythm::GapKind;
use crate::timeline::spans::{CycleRun, MarkKind, joined};
use crate::timeline::streak::{PastStreak, SkipCause, StreakEnd};

/// Most runs of cycles in a page; where there are more, neighbours are joined.
const RUNS: usize = 120_000;

/// Least number of runs of cycles that each database may have in a page.
const LEAST: usize = 500;

/// Most bytes of words in a page. Words that come later in a log get room first.
const WORDS: usize = 1_000_000;

/// A range of time, in Unix seconds.
#[derive(Debug, Clone, Copy)]
pub struct HtmlRange {
    pub from: i64,
    pub to: i64,
}

/// The texts of a page, each once.
#[derive(Debug, Default)]
struct WordList {
    all: Vec<String>,
    places: HashMap<String, usize>,
    size: usize,
    /// Number of texts that had no room.
    lost: u64,
}

impl WordList {
    /// The place of a name that comes out of a log; -1 where there is none, or no room for it.
    fn place(&mut self, text: &str) -> i64 {
        let text = escaped(text).to_string();
        if text.is_empty() {
            return -1;
        }
        let number = |place: usize| i64::try_from(place).unwrap_or(-1);
        if let Some(place) = self.places.get(&text) {
            return number(*place);
        }
        if self.size + text.len() > WORDS {
            self.lost += 1;
            return -1;
        }
        self.size += text.len();
        self.places.insert(text.clone(), self.all.len());
        self.all.push(text);
        number(self.all.len() - 1)
    }
}

/// The whole data, and the range that it spans.
pub fn data(databases: &[HtmlDatabase<'_>], reports: &[LogReport]) -> (Value, HtmlRange) {
    let range = range(databases);
    let runs: usize = databases
        .iter()
        .map(|database| database.timeline.spans.cycles.len())
        .sum();
    let mut words = WordList::default();
    let logs = reports.iter().enumerate().map(|(number, report)| {
        let of_log = databases.iter().filter(|database| database.log == number);
        let list = of_log.map(|database| {
            let share = database.timeline.spans.cycles.len().saturating_mul(RUNS) / runs.max(1);
            database_json(database, share.max(LEAST), range, &mut words)
        });
        let list: Vec<Value> = list.collect();
        let agents = report
            .log
            .agents
            .all()
            .iter()
            .map(|run| agent(run, range, &mut words));
        json!({ "runs": agents.collect::<Vec<_>>(), "databases": list })
    });
    let logs: Vec<Value> = logs.collect();
    (
        json!({ "from": range.from, "to": range.to, "words": words.all, "lost": words.lost, "logs": logs }),
        range,
    )
}

/// From the first line of a database to the last time that the log speaks for.
fn range(databases: &[HtmlDatabase<'_>]) -> HtmlRange {
    let first = |database: &HtmlDatabase<'_>| {
        let first = database.timeline.first.or(database.timeline.last)?;
        let window = database.since.filter(|since| *since > first);
        let begun = database
            .timeline
            .spans
            .streaks
            .iter()
            .map(|past| past.streak.since)
            .min();
        Some(seconds(window.unwrap_or_else(|| {
            begun.map_or(first, |begun| begun.min(first))
        })))
    };
    let from = databases.iter().filter_map(first).min().unwrap_or(0);
    let to = databases
        .iter()
        .map(|database| seconds(database.end))
        .max()
        .unwrap_or(from);
    HtmlRange {
        from,
        to: to.max(from + 1),
    }
}

fn database_json(
    database: &HtmlDatabase<'_>,
    runs: usize,
    range: HtmlRange,
    words: &mut WordList,
) -> Value {
    let timeline: &DatabaseTimeline = database.timeline;
    let spans = &timeline.spans;
    let span = |from: LogTime, to: LogTime| (seconds(from), (seconds(to) - seconds(from)).max(0));
    let claims = spans
        .streaks
        .iter()
        .map(|past| claim(past, words))
        .collect::<Vec<_>>();
    let states = spans.states.iter().map(|state| {
        let (from, length) = span(state.from, state.to.unwrap_or(database.end));
        let word = state.state.state();
        json!([from, length, words.place(word), words.place(&state.why)])
    });
    let states: Vec<Value> = states.collect();
    let gaps = timeline.rhythm.gaps().into_iter().map(|gap| {
        let what = match gap.kind {
            GapKind::Silent => "the daemon hung, or the machine slept",
            GapKind::InCycle => "in the middle of a cycle",
            GapKind::Gone => "the daemon was killed or crashed, and started again later",
        };
        let (from, length) = span(gap.from, gap.to);
        json!([from, length, words.place(what)])
    });
    let gaps: Vec<Value> = gaps.collect();
    let marks = spans.marks.iter().map(|mark| {
        let kind = i32::from(mark.kind == MarkKind::Notice);
        json!([seconds(mark.at), kind, words.place(&mark.words)])
    });
    let marks: Vec<Value> = marks.collect();
    json!({
        "id": database.id, "name": database.title, "short": database.short, "claims": claims, "states": states, "gaps": gaps, "marks": marks,
        "cycles": cycles(&joined(spans.cycles.clone(), runs), range, words),
    })
}

fn cycles(runs: &[CycleRun], range: HtmlRange, words: &mut WordList) -> Value {
    let (mut deltas, mut lengths, mut ends) = (Vec::new(), Vec::new(), String::new());
    let (mut counts, mut places) = (Map::new(), Map::new());
    let mut before = range.from;
    for (number, run) in runs.iter().enumerate() {
        let from = seconds(run.from);
        deltas.push(from - before);
        lengths.push((seconds(run.to) - from).max(0));
        ends.push(char::from(b'0' + run.end as u8));
        if run.count > 1 {
            counts.insert(number.to_string(), run.count.into());
        }
        before = from;
    }
    // The latest words first, as long as there is room.
    for (number, run) in runs
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, run)| !run.words.is_empty())
    {
        places.insert(number.to_string(), words.place(&run.words).into());
    }
    json!({ "d": deltas, "l": lengths, "k": ends, "n": counts, "w": places })
}

fn claim(PastStreak { streak, until, end }: &PastStreak, words: &mut WordList) -> Value {
    let (kind, who, why) = match &streak.cause {
        SkipCause::Held(name) => (0, name.as_str(), String::new()),
        SkipCause::Unreadable(why) => (1, "", why.words.clone()),
        SkipCause::Busy => (2, "", String::new()),
    };
    let lock = &streak.lock;
    let about = [
        lock.since
            .as_ref()
            .map(|since| format!("held since {since}")),
        lock.pid.map(|pid| format!("by PID {pid}")),
        lock.host.as_ref().map(|host| format!("on {host}")),
        lock.reason.as_ref().map(|reason| format!("({reason})")),
    ];
    let about = about.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let ended = match kind {
        1 => UNREADABLE_ENDS[*end as usize],
        2 if *end == StreakEnd::Released => "a cycle ran",
        _ => CLAIM_ENDS[*end as usize],
    };
    let from = seconds(streak.since);
    let length = (seconds(*until) - from).max(0);
    let about = if why.is_empty() { about } else { why };
    json!([
        from,
        length,
        kind,
        words.place(who),
        streak.skips,
        words.place(ended),
        words.place(&about)
    ])
}

fn agent(run: &AgentRun, range: HtmlRange, words: &mut WordList) -> Value {
    let from = run.started.map_or(range.from, seconds);
    let to = if run.end == AgentEnd::Running {
        range.to
    } else {
        seconds(run.last)
    };
    let end = match (run.end, &run.signal) {
        (AgentEnd::Running, _) => "running".to_owned(),
        (AgentEnd::Stopped, Some(signal)) => format!("stopped by {signal}"),
        (AgentEnd::Stopped, None) => "stopped".to_owned(),
        (AgentEnd::Lost, _) => "lost: killed or crashed".to_owned(),
    };
    let named = [
        Some(run.id.program.clone()),
        run.id.pid.map(|pid| format!("PID {pid}")),
        run.id.host.as_ref().map(|host| format!("host {host}")),
    ];
    let named = named.into_iter().flatten().collect::<Vec<_>>().join(", ");
    json!([
        from,
        (to - from).max(0),
        escaped(&end).to_string(),
        words.place(&named)
    ])
}

fn seconds(at: LogTime) -> i64 {
    at.0.div_euclid(1000)
}
