//! The report for people: the answers, then the tables. Lines fit into a terminal where names and commands allow it.

use beadlock_base::duration::shown;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::agent_process::ProcessState;

use super::page::Page;
use super::{LogAnswer, LogReport, STATES};
use crate::parse::time::LogTime;
use crate::timeline::{
    agents::{AgentEnd, AgentRun},
    database::DatabaseTimeline,
    holders::HolderRow,
    repeats::RepeatedMessage,
    rhythm::GapKind,
    streak::{PastStreak, SkipCause, StreakEnds},
};
use beadlock_base::words::counted;
use beadlock_console::table::Alignment::{Left, Right};
use beadlock_console::table::Column;

/// Most holders that are shown; the JSON report has them all.
const ROWS: usize = 12;

/// Most rows of other tables that are shown.
const RECENT: usize = 5;

/// Most characters of the name of one of several databases on a terminal.
const NAME: usize = 28;

/// The words for the ends of a claim.
pub const CLAIM_ENDS: StreakEnds<&str> = [
    "released",
    "removed stale",
    "taken over",
    "agent stopped",
    "still held",
];

/// The words for the ends of an unreadable lock.
pub const UNREADABLE_ENDS: StreakEnds<&str> = [
    "gone or mended",
    "removed stale",
    "held",
    "agent stopped",
    "still so",
];

/// One database in all: its answer, and its tables. Several: one line each, the worst first, and then the details of
/// those that somebody should look at.
pub fn text(reports: &[LogReport], page: &Page<'_>) -> String {
    let of = |report| AnsweredDatabase::all(report);
    let mut logs: Vec<(&LogReport, Vec<AnsweredDatabase<'_>>)> =
        reports.iter().map(|report| (report, of(report))).collect();
    let count: usize = logs.iter().map(|(_, databases)| databases.len()).sum();
    if count <= 1 {
        return logs
            .iter()
            .map(|(report, databases)| report.text(&databases.iter().collect::<Vec<_>>(), page))
            .collect();
    }
    let mut all: Vec<&AnsweredDatabase<'_>> =
        logs.iter().flat_map(|(_, databases)| databases).collect();
    all.sort_by_key(|database| (database.answer.rank(), database.answer.since));
    let mut text = summary(&all, page);
    logs.sort_by_key(|(_, databases)| {
        databases
            .iter()
            .map(|database| database.answer.rank())
            .min()
    });
    for (report, databases) in &logs {
        let trouble: Vec<&AnsweredDatabase<'_>> = databases
            .iter()
            .filter(|database| database.answer.is_trouble())
            .collect();
        if !trouble.is_empty() || reports.len() == 1 {
            text += &format!("\n{}", report.text(&trouble, page));
        }
    }
    text
}

/// A database and its answer.
struct AnsweredDatabase<'a> {
    title: String,
    /// When the report ends.
    end: LogTime,
    timeline: &'a DatabaseTimeline,
    answer: LogAnswer,
}

impl<'a> AnsweredDatabase<'a> {
    fn all(report: &'a LogReport) -> Vec<Self> {
        let answers = report.answers();
        let named = |(timeline, answer)| Self {
            title: report.title(timeline),
            end: report.end,
            timeline,
            answer,
        };
        let mut all: Vec<Self> = answers.map(named).collect();
        all.sort_by_key(|database| database.answer.rank());
        all
    }
}

fn summary(all: &[&AnsweredDatabase<'_>], page: &Page<'_>) -> String {
    let columns = [
        ("database", Left, 0),
        ("state", Left, 0),
        ("since", Left, 2),
        ("for", Right, 1),
        ("why", Left, 0),
    ];
    let row = |AnsweredDatabase {
                   title, end, answer, ..
               }: &&AnsweredDatabase<'_>| {
        // The time today, else the day.
        let short = |since: LogTime| match since.is_same_day(*end) {
            true => since.time_of_day(),
            false => since.day(),
        };
        [
            page.name(title, NAME),
            STATES[answer.rank()].1.to_owned(),
            answer.since.map(short).unwrap_or_default(),
            answer.duration.map(shown).unwrap_or_default(),
            answer.because.clone(),
        ]
    };
    page.summary(columns, all.iter().map(row).collect())
}

