//! `beadlock hold [TARGET] -- CMD`: claim, run, release (docs/design.md#holding).

mod fleet;
mod wanted;

use beadlock_claim::error::Problem;
use std::{ffi::OsString, path::Path, path::PathBuf, time::Duration};

use beadlock_base::{duration, helper::Helpers};
use clap::Args;

use crate::git_reminder::Reminding;
use crate::settings::{ClaimSettings, HoldSettings, arguments::ClaimArgs};
use crate::targets::{self, Claimer, HoldOnlyArgs, refuse_report, targets_of_claim};
use beadlock_base::stdout::print;
use beadlock_claim::audit_trail::refuse_lock_file;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::protocol::named_claim::{anew, refuse_lost};
use beadlock_claim::report::Report;
use beadlock_claim::{observe::NotAcquired, request::ClaimRequest};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{
    Console,
    answers::{end_of, print_envelope},
};
use beadlock_session::on_loss::OnLoss;
use beadlock_session::report;
use beadlock_session::{
    session::{Finished, Session},
    steps::Steps,
};
use beadlock_supervise::{command::Command, signals::Signals};

const EXAMPLES: &str = "\
Examples:
  beadlock hold -- make release
  beadlock hold path/to/.beads --wait 1m -- ./import.sh";

const EXITS: &str = "\
Exit codes:
  1    beadlock failed: I/O, a permission, or a target that does not exist
  2    the command line is wrong
  4    the target was held or busy until the wait ended
  5    the lock could not be checked
  8    the lock of a file (file:PATH, flock:PATH) was not obtained
  9    the lock was lost while CMD ran
  125  beadlock failed after the claim and before CMD started
  126  CMD cannot be executed
  127  CMD was not found

Any other exit code is that of CMD. It is 128+N when signal N killed CMD.";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct HoldArgs {
    /// The database's directory, [beads:]DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH, or flock:PATH [env:
    /// BEADLOCK_TARGET] [default: what --intent names, else the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// One more target, of any kind; may be repeated. All targets are claimed, or none. --wait counts for all of them
    /// together. The order of the claims does not depend on the command line, so two such commands never deadlock
    #[arg(long = "and", value_name = "TARGET")]
    pub and: Vec<OsString>,
    /// The name in the lock file and in daemons' logs [env: BEADLOCK_HOLDER] [default: the command's base name]
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    #[command(flatten)]
    pub claim: ClaimArgs,
    #[command(flatten)]
    pub protocol: targets::Args,
    /// What to do when the lock is lost: end the command, warn, or warn and send the command a signal (HUP, INT, TERM,
    /// USR1 or USR2) [env: BEADLOCK_ON_LOSS] [default: kill]
    #[arg(long, value_name = "kill|warn|signal:NAME", value_parser = OnLoss::parse)]
    pub on_loss: Option<OnLoss>,
    /// How long processes may take to end after a signal or a loss, before they are killed
    /// [env: BEADLOCK_KILL_AFTER] [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub kill_after: Option<Duration>,
    /// Claim it anew where the claim that $BEADLOCK_ID names is gone
    #[arg(long)]
    pub new_claim: bool,
    /// Keep the lock until everything that the command started has ended
    #[arg(long)]
    pub wait_group: bool,
    #[command(flatten)]
    pub hold_only: HoldOnlyArgs,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl HoldArgs {
    /// Refuses a report that is the lock of one of the targets.
    fn refuse_report(&self, environment: &Environment) -> Result<(), Error> {
        let targets = [self.target.as_deref()]
            .into_iter()
            .chain(self.and.iter().map(|target| Some(target.as_os_str())));
        targets
            .into_iter()
            .try_for_each(|target| refuse_report(self.claim.report.as_deref(), target, environment))
    }
}

