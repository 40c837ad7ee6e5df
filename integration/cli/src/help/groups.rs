//! The commands in groups, as `beadlock --help` lists them.

use clap::Command;

use super::style;

/// Each command belongs to one group. The help leaves out a command that this build does not have.
const GROUPS: &[(&str, &[&str])] = &[
    ("Claim", &["hold", "acquire", "renew", "release", "wait"]),
    ("Run sync cycles", &["cycle", "check"]),
    ("Look", &["status", "list", "top", "log", "doctor"]),
    ("Files", &["write", "update", "append"]),
    ("Git", &["merge", "setup"]),
    ("Across machines", &["fleet"]),
    ("By force", &["break"]),
    ("Help", &["help", "man", "completions", "schema"]),
];

/// The text below the options in `beadlock --help`.
pub const MORE: &str = "\
Targets:
  [beads:]DIR  dir:PATH  lock:PATH  tower:NAME  memory:DIR  file:PATH  flock:PATH

Without a command, beadlock shows the status of the nearest database, and of this repository's lock:@NAME.
To learn more, type `beadlock help COMMAND`, or `beadlock help PROTOCOL` with one of the protocols beads, dir, lock, tower, \
memory, file and flock.";

const BEFORE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n";

/// The program's help with the commands in groups, in place of clap's flat list.
pub fn listed(tree: Command) -> Command {
    let mut template = BEFORE.to_owned();
    for (title, names) in GROUPS {
        let commands: Vec<&Command> = names
            .iter()
            .filter_map(|name| tree.find_subcommand(name))
            .collect();
        if commands.is_empty() {
            continue;
        }
        template += &style::heading(title);
        for command in commands {
            let about = command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            template += &style::row(command.get_name(), &about);
        }
        template += "\n";
    }
    template += &style::heading("Options");
    template += "{options}{after-help}";
    tree.help_template(template).after_help(style::marked(MORE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::Cli;
    use clap::CommandFactory;

    #[test]
    fn each_command_belongs_to_one_group() {
        for command in Cli::command().get_subcommands().map(Command::get_name) {
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&command));
            assert_eq!(groups.count(), 1, "{command}: see GROUPS");
        }
    }

    #[test]
    fn each_command_has_one_line_of_its_own() {
        for command in Cli::command().get_subcommands() {
            let row = style::row(
                command.get_name(),
                &command
                    .get_about()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            );
            let row = anstream::adapter::strip_str(&row).to_string();
            assert!(
                row.trim_end().len() <= super::super::COLUMNS && row.lines().count() == 1,
                "{row}"
            );
        }
    }
}
