//! `beadlock acquire`: a claim that spans several commands (docs/design.md#claims-that-last).
//!
//! It is for a process that is there already (`--for`, the script that calls), and leaves nothing behind; or for a
//! process of its own that keeps it, the keeper (`--detach`), for steps that share no process. What is printed is all
//! that names the claim: when it cannot be printed, there is no claim.

mod kernel;
mod own;
mod subject;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::time::{Duration, Instant};
use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use beadlock_checker::internal::{
    duration, duration::shown, facts::Liveness, facts::random_id, process, sys::stdout_was_closed, system_words,
    take::Held,
};
use clap::Args;

use crate::claim::attendant::{Attendant, Attending, Stopped};
use crate::claim::{
    claiming::Claiming, command, known_process::KnownProcess, leaving::Leaving, leaving::Why, nested,
    protocol::MakeRecord, record_claim::claimed, report, report::Report, signals::Signals, target::Target,
};
use crate::error::{End, Error, Exit};
use crate::output::{Common, envelope::Request, files, files::Output, talk::Talk, trail::Trail};
use crate::protocol::{self, ClaimWords, Intended, intended, refuse_report, target_of_claim};
use crate::run::{lease_keeper, lease_keeper::LeaseKeeper, request::KeptLease, request::LeaseKeeperRequest};
use crate::settings::{Claim, arguments::ClaimArgs, environment::Environment};
use crate::{ignored::Reminder, words::quoted};

/// `beadlock acquire [TARGET]`
#[derive(Debug, Args)]
pub struct AcquireArgs {
    /// The database's directory, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH [env: BEADLOCK_TARGET]
    /// [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The process that the claim is for: it ends with it [default: the process that called; for a subshell, its
    /// shell]. A wrapper (timeout, sudo, xargs) is a process of its own and soon over, as a warning says, and a
    /// subshell in the background may outlive its shell: name the process there, --for $$, or --for $BASHPID for the
    /// subshell itself
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
    pub protocol: protocol::Args,
}

/// For how long a keeper keeps a claim unless told otherwise.
const MAX_HOLD: Duration = Duration::from_secs(6 * 60 * 60);

impl AcquireArgs {
    /// When the keeper ends the claim of `subject` by itself.
    fn max_hold(&self, subject: Option<i32>) -> Duration {
        match subject {
            Some(_) => Duration::MAX,
            None => self.max_hold.unwrap_or(MAX_HOLD),
        }
    }
}

/// Claims, and prints what `release` needs.
pub fn run(typed: &AcquireArgs, environment: &Environment, common: &Common, request: &Request) -> End {
    let replaced = typed.claim.replaced();
    let mut report = Report::default();
    let mut report_file = typed.claim.report.as_deref();
    let refused = refuse_report(report_file, typed.target.as_deref(), environment).inspect_err(|_| report_file = None);
    let settings = refused
        .and_then(|()| Claim::resolve(&typed.claim, typed.protocol.options(), typed.holder.as_ref(), environment))
        .map_err(Stopped::from);
    let done = settings.and_then(|settings| acquire(typed, &settings, environment, (common, request), &mut report));
    let (end, error) = match done {
        Ok(()) => (End::Code(Exit::Done.code()), None),
        Err(stopped) => {
            let (end, error) = stopped.end("; nothing is claimed", replaced);
            (end, Some(error))
        }
    };
    let report_file = report_file.filter(|file| environment.remote().may_touch(file));
    report::conclude(common, request, report_file, &report, error.as_ref());
    if typed.protocol.raw()
        && let Some(lock) = error.as_ref().and_then(|error| error.lock.as_deref())
    {
        let _ = print_all(format!("{lock:#}\n").as_bytes());
    }
    if common.json
        && let Some(error) = &error
    {
        // Whoever cannot read it has the exit code.
        let envelope = request.envelope(report.json(), Some(error), &common.talk.warnings());
        let _ = print_all(format!("{envelope}\n").as_bytes());
    }
    end
}

fn acquire(
    typed: &AcquireArgs,
    settings: &Claim,
    environment: &Environment,
    (common, request): (&Common, &Request),
    report: &mut Report,
) -> Result<(), Stopped> {
    let talk = &common.talk;
    let of_claim = (&typed.protocol, &typed.claim);
    let of_options = (typed.holder.as_ref(), &[][..]);
    let target = target_of_claim(typed.target.as_deref(), of_claim, of_options, environment)?;
    let (target, words) = match intended(target, &typed.protocol, environment)? {
        Intended::Claim(target, words) => (*target, words),
        Intended::Nothing(why) => {
            let why = why.unwrap_or("mode observe takes no lock");
            let message = format!("{why}: there is nothing to acquire; run the commands without that");
            return Err(Error::usage(message).into());
        }
    };
    if target.protocol.without_record().is_some() {
        return without_record(typed, settings, (&target, words), environment, (common, request), report);
    }
    report.target = Some((target.name(), target.path()));
    files::refuse(Output::Report, typed.claim.report.as_deref(), &[&target.path()])?;
    let subject = subject_of(typed)?;
    let name = || subject::name(subject.unwrap_or_else(subject::parent));
    let holder = words.holder.clone().or_else(|| settings.holder.clone()).or_else(name);
    let holder = holder.unwrap_or_else(|| command::holder_name(OsStr::new("")));
    report.holder = Some(holder.clone());
    target.prepare()?;
    target.warn(talk);
    let id = words.id.clone().unwrap_or_else(random_id);
    let audit = settings.audit.as_deref();
    let trail = target.trail(audit, (Some(&holder), Some(&id)), request, talk)?;
    let trail = &trail;
    let says = words.of(holder.clone(), id.clone());
    let acquiring = Acquiring { typed, settings, environment, common, request, target, holder, id, subject, trail };
    if acquiring.is_nested(report)? {
        return Ok(());
    }
    warn_of_a_wrapper(typed, subject, talk);
    acquiring.claim(&says, report)
}

