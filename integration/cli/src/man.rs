//! `beadlock man`: the manual pages, made from the command line itself (docs/configuration.md#manual-pages).

use beadlock_claim::error::Problem;
use std::path::{Path, PathBuf};

use beadlock_base::{error::system_words, escape::escaped_path};
use clap::{Arg, Args, Command, CommandFactory};
use clap_mangen::{Man, roff};

use crate::command_line::{Cli, printed};
use beadlock_claim::error::Error;
use beadlock_console::Console;
use beadlock_console::program_end::ProgramEnd;
use beadlock_session::report::write;

/// When the pages were last changed by hand.
const DATE: &str = "2026-11-25";

/// The pages of files, by their names. Those of commands are made.
const OF_FILES: &[(&str, &str)] = &[
    ("exclusive-lock.5", include_str!("../man/exclusive-lock.5")),
    #[cfg(feature = "fleet")]
    ("fleet.toml.5", include_str!("../man/fleet.toml.5")),
];

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory to write all pages into; without it, print the page of beadlock itself
    pub dir: Option<PathBuf>,
}

pub fn run(typed: &ManArgs, common: &Console) -> ProgramEnd {
    printed(made(typed.dir.as_deref()), common)
}

/// Writes every page into the directory and returns nothing to print, or returns the first page.
fn made(dir: Option<&Path>) -> Result<String, Error> {
    let mut pages = pages().map_err(|error| Error::failed("make the manual pages", &error))?;
    let Some(dir) = dir else {
        return Ok(pages.swap_remove(0).1);
    };
    for (name, text) in pages {
        let path = dir.join(name);
        write(&path, &text).map_err(|error| {
            Error::io(
                format!(
                    "cannot write {}: {}",
                    escaped_path(&path),
                    system_words(&error)
                ),
                error.kind(),
            )
        })?;
    }
    Ok(String::new())
}

/// The manual pages, each with the name of its file; the program's own page comes first.
fn pages() -> std::io::Result<Vec<(String, String)>> {
    let mut tree = Cli::command();
    tree.build();
    let mut pages = Vec::new();
    of_commands(&tree, &mut pages)?;
    pages.extend(OF_FILES.iter().map(|(name, text)| {
        (
            (*name).to_owned(),
            text.replace("@VERSION@", env!("CARGO_PKG_VERSION")),
        )
    }));
    Ok(pages)
}

fn of_commands(command: &Command, pages: &mut Vec<(String, String)>) -> std::io::Result<()> {
    pages.push(page(command)?);
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| of_commands(below, pages))
}

fn page(command: &Command) -> std::io::Result<(String, String)> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let (before, after) = (
        command.get_before_help().cloned(),
        command.get_after_help().cloned(),
    );
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let source = concat!("beadlock ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone().override_usage(usage));
    let mut text = Vec::new();
    let mut title = roff::Roff::new();
    title
        .control("TH", [name.as_str(), "1", DATE, source, "beadlock"])
        .to_writer(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    for help in [before, after].into_iter().flatten() {
        sections(&help.to_string()).to_writer(&mut text)?;
    }
    see_also(&name).to_writer(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    // What is typed, such as `tower:`, stays in small letters.
    let headings = command
        .get_arguments()
        .filter_map(Arg::get_help_heading)
        .filter(|heading| heading.contains(':'));
    let text = headings.fold(text, |text, heading| {
        text.replace(&heading.to_uppercase(), heading)
    });
    Ok((man.get_filename(), text))
}

/// A line that ends in a colon is a heading. Indented lines stay as they are.
fn sections(text: &str) -> roff::Roff {
    let mut page = roff::Roff::new();
    for (number, block) in text.split("\n\n").enumerate() {
        let (titles, lines): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| line.ends_with(':'));
        match titles.first() {
            Some(title) => heading(&mut page, title.trim_end_matches(':')),
            None if number == 0 => heading(&mut page, "Notes"),
            None => {
                page.control("PP", []);
            }
        }
        let is_literal = lines.iter().all(|line| line.starts_with("  "));
        if is_literal {
            page.control("RS", ["4"]).control("nf", []);
        }
        for line in lines {
            page.text([roff::roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        if is_literal {
            page.control("fi", []).control("RE", []);
        }
    }
    page
}

fn heading(page: &mut roff::Roff, title: &str) {
    let title = if title == "Exit codes" {
        "EXIT STATUS".to_owned()
    } else {
        title.to_uppercase()
    };
    page.control("SH", [title.as_str()]);
}

fn see_also(name: &str) -> roff::Roff {
    let mut page = roff::Roff::new();
    page.control("SH", ["SEE ALSO"]);
    let others = ["beadlock(1)", "beadlock-agent(8)", "exclusive-lock(5)"];
    let others: Vec<&str> = others
        .into_iter()
        .filter(|other| *other != format!("{name}(1)"))
        .collect();
    page.text([roff::roman(others.join(", "))]);
    page
}
