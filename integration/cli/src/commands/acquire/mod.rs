//! `beadlock acquire`: a claim that spans several commands (docs/design.md#claims-that-last).
//!
//! It is for a process that is there already (`--for`, the script that calls), and leaves nothing behind; or for a
//! process of its own that keeps it, the keeper (`--detach`), for steps that share no process. What is printed is all
//! that names the claim: when it cannot be printed, there is no claim.

mod kernel;
mod subject;

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant};

use beadlock_base::{
    duration::{self, shown},
    helper::Helpers,
    process::{self, Liveness},
};
use beadlock_core::{facts, record::StartedAt};
use clap::Args;

use crate::git_reminder::Reminder;
use crate::settings::{ClaimSettings, arguments::ClaimArgs};
use crate::targets::{self, Claimer, Requested, refuse_report, request, target_of_claim};
use beadlock_claim::audit_trail::{AuditTrail, refuse_lock_file};
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Error, Exit};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::protocol::named_claim::UNTIL;
use beadlock_claim::report::Report;
use beadlock_claim::script::{Script, print_all};
use beadlock_claim::{
    fleet, outer,
    release_request::{Enders, ReleaseReason, ReleaseRequest},
    request::{ClaimRequest, LockDraft},
    target::Target,
};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, answers::end_of, notices::claimed};
use beadlock_session::interactive_wait::InteractiveWait;
use beadlock_session::lease_keeper::{self, KeptLease, LeaseKeeper, LeaseKeeperRequest};
use beadlock_session::report;
use beadlock_supervise::{command, process_ref::ProcessRef, signals::Signals};

const EXAMPLES: &str = "\
Examples:
  eval \"$(beadlock acquire)\"
  make release
  eval \"$(beadlock release)\"

  beadlock acquire --detach --max-hold 1h >> \"$GITHUB_ENV\"";

const EXITS: &str = "\
Exit codes:
  0  claimed; the output is for eval, and names what release needs
  1  beadlock failed: I/O, a permission, or a target that does not exist
  2  the command line is wrong
  4  the target was held or busy until the wait ended
  5  the lock could not be checked
  8  the lock of a file (file:PATH, flock:PATH) was not obtained";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct AcquireArgs {
    /// The database's directory, [beads:]DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH, or flock:PATH [env:
    /// BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The process that the claim is for: the claim ends with it [default: the process that called; for a subshell,
    /// its shell]. A wrapper (timeout, sudo, xargs) ends soon, as a warning says, and a subshell in the background may
    /// outlive its shell. Name the process there: --for $$, or --for $BASHPID for the subshell itself
    #[arg(long = "for", value_name = "PID", conflicts_with = "detach")]
    pub for_process: Option<i32>,
    /// Leave a process that keeps the claim: for steps that share no process, as in CI
    #[arg(long)]
    pub detach: bool,
    /// When that process ends the claim by itself [default: 6h]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_above_zero,
          requires = "detach", conflicts_with = "for_process")]
    pub max_hold: Option<Duration>,
    /// The name in the lock file and in daemons' logs [env: BEADLOCK_HOLDER] [default: the process's name]
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    #[command(flatten)]
    pub claim: ClaimArgs,
    #[command(flatten)]
    pub protocol: targets::Args,
}

/// The default of `--max-hold`.
const MAX_HOLD: Duration = Duration::from_secs(6 * 60 * 60);

