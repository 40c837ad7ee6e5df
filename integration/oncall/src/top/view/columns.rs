//! The columns of the table, and texts that fit into them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The widths of the columns; a column of no width is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    pub name: usize,
    pub holder: usize,
    pub held: usize,
    pub queue: usize,
    pub unpushed: usize,
    pub why: usize,
    pub history: usize,
}

pub const STATE: usize = 11;
const FOR: usize = 7;

impl Columns {
    /// The widths for a terminal of this width.
    pub fn of(width: usize) -> Self {
        let from = |least: usize, column: usize| if width >= least { column } else { 0 };
        let (held, queue, unpushed) = (from(100, 8), from(72, 5), from(60, 8));
        let fixed = STATE + FOR + held + queue + unpushed + 7;
        let all = width.saturating_sub(fixed);
        let why = from(140, all * 2 / 5);
        let room = all - why;
        let history = from(60, (room / 3).min(48));
        let holder = (room / 3).min(24);
        Self {
            name: room.saturating_sub(history + holder),
            holder,
            held,
            queue,
            unpushed,
            why,
            history,
        }
    }
}

/// The columns in their widths, with a space between them, and room for the history behind them.
pub fn laid_out(
    columns: Columns,
    [
        state,
        since,
        name,
        holder,
        held,
        queue,
        unpushed,
        why,
        history,
    ]: [String; 9],
) -> String {
    let left = |text: &str, width: usize| {
        if width == 0 {
            String::new()
        } else {
            padded(text, width) + " "
        }
    };
    let right = |text: &str, width: usize| {
        let text = fitted(text, width);
        if width == 0 {
            String::new()
        } else {
            " ".repeat(width - text.width()) + &text + " "
        }
    };
    // Of a directory the end says more than the beginning.
    let name = if name.starts_with("DATABASE") {
        name
    } else {
        ending(&name, columns.name)
    };
    left(&state, STATE)
        + &right(&since, FOR)
        + &left(&name, columns.name)
        + &left(&holder, columns.holder)
        + &right(&held, columns.held)
        + &right(&queue, columns.queue)
        + &right(&unpushed, columns.unpushed)
        + &left(&why, columns.why)
        + &fitted(&history, columns.history)
}

/// The text, cut to `width` columns; the sign `…` shows that it was cut.
pub fn fitted(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        if cut.width() + c.width().unwrap_or(0) + 1 > width {
            break;
        }
        cut.push(c);
    }
    if width > 0 { cut + "…" } else { cut }
}

fn padded(text: &str, width: usize) -> String {
    let text = fitted(text, width);
    let missing = width.saturating_sub(text.width());
    text + &" ".repeat(missing)
}

/// The end of a path, in at most `width` columns; the sign `…` shows that it was cut.
fn ending(text: &str, width: usize) -> String {
    if text.width() <= width || width == 0 {
        return text.to_owned();
    }
    let mut cut: Vec<char> = Vec::new();
    let mut used = 1;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(c);
    }
    std::iter::once('…').chain(cut.into_iter().rev()).collect()
}
