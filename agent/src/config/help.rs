//! The groups, the examples and the colours of `--help`. The colours are cargo's, and clap obeys `NO_COLOR`, `CLICOLOR`
//! and `CLICOLOR_FORCE`.

use clap::builder::styling::{AnsiColor, Effects, Style, Styles};
use clap::{Arg, ArgAction, ArgGroup, Command};

use super::cli::NAME;

/// The help is at most this wide.
const COLUMNS: usize = 80;

const HEADING: Style = AnsiColor::BrightGreen.on_default().effects(Effects::BOLD);
const LITERAL: Style = AnsiColor::BrightCyan.on_default().effects(Effects::BOLD);
const PLACEHOLDER: Style = AnsiColor::Cyan.on_default();

const STYLES: Styles = Styles::styled()
    .header(HEADING)
    .usage(HEADING)
    .literal(LITERAL)
    .placeholder(PLACEHOLDER);

const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Each option belongs to one group.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("Databases", &["db", "root", "config", "print_config"]),
    (
        "Cycles",
        &[
            "interval",
            "debounce",
            "once",
            "jobs",
            "fetch_jobs",
            "fetch_interval",
            "action",
            "exec",
            "cycle_timeout",
            "skip_warn",
        ],
    ),
    (
        "Logs",
        &[
            "log_file",
            "log_format",
            "log_size",
            "log_keep",
            "log_level",
            "audit",
        ],
    ),
    ("Seen from outside", &["listen", "stale_after"]),
    (
        "Safeguards that these options waive",
        &[
            "listen_anywhere",
            "reap_proven_dead",
            "allow_foreign_owner",
            "any_directory",
            "allow_worktree",
        ],
    ),
    ("Documentation", &["man", "completions", "help", "version"]),
];

pub(super) const EXAMPLES: &[&str] = &[
    "beadlock-agent --db path/to/.beads",
    "beadlock-agent --config /etc/beadlock/agent.toml --print-config",
];

pub(super) const EXITS: &[(&str, &str)] = &[
    (
        "0",
        "the agent was told to end; with --once, every cycle ran",
    ),
    (
        "1",
        "it could not start; with --once, a cycle failed, or there was no database",
    ),
    ("2", "the command line or the file is wrong"),
    ("4", "with --once: a database is held or busy"),
    ("5", "with --once: a lock could not be checked"),
];

/// The command line as its help shows it.
pub(super) fn shaped(command: Command) -> Command {
    let examples: String = EXAMPLES
        .iter()
        .map(|line| format!("\n  {LITERAL}{line}{LITERAL:#}"))
        .collect();
    let exits: String = EXITS
        .iter()
        .map(|(code, words)| format!("\n  {code}  {words}"))
        .collect();
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::HelpShort)
        .help("Print help");
    let version = Arg::new("version")
        .short('V')
        .long("version")
        .action(ArgAction::Version)
        .help("Print version");
    in_groups(command.args([help.display_order(40), version.display_order(41)]))
        .before_help(format!("{HEADING}Examples:{HEADING:#}{examples}"))
        .after_help(format!("{HEADING}Exit codes:{HEADING:#}{exits}"))
}

/// clap lists the groups in the order of their first options.
fn in_groups(command: Command) -> Command {
    let group = |arg: &Arg| {
        GROUPS
            .iter()
            .position(|(_, names)| names.contains(&arg.get_id().as_str()))
    };
    let mut args: Vec<Arg> = command.get_arguments().cloned().collect();
    args.sort_by_key(|arg| group(arg).unwrap_or(GROUPS.len()));
    let titled = |arg: Arg| match group(&arg).and_then(|at| GROUPS.get(at)) {
        Some((title, _)) => arg.help_heading(*title).hide_env_values(true),
        None => arg,
    };
    let groups: Vec<ArgGroup> = command.get_groups().cloned().collect();
    let version = command.get_version().unwrap_or_default().to_owned();
    let long = command.get_long_version().unwrap_or_default().to_owned();
    let about = command.get_about().cloned().unwrap_or_default();
    let listed = Command::new(NAME)
        .version(version)
        .long_version(long)
        .about(about)
        .args(args.into_iter().map(titled))
        .groups(groups);
    let listed = listed
        .styles(STYLES)
        .max_term_width(COLUMNS)
        .help_template(TEMPLATE);
    listed.disable_help_flag(true).disable_version_flag(true)
}

#[cfg(test)]
mod tests {
    use super::super::cli::AgentCli;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_option_belongs_to_one_group() {
        let command = shaped(AgentCli::command());
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let name = arg.get_id().as_str();
            assert_eq!(
                GROUPS
                    .iter()
                    .filter(|(_, names)| names.contains(&name))
                    .count(),
                1,
                "{name}: see GROUPS"
            );
        }
    }
}
