//! The lock that lies in the database of a log now, as `beadlock status` sees it. Only of a database of this machine.

use std::path::Path;

use beadlock_base::escape::escaped;
use beadlock_core::look::look;
use beadlock_core::{Options, Verdict};

use beadlock_claim::environment::Environment;
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_console::talk::Talk;
use beadlock_explain::explained::NextCommand;
use beadlock_explain::explanation::Explanation;

/// A lock that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHere {
    /// Name of the holder, escaped as in the log; `None`: the lock is unreadable.
    pub holder: Option<String>,
    /// Why the lock counts as held or unreadable, in the words of `status`.
    pub why: String,
    pub next: NextCommand,
}

/// The lock of this database; `None` where it is free, stale, or cannot be looked at.
pub fn lock_here(dir: &Path, environment: &Environment) -> Option<LockHere> {
    let talk = Talk::silent();
    let target = resolve(
        Some(dir.as_os_str()),
        environment,
        Acceptance::ToLookAt(&talk),
    );
    let target = target.ok()?;
    let options = Options::default();
    let look = look(&target.place, &options);
    if matches!(look.verdict, Verdict::Free | Verdict::Stale(_)) {
        return None;
    }
    let explanation = Explanation::of(&look, &target, &options);
    let holder = look.record.as_ref().map(|record| escaped(record.holder()));
    Some(LockHere {
        holder: holder.map(|holder| holder.to_string()),
        why: explanation.why,
        next: explanation.command,
    })
}