/// Claims, and prints what `release` needs.
pub fn run(
    typed: &AcquireArgs,
    helpers: Helpers,
    environment: &Environment,
    common: &Console,
) -> ProgramEnd {
    let mut report = Report::default();
    let mut report_file = typed.claim.report.as_deref();
    let may_touch = |file: &&Path| environment.remote().may_touch(file);
    let refused = refuse_report(report_file, typed.target.as_deref(), environment)
        .and_then(|()| report::refuse_unwritable(report_file.filter(may_touch)))
        .inspect_err(|_| report_file = None);
    let settings = refused
        .and_then(|()| {
            ClaimSettings::resolve(
                &typed.claim,
                typed.protocol.options(),
                typed.holder.as_ref(),
                environment,
            )
        })
        .map_err(NotAcquired::from);
    let done = settings.and_then(|settings| {
        Acquiring {
            typed,
            helpers,
            settings: &settings,
            environment,
            common,
        }
        .acquire(&mut report)
    });
    let (end, error) = match done {
        Ok(()) => (ProgramEnd::Code(Exit::Done.code()), None),
        Err(stopped) => {
            let (end, error) = end_of(stopped, "; nothing is claimed", typed.claim.replaced());
            (end, Some(error))
        }
    };
    let report_file = report_file.filter(|file| environment.remote().may_touch(file));
    report::conclude(common, report_file, &report, error.as_ref());
    if let Some(error) = &error {
        // A reader that is gone has the exit code.
        if let Some(lock) = error.answer().filter(|_| typed.protocol.raw()) {
            let _ = print_all(format!("{lock:#}\n").as_bytes());
        }
        if common.json {
            let _ = print_all(
                common
                    .envelope(report::data(&report), Some(error))
                    .as_bytes(),
            );
        } else if !typed.protocol.raw() {
            Script::fail(end.as_code());
        }
    }
    end
}

#[derive(Clone, Copy)]
struct Acquiring<'a> {
    typed: &'a AcquireArgs,
    helpers: Helpers,
    settings: &'a ClaimSettings,
    environment: &'a Environment,
    common: &'a Console,
}

/// A claim on a lock with a record.
struct RecordClaim<'a> {
    request: ClaimRequest,
    /// The process that the claim is for; `None`: the keeper's own time.
    subject: Option<i32>,
    trail: &'a AuditTrail<'a>,
}

