//! The command line of `beadlock status`.

use std::{ffi::OsString, time::Duration};

use beadlock_base::address::Address;
use clap::{Args, builder::OsStringValueParser, builder::TypedValueParser};

use super::targets::LookArgs;

const EXAMPLES: &str = "\
Examples:
  beadlock status
  beadlock status --agent unix:agent.sock
  beadlock status --agent localhost:19187 --exit-code   # for probes and cron";

const EXITS: &str = "\
status changes nothing. It exits with 0 when it could look, whatever it found; with --id only while that claim
stands, else with 9. With --exit-code: 0 all is well, 1 the work of a database does not arrive, 4 one is skipped,
5 no agent answers.";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct StatusArgs {
    /// The databases' directories, [beads:]DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH, or flock:PATH
    pub targets: Vec<OsString>,
    /// Print the lock file's own bytes, unchanged, and nothing else; of memory:DIR its document's status object
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Exit with 0 while the claim with this id stands, else with 9; of one target
    #[arg(long, value_name = "ID", conflicts_with_all = ["raw", "agent"])]
    pub id: Option<String>,
    /// Ask the agent that listens at ADDR how all its databases fare: IP:PORT, localhost:PORT,
    /// or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = address(),
          conflicts_with_all = ["raw", "targets", "stale_after", "stale_after_remote"])]
    pub agent: Option<Address>,
    /// With --agent: exit with 0 when all is well, 1 when one fails or is not served, 4 when one is skipped, 5 when no
    /// agent answers
    #[arg(long, requires = "agent", conflicts_with_all = ["watch", "targets", "id", "raw"])]
    pub exit_code: bool,
    /// Print what changes, a line each, until a signal ends it
    #[arg(long, requires = "agent", conflicts_with_all = ["json", "targets", "id", "raw"])]
    pub watch: bool,
    /// With --watch: the time between two looks
    #[arg(long, value_name = "DUR", default_value = "2s", requires = "watch",
          value_parser = beadlock_base::duration::interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub protocol: LookArgs,
}

fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::parse(&text))
}
