//! `beadlock schema`: the JSON Schemas of what beadlock answers and writes (docs/json.md). They are files of this package,
//! which `cargo xtask schemas` makes. `--schema` of write, update and append is another thing: a document's own schema.

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use crate::command_line::printed;
use beadlock_console::Console;
use beadlock_console::program_end::ProgramEnd;

/// The files by their names.
macro_rules! schemas {
    ($($name:literal,)*) => {
        const SCHEMAS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../schemas/", $name, ".json"))),)*];
    };
}

// In the order in which they are listed: answers, lines, lock files, the agent.
schemas! {
    "hold",
    "acquire",
    "release",
    "renew",
    "wait",
    "cycle",
    "check",
    "status",
    "status-agent",
    "list",
    "log",
    "doctor",
    "doctor-fleet",
    "break",
    "write",
    "update",
    "append",
    "merge",
    "setup-git",
    "fleet-create",
    "fleet-join",
    "fleet-leave",
    "fleet-status",
    "fleet-evict",
    "fleet-destroy",
    "error",
    "audit-line",
    "audit-line-tower",
    "log-line",
    "lock-beads",
    "lock-tower",
    "lock-memory",
    "agent-status",
    "agent-toml",
}

#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  beadlock schema
  beadlock schema status
  beadlock schema agent-toml > agent.schema.json")]
pub struct SchemaArgs {
    /// One of the names that `beadlock schema` lists; an answer has its command's
    #[arg(hide_possible_values = true, value_parser = PossibleValuesParser::new(names()))]
    pub name: Option<String>,
}

/// Prints a schema, or the list of their names.
pub fn run(typed: &SchemaArgs, common: &Console) -> ProgramEnd {
    let of_name = typed
        .name
        .as_ref()
        .and_then(|name| SCHEMAS.iter().find(|(known, _)| known == name));
    let text = of_name.map_or_else(listed, |(_, text)| (*text).to_owned());
    printed(Ok(text), common)
}

/// A line for each schema.
fn listed() -> String {
    let width = SCHEMAS.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or_default();
    let line = |(name, text): &(&str, &str)| {
        let schema: Value = serde_json::from_str(text).unwrap_or_default();
        format!(
            "{name:<width$}  {}\n",
            schema["title"].as_str().unwrap_or_default()
        )
    };
    SCHEMAS.iter().map(line).collect()
}

/// The names of all schemas.
fn names() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_the_folder_has_its_name_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let listed: BTreeSet<String> = names().map(|name| format!("{name}.json")).collect();
        assert_eq!(there, listed);
        assert_eq!(listed.len(), SCHEMAS.len());
    }

    #[test]
    fn each_is_draft_07_and_has_a_line() {
        for (name, text) in SCHEMAS {
            let schema: Value = serde_json::from_str(text).unwrap();
            assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
            assert!(!schema["title"].as_str().unwrap().is_empty(), "{name}");
        }
        assert_eq!(listed().lines().count(), SCHEMAS.len());
    }
}
