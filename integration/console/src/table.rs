//! A table for people. On a terminal it fits the width: less important columns go, then the last column is wrapped
//! between words, or goes below the others where there is no room beside them. Without a terminal nothing is left out,
//! since a script may read it.

use std::io::{self, IsTerminal};

use terminal_size::terminal_size_of;
use unicode_width::UnicodeWidthStr;

use beadlock_claim::words::without_comment;

/// The side on which the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// Its cells begin at one column of the terminal.
    Left,
    /// Its cells end at one column of the terminal.
    Right,
}

/// A column by its head, its side, and its rank: where there is no room, the column of the highest rank goes first.
/// Rank 0 stays.
pub type Column<'a> = (&'a str, Alignment, u8);

/// The least room that a wrapped column has; with less the terminal wraps the line itself.
const NARROW: usize = 16;

/// The space between two columns.
const GAP: usize = 2;

/// A table of columns: its heads, if it has any, and its rows.
#[derive(Debug)]
pub struct Table<'a, const COLUMNS: usize> {
    columns: [Column<'a>; COLUMNS],
    has_head: bool,
    /// Whether text that the last column has no room for is left out, so that each row is one line.
    is_cut: bool,
    rows: Vec<Row<COLUMNS>>,
}

#[derive(Debug)]
struct Row<const COLUMNS: usize> {
    cells: [String; COLUMNS],
    /// A column whose text is coloured, and how it is printed.
    painted: Option<(usize, String)>,
    /// Whole lines after the row.
    below: String,
}

/// The width of the terminal that stdout is, in columns; `None` where it is not a terminal.
pub fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    terminal_size_of(stdout)
        .map(|(width, _)| usize::from(width.0))
        .filter(|width| *width > 0)
}