/// Runs the command under the lock, and says how the program is to end.
pub fn run(
    typed: HoldArgs,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
) -> ProgramEnd {
    let own = typed.claim.replaced();
    let (mut report_file, raw) = (typed.claim.report.clone(), typed.protocol.raw());
    let mut report = Report::default();
    let refused = typed
        .refuse_report(environment)
        .and_then(|()| {
            let may_touch = |file: &&Path| environment.remote().may_touch(file);
            report::refuse_unwritable(report_file.as_deref().filter(may_touch))
        })
        .inspect_err(|_| report_file = None);
    let stopped = refused
        .and_then(|()| {
            ClaimSettings::resolve(
                &typed.claim,
                typed.protocol.options(),
                typed.holder.as_ref(),
                environment,
            )
        })
        .and_then(|claim| {
            HoldSettings::resolve(claim, typed.on_loss, typed.kill_after, environment)
        })
        .map_err(NotAcquired::from)
        .and_then(|settings| hold(typed, &settings, helpers, environment, common, &mut report));
    let (end, error) = match stopped {
        Ok(Finished { end, lost: None }) => (end, None),
        Ok(Finished {
            lost: Some(error), ..
        }) => (ProgramEnd::Code(own.code(error.exit())), Some(error)),
        Err(stopped) => {
            let (end, error) = end_of(stopped, " before the command was started", own);
            (end, Some(error))
        }
    };
    let report_file = report_file.filter(|file| environment.remote().may_touch(file));
    report::conclude(common, report_file.as_deref(), &report, error.as_ref());
    if raw && let Some(lock) = error.as_ref().and_then(Error::answer) {
        // A reader that is gone has the exit code.
        let _ = print(format!("{lock:#}\n"));
    } else if error.is_some() && report.pid.is_none() {
        print_envelope(common, report::data(&report), error.as_ref());
    }
    end
}

fn hold(
    typed: HoldArgs,
    HoldSettings {
        claim,
        on_loss,
        kill_after,
    }: &HoldSettings,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
    report: &mut Report,
) -> Result<Finished, NotAcquired> {
    let talk = &common.talk;
    let besides = typed.hold_only.given();
    let of_claim = (&typed.protocol, &typed.claim);
    let of_options = (typed.holder.as_ref(), besides.as_slice());
    let targets = targets_of_claim(
        typed.target.as_deref(),
        &typed.and,
        of_claim,
        of_options,
        environment,
    )?;
    // Before the directory of a target is made for it.
    let command = Command::find(typed.command, environment.get("PATH"))?;
    let claimer = Claimer {
        settings: claim,
        name: &command.holder_name(),
        environment,
    };
    let wanted = wanted::all(targets, &typed.protocol, claimer, talk)?;
    if !typed.new_claim {
        let of_command = command.words();
        for ClaimRequest { target, .. } in &wanted {
            let anew = || anew("beadlock hold --new-claim {} -- {}", target, of_command);
            refuse_lost(target, environment, anew)?;
        }
    }
    let (on_loss, kill_after, wait_group) = (*on_loss, *kill_after, typed.wait_group);
    let order = Vec::new();
    let program = Reminding::with(talk, environment.of_database().cwd);
    let session = Session {
        command,
        on_loss,
        kill_after,
        wait_group,
        steps: None,
        order,
        helpers,
        environment,
        talk,
        observer: &program,
    };
    let Some(first) = wanted.first() else {
        return session.run(
            &mut [],
            &mut Signals::block().map_err(Error::of_signals)?,
            report,
        );
    };
    *report = Report::of(&first.target);
    let targets = wanted.iter().map(|wanted| &wanted.target);
    report.claims = targets.map(Report::of).collect();
    let locks: Vec<&Path> = report.claims.iter().map(|of| of.path.as_path()).collect();
    refuse_lock_file("--report", typed.claim.report.as_deref(), &locks)?;
    let own_files = wanted.iter().map(|wanted| &wanted.target);
    let own_files: Vec<PathBuf> = own_files.flat_map(|target| target.own_files()).collect();
    refuse_lock_file("--audit", claim.audit.as_deref(), &own_files)?;
    let requests = wanted::prepared(wanted, environment, talk)?;
    let trail = |request: &ClaimRequest| {
        wanted::trail(request, claim.audit.as_deref(), &common.request, talk)
    };
    let trails = requests.iter().map(trail).collect::<Result<Vec<_>, _>>()?;
    // Under an outer claim the steps are those of the outer one's work.
    let steps = requests.iter().any(ClaimRequest::has_steps).then(|| {
        let (step, rollback) = typed.hold_only.steps();
        Steps::new(step, rollback, environment)
    });
    let order = wanted::order(&requests);
    fleet::waive(&requests, &trails)?;
    let claims = requests.into_iter().zip(&trails);
    let claims = claims.map(|(request, trail)| fleet::claim(request, on_loss, trail, environment));
    let mut claims = claims.collect::<Result<Vec<_>, _>>()?;
    let session = Session {
        steps,
        order,
        ..session
    };
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let finished = session.run(&mut claims, &mut signals, report)?;
    program.finish();
    Ok(finished)
}