impl Acquiring<'_> {
    fn acquire(&self, report: &mut Report) -> Result<(), NotAcquired> {
        let Self {
            typed,
            settings,
            environment,
            common,
            ..
        } = *self;
        let talk = &common.talk;
        let of_claim = (&typed.protocol, &typed.claim);
        let of_options = (typed.holder.as_ref(), &[][..]);
        let target = target_of_claim(typed.target.as_deref(), of_claim, of_options, environment)?;
        // Without a process there is no claim, but what is wrong with the target is said first.
        let subject = self.subject();
        let process = subject.as_ref().copied().unwrap_or_default();
        let name = subject::name(process.unwrap_or_else(subject::parent));
        let claimer = Claimer {
            settings,
            name: &name.unwrap_or_else(|| command::holder_name(OsStr::new(""))),
            environment,
        };
        let request = match request(target, &typed.protocol, claimer)? {
            Requested::Claim(request) => request.of_acquire(),
            Requested::NoLock(why) => {
                let why = why.unwrap_or("mode observe takes no lock");
                let message =
                    format!("{why}: there is nothing to acquire; run the commands without that");
                return Err(Error::usage(message).into());
            }
        };
        if let LockDraft::Kernel(kernel, mode) = request.draft {
            return self.without_record(&request, (kernel, mode), subject, report);
        }
        let target = &request.target;
        *report = Report::of(target);
        refuse_lock_file("--report", typed.claim.report.as_deref(), &[&target.path()])?;
        let subject = subject?;
        report.holder = Some(request.holder.clone());
        target.prepare(environment, talk)?;
        target.warn(talk);
        let trail = &target.trail(
            settings.audit.as_deref(),
            (Some(&request.holder), Some(&request.id)),
            &common.request,
            talk,
        )?;
        let claim = RecordClaim {
            request,
            subject,
            trail,
        };
        if self.is_nested(&claim, report)? {
            return Ok(());
        }
        self.warn_of_a_wrapper(subject);
        self.claim(&claim, report)
    }

    /// The process that the claim is for; `None`: for a keeper's own time.
    fn subject(&self) -> Result<Option<i32>, Error> {
        if self.typed.detach && std::process::id() == 1 {
            return Err(Error::usage(
                "--detach: this is PID 1, and nothing outlives PID 1: the keeper would end with it; acquire it for a \
                 process (--for PID), or hold it: beadlock hold -- CMD",
            ));
        }
        Ok(match (self.typed.detach, self.typed.for_process) {
            (true, _) => None,
            (false, Some(pid)) => Some(subject::named(pid)?),
            (false, None) => Some(subject::caller()?),
        })
    }

    /// When the keeper ends the claim of `subject` by itself.
    fn max_hold(&self, subject: Option<i32>) -> Duration {
        subject.map_or(self.typed.max_hold.unwrap_or(MAX_HOLD), |_| Duration::MAX)
    }

    /// When that is, by the wall clock; `None`: never.
    fn end(&self, subject: Option<i32>) -> Option<String> {
        let time = self.max_hold(subject).try_into().ok()?;
        let end = facts::now().0.checked_add(time)?;
        Some(StartedAt::from_unix(end.as_secs(), 0).to_string())
    }

    /// Without `--for` the claim stands for the caller, and that may be a shell that ends with one line, or a program
    /// that only starts others.
    fn warn_of_a_wrapper(&self, subject: Option<i32>) {
        let caller = subject.filter(|_| self.typed.for_process.is_none());
        if let Some((pid, shell)) = caller.and_then(|pid| Some((pid, subject::passing_shell(pid)?)))
        {
            self.common.talk.warn(&format!(
                "for {shell} (PID {pid}): the claim ends with that shell; --for PID or --detach outlives it"
            ));
        }
        if let Some((pid, name)) = caller.and_then(|pid| Some((pid, subject::wrapper(pid)?))) {
            self.common.talk.warn(&format!(
                "the claim stands for {name} (PID {pid}) and ends with it; to claim for the script that calls {name}: \
                 beadlock acquire --for $$"
            ));
        }
    }

    /// The request to the keeper of a claim on `target`: how long to keep it, for which process, with which audit file.
    fn keeper_request(
        &self,
        target: &Target,
        lease: KeptLease,
        subject: Option<i32>,
    ) -> LeaseKeeperRequest {
        LeaseKeeperRequest {
            lease,
            target: target.absolute(),
            given: target.given.clone(),
            max_hold: self.max_hold(subject),
            until: self.end(subject),
            subject: subject.map(ProcessRef::of),
            request_id: self.common.request.id().to_owned(),
            audit: lease_keeper::absolute(self.settings.audit.as_deref()),
        }
    }

    /// Tells of a claim that stands under `outer`. A second claim of the same process is refused.
    fn is_nested(&self, claim: &RecordClaim<'_>, report: &mut Report) -> Result<bool, NotAcquired> {
        let RecordClaim {
            request: ClaimRequest { target, outer, .. },
            subject,
            trail,
        } = claim;
        let blocked = |error: &Error| trail.blocked(error, &target.place);
        outer::refuse_inside_a_cycle(target, self.environment).inspect_err(blocked)?;
        let is_in = || target.reentered((*subject)?, &self.settings.options);
        let Some(outer) = outer.clone().or_else(is_in) else {
            if let Some(pid) = *subject {
                subject::refuse_second_claim(target, pid).inspect_err(blocked)?;
            }
            return Ok(false);
        };
        self.tell_of_outer(
            target,
            &outer,
            subject.unwrap_or_else(subject::parent),
            report,
        )?;
        Ok(true)
    }

    fn tell_of_outer(
        &self,
        target: &Target,
        outer: &str,
        pid: i32,
        report: &mut Report,
    ) -> Result<(), Error> {
        report.nested = true;
        report.waited = Some(Duration::ZERO);
        let id = outer::name_of(outer);
        report.id = Some(id.clone());
        let given = &target.given;
        self.common.talk.say_more(&format!(
            "{given} is held by an outer claim ({outer}); this one releases nothing"
        ));
        self.tell(report, target, &id, pid)
    }

    fn claim(&self, claim: &RecordClaim<'_>, report: &mut Report) -> Result<(), NotAcquired> {
        let RecordClaim {
            request,
            subject,
            trail,
        } = claim;
        let ClaimRequest {
            target, holder, id, ..
        } = request;
        let (talk, subject) = (&self.common.talk, *subject);
        report.id = Some(id.clone());
        match request.options.has_fleet_right {
            true => fleet::waive(target, trail)?,
            false => fleet::refuse_joined(target)?,
        }
        let mut signals = Signals::block().map_err(Error::of_signals)?;
        // A lock that is judged by time needs a process that keeps it up.
        let mut keeper = match subject {
            Some(_) if !target.place.record_kind().is_judged_by_time() => None,
            _ => {
                let lease = KeptLease::Record {
                    id: id.clone(),
                    holder: holder.clone(),
                };
                let request = self.keeper_request(target, lease, subject);
                Some(LeaseKeeper::fork(
                    self.helpers,
                    &request,
                    self.environment,
                    signals.mask_before(),
                )?)
            }
        };
        let child = keeper.as_ref().map(LeaseKeeper::pid);
        let pid = subject.or(child).unwrap_or_default();
        let begun = Instant::now();
        let mut control = InteractiveWait::wait_of(&mut signals, talk, child).of_the_keeper();
        let held = request.acquire_audited(pid.unsigned_abs(), &mut control, trail)?;
        if let Err(stopped) = self.hand_over(claim, pid, &mut keeper, &mut control, begun, report) {
            let leaving = ReleaseRequest {
                target,
                enders: Enders::Owner,
                patience: request.drain,
                trail,
                failure_step: None,
            };
            let _ = leaving.end(held, None, ReleaseReason::NOT_HANDED_OVER, &mut control);
            return Err(stopped);
        }
        let until = match self.typed.detach {
            true => format!("kept for at most {}", shown(self.max_hold(subject))),
            false => "for as long as that process lives".to_owned(),
        };
        let claimed = claimed(&target.claimed(holder, pid));
        talk.say(&format!("{claimed}, {until}"));
        // The lock stays: from here on its process or its keeper ends the claim.
        drop(held);
        Ok(())
    }

    /// The claim stands: its keeper begins, and the caller is told.
    fn hand_over(
        &self,
        claim: &RecordClaim<'_>,
        pid: i32,
        keeper: &mut Option<LeaseKeeper>,
        control: &mut dyn WaitControl,
        begun: Instant,
        report: &mut Report,
    ) -> Result<(), NotAcquired> {
        if let Some(stopped) = control.stop_reason() {
            return Err(stopped);
        }
        if let Some(Err(error)) = keeper.as_mut().map(LeaseKeeper::start) {
            // What has ended it may have been meant for both.
            let stopped = control
                .stop_reason()
                .filter(|stopped| matches!(stopped, NotAcquired::Signalled(_)));
            return Err(stopped.unwrap_or_else(|| error.into()));
        }
        if claim.subject.is_some() && process::probe(i64::from(pid)) == Liveness::Gone {
            return Err(subject::gone(pid).into());
        }
        report.waited = Some(begun.elapsed());
        report.pid = Some(pid);
        let talk = &self.common.talk;
        let request = &claim.request;
        let claimed = request.target.claimed(&request.holder, pid);
        Reminder::of(&claimed, self.environment.of_database().cwd, talk).finish(talk);
        self.tell(report, &request.target, &request.id, pid)?;
        Ok(keeper.take().map_or(Ok(()), LeaseKeeper::leave)?)
    }

    /// Prints what names the claim: fit for `eval`, and for a file of environment variables.
    fn tell(&self, report: &Report, target: &Target, id: &str, pid: i32) -> Result<(), Error> {
        let lines = if self.common.json {
            self.common
                .envelope(report::data(report), None)
                .into_bytes()
        } else {
            let (script, pid) = (Script::of_stdout(), pid.to_string());
            let besides = target
                .exported_besides(self.environment)
                .map(|(variable, path)| (variable, path.into_os_string()));
            let until = || {
                self.end(None)
                    .filter(|_| self.typed.detach && !report.nested)
            };
            let variables = [
                Some(("BEADLOCK_TARGET", target.exported.clone())),
                besides,
                Some(("BEADLOCK_ID", id.into())),
                Some(("BEADLOCK_PID", pid.into())),
                until().map(|until| (UNTIL, until.into())),
            ];
            let lines = variables.into_iter().flatten();
            lines
                .flat_map(|(name, value)| script.set(name, &value))
                .collect()
        };
        print_all(&lines)
            .map_err(|error| Error::failed("write to stdout, so nothing is claimed", &error))
    }
}
