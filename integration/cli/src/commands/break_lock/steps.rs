//! Look, choose, take the gate, break: and again from the start when something came in between.

use beadlock_claim::error::Problem;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use beadlock_base::escape::process_name;
use beadlock_base::{
    escape::{escaped, escaped_path},
    filesystem::FileKind,
    process,
};
use beadlock_core::take::{BreakableLock, Broken, Licence, Site};
use beadlock_core::{Options, Verdict};
use beadlock_core::{
    facts,
    gate::Gate,
    gate_holders::GateHolders,
    lock_file_stat::LockFileStat,
    look::{Look, look},
    record::StartedAt,
};
use serde_json::Value;

#[cfg(feature = "fleet")]
use super::fleet;
use super::{BreakArgs, ask, choice, choice::Choice};
use crate::settings;
use crate::targets::refuse_options;
use beadlock_base::poll::wait_for;
use beadlock_claim::audit_trail::Breakage;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::{NotAcquired, WaitControl, WaitingFor};
use beadlock_claim::protocol::rules::ProtocolKind;
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_claim::report::{BREAK, Report};
use beadlock_claim::words::{self, Part, kind_words, to_type};
use beadlock_claim::{environment::Environment, wait::Deadline};
use beadlock_claim::{
    gate, kernel_lock::WithoutRecord, outer, retry::not_seen, target::Target, writer_grace::WRITING,
};
use beadlock_console::{Console, talk::Talk};
use beadlock_explain::{explanation::Explanation, seen::SeenTarget as Shown};
use beadlock_oncall::same_dir::SameDir;
use beadlock_session::interactive_wait::InteractiveWait;
use beadlock_supervise::signals::Signals;

/// How long to wait for the gate, and for a lock that is being written.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often another look is taken when something came in between.
const ROUNDS: usize = 5;
/// The pause between two looks at a lock that is being written.
const SHORTLY: Duration = Duration::from_millis(50);

/// The envelope's `data`; without a `look` of a lock that has no record.
fn row(target: &Target, look: Option<&Look>, kept: Option<&Path>, typed: &BreakArgs) -> Value {
    let seen = match look {
        Some(look) => Report::of_look(target, look),
        None => Report {
            verdict: Some(Verdict::Free),
            reason: Some(Verdict::Free.reason()),
            ..Report::of(target)
        },
    };
    let report = Report {
        kept: kept.map(Path::to_owned),
        reason_given: typed.reason.clone(),
        ..seen
    };
    report.json(BREAK)
}

/// Breaks the lock that is meant; returns the envelope's `data`. On an error nothing was changed.
pub fn run(
    typed: &BreakArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, NotAcquired> {
    let talk = &common.talk;
    let target = resolve(typed.target.as_deref(), environment, Acceptance::Any)?;
    if let ProtocolKind::Kernel(kernel) = target.rules().kind {
        return Ok(of_kernel(&target, kernel, typed, talk)?);
    }
    let can_ask = ask::is_possible(common);
    let choice = Choice::typed(typed).or_else(|| Choice::unnamed(&target).filter(|_| !can_ask));
    if choice.is_none() && !can_ask {
        return Err(Error::usage(
            "which lock? say it with one of --id ID (as beadlock status shows it), --holder NAME and --malformed",
        )
        .into());
    }
    target.warn(talk);
    if target.is_nowhere() {
        return Ok(nothing(&target, &look_again(&target), typed, talk));
    }
    outer::refuse_to(&target, environment, "break")?;
    let ground = SameDir::of(&target)?;
    let audit = settings::audit(typed.audit.as_deref(), environment);
    let trail = target.trail(
        audit.as_deref(),
        (None, Some(common.request.id())),
        &common.request,
        talk,
    )?;
    #[cfg(feature = "fleet")]
    if let Some(choice) = &choice
        && let Some(told) = fleet::run(&target, choice, typed, environment, &trail, talk)?
    {
        return Ok(told);
    }
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let mut control = InteractiveWait::wait_of(&mut signals, talk, None);
    let how = choice.as_ref().map_or("broken_on_terminal", Choice::as_str);
    let licence = if typed.even_if_live {
        Licence::EvenIfLive
    } else {
        Licence::UnlessHeld
    };
    let breaking = Breaking {
        target: &target,
        common,
        licence,
        yes: typed.yes,
    };
    let (look, kept) = breaking.until_done(choice, ground, &mut control)?;
    let Some(kept) = kept else {
        return Ok(nothing(&target, &look, typed, talk));
    };
    talk.end_live();
    breaking.tell(&look, &kept);
    trail.broken(&Breakage {
        look: &look,
        how,
        why: typed.reason.as_deref(),
        kept: &kept,
    });
    Ok(row(&target, Some(&look), Some(&kept), typed))
}

/// A lock that the kernel keeps cannot be broken: an error names its holder.
fn of_kernel(
    target: &Target,
    kernel: &dyn WithoutRecord,
    typed: &BreakArgs,
    talk: &Talk,
) -> Result<Value, Error> {
    refuse_options(target.scheme, &target.given, &typed.given())?;
    let seen = kernel.look(target, &GateHolders::now());
    if seen.verdict != Verdict::Free {
        return Err(kernel.not_to_break(target, &seen));
    }
    talk.say(&format!(
        "nobody has {} locked: there is nothing to break",
        target.given
    ));
    Ok(row(target, None, None, typed))
}

/// Whether the file is still the one that was shown when the user said yes: same id, same file, same fault.
fn is_as_before(before: &Look, now: &Look) -> bool {
    (&before.id, before.on_disk, &before.no_record) == (&now.id, now.on_disk, &now.no_record)
}

fn nothing(target: &Target, look: &Look, typed: &BreakArgs, talk: &Talk) -> Value {
    let given = &target.given;
    match target.rules().nothing_to_break {
        Some(words) if target.is_nowhere() => {
            talk.warn(&format!("{words} The directory of {given} does not exist"))
        }
        Some(words) => talk.note(words),
        None => talk.warn(&format!("nothing to break: there is no lock on {given}")),
    }
    row(target, Some(look), None, typed)
}

struct Breaking<'a> {
    target: &'a Target,
    common: &'a Console,
    licence: Licence,
    /// `--yes`: no question is asked about a file that cannot be understood.
    yes: bool,
}

