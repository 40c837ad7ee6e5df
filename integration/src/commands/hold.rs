//! `beadlock hold [TARGET] -- CMD`: claim, run, release (docs/design.md#holding).

use std::{ffi::OsString, time::Duration};

use beadlock_checker::internal::{duration, facts::random_id};
use clap::Args;

use crate::claim::{attendant::Stopped, command::Command, nested, report, report::Report, signals::Signals};
use crate::error::End;
use crate::output::{Common, answers::print_envelope, refuse_lock_file, talk::print};
use crate::protocol::{self, HoldOnlyArgs, Intended, intended, refuse_report, session_claim, target_of_claim};
use crate::run::{session::Finished, session::Session, steps::Steps};
use crate::settings::{Claim, Hold, OnLoss, arguments::ClaimArgs, environment::Environment};

#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The database's directory, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH [env: BEADLOCK_TARGET]
    /// [default: what --intent names, else the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The name in the lock file and in daemons' logs [env: BEADLOCK_HOLDER] [default: the command's base name]
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    #[command(flatten)]
    pub claim: ClaimArgs,
    #[command(flatten)]
    pub protocol: protocol::Args,
    /// What to do when the lock is lost: end the command, or only say so [env: BEADLOCK_ON_LOSS] [default: kill]
    #[arg(long, value_name = "kill|warn")]
    pub on_loss: Option<OnLoss>,
    /// How long what is left after a signal or a loss may take before it is killed [env: BEADLOCK_KILL_AFTER]
    /// [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub kill_after: Option<Duration>,
    /// Keep the lock until everything that the command started has ended
    #[arg(long)]
    pub wait_group: bool,
    #[command(flatten)]
    pub hold_only: HoldOnlyArgs,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Runs the command under the lock, and says how the program is to end.
pub fn run(typed: HoldArgs, environment: &Environment, common: &Common) -> End {
    let own = typed.claim.replaced();
    let (mut report_file, raw) = (typed.claim.report.clone(), typed.protocol.raw());
    let mut report = Report::default();
    let refused =
        refuse_report(report_file.as_deref(), typed.target.as_deref(), environment).inspect_err(|_| report_file = None);
    let stopped = refused
        .and_then(|()| Claim::resolve(&typed.claim, typed.protocol.options(), typed.holder.as_ref(), environment))
        .and_then(|claim| Hold::resolve(claim, typed.on_loss, typed.kill_after, environment))
        .map_err(Stopped::from)
        .and_then(|settings| hold(typed, &settings, environment, common, &mut report));
    let (end, error) = match stopped {
        Ok(Finished { end, lost: None }) => (end, None),
        Ok(Finished { lost: Some(error), .. }) => (End::Code(own.code(error.exit)), Some(error)),
        Err(stopped) => {
            let (end, error) = stopped.end(" before the command was started", own);
            (end, Some(error))
        }
    };
    let report_file = report_file.filter(|file| environment.remote().may_touch(file));
    report::conclude(common, report_file.as_deref(), &report, error.as_ref());
    if raw && let Some(lock) = error.as_ref().and_then(|error| error.lock.as_deref()) {
        // A reader that is gone has the exit code.
        let _ = print(format!("{lock:#}\n"));
    } else if error.is_some() && report.pid.is_none() {
        print_envelope(common, report.json(), error.as_ref());
    }
    end
}

fn hold(
    typed: HoldArgs,
    Hold { claim, on_loss, kill_after }: &Hold,
    environment: &Environment,
    common: &Common,
    report: &mut Report,
) -> Result<Finished, Stopped> {
    let talk = &common.talk;
    let besides = typed.hold_only.given();
    let of_claim = (&typed.protocol, &typed.claim);
    let of_options = (typed.holder.as_ref(), besides.as_slice());
    let target = target_of_claim(typed.target.as_deref(), of_claim, of_options, environment)?;
    // Before the directory of a target is made for it.
    let command = Command::find(typed.command, environment.get("PATH"))?;
    let intended = intended(target, &typed.protocol, environment)?;
    let (on_loss, kill_after, wait_group) = (*on_loss, *kill_after, typed.wait_group);
    let name = command.holder_name();
    let session = Session { command, on_loss, kill_after, wait_group, steps: None, environment, talk };
    let (target, words) = match intended {
        Intended::Nothing(warning) => {
            warning.into_iter().for_each(|warning| talk.warn(warning));
            return session.run(&mut [], &mut Signals::block()?, report);
        }
        Intended::Claim(target, words) => (target, words),
    };
    report.target = Some((target.name(), target.path()));
    refuse_lock_file("--report", typed.claim.report.as_deref(), &[&target.path()])?;
    let holder = words.holder.clone().or_else(|| claim.holder.clone()).unwrap_or(name);
    let id = words.id.clone().unwrap_or_else(random_id);
    target.prepare(environment, talk)?;
    target.warn(talk);
    let outer = nested::outer_claim(&target, environment);
    // A lock without a record names no holder.
    let named = target.protocol.without_record().is_none().then_some(holder.as_str());
    let of_claim = (named, Some(outer.as_ref().unwrap_or(&id).as_str()));
    let trail = target.trail(claim.audit.as_deref(), of_claim, &common.request, talk)?;
    // Under an outer claim the steps are those of the outer one's work.
    let steps = (target.protocol.rules().has_steps && outer.is_none()).then(|| {
        let (step, rollback) = typed.hold_only.steps();
        Steps::new(step, rollback, environment)
    });
    let mut claim = session_claim(*target, words, (holder, id, outer), claim, &trail, environment)?;
    Session { steps, ..session }.run(std::slice::from_mut(&mut claim), &mut Signals::block()?, report)
}
