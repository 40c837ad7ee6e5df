//! The reminder of `hold` and `acquire`: one line, once a repository and day. Git is started once the claim stands, works
//! beside the command, and is heard by a thread. So a home directory that hangs holds up neither the command nor, for more
//! than a second, the release.

use std::fs::{self, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::{cell::RefCell, ffi::OsStr, io, os::unix::ffi::OsStrExt, thread, time::Duration};

use beadlock_base::{git, regular::CAREFULLY};
use beadlock_core::{facts, record::StartedAt};
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::{stat::futimens, time::TimeSpec};

use beadlock_claim::observe::{Claimed, Notice, Observer};
use beadlock_console::talk::Talk;
use beadlock_oncall::ignored::{IgnoreAdvice, QUESTION, Rule, WorkTree, rules, with_nuls};

/// How long the end of a claim waits for an answer that usually takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// A question that a thread answers.
#[derive(Debug)]
#[must_use = "the envelope needs the answer: `finish`"]
pub struct Reminder(Option<PendingAnswer>);

/// A question that git is at work on.
#[derive(Debug)]
struct PendingAnswer {
    git: i32,
    sentence: Receiver<String>,
}

impl Reminder {
    /// Asks about the lock of a database, or of `lock:PATH`. A lock that is judged by time does no harm in another
    /// clone: it goes stale there. Nothing is asked with `-q`, nor about a repository that had its reminder today or
    /// that belongs to another user.
    pub fn of(claimed: &Claimed<'_>, cwd: PathBuf, talk: &Talk) -> Self {
        Self(Self::begin(claimed, cwd, talk))
    }

    fn begin(claimed: &Claimed<'_>, cwd: PathBuf, talk: &Talk) -> Option<PendingAnswer> {
        let voice = talk.voice()?;
        let place = claimed.committable?;
        let tree = WorkTree::around(place.dir()).filter(WorkTree::is_ours)?;
        let stamp = ReminderStamp::of(&tree.common);
        if stamp.is_fresh() {
            return None;
        }
        let name = OsStr::from_bytes(place.names().lock().to_bytes()).to_owned();
        let dir = place.dir().to_owned();
        let asked = git::start(&dir, QUESTION, &with_nuls(&[&name])).ok()?;
        let (git, (sender, receiver)) = (asked.pid(), channel());
        let hear = move || {
            // Git that says nothing has not said that it keeps the lock. A git directory that cannot be written has no
            // stamp, and there git cannot add the lock either.
            if rules(&asked.stdout()) != [Rule::Keeps] || !stamp.renew() {
                return None;
            }
            let sentence = IgnoreAdvice {
                dir: &dir,
                name: &name,
                cwd: &cwd,
            }
            .sentence();
            voice(&sentence);
            sender.send(sentence).ok()
        };
        thread::Builder::new()
            .name("ignored".to_owned())
            .spawn(hear)
            .ok()?;
        Some(PendingAnswer {
            git,
            sentence: receiver,
        })
    }

    /// Puts the reminder among the warnings of the envelope.
    pub fn finish(self, talk: &Talk) {
        let answer = self
            .0
            .map(|pending| pending.sentence.recv_timeout(PATIENCE));
        if let Some(Ok(sentence)) = answer {
            talk.has_warned(sentence);
        }
    }
}

/// What the program makes of a session's notices: a person hears them, and git is asked about each lock that is
/// claimed.
#[derive(Debug)]
pub struct Reminding<'a> {
    talk: &'a Talk,
    cwd: PathBuf,
    reminders: RefCell<Vec<Reminder>>,
}

impl<'a> Reminding<'a> {
    /// `cwd` is the working directory, for paths to type.
    pub fn with(talk: &'a Talk, cwd: PathBuf) -> Self {
        let reminders = RefCell::default();
        Self {
            talk,
            cwd,
            reminders,
        }
    }

    /// Puts the reminders among the warnings of the envelope, after the claims have ended.
    pub fn finish(self) {
        for reminder in self.reminders.into_inner() {
            reminder.finish(self.talk);
        }
    }
}

impl Observer for Reminding<'_> {
    fn is_live(&self) -> bool {
        self.talk.is_live()
    }

    fn notice(&self, notice: &Notice<'_>) {
        self.talk.notice(notice);
        if let Notice::Claimed(claimed) = notice {
            let reminder = Reminder::of(claimed, self.cwd.clone(), self.talk);
            self.reminders.borrow_mut().push(reminder);
        }
    }

    fn helpers(&self) -> Vec<i32> {
        let reminders = self.reminders.borrow();
        let pending = reminders.iter().filter_map(|reminder| reminder.0.as_ref());
        pending.map(|pending| pending.git).collect()
    }
}

/// How long there is no other reminder for a repository, in seconds.
const DAY: u64 = 24 * 60 * 60;

/// When there was a reminder for a repository: the time of an empty file in its git directory, which no commit
/// contains.
#[derive(Debug, Clone)]
struct ReminderStamp {
    file: PathBuf,
}

impl ReminderStamp {
    fn of(git: &Path) -> Self {
        Self {
            file: git.join("beadlock.reminded"),
        }
    }

    /// It is less than a day old, or so far in the future: a clock that was set back does not silence it for ever.
    fn is_fresh(&self) -> bool {
        fs::symlink_metadata(&self.file).is_ok_and(|meta| is_fresh(&meta))
    }

    /// Makes it as old as now. False: it cannot be written, or another process has just made it so.
    fn renew(&self) -> bool {
        let flags = OFlag::O_NOFOLLOW | CAREFULLY;
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(flags.bits()).mode(0o644);
        let (opened, is_new) = match options.open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (options.create_new(true).open(&self.file), true)
            }
            opened => (opened, false),
        };
        // Of two at once one has it locked, or comes after the other's time.
        let Some(Ok(file)) = opened
            .ok()
            .map(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock))
        else {
            return false;
        };
        let is_old = is_new || file.metadata().is_ok_and(|meta| !is_fresh(&meta));
        is_old && futimens(&*file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW).is_ok()
    }
}

fn is_fresh(meta: &Metadata) -> bool {
    let StartedAt(now) = facts::now();
    now.as_secs().abs_diff(meta.mtime()) < DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_24_hours_in_both_directions() {
        let dir = tempfile::tempdir().unwrap();
        let stamp = ReminderStamp::of(dir.path());
        assert!(!stamp.is_fresh());
        assert!(stamp.renew() && stamp.is_fresh());
        let set = |hours: i64| {
            let time = TimeSpec::new(facts::now().0.as_secs() + hours * 60 * 60, 0);
            futimens(fs::File::open(&stamp.file).unwrap(), &time, &time).unwrap();
        };
        for (hours, is_fresh) in [
            (-23, true),
            (-25, false),
            (23, true),
            (25, false),
            (0, true),
        ] {
            set(hours);
            assert_eq!(stamp.is_fresh(), is_fresh, "{hours}");
        }
        set(-25);
        assert!(stamp.renew() && stamp.is_fresh());
        assert!(!stamp.renew(), "another one was faster");
    }

    #[test]
    fn what_is_no_file_of_ours_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let stamp = ReminderStamp::of(dir.path());
        std::os::unix::fs::symlink("elsewhere", &stamp.file).unwrap();
        assert!(!stamp.renew() && !dir.path().join("elsewhere").exists());
        assert!(!ReminderStamp::of(&dir.path().join("nowhere")).renew());
    }
}
