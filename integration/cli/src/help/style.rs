//! The colours of the help. They are cargo's, and the environment decides as it does for cargo: `NO_COLOR`, `CLICOLOR`
//! and `CLICOLOR_FORCE`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Effects, Style, Styles};

use beadlock_claim::environment::Environment;
use beadlock_console::talk::Color;

const HEADING: Style = AnsiColor::BrightGreen.on_default().effects(Effects::BOLD);
const LITERAL: Style = AnsiColor::BrightCyan.on_default().effects(Effects::BOLD);
const PLACEHOLDER: Style = AnsiColor::Cyan.on_default();

pub const STYLES: Styles = Styles::styled()
    .header(HEADING)
    .usage(HEADING)
    .literal(LITERAL)
    .placeholder(PLACEHOLDER);

/// The page for stdout, with colours where they are wanted.
pub fn text(page: &StyledStr, color: Color, environment: &Environment) -> String {
    let color = environment.unless(
        (color != Color::Auto).then_some(color),
        "BEADLOCK_COLOR",
        named,
    );
    let is_coloured = match color.ok().flatten().unwrap_or_default() {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
    };
    if is_coloured {
        page.ansi().to_string()
    } else {
        page.to_string()
    }
}

/// The last valid value of `--color` among these words, before any `--`; `None` if there is none.
pub fn typed(words: &[OsString]) -> Option<Color> {
    let words: Vec<&str> = words
        .iter()
        .take_while(|word| *word != "--")
        .filter_map(|word| word.to_str())
        .collect();
    let values =
        words
            .iter()
            .enumerate()
            .filter_map(|(at, word)| match word.strip_prefix("--color") {
                Some("") => words.get(at + 1).copied(),
                Some(value) => value.strip_prefix('='),
                None => None,
            });
    values.filter_map(|value| named(value).ok()).next_back()
}

fn named(text: &str) -> Result<Color, String> {
    Color::from_str(text, true)
}

pub fn heading(title: &str) -> String {
    format!("{HEADING}{title}:{HEADING:#}\n")
}

/// The line of a command in the list.
pub fn row(name: &str, about: &str) -> String {
    format!("  {LITERAL}{name:<11}{LITERAL:#}  {about}\n")
}

/// Marks the headings (`Examples:`) and the indented lines, which are to be typed.
pub fn marked(text: &str) -> String {
    let mut marked = String::new();
    for line in text.lines() {
        let is_heading = line.ends_with(':') && !line.starts_with(' ');
        let literal = line
            .strip_prefix("  ")
            .filter(|line| line.starts_with("beadlock ") || line.contains("| beadlock "));
        let _ = match literal {
            _ if is_heading => write!(marked, "{HEADING}{line}{HEADING:#}"),
            Some(literal) => write!(marked, "  {LITERAL}{literal}{LITERAL:#}"),
            None => write!(marked, "{line}"),
        };
        marked.push('\n');
    }
    marked.trim_end().to_owned()
}