/// A claim on a lock with a record.
struct Acquiring<'a> {
    typed: &'a AcquireArgs,
    settings: &'a Claim,
    environment: &'a Environment,
    common: &'a Common,
    request: &'a Request,
    target: Target,
    holder: String,
    id: String,
    /// The process that the claim is for; `None`: the keeper's own time.
    subject: Option<i32>,
    trail: &'a Trail<'a>,
}

impl Acquiring<'_> {
    /// The claim stands under another one, which is told; a second claim of the same process is refused.
    fn is_nested(&self, report: &mut Report) -> Result<bool, Stopped> {
        let Self { target, environment, subject, trail, .. } = self;
        let blocked = |error: &Error| trail.blocked(error, &target.place);
        nested::refuse_inside_a_cycle(target, environment).inspect_err(blocked)?;
        let is_in = || target.protocol.reentered(target, (*subject)?, &self.settings.options);
        let Some(outer) = nested::outer_claim(target, environment).or_else(is_in) else {
            if let Some(pid) = *subject {
                own::refuse(target, pid).inspect_err(blocked)?;
            }
            return Ok(false);
        };
        report.nested = true;
        report.waited = Some(Duration::ZERO);
        let id = nested::name_of(&outer);
        report.id = Some(id.clone());
        let given = &target.given;
        trail.talk().say_more(&format!("{given} is held by an outer claim ({outer}); this one releases nothing"));
        self.tell(report, &id, subject.unwrap_or_else(subject::parent))?;
        Ok(true)
    }

    fn claim(&self, says: &MakeRecord<'_>, report: &mut Report) -> Result<(), Stopped> {
        let Self { typed, settings, environment, target, holder, id, subject, trail, .. } = self;
        let (talk, subject) = (trail.talk(), *subject);
        report.id = Some(id.clone());
        let mut signals = Signals::block()?;
        let max_hold = typed.max_hold(subject);
        // A lock that is judged by time needs a process that keeps it up.
        let mut keeper = match subject {
            Some(_) if !target.place.dialect().is_judged_by_time() => None,
            _ => {
                let lease = KeptLease::Record { id: id.clone(), holder: holder.clone() };
                let request = LeaseKeeperRequest {
                    lease,
                    target: target.absolute(),
                    given: target.given.clone(),
                    max_hold,
                    subject: subject.map(KnownProcess::of),
                    request_id: self.request.id().to_owned(),
                    audit: lease_keeper::absolute(settings.audit.as_deref()),
                };
                Some(LeaseKeeper::fork(request, environment, signals.mask_before())?)
            }
        };
        let pid = subject.or_else(|| keeper.as_ref().map(LeaseKeeper::pid)).unwrap_or_default();
        let begun = Instant::now();
        let child = keeper.as_ref().map(LeaseKeeper::pid);
        let mut attending = Attending::wait_of(&mut signals, talk, child).of_the_keeper();
        let ((wait, drain), options) = (settings.patience(target.protocol.default_wait()), settings.options);
        let claiming = Claiming { target, pid: pid.unsigned_abs(), says, wait, drain, options };
        let held = claiming.claim_and_tell(&mut attending, talk, trail)?;
        match self.hand_over(pid, &mut keeper, &mut attending, begun, report) {
            Ok(()) => {
                let until = match typed.detach {
                    true => format!("kept for at most {}", shown(max_hold)),
                    false => "for as long as that process lives".to_owned(),
                };
                talk.say(&format!("{}, {until}", claimed(target, holder, pid)));
                leave_it(held);
                Ok(())
            }
            Err(stopped) => {
                let leaving = Leaving { target, patience: drain, talk, trail, failure_step: None };
                let _ = leaving.end(held, None, Why::NOT_HANDED_OVER, &mut attending);
                Err(stopped)
            }
        }
    }

    /// The claim stands: its keeper begins, and whoever asked for it is told.
    fn hand_over(
        &self,
        pid: i32,
        keeper: &mut Option<LeaseKeeper>,
        attending: &mut Attending<'_>,
        begun: Instant,
        report: &mut Report,
    ) -> Result<(), Stopped> {
        if let Some(stopped) = attending.stopped() {
            return Err(stopped);
        }
        if let Some(Err(error)) = keeper.as_mut().map(LeaseKeeper::start) {
            // What has ended it may have been meant for both.
            let stopped = attending.stopped().filter(|stopped| matches!(stopped, Stopped::Signalled(_)));
            return Err(stopped.unwrap_or_else(|| error.into()));
        }
        if self.subject.is_some() && process::probe(i64::from(pid)) == Liveness::Gone {
            return Err(subject::gone(pid).into());
        }
        report.waited = Some(begun.elapsed());
        report.pid = Some(pid);
        Reminder::of(&self.target, self.environment.of_database().cwd, self.trail.talk()).finish(self.trail.talk());
        self.tell(report, &self.id, pid)?;
        Ok(keeper.take().map_or(Ok(()), LeaseKeeper::leave)?)
    }

    fn tell(&self, report: &Report, id: &str, pid: i32) -> Result<(), Error> {
        let besides = self.target.protocol.exported_besides(&self.target, self.environment);
        tell(self.common, self.request, report, (id, pid), (&self.target, besides))
    }
}

