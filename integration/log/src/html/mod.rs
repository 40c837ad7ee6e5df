//! `beadlock log --html`: the timelines as one page that needs nothing else, neither a network nor a server
//! (docs/guide/looking.md).
//!
//! Names from a log are untrusted. In the markup they are escaped; the script gets them as JSON and sets them as text.
//! The page's Content-Security-Policy allows its own style and script alone, by their hashes.

mod data;

use std::fmt::Write;

use beadlock_core::facts;

use self::data::HtmlRange;
use super::parse::time::LogTime;
use super::report::{LogAnswer, LogReport, STATES};
use super::timeline::database::DatabaseTimeline;
use super::timeline::repeats::RepeatedMessage;
use beadlock_base::escape::escaped;
use beadlock_base::words::counted;
use beadlock_console::base64;
use beadlock_console::table::{common_directory, short_name};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Most failures of a database that are listed.
const FAILURES: usize = 10;

/// Most holders of a database that are listed.
const HOLDERS: usize = 30;

/// A database of a page.
#[derive(Debug)]
struct HtmlDatabase<'a> {
    /// Index of its log among the reports.
    log: usize,
    id: String,
    title: String,
    /// The title without what all databases have in common.
    short: String,
    timeline: &'a DatabaseTimeline,
    answer: LogAnswer,
    since: Option<LogTime>,
    /// The log speaks for the time up to here.
    end: LogTime,
}

/// The page about these logs, the worst database first.
pub fn page(reports: &[LogReport], now: LogTime) -> String {
    let mut databases: Vec<HtmlDatabase<'_>> =
        reports.iter().enumerate().flat_map(of_log).collect();
    databases.sort_by_key(|database| (database.answer.rank(), database.answer.since));
    shorten(&mut databases);
    let (data, range) = data::data(&databases, reports);
    let lines: u64 = reports.iter().map(|report| report.log.lines.all).sum();
    let about = format!(
        "{} in {}, {} to {} UTC; made {now} UTC",
        counted(databases.len(), "database", "databases"),
        counted(lines, "line", "lines"),
        LogTime(range.from * 1000),
        LogTime(range.to * 1000),
    );
    let mut body = String::new();
    for database in &databases {
        body += &section(database);
    }
    // In JSON a `<` occurs in strings only. Without one no text can end the element.
    let data = data.to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src {}; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>beadlock log: {}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<header><h1>beadlock log</h1>\n<p class=\"about\">{}</p></header>\n{}<main>\n\
         {}{body}</main>\n\
         <footer>{}</footer>\n\
         <div id=\"tip\" role=\"tooltip\" hidden></div><div id=\"live\" class=\"sr\" aria-live=\"polite\"></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        hash(STYLE),
        hash(SCRIPT),
        markup(databases.first().map_or("", |database| &database.short)),
        markup(&about),
        controls(range),
        legend(),
        KEYS,
    )
}

const KEYS: &str = "All times are UTC. Drag over a timeline to choose a range, double-click for all; Ctrl and \
    the wheel zoom. A click on an entry puts a link to it into the address. Keys on a timeline: left and right go \
    through its entries, Shift with them moves the range, + and - zoom, 0 shows everything.";

/// Leaves out of each title what all have in common, and the name of the log; of a single path all but the last directory.
fn shorten(databases: &mut [HtmlDatabase<'_>]) {
    let titles: Vec<String> = databases
        .iter()
        .map(|database| database.title.clone())
        .collect();
    let common = common_directory(titles.iter().map(String::as_str)).unwrap_or("");
    for database in databases {
        let title = &database.title;
        let title = title.strip_suffix("/daemon.log").unwrap_or(title);
        let dir = title.strip_suffix("/.beads").unwrap_or(title);
        let above = match titles.len() {
            1 => dir.rfind('/').map_or("", |end| &title[..=end]),
            _ => common,
        };
        database.short = short_name(title, above).to_owned();
    }
}

fn of_log<'a>((number, report): (usize, &'a LogReport)) -> impl Iterator<Item = HtmlDatabase<'a>> {
    report
        .answers()
        .enumerate()
        .map(move |(at, (timeline, answer))| HtmlDatabase {
            log: number,
            id: format!("db-{number}-{at}"),
            title: report.title(timeline),
            short: String::new(),
            timeline,
            since: report.log.window.since,
            end: answer.as_of.or(timeline.last).unwrap_or(report.end),
            answer,
        })
}