impl LogReport {
    /// A database has its name in front of its tables where there are several.
    fn text(&self, databases: &[&AnsweredDatabase<'_>], page: &Page<'_>) -> String {
        let mut text: String = databases
            .iter()
            .map(|database| format!("{}\n", answer_text(database, page)))
            .collect();
        text += &self.about(page);
        for AnsweredDatabase {
            title,
            timeline,
            answer,
            ..
        } in databases
        {
            if self.log.databases.len() > 1 {
                text += &format!("\n{}", page.prose(0, title));
            }
            text += &database_text(timeline, answer.as_of.unwrap_or(self.end), page);
        }
        text + &self.agents_table(page) + &self.notes(page)
    }

    /// The name of a database, for people.
    pub fn title(&self, timeline: &DatabaseTimeline) -> String {
        timeline
            .name
            .as_deref()
            .map_or_else(|| self.name(), |name| escaped(name).to_string())
    }

    /// `daemon.log and 2 older files: 1234 lines, … to …`
    fn about(&self, page: &Page<'_>) -> String {
        let older = match self.files.len() {
            0 | 1 => String::new(),
            files => format!(" and {}", counted(files - 1, "older file", "older files")),
        };
        let databases = &self.log.databases;
        let first = databases.iter().filter_map(|timeline| timeline.first).min();
        let last = databases.iter().filter_map(|timeline| timeline.last).max();
        let range = first
            .zip(last)
            .map(|(first, last)| format!(", {first} to {last} UTC"))
            .unwrap_or_default();
        let lines = counted(self.log.lines.all, "line", "lines");
        page.prose(0, &format!("{}{older}: {lines}{range}", self.name()))
    }

    fn agents_table(&self, page: &Page<'_>) -> String {
        let agents = &self.log.agents;
        let runs = agents.all();
        if runs.is_empty() {
            return String::new();
        }
        let [starts, stops] = [
            (agents.starts, "start", "starts"),
            (agents.stops, "stop", "stops"),
        ]
        .map(|(count, one, many)| counted(count, one, many));
        let lost = match agents.lost {
            0 => String::new(),
            lost => format!(", {lost} without a stop: killed or crashed"),
        };
        let columns = [
            ("started", Left, 0),
            ("ended", Left, 1),
            ("PID", Right, 2),
            ("host", Left, 4),
            ("program", Left, 3),
        ];
        let is_recent = |number: usize| number + RECENT >= runs.len();
        let shown = runs
            .iter()
            .enumerate()
            .filter(|(number, run)| is_recent(*number) || run.end == AgentEnd::Lost);
        let mut rows: Vec<_> = shown
            .rev()
            .take(2 * RECENT)
            .map(|(_, run)| agent_row(run))
            .collect();
        rows.reverse();
        let head = page.prose(0, &format!("agents: {starts}, {stops}{lost}"));
        format!("\n{head}{}", page.table(columns, rows))
    }

    fn notes(&self, page: &Page<'_>) -> String {
        let mut notes = Vec::new();
        if let Some(zone) = self.log.local_zone() {
            notes.push(format!(
                "times without a zone, as bd's daemon writes them, were taken as {zone}; $TZ says otherwise"
            ));
        }
        let cut = self.log.lines.cut;
        if cut > 0 {
            notes.push(format!(
                "{} longer than 64 KiB, read up to there",
                counted(cut, "line", "lines")
            ));
        }
        if let Some(first) = self.compressed.first() {
            let count = counted(self.compressed.len(), "older file", "older files");
            let first = escaped_path(first);
            notes.push(format!(
                "not read, because compressed: {count}, such as {first}; \
                 type: zcat FILE.gz | cat - FILE | beadlock log -"
            ));
        }
        let branch = self
            .log
            .databases
            .iter()
            .find_map(|timeline| timeline.sync_branch.as_deref());
        if let Some(branch) = branch {
            let branch = escaped(branch);
            notes.push(format!(
                "sync-branch mode: bd commits to {branch} in a worktree of its own; beadlock-agent --action git does \
                 not support it, --exec 'bd sync' does"
            ));
        }
        let notes: String = notes.iter().map(|note| page.prose(0, note)).collect();
        if notes.is_empty() {
            notes
        } else {
            format!("\n{notes}")
        }
    }
}

fn answer_text(
    AnsweredDatabase { title, answer, .. }: &AnsweredDatabase<'_>,
    page: &Page<'_>,
) -> String {
    let color = match answer.syncing {
        Some(true) => "32",
        Some(false) => "31",
        None => "33",
    };
    let mut text = page.prose(0, &format!("{title}: {}", answer.message));
    let verdict = answer.verdict;
    if !verdict.is_empty() {
        let painted = page.talk.painted_data(verdict, color);
        text = text.replacen(&format!(": {verdict}"), &format!(": {painted}"), 1);
    }
    for (number, next) in answer.next.iter().enumerate() {
        let front = if number == 0 { "  type: " } else { "        " };
        text += &page.command(front, &next.command, &next.why);
    }
    answer
        .more
        .iter()
        .for_each(|line| text += &page.prose(2, line));
    text
}

fn database_text(timeline: &DatabaseTimeline, end: LogTime, page: &Page<'_>) -> String {
    let mut text = page.prose(0, &timeline.cycles_text(end))
        + &holders(&timeline.holders.sorted(), page)
        + &unreadable(timeline, page)
        + &repeated(
            ["last failed", "times", "why"],
            &timeline.failures.latest(),
            page,
        )
        + &gaps(timeline, page)
        + &repeated(
            ["last said", "times", "notice"],
            &timeline.notices.latest(),
            page,
        );
    if timeline.clock_back.0 > 0 {
        let (count, most) = (
            counted(timeline.clock_back.0, "time", "times"),
            shown(timeline.clock_back.1),
        );
        let back =
            format!("the clock went back {count}, by up to {most}: lengths may be off by that");
        text += &format!("\n{}", page.prose(0, &back));
    }
    text
}

impl DatabaseTimeline {
    /// `cycles: 3 complete, 1 skipped; usually one every 30s; not syncing for 5m in all`
    pub fn cycles_text(&self, end: LogTime) -> String {
        let counts = self.counts;
        let mut text = format!("cycles: {} complete", counts.complete);
        for (count, what) in [
            (counts.skips, "skipped"),
            (counts.incomplete, "incomplete"),
            (counts.failed, "failed"),
            (counts.timed_out, "timed out"),
            (counts.unfinished, "without an end"),
        ] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        // The log has whole seconds.
        if let Some(usual) = self.rhythm.usual().filter(|usual| !usual.is_zero()) {
            text += &format!("; usually one every {}", shown(usual));
        }
        let outages = self.outages.total(end);
        if !outages.is_zero() {
            text += &format!("; not syncing for {} in all", shown(outages));
        }
        text
    }
}

fn holders(rows: &[&HolderRow], page: &Page<'_>) -> String {
    let columns = [
        ("held by", Left, 0),
        ("claims", Right, 1),
        ("skips", Right, 3),
        ("median", Right, 4),
        ("longest", Right, 2),
        ("how they ended", Left, 0),
    ];
    let row = |row: &&HolderRow| {
        let ends = CLAIM_ENDS
            .iter()
            .zip(row.ends)
            .filter(|(_, count)| *count > 0);
        let ends: Vec<String> = ends
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        [
            escaped(&row.name).to_string(),
            row.claims().to_string(),
            row.skips.to_string(),
            row.median().map(shown).unwrap_or_default(),
            row.longest().map(shown).unwrap_or_default(),
            ends.join(", "),
        ]
    };
    section(
        columns,
        rows.iter().take(ROWS).map(row).collect(),
        rows.len(),
        page,
    )
}

fn unreadable(timeline: &DatabaseTimeline, page: &Page<'_>) -> String {
    let columns = [
        ("lock unreadable", Left, 0),
        ("for", Right, 1),
        ("skips", Right, 3),
        ("then", Left, 2),
        ("why", Left, 0),
    ];
    let row = |PastStreak { streak, until, end }: &PastStreak| {
        let why = match &streak.cause {
            SkipCause::Unreadable(why) => escaped(&why.words).to_string(),
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
    let rows: Vec<_> = timeline
        .spans
        .unreadable()
        .rev()
        .take(RECENT)
        .map(row)
        .collect();
    let all = all.max(rows.len());
    section(columns, rows, all, page)
}

fn repeated(
    [last, times, what]: [&str; 3],
    messages: &[&RepeatedMessage],
    page: &Page<'_>,
) -> String {
    let columns = [(last, Left, 1), (times, Right, 2), (what, Left, 0)];
    let row = |repeated: &&RepeatedMessage| {
        let message = escaped(&repeated.message).to_string();
        [
            repeated.last.to_string(),
            repeated.count.to_string(),
            message,
        ]
    };
    section(
        columns,
        messages.iter().take(RECENT).map(row).collect(),
        messages.len(),
        page,
    )
}

fn gaps(timeline: &DatabaseTimeline, page: &Page<'_>) -> String {
    let (gaps, limit) = (timeline.rhythm.gaps(), shown(timeline.rhythm.limit()));
    if gaps.is_empty() {
        return String::new();
    }
    let columns = [
        ("no line after", Left, 0),
        ("until", Left, 1),
        ("for", Right, 0),
        ("what it was at", Left, 0),
    ];
    let rows = gaps.iter().rev().take(RECENT).map(|gap| {
        let what = match gap.kind {
            GapKind::Silent => "between cycles: hung, or the machine slept",
            GapKind::InCycle => "in the middle of a cycle",
            GapKind::Gone => "gone: killed or crashed, then started again",
        };
        [
            gap.from.to_string(),
            gap.to.to_string(),
            shown(gap.to.since(gap.from)),
            what.to_owned(),
        ]
    });
    let rule = format!(
        "gaps are longer than {limit} (5 times the usual, at least a minute); stops do not count"
    );
    section(columns, rows.collect(), gaps.len(), page) + &page.prose(0, &rule)
}

fn agent_row(run: &AgentRun) -> [String; 5] {
    let by = run
        .signal
        .as_deref()
        .map(|signal| format!(" by {}", escaped(signal)))
        .unwrap_or_default();
    [
        run.started
            .map_or_else(|| "before this log".to_owned(), |at| at.to_string()),
        match run.end {
            AgentEnd::Running if run.process == ProcessState::Stopped => "halted".to_owned(),
            AgentEnd::Running => "-".to_owned(),
            AgentEnd::Stopped => format!("{}{by}", run.last),
            AgentEnd::Lost => format!("lost after {}", run.last),
        },
        run.id.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        run.id
            .host
            .as_deref()
            .map(|host| escaped(host).to_string())
            .unwrap_or_default(),
        match run.id.database.as_deref() {
            Some(database) => format!("{} of {}", escaped(&run.id.program), escaped(database)),
            None => escaped(&run.id.program).to_string(),
        },
    ]
}

/// A blank line, a table, and how many of `all` rows it leaves out. Nothing without a row.
fn section<const COUNT: usize>(
    columns: [Column<'_>; COUNT],
    rows: Vec<[String; COUNT]>,
    all: usize,
    page: &Page<'_>,
) -> String {
    let rest = match all.saturating_sub(rows.len()) {
        0 => String::new(),
        left => format!("and {left} more; all with --json\n"),
    };
    if rows.is_empty() {
        return rest;
    }
    format!("\n{}{rest}", page.table(columns, rows))
}