/// The process that the claim is for; `None`: for a keeper's own time.
fn subject_of(typed: &AcquireArgs) -> Result<Option<i32>, Error> {
    if typed.detach && std::process::id() == 1 {
        let message = "--detach: this is PID 1, and nothing outlives PID 1: the keeper would end with it; acquire \
            it for a \
                       process (--for PID), or hold it: beadlock hold -- CMD";
        return Err(Error::usage(message));
    }
    Ok(match (typed.detach, typed.for_process) {
        (true, _) => None,
        (false, Some(pid)) => Some(subject::named(pid)?),
        (false, None) => Some(subject::caller()?),
    })
}

/// A claim that nobody has named a process for stands for the caller, and that may be a program that only starts
/// others.
fn warn_of_a_wrapper(typed: &AcquireArgs, subject: Option<i32>, talk: &Talk) {
    let caller = subject.filter(|_| typed.for_process.is_none());
    if let Some((pid, name)) = caller.and_then(|pid| Some((pid, subject::wrapper(pid)?))) {
        talk.warn(&format!(
            "the claim stands for {name} (PID {pid}) and ends with it; to claim for the script that calls {name}: \
             beadlock \
             acquire --for $$"
        ));
    }
}

/// A claim on a lock without a record: it is kept by a process of its own.
fn without_record(
    typed: &AcquireArgs,
    settings: &Claim,
    (target, words): (&Target, ClaimWords),
    environment: &Environment,
    (common, request): (&Common, &Request),
    report: &mut Report,
) -> Result<(), Stopped> {
    let trail = target.trail(settings.audit.as_deref(), (None, None), request, &common.talk)?;
    let subject = subject_of(typed)?;
    let (mode, max_hold) = (words.mode, typed.max_hold(subject));
    warn_of_a_wrapper(typed, subject, &common.talk);
    let order = kernel::KernelClaim { target, mode, settings, max_hold, subject, request: request.id() };
    order.acquire(environment, &trail, report, |report, id, pid| {
        tell(common, request, report, (id, pid), (target, None))
    })
}

/// The claim stands for as long as its process lives; the guard has no part in it any more.
fn leave_it(held: Held) {
    drop(held);
}

/// Prints what names the claim: fit for `eval`, and for a file of environment variables.
fn tell(
    common: &Common,
    request: &Request,
    report: &Report,
    (id, pid): (&str, i32),
    (target, besides): (&Target, Option<(&'static str, PathBuf)>),
) -> Result<(), Error> {
    let mut lines = Vec::new();
    if common.json {
        let envelope = request.envelope(report.json(), None, &common.talk.warnings());
        lines.extend(format!("{envelope}\n").into_bytes());
    } else {
        lines.extend(b"BEADLOCK_TARGET=");
        lines.extend(assigned(target.exported()));
        if let Some((variable, path)) = besides {
            lines.extend(format!("\n{variable}=").into_bytes());
            lines.extend(assigned(path.as_os_str()));
        }
        lines.extend(format!("\nBEADLOCK_ID={id}\nBEADLOCK_PID={pid}\n").as_bytes());
    }
    print_all(&lines).map_err(|error| not_printed(&error))
}

/// A word as every shell reads it back: this is data, and so is no more escaped than the line needs. Only what would
/// break it has other quotes ([`quoted`]).
fn assigned(word: &OsStr) -> Vec<u8> {
    let (bytes, shown) = (word.as_bytes(), quoted(word));
    if !shown.starts_with(['$', '"']) || bytes.iter().any(u8::is_ascii_control) {
        return shown.into_bytes();
    }
    let inner = bytes.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&br"'\''"[..]);
    [b"'", inner.as_slice(), b"'"].concat()
}

/// Whoever reads it must have it: a pipe that is closed is a failure here.
fn print_all(text: &[u8]) -> io::Result<()> {
    if stdout_was_closed() {
        return Err(io::Error::other("it is closed"));
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

fn not_printed(error: &io::Error) -> Error {
    let message = format!("failed to write to stdout, so nothing is claimed: {}", system_words(error));
    Error::io(message, error.kind())
}
