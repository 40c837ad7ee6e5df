//! What is typed for every command, and what for every claim, whatever its protocol.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use beadlock_base::duration;
use beadlock_core::database::Directories;
use clap::{Args, builder::OsStringValueParser, builder::TypedValueParser};

use beadlock_claim::environment::boolean;
use beadlock_claim::labels::Labels;
use beadlock_console::{program_end::ExitCodeOverrides, talk::Color};

/// Where `--help` puts what every command takes.
const EVERYWHERE: &str = "Everywhere";

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// Answer with one JSON object on stdout [env: BEADLOCK_JSON]
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, hide_possible_values = true, default_missing_value = "yes", value_parser = boolean)]
    pub json: Option<bool>,
    /// Say only what went wrong [env: BEADLOCK_QUIET]
    #[arg(short, long, global = true, help_heading = EVERYWHERE, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_missing_value = "yes", value_parser = boolean, overrides_with = "verbose")]
    pub quiet: Option<bool>,
    /// Say more
    #[arg(short, long, global = true, help_heading = EVERYWHERE, overrides_with = "quiet")]
    pub verbose: bool,
    /// When to use colours: auto, always, never; NO_COLOR is heeded [env: BEADLOCK_COLOR] [default: auto]
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "WHEN", hide_possible_values = true)]
    pub color: Option<Color>,
    #[command(flatten)]
    pub lock_dir: LockDirArg,
}

// Every command takes it, and `--help` shows it where it may mean something. A doc comment here would become the
// description of the command.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct LockDirArg {
    /// The directory of named locks [env: BEADLOCK_LOCK_DIR] [default: for root /root/tower-fleet/logs/locks, else
    /// tower-fleet/locks in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", value_parser = lock_dir())]
    pub lock_dir: Option<OsString>,
}

impl LockDirArg {
    pub const ID: &str = "lock_dir";
}

/// How a claim is made: what `hold` and `acquire` share.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ClaimArgs {
    /// The version of the holder, for the lock file of a database or of lock:PATH [env: BEADLOCK_HOLDER_VERSION]
    /// [default: none]
    #[arg(long, value_name = "VERSION")]
    pub holder_version: Option<String>,
    /// The address of a page about this work, such as a CI run: http or https. Waiting processes show it
    /// [env: BEADLOCK_ABOUT]
    #[arg(long, value_name = "URL")]
    pub about: Option<String>,
    /// How long to wait for the holder of the lock: DUR or forever [env: BEADLOCK_WAIT] [default: 10s, for tower:NAME
    /// 0s, for memory:DIR 5s, for file:PATH and flock:PATH 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_or_forever, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait for the holder of the lock
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait for a sync cycle that is running: DUR or forever [env: BEADLOCK_DRAIN] [default: 130s, with
    /// --no-wait 1s, with --wait forever as long]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_or_forever)]
    pub drain: Option<Duration>,
    /// Exit with N when the target is held or busy, instead of 4 (for file:PATH and flock:PATH 8)
    #[arg(long, value_name = "N")]
    pub conflict_exit_code: Option<u8>,
    /// Exit with N instead of every exit code that is not the command's
    #[arg(long, value_name = "N", value_parser = own_exit_code())]
    pub own_exit_code: Option<u8>,
    /// Also take the lock of a holder that other facts than its PID prove dead: for a database or lock:PATH
    #[arg(long)]
    pub reap_proven_dead: bool,
    /// Claim DIR although it does not look like a database: it is not called .beads, is not $BEADS_DIR, and has no
    /// *.db, *.sqlite*, *.jsonl or redirect in it
    #[arg(long)]
    pub any_directory: bool,
    /// Claim it on this machine alone, although the database has joined a fleet: no agent elsewhere keeps away
    #[arg(long)]
    pub no_fleet: bool,
    /// Write the outcome to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Append a JSON line to FILE for each event of the lock [env: BEADLOCK_AUDIT] [default for tower:NAME: audit.jsonl
    /// beside the lock directory]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

impl ClaimArgs {
    /// Which directories are taken for databases.
    pub fn directories(&self) -> Directories {
        Directories::any(self.any_directory)
    }

    /// What the record is to say of the holder beside its name, as far as it was typed.
    pub fn labels(&self) -> Labels {
        Labels {
            version: self.holder_version.clone(),
            about: self.about.clone(),
            acquired: false,
        }
    }

    /// The exit codes that are wanted in place of ours.
    pub fn replaced(&self) -> ExitCodeOverrides {
        ExitCodeOverrides {
            conflict: self.conflict_exit_code,
            own: self.own_exit_code,
        }
    }
}

/// A code in place of those of failures: 0 would hide them.
pub fn own_exit_code() -> impl TypedValueParser<Value = u8> {
    clap::value_parser!(u8).range(1..)
}

fn lock_dir() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|dir| {
        if dir.is_empty() {
            Err("the lock directory's name is empty")
        } else {
            Ok(dir)
        }
    })
}
