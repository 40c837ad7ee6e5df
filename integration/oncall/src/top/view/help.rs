//! The help of the view: its keys, and the cells of the history.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use super::{TopLook, strip};
use beadlock_log::tail::HistoryCell;

/// Draws the help over the view.
pub fn draw(frame: &mut Frame<'_>, area: Rect, look: TopLook) {
    let mut lines: Vec<Line<'_>> = [
        "q, Ctrl-C  quit                  /  filter by database, state, holder; Esc clears",
        "s  sort: worst, name, held, unpushed    t  history: 1h, 6h, 24h, 7d",
        "j k, arrows, g G  choose         d, Enter  details on and off",
        "c  copy the command (OSC 52)     r  ask again now",
        "",
        "Worst first: not_serving, failed, unreadable, skipped, held, local_only, behind, stale.",
        "A state in brackets is what an agent said last that does not answer any more.",
        "The history is of daemon.log where it can be read, else since this view began:",
    ]
    .into_iter()
    .map(Line::raw)
    .collect();
    use HistoryCell::{Complete, Failed, Held, NotPushed, Unreadable};
    let mut legend = Vec::new();
    for (cell, words) in [
        (Complete, "complete"),
        (Held, "claimed"),
        (NotPushed, "not pushed or pulled"),
        (Unreadable, "unreadable lock"),
        (Failed, "failed"),
    ] {
        legend.extend(strip(&[cell], look));
        legend.push(format!(" {words}  ").into());
    }
    lines.push(Line::from(legend));
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let width = area.width.min(86);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let block = Block::new()
        .borders(Borders::ALL)
        .title(" keys; any key closes this ");
    frame.render_widget(
        Paragraph::new(lines)
            .block(block)
            .wrap(Wrap { trim: false }),
        place,
    );
}
