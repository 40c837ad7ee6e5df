//! Targets on a file system that may not answer: one of a network, or one that a process serves.
//!
//! A call that looks at such a file system can hang for ever, and a process that hangs in it cannot always be killed.
//! So before the program itself looks there, a small process does, and the program waits for that only as long as the
//! command line allows. When it stays silent it is killed and left behind, and the command ends with the reason.
//!
//! ```text
//! mod.rs      this page: what is asked, and the words when there is no answer
//! lookup.rs   what a helper looks at
//! patience.rs for how long an answer is waited for
//! helper.rs   the small process
//! ```
//!
//! Where the kernel lists no such file system, this costs one read of `/proc/self/mountinfo`. The library asks nothing:
//! an [`Environment`](crate::settings::environment::Environment) has this guard only in the program.
//!
//! # Limits
//! A file system that stops answering after it was asked hangs the command, at most until the file system answers
//! again. What lies beside the target is asked as well (`--audit`, `--report`, `--intent`, `$BEADS_DIR`), but neither
//! `$PATH` nor the command that `hold` runs. The time for an answer is not taken off the wait for a holder that
//! follows. Where `list` may start no thread, its search looks at mount points before it leaves them out.

mod helper;
mod lookup;
mod patience;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use beadlock_checker::internal::{
    database::REDIRECT, duration::shown, escape::escaped, escape::escaped_path, mounts::Mounts, shell::Part,
    shell::to_type,
};

use crate::error::{Code, Error};
use crate::settings::wait::Wait;

pub use helper::main as helper;
pub use lookup::{BEADS, Lookup, of_directory};
pub use patience::Patience;

/// How many helpers look at the same time.
const SIDE_BY_SIDE: usize = 32;

/// Asks file systems whether they answer before anything else touches them. The default asks nothing.
#[derive(Debug, Clone, Default)]
pub struct Remote(Option<Arc<Guard>>);

#[derive(Debug)]
struct Guard {
    patience: Patience,
    /// What the command touches beside its targets, as it was named.
    besides: Vec<PathBuf>,
    /// What these paths are relative to.
    cwd: PathBuf,
    mounts: OnceLock<Mounts>,
    /// What did not answer.
    silent: Mutex<Vec<PathBuf>>,
}

impl Remote {
    /// For a command in the directory `cwd`, whose `patience` bounds how long an answer is waited for. `besides` is
    /// what it reads or writes beside its targets.
    pub fn of(patience: Patience, besides: Vec<PathBuf>, cwd: PathBuf) -> Self {
        let (mounts, silent) = (OnceLock::new(), Mutex::default());
        Self(Some(Arc::new(Guard { patience, besides, cwd, mounts, silent })))
    }

    /// The guard and the mounts, where some may not answer.
    fn guard(&self) -> Option<(&Guard, &Mounts)> {
        let guard = self.0.as_deref()?;
        let mounts = guard.mounts.get_or_init(Mounts::now);
        (!mounts.are_local()).then_some((guard, mounts))
    }

    /// The mounts, where some may not answer. `None`: nothing here can hang.
    pub fn mounts(&self) -> Option<&Mounts> {
        self.guard().map(|(_, mounts)| mounts)
    }

    /// Returns when all of these can be looked at, and what the command touches beside its targets. Where the command
    /// line does not say how long a holder is waited for, it is `wait`.
    ///
    /// # Errors
    /// [`Code::LockUnreadable`] when a file system on the way did not answer in time.
    pub fn answers_to(&self, lookups: impl IntoIterator<Item = (Lookup, String)>, wait: Wait) -> Result<(), Error> {
        let Some((guard, mounts)) = self.guard() else { return Ok(()) };
        let lookups = lookups.into_iter().chain(guard.besides(mounts));
        guard.ask(mounts, lookups, guard.patience.limit(wait), Code::LockUnreadable)
    }

    /// Returns when `path` can be looked at, and the directory that a redirect in it leads to.
    ///
    /// # Errors
    /// `code` when a file system on the way did not answer in time.
    pub fn answers_at(&self, path: &Path, given: &str, code: Code) -> Result<(), Error> {
        let Some((guard, mounts)) = self.guard() else { return Ok(()) };
        let lookup = of_directory(path, mounts).map(|lookup| (lookup, given.to_owned()));
        guard.ask(mounts, lookup, guard.patience.of_a_look(), code)
    }

