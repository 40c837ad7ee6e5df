//! `tower:NAME` on a command line: the options that mean something to it alone, and the intent file.

mod fields;
mod intent;
mod yaml;

use beadlock_claim::error::Problem;
use std::path::PathBuf;

use clap::Args;

use super::{ProtocolHelp, arguments::given};
use beadlock_claim::error::Error;
use intent::{IntentMode, Params, is_param, seconds};

pub use fields::request;

pub const HEADING: &str = "Named locks (tower:NAME)";

/// The options that it understands beside those of every claim.
pub const OPTIONS: &[&str] = &[
    "--force-lock",
    "--request-id",
    "--actor",
    "--intent-name",
    "--intent-version",
    "--ttl",
    "--mode",
    "--metadata",
    "--host-id",
    "--intent",
    "--param",
    "--raw",
    "--failure-step",
    "--rollback",
    "--result",
];

/// Why an option of every claim does nothing with a named lock.
pub fn ignores(option: &str) -> Option<&'static str> {
    match option {
        "--holder" => Some("it has an actor: --actor NAME"),
        "--holder-version" => Some("it has the version of its intent: --intent-version VERSION"),
        "--reap-proven-dead" => Some("its PID is never asked, only its heartbeat"),
        _ => None,
    }
}

/// The page of `beadlock help tower`.
pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A named lock: tower:NAME",
    text: "\
The lock is the file NAME.lock in the lock directory. It says who runs what, and since when.

A lock is valid as long as its heartbeat is fresh. beadlock writes the heartbeat while the command runs. After --ttl \
seconds without a heartbeat the lock is stale. A stale lock is taken only with --force-lock. Its PID is never asked.

A claim does not wait for the holder, unless --wait says so.",
    examples: "\
beadlock hold tower:app --intent-name deploy --intent-version 2 -- ./deploy.sh
beadlock hold --intent deploy.yaml -- ./deploy.sh
beadlock list tower:",
    heading: HEADING,
};

#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct TowerArgs {
    /// Take the lock when it is stale; a lock that is not stale is never taken
    #[arg(long, help_heading = HEADING)]
    pub force_lock: bool,
    /// The name of this run, 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-' [default: req_ and 12 random characters]
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    pub request_id: Option<String>,
    /// The user or program that runs it [env: ACTOR] [default: the user's name]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub actor: Option<String>,
    /// The name of the work [default: the intent's name]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub intent_name: Option<String>,
    /// The version of the work [default: the intent's version]
    #[arg(long, value_name = "VERSION", help_heading = HEADING)]
    pub intent_version: Option<String>,
    /// How long the lock stays valid without a heartbeat [default: the intent's lock_ttl, else 900]
    #[arg(long, value_name = "SECONDS", value_parser = ttl, help_heading = HEADING)]
    pub ttl: Option<u64>,
    /// observe takes no lock and is blocked by none; mutate and reconcile lock [default: the intent's mode, else
    /// mutate]
    #[arg(long, value_name = "MODE", hide_possible_values = true, help_heading = HEADING)]
    pub mode: Option<IntentMode>,
    /// More data for the lock: a JSON object
    #[arg(long, value_name = "JSON", help_heading = HEADING)]
    pub metadata: Option<String>,
    /// The name of this machine in the lock [default: the host name]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub host_id: Option<String>,
    /// Read name, version, mode, time to live and the name of the lock from an intent file; options override it
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub intent: Option<PathBuf>,
    /// The value of ${params.K} in the name of the intent's lock; may be repeated
    #[arg(long = "param", value_name = "K=V", value_parser = param, requires = "intent", help_heading = HEADING)]
    pub params: Vec<(String, String)>,
}

/// What `hold` takes besides for a named lock; `release` takes the first.
#[derive(Debug, Clone, Default, Args)]
pub struct FailureStep {
    /// Which step failed, for the audit [default: what the command wrote into the file $BEADLOCK_RESULT_FILE]
    #[arg(long, value_name = "STEP", help_heading = HEADING)]
    pub failure_step: Option<String>,
}

impl TowerArgs {
    pub fn given(&self) -> Vec<&'static str> {
        let Self {
            request_id,
            actor,
            intent_name,
            intent_version,
            ttl,
            mode,
            metadata,
            host_id,
            ..
        } = self;
        given([
            ("--force-lock", self.force_lock),
            ("--request-id", request_id.is_some()),
            ("--actor", actor.is_some()),
            ("--intent-name", intent_name.is_some()),
            ("--intent-version", intent_version.is_some()),
            ("--ttl", ttl.is_some()),
            ("--mode", mode.is_some()),
            ("--metadata", metadata.is_some()),
            ("--host-id", host_id.is_some()),
            ("--intent", self.intent.is_some()),
            ("--param", !self.params.is_empty()),
        ])
    }

    pub fn params(&self) -> Result<Params, Error> {
        let mut params = Params::new();
        for (name, value) in &self.params {
            if params.insert(name.clone(), value.clone()).is_some() {
                return Err(Error::usage(format!("--param {name} is given twice")));
            }
        }
        Ok(params)
    }
}

fn ttl(text: &str) -> Result<u64, String> {
    seconds(text).ok_or_else(|| "wanted: whole seconds, above 0".to_owned())
}

fn param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_param(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err("wanted: K=V, K of A-Z, a-z, 0-9, '.', '_' and '-'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        typed: TowerArgs,
    }

    fn typed(words: &[&str]) -> Result<Cli, String> {
        Cli::try_parse_from(["x"].iter().chain(words)).map_err(|error| error.to_string())
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for (words, why) in [
            (&["--ttl", "0"][..], "whole seconds, above 0"),
            (&["--ttl", "15m"], "whole seconds, above 0"),
            (&["--ttl", "+5"], "whole seconds, above 0"),
            (&["--mode", "mutated"], "--mode"),
            (&["--param", "a=b"], "--intent <FILE>"),
            (&["--intent", "f", "--param", "a"], "wanted: K=V"),
            (&["--intent", "f", "--param", "=b"], "wanted: K=V"),
            (&["--intent", "f", "--param", "a b=c"], "wanted: K=V"),
        ] {
            let error = typed(words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
        let twice = typed(&[
            "--intent", "f", "--param", "a=b=c", "--param", "b=", "--param", "a=b",
        ])
        .unwrap();
        assert_eq!(twice.typed.params[0], ("a".to_owned(), "b=c".to_owned()));
        assert_eq!(
            twice.typed.params().unwrap_err().to_string(),
            "--param a is given twice"
        );
    }
}
