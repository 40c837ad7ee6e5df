//! The report for people: first the answer, then the tables. No wider than a hundred columns where names allow.

use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::{escaped, escaped_path};

use super::agents::RunEnd;
use super::answer::{Answer, plural};
use super::holders::SpellEnd;
use super::repeats::Repeated;
use super::report::Report;
use super::rhythm::GapKind;
use super::spell::Cause;
use super::story::Story;
use super::table::{Side, Table, shortened};
use super::time::At;
use crate::output::talk::Talk;

/// As many rows of a table are shown; the JSON report has them all.
const ROWS: usize = 12;

/// And of what is only of use when it is recent.
const RECENT: usize = 5;

impl Report {
    /// Several databases, or several logs, are told apart by their names.
    pub fn text(&self, talk: &Talk) -> String {
        let mut text = String::new();
        for (story, answer) in &self.databases {
            text.push_str(&self.answer(story, answer, talk));
            text.push('\n');
        }
        text.push_str(&self.about());
        for (story, answer) in &self.databases {
            if self.databases.len() > 1 {
                text.push_str(&format!("\n{}\n", self.title(story)));
            }
            text.push_str(&self.database(story, answer));
        }
        text.push_str(&self.agents_table());
        text.push_str(&self.notes());
        text
    }

    fn title(&self, story: &Story) -> String {
        story.name.as_deref().map_or_else(|| self.name.clone(), |name| escaped(name).to_string())
    }

    fn answer(&self, story: &Story, answer: &Answer, talk: &Talk) -> String {
        let color = match answer.syncing {
            Some(true) => "32",
            Some(false) => "31",
            None => "33",
        };
        let (word, rest) = split_verdict(&answer.message);
        let mut text = format!("{}: {}{rest}\n", self.title(story), talk.painted_data(word, color));
        for (number, next) in answer.next.iter().enumerate() {
            let front = if number == 0 { "type:" } else { "     " };
            text.push_str(&format!("  {front} {}   ({})\n", next.command, next.why));
        }
        for line in &answer.more {
            text.push_str(&format!("  {line}\n"));
        }
        text
    }

    /// `daemon.log and 2 older files: 1234 lines, … to …`
    fn about(&self) -> String {
        let older = match self.files.len() {
            0 | 1 => String::new(),
            files => format!(" and {}", plural(files as u64 - 1, "older file")),
        };
        let first = self.databases.iter().filter_map(|(story, _)| story.first).min();
        let last = self.databases.iter().filter_map(|(story, _)| story.last).max();
        let range = match (first, last) {
            (Some(first), Some(last)) => format!(", {first} to {last}"),
            _ => String::new(),
        };
        format!("{}{older}: {}{range}\n", self.name, plural(self.lines.all, "line"))
    }

    fn database(&self, story: &Story, answer: &Answer) -> String {
        let end = answer.as_of.unwrap_or(self.end);
        let mut text = cycles(story, end);
        text.push_str(&holders(story));
        text.push_str(&unreadable(story));
        text.push_str(&repeated(["last failed", "times", "why"], &story.failures.latest()));
        text.push_str(&gaps(story));
        text.push_str(&repeated(["last said", "times", "notice"], &story.notices.latest()));
        if story.clock_back.0 > 0 {
            let (count, most) = (plural(story.clock_back.0, "time"), shown(story.clock_back.1));
            text.push_str(&format!(
                "\nthe clock went back {count}, by up to {most}: lengths may be off by that\n"
            ));
        }
        text
    }

    fn agents_table(&self) -> String {
        let runs = self.agents.runs();
        if runs.is_empty() {
            return String::new();
        }
        let (starts, stops, lost) = (self.agents.starts, self.agents.stops, self.agents.lost);
        let mut text = format!("\nagents: {}, {}", plural(starts, "start"), plural(stops, "stop"));
        if lost > 0 {
            text.push_str(&format!(", {lost} without a stop: killed or crashed"));
        }
        text.push('\n');
        let columns =
            [(Side::Left, 19), (Side::Left, 34), (Side::Right, 10), (Side::Left, 24), (Side::Left, 20)];
        let mut table = Table::new(["started", "ended", "PID", "host", "program"], columns);
        let is_told = |number: usize| number + RECENT >= runs.len();
        let lost: Vec<usize> = (0..runs.len()).filter(|number| runs[*number].end == RunEnd::Lost).collect();
        let is_lost = |number: usize| lost.iter().rev().take(RECENT).any(|lost| *lost == number);
        for (number, run) in runs.iter().enumerate() {
            if !is_told(number) && !is_lost(number) {
                continue;
            }
            let by =
                run.signal.as_deref().map(|signal| format!(" by {}", escaped(signal))).unwrap_or_default();
            table.row([
                run.started.map_or_else(|| "before this log".to_owned(), |at| at.to_string()),
                match run.end {
                    RunEnd::Running => "-".to_owned(),
                    RunEnd::Stopped(at) => format!("{at}{by}"),
                    RunEnd::Lost => format!("lost after {}", run.last),
                },
                run.pid.map(|pid| pid.to_string()).unwrap_or_default(),
                run.host.as_deref().map(|host| escaped(host).to_string()).unwrap_or_default(),
                escaped(&run.program).to_string(),
            ]);
        }
        text + &table.text(2)
    }

