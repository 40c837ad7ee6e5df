//! How the view looks: a line about the whole, a line for each agent, the table, the details of the chosen row, and the
//! keys.

mod columns;
mod help;

use ratatui::Frame;
use ratatui::buffer::Cell;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use self::columns::{Columns, STATE, fitted, laid_out};
use super::app::{TopAgent, TopApp};
use super::row::{TopRow, whole_seconds};
use beadlock_base::words::counted;
use beadlock_console::table::{common_directory, short_name};
use beadlock_log::parse::time::LogTime;
use beadlock_log::tail::HistoryCell;

/// The most agents with a line each. With more agents, only those that do not answer have a line.
const AGENTS: u16 = 4;

/// The number of lines that the details need, with their border.
const DETAILS: u16 = 8;

/// The least height of a terminal, in lines, for details beside the table.
const LOW: u16 = 16;

const KEYS: [(&str, &str); 8] = [
    ("q", "quit"),
    ("/", "filter"),
    ("s", "sort"),
    ("jk", "choose"),
    ("d", "details"),
    ("c", "copy"),
    ("t", "history"),
    ("?", "help"),
];

/// The means of the terminal: colours, and characters beyond ASCII.
#[derive(Debug, Clone, Copy)]
pub struct TopLook {
    pub has_colours: bool,
    /// Whether the terminal shows more than ASCII.
    pub has_blocks: bool,
}

/// How many cells a history has on a terminal of this width.
pub fn cells(width: u16) -> usize {
    Columns::of(usize::from(width)).history
}

/// Draws the whole view. `now` is in seconds since the view began.
pub fn draw(frame: &mut Frame<'_>, app: &mut TopApp, look: TopLook, now: u64, wall: LogTime) {
    let rows = app.rows(now);
    let area = frame.area();
    let agents = app
        .agents
        .iter()
        .filter(|agent| app.agents.len() <= usize::from(AGENTS) || agent.gone.is_some());
    let agents: Vec<Line<'_>> = agents
        .take(usize::from(AGENTS))
        .map(|agent| agent_line(agent, look, (now, wall), usize::from(area.width)))
        .collect();
    let details = if app.has_details && area.height >= LOW {
        DETAILS
    } else {
        0
    };
    let [head, about, table, below, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::try_from(agents.len()).unwrap_or(0)),
        Constraint::Min(2),
        Constraint::Length(details),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(
        Paragraph::new(head_line(app, &rows, look, wall, usize::from(area.width))),
        head,
    );
    frame.render_widget(Paragraph::new(agents), about);
    draw_table(frame, table, app, &rows, (look, now, wall));
    if details > 0 {
        draw_details(frame, below, rows.get(app.place(&rows)), app, now);
    }
    frame.render_widget(Paragraph::new(foot_line(app)), foot);
    if app.has_help {
        help::draw(frame, area, look);
    }
    if !look.has_blocks {
        frame.buffer_mut().content.iter_mut().for_each(in_ascii);
    }
}

/// A terminal that shows ASCII alone would tear the view at anything else.
fn in_ascii(cell: &mut Cell) {
    let symbol = match cell.symbol() {
        symbol if symbol.is_ascii() => return,
        "─" => "-",
        "│" => "|",
        "…" => "~",
        "┌" | "┐" | "└" | "┘" => "+",
        _ => "?",
    };
    cell.set_symbol(symbol);
}

fn head_line<'a>(
    app: &TopApp,
    rows: &[TopRow],
    look: TopLook,
    wall: LogTime,
    width: usize,
) -> Line<'a> {
    let mut words: Vec<(String, usize, usize)> = Vec::new();
    for row in rows {
        match words.iter_mut().find(|(word, ..)| *word == row.state) {
            Some((_, _, count)) => *count += 1,
            None => words.push((row.state.clone(), row.rank(), 1)),
        }
    }
    words.sort_by_key(|(_, rank, _)| *rank);
    let all = counted(rows.len(), "database", "databases");
    let mut spans = vec![
        Span::styled("beadlock top", Style::new().add_modifier(Modifier::BOLD)),
        format!("  {all}").into(),
    ];
    for (place, (word, rank, count)) in words.iter().enumerate() {
        spans.push(if place == 0 { ": ".into() } else { ", ".into() });
        spans.push(Span::styled(format!("{count} {word}"), style(*rank, look)));
    }
    if app.sort.word() != "worst" || !app.filter.is_empty() {
        let filter = if app.filter.is_empty() {
            String::new()
        } else {
            format!(" filter \"{}\"", app.filter)
        };
        spans.push(format!("  (sort {}{filter})", app.sort.word()).into());
    }
    let clock = wall
        .to_string()
        .split(' ')
        .nth(1)
        .map(|time| format!("{time} UTC"))
        .unwrap_or_default();
    let used: usize = spans.iter().map(Span::width).sum();
    if used + clock.len() + 2 <= width {
        spans.push(" ".repeat(width - used - clock.len()).into());
        spans.push(clock.into());
    }
    Line::from(spans)
}

