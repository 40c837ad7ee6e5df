//! The options that mean something to one protocol, for each command that takes any.

use beadlock_claim::error::Problem;
use std::{ffi::OsString, path::Path};

use beadlock_core::Options;
use clap::{Args as ClapArgs, ValueEnum};

use super::{file, memory, tower};
use beadlock_claim::{error::Error, protocol::LookOptions};

/// Those options of a list that were typed.
pub fn given<const N: usize>(options: [(&'static str, bool); N]) -> Vec<&'static str> {
    options
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(option, _)| option)
        .collect()
}

/// The options of `hold` and `acquire` that mean something to one protocol.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct Args {
    /// When the lock is held or stale, print the JSON that the protocol document names, and nothing else
    #[arg(long, conflicts_with = "json", help_heading = tower::HEADING)]
    raw: bool,
    #[command(flatten)]
    pub file: file::FileArgs,
    #[command(flatten)]
    pub memory: memory::MemoryArgs,
    #[command(flatten)]
    pub tower: tower::TowerArgs,
}

impl Args {
    pub fn options(&self) -> Options {
        Options {
            force_lock: self.tower.force_lock,
            keep_stale: self.memory.no_break_stale,
            limits: self.memory.ages.look().limits(),
            ..Options::default()
        }
    }

    pub fn raw(&self) -> bool {
        self.raw
    }

    pub fn files(&self) -> Option<&Path> {
        self.tower.intent.as_deref()
    }

    pub fn given(&self) -> Vec<&'static str> {
        [
            self.file.given(),
            self.memory.given(),
            self.tower.given(),
            given([("--raw", self.raw)]),
        ]
        .concat()
    }
}

/// The options of `hold` alone that mean something to one protocol.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct HoldOnlyArgs {
    #[command(flatten)]
    failure: tower::FailureStep,
    /// Run CMD by sh, still under the lock, when the command has failed
    #[arg(long, value_name = "CMD", help_heading = tower::HEADING)]
    rollback: Option<OsString>,
}

impl HoldOnlyArgs {
    pub fn given(&self) -> Vec<&'static str> {
        let step = &self.failure.failure_step;
        given([
            ("--failure-step", step.is_some()),
            ("--rollback", self.rollback.is_some()),
        ])
    }

    pub fn steps(self) -> (Option<String>, Option<OsString>) {
        (self.failure.failure_step, self.rollback)
    }
}

/// What became of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkResult {
    /// It is done.
    Success,
    /// It is not.
    Failure,
}

/// The options of `release` that mean something to one protocol.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct ReleaseArgs {
    /// What became of the work, for the audit: success, failure [default: success, with --failure-step failure]
    #[arg(long, value_name = "RESULT", hide_possible_values = true, help_heading = tower::HEADING)]
    result: Option<WorkResult>,
    #[command(flatten)]
    failure: tower::FailureStep,
}

impl ReleaseArgs {
    pub fn given(&self) -> Vec<&'static str> {
        let (result, step) = (self.result.is_some(), self.failure.failure_step.is_some());
        given([("--result", result), ("--failure-step", step)])
    }

    pub fn outcome(&self) -> Result<(Option<&str>, bool), Error> {
        let step = self.failure.failure_step.as_deref();
        if self.result == Some(WorkResult::Success) && step.is_some() {
            return Err(Error::usage(
                "--result success, and --failure-step: which of the two is it?",
            ));
        }
        Ok((step, self.result == Some(WorkResult::Failure)))
    }
}

/// The options of a look that mean something to one protocol.
#[derive(Debug, Clone, Default, ClapArgs)]
#[group(skip)]
pub struct LookArgs {
    #[command(flatten)]
    ages: memory::Ages,
}

impl LookArgs {
    /// The limits on a lock's age that were typed, as plain data.
    pub fn look(&self) -> LookOptions {
        self.ages.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::options;
    use beadlock_core::target::Scheme;
    use clap::{Arg, Command, FromArgMatches};

    fn each_is_known<A: ClapArgs + FromArgMatches>(given: fn(&A) -> Vec<&'static str>) {
        // What another part of the command line has, and `--raw` excludes.
        let command = A::augment_args(
            Command::new("beadlock")
                .no_binary_name(true)
                .arg(Arg::new("json")),
        );
        for arg in command.get_arguments() {
            let Some(option) = arg.get_long().map(|long| format!("--{long}")) else {
                continue;
            };
            let words = arg
                .get_possible_values()
                .into_iter()
                .map(|value| format!("={}", value.get_name()));
            let forms = ["", "=1", "=a=1"]
                .map(str::to_owned)
                .into_iter()
                .chain(words);
            // With --intent, which --param needs.
            let typed = |form| {
                [
                    vec![format!("{option}{form}")],
                    vec![format!("{option}{form}"), "--intent=file".to_owned()],
                ]
            };
            let parsed = |typed| {
                command
                    .clone()
                    .try_get_matches_from::<_, String>(typed)
                    .ok()
            };
            let matches = forms
                .into_iter()
                .flat_map(typed)
                .find_map(parsed)
                .expect(&option);
            let typed = A::from_arg_matches(&matches).unwrap();
            assert!(
                given(&typed).contains(&option.as_str()),
                "given() leaves {option} out"
            );
            let mut schemes = Scheme::ALL.into_iter();
            let has_owner = schemes.any(|scheme| options(scheme).contains(&option.as_str()));
            assert!(has_owner, "{option} is in the list of no protocol");
        }
    }

    /// Any other would be taken for every kind of target, and do nothing.
    #[test]
    fn every_option_is_given_when_it_is_typed_and_has_an_owner() {
        each_is_known(Args::given);
        each_is_known(HoldOnlyArgs::given);
        each_is_known(ReleaseArgs::given);
        each_is_known(|look: &LookArgs| look.look().given());
    }
}
