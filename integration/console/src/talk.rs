//! The messages for people: stderr is talk, stdout is data (docs/design.md#settings).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, IsTerminal, Write};

use beadlock_claim::environment::Terminal;
use clap::ValueEnum;
use nix::unistd::{getpgrp, tcgetpgrp};
use terminal_size::terminal_size_of;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Wherever the output goes, with `NO_COLOR` too.
    Always,
    /// Nowhere.
    Never,
}

/// The messages for people on stderr, and a record of the warnings so far.
#[derive(Debug)]
pub struct Talk {
    quiet: bool,
    verbose: bool,
    color: Color,
    no_color: bool,
    /// Whether stderr is a terminal that can rewrite a line.
    live: bool,
    /// Whether the terminal has a line that is to be overwritten.
    is_dirty: Cell<bool>,
    /// The warnings so far, for the envelope.
    warnings: RefCell<Vec<String>>,
}

impl Talk {
    /// Talks as `-q`, `-v` and `--color` have it, to this kind of terminal.
    pub fn new(
        quiet: bool,
        verbose: bool,
        color: Color,
        Terminal { is_dumb, no_color }: Terminal,
    ) -> Self {
        let live = io::stderr().is_terminal() && !is_dumb;
        Self {
            quiet,
            verbose,
            color,
            no_color,
            live,
            is_dirty: Cell::new(false),
            warnings: RefCell::default(),
        }
    }

    /// Whether stderr is a terminal that can rewrite a line.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The talk of a helper process: only warnings and errors, without colours.
    pub fn silent() -> Self {
        Self::new(
            true,
            false,
            Color::Never,
            Terminal {
                is_dumb: true,
                no_color: false,
            },
        )
    }

