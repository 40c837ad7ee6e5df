//! What the report is made of: a log, its databases, and the answer for each; and the report in JSON.
//!
//! # JSON
//!
//! `data` is a list, one object for each log:
//! `{"log","files","writer","local_zone","since","until","lines","agents","databases"}`.
//! - `log`: the path, null for standard input; `files`: what was read, oldest first; `compressed`: what was not.
//! - `writer`: `agent`, `original` or null; `local_zone`: the zone that times without one were taken in, or null.
//! - `since`, `until`: the time that was asked for, else null. All times are RFC 3339, UTC.
//! - `lines`: `{"all","other","cut","outside"}`.
//! - `agents`: `{"starts","stops","lost","runs":[{"program","pid","host","started","last","end","signal"}]}`; `end` is
//!   `running`, `stopped` or `lost`; the last 1000 runs.
//! - `databases`: for each
//!   `{"database","answer","first","last","cycles","skips","not_syncing_ms","holders","unreadable",
//!   "failures","gaps","notices","clock_went_back"}`; `database` is null where the log names none.
//!   - `answer`: `{"state","syncing","since","since_first_line","for_ms","as_of","message","holder","pid","host",
//!     "held_since","reason","detail","silent_ms","more","next":[{"command","why"}]}`. `state` is `syncing`, `held`,
//!     `unreadable`, `busy`, `failing`, `stopped`, `started`, `resumed`, `in_cycle`, `silent` or `unknown`; `syncing`
//!     is null where the log cannot say.
//!   - `cycles`: `{"complete","failed","timed_out","unfinished","last_complete","usual_interval_ms"}`.
//!   - `holders`: `{"holder","claims","skips","median_ms","longest_ms","longest_since","total_ms","last","ended":
//!     {"released","removed_stale","taken_over","agent_stopped","open"}}`, those who held longest first.
//!   - `unreadable`: `{"since","until","for_ms","skips","detail","end"}`, the last 100.
//!   - `failures`, `notices`: `{"message","count","first","last"}`, the latest first.
//!   - `gaps`: `{"limit_ms","list":[{"from","to","for_ms","kind"}]}`; `kind` is `silent`, `in_cycle` or `gone`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::advice::Next;
use super::agents::{Agents, Run, RunEnd};
use super::answer::Answer;
use super::holders::Holder;
use super::line::Writer;
use super::repeats::Repeated;
use super::rhythm::Gap;
use super::spell::{Cause, Past};
use super::story::Story;
use super::stream::{LineCounts, Window};
use super::time::At;
use crate::words::millis;

/// One log, summed up.
#[derive(Debug)]
pub struct Report {
    /// How it is called.
    pub name: String,
    /// `None`: standard input.
    pub path: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    pub compressed: Vec<PathBuf>,
    pub writer: Option<Writer>,
    pub local_zone: Option<String>,
    pub window: Window,
    pub lines: LineCounts,
    pub agents: Agents,
    pub databases: Vec<(Story, Answer)>,
    /// The end of the time that it speaks of.
    pub end: At,
}

impl Report {
    /// The object of the module's head.
    pub fn json(&self) -> Value {
        let writer = self.writer.map(|writer| match writer {
            Writer::Agent => "agent",
            Writer::Original => "original",
        });
        let paths = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let LineCounts { all, other, cut, outside } = self.lines;
        json!({
            "log": self.path.as_ref().map(|path| path.to_string_lossy()),
            "files": paths(&self.files),
            "compressed": paths(&self.compressed),
            "writer": writer,
            "local_zone": self.local_zone,
            "since": time(self.window.since),
            "until": time(self.window.until),
            "lines": { "all": all, "other": other, "cut": cut, "outside": outside },
            "agents": {
                "starts": self.agents.starts,
                "stops": self.agents.stops,
                "lost": self.agents.lost,
                "runs": self.agents.runs().into_iter().map(run).collect::<Vec<_>>(),
            },
            "databases": self.databases.iter().map(|(story, answer)| self.database_json(story, answer)).collect::<Vec<_>>(),
        })
    }

