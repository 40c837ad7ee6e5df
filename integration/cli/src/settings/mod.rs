//! What was typed, over what the environment says, over the defaults (docs/design.md#settings). What waives a safeguard
//! has no variable.

use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::{duration, helper::Helpers};
use beadlock_core::Options;
use clap::ValueEnum;

use crate::command_line::CommandReach;
use arguments::{ClaimArgs, CommonArgs};
use beadlock_claim::envelope::Request;
use beadlock_claim::environment::{Environment, boolean};
use beadlock_claim::error::Error;
use beadlock_claim::labels::{Labels, check_holder};
use beadlock_claim::remote::{ProbeLimit, Remote};
use beadlock_claim::wait::Wait;
use beadlock_console::{
    Console,
    talk::{Color, Talk},
};
use beadlock_session::on_loss::OnLoss;

pub mod arguments;

/// How every command answers. A variable that is wrong is an error with exit 2 that names it.
pub fn common(
    typed: &CommonArgs,
    environment: &Environment,
    request: Request,
) -> Result<Console, Error> {
    let json = environment
        .unless(typed.json, "BEADLOCK_JSON", boolean)?
        .unwrap_or(false);
    let quiet = typed.quiet.or(typed.verbose.then_some(false));
    let quiet = environment
        .unless(quiet, "BEADLOCK_QUIET", boolean)?
        .unwrap_or(false);
    let color = environment
        .unless(typed.color, "BEADLOCK_COLOR", one_of)?
        .unwrap_or_default();
    Ok(Console {
        json,
        talk: Talk::new(quiet, typed.verbose, color, environment.terminal()),
        request,
    })
}

/// The form of answers to errors that come before the command line is understood.
pub fn common_unresolved(json: bool, environment: &Environment, request: Request) -> Console {
    Console {
        json,
        talk: Talk::new(false, false, Color::Auto, environment.terminal()),
        request,
    }
}

fn one_of<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, true).map_err(|_| {
        let values = T::value_variants()
            .iter()
            .filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        format!("{text:?} is neither of {}", names.join(", "))
    })
}

/// What was typed, else what the variable says. A variable that is wrong is an error with exit 2 that names it.
pub fn either(
    typed: Option<Duration>,
    name: &str,
    environment: &Environment,
) -> Result<Option<Duration>, Error> {
    environment.unless(typed, name, duration::parse)
}

/// The same for the limit of a wait, which may be `forever`.
pub fn limit(
    typed: Option<Duration>,
    name: &str,
    environment: &Environment,
) -> Result<Option<Duration>, Error> {
    environment.unless(typed, name, duration::parse_or_forever)
}

/// How long what is left after a signal or a loss may take: what was typed, else `$BEADLOCK_KILL_AFTER`, else 10 s.
pub fn kill_after(typed: Option<Duration>, environment: &Environment) -> Result<Duration, Error> {
    Ok(either(typed, "BEADLOCK_KILL_AFTER", environment)?.unwrap_or(Duration::from_secs(10)))
}

/// The audit file that was typed, else `$BEADLOCK_AUDIT`.
pub fn audit(typed: Option<&Path>, environment: &Environment) -> Option<PathBuf> {
    typed
        .map(Path::to_owned)
        .or_else(|| environment.get("BEADLOCK_AUDIT").map(PathBuf::from))
}

/// The guard against file systems that do not answer: the wait of the command bounds how long an answer is waited for.
pub fn remote(helpers: Helpers, reach: CommandReach<'_>, environment: &Environment) -> Remote {
    // A variable that is wrong is said by the command itself.
    let variable = |name| {
        let limit = environment.parsed(name, duration::parse_or_forever);
        limit.ok().flatten()
    };
    let patience = match reach.wait {
        None => ProbeLimit::Look,
        Some(typed) => ProbeLimit::Waits {
            wait: match typed.no_wait {
                true => Some(Wait::No),
                false => typed
                    .wait
                    .or_else(|| variable("BEADLOCK_WAIT"))
                    .map(Wait::UpTo),
            },
            drain: typed.drain.or_else(|| variable("BEADLOCK_DRAIN")),
        },
    };
    let files = reach.files.into_iter().flatten().map(Path::to_owned);
    let besides = audit(reach.audit, environment).into_iter().chain(files);
    let cwd = environment.of_database().cwd;
    Remote::of(helpers, patience, besides.collect(), cwd)
}

/// How a claim is made.
#[derive(Debug, Clone)]
pub struct ClaimSettings {
    /// The name in the record; `None`: the command's base name.
    pub holder: Option<String>,
    /// The optional fields of the record.
    pub labels: Labels,
    wait: Option<Wait>,
    drain: Option<Duration>,
    /// The options of the lock's check, for instance which holders count as dead.
    pub options: Options,
    /// The audit trail.
    pub audit: Option<PathBuf>,
}

impl ClaimSettings {
    /// `options` is what is typed for one protocol alone. An error has exit 2, and names the variable or the option.
    pub fn resolve(
        typed: &ClaimArgs,
        options: Options,
        holder: Option<&String>,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let wait = match typed.no_wait {
            true => Some(Wait::No),
            false => limit(typed.wait, "BEADLOCK_WAIT", environment)?.map(Wait::UpTo),
        };
        let holder = environment.unless(holder.cloned(), "BEADLOCK_HOLDER", |name| {
            Ok(name.to_owned())
        })?;
        holder.as_deref().map_or(Ok(()), check_holder)?;
        Ok(Self {
            holder,
            labels: typed.labels().or_of(environment)?,
            wait,
            drain: limit(typed.drain, "BEADLOCK_DRAIN", environment)?,
            options: Options {
                reap_proven_dead: typed.reap_proven_dead,
                has_fleet_right: typed.no_fleet,
                ..options
            },
            audit: audit(typed.audit.as_deref(), environment),
        })
    }

