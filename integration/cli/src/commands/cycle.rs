//! `beadlock cycle [TARGET] -- CMD`: gate, check, run, leave; a sync cycle for daemons that cannot link Rust
//! (docs/design.md#the-gate).
//!
//! The gate is taken without waiting. While the command runs two processes hold it: this one, and a small
//! [gate keeper](beadlock_supervise::watchdog) that waits for the command's end, so that a kill of either leaves it shut.
//! The command inherits the gate as well, so that a kill of both leaves it shut for as long as the command works. At a
//! regular end the gate is let go for every copy: what the command leaves behind keeps nothing.

#[cfg(feature = "fleet")]
mod fleet;

use beadlock_claim::error::Problem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fmt, io};

use beadlock_base::{escape::escaped_path, helper::Helpers};
use beadlock_core::{Cycle, Decision, Entered, Options, Reason, Verdict};
use beadlock_core::{
    audit::Event,
    database::{Directories, Suggest},
    gate::Gate,
    gate_loss::GateWatch,
    look::look,
};
use clap::Args;
#[cfg(feature = "fleet")]
use fleet::FleetCycle;
use serde_json::Value;

#[cfg(feature = "fleet")]
use crate::fleet::Joined;
use crate::settings;
use beadlock_claim::audit_trail::AuditTrail;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::fleet::waive;
use beadlock_claim::observe::Notice;
use beadlock_claim::protocol::named_claim::{anew, refuse_lost};
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_claim::report::{CHECK, Report};
use beadlock_claim::words::{self, to_type};
use beadlock_claim::{
    kept_lock::LossAlarm,
    loss::Loss,
    observe::{NotAcquired, WaitControl},
    outer,
    release_request::ReleaseReason,
    target::Target,
};
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{end_of, print_envelope},
};
use beadlock_explain::checked::Checked;
use beadlock_session::on_loss::OnLoss;
use beadlock_session::session::{Finished, Session};
use beadlock_session::session_claim::{ClaimEnd, CommandProcess, SessionClaim};
use beadlock_supervise::watchdog::{CommandRef, GateKeeper};
use beadlock_supervise::{command::Command, signals::Signals};

const EXAMPLES: &str = "\
Examples:
  beadlock cycle -- ./my-sync.sh
  beadlock cycle path/to/.beads -- git -C path/to pull --rebase
  beadlock cycle dir:. -- make";

const EXITS: &str = "\
Exit codes:
  1    beadlock failed
  2    the command line is wrong
  4    the database is claimed, or another cycle runs; CMD was not started
  5    the lock could not be checked; CMD was not started
  125  beadlock failed before CMD started
  126  CMD cannot be executed
  127  CMD was not found

Any other exit code is that of CMD. It is 128+N when signal N killed CMD.";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct CycleArgs {
    /// The database's directory, [beads:]DIR, or any other one, dir:PATH [env: BEADLOCK_TARGET] [default: the nearest
    /// .beads up the tree]
    pub target: Option<OsString>,
    /// Remove a lock also when its holder is proved dead by more than its PID
    #[arg(long)]
    pub reap_proven_dead: bool,
    /// Run it in DIR also when that does not look like a database: it is not called .beads, is not $BEADS_DIR, and has
    /// no *.db, *.sqlite*, *.jsonl or redirect in it
    #[arg(long)]
    pub any_directory: bool,
    /// Run it with this machine's lock alone, although the database has joined a fleet: claims elsewhere do not wait
    #[arg(long)]
    pub no_fleet: bool,
    /// Run it also where the claim that $BEADLOCK_ID names is gone
    #[arg(long)]
    pub new_claim: bool,
    /// Exit with N instead of any code that is not the command's
    #[arg(long, value_name = "N", value_parser = crate::settings::arguments::own_exit_code())]
    pub own_exit_code: Option<u8>,
    /// The command and its arguments; it has BEADLOCK_CYCLE, and for a database BEADS_DIR
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

