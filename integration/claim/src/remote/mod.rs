//! Targets on a file system that may not answer: one of a network, or one that a process serves.
//!
//! A call that looks at such a file system can hang for ever, and a process that hangs in it cannot always be killed.
//! So before the program itself looks there, a small process does, and the program waits for that only as long as the
//! command line allows. When it stays silent it is killed and left behind, and the command ends with the reason.
//!
//! Where the kernel lists no such file system, this costs one read of `/proc/self/mountinfo`. The library asks nothing:
//! an [`Environment`](crate::environment::Environment) has this guard only in the program.
//!
//! # Limits
//! A file system that stops answering after it was asked hangs the command, at most until the file system answers
//! again. What lies beside the target is asked as well (`--audit`, `--report`, `--intent`, `--schema`, `$BEADS_DIR`),
//! but neither `$PATH`, nor `$BEADLOCK_RESULT_FILE`, nor the command that `hold` runs. The time for an answer is not taken off the wait for a holder that
//! follows. Where `list` may start no thread, its search looks at mount points before it leaves them out.

mod helper;

use crate::error::Problem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs};

use beadlock_base::{
    duration::shown,
    escape::{escaped, escaped_path},
    helper::Helpers,
    mounts::Mounts,
    shell::{Part, to_type},
};
use beadlock_core::database::REDIRECT;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};
use crate::wait::Wait;
use helper::ProbeHelper;

/// The name of a database's directory.
pub const BEADS: &str = ".beads";

/// How many helpers look at the same time.
const SIDE_BY_SIDE: usize = 32;

/// How long an answer may take that no claim waits for.
const LOOK: Duration = Duration::from_secs(2);

/// No command gives up sooner: a busy server is not a dead one.
const SHORTEST: Duration = Duration::from_secs(1);

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeLimit {
    /// The command looks, and waits for no holder.
    Look,
    /// The command waits for a holder, this long where the command line says so, and this long for a running cycle.
    Waits {
        /// For how long a holder is waited for; `None`: nothing says so, and the default of the protocol counts.
        wait: Option<Wait>,
        /// For how long a running cycle is waited for; `None`: nothing says so.
        drain: Option<Duration>,
    },
}

impl ProbeLimit {
    /// A claim of the target waits for `default` unless told otherwise. A drain counts where it alone is given and is
    /// shorter.
    fn limit(self, default: Wait) -> Duration {
        let limit = match self {
            Self::Look => return LOOK,
            Self::Waits {
                wait: Some(wait), ..
            } => wait.limit(),
            Self::Waits { wait: None, drain } => {
                drain.map_or(default.limit(), |drain| drain.min(default.limit()))
            }
        };
        limit.max(SHORTEST)
    }
}

/// The place that a helper looks at, as an absolute path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lookup {
    /// This path, and the directory that a redirect in it leads to.
    Path(OsString),
    /// The nearest database in this directory or above.
    Nearest(OsString),
}

impl Lookup {
    fn path(&self) -> &Path {
        match self {
            Self::Path(path) | Self::Nearest(path) => Path::new(path),
        }
    }
}

/// The look that is needed before `at`, or a database in it, is touched; `None`: no file system there may hang, and
/// there is no redirect.
pub fn of_directory(at: &Path, mounts: &Mounts) -> Option<Lookup> {
    let may_hang = mounts.on_the_way(&at.join(BEADS)).is_some()
        // What a redirect says is read by the helper.
        || fs::symlink_metadata(at.join(REDIRECT)).is_ok();
    may_hang.then(|| Lookup::Path(at.into()))
}

/// Asks file systems whether they answer before anything else touches them. The default asks nothing.
#[derive(Debug, Clone, Default)]
pub struct Remote(Option<Arc<Guard>>);

#[derive(Debug)]
struct Guard {
    helpers: Helpers,
    patience: ProbeLimit,
    /// The paths that the command touches beside its targets, as they were named.
    besides: Vec<PathBuf>,
    /// The directory in which relative paths of `besides` begin.
    cwd: PathBuf,
    mounts: OnceLock<Mounts>,
    /// The mount points of the file systems that did not answer.
    silent: Mutex<Vec<PathBuf>>,
}