impl Breaking<'_> {
    /// Looks, lets the lock be chosen, and breaks it; again from the start where something came in between. Returns
    /// what was there, and the file in which the lock is kept; `None`: there was no lock.
    fn until_done(
        &self,
        mut choice: Option<Choice>,
        ground: SameDir,
        control: &mut dyn WaitControl,
    ) -> Result<(Look, Option<PathBuf>), NotAcquired> {
        let target = self.target;
        let mut approved: Option<Look> = None;
        for _ in 0..ROUNDS {
            let seen = self.look(control)?;
            let look = seen.look();
            if look.verdict == Verdict::Free {
                ground.still(target)?;
                return Ok((look.clone(), None));
            }
            // What was not seen may be alive, however it is chosen.
            if let Some(obstacle) = look.obstacle() {
                return Err(not_seen(target, obstacle, look.detail()).into());
            }
            let chosen = match choice.take() {
                Some(choice) => choice,
                None => self.ask(look, control)?,
            };
            if !chosen.is(look) {
                return Err(chosen.not_there(look, target).into());
            }
            self.spare(look)?;
            let is_approved = approved
                .as_ref()
                .is_some_and(|before| is_as_before(before, look));
            if chosen == Choice::Malformed && !is_approved {
                ask::consent(self.yes, look, target, self.common, control)?;
                approved = Some(look.clone());
            }
            choice = Some(chosen.of(look));
            let gate = self.gate(control)?;
            let site = Site::new(&gate, &Options::default()).with_names(target.place.names());
            let broken = site.break_lock(&seen, self.licence)?;
            drop(gate);
            match broken {
                Broken::Kept { file, .. } => return Ok((look.clone(), Some(file))),
                Broken::Gone => {
                    let look = BreakableLock::at(&target.place, &Options::default())
                        .look()
                        .clone();
                    if look.verdict == Verdict::Free {
                        ground.still(target)?;
                        return Ok((look, None));
                    }
                }
                Broken::Changed | Broken::Contended => {}
            }
        }
        Err(self.being_changed().into())
    }

    /// A look at what is there, once nobody may be in the middle of writing it.
    fn look(&self, control: &mut dyn WaitControl) -> Result<BreakableLock, NotAcquired> {
        let place = &self.target.place;
        let deadline = Deadline::after(PATIENCE);
        let mut absent = false;
        let mut unchanged: Option<(StartedAt, Instant)> = None;
        loop {
            let seen = BreakableLock::at(place, &Options::default());
            let left = match (seen.look().verdict, seen.look().on_disk) {
                (Verdict::Free, _) if seen.look().side_file => {
                    // A crash has left a lock aside, or somebody is changing it just now.
                    let gate = self.gate(control)?;
                    let _ = Site::new(&gate, &Options::default())
                        .with_names(place.names())
                        .settle();
                    SHORTLY
                }
                // Absent, no side file, absent: nothing less is "no lock" (docs/model.md#v5).
                (Verdict::Free, _) if !std::mem::replace(&mut absent, true) => continue,
                (Verdict::Unreadable(_), Some(LockFileStat { modified, .. })) => {
                    // By the wall clock, or, where that has jumped, by ours.
                    let age = Duration::try_from(modified.age(facts::now())).unwrap_or_default();
                    let before = unchanged.filter(|(before, _)| *before == modified);
                    let (_, since) = before.unwrap_or_else(|| (modified, Instant::now()));
                    unchanged = Some((modified, since));
                    WRITING.saturating_sub(age.max(since.elapsed()))
                }
                _ => Duration::ZERO,
            };
            if left.is_zero() {
                return Ok(seen);
            }
            if deadline.is_over() {
                return Err(self.being_changed().into());
            }
            let (path, words) = (self.target.path(), seen.look().detail());
            let words = if words.is_empty() {
                "it is aside for the moment"
            } else {
                &words
            };
            control.waiting(&WaitingFor::Unsettled {
                path: &path,
                words,
                left,
            })?;
            let pause = Deadline::after(left.min(SHORTLY));
            while !pause.is_over() {
                let [signalled] = wait_for([control.signals()], pause.left());
                control.check_stop(signalled)?;
            }
        }
    }

    /// A lock that may be somebody's at work is not broken by the way.
    fn spare(&self, look: &Look) -> Result<(), Error> {
        match (self.licence, look.verdict) {
            (Licence::UnlessHeld, Verdict::Held(_)) => Err(choice::held(look, self.target)),
            _ => Ok(()),
        }
    }

    /// Shows the lock, and lets its id be typed.
    fn ask(&self, look: &Look, control: &mut dyn WaitControl) -> Result<Choice, NotAcquired> {
        let shown = Shown {
            target: self.target.clone(),
            look: look.clone(),
        };
        let explanation = Explanation::of(look, self.target, &Options::default());
        let report = shown.report(explanation);
        let talk = &self.common.talk;
        talk.ask(&shown.text(&report, None, talk));
        self.spare(look)?;
        let Some(id) = &look.id else {
            return Err(choice::without_id(look, self.target).into());
        };
        let typed = ask::line("Type its id to break it: ", &self.common.talk, control)?;
        let refused = match typed {
            Some(typed) if typed == *id || typed == escaped(id).to_string() => {
                return Ok(Choice::Id(id.clone()));
            }
            Some(typed) if !typed.is_empty() => {
                format!("{} is not its id; it was not touched", escaped(&typed))
            }
            _ => "no id was typed; it was not touched".to_owned(),
        };
        Err(Error::new(Code::Io, refused).into())
    }

    /// The gate: without one nothing is changed.
    fn gate(&self, control: &mut dyn WaitControl) -> Result<Gate, NotAcquired> {
        let dir = self.target.dir();
        let taken = gate::take_or_advise(dir, PATIENCE, "try again when that has ended", control)?;
        Ok(taken.map_err(|why| {
            Error::io(
                format!("there is no gate here ({why}), and without one no lock is broken"),
                why.kind(),
            )
        })?)
    }

    fn being_changed(&self) -> Error {
        let path = escaped_path(&self.target.path());
        let message = format!(
            "{path} is being changed by somebody all the time; it was not touched; try again"
        );
        Error::new(Code::LockHeld, message)
            .detailed(format!("lock_file={path}"))
            .retry_on_a_lock_of(None)
    }

    /// Says what was done, and warns of a holder that still runs or that is there now.
    fn tell(&self, look: &Look, kept: &Path) {
        let (talk, given, kept) = (&self.common.talk, &self.target.given, escaped_path(kept));
        match &look.record {
            Some(record) => {
                let (holder, pid, age) = (
                    escaped(record.holder()),
                    record.pid(),
                    words::shown_age(words::age(look)),
                );
                let broke = match self.target.broken(record) {
                    Some(words) => {
                        talk.say(&words);
                        format!(
                            "{given} was held by {} for {age}",
                            self.target.holder_of(record, None)
                        )
                    }
                    None => {
                        format!("broke the lock of {holder} (PID {pid}, held for {age}) on {given}")
                    }
                };
                talk.say(&format!("{broke}; its record is kept in {kept}"));
            }
            None => {
                let detail = look.detail();
                let detail = escaped(&detail);
                let what = match look.on_disk.map(|there| there.kind) {
                    Some(kind) if kind != FileKind::File => {
                        format!("{} in place of the lock", kind_words(kind))
                    }
                    _ => "the unreadable lock".to_owned(),
                };
                talk.say(&format!(
                    "broke {what} on {given} ({detail}); it is kept in {kept}"
                ));
            }
        }
        let pid = look
            .record
            .as_ref()
            .and_then(|record| i32::try_from(record.pid()).ok());
        if let Some(pid) = pid.filter(|_| words::is_local_and_alive(look)) {
            let name = process_name(pid, &process::command_line(pid).unwrap_or_default());
            let see = to_type("ps -fp {}", &[Part::Pid(pid.into())]);
            talk.warn(&format!(
                "{name} still runs, perhaps as if it had the lock; to see it: {see}"
            ));
        }
        let now = look_again(self.target);
        if let Some(holder) = self
            .target
            .holder(&now)
            .filter(|_| matches!(now.verdict, Verdict::Held(_)))
        {
            talk.note(&format!("{given} is held by {holder} now"));
        }
    }
}

fn look_again(target: &Target) -> Look {
    look(&target.place, &Options::default())
}
