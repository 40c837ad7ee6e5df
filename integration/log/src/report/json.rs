//! The report in JSON.
//!
//! `data` is a list, one object for each log:
//! `{"log","files","writer","local_zone","since","until","lines","agents","databases"}`.
//! - `log`: the path, null for standard input; `files`: what was read, oldest first; `compressed`: what was not read.
//! - `writer`: `agent`, `original` or null; `local_zone`: the zone that times without one were taken in, or null.
//! - `since`, `until`: the window, else null. All times are RFC 3339, UTC.
//! - `lines`: `{"all","other","cut","outside"}`.
//! - `agents`: `{"starts","stops","lost",
//!   "runs":[{"program","pid","host","database","started","last","end","signal","process"}]}`; `end` is `running`,
//!   `stopped` or `lost`; the last 1000 runs. `database` is the file that a daemon of bd serves. `process` is `runs`,
//!   `stopped` (by a signal), `gone`, or null where this machine cannot tell.
//! - `databases`: for each
//!   `{"database","answer","first","last","cycles","skips","not_syncing_ms","holders","unreadable",
//!   "failures","gaps","notices","clock_went_back","event_mode","sync_branch"}`; `database` is null where the log names
//!   none. The last two are of a daemon of bd: whether it looks only at changes, and the branch that it commits to in a
//!   worktree of its own; null where the log does not say.
//!   - `answer`: `{"state","syncing","since","since_first_line","for_ms","as_of","message","holder","pid","host",
//!     "held_since","reason","detail","silent_ms","more","next":[{"command","why"}],"reported"}`. `state` is `syncing`,
//!     `held`, `unreadable`, `busy`, `failing`, `stopped`, `gone`, `halted`, `started`, `resumed`, `in_cycle`, `silent` or
//!     `unknown`.
//!     Agents that report states add `not_serving`, `local_only`, `behind` and `incomplete`. `syncing` is null where
//!     the log cannot say. `reported` is `{"state","since","why","next"}` as the agent has reported it last, `state` in
//!     its words; null where no such line is there, or a later line says otherwise.
//!   - `cycles`: `{"complete","incomplete","failed","timed_out","unfinished","last_complete","usual_interval_ms"}`.
//!   - `holders`: `{"holder","claims","skips","median_ms","longest_ms","longest_since","total_ms","last","ended":
//!     {"released","removed_stale","taken_over","agent_stopped","open"}}`, the longest total first.
//!   - `unreadable`: `{"since","until","for_ms","skips","detail","end"}`, the last 100.
//!   - `failures`, `notices`: `{"message","count","first","last"}`, the latest first.
//!   - `gaps`: `{"limit_ms","list":[{"from","to","for_ms","kind"}]}`; `kind` is `silent`, `in_cycle` or `gone`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{LogAnswer, LogReport};
use crate::timeline::streak::{PastStreak, SkipCause, StreakEnds};
use crate::timeline::{database::DatabaseTimeline, holders::HolderRow, rhythm::LogGap};
use beadlock_claim::words::millis;

/// Most unreadable streaks that are listed: the latest.
const UNREADABLE: usize = 100;

/// The words for the ends of a streak.
const ENDS: StreakEnds<&str> = [
    "released",
    "removed_stale",
    "taken_over",
    "agent_stopped",
    "open",
];

impl LogReport {
    /// The object that the head of this module describes.
    pub fn json(&self) -> Value {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let agents = &self.log.agents;
        let databases = self
            .answers()
            .map(|(timeline, answer)| self.database_json(timeline, &answer));
        json!({
            "log": self.path.as_ref().map(path),
            "files": self.files.iter().map(path).collect::<Vec<_>>(),
            "compressed": self.compressed.iter().map(path).collect::<Vec<_>>(),
            "writer": self.log.writer,
            "local_zone": self.log.local_zone(),
            "since": self.log.window.since,
            "until": self.log.window.until,
            "lines": self.log.lines,
            "agents": {
                "starts": agents.starts,
                "stops": agents.stops,
                "lost": agents.lost,
                "runs": agents.all(),
            },
            "databases": databases.collect::<Vec<_>>(),
        })
    }

