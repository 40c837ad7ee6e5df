//! `beadlock wait [TARGET]`: returns when a target is free (docs/design.md#looking). It claims nothing, and so promises
//! nothing about the moment after.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use beadlock_base::duration::{self, shown};
use beadlock_core::{Decision, Options, Removed, Skip, check};
use beadlock_core::{gate::Gate, take::Site};
use clap::Args;
use serde_json::Value;

use crate::settings::{audit, limit};
use crate::targets::LookArgs;
use beadlock_claim::error::Error;
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::protocol::rules::ProtocolKind;
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_claim::report::{Report, WAIT};
use beadlock_claim::{environment::Environment, wait::Wait};
use beadlock_claim::{fleet::has_joined, gate, retry::Retry, target::Target};
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, end_of},
};
use beadlock_oncall::same_dir::SameDir;
use beadlock_session::interactive_wait::InteractiveWait;
use beadlock_supervise::signals::Signals;

/// The command that shows the claims of the fleet.
const STATUS: &str = "beadlock fleet status";

const HELP: &str = "\
That it is free promises nothing about the moment after: to have it for yourself use beadlock hold. As a check does, \
it removes a lock whose holder is proved dead. Of a database in a fleet it knows only this machine's lock, and says so.

Exit 0: it was free. 1: its directory is gone, or was replaced. 4: held, or its gate was busy, to the end of the \
wait. 5: it could not be checked for 2s.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct WaitArgs {
    /// The database's directory, [beads:]DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH or flock:PATH
    /// [env: BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// How long to wait: DUR or forever; 0 looks once [env: BEADLOCK_WAIT] [default: 10s, for tower:NAME 0, for
    /// memory:DIR 5s, for file:PATH and flock:PATH 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_or_forever)]
    pub wait: Option<Duration>,
    #[command(flatten)]
    pub protocol: LookArgs,
}

pub fn run(typed: &WaitArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let waited = wait(typed, environment, common)
        .map_err(|stopped| end_of(stopped, " before it was free", ExitCodeOverrides::default()));
    conclude(common, waited)
}

fn wait(
    typed: &WaitArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, NotAcquired> {
    let talk = &common.talk;
    let limit = limit(typed.wait, "BEADLOCK_WAIT", environment)?;
    let target = resolve(
        typed.target.as_deref(),
        environment,
        Acceptance::ToLookAt(talk),
    )?;
    // What it waits for is the lock of this machine alone.
    let options = Options {
        has_fleet_right: true,
        ..typed.protocol.look().of(&target, Options::default())?
    };
    let wait = match limit {
        Some(Duration::ZERO) => Wait::No,
        Some(limit) => Wait::UpTo(limit),
        None => target.rules().default_wait,
    };
    if let ProtocolKind::Kernel(kernel) = target.rules().kind {
        let mut signals = Signals::block().map_err(Error::of_signals)?;
        let mut control = InteractiveWait::wait_of(&mut signals, talk, None);
        let waited = kernel.wait(&target, wait, environment, &mut control);
        talk.end_live();
        let waited = waited?;
        talk.say_more(&format!("{} is free after {}", target.given, shown(waited)));
        return Ok(answer(&target, waited, false));
    }
    target.refuse_tracked()?;
    target.warn(talk);
    if target.is_nowhere() {
        talk.say_more(&format!(
            "{} is free: its directory is not there",
            target.given
        ));
        return Ok(answer(&target, Duration::ZERO, false));
    }
    let ground = SameDir::of(&target)?;
    let trail = target.trail(
        audit(None, environment).as_deref(),
        (None, None),
        &common.request,
        talk,
    )?;
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let mut control = InteractiveWait::wait_of(&mut signals, talk, None);
    let begun = Instant::now();
    let removed = until_free(&target, wait, options, &mut control)?;
    talk.end_live();
    // Where the directory is gone there is no lock to be seen, and its holder may work on.
    ground.still(&target)?;
    let waited = begun.elapsed();
    if let Some(removed) = &removed {
        trail.removed(removed);
        target
            .removed(removed)
            .iter()
            .for_each(|words| talk.say(words));
    }
    talk.say_more(&format!("{} is free after {}", target.given, shown(waited)));
    if has_joined(&target)? {
        let given = &target.given;
        talk.say(&format!(
            "{given} is free on this machine; it has joined a fleet, which was not asked: {STATUS}"
        ));
    }
    Ok(answer(&target, waited, removed.is_some()))
}

fn answer(target: &Target, waited: Duration, removed: bool) -> Value {
    let report = Report {
        waited: Some(waited),
        removed,
        ..Report::of(target)
    };
    report.json(WAIT)
}

/// Checks until nothing is in the way; returns the stale lock that a check removed.
fn until_free(
    target: &Target,
    wait: Wait,
    options: Options,
    control: &mut dyn WaitControl,
) -> Result<Option<Removed>, NotAcquired> {
    let mut patience = Retry::to_see_it_free(target, wait, options);
    loop {
        let skip = match check_patiently(target, &patience.options(), patience.left(), control)? {
            Decision::Skip(skip) => skip,
            proceed => return Ok(proceed.removed().cloned()),
        };
        patience.after(skip, control)?;
    }
}

/// A check. Where it finds the gate shut, it waits for the gate, at most for `patience`, and checks again.
fn check_patiently(
    target: &Target,
    options: &Options,
    patience: Duration,
    control: &mut dyn WaitControl,
) -> Result<Decision, NotAcquired> {
    let decision = check(&target.place, options);
    let is_shut = || Gate::try_take(target.dir()).is_ok_and(|gate| gate.is_none());
    if !matches!(decision, Decision::Skip(Skip::InProgress)) || !is_shut() {
        return Ok(decision);
    }
    match gate::take_or_advise(
        target.dir(),
        patience,
        "wait longer with --wait DUR",
        control,
    )? {
        Ok(gate) => Ok(Site::new(&gate, options)
            .with_names(target.place.names())
            .settle()
            .into()),
        Err(_) => Ok(decision),
    }
}