    /// Returns when a redirect in `dir`, which was searched already, can be followed.
    ///
    /// # Errors
    /// As [`Remote::answers_at`].
    pub fn answers_where_led(&self, dir: &Path) -> Result<(), Error> {
        let leads_on = self.guard().is_some() && fs::symlink_metadata(dir.join(REDIRECT)).is_ok();
        if leads_on { self.answers_at(dir, &escaped_path(dir), Code::Io) } else { Ok(()) }
    }

    /// Which mount points below `roots` a search must not enter, and for those that were asked the reason.
    /// `into_others`: the search enters other file systems, too.
    pub fn closed_below(&self, roots: &[&Path], into_others: bool) -> Vec<(PathBuf, Option<String>)> {
        let Some((guard, mounts)) = self.guard() else { return Vec::new() };
        let is_entered = |point: &Path| {
            let mut around = roots.iter().filter(|root| point.starts_with(root) && point != **root);
            around.any(|root| into_others || mounts.remote_of(root).is_some())
        };
        let is_below = |point: &&Path| roots.iter().any(|root| point.starts_with(root) && point != root);
        let mut closed = Vec::new();
        let points: Vec<&Path> = mounts.remote_points().filter(is_below).collect();
        let (asked, unasked): (Vec<&Path>, Vec<&Path>) = points.into_iter().partition(|point| is_entered(point));
        closed.extend(unasked.into_iter().map(|point| (point.to_owned(), None)));
        for some in asked.chunks(SIDE_BY_SIDE) {
            let begun = Instant::now();
            let limit = guard.patience.of_a_look();
            let helpers: Vec<_> =
                some.iter().map(|point| (point, helper::Helper::start(&Lookup::Path(point.to_path_buf())))).collect();
            for (point, helper) in helpers {
                if !helper.is_none_or(|helper| helper.answers(limit.saturating_sub(begun.elapsed()))) {
                    closed.push((point.to_path_buf(), Some(what_is_silent(mounts, point, limit))));
                }
            }
        }
        closed
    }

    /// Nothing that lies at `path` was found silent.
    pub fn may_touch(&self, path: &Path) -> bool {
        let Some((guard, mounts)) = self.guard() else { return true };
        let absolute = guard.cwd.join(path);
        let silent = guard.silent.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.on_the_way(&absolute).is_none_or(|mount| !silent.contains(&mount.point))
    }
}

impl Guard {
    fn besides(&self, mounts: &Mounts) -> impl Iterator<Item = (Lookup, String)> {
        self.besides.iter().filter_map(|path| {
            let absolute = self.cwd.join(path);
            mounts.on_the_way(&absolute)?;
            Some((Lookup::Path(absolute), escaped_path(path)))
        })
    }

    /// Asks one after the other, so that the first that is silent can be named.
    fn ask(
        &self,
        mounts: &Mounts,
        lookups: impl IntoIterator<Item = (Lookup, String)>,
        limit: Duration,
        code: Code,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        for (lookup, given) in lookups {
            // Where none can be started, the command goes on as it would without one.
            let Some(helper) = helper::Helper::start(&lookup) else { continue };
            if helper.answers(limit.saturating_sub(begun.elapsed())) {
                continue;
            }
            return Err(self.silence(mounts, &lookup.shown(), &given, limit, code));
        }
        Ok(())
    }

    fn silence(&self, mounts: &Mounts, path: &Path, given: &str, waited: Duration, code: Code) -> Error {
        let millis = waited.as_millis();
        let Some(mount) = mounts.on_the_way(path) else {
            let message = format!(
                "a file system that {given} leads to does not answer (waited {}), so {given} cannot be looked at; \
                 look at its \
                 redirect and links",
                shown(waited)
            );
            return Error::new(code, message).detailed(format!("waited_ms={millis}")).retry_on_a_lock_of(None);
        };
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).push(mount.point.clone());
        let (kind, point) = (escaped(&mount.kind), escaped_path(&mount.point));
        let message = format!(
            "{}, so {given} cannot be looked at; look at its server, or type: {}",
            what_is_silent(mounts, path, waited),
            to_type("umount -l {}", &[Part::Path(&mount.point)])
        );
        Error::new(code, message)
            .detailed(format!("mount={point} type={kind} waited_ms={millis}"))
            .retry_on_a_lock_of(None)
    }
}

/// `the file system nfs4 at /mnt/x does not answer (waited 2s)`
fn what_is_silent(mounts: &Mounts, path: &Path, waited: Duration) -> String {
    let waited = shown(waited);
    match mounts.on_the_way(path) {
        Some(mount) => {
            let (kind, point) = (escaped(&mount.kind), escaped_path(&mount.point));
            format!("the file system {kind} at {point} does not answer (waited {waited})")
        }
        None => format!("a file system on the way does not answer (waited {waited})"),
    }
}
