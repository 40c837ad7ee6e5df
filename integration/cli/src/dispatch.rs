//! The program `beadlock`: from the command line to its end.

use beadlock_claim::error::Problem;
use std::ffi::OsString;

use beadlock_base::helper::{self, HelperProgram, Helpers};
use beadlock_base::{children, sys};
use clap::{CommandFactory, error::ErrorKind};

use super::status::StatusArgs;
use super::{completion, help, hint, man, merge, schema};
use crate::command_line::{Cli, CliCommand};
use crate::commands::{
    acquire, append, break_lock, check, cycle, hold, release, renew, setup, update, wait, write,
};
use crate::settings::{self, common_unresolved};
use beadlock_base::stdout::print;
use beadlock_claim::envelope::Request;
use beadlock_claim::error::{Error, Exit};
use beadlock_claim::protocol::LookOptions;
use beadlock_claim::script::Script;
use beadlock_claim::{
    environment::{Environment, boolean},
    remote::Lookup,
};
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, not_written},
};
use beadlock_log as log;
use beadlock_oncall::doctor::second::DoctorTrials;
use beadlock_oncall::status;
use beadlock_oncall::status::LookAtFleet;
use beadlock_oncall::{agent, doctor, list, top};
use beadlock_session::lease_keeper::LeaseKeeperRequest;
use beadlock_supervise::watchdog::{GateKeeperHelper, WatchdogHelper};

/// The helper processes that this program can be.
const HELPERS: [HelperProgram; 5] = [
    HelperProgram::of::<LeaseKeeperRequest>(),
    HelperProgram::of::<WatchdogHelper>(),
    HelperProgram::of::<GateKeeperHelper>(),
    HelperProgram::of::<Lookup>(),
    HelperProgram::of::<DoctorTrials>(),
];

/// How `status` asks the fleet of a database.
#[cfg(feature = "fleet")]
const LOOK_AT_FLEET: LookAtFleet = crate::fleet::look::look_at_fleet;
#[cfg(not(feature = "fleet"))]
const LOOK_AT_FLEET: LookAtFleet = |_, _| None;

/// Reads the command line and the environment, does what they say, and answers how the program is to end.
pub fn run() -> ProgramEnd {
    let words: Vec<OsString> = std::env::args_os().collect();
    let helpers = match helper::serve(&words, &HELPERS) {
        Ok(helpers) => helpers,
        Err(code) => return ProgramEnd::Code(code),
    };
    if merge::is_typed(&words) {
        return merge::guarded(|| merge::run(&words));
    }
    do_what_is_typed(&words, helpers)
}

fn do_what_is_typed(words: &[OsString], helpers: Helpers) -> ProgramEnd {
    let request = Request::begin();
    sys::ignore_size_limit();
    // As the first process of a container: a dead holder that nobody else collects would look alive.
    children::reap_orphans();
    let environment = Environment::read();
    if let Some(end) = completion::answer(helpers, words, &environment) {
        return end;
    }
    let cli = match Cli::parse_words(words) {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error, words, &environment, request),
    };
    let environment = environment.with_lock_dir(cli.common.lock_dir.lock_dir.as_deref());
    let own = cli.command.as_ref().and_then(CliCommand::own_exit_code);
    let common = match settings::common(&cli.common, &environment, request.clone()) {
        Ok(common) => common,
        Err(error) => {
            let json = cli.common.json.unwrap_or_else(|| wants_json(&environment));
            return misused(
                error,
                own,
                words,
                &common_unresolved(json, &environment, request),
            );
        }
    };
    if let Some(name) = cli.command.as_ref().and_then(CliCommand::lacks_its_command) {
        let hint = hint::missing_dashes(words.get(1..).unwrap_or_default());
        let message =
            hint.unwrap_or_else(|| format!("no command; type: beadlock {name} -- CMD [ARG…]"));
        return misused(Error::usage(message), own, words, &common);
    }
    let without_json = cli.command.as_ref().and_then(CliCommand::without_json);
    if let Some(name) = without_json.filter(|_| cli.common.json == Some(true)) {
        let message =
            format!("{name} puts no JSON envelope around what it prints; leave --json out");
        return misused(Error::usage(message), own, words, &common);
    }
    environment
        .unknown()
        .into_iter()
        .for_each(|unknown| common.talk.note(&unknown));
    let reach = cli.command.as_ref().map(CliCommand::reach);
    let remote = settings::remote(helpers, reach.unwrap_or_default(), &environment);
    dispatch(
        cli.command,
        helpers,
        &environment.with_remote(remote),
        common,
    )
}

