//! `beadlock renew`: gives a claim that `acquire --detach` has made a new end (docs/design.md#claims-that-last). The lock
//! is not let go for that, and not taken anew: its keeper moves the end.

use beadlock_claim::error::Problem;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, io::ErrorKind, thread::sleep, time::Duration};

use beadlock_base::duration::{self, shown};
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::stdout::print;
use beadlock_core::audit::Event;
use beadlock_core::look::{Look, look};
use beadlock_core::{Options, Verdict};
use clap::Args;
use serde_json::{Value, json};

use super::release::{by_holder, id_of, lost};
use crate::settings;
use beadlock_claim::audit_trail::refuse_lock_file;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::loss::CONFIRM;
use beadlock_claim::outer::NESTED;
use beadlock_claim::protocol::named_claim::{self, UNTIL};
use beadlock_claim::protocol::rules::ProtocolKind;
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_claim::report::{RENEW, Report};
use beadlock_claim::script::Script;
use beadlock_claim::target::Target;
use beadlock_claim::words::{Part, is_local_and_alive, see, to_type};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, answers::conclude};
use beadlock_session::lease_keeper::{KeptClaim, KeptLease, NotRenewed, end_after};

const EXAMPLES: &str = "\
Examples:
  eval \"$(beadlock renew --max-hold 2h)\"
  beadlock renew tower:app-prod --id req_8f3a
  beadlock renew lock:@staging --holder agent-7 --max-hold 1h";

const EXITS: &str = "\
Exit codes:
  0  renewed: the claim is kept until the new end
  1  beadlock failed, or the keeper did not answer
  2  the command line is wrong, or neither --id nor $BEADLOCK_ID is given
  4  the claim has no end to move: it ends with its process, or is another user's
  5  the lock could not be understood
  9  the claim is not there any more: nothing was renewed";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct RenewArgs {
    /// The database's directory, [beads:]DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH, or flock:PATH [env:
    /// BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The id that acquire has printed [env: BEADLOCK_ID]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// In the place of the id, the name of the holder: renews a claim that this user has made with acquire, and no other.
    /// Not for named locks, memory:, file: and flock:
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    pub holder: Option<String>,
    /// How long the claim is kept from now on, more or less than before [default: the --max-hold that acquire had]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_above_zero)]
    pub max_hold: Option<Duration>,
    /// Add a JSON line to FILE [env: BEADLOCK_AUDIT]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

pub fn run(typed: &RenewArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let renewed = renew(typed, environment, common)
        .map_err(|error| (ProgramEnd::Code(error.exit().code()), error));
    let end = match renewed {
        Ok(ref report) if !common.json => {
            common.talk.end_live();
            // The claim has its new end, whether or not somebody reads that.
            let _ = print(line(report, environment));
            ProgramEnd::Code(Exit::Done.code())
        }
        renewed => conclude(common, renewed.map(|report| report.json(RENEW))),
    };
    if !common.json {
        Script::fail(end.as_code());
    }
    end
}

/// The line that sets the claim's end, as `acquire` prints it; empty where the environment names another claim.
fn line(report: &Report, environment: &Environment) -> String {
    let named = environment.get("BEADLOCK_ID");
    let is_another = named.is_some_and(|named| report.id.as_deref().is_none_or(|id| named != id));
    match &report.until {
        Some(until) if !is_another => {
            String::from_utf8_lossy(&Script::of_stdout().set(UNTIL, until.as_ref())).into_owned()
        }
        _ => String::new(),
    }
}