    fn database_json(&self, timeline: &DatabaseTimeline, answer: &LogAnswer) -> Value {
        let (counts, rhythm) = (timeline.counts, &timeline.rhythm);
        json!({
            "database": timeline.name,
            "answer": answer_json(timeline, answer),
            "first": timeline.first,
            "last": timeline.last,
            "cycles": {
                "complete": counts.complete,
                "incomplete": counts.incomplete,
                "failed": counts.failed,
                "timed_out": counts.timed_out,
                "unfinished": counts.unfinished,
                "last_complete": timeline.last_complete,
                "usual_interval_ms": rhythm.usual().map(millis),
            },
            "skips": counts.skips,
            "not_syncing_ms": millis(timeline.outages.total(answer.as_of.unwrap_or(self.end))),
            "holders": timeline.holders.sorted().into_iter().map(holder).collect::<Vec<_>>(),
            "unreadable": unreadable_json(timeline),
            "failures": timeline.failures.latest(),
            "notices": timeline.notices.latest(),
            "gaps": {
                "limit_ms": millis(rhythm.limit()),
                "list": rhythm.gaps().iter().map(gap).collect::<Vec<_>>(),
            },
            "clock_went_back": { "count": timeline.clock_back.0, "most_ms": millis(timeline.clock_back.1) },
            "event_mode": timeline.event_mode,
            "sync_branch": timeline.sync_branch,
        })
    }
}

fn answer_json(timeline: &DatabaseTimeline, answer: &LogAnswer) -> Value {
    let is_about_lock = matches!(answer.state, "held" | "unreadable" | "busy");
    let streak = timeline.streak.as_ref().filter(|_| is_about_lock);
    let (holder, detail) = match streak.map(|streak| &streak.cause) {
        Some(SkipCause::Held(name)) => (Some(name), None),
        Some(SkipCause::Unreadable(why)) => (None, Some(&why.words)),
        _ => (None, None),
    };
    let lock = streak.map(|streak| streak.lock.clone()).unwrap_or_default();
    json!({
        "state": answer.state,
        "syncing": answer.syncing,
        "since": answer.since,
        "since_first_line": answer.is_first,
        "for_ms": answer.duration.map(millis),
        "as_of": answer.as_of,
        "message": answer.message,
        "holder": holder,
        "pid": lock.pid,
        "host": lock.host,
        "held_since": lock.since,
        "reason": lock.reason,
        "detail": detail,
        "silent_ms": answer.silent.map(millis),
        "more": answer.more,
        "next": answer.next,
        "reported": timeline.reported(),
    })
}

fn holder(row: &HolderRow) -> Value {
    let ended = ENDS
        .iter()
        .zip(row.ends)
        .map(|(word, count)| ((*word).to_owned(), json!(count)));
    json!({
        "holder": row.name,
        "claims": row.claims(),
        "skips": row.skips,
        "median_ms": row.median().map(millis),
        "longest_ms": row.longest().map(millis),
        "longest_since": row.longest_since,
        "total_ms": millis(row.total()),
        "last": row.last,
        "ended": ended.collect::<Map<_, _>>(),
    })
}

fn unreadable_json(timeline: &DatabaseTimeline) -> Vec<Value> {
    let mut latest: Vec<Value> = timeline
        .spans
        .unreadable()
        .rev()
        .take(UNREADABLE)
        .map(unreadable)
        .collect();
    latest.reverse();
    latest
}

fn unreadable(PastStreak { streak, until, end }: &PastStreak) -> Value {
    let detail = match &streak.cause {
        SkipCause::Unreadable(why) => why.words.as_str(),
        _ => "",
    };
    json!({
        "since": streak.since, "until": until, "for_ms": millis(until.since(streak.since)), "skips": streak.skips,
        "detail": detail, "end": ENDS[*end as usize],
    })
}

fn gap(gap: &LogGap) -> Value {
    json!({ "from": gap.from, "to": gap.to, "for_ms": millis(gap.to.since(gap.from)), "kind": gap.kind })
}