#[expect(clippy::too_many_lines, reason = "one arm for each command")]
fn dispatch(
    command: Option<CliCommand>,
    helpers: Helpers,
    environment: &Environment,
    common: Console,
) -> ProgramEnd {
    let talk = &common.talk;
    match command {
        Some(CliCommand::Hold(typed)) => hold::run(typed, helpers, environment, &common),
        Some(CliCommand::Acquire(typed)) => acquire::run(&typed, helpers, environment, &common),
        Some(CliCommand::Release(typed)) => release::run(&typed, environment, &common),
        Some(CliCommand::Renew(typed)) => renew::run(&typed, environment, &common),
        Some(CliCommand::Cycle(typed)) => cycle::run(typed, helpers, environment, &common),
        Some(CliCommand::Check(typed)) => check::run(&typed, environment, &common).print(&common),
        Some(CliCommand::Status(typed)) if typed.raw => {
            let answers = status::run_raw(&typed.targets, typed.protocol.look(), environment, talk);
            answers.print(&Console {
                json: false,
                ..common
            })
        }
        Some(CliCommand::Status(StatusArgs {
            agent: Some(address),
            watch: true,
            interval,
            ..
        })) => agent::watch::run(&address, interval, &common),
        Some(CliCommand::Status(StatusArgs {
            agent: Some(address),
            exit_code,
            ..
        })) => agent::run(&address, exit_code, &common),
        Some(CliCommand::Status(StatusArgs {
            id: Some(id),
            targets,
            protocol,
            ..
        })) => status::run_id(
            &targets,
            (&id, LOOK_AT_FLEET),
            protocol.look(),
            environment,
            talk,
        )
        .print(&common),
        Some(CliCommand::Status(typed)) => status::run(
            &typed.targets,
            (status::StatusScope::LockAndSync, LOOK_AT_FLEET),
            typed.protocol.look(),
            environment,
            talk,
        )
        .print(&common),
        Some(CliCommand::List(typed)) => list::run(&typed, environment, &common).print(&common),
        Some(CliCommand::Log(typed)) => {
            let answers = log::run(&typed, environment, talk);
            answers.print(&Console {
                json: common.json && !typed.html,
                ..common
            })
        }
        Some(CliCommand::Wait(typed)) => wait::run(&typed, environment, &common),
        Some(CliCommand::Write(typed)) => write::run(&typed, environment, &common),
        Some(CliCommand::Update(typed)) => update::run(typed, helpers, environment, &common),
        Some(CliCommand::Append(typed)) => append::run(&typed, environment, &common),
        Some(CliCommand::Merge(typed)) => merge::merge(&typed, &common),
        Some(CliCommand::Setup(typed)) => setup::run(&typed, environment, &common),
        Some(CliCommand::Break(typed)) => break_lock::run(&typed, environment, &common),
        Some(CliCommand::Top(typed)) => top::run(&typed, LOOK_AT_FLEET, environment, &common),
        #[cfg(feature = "fleet")]
        Some(CliCommand::Doctor(crate::command_line::DoctorArgs { fleet: true, .. })) => {
            crate::fleet::doctor::run(environment, &common)
        }
        Some(CliCommand::Doctor(typed)) => {
            doctor::run(&typed.doctor, helpers, environment, &common)
        }
        #[cfg(feature = "fleet")]
        Some(CliCommand::Fleet(typed)) => crate::commands::fleet::run(&typed, environment, &common),
        Some(CliCommand::Help(typed)) => help::run(&typed, environment, &common),
        Some(CliCommand::Man(typed)) => man::run(&typed, &common),
        Some(CliCommand::Completions(typed)) => completion::run(&typed, &common),
        Some(CliCommand::Schema(typed)) => schema::run(&typed, &common),
        None => {
            let end = status::run(
                &[],
                (status::StatusScope::LockAndSync, LOOK_AT_FLEET),
                LookOptions::default(),
                environment,
                talk,
            )
            .print(&common);
            if end == ProgramEnd::Code(Exit::Done.code()) {
                common
                    .talk
                    .say("claim it: beadlock hold -- CMD; everything else: beadlock --help");
            }
            end
        }
    }
}