/// The source of a style or a script, for the policy.
fn hash(text: &str) -> String {
    let hex = facts::sha256(text.as_bytes());
    let digits = hex.trim_start_matches("sha256:").as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0);
    let byte = |two: &[u8]| two.iter().fold(0, |number, byte| number << 4 | digit(byte));
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|two| u8::try_from(byte(two)).unwrap_or(0))
        .collect();
    format!("'sha256-{}'", base64::encoded(&bytes))
}

/// A text in markup, between tags and in quoted attributes.
fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

fn controls(range: HtmlRange) -> String {
    let stamp = |seconds: i64| LogTime(seconds * 1000).to_string();
    let (from, to) = (stamp(range.from), stamp(range.to));
    let field = |id: &str, value: &str| {
        format!(
            "<label class=\"when\">{id} <input id=\"{id}\" value=\"{value}\" size=\"19\" spellcheck=\"false\" \
             autocomplete=\"off\" placeholder=\"YYYY-MM-DD hh:mm:ss\"> UTC</label>"
        )
    };
    let buttons: String = [
        ("all", "all"),
        ("604800", "7 days"),
        ("86400", "24 hours"),
        ("3600", "1 hour"),
    ]
    .iter()
    .map(|(seconds, words)| {
        format!("<button type=\"button\" data-seconds=\"{seconds}\">{words}</button>")
    })
    .collect();
    format!(
        "<div class=\"bar needs-script\" hidden><div><svg id=\"overview\" aria-hidden=\"true\"></svg>\
         <div class=\"ranges\" role=\"group\" aria-label=\"Range, back from the end\">{buttons}</div>{}{}\
         <label>find <input type=\"search\" id=\"filter\" placeholder=\"database or holder\"></label></div></div>\n\
         <noscript><p class=\"about\">The timelines need a script, which is in this page; the tables do \
         not.</p></noscript>\n",
        field("from", &from),
        field("to", &to),
    )
}

/// The meaning of the overview's colours, and the hatches that the timelines use. Each timeline has a legend of its own.
fn legend() -> String {
    let mut text =
        "<svg width=\"0\" height=\"0\" class=\"sr\" aria-hidden=\"true\"><defs>".to_owned();
    for name in ["off", "bad", "busy"] {
        let size = if name == "busy" { 4 } else { 6 };
        let _ = write!(
            text,
            "<pattern id=\"hatch-{name}\" width=\"{size}\" height=\"{size}\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><line class=\"hatch-line hatch-{name}\" x1=\"0\" y1=\"0\" x2=\"0\" \
             y2=\"{size}\"/></pattern>"
        );
    }
    text += "</defs></svg><ul class=\"legend needs-script\" hidden><li>at the top, the worst of each moment:</li>";
    for (class, words) in [
        ("complete", "complete"),
        ("s-skipped", "skipped"),
        ("incomplete", "not pushed, incomplete"),
        ("unreadable", "lock that cannot be checked"),
        ("failed", "failed"),
    ] {
        let _ = write!(
            text,
            "<li><svg aria-hidden=\"true\"><rect class=\"{class}\" x=\"1\" y=\"1\" width=\"12\" height=\"10\" \
             rx=\"2\"/></svg>{words}</li>"
        );
    }
    text + "</ul>\n"
}

fn section(database: &HtmlDatabase<'_>) -> String {
    let HtmlDatabase {
        id,
        title,
        short,
        timeline,
        answer,
        end,
        ..
    } = database;
    // A claim is nothing that has failed.
    let class = match (answer.state, answer.syncing) {
        ("held" | "busy", _) => "skipped",
        (_, Some(true)) => "good",
        (_, Some(false)) => "bad",
        (_, None) => "unsure",
    };
    let words = STATES[answer.rank()].1;
    let mut text = format!(
        "<section class=\"db\" id=\"{id}\" aria-labelledby=\"{id}-name\">\n<div class=\"title\">\
         <h2 id=\"{id}-name\" title=\"{}\">{}</h2><span class=\"verdict {class}\">{}</span></div>\n<p>{}</p>\n",
        markup(title),
        markup(short),
        markup(words),
        markup(&answer.message),
    );
    for line in &answer.more {
        let _ = writeln!(text, "<p class=\"figures\">{}</p>", markup(line));
    }
    if !answer.next.is_empty() {
        text += "<ul class=\"next\">";
        for next in &answer.next {
            let _ = write!(
                text,
                "<li><code>{}</code> <span>{}</span></li>",
                markup(&next.command),
                markup(&next.why)
            );
        }
        text += "</ul>\n";
    }
    let _ = writeln!(
        text,
        "<div class=\"timeline needs-script\" hidden tabindex=\"0\" role=\"group\" aria-roledescription=\"timeline\" \
         aria-label=\"Timeline of {}; left and right go through its entries\"></div>\n<dl class=\"lanes needs-script\" \
         hidden></dl>\n<p class=\"figures\">{}</p>",
        markup(short),
        markup(&timeline.cycles_text(*end)),
    );
    if let Some(words) = dropped(timeline) {
        let _ = writeln!(text, "<p class=\"figures\">{}</p>", markup(&words));
    }
    let tables = format!(
        "{}{}",
        holders(timeline),
        failures(&timeline.failures.latest())
    );
    if !tables.is_empty() {
        let _ = writeln!(text, "<div class=\"tables\">{tables}</div>");
    }
    text += "<details class=\"list needs-script\" hidden><summary>As a list</summary></details>\n</section>\n";
    text
}