pub fn run(
    typed: CycleArgs,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
) -> ProgramEnd {
    let replaced = ExitCodeOverrides {
        conflict: None,
        own: typed.own_exit_code,
    };
    let (end, error, data) = match cycle(typed, helpers, environment, common) {
        Ok(CycleOutcome::Ran(Finished { end, lost: None })) => return end,
        // The command has run: stdout was its own, and gets no envelope.
        Ok(CycleOutcome::Ran(Finished {
            lost: Some(error), ..
        })) => {
            common.talk.error(&error.to_string());
            return ProgramEnd::Code(replaced.code(error.exit()));
        }
        Ok(CycleOutcome::Skipped(target, decision)) => {
            let error = skipped(&decision);
            common.talk.say(&error.to_string());
            let options = Options::default();
            // As `check` has it.
            let row = || {
                Checked {
                    before: look(&target.place, &options),
                    target: *target,
                    decision,
                    options,
                }
                .report(false)
                .json(CHECK)
            };
            (
                ProgramEnd::Code(replaced.code(error.exit())),
                error,
                if common.json { row() } else { Value::Null },
            )
        }
        Err(stopped) => {
            let (end, error) = end_of(stopped, " before the command was started", replaced);
            common.talk.error(&error.to_string());
            (end, error, Value::Null)
        }
    };
    print_envelope(common, data, Some(&error));
    end
}

enum CycleOutcome {
    /// The command has run.
    Ran(Finished),
    /// The database is to be left alone this time.
    Skipped(Box<Target>, Decision),
}

/// The log line, under the code that says what kind of skip it is.
fn skipped(decision: &Decision) -> Error {
    let code = match (decision.reason(), decision.verdict()) {
        (Reason::FleetNew | Reason::FleetUnreachable | Reason::FleetLost, _) => {
            Code::FleetUnreachable
        }
        (Reason::GateBusy, _) => Code::DrainTimeout,
        (_, Verdict::Held(_)) => Code::LockHeld,
        (Reason::RemovalFailed, _) => Code::LockStale,
        _ => Code::LockUnreadable,
    };
    let error = Error::new(code, decision.to_string());
    match code {
        Code::LockHeld => {
            error.retry_on_a_lock_of(decision.record().and_then(words::age_of_record))
        }
        _ => error.retry_after(Duration::from_secs(5)),
    }
}

fn cycle(
    typed: CycleArgs,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
) -> Result<CycleOutcome, NotAcquired> {
    let talk = &common.talk;
    let acceptance = Acceptance::ToClaim(Directories::any(typed.any_directory), Suggest::Path);
    let target = resolve(typed.target.as_deref(), environment, acceptance)?;
    target.refuse_tracked()?;
    if !target.has_cycles() {
        let message = format!(
            "{} has no sync cycles, only a beads database and dir:PATH have; to run a command under this lock, type: {}",
            target.given,
            to_type("beadlock hold {} -- CMD", &[target.part()])
        );
        return Err(Error::usage(message).into());
    }
    let kill_after = settings::kill_after(None, environment)?;
    let command = Command::find(typed.command, environment.get("PATH"))?;
    if !typed.new_claim {
        refuse_without_its_claim(&target, &command, environment)?;
    }
    let audit = settings::audit(None, environment);
    let trail = target.trail(audit.as_deref(), (None, None), &common.request, talk)?;
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let options = Options {
        reap_proven_dead: typed.reap_proven_dead,
        ..Options::default()
    };
    let (on_loss, wait_group, steps) = (OnLoss::default(), false, None);
    let session = Session {
        command,
        on_loss,
        kill_after,
        wait_group,
        steps,
        order: vec![0],
        helpers,
        environment,
        talk,
        observer: talk,
    };
    if typed.no_fleet {
        waive(&target, &trail)?;
    } else {
        #[cfg(feature = "fleet")]
        if let Some(joined) = Joined::of(&target, environment)? {
            return in_fleet(
                FleetCycle::new(target, joined, options, &trail, helpers)?,
                session,
                &mut signals,
            );
        }
    }
    let options = Options {
        has_fleet_right: typed.no_fleet,
        ..options
    };
    let cycle = match Cycle::enter_with(target.dir(), &options) {
        Entered::Cycle(cycle) => cycle,
        Entered::Skipped(decision) => {
            if decision.reason() == Reason::GateBusy
                && outer::is_inside_a_cycle(&target, environment)
            {
                return Err(inside_itself(&target).into());
            }
            if let Decision::Skip(skip) = &decision {
                trail.write(Event::LockBlocked, |entry| entry.skip(skip));
            }
            return Ok(CycleOutcome::Skipped(Box::new(target), decision));
        }
    };
    say_entered(&cycle, &trail);
    // From here on the gate is taken, and whatever fails has failed between that and the command's start.
    let mut claim: Box<dyn SessionClaim> =
        Box::new(CycleClaim::new(target, cycle, &trail, helpers)?);
    session
        .run(
            std::slice::from_mut(&mut claim),
            &mut signals,
            &mut Report::default(),
        )
        .map(CycleOutcome::Ran)
}