    fn database_json(&self, story: &Story, answer: &Answer) -> Value {
        let counts = story.counts;
        json!({
            "database": story.name,
            "answer": answer_of(story, answer),
            "first": time(story.first),
            "last": time(story.last),
            "cycles": {
                "complete": counts.complete,
                "failed": counts.failed,
                "timed_out": counts.timed_out,
                "unfinished": counts.unfinished,
                "last_complete": time(story.last_complete),
                "usual_interval_ms": story.rhythm.usual().map(millis),
            },
            "skips": counts.skips,
            "not_syncing_ms": millis(story.downtime.total(answer.as_of.unwrap_or(self.end))),
            "holders": story.holders.rows().into_iter().map(holder).collect::<Vec<_>>(),
            "unreadable": story.unreadable.iter().map(unreadable).collect::<Vec<_>>(),
            "failures": story.failures.latest().into_iter().map(repeated).collect::<Vec<_>>(),
            "notices": story.notices.latest().into_iter().map(repeated).collect::<Vec<_>>(),
            "gaps": {
                "limit_ms": millis(story.rhythm.limit()),
                "list": story.rhythm.gaps().iter().map(gap).collect::<Vec<_>>(),
            },
            "clock_went_back": { "count": story.clock_back.0, "most_ms": millis(story.clock_back.1) },
        })
    }
}

fn time(at: Option<At>) -> Option<String> {
    at.map(At::rfc3339)
}

fn run(run: &Run) -> Value {
    let end = match run.end {
        RunEnd::Running => "running",
        RunEnd::Stopped(_) => "stopped",
        RunEnd::Lost => "lost",
    };
    json!({
        "program": run.program, "pid": run.pid, "host": run.host, "started": time(run.started),
        "last": time(Some(run.last)), "end": end, "signal": run.signal,
    })
}

fn answer_of(story: &Story, answer: &Answer) -> Value {
    let spell = story.spell.as_ref().filter(|_| matches!(answer.state, "held" | "unreadable" | "busy"));
    let (holder, detail) = match spell.map(|spell| &spell.cause) {
        Some(Cause::Held(name)) => (Some(name), None),
        Some(Cause::Unreadable(why)) => (None, Some(why)),
        _ => (None, None),
    };
    let extra = spell.map(|spell| spell.extra.clone()).unwrap_or_default();
    let next = |next: &Next| json!({ "command": next.command, "why": next.why });
    json!({
        "state": answer.state,
        "syncing": answer.syncing,
        "since": time(answer.since),
        "since_first_line": answer.is_first,
        "for_ms": answer.duration.map(millis),
        "as_of": time(answer.as_of),
        "message": answer.message,
        "holder": holder,
        "pid": extra.pid,
        "host": extra.host,
        "held_since": extra.since,
        "reason": extra.reason,
        "detail": detail,
        "silent_ms": answer.silent.map(millis),
        "more": answer.more,
        "next": answer.next.iter().map(next).collect::<Vec<_>>(),
    })
}

fn holder(row: &Holder) -> Value {
    json!({
        "holder": row.name,
        "claims": row.claims(),
        "skips": row.skips,
        "median_ms": row.median().map(millis),
        "longest_ms": row.longest().map(millis),
        "longest_since": time(row.longest_since),
        "total_ms": millis(row.total()),
        "last": time(row.last),
        "ended": {
            "released": row.released,
            "removed_stale": row.removed_stale,
            "taken_over": row.taken_over,
            "agent_stopped": row.agent_stopped,
            "open": row.open,
        },
    })
}

fn unreadable(past: &Past) -> Value {
    let detail = match &past.spell.cause {
        Cause::Unreadable(why) => why.as_str(),
        _ => "",
    };
    json!({
        "since": time(Some(past.spell.since)), "until": time(Some(past.until)),
        "for_ms": millis(past.until.since(past.spell.since)), "skips": past.spell.skips,
        "detail": detail, "end": past.end.as_str(),
    })
}

fn repeated(found: &Repeated) -> Value {
    json!({
        "message": found.text, "count": found.count, "first": time(Some(found.first)), "last": time(Some(found.last)),
    })
}

fn gap(gap: &Gap) -> Value {
    json!({
        "from": time(Some(gap.from)), "to": time(Some(gap.to)), "for_ms": millis(gap.to.since(gap.from)),
        "kind": gap.kind.as_str(),
    })
}
