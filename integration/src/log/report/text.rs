//! The report for people: the answers, then the tables. Lines fit in a hundred columns where the names allow it.

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::{escaped, escaped_path};

use super::LogReport;
use super::answer::{LogAnswer, plural};
use crate::log::parse::time::LogTime;
use crate::log::timeline::agents::{AgentEnd, AgentRun};
use crate::log::timeline::database::DatabaseTimeline;
use crate::log::timeline::holders::HolderRow;
use crate::log::timeline::repeats::RepeatedMessage;
use crate::log::timeline::rhythm::GapKind;
use crate::log::timeline::streak::{PastStreak, SkipCause, StreakEnds};
use crate::output::table::Side::{Left, Right};
use crate::output::table::{Column, Table, terminal_width};
use crate::output::talk::Talk;

/// As many holders are shown; the JSON report has them all.
const ROWS: usize = 12;

/// As many rows of other tables are shown.
const RECENT: usize = 5;

/// The words for the ends of a claim.
const CLAIM_ENDS: StreakEnds<&str> = ["released", "removed stale", "taken over", "agent stopped", "still held"];

/// The words for the ends of an unreadable lock.
const UNREADABLE_ENDS: StreakEnds<&str> = ["gone or mended", "removed stale", "held", "agent stopped", "still so"];

impl LogReport {
    /// A database or a log has its name in front where there are several.
    pub fn text(&self, talk: &Talk) -> String {
        let answers = self.answers();
        let mut text = String::new();
        for (timeline, answer) in &answers {
            text += &format!("{}\n", self.answer_text(timeline, answer, talk));
        }
        text += &self.about();
        for (timeline, answer) in &answers {
            if answers.len() > 1 {
                text += &format!("\n{}\n", self.title(timeline));
            }
            text += &database_text(timeline, answer.as_of.unwrap_or(self.end));
        }
        text + &self.agents_table() + &self.notes()
    }

    fn title(&self, timeline: &DatabaseTimeline) -> String {
        timeline.name.as_deref().map_or_else(|| self.name(), |name| escaped(name).to_string())
    }

    fn answer_text(&self, timeline: &DatabaseTimeline, answer: &LogAnswer, talk: &Talk) -> String {
        let color = match answer.syncing {
            Some(true) => "32",
            Some(false) => "31",
            None => "33",
        };
        let verdict = ["Not syncing", "Syncing", "Silent"].into_iter();
        let verdict = verdict.filter(|verdict| answer.message.starts_with(verdict)).map(str::len).next();
        let (verdict, rest) = answer.message.split_at(verdict.unwrap_or(0));
        let mut text = format!("{}: {}{rest}\n", self.title(timeline), talk.painted_data(verdict, color));
        for (number, next) in answer.next.iter().enumerate() {
            let front = if number == 0 { "type:" } else { "     " };
            text += &format!("  {front} {}   ({})\n", next.command, next.why);
        }
        for line in &answer.more {
            text += &format!("  {line}\n");
        }
        text
    }

    /// `daemon.log and 2 older files: 1234 lines, … to …`
    fn about(&self) -> String {
        let older = match self.files.len() {
            0 | 1 => String::new(),
            files => format!(" and {}", plural(files as u64 - 1, "older file")),
        };
        let databases = &self.log.databases;
        let first = databases.iter().filter_map(|timeline| timeline.first).min();
        let last = databases.iter().filter_map(|timeline| timeline.last).max();
        let range = first.zip(last).map(|(first, last)| format!(", {first} to {last}")).unwrap_or_default();
        format!("{}{older}: {}{range}\n", self.name(), plural(self.log.lines.all, "line"))
    }

    fn agents_table(&self) -> String {
        let agents = &self.log.agents;
        let runs = agents.sorted();
        if runs.is_empty() {
            return String::new();
        }
        let mut text = format!("\nagents: {}, {}", plural(agents.starts, "start"), plural(agents.stops, "stop"));
        if agents.lost > 0 {
            text += &format!(", {} without a stop: killed or crashed", agents.lost);
        }
        text.push('\n');
        let columns =
            [("started", Left, 0), ("ended", Left, 1), ("PID", Right, 2), ("host", Left, 3), ("program", Left, 4)];
        let lost = (0..runs.len()).rev().filter(|number| runs[*number].end == AgentEnd::Lost);
        let lost: Vec<usize> = lost.take(RECENT).collect();
        let is_shown = |number: &usize| number + RECENT >= runs.len() || lost.contains(number);
        let rows = (0..runs.len()).filter(is_shown).map(|number| agent_row(runs[number]));
        text + &table(columns, rows)
    }

    fn notes(&self) -> String {
        let mut notes = Vec::new();
        if let Some(zone) = self.log.local_zone() {
            notes.push(format!(
                "times without a zone, as bd's daemon writes them, were taken as {zone}; $TZ says otherwise"
            ));
        }
        let cut = self.log.lines.cut;
        if cut > 0 {
            notes.push(format!("{} longer than 64 KiB, read up to there", plural(cut, "line")));
        }
        if let Some(first) = self.compressed.first() {
            let (count, first) = (plural(self.compressed.len() as u64, "older file"), escaped_path(first));
            notes.push(format!(
                "not read, because compressed: {count}, such as {first}; \
                 type: zcat FILE.gz | cat - FILE | beadlock log -"
            ));
        }
        if notes.is_empty() { String::new() } else { format!("\n{}\n", notes.join("\n")) }
    }
}