fn refuse_without_its_claim(
    target: &Target,
    command: &Command,
    environment: &Environment,
) -> Result<(), Error> {
    refuse_lost(target, environment, || {
        anew(
            "beadlock cycle --new-claim {} -- {}",
            target,
            command.words(),
        )
    })
}

/// Runs the cycle under its right in the fleet.
#[cfg(feature = "fleet")]
fn in_fleet(
    cycle: FleetCycle<'_>,
    session: Session<'_>,
    signals: &mut Signals,
) -> Result<CycleOutcome, NotAcquired> {
    let (target, decision) = (cycle.target().clone(), cycle.decision());
    let mut claim: Box<dyn SessionClaim + '_> = Box::new(cycle);
    let ran = session.run(
        std::slice::from_mut(&mut claim),
        signals,
        &mut Report::default(),
    );
    match (ran, decision.take()) {
        (Err(_), Some(decision)) => Ok(CycleOutcome::Skipped(Box::new(target), decision)),
        (ran, _) => ran.map(CycleOutcome::Ran),
    }
}

/// Says and writes down what was found on the way in.
fn say_entered(cycle: &Cycle, trail: &AuditTrail<'_>) {
    if let Some(removed) = cycle.decision().removed() {
        trail.removed(removed);
        let words = &cycle.decision().to_string();
        let notice = Notice::RemovedStale { removed, words };
        trail.observer().notice(&notice);
    }
    if let Some(why) = cycle.no_gate() {
        trail.observer().notice(&Notice::NoGateForCycle { why });
    }
}

/// The gate of a cycle, for as long as its command works.
struct CycleClaim<'a> {
    target: Target,
    cycle: Option<Cycle>,
    trail: &'a AuditTrail<'a>,
    helpers: Helpers,
    /// The gate, until the command's process has it.
    inherited: Option<OwnedFd>,
    watch: Option<GateWatch>,
    gate_keeper: Option<GateKeeper>,
    begun: Instant,
}

impl fmt::Debug for CycleClaim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CycleClaim")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl<'a> CycleClaim<'a> {
    fn new(
        target: Target,
        cycle: Cycle,
        trail: &'a AuditTrail<'a>,
        helpers: Helpers,
    ) -> Result<Self, Error> {
        let inherited = cycle.gate().map(Gate::for_command).transpose();
        let inherited = inherited.map_err(|error| Error::from(error).ending(Exit::NotStarted))?;
        let (cycle, begun) = (Some(cycle), Instant::now());
        Ok(Self {
            target,
            cycle,
            trail,
            helpers,
            inherited,
            watch: None,
            gate_keeper: None,
            begun,
        })
    }

    fn gate(&self) -> Option<&Gate> {
        self.cycle.as_ref().and_then(Cycle::gate)
    }
}

