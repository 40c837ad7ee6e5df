//! Whether git ignores the lock and the files beside it.

use std::ffi::OsStr;

use super::outcome::{TrialFailure, TrialOutcome};
use super::site::TrialSite;
use crate::ignored::{GitAnswer, IgnoreAdvice};

const LOCK: &str = ".exclusive-lock";

/// One of each kind of file that lies beside a lock: aside, an unfinished one, a record that `break` has kept.
pub const SIDE_FILES: [&str; 3] =
    [".exclusive-lock.aside", ".exclusive-lock.tmp-1-00000000", ".exclusive-lock.broken-20260101T000000Z.json"];

/// Git ignores all files of these `names`, which are `shown` as one.
pub fn ignores(site: &TrialSite<'_>, shown: &str, names: &[&str]) -> TrialOutcome {
    match GitAnswer::about(&site.directory.path, names) {
        GitAnswer::NoWorkTree => Ok("it is not in a git work tree".to_owned()),
        GitAnswer::Ignored => Ok(format!("git ignores {shown}")),
        GitAnswer::NotIgnored(name) => {
            let such = if name == shown { String::new() } else { format!(", such as {name}") };
            let advice = IgnoreAdvice { dir: &site.directory.path, name: OsStr::new(LOCK), cwd: site.cwd };
            let failure = TrialFailure::missing(format!("git does not ignore {shown}{such}"));
            Err(TrialFailure { to_type: Some(advice.to_type()), ..failure })
        }
        GitAnswer::Unknown(why) => Err(TrialFailure::untried(why)),
    }
}