impl<'a, const COLUMNS: usize> Table<'a, COLUMNS> {
    /// A table with a line of heads, without rows so far.
    pub fn new(columns: [Column<'a>; COLUMNS]) -> Self {
        Self {
            columns,
            has_head: true,
            is_cut: false,
            rows: Vec::new(),
        }
    }

    /// The same table, with each row as one line on a terminal: whole words of a last column that is too wide are left
    /// out.
    pub fn cut(self) -> Self {
        Self {
            is_cut: true,
            ..self
        }
    }

    /// A table without a line of heads, without rows so far.
    pub fn headless(columns: [Column<'a>; COLUMNS]) -> Self {
        Self {
            has_head: false,
            ..Self::new(columns)
        }
    }

    /// Adds a row whose cells are printed as they are.
    pub fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(Row {
            cells,
            painted: None,
            below: String::new(),
        });
    }

    /// Adds a row in which one cell is printed as `painted`, which looks as wide as the cell; `below` has lines after
    /// it.
    pub fn painted_row(
        &mut self,
        cells: [String; COLUMNS],
        painted: (usize, String),
        below: String,
    ) {
        self.rows.push(Row {
            cells,
            painted: Some(painted),
            below,
        });
    }

    /// The lines of the table, in `room` columns of a terminal; `None`: as long as they are.
    pub fn text(&self, room: Option<usize>) -> String {
        let width = |column: usize| {
            let head = if self.has_head {
                self.columns[column].0.width()
            } else {
                0
            };
            self.rows
                .iter()
                .map(|row| row.cells[column].width())
                .fold(head, usize::max)
        };
        let mut widths: [usize; COLUMNS] = std::array::from_fn(width);
        let mut shown = self.shown(&mut widths, room);
        let below = room.and_then(|room| Some((self.goes_below(&mut shown, &widths, room)?, room)));
        let mut text = String::new();
        if self.has_head {
            let head = self.columns.map(|(head, ..)| head.to_owned());
            self.put(
                &mut text,
                &Row {
                    cells: head,
                    painted: None,
                    below: String::new(),
                },
                &shown,
                &widths,
            );
        }
        for row in &self.rows {
            self.put(&mut text, row, &shown, &widths);
            if let Some((column, room)) = below {
                let lines = wrapped(&row.cells[column], room.saturating_sub(GAP));
                text.extend(
                    lines
                        .iter()
                        .map(|line| format!("{}{line}\n", " ".repeat(GAP))),
                );
            }
            text.push_str(&row.below);
        }
        text
    }

    /// The last column, where it has no room beside the others: it goes below them, on lines of its own.
    fn goes_below(
        &self,
        shown: &mut Vec<usize>,
        widths: &[usize; COLUMNS],
        room: usize,
    ) -> Option<usize> {
        let taken: usize = shown.iter().map(|column| widths[*column] + GAP).sum();
        let has_room = self.is_cut || shown.len() < 2 || taken.saturating_sub(GAP) <= room;
        if has_room { None } else { shown.pop() }
    }

    /// The columns for which there is room. The last of them is made narrower where it is still too wide.
    fn shown(&self, widths: &mut [usize; COLUMNS], room: Option<usize>) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..COLUMNS).collect();
        let Some(room) = room else { return shown };
        let taken = |shown: &[usize], widths: &[usize; COLUMNS]| {
            shown
                .iter()
                .map(|column| widths[*column] + GAP)
                .sum::<usize>()
                .saturating_sub(GAP)
        };
        // A column whose text can be wrapped needs little.
        let needed = |shown: &[usize], widths: &[usize; COLUMNS]| {
            let last = shown
                .last()
                .map_or(0, |last| widths[*last].saturating_sub(2 * NARROW));
            taken(shown, widths) - last
        };
        while needed(&shown, widths) > room {
            let rank = |column: &usize| self.columns[*column].2;
            let Some(worst) = shown
                .iter()
                .copied()
                .max_by_key(rank)
                .filter(|worst| rank(worst) > 0)
            else {
                break;
            };
            shown.retain(|column| *column != worst);
        }
        if let Some(last) = shown.last() {
            let others = taken(&shown, widths) - widths[*last];
            widths[*last] = widths[*last].min(room.saturating_sub(others).max(NARROW));
        }
        shown
    }

    fn put(
        &self,
        text: &mut String,
        row: &Row<COLUMNS>,
        shown: &[usize],
        widths: &[usize; COLUMNS],
    ) {
        let mut line = String::new();
        let mut at = 0;
        for (place, column) in shown.iter().enumerate() {
            let (cell, width) = (&row.cells[*column], widths[*column]);
            let is_last = place + 1 == shown.len();
            let room = width.saturating_sub(cell.width());
            let printed = row
                .painted
                .as_ref()
                .filter(|(painted, _)| painted == column)
                .map_or(cell, |(_, text)| text);
            match self.columns[*column].1 {
                Alignment::Right => line += &format!("{}{printed}", " ".repeat(room)),
                Alignment::Left if is_last && cell.width() > width => {
                    let lines = match self.is_cut {
                        true => vec![format!(
                            "{} …",
                            wrapped(cell, width.saturating_sub(2)).swap_remove(0)
                        )],
                        false => wrapped(cell, width),
                    };
                    line += &lines.join(&format!("\n{}", " ".repeat(at)));
                }
                Alignment::Left => line += &format!("{printed}{}", " ".repeat(room)),
            }
            if !is_last {
                line += &" ".repeat(GAP);
            }
            at += width + GAP;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The text in lines of at most so many columns. A word that is wider stays whole.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().map(|line| (line.width(), line));
        match line {
            Some((taken, line)) if taken > 0 && taken + 1 + word.width() <= width => {
                *line += &format!(" {word}")
            }
            Some((0, line)) => *line += word,
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Lines for people, in so many columns of a terminal. A longer line goes on below, two columns further in. The comment
/// after a command, behind ` #`, goes below it, and the command stays whole: it can be pasted.
pub fn fitted(text: &str, room: Option<usize>) -> String {
    let Some(room) = room else {
        return text.to_owned();
    };
    let mut fitted = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len() + 2;
        let (line, comment) = match without_comment(line) {
            (command, Some(comment)) if line.width() > room => {
                (vec![command.to_owned()], Some(comment))
            }
            _ if line.width() <= room => (vec![line.to_owned()], None),
            _ => {
                let front = " ".repeat(indent - 2);
                (
                    wrapped(line.trim_start(), room.saturating_sub(indent))
                        .into_iter()
                        .map(|l| front.clone() + &l)
                        .collect(),
                    None,
                )
            }
        };
        for (number, line) in line.iter().enumerate() {
            fitted += &format!("{}{line}\n", if number == 0 { "" } else { "  " });
        }
        for piece in comment
            .into_iter()
            .flat_map(|comment| wrapped(comment, room.saturating_sub(indent + 2)))
        {
            fitted += &format!("{}# {piece}\n", " ".repeat(indent));
        }
    }
    fitted
}

/// The directory that all of these paths have in common, with a slash at its end; `None` for less than two paths, and
/// where it would save little.
pub fn common_directory<'a>(paths: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut paths = paths.into_iter();
    let first = paths.next()?;
    let mut common = &first[..=first.rfind('/')?];
    let mut are_several = false;
    for path in paths {
        are_several = true;
        while !path.starts_with(common) {
            let end = common[..common.len() - 1].rfind('/')?;
            common = &common[..=end];
        }
    }
    Some(common).filter(|common| are_several && common.len() > 4)
}

/// A name without what all have in common, and without the `.beads` of most databases.
pub fn short_name<'a>(name: &'a str, common: &str) -> &'a str {
    let name = name.strip_prefix(common).unwrap_or(name);
    name.strip_suffix("/.beads")
        .filter(|short| !short.is_empty())
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Alignment::{Left, Right};

    fn table() -> Table<'static, 4> {
        let mut table = Table::new([
            ("state", Left, 0),
            ("for", Right, 1),
            ("skips", Right, 2),
            ("why", Left, 0),
        ]);
        table.row([
            "failed".into(),
            "3h".into(),
            "7".into(),
            "a rebase is in progress; finish or abort it".into(),
        ]);
        table.row(["ö".into(), "12m".into(), "1234".into(), "界界".into()]);
        table
    }

    #[test]
    fn without_a_terminal_every_column_is_whole() {
        let expected = "state   for  skips  why\n\
                        failed   3h      7  a rebase is in progress; finish or abort it\n\
                        ö       12m   1234  界界\n";
        assert_eq!(table().text(None), expected);
    }

    #[test]
    fn a_narrow_terminal_loses_columns_by_rank_and_wraps_the_last_one_between_words() {
        let wide = table().text(Some(60));
        assert!(
            wide.contains("skips") && wide.contains("finish or abort\n                    it\n"),
            "{wide}"
        );
        let narrow = table().text(Some(48));
        assert!(
            !narrow.contains("skips") && narrow.contains("for"),
            "{narrow}"
        );
        let least = table().text(Some(30));
        assert!(!least.contains("for"), "{least}");
        for (width, text) in [(60, wide), (48, narrow), (30, least)] {
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            let whole = words(&table().text(None));
            assert!(
                words(&text).iter().all(|word| whole.contains(word)),
                "torn: {text}"
            );
        }
    }

    #[test]
    fn without_room_beside_the_others_the_last_column_goes_below() {
        let expected =
            "state\nfailed\n  a rebase is in\n  progress; finish\n  or abort it\nö\n  界界\n";
        assert_eq!(table().text(Some(20)), expected);
        let one_line = table().cut().text(Some(20));
        assert_eq!(one_line.lines().count(), 3, "{one_line}");
    }

    #[test]
    fn a_coloured_cell_is_as_wide_as_it_looks() {
        let mut table = Table::headless([("", Left, 0), ("", Left, 0)]);
        table.painted_row(
            ["held".into(), "x".into()],
            (0, "\x1b[33mheld\x1b[0m".into()),
            "  below\n".into(),
        );
        table.row(["unreadable".into(), "y".into()]);
        assert_eq!(
            table.text(None),
            "\x1b[33mheld\x1b[0m        x\n  below\nunreadable  y\n"
        );
    }

    #[test]
    fn a_word_wider_than_the_column_stays_whole() {
        assert_eq!(
            wrapped("a bb /very/long/path c", 5),
            ["a bb", "/very/long/path", "c"]
        );
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn lines_fit_and_a_command_stays_whole() {
        let text = "  why: its process lives here, and started when the record says\n  \
                    next: beadlock wait --wait 10m .beads   # waits until it is free\n";
        assert_eq!(fitted(text, None), text);
        assert_eq!(
            fitted(text, Some(44)),
            "  why: its process lives here, and started\n    when the record says\n  \
             next: beadlock wait --wait 10m .beads\n    # waits until it is free\n"
        );
    }

    #[test]
    fn paths_have_a_directory_in_common() {
        assert_eq!(
            common_directory(["/srv/app/a/.beads", "/srv/app/b/.beads"]),
            Some("/srv/app/")
        );
        assert_eq!(
            common_directory(["/srv/app/a/.beads", "/srv/apple/.beads"]),
            Some("/srv/")
        );
        for few in [
            &["/srv/app/.beads"][..],
            &[],
            &["/a/x", "/b/y"],
            &["x", "y"],
        ] {
            assert_eq!(common_directory(few.iter().copied()), None, "{few:?}");
        }
    }
}