fn agent_line<'a>(
    agent: &TopAgent,
    look: TopLook,
    (now, wall): (u64, LogTime),
    width: usize,
) -> Line<'a> {
    let bad = if look.has_colours {
        Style::new().fg(Color::Red)
    } else {
        Style::new().add_modifier(Modifier::BOLD)
    };
    match (&agent.gone, &agent.heard) {
        (Some((since, why)), heard) => {
            let since = whole_seconds(now.saturating_sub(*since));
            let old = if heard.is_some() {
                "; what it said last is below"
            } else {
                ""
            };
            Line::styled(
                fitted(
                    &format!("{}: gone for {since}{old}: {why}", agent.name),
                    width,
                ),
                bad,
            )
        }
        (None, Some((status, _))) => {
            let host = status.host.as_deref().unwrap_or("unknown");
            let up = match LogTime::parse(&status.since) {
                Some(since) => format!("up {}", whole_seconds(wall.since(since).as_secs())),
                None => format!("since {}", status.since),
            };
            let text = format!(
                "{}: agent {}, {up}, PID {}, host {host}{}",
                agent.name,
                status.version,
                status.pid,
                if status.ending { ", ending" } else { "" }
            );
            Line::raw(fitted(&safe(&text), width))
        }
        (None, None) => Line::raw(fitted(&format!("{}: asking …", agent.name), width)),
    }
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &mut TopApp,
    rows: &[TopRow],
    (look, now, wall): (TopLook, u64, LogTime),
) {
    let columns = Columns::of(usize::from(area.width));
    let room = usize::from(area.height.saturating_sub(1));
    let place = app.place(rows);
    app.top = app
        .top
        .min(rows.len().saturating_sub(room))
        .min(place)
        .max((place + 1).saturating_sub(room));
    let common = common_directory(rows.iter().map(|row| row.name.as_str())).unwrap_or("");
    let history = format!("last {}", app.history_length(wall).1);
    let below = format!("DATABASE below {common}");
    let has_room = !common.is_empty() && below.width() <= columns.name;
    let database = if has_room {
        below
    } else {
        "DATABASE".to_owned()
    };
    let heads = [
        "STATE", "FOR", &database, "HELD BY", "HELD FOR", "QUEUE", "UNPUSHED", "WHY", &history,
    ];
    let head = laid_out(columns, heads.map(str::to_owned));
    let mut lines = vec![Line::styled(
        head,
        Style::new().add_modifier(Modifier::BOLD),
    )];
    if rows.is_empty() {
        lines.push(Line::raw(nothing(app)));
    }
    for (number, row) in rows.iter().enumerate().skip(app.top).take(room) {
        let count = |number: Option<u64>| {
            number.map_or_else(|| "-".to_owned(), |number| number.to_string())
        };
        let state = if row.is_old {
            format!("({})", row.state)
        } else {
            row.state.clone()
        };
        let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let cells = [
            state,
            text(row.state_for(now)),
            short_name(&row.name, common).to_owned(),
            text(row.holder.clone()),
            text(row.held_for(now)),
            count(row.queue),
            count(row.unpushed),
            row.why.clone().unwrap_or_default(),
            String::new(),
        ];
        let line = laid_out(columns, cells);
        let (state, rest) = line.split_at(
            line.char_indices()
                .nth(STATE)
                .map_or(line.len(), |(at, _)| at),
        );
        let colour = if row.is_old {
            Style::new().add_modifier(Modifier::DIM)
        } else {
            style(row.rank(), look)
        };
        // Not the history: reversed, the worst would look like the best.
        let chosen = if number == place {
            Modifier::REVERSED
        } else {
            Modifier::empty()
        };
        let mut spans = vec![
            Span::styled(state.to_owned(), colour.add_modifier(chosen)),
            Span::styled(rest.to_owned(), Style::new().add_modifier(chosen)),
        ];
        spans.extend(strip(&app.history_of(row, wall, columns.history), look));
        lines.push(Line::from(spans));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn nothing(app: &TopApp) -> &'static str {
    if !app.filter.is_empty() {
        "nothing matches the filter; Esc clears it"
    } else if app.agents.iter().all(|agent| agent.gone.is_some()) && app.has_looked {
        "no database: nobody answers"
    } else {
        "no database so far"
    }
}

/// The history: the worse, the higher, so that it can be read without colours.
fn strip<'a>(cells: &[HistoryCell], look: TopLook) -> Vec<Span<'a>> {
    let shown = |cell: HistoryCell| {
        let (block, letter, colour) = match cell {
            HistoryCell::Unknown => (' ', ' ', Color::Reset),
            HistoryCell::Complete => ('▁', '.', Color::Green),
            HistoryCell::Held => ('▃', 'c', Color::Blue),
            HistoryCell::NotPushed => ('▅', 'p', Color::Yellow),
            HistoryCell::Unreadable => ('▆', '?', Color::Magenta),
            HistoryCell::Failed => ('█', 'F', Color::Red),
        };
        (if look.has_blocks { block } else { letter }, colour)
    };
    let mut spans: Vec<Span<'a>> = Vec::new();
    for cells in cells.chunk_by(|one, other| one == other) {
        let (c, colour) = shown(cells[0]);
        let style = if look.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        };
        spans.push(Span::styled(c.to_string().repeat(cells.len()), style));
    }
    spans
}