impl SessionClaim for CycleClaim<'_> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn stands(&self) -> bool {
        true
    }

    fn id(&self) -> Option<String> {
        None
    }

    fn is_nested(&self) -> bool {
        false
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let dir = || OsString::from(self.target.dir());
        let beads = self.target.database.is_some().then(|| ("BEADS_DIR", dir()));
        beads
            .into_iter()
            .chain([("BEADLOCK_CYCLE", dir())])
            .collect()
    }

    fn ends_with_us(&self) -> bool {
        false
    }

    fn inherited(&self) -> Option<BorrowedFd<'_>> {
        self.inherited.as_ref().map(AsFd::as_fd)
    }

    /// The gate is ours already: it is watched, and shared with the gate keeper.
    fn obtain(
        &mut self,
        child: CommandProcess<'_>,
        _: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        // The command's process has it.
        self.inherited = None;
        let failed = |doing: &str, error: io::Error| {
            let why = words::of_no_process(&error);
            Error::io(format!("failed to {doing}: {why}"), error.kind()).ending(Exit::NotStarted)
        };
        let watch = self
            .gate()
            .map(|gate| GateWatch::start(gate, self.target.dir()))
            .transpose();
        let watch = watch.map_err(|error| {
            failed(
                &format!("watch over the gate of {}", escaped_path(self.target.dir())),
                error,
            )
        })?;
        let keep = |gate: &Gate| {
            let shared = gate
                .share()
                .map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
            let (command, names) = (
                CommandRef::of(child.pid, child.leads),
                (child.name, self.target.given.as_str()),
            );
            GateKeeper::start(self.helpers, command, names, shared.as_fd())
        };
        let keeper = self.gate().map(keep).transpose();
        let keeper = keeper
            .map_err(|error| failed("make the process that keeps the gate with us", error))?;
        (self.watch, self.gate_keeper) = (watch, keeper);
        Ok(())
    }

    fn helper(&self) -> Option<i32> {
        self.gate_keeper.as_ref().map(GateKeeper::pid)
    }

    fn guard(&self) -> Option<LossAlarm<'_>> {
        self.watch
            .as_ref()
            .map(|watch| LossAlarm::Gate(watch, self.target.dir()))
    }

    fn left_behind(&self, names: &str) -> String {
        format!("the command left processes behind, and the gate is let go now: {names}")
    }

    fn end(
        &mut self,
        lost: Option<Loss>,
        why: ReleaseReason,
        _: Option<&str>,
        _: &mut Signals,
    ) -> ClaimEnd {
        let Some(cycle) = self.cycle.take() else {
            return ClaimEnd::default();
        };
        let has_worked = why.reason == ReleaseReason::COMMAND_ENDED;
        let loss = match lost {
            Some(Loss::Gate(loss)) => Some(loss),
            // Known already, or by a last look.
            _ if has_worked => self.watch.take().and_then(GateWatch::last_look),
            _ => None,
        };
        cycle.leave();
        if let Some(gate_keeper) = self.gate_keeper.take() {
            drop(gate_keeper);
        }
        let lost = loss.map(|loss| {
            let age = self.begun.elapsed();
            let error = Loss::of_gate(loss, age, &self.target);
            self.trail.write(Event::LockLost, |entry| {
                entry.reason(loss.as_str()).detail(&error).held_for(age)
            });
            error
        });
        ClaimEnd {
            lost,
            ..ClaimEnd::default()
        }
    }
}

fn inside_itself(target: &Target) -> Error {
    let path = escaped_path(target.dir());
    let message = format!(
        "this runs inside a sync cycle of {path}, which has the gate: a cycle inside it would skip for ever; leave \
         it out here, or run it outside of the cycle"
    );
    Error::new(Code::DrainTimeout, message)
}
