//! Whether git ignores the lock and the files beside it.

use std::ffi::OsStr;
use std::path::Path;

use super::trial::{Failure, Kind, Outcome, Trial};
use crate::ignored::{Advice, Answer};

const LOCK: &str = ".exclusive-lock";

/// One of each kind of file that lies beside a lock: aside, an unfinished one, a record that `break` has kept.
const SIDE_FILES: [&str; 3] = [
    ".exclusive-lock.aside",
    ".exclusive-lock.tmp-1-00000000",
    ".exclusive-lock.broken-20260101T000000Z.json",
];

/// The trials, of a directory without links.
pub fn trials(dir: &Path, cwd: &Path) -> [Trial; 2] {
    let of = |kind, names: &[&str]| {
        let answer = Answer::about(dir, names);
        let advice = || Advice { dir, name: OsStr::new(LOCK), cwd }.to_type();
        let to_type = matches!(answer, Answer::NotIgnored(_)).then(advice);
        let shown = if names.len() > 1 { ".exclusive-lock.*" } else { LOCK };
        Trial { to_type, ..Trial::new(kind, judged(answer, shown)) }
    };
    [of(Kind::IgnoredByGit, &[LOCK]), of(Kind::RecordsIgnored, &SIDE_FILES)]
}

fn judged(answer: Answer, shown: &str) -> Outcome {
    match answer {
        Answer::NoWorkTree => Ok("it is not in a git work tree".to_owned()),
        Answer::Ignored => Ok(format!("git ignores {shown}")),
        Answer::NotIgnored(name) => {
            let such = if name == shown { String::new() } else { format!(", such as {name}") };
            Err(Failure::missing(format!("git does not ignore {shown}{such}")))
        }
        Answer::Unknown(why) => Err(Failure::untried(why)),
    }
}