/// Sentence about the spans that the timeline leaves out of a very long log; `None`: it shows all.
fn dropped(timeline: &DatabaseTimeline) -> Option<String> {
    let spans = &timeline.spans;
    let lists = [
        (spans.dropped.streaks, spans.streaks.len(), "claims"),
        (spans.dropped.states, spans.states.len(), "states"),
        (spans.dropped.marks, spans.marks.len(), "notices"),
    ];
    let shown: Vec<String> = lists
        .iter()
        .filter(|(dropped, ..)| *dropped > 0)
        .map(|(dropped, kept, what)| format!("the last {kept} {what} of {}", dropped + kept))
        .collect();
    (!shown.is_empty()).then(|| {
        format!(
            "The timeline shows {}; the table of holders has all of them while the whole range is shown. For those \
             before: beadlock log --html --until T",
            shown.join(", ")
        )
    })
}

fn table(
    class: &str,
    title: &str,
    heads: &[&str],
    rows: &[Vec<String>],
    is_number: impl Fn(usize) -> bool,
) -> String {
    let class_of = |at: usize| if is_number(at) { " class=\"n\"" } else { "" };
    let mut text =
        format!("<div><h3>{title}</h3><div class=\"wide\"><table class=\"{class}\"><thead><tr>");
    for (at, head) in heads.iter().enumerate() {
        let _ = write!(text, "<th scope=\"col\"{}>{head}</th>", class_of(at));
    }
    text += "</tr></thead><tbody>";
    for row in rows {
        text += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(text, "<td{}>{}</td>", class_of(at), markup(cell));
        }
        text += "</tr>";
    }
    text + "</tbody></table></div></div>"
}

/// The holders. The script limits the rows to the chosen range.
fn holders(timeline: &DatabaseTimeline) -> String {
    let shown = |length: Option<std::time::Duration>| {
        length
            .map(beadlock_base::duration::shown)
            .unwrap_or_default()
    };
    let all = timeline.holders.sorted();
    let rows: Vec<Vec<String>> = all
        .iter()
        .take(HOLDERS)
        .map(|row| {
            vec![
                escaped(&row.name).to_string(),
                row.claims().to_string(),
                row.skips.to_string(),
                shown(row.median()),
                shown(row.longest()),
                shown(Some(row.total())),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = ["holder", "claims", "skips", "median", "longest", "in all"];
    let title = titled("Holders", "longest", HOLDERS, all.len());
    table("holders", &title, &heads, &rows, |at| at > 0)
}

/// The title of a table that has only some of all rows.
fn titled(title: &str, which: &str, most: usize, all: usize) -> String {
    if all > most {
        format!("{title}, the {most} {which} of {all}")
    } else {
        title.to_owned()
    }
}

fn failures(messages: &[&RepeatedMessage]) -> String {
    if messages.is_empty() {
        return String::new();
    }
    let row = |failure: &&RepeatedMessage| {
        vec![
            failure.last.to_string(),
            failure.count.to_string(),
            escaped(&failure.message).to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = messages.iter().take(FAILURES).map(row).collect();
    table(
        "failures",
        &titled("Failures", "latest", FAILURES, messages.len()),
        &["last (UTC)", "times", "why"],
        &rows,
        |at| at == 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(markup("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
    }

    #[test]
    fn the_hash_is_that_of_the_policy() {
        // printf %s 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert_eq!(
            hash("alert(1)"),
            "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
        );
    }
}
