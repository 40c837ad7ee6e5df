//! The manual pages (`--man`) and the completion scripts (`--completions`), made from the options
//! (docs/configuration.md#manual-pages).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use beadlock_base::{error::system_words, regular::CAREFULLY};
use clap::{Arg, ArgAction, Args, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use nix::fcntl::OFlag;

use super::cli::{AgentCli, NAME};
use super::options::{AgentOptions, Policy, options};
use super::page::ConfigFailure;
use super::{cli, help};
use crate::log::shown;

/// When the pages were last changed by hand.
const DATE: &str = "2026-11-25";

const SOURCE: &str = concat!("beadlock ", env!("CARGO_PKG_VERSION"));

const ABOUT_THE_FILE: &str = "\
The file of the option --config of beadlock-agent(8) has its databases and its settings, in TOML. The agent reads it \
at the start, and again on SIGHUP. A file that is wrong stops the start. At a reload it changes nothing, and the log \
names the line and the column.

The command line overrides the environment, the environment overrides a [[database]], and a [[database]] overrides the \
top of the file. Durations are \"10s\", \"500ms\", \"1h30m\", or a number of seconds. A relative path begins in the \
directory of the file.";

const EXAMPLE: &str = r#"interval = "30s"
listen = "unix:agent.sock"

[[database]]
dir = "project/.beads"

[[database]]
dir = "other/.beads"
exec = "make sync""#;

/// Writes the pages, or prints the script, where the command line asks for that.
pub(crate) fn documentation(cli: &AgentCli) -> Option<Result<(), ConfigFailure>> {
    if let Some(dir) = &cli.man {
        return Some(write_pages(dir));
    }
    let shell = cli.completions?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::grammar(), NAME, &mut script);
    Some(match io::stdout().write_all(&script) {
        // A reader that has gone wants no more.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ConfigFailure::new(
            1,
            format!("cannot print the script: {}", system_words(&error)),
        )),
        _ => Ok(()),
    })
}

fn write_pages(dir: &Path) -> Result<(), ConfigFailure> {
    let pages = [
        ("beadlock-agent.8", of_agent()),
        ("beadlock-agent.toml.5", of_file()),
    ];
    pages.into_iter().try_for_each(|(name, page)| {
        let path = dir.join(name);
        page.and_then(|text| write(&path, &text)).map_err(|error| {
            ConfigFailure::new(
                1,
                format!("cannot write {}: {}", shown(&path), system_words(&error)),
            )
        })
    })
}

/// Never through a symlink, and never into something that would block.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let flags = OFlag::O_NOFOLLOW | CAREFULLY;
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags.bits())
        .open(path)?
        .write_all(text)
}

/// beadlock-agent(8)
fn of_agent() -> io::Result<Vec<u8>> {
    let command = help::shaped(AgentCli::command()).mut_args(cli::without_built_in);
    let man = Man::new(command.override_usage(format!("{NAME} [OPTIONS]")));
    let mut text = Vec::new();
    title(NAME, "8").to_writer(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    // An empty line between two breaks is one space, and mandoc(1) warns of the breaks.
    let mut text = String::from_utf8_lossy(&text)
        .replace("\n.br\n\n.br\n", "\n.sp\n")
        .into_bytes();
    let mut rest = Roff::new();
    literal(
        rest.control("SH", ["EXAMPLES"]),
        help::EXAMPLES.iter().copied(),
    );
    rest.control("SH", ["EXIT STATUS"]);
    for (code, words) in help::EXITS {
        rest.control("TP", [])
            .text([bold(*code)])
            .text([roman(*words)]);
    }
    rest.control("SH", ["FILES"]).control("TP", []);
    rest.text([italic("DIR/daemon.log")]).text([roman(
        "The log of the database in DIR. Older logs are daemon.log.1 and on.",
    )]);
    rest.control("SH", ["SEE ALSO"]);
    rest.text([roman("beadlock(1), beadlock-check(1), beadlock-log(1), beadlock-agent.toml(5), exclusive-lock(5)")]);
    rest.to_writer(&mut text)?;
    Ok(text)
}

/// beadlock-agent.toml(5)
fn of_file() -> io::Result<Vec<u8>> {
    let name = "beadlock-agent.toml";
    let mut page = title(name, "5");
    page.control("SH", ["NAME"]).text([roman(format!(
        "{name} - databases and settings of beadlock-agent"
    ))]);
    page.control("SH", ["SYNOPSIS"]).text([
        bold("beadlock-agent --config"),
        roman(" "),
        italic("FILE"),
    ]);
    page.control("SH", ["DESCRIPTION"]);
    for (number, paragraph) in ABOUT_THE_FILE.split("\n\n").enumerate() {
        if number > 0 {
            page.control("PP", []);
        }
        page.text([roman(paragraph)]);
    }
    page.control("SH", ["KEYS OF A DATABASE"]);
    page.text([roman(
        "At the top of the file they are the defaults of every database.",
    )]);
    page.control("TP", [])
        .text([bold("dir"), roman(" = "), italic("DIR")]);
    page.text([roman(
        "The directory of the database, in a [[database]] only; required there",
    )]);
    keys::<Policy>(&mut page);
    page.control("SH", ["KEYS OF THE AGENT"])
        .text([roman("They stand above the first [[database]].")]);
    keys::<AgentOptions>(&mut page);
    literal(page.control("SH", ["EXAMPLES"]), EXAMPLE.lines());
    page.control("SH", ["SEE ALSO"])
        .text([roman("beadlock-agent(8)")]);
    let mut text = Vec::new();
    page.to_writer(&mut text)?;
    Ok(text)
}

fn title(name: &str, section: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, section, DATE, SOURCE, "beadlock"]);
    page
}

fn keys<T: Args>(page: &mut Roff) {
    for arg in options::<T>() {
        let (Some(name), help) = (arg.get_long(), arg.get_help()) else {
            continue;
        };
        page.control("TP", [])
            .text([bold(name), roman(" = "), italic(value_of(&arg))]);
        page.text([roman(help.map(ToString::to_string).unwrap_or_default())]);
    }
}

fn value_of(arg: &Arg) -> String {
    match (arg.get_action(), arg.get_value_names()) {
        (ArgAction::SetTrue, _) => "true|false".to_owned(),
        (ArgAction::Append, Some([name, ..])) => format!("[{name}, ...]"),
        (_, Some([name, ..])) => name.to_string(),
        _ => "VALUE".to_owned(),
    }
}

fn literal<'a>(page: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    page.control("RS", ["4"]).control("nf", []);
    for line in lines {
        page.text([roman(line)]);
    }
    page.control("fi", []).control("RE", []);
}