/// Help and version are answers; the rest is a usage error, with a hint where the `--` was forgotten.
fn not_understood(
    error: &clap::Error,
    words: &[OsString],
    environment: &Environment,
    request: Request,
) -> ProgramEnd {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match print(help::text(words, error, environment)) {
            Ok(()) => ProgramEnd::Code(Exit::Done.code()),
            Err(why) => misused(
                not_written(&why),
                None,
                &[],
                &common_unresolved(false, environment, request),
            ),
        };
    }
    let words = words.get(1..).unwrap_or_default();
    let hint = hint::meant(words).or_else(|| hint::missing_dashes(words));
    let typed: Vec<&str> = words
        .iter()
        .take_while(|word| *word != "--")
        .filter_map(|word| word.to_str())
        .collect();
    let json = typed.iter().rev().find_map(|word| match *word {
        "--json" => Some(true),
        word => boolean(word.strip_prefix("--json=")?).ok(),
    });
    let common = common_unresolved(
        json.unwrap_or_else(|| wants_json(environment)),
        environment,
        request,
    );
    let message = hint.unwrap_or_else(|| {
        let rendered = error.render().to_string();
        rendered.trim_start_matches("error: ").trim_end().to_owned()
    });
    // Only of a command that has the option: 0 of a `check` must never be a usage error.
    let cli = Cli::command();
    let command = typed.iter().find_map(|word| cli.find_subcommand(word));
    let has_own = command.is_some_and(|command| {
        command
            .get_arguments()
            .any(|arg| arg.get_long() == Some("own-exit-code"))
    });
    let own = typed
        .iter()
        .enumerate()
        .filter(|_| has_own)
        .find_map(|(at, word)| {
            let next = || {
                (*word == "--own-exit-code")
                    .then(|| typed.get(at + 1).copied())
                    .flatten()
            };
            word.strip_prefix("--own-exit-code=")
                .or_else(next)?
                .parse()
                .ok()
                .filter(|code| *code != 0)
        });
    misused(Error::usage(message), own, words, &common)
}

/// By the environment; a value that is wrong is said elsewhere.
fn wants_json(environment: &Environment) -> bool {
    environment
        .parsed("BEADLOCK_JSON", boolean)
        .ok()
        .flatten()
        .unwrap_or(false)
}

/// Ends what was not understood: with `own`, where `--own-exit-code` is given.
fn misused(error: Error, own: Option<u8>, words: &[OsString], common: &Console) -> ProgramEnd {
    let end = ProgramEnd::Code(
        ExitCodeOverrides {
            conflict: None,
            own,
        }
        .code(error.exit()),
    );
    let end = conclude(common, Err((end, error)));
    let cli = Cli::command();
    let mut typed = words.iter().filter_map(|word| cli.find_subcommand(word));
    let is_for_eval =
        |command: &clap::Command| ["acquire", "release", "renew"].contains(&command.get_name());
    if !common.json && typed.next().is_some_and(is_for_eval) {
        Script::fail(end.as_code());
    }
    end
}