fn database_text(timeline: &DatabaseTimeline, end: LogTime) -> String {
    let mut text = cycles(timeline, end)
        + &holders(&timeline.holders.sorted())
        + &unreadable(timeline)
        + &repeated(["last failed", "times", "why"], &timeline.failures.latest())
        + &gaps(timeline)
        + &repeated(["last said", "times", "notice"], &timeline.notices.latest());
    if timeline.clock_back.0 > 0 {
        let (count, most) = (plural(timeline.clock_back.0, "time"), shown(timeline.clock_back.1));
        text += &format!("\nthe clock went back {count}, by up to {most}: lengths may be off by that\n");
    }
    text
}

fn cycles(timeline: &DatabaseTimeline, end: LogTime) -> String {
    let counts = timeline.counts;
    let mut text = format!("cycles: {} complete", counts.complete);
    for (count, what) in [
        (counts.skips, "skipped"),
        (counts.failed, "failed"),
        (counts.timed_out, "timed out"),
        (counts.unfinished, "without an end"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if let Some(usual) = timeline.rhythm.usual() {
        text += &format!("; usually one every {}", shown(usual));
    }
    let outages = timeline.outages.total(end);
    if !outages.is_zero() {
        text += &format!("; not syncing for {} in all", shown(outages));
    }
    text + "\n"
}

fn holders(rows: &[&HolderRow]) -> String {
    let columns = [
        ("held by", Left, 0),
        ("claims", Right, 1),
        ("skips", Right, 3),
        ("median", Right, 4),
        ("longest", Right, 2),
        ("how they ended", Left, 0),
    ];
    let row = |row: &&HolderRow| {
        let ends = CLAIM_ENDS.iter().zip(row.ends).filter(|(_, count)| *count > 0);
        let ends: Vec<String> = ends.map(|(word, count)| format!("{count} {word}")).collect();
        [
            escaped(&row.name).to_string(),
            row.claims().to_string(),
            row.skips.to_string(),
            row.median().map(shown).unwrap_or_default(),
            row.longest().map(shown).unwrap_or_default(),
            ends.join(", "),
        ]
    };
    section(columns, rows.iter().take(ROWS).map(row), rows.len())
}

fn unreadable(timeline: &DatabaseTimeline) -> String {
    let columns =
        [("lock unreadable", Left, 0), ("for", Right, 1), ("skips", Right, 3), ("then", Left, 2), ("why", Left, 0)];
    let row = |PastStreak { streak, until, end }: &PastStreak| {
        let why = match &streak.cause {
            SkipCause::Unreadable(why) => escaped(why).to_string(),
            _ => String::new(),
        };
        [
            streak.since.to_string(),
            shown(until.since(streak.since)),
            streak.skips.to_string(),
            UNREADABLE_ENDS[*end as usize].to_owned(),
            why,
        ]
    };
    let all = usize::try_from(timeline.counts.unreadable).unwrap_or(usize::MAX);
    let streaks = &timeline.unreadable;
    section(columns, streaks.iter().rev().take(RECENT).map(row), all.max(streaks.len()))
}

fn repeated([last, times, what]: [&str; 3], messages: &[&RepeatedMessage]) -> String {
    let columns = [(last, Left, 1), (times, Right, 2), (what, Left, 0)];
    let row = |repeated: &&RepeatedMessage| {
        let message = escaped(&repeated.message).to_string();
        [repeated.last.to_string(), repeated.count.to_string(), message]
    };
    section(columns, messages.iter().take(RECENT).map(row), messages.len())
}

fn gaps(timeline: &DatabaseTimeline) -> String {
    let (gaps, limit) = (timeline.rhythm.gaps(), shown(timeline.rhythm.limit()));
    if gaps.is_empty() {
        return String::new();
    }
    let columns = [("no line after", Left, 0), ("until", Left, 1), ("for", Right, 0), ("what it was at", Left, 0)];
    let rows = gaps.iter().rev().take(RECENT).map(|gap| {
        let what = match gap.kind {
            GapKind::Silent => "between cycles: hung, or the machine slept",
            GapKind::InCycle => "in the middle of a cycle",
            GapKind::Gone => "gone: killed or crashed, then started again",
        };
        [gap.from.to_string(), gap.to.to_string(), shown(gap.to.since(gap.from)), what.to_owned()]
    });
    let rule = format!("gaps are longer than {limit} (5 times the usual, at least a minute); stops are none\n");
    section(columns, rows, gaps.len()) + &rule
}

fn agent_row(run: &AgentRun) -> [String; 5] {
    let by = run.signal.as_deref().map(|signal| format!(" by {}", escaped(signal))).unwrap_or_default();
    [
        run.started.map_or_else(|| "before this log".to_owned(), |at| at.to_string()),
        match run.end {
            AgentEnd::Running => "-".to_owned(),
            AgentEnd::Stopped => format!("{}{by}", run.last),
            AgentEnd::Lost => format!("lost after {}", run.last),
        },
        run.id.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        run.id.host.as_deref().map(|host| escaped(host).to_string()).unwrap_or_default(),
        escaped(&run.id.program).to_string(),
    ]
}

fn table<const COUNT: usize>(columns: [Column<'_>; COUNT], rows: impl Iterator<Item = [String; COUNT]>) -> String {
    let mut table = Table::new(columns);
    rows.for_each(|row| table.row(row));
    table.text(terminal_width())
}

/// A blank line, a table, and how many of `all` rows it leaves out. Nothing without a row.
fn section<const COUNT: usize>(
    columns: [Column<'_>; COUNT],
    rows: impl ExactSizeIterator<Item = [String; COUNT]>,
    all: usize,
) -> String {
    let rest = match all.saturating_sub(rows.len()) {
        0 => String::new(),
        left => format!("and {left} more; all with --json\n"),
    };
    if rows.len() == 0 { String::new() } else { format!("\n{}{rest}", table(columns, rows)) }
}
