//! Text on a terminal: lines end between words, and tables fit. Elsewhere a line is as long as what is in it.

use std::io;

use terminal_size::terminal_size_of;

use crate::output::table::{Side, Table};
use crate::output::talk::Talk;

/// A last column that has less room goes below its line.
const NARROWEST: usize = 14;

/// Each column has a head, a side and the most characters that it shows.
pub type Columns<'a, const COUNT: usize> = [(&'a str, Side, usize); COUNT];

/// What becomes of the words of a last column for which the terminal has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastColumn {
    /// They go on below.
    Wrapped,
    /// They are left out.
    Cut,
}

#[derive(Debug)]
pub struct Page<'a> {
    pub talk: &'a Talk,
    /// The columns of the terminal; `None` when it is none.
    width: Option<usize>,
}

impl<'a> Page<'a> {
    pub fn of_stdout(talk: &'a Talk) -> Self {
        let width = terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0);
        Self { talk, width }
    }

    /// A line behind `indent` spaces; what it has no room for follows behind two more.
    pub fn prose(&self, indent: usize, text: &str) -> String {
        let room = self.width.map_or(usize::MAX, |width| width.saturating_sub(indent + 2));
        let indented = |(number, line): (usize, String)| format!("{}{line}\n", " ".repeat(indent + 2 * number.min(1)));
        wrapped(text, room).into_iter().enumerate().map(indented).collect()
    }

    /// A command, which stays on one line, and its purpose in brackets.
    pub fn command(&self, front: &str, command: &str, why: &str) -> String {
        let line = format!("{front}{command}   ({why})");
        if self.width.is_none_or(|width| line.chars().count() <= width) {
            return format!("{line}\n");
        }
        format!("{front}{command}\n{}", self.prose(front.len(), &format!("({why})")))
    }

    /// The name of a database with at most so many characters on a terminal: its end, since names often begin alike.
    pub fn name(&self, name: &str, most: usize) -> String {
        let length = name.chars().count();
        if self.width.is_none() || length <= most {
            return name.to_owned();
        }
        let from = name.char_indices().nth(length + 1 - most).map_or(0, |(at, _)| at);
        let end = &name[from..];
        format!("…{}", end.find('/').filter(|at| at + 1 < end.len()).map_or(end, |at| &end[at..]))
    }

    /// A table behind `indent` spaces.
    pub fn table<const COUNT: usize>(
        &self,
        indent: usize,
        columns: Columns<'_, COUNT>,
        mut rows: Vec<[String; COUNT]>,
        last: LastColumn,
    ) -> String {
        let mut heads = columns.map(|(head, ..)| head);
        let mut ends = Vec::new();
        if self.width.is_some() {
            // The last column is written beside the table of the others.
            ends.push(std::mem::take(&mut heads[COUNT - 1]).to_owned());
            ends.extend(rows.iter_mut().map(|row| std::mem::take(&mut row[COUNT - 1])));
        }
        let mut table = Table::new(heads, columns.map(|(_, side, most)| (side, most)));
        rows.into_iter().for_each(|row| table.row(row));
        let table = table.text(indent);
        let Some(width) = self.width else { return table };
        let used = table.lines().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
        let room = width.saturating_sub(used);
        let beside = |(line, end): (&str, String)| match (last, room < NARROWEST) {
            (_, true) if end.is_empty() || last == LastColumn::Cut => format!("{line}\n"),
            (_, true) => format!("{line}\n{}", self.prose(indent + 4, &end)),
            (LastColumn::Cut, false) => format!("{line:<used$}{}", cut(&end, room)).trim_end().to_owned() + "\n",
            (LastColumn::Wrapped, false) => {
                let pieces = wrapped(&end, room);
                let fronts = [line].into_iter().chain(std::iter::repeat(""));
                let line =
                    |(front, piece): (&str, &String)| format!("{front:<used$}{piece}").trim_end().to_owned() + "\n";
                fronts.zip(&pieces).map(line).collect()
            }
        };
        table.lines().zip(ends).map(beside).collect()
    }
}

/// As many words as fit, and `…` where there are more.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    format!("{} …", wrapped(text, room.saturating_sub(2)).remove(0))
}

/// Lines of at most `room` characters, broken between words. A longer word has a line of its own.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { continue };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::Side::{Left, Right};

    fn page(talk: &Talk, width: usize) -> Page<'_> {
        Page { talk, width: Some(width) }
    }

    #[test]
    fn lines_end_between_words() {
        let talk = Talk::silent();
        assert_eq!(
            page(&talk, 12).prose(2, "one two three fourteenletters x"),
            "  one two\n    three\n    fourteenletters\n    x\n"
        );
        let all = Page { talk: &talk, width: None };
        assert_eq!(all.prose(2, "one two three fourteenletters x"), "  one two three fourteenletters x\n");
        assert_eq!(page(&talk, 20).command("type: ", "ps -fp 77", "is it"), "type: ps -fp 77\n      (is it)\n");
        assert_eq!(page(&talk, 25).command("type: ", "ps -fp 77", "is it"), "type: ps -fp 77   (is it)\n");
    }

    #[test]
    fn a_name_keeps_its_end() {
        let talk = Talk::silent();
        assert_eq!(page(&talk, 80).name("/srv/ann/shop/.beads", 15), "…/shop/.beads");
        assert_eq!(page(&talk, 80).name("/srv/ann/shop/.beads", 20), "/srv/ann/shop/.beads");
        assert_eq!(page(&talk, 80).name("averylongname.log", 6), "…e.log");
    }

    #[test]
    fn a_table_fits() {
        let talk = Talk::silent();
        let columns = [("name", Left, 9), ("n", Right, 4), ("why", Left, 5)];
        let rows = || {
            vec![["make".into(), "7".into(), "one two three four five".into()], ["a".into(), "1".into(), String::new()]]
        };
        let wrapped = page(&talk, 25).table(0, columns, rows(), LastColumn::Wrapped);
        assert_eq!(wrapped, "name  n  why\nmake  7  one two three\n         four five\na     1\n");
        let cut = page(&talk, 25).table(0, columns, rows(), LastColumn::Cut);
        assert_eq!(cut, "name  n  why\nmake  7  one two three …\na     1\n");
        let narrow = page(&talk, 20).table(0, columns, rows(), LastColumn::Wrapped);
        assert_eq!(narrow, "name  n\n    why\nmake  7\n    one two three\n      four five\na     1\n");
        let all = Page { talk: &talk, width: None }.table(0, columns, rows(), LastColumn::Wrapped);
        assert_eq!(all, "name  n  why\nmake  7  one …\na     1\n");
    }
}