fn draw_details(frame: &mut Frame<'_>, area: Rect, row: Option<&TopRow>, app: &TopApp, now: u64) {
    let mut lines = Vec::new();
    let mut title = String::new();
    if let Some(row) = row {
        title = format!(
            "─ {} ",
            fitted(&row.name, usize::from(area.width.saturating_sub(6)))
        );
        let mut first = format!(
            "{}{}",
            row.state,
            row.state_for(now)
                .map(|length| format!(" for {length}"))
                .unwrap_or_default()
        );
        if row.is_old {
            first += ", as its agent said last";
        }
        if let Some(why) = &row.why {
            first += &format!(": {why}");
        }
        lines.push(Line::raw(first));
        if let Some(holder) = &row.holder {
            let process = row
                .process
                .as_ref()
                .map(|process| format!(" ({process})"))
                .unwrap_or_default();
            let held = row
                .held_for(now)
                .map(|length| format!(", held for {length}"))
                .unwrap_or_default();
            let skips = row
                .skips
                .map(|skips| format!(", {}", counted(skips, "skip", "skips")))
                .unwrap_or_default();
            lines.push(Line::raw(format!("held by {holder}{process}{held}{skips}")));
        }
        if let Some(queue) = row.queue.filter(|queue| *queue > 0) {
            lines.push(Line::raw(format!(
                "{} for the gate",
                counted(queue, "process waits", "processes wait")
            )));
        }
        if let Some(unpushed) = row.unpushed {
            lines.push(Line::raw(format!(
                "{} not pushed",
                counted(unpushed, "commit is", "commits are")
            )));
        }
        if let Some(next) = &row.next {
            lines.push(Line::from(vec![
                "type: ".into(),
                Span::styled(next.clone(), Style::new().add_modifier(Modifier::BOLD)),
            ]));
        }
        if let Some(agent) = row
            .agent
            .and_then(|place| app.agents.get(place))
            .filter(|_| app.agents.len() > 1)
        {
            lines.push(Line::raw(format!("agent: {}", agent.name)));
        }
    }
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(
        Paragraph::new(lines)
            .block(block)
            .wrap(Wrap { trim: false }),
        area,
    );
}

fn foot_line<'a>(app: &TopApp) -> Line<'a> {
    if app.is_typing {
        return Line::raw(format!(
            "filter: {}_   Enter keeps it, Esc clears it",
            app.filter
        ));
    }
    if let Some(message) = &app.message {
        return Line::raw(message.clone());
    }
    let mut spans = Vec::new();
    for (key, what) in KEYS {
        spans.push(Span::styled(key, Style::new().add_modifier(Modifier::BOLD)));
        spans.push(format!(" {what}  ").into());
    }
    Line::from(spans)
}

fn style(rank: usize, look: TopLook) -> Style {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    match rank {
        0..=2 if look.has_colours => bold.fg(Color::Red),
        3 | 4 if look.has_colours => Style::new().fg(Color::Blue),
        5..=7 if look.has_colours => Style::new().fg(Color::Yellow),
        10 | 11 if look.has_colours => Style::new().fg(Color::Green),
        0..=2 => bold,
        _ => Style::new(),
    }
}

/// The text, escaped: an agent's words are untrusted.
fn safe(text: &str) -> String {
    beadlock_base::escape::escaped(text).to_string()
}

#[cfg(test)]
mod tests;
