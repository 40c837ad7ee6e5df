//! How the agent is configured (docs/design.md#settings): by the command line, the environment and a TOML file.
//!
//! ```text
//! options.rs    every option, once
//! cli.rs        the command line and its environment variables, which override the file
//! file.rs       the file of `--config`, whose tables override one another and the built-in values
//! value.rs      how the file writes each value, read and printed
//! page.rs       the text of the file, and where in it a mistake is
//! named.rs      looks up the databases that are named
//! settings.rs   the result of all places, at the start and at each reload
//! print.rs      the result as a file (`--print-config`)
//! help.rs       the groups, the examples and the colours of `--help`
//! manual.rs     the manual pages (`--man`) and the completion scripts (`--completions`)
//! ```

mod cli;
mod file;
mod help;
mod manual;
mod named;
mod options;
mod page;
mod print;
mod settings;
mod value;

pub(crate) use self::cli::{CommandLine, RunMode};
pub(crate) use self::manual::documentation;
pub(crate) use self::named::ArrivedDatabase;
pub(crate) use self::options::{CycleAction, Policy};
pub use self::page::ConfigFailure;
pub(crate) use self::print::print;
pub use self::print::print_config;
pub(crate) use self::settings::AgentSettings;

#[cfg(test)]
mod tests;
