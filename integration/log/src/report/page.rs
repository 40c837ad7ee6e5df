//! Text on a terminal: lines end between words, and tables fit. Elsewhere a line is as long as what is in it.

use beadlock_console::table::{Column, Table, terminal_width, wrapped};
use beadlock_console::talk::Talk;

#[derive(Debug)]
pub struct Page<'a> {
    pub talk: &'a Talk,
    /// The columns of the terminal; `None` when it is none.
    width: Option<usize>,
}

impl<'a> Page<'a> {
    pub fn of_stdout(talk: &'a Talk) -> Self {
        Self {
            talk,
            width: terminal_width(),
        }
    }

    /// A line behind `indent` spaces; what it has no room for follows behind two more.
    pub fn prose(&self, indent: usize, text: &str) -> String {
        let room = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(indent + 2));
        let indented = |(number, line): (usize, String)| {
            format!("{}{line}\n", " ".repeat(indent + 2 * number.min(1)))
        };
        wrapped(text, room)
            .into_iter()
            .enumerate()
            .map(indented)
            .collect()
    }

    /// A command, which stays on one line, and its purpose in brackets.
    pub fn command(&self, front: &str, command: &str, why: &str) -> String {
        let line = format!("{front}{command}   ({why})");
        if self.width.is_none_or(|width| line.chars().count() <= width) {
            return format!("{line}\n");
        }
        format!(
            "{front}{command}\n{}",
            self.prose(front.len(), &format!("({why})"))
        )
    }

    /// The name of a database with at most so many characters on a terminal: its end, since names often begin alike.
    pub fn name(&self, name: &str, most: usize) -> String {
        let length = name.chars().count();
        if self.width.is_none() || length <= most {
            return name.to_owned();
        }
        let from = name
            .char_indices()
            .nth(length + 1 - most)
            .map_or(0, |(at, _)| at);
        let end = &name[from..];
        format!(
            "…{}",
            end.find('/')
                .filter(|at| at + 1 < end.len())
                .map_or(end, |at| &end[at..])
        )
    }

    /// A table with one line a row on a terminal.
    pub fn summary<const COUNT: usize>(
        &self,
        columns: [Column<'_>; COUNT],
        rows: Vec<[String; COUNT]>,
    ) -> String {
        let mut table = Table::new(columns).cut();
        rows.into_iter().for_each(|row| table.row(row));
        table.text(self.width)
    }

    /// A table that fits the terminal.
    pub fn table<const COUNT: usize>(
        &self,
        columns: [Column<'_>; COUNT],
        rows: Vec<[String; COUNT]>,
    ) -> String {
        let mut table = Table::new(columns);
        rows.into_iter().for_each(|row| table.row(row));
        table.text(self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(talk: &Talk, width: usize) -> Page<'_> {
        Page {
            talk,
            width: Some(width),
        }
    }

    #[test]
    fn lines_end_between_words() {
        let talk = Talk::silent();
        assert_eq!(
            page(&talk, 12).prose(2, "one two three fourteenletters x"),
            "  one two\n    three\n    fourteenletters\n    x\n"
        );
        let all = Page {
            talk: &talk,
            width: None,
        };
        assert_eq!(
            all.prose(2, "one two three fourteenletters x"),
            "  one two three fourteenletters x\n"
        );
        assert_eq!(
            page(&talk, 20).command("type: ", "ps -fp 77", "is it"),
            "type: ps -fp 77\n      (is it)\n"
        );
        assert_eq!(
            page(&talk, 25).command("type: ", "ps -fp 77", "is it"),
            "type: ps -fp 77   (is it)\n"
        );
    }

    #[test]
    fn a_name_keeps_its_end() {
        let talk = Talk::silent();
        assert_eq!(
            page(&talk, 80).name("/srv/ann/shop/.beads", 15),
            "…/shop/.beads"
        );
        assert_eq!(
            page(&talk, 80).name("/srv/ann/shop/.beads", 20),
            "/srv/ann/shop/.beads"
        );
        assert_eq!(page(&talk, 80).name("averylongname.log", 6), "…e.log");
    }
}