impl Remote {
    /// The guard of a command in the directory `cwd`. `besides` are paths that it reads or writes beside its targets.
    pub fn of(helpers: Helpers, patience: ProbeLimit, besides: Vec<PathBuf>, cwd: PathBuf) -> Self {
        let (mounts, silent) = (OnceLock::new(), Mutex::default());
        Self(Some(Arc::new(Guard {
            helpers,
            patience,
            besides,
            cwd,
            mounts,
            silent,
        })))
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
    /// line does not say how long a holder is waited for, it is `wait`. [`Code::LockUnreadable`]: a file system on the
    /// way did not answer in time.
    pub fn answers_to(
        &self,
        lookups: impl IntoIterator<Item = (Lookup, String)>,
        wait: Wait,
    ) -> Result<(), Error> {
        let Some((guard, mounts)) = self.guard() else {
            return Ok(());
        };
        let lookups = lookups.into_iter().chain(guard.besides(mounts));
        guard.ask(
            mounts,
            lookups,
            guard.patience.limit(wait),
            Code::LockUnreadable,
        )
    }

    /// Returns when `path` can be looked at, and the directory that a redirect in it leads to; an error with `code`
    /// when a file system on the way did not answer in time.
    pub fn answers_at(&self, path: &Path, given: &str, code: Code) -> Result<(), Error> {
        let Some((guard, mounts)) = self.guard() else {
            return Ok(());
        };
        let lookup = of_directory(path, mounts).map(|lookup| (lookup, given.to_owned()));
        guard.ask(mounts, lookup, LOOK, code)
    }

    /// Same as [`Remote::answers_at`], for a redirect in `dir`, which was searched already. Without a redirect there is
    /// nothing to ask.
    pub fn answers_where_led(&self, dir: &Path) -> Result<(), Error> {
        let leads_on = self.guard().is_some() && fs::symlink_metadata(dir.join(REDIRECT)).is_ok();
        if leads_on {
            self.answers_at(dir, &escaped_path(dir), Code::Io)
        } else {
            Ok(())
        }
    }

    /// Which mount points below `roots` a search must not enter, and for those that were asked the reason.
    /// `into_others`: the search enters other file systems, too.
    pub fn closed_below(
        &self,
        roots: &[&Path],
        into_others: bool,
    ) -> Vec<(PathBuf, Option<String>)> {
        let Some((guard, mounts)) = self.guard() else {
            return Vec::new();
        };
        let (mut asked, mut closed) = (Vec::new(), Vec::new());
        for point in mounts.remote_points() {
            let around: Vec<_> = roots
                .iter()
                .filter(|root| point.starts_with(root) && point != **root)
                .collect();
            if around
                .iter()
                .any(|root| into_others || mounts.remote_of(root).is_some())
            {
                asked.push(point);
            } else if !around.is_empty() {
                closed.push((point.to_owned(), None));
            }
        }
        for some in asked.chunks(SIDE_BY_SIDE) {
            let begun = Instant::now();
            let start = |point: &&Path| {
                (
                    point.to_path_buf(),
                    ProbeHelper::start(guard.helpers, &Lookup::Path((*point).into())),
                )
            };
            let helpers: Vec<_> = some.iter().map(start).collect();
            for (point, helper) in helpers {
                if !helper.is_none_or(|helper| helper.answers(LOOK.saturating_sub(begun.elapsed())))
                {
                    let words = what_is_silent(mounts, &point, LOOK);
                    closed.push((point, Some(words)));
                }
            }
        }
        closed
    }

    /// Whether `path` may be touched: its file system was not found silent.
    pub fn may_touch(&self, path: &Path) -> bool {
        let Some((guard, mounts)) = self.guard() else {
            return true;
        };
        let absolute = guard.cwd.join(path);
        let silent = guard.silent.lock().unwrap_or_else(PoisonError::into_inner);
        mounts
            .on_the_way(&absolute)
            .is_none_or(|mount| !silent.contains(&mount.point))
    }
}

impl Guard {
    fn besides(&self, mounts: &Mounts) -> impl Iterator<Item = (Lookup, String)> {
        self.besides.iter().filter_map(|path| {
            let absolute = self.cwd.join(path);
            mounts.on_the_way(&absolute)?;
            Some((Lookup::Path(absolute.into()), escaped_path(path)))
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
            let Some(helper) = ProbeHelper::start(self.helpers, &lookup) else {
                continue;
            };
            if helper.answers(limit.saturating_sub(begun.elapsed())) {
                continue;
            }
            let silent = match lookup {
                Lookup::Path(path) => path.into(),
                Lookup::Nearest(dir) => Path::new(&dir).join(BEADS),
            };
            return Err(self.silence(mounts, &silent, &given, limit, code));
        }
        Ok(())
    }

    fn silence(
        &self,
        mounts: &Mounts,
        path: &Path,
        given: &str,
        waited: Duration,
        code: Code,
    ) -> Error {
        let millis = waited.as_millis();
        let (message, detail) = match mounts.on_the_way(path) {
            Some(mount) => {
                self.silent
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(mount.point.clone());
                let (kind, point) = (escaped(&mount.kind), escaped_path(&mount.point));
                let unmount = to_type("umount -l {}", &[Part::Path(&mount.point)]);
                let silent = what_is_silent(mounts, path, waited);
                let advice = format!("look at its server, or type: {unmount}");
                (
                    format!("{silent}, so {given} cannot be looked at; {advice}"),
                    format!("mount={point} type={kind} "),
                )
            }
            None => {
                let silent = format!(
                    "a file system that {given} leads to does not answer (waited {})",
                    shown(waited)
                );
                let advice = "look at its redirect and links";
                (
                    format!("{silent}, so {given} cannot be looked at; {advice}"),
                    String::new(),
                )
            }
        };
        Error::new(code, message)
            .detailed(format!("{detail}waited_ms={millis}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_bounds_it_and_a_second_is_the_least() {
        let seconds = Duration::from_secs;
        let waits = |wait, drain| ProbeLimit::Waits { wait, drain }.limit(Wait::DEFAULT);
        assert_eq!(ProbeLimit::Look.limit(Wait::DEFAULT), seconds(2));
        assert_eq!(waits(None, None), seconds(10));
        assert_eq!(waits(Some(Wait::UpTo(seconds(60))), None), seconds(60));
        assert_eq!(
            waits(Some(Wait::UpTo(seconds(60))), Some(seconds(3))),
            seconds(60)
        );
        assert_eq!(waits(None, Some(seconds(3))), seconds(3));
        assert_eq!(waits(None, Some(seconds(130))), seconds(10));
        for least in [
            Wait::No,
            Wait::UpTo(Duration::ZERO),
            Wait::UpTo(Duration::from_millis(20)),
        ] {
            assert_eq!(waits(Some(least), Some(seconds(9))), seconds(1));
        }
        assert_eq!(
            ProbeLimit::Waits {
                wait: None,
                drain: None
            }
            .limit(Wait::No),
            seconds(1)
        );
    }
}