fn renew(typed: &RenewArgs, environment: &Environment, common: &Console) -> Result<Report, Error> {
    let id = match typed.holder {
        Some(_) => None,
        None => Some(id_of(typed.id.as_deref(), environment, "renew")?),
    };
    let target = resolve(typed.target.as_deref(), environment, Acceptance::Any)?;
    let id = match (id, &typed.holder) {
        (None, Some(name)) => by_holder::id_of(name, &target, "renew")?,
        (id, _) => id.unwrap_or_default(),
    };
    let audit = settings::audit(typed.audit.as_deref(), environment);
    refuse_lock_file("--audit", audit.as_deref(), &target.own_files())?;
    let renewing = Renewing {
        target: &target,
        id: &id,
        environment,
        common,
    };
    let standing = renewing.find()?;
    let max_hold = typed.max_hold.unwrap_or(standing.kept.request().max_hold);
    let until = renewing.move_end(&standing, max_hold)?;
    renewing.write_down(&standing, &until, audit.as_deref());
    let (given, pid) = (&target.given, standing.pid);
    let of = standing.holder.as_deref().map(escaped);
    let of = of
        .map(|holder| format!(" for {holder}"))
        .unwrap_or_default();
    common.talk.say(&format!(
        "renewed {given}{of} (PID {pid}), kept for at most {} from now, until {until}",
        shown(max_hold)
    ));
    Ok(Report {
        holder: standing.holder,
        id: Some(id),
        pid: Some(pid),
        until: Some(until),
        ..Report::of(&target)
    })
}

/// A claim that is to be renewed.
struct Renewing<'a> {
    target: &'a Target,
    id: &'a str,
    environment: &'a Environment,
    common: &'a Console,
}

/// A claim that stands, and that a keeper keeps.
struct Standing {
    pid: i32,
    kept: KeptClaim,
    /// The holder's name in the record; `None`: the lock has no record.
    holder: Option<String>,
    /// The lock in JSON, for the audit trail.
    lock: Value,
}