    fn notes(&self) -> String {
        let mut notes = Vec::new();
        if let Some(zone) = &self.local_zone {
            notes.push(format!(
                "times without a zone, as bd's daemon writes them, were taken as {zone}; $TZ says otherwise"
            ));
        }
        if self.lines.cut > 0 {
            notes.push(format!("{} longer than 64 KiB, read up to there", plural(self.lines.cut, "line")));
        }
        if !self.compressed.is_empty() {
            let first = self.compressed.first().map(|path| escaped_path(path)).unwrap_or_default();
            notes.push(format!(
                "not read, because compressed: {}, such as {first}; type: zcat FILE.gz | cat - FILE | beadlock log -",
                plural(self.compressed.len() as u64, "older file")
            ));
        }
        if notes.is_empty() { String::new() } else { format!("\n{}\n", notes.join("\n")) }
    }
}

/// `Not syncing` and what follows.
fn split_verdict(message: &str) -> (&str, &str) {
    let words = ["Not syncing", "Syncing", "Silent"];
    let length = words.iter().find(|word| message.starts_with(**word)).map_or(0, |word| word.len());
    message.split_at(length)
}

fn cycles(story: &Story, end: At) -> String {
    let counts = story.counts;
    let mut words = vec![format!("{} complete", counts.complete)];
    let mut add = |count: u64, word: &str| {
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    };
    add(counts.skips, "skipped");
    add(counts.failed, "failed");
    add(counts.timed_out, "timed out");
    add(counts.unfinished, "without an end");
    let usual =
        story.rhythm.usual().map(|usual| format!("; usually one every {}", shown(usual))).unwrap_or_default();
    let down = story.downtime.total(end);
    let down = match down {
        Duration::ZERO => String::new(),
        down => format!("; not syncing for {} in all", shown(down)),
    };
    format!("cycles: {}{usual}{down}\n", words.join(", "))
}

fn holders(story: &Story) -> String {
    let rows = story.holders.rows();
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        (Side::Left, 36),
        (Side::Right, 9),
        (Side::Right, 9),
        (Side::Right, 8),
        (Side::Right, 8),
        (Side::Left, 60),
    ];
    let mut table =
        Table::new(["held by", "claims", "skips", "median", "longest", "how they ended"], columns);
    for row in rows.iter().take(ROWS) {
        let ends = [
            (row.released, "released"),
            (row.removed_stale, "removed stale"),
            (row.taken_over, "taken over"),
            (row.agent_stopped, "agent stopped"),
            (row.open, "still held"),
        ];
        let ends = ends.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        table.row([
            escaped(&row.name).to_string(),
            row.claims().to_string(),
            row.skips.to_string(),
            row.median().map(shown).unwrap_or_default(),
            row.longest().map(shown).unwrap_or_default(),
            ends.collect::<Vec<_>>().join(", "),
        ]);
    }
    format!("\n{}{}", table.text(0), more(rows.len(), ROWS))
}

fn unreadable(story: &Story) -> String {
    if story.unreadable.is_empty() {
        return String::new();
    }
    let columns = [(Side::Left, 19), (Side::Right, 8), (Side::Right, 9), (Side::Left, 14), (Side::Left, 46)];
    let mut table = Table::new(["lock unreadable", "for", "skips", "then", "why"], columns);
    for past in story.unreadable.iter().rev().take(RECENT) {
        let then = match past.end {
            SpellEnd::Released => "gone or mended",
            SpellEnd::RemovedStale => "removed stale",
            SpellEnd::TakenOver => "held",
            SpellEnd::AgentStopped => "agent stopped",
            SpellEnd::Open => "still so",
        };
        let why = match &past.spell.cause {
            Cause::Unreadable(why) => escaped(why).to_string(),
            _ => String::new(),
        };
        table.row([
            past.spell.since.to_string(),
            shown(past.until.since(past.spell.since)),
            past.spell.skips.to_string(),
            then.to_owned(),
            why,
        ]);
    }
    let count = usize::try_from(story.counts.unreadable).unwrap_or(usize::MAX).max(story.unreadable.len());
    format!("\n{}{}", table.text(0), more(count, RECENT))
}

fn repeated(head: [&str; 3], found: &[&Repeated]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let columns = [(Side::Left, 19), (Side::Right, 7), (Side::Left, 72)];
    let mut table = Table::new(head, columns);
    for repeated in found.iter().take(RECENT) {
        table.row([
            repeated.last.to_string(),
            repeated.count.to_string(),
            escaped(&repeated.text).to_string(),
        ]);
    }
    format!("\n{}{}", table.text(0), more(found.len(), RECENT))
}

fn gaps(story: &Story) -> String {
    let gaps = story.rhythm.gaps();
    if gaps.is_empty() {
        return String::new();
    }
    let limit = shown(story.rhythm.limit());
    let columns = [(Side::Left, 19), (Side::Left, 19), (Side::Right, 8), (Side::Left, 50)];
    let title = "no line after";
    let mut table = Table::new([title, "until", "for", "what it was at"], columns);
    for gap in gaps.iter().rev().take(RECENT) {
        let what = match gap.kind {
            GapKind::Silent => "between cycles: hung, or the machine slept",
            GapKind::InCycle => "in the middle of a cycle",
            GapKind::Gone => "gone: killed or crashed, then started again",
        };
        table.row([gap.from.to_string(), gap.to.to_string(), shown(gap.to.since(gap.from)), what.to_owned()]);
    }
    let rule =
        format!("gaps are longer than {limit} (5 times the usual, at least a minute); stops are none\n");
    format!("\n{}{}{}", table.text(0), more(gaps.len(), RECENT), rule)
}

fn more(all: usize, shown: usize) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        left => shortened(&format!("and {left} more; all with --json"), 100) + "\n",
    }
}