    /// Prints one line, unless `-q`.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            self.line(&format!("beadlock: {line}"));
        }
    }

    /// Prints one line, unless `-q` or the terminal would break it.
    pub fn say_whole(&self, line: &str) {
        const NAME: usize = "beadlock: ".len();
        if line.chars().count() + NAME <= columns() {
            self.say(line);
        }
    }

    /// Prints one line with `-v`, unless `-q`.
    pub fn say_more(&self, line: &str) {
        if self.verbose {
            self.say(line);
        }
    }

    /// When to use colours, as it was asked for.
    pub fn color(&self) -> Color {
        self.color
    }

    /// Whether `-v` was given.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Prints a line that the next one overwrites, where stderr is a terminal; elsewhere only the first one is printed.
    /// The line is formatted only when it is printed, for that may look at every process.
    pub fn say_live(&self, line: &impl fmt::Display, is_first: bool) {
        if self.quiet {
            return;
        }
        if self.live && is_in_foreground() {
            self.end_live();
            let line = cut(format!("beadlock: {line}"));
            // Without wrapping, for characters that are wider than a column.
            self.write(&format!("\x1b[?7l{line}\x1b[?7h"));
            self.is_dirty.set(true);
        } else if is_first {
            self.say(&format!("{line:#}"));
        }
    }

    /// Prints a question as it is, with `-q` too.
    pub fn ask(&self, text: &str) {
        self.end_live();
        self.write(text);
    }

    /// Takes the live line away. In the background another program uses the line by now.
    pub fn end_live(&self) {
        if self.is_dirty.replace(false) && is_in_foreground() {
            self.write("\r\x1b[K");
        }
    }

    /// Records a warning for the envelope, and prints it unless `-q`: a limit that the user should know.
    pub fn note(&self, line: &str) {
        self.warnings.borrow_mut().push(line.to_owned());
        self.say(line);
    }

    /// Records a warning for the envelope, and prints it, with `-q` too.
    pub fn warn(&self, line: &str) {
        self.warnings.borrow_mut().push(line.to_owned());
        self.line(&format!("{}{line}", self.before_warning()));
    }

    fn before_warning(&self) -> String {
        format!(
            "beadlock: {} ",
            self.painted_on(io::stderr(), "warning:", "33")
        )
    }

    /// Prints a warning from another thread; `None` with `-q`.
    pub fn voice(&self) -> Option<impl Fn(&str) + Send + 'static> {
        let before = self.before_warning();
        let warn = move |line: &str| {
            let _ = io::stderr()
                .lock()
                .write_all(format!("{before}{line}\n").as_bytes());
        };
        (!self.quiet).then_some(warn)
    }

    /// Records a warning that another thread has printed.
    pub fn has_warned(&self, line: String) {
        self.warnings.borrow_mut().push(line);
    }

    /// The warnings so far, the oldest first.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// Prints an error, with `-q` too.
    pub fn error(&self, line: &str) {
        self.line(&format!(
            "beadlock: {} {line}",
            self.painted_on(io::stderr(), "error:", "31")
        ));
    }

    /// `word` in the colour of `code` on stdout, where colours are wanted.
    pub fn painted_data(&self, word: &str, code: &str) -> String {
        self.painted_on(io::stdout(), word, code)
    }

    /// Whether stdout gets colours.
    pub fn paints_data(&self) -> bool {
        self.paints(&io::stdout())
    }

    fn paints(&self, stream: &impl IsTerminal) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => !self.no_color && stream.is_terminal(),
        }
    }

    fn painted_on(&self, stream: impl IsTerminal, word: &str, code: &str) -> String {
        if self.paints(&stream) {
            format!("\x1b[{code}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    fn line(&self, line: &str) {
        self.end_live();
        self.write(&format!("{line}\n"));
    }

    /// Prints the text in one write, so that lines of several processes do not mix. A closed stderr is not an error.
    fn write(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// False where a shell has put this process into the background of its terminal: the user types there.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group == getpgrp())
}

/// A line cut to one row of the terminal, with room for the `^C` that it may echo.
fn cut(line: String) -> String {
    cut_to(columns().saturating_sub(3), line)
}

/// The width of the terminal in columns; without a terminal there is room for everything.
fn columns() -> usize {
    terminal_size_of(io::stderr()).map_or(usize::MAX, |(width, _)| usize::from(width.0))
}

/// Cuts in the middle, between words where that leaves some: the holder is at the beginning, the times are at the end.
fn cut_to(room: usize, line: String) -> String {
    if line.width() <= room {
        return line;
    }
    let of_end = room * 2 / 5;
    let end: Vec<char> = fitting(of_end, line.chars().rev())
        .into_iter()
        .rev()
        .collect();
    let begin: String = fitting(room.saturating_sub(of_end + 1), line.chars())
        .into_iter()
        .collect();
    let end: String = end.into_iter().collect();
    // With the space beside it, so that no word touches the sign either.
    let begin = begin
        .rfind(' ')
        .map_or(begin.as_str(), |space| &begin[..=space]);
    let end = end.find(' ').map_or(end.as_str(), |space| &end[space..]);
    format!("{begin}…{end}")
}

/// The first of the characters, which take at most so many columns.
fn fitting(room: usize, characters: impl Iterator<Item = char>) -> Vec<char> {
    let mut taken = 0;
    let fits = |one: &char| {
        taken += one.width().unwrap_or_default();
        taken <= room
    };
    characters.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_in_the_middle() {
        let cut = |room| cut_to(room, "waiting for é, 9s left".to_owned());
        assert_eq!(cut(22), "waiting for é, 9s left");
        assert_eq!(cut(21), "waiting for … 9s left");
        assert_eq!(cut(16), "waiting … left");
        assert_eq!(cut(10), "waiti…left", "a word that alone is too long");
        assert_eq!(
            cut_to(9, "日本語日本語, 9s left".to_owned()),
            "日本…eft",
            "by what is seen, not by characters"
        );
        assert_eq!((cut(1), cut(0)), ("…".to_owned(), "…".to_owned()));
    }
}
