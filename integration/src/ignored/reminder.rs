//! The reminder of `hold` and `acquire`: one line, once a repository and day. The files are read by a thread, so that
//! a home directory that hangs holds up neither the command nor the release.

use std::sync::mpsc::{Receiver, channel};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf, thread, time::Duration};

use super::{IgnoreAdvice, patterns::Patterns, stamp::ReminderStamp, work_tree::WorkTree};
use crate::{claim::target::Target, output::talk::Talk};

/// How long the end of a claim waits for an answer that usually takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// A question that is being answered.
#[derive(Debug)]
#[must_use = "the envelope needs the answer: `finish`"]
pub struct Reminder(Option<Receiver<String>>);

impl Reminder {
    /// Asks about the lock of a database, or of `lock:PATH`. A lock that is judged by time does no harm in another
    /// clone: it goes stale there. Nothing is asked of a repository that was spoken of today, that belongs to another
    /// user, or with `-q`.
    pub fn of(target: &Target, cwd: PathBuf, talk: &Talk) -> Self {
        Self(Self::begin(target, cwd, talk))
    }

    fn begin(target: &Target, cwd: PathBuf, talk: &Talk) -> Option<Receiver<String>> {
        let voice = talk.voice()?;
        if !target.protocol.may_be_committed() {
            return None;
        }
        let tree = WorkTree::around(target.dir()).filter(WorkTree::is_ours)?;
        let stamp = ReminderStamp::of(&tree.common);
        if stamp.is_fresh() {
            return None;
        }
        let name = OsStr::from_bytes(target.place.names().lock().to_bytes()).to_owned();
        let dir = target.dir().to_owned();
        let (sender, receiver) = channel();
        let ask = move || {
            let patterns = Patterns::around(&dir, &[&name], &tree).ok()?;
            // A git directory that cannot be written has no stamp. There git cannot add the lock either.
            if patterns.ignore(&dir.join(&name)) || !stamp.renew() {
                return None;
            }
            let sentence = IgnoreAdvice { dir: &dir, name: &name, cwd: &cwd }.sentence();
            voice(&sentence);
            sender.send(sentence).ok()
        };
        thread::Builder::new().name("ignored".to_owned()).spawn(ask).ok()?;
        Some(receiver)
    }

    /// Puts what was said among the warnings of the envelope.
    pub fn finish(self, talk: &Talk) {
        if let Some(sentence) = self.0.and_then(|answer| answer.recv_timeout(PATIENCE).ok()) {
            talk.has_warned(sentence);
        }
    }
}
