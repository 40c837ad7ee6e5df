//! How the agent is set (docs/design.md#settings): by the command line, the environment and a file.
//!
//! ```text
//! print.rs      what would hold, as a file (`--print-config`)
//! settings.rs   what holds, made of all places, at the start and again at each reload
//! named.rs      the databases that are named, looked up
//! file.rs       the file of `--config` and its tables
//! keys.rs       its keys, read as the command line reads them
//! cli.rs        the command line and its environment variables
//! given.rs      what one place says, and which place beats which
//! options.rs    the options: each once
//! text.rs       values as they are typed
//! page.rs       the text of a file: read without ever waiting, and where in it a mistake is
//! failure.rs    why there are no settings
//! ```

mod cli;
mod failure;
mod file;
mod given;
mod keys;
mod named;
mod options;
mod page;
mod print;
mod settings;
mod text;

pub(crate) use self::cli::{CommandLine, Mode};
pub(crate) use self::failure::Failure;
pub(crate) use self::named::Arrived;
pub(crate) use self::options::{Action, Policy};
pub(crate) use self::print::print;
pub(crate) use self::settings::Settings;

#[cfg(test)]
mod tests;