impl Renewing<'_> {
    /// The claim with this id and its keeper.
    fn find(&self) -> Result<Standing, Error> {
        let Self { target, id, .. } = self;
        if let Some(outer) = id.strip_prefix(NESTED) {
            return Err(self.nested(outer));
        }
        if let ProtocolKind::Kernel(kernel) = target.rules().kind {
            let pid = kernel.process_of(id).filter(|_| kernel.stands(target, id));
            let pid = pid.ok_or_else(|| self.lost())?;
            let kept = self
                .kept_by(pid)
                .ok_or_else(|| self.not_kept(true, pid.into()))?;
            let mode = match &kept.request().lease {
                KeptLease::Kernel { mode } => Some(mode.as_str()),
                KeptLease::Record { .. } => None,
            };
            return Ok(Standing {
                pid,
                kept,
                holder: None,
                lock: json!({ "id": id, "mode": mode }),
            });
        }
        let seen = self.look()?;
        let Some(record) = &seen.record else {
            return Err(self.lost());
        };
        let pid = record.pid();
        let kept = i32::try_from(pid)
            .ok()
            .and_then(|pid| Some((pid, self.kept_by(pid)?)));
        let Some((pid, kept)) = kept else {
            // Of a lock that is judged by time nobody asks where its process is.
            let is_here = is_local_and_alive(&seen) || record.record_kind().is_judged_by_time();
            return Err(self.not_kept(is_here, pid));
        };
        Ok(Standing {
            pid,
            kept,
            holder: Some(record.holder().to_owned()),
            lock: serde_json::to_value(record).unwrap_or_default(),
        })
    }

    /// A look at the lock while the claim has it. One look proves no loss: the file may be aside for a moment.
    fn look(&self) -> Result<Look, Error> {
        let once = || look(&self.target.place, &Options::default());
        let is_it = |seen: &Look| {
            seen.id.as_deref() == Some(self.id) && matches!(seen.verdict, Verdict::Held(_))
        };
        let mut seen = once();
        if !is_it(&seen) {
            sleep(CONFIRM);
            seen = once();
        }
        match seen.verdict {
            _ if is_it(&seen) => Ok(seen),
            Verdict::Unreadable(_) => {
                let (given, status) = (&self.target.given, self.status());
                let message = format!(
                    "the lock of {given} cannot be understood, and nothing was renewed; look at it: {status}"
                );
                Err(Error::new(Code::LockUnreadable, message).detailed(self.lock_file()))
            }
            _ => Err(self.lost()),
        }
    }

    /// The claim as its process `pid` keeps it; `None`: that is not its keeper.
    fn kept_by(&self, pid: i32) -> Option<KeptClaim> {
        KeptClaim::of(pid).filter(|kept| kept.is(self.id))
    }

    /// The error of a claim that no keeper here keeps.
    fn not_kept(&self, is_here: bool, pid: i64) -> Error {
        self.refused(&match is_here {
            true => format!(
                "is not kept for a time: it ends with its process ({}); acquire --detach makes a claim that can be \
                 renewed",
                see(pid)
            ),
            false => format!("is kept by PID {pid} of another machine or PID namespace: renew it there"),
        })
    }

    /// Has the keeper move the end, and looks whether the claim still stands then.
    fn move_end(&self, standing: &Standing, max_hold: Duration) -> Result<String, Error> {
        let end = end_after(max_hold).ok_or(NotRenewed::TooFar);
        let until = end.and_then(|end| standing.kept.renew(end));
        if !named_claim::stands(self.id, self.target) {
            return Err(self.lost());
        }
        until.map_err(|why| match why {
            NotRenewed::ForProcess(_) | NotRenewed::NoEnd => self.refused(&why.to_string()),
            NotRenewed::TooFar => {
                Error::usage(format!("--max-hold: the claim {} {why}", escaped(self.id)))
            }
            NotRenewed::Ended => self.lost(),
            NotRenewed::NotSent(ref error) if error.kind() == ErrorKind::PermissionDenied => {
                self.failed(Code::NotPermitted, &why, standing.pid)
            }
            NotRenewed::Older | NotRenewed::Silent(_) | NotRenewed::NotSent(_) => {
                self.failed(Code::Io, &why, standing.pid)
            }
        })
    }

    /// Writes the new end down. A file that cannot be written is warned of: the claim has its new end.
    fn write_down(&self, standing: &Standing, until: &str, file: Option<&Path>) {
        let Console { talk, request, .. } = self.common;
        let of = (standing.holder.as_deref(), Some(self.id));
        match self.target.trail(file, of, request, talk) {
            Ok(trail) => trail.write(Event::LockRenewed, |entry| {
                entry
                    .detail(format_args!("kept until {until}"))
                    .lock(&standing.lock)
            }),
            Err(error) => talk.warn(&error.to_string()),
        }
    }

    /// The error of a nested id: it is the outer claim that has an end.
    fn nested(&self, outer: &str) -> Error {
        if !named_claim::stands(outer, self.target) {
            return lost(outer, self.target, self.environment);
        }
        let renew = to_type(
            "beadlock renew {} {}",
            &[self.target.part(), Part::Value("--id", outer.as_ref())],
        );
        let given = &self.target.given;
        Error::new(
            Code::LockHeld,
            format!("{given} is held by the outer claim, and nothing was renewed; to renew that: {renew}"),
        )
        .detailed(self.lock_file())
    }

    fn refused(&self, why: &str) -> Error {
        let (given, id, status) = (&self.target.given, escaped(self.id), self.status());
        let message = format!("the claim {id} of {given} {why}; who and why: {status}");
        Error::new(Code::LockHeld, message).detailed(self.lock_file())
    }

    fn failed(&self, code: Code, why: &NotRenewed, pid: i32) -> Error {
        let (given, id) = (&self.target.given, escaped(self.id));
        let message = format!("the claim {id} of {given} {why} ({})", see(pid.into()));
        Error::new(code, message)
    }

    fn lost(&self) -> Error {
        lost(self.id, self.target, self.environment)
    }

    fn status(&self) -> String {
        to_type("beadlock status {}", &[self.target.part()])
    }

    fn lock_file(&self) -> String {
        format!("lock_file={}", escaped_path(&self.target.path()))
    }
}