    /// How long to wait for a holder, `default` where nothing says so, and how long for a running cycle.
    pub fn patience(&self, default: Wait) -> (Wait, Duration) {
        let wait = self.wait.unwrap_or(default);
        (wait, wait.drain(self.drain))
    }
}

/// How `hold` claims, runs and ends.
#[derive(Debug)]
pub struct HoldSettings {
    pub claim: ClaimSettings,
    pub on_loss: OnLoss,
    /// How long processes may still run after a signal or a loss, before they are killed.
    pub kill_after: Duration,
}

impl HoldSettings {
    /// An error has exit 2, and names the variable or the option.
    pub fn resolve(
        claim: ClaimSettings,
        on_loss: Option<OnLoss>,
        typed_kill_after: Option<Duration>,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let on_loss = environment
            .unless(on_loss, "BEADLOCK_ON_LOSS", OnLoss::parse)?
            .unwrap_or_default();
        Ok(Self {
            claim,
            on_loss,
            kill_after: kill_after(typed_kill_after, environment)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line as cli;
    use clap::Parser;

    fn hold(args: &[&str], variables: &[(&str, &str)]) -> Result<HoldSettings, Error> {
        let words = ["beadlock", "hold"]
            .iter()
            .chain(args)
            .chain(&["--", "true"]);
        let cli::Cli {
            command: Some(cli::CliCommand::Hold(typed)),
            ..
        } = cli::Cli::try_parse_from(words).unwrap()
        else {
            panic!("not hold")
        };
        let environment = Environment::of(variables);
        let claim = ClaimSettings::resolve(
            &typed.claim,
            typed.protocol.options(),
            typed.holder.as_ref(),
            &environment,
        )?;
        HoldSettings::resolve(claim, typed.on_loss, typed.kill_after, &environment)
    }

    fn common(args: &[&str], variables: &[(&str, &str)]) -> Console {
        let typed = cli::Cli::try_parse_from(["beadlock"].iter().chain(args)).unwrap();
        super::common(&typed.common, &Environment::of(variables), Request::begin()).unwrap()
    }

    #[test]
    fn the_command_line_beats_the_environment_also_across_opposites() {
        let seconds = |seconds| Wait::UpTo(Duration::from_secs(seconds));
        assert_eq!(
            hold(&[], &[]).unwrap().claim.patience(Wait::DEFAULT).0,
            seconds(10)
        );
        assert_eq!(
            hold(&[], &[("BEADLOCK_WAIT", "3")])
                .unwrap()
                .claim
                .patience(Wait::DEFAULT)
                .0,
            seconds(3)
        );
        assert_eq!(
            hold(&["--no-wait"], &[("BEADLOCK_WAIT", "3")])
                .unwrap()
                .claim
                .patience(Wait::DEFAULT)
                .0,
            Wait::No
        );
        assert_eq!(
            hold(&["--no-wait"], &[("BEADLOCK_WAIT", "nonsense")])
                .unwrap()
                .claim
                .patience(Wait::DEFAULT)
                .0,
            Wait::No
        );
        assert_eq!(
            hold(&["--wait", "2m"], &[("BEADLOCK_WAIT", "3")])
                .unwrap()
                .claim
                .patience(Wait::DEFAULT)
                .0,
            seconds(120)
        );
        assert!(common(&[], &[("BEADLOCK_JSON", "1")]).json);
        assert!(!common(&["--json=no"], &[("BEADLOCK_JSON", "1")]).json);
    }

    #[test]
    fn the_drain_is_short_without_a_wait_unless_it_is_given() {
        assert_eq!(
            hold(&[], &[]).unwrap().claim.patience(Wait::DEFAULT).1,
            Duration::from_secs(130)
        );
        assert_eq!(
            hold(&["--no-wait"], &[])
                .unwrap()
                .claim
                .patience(Wait::DEFAULT)
                .1,
            Duration::from_secs(1)
        );
        assert_eq!(
            hold(&["--no-wait", "--drain", "5"], &[])
                .unwrap()
                .claim
                .patience(Wait::DEFAULT)
                .1,
            Duration::from_secs(5)
        );
        assert_eq!(
            hold(&["--no-wait"], &[("BEADLOCK_DRAIN", "7s")])
                .unwrap()
                .claim
                .patience(Wait::DEFAULT)
                .1,
            Duration::from_secs(7)
        );
    }

    #[test]
    fn what_waives_a_safeguard_has_no_variable() {
        let variables = [("BEADLOCK_REAP_PROVEN_DEAD", "1")];
        assert!(
            !hold(&[], &variables)
                .unwrap()
                .claim
                .options
                .reap_proven_dead
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = hold(&[], &[("BEADLOCK_KILL_AFTER", "soon")]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("$BEADLOCK_KILL_AFTER: \"soon\" is no duration"),
            "{error}"
        );
        let error = hold(&["--holder", "a\nb"], &[]).unwrap_err();
        assert!(error.to_string().contains(r#""a\nb""#), "{error}");
        assert_eq!(
            hold(&[], &[("BEADLOCK_HOLDER", "")]).unwrap().claim.holder,
            None
        );
    }
}
