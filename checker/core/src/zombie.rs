//! A holder that is a zombie: it has ended, and its parent has not collected it. Its PID answers `kill(pid, 0)` for
//! as long as that lasts, in a container without an init perhaps for ever.
//!
//! By the rule such a lock is held, because the parent may still rely on it. These are the words for people.

use std::fmt;

use crate::verdict::{Reason, Verdict};
use crate::{
    facts::Facts,
    record::{AgeLimits, OperatorRules, Record},
};
use beadlock_base::{escape::escaped, process};
use beadlock_base::{process::Stat, shell::is_plain_word};

/// A process that has ended and is still there. `Display` is the whole sentence; the parent's name in it is escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zombie {
    /// PID of the parent and its name, which is untrusted.
    parent: Option<(i32, Option<String>)>,
}

impl Zombie {
    /// The holder that `record` names, where that is a zombie of this host and PID namespace without living threads:
    /// what `--reap-proven-dead` takes for dead as `zombie`. `None` also for records of protocols without that option.
    pub fn holder_of(record: &Record) -> Option<Self> {
        let process = record.reapable()?;
        let pid = i32::try_from(process.pid).ok()?;
        // Most holders live, which one read tells.
        if !Stat::read(pid)?.is_zombie() {
            return None;
        }
        let rules = OperatorRules {
            reap_proven_dead: true,
            keep_stale: true,
            limits: AgeLimits::DEFAULT,
        };
        let verdict = record.judge(&Facts::about_ended(&process), &rules);
        (verdict == Verdict::Stale(Reason::Zombie)).then(|| Self::of(pid))
    }

    /// The zombie with this PID, whose parent is looked up. The caller knows that the process is a zombie.
    pub fn of(pid: i32) -> Self {
        // 0: the parent is of another PID namespace.
        let parent = Stat::read(pid)
            .map(|stat| stat.ppid)
            .filter(|parent| *parent > 0);
        let name = |pid| process::name(pid).filter(|name| !name.is_empty());
        Self {
            parent: parent.map(|pid| (pid, name(pid))),
        }
    }

    /// This zombie without its parent's name where a shell may not read that as plain text: for a line to be pasted.
    pub fn in_plain_text(mut self) -> Self {
        if let Some((_, name)) = &mut self.parent {
            name.take_if(|name| !is_plain_word(name));
        }
        self
    }
}

impl fmt::Display for Zombie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a zombie: it has ended, its parent ")?;
        match &self.parent {
            Some((pid, Some(name))) => write!(f, "(PID {pid}, {}) ", escaped(name))?,
            Some((pid, None)) => write!(f, "(PID {pid}) ")?,
            None => {}
        }
        f.write_str("has not collected it; --reap-proven-dead may remove the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ProcessRecord;

    fn zombie(name: Option<&str>) -> Zombie {
        Zombie {
            parent: Some((7, name.map(str::to_owned))),
        }
    }

    #[test]
    fn the_sentence_names_the_parent_where_it_is_known() {
        let sentence = |parent: &str| {
            format!(
                "a zombie: it has ended, its parent {parent}has not collected it; --reap-proven-dead may remove \
                 the lock"
            )
        };
        assert_eq!(zombie(Some("make")).to_string(), sentence("(PID 7, make) "));
        assert_eq!(zombie(None).to_string(), sentence("(PID 7) "));
        assert_eq!(Zombie { parent: None }.to_string(), sentence(""));
        assert_eq!(
            zombie(Some("a\u{1b}[2J\nb")).to_string(),
            sentence(r"(PID 7, a\u{1b}[2J\nb) ")
        );
    }

    #[test]
    fn a_name_that_means_something_to_a_shell_is_not_in_a_line_to_paste() {
        for name in ["$(id)", "`id`", "a b!", "x\ny", "a'b"] {
            assert_eq!(zombie(Some(name)).in_plain_text(), zombie(None), "{name}");
        }
        assert_eq!(
            zombie(Some("tini-static")).in_plain_text(),
            zombie(Some("tini-static"))
        );
    }

    #[test]
    fn a_holder_that_ended_is_one_until_its_parent_collects_it() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        while Stat::read(pid).is_some_and(|stat| !stat.is_zombie()) {
            std::thread::yield_now();
        }
        let record: Record = ProcessRecord::for_process(child.id(), "vc", "1")
            .unwrap()
            .into();
        let me = std::process::id();
        let found = Zombie::holder_of(&record).unwrap().to_string();
        assert!(
            found.starts_with(&format!("a zombie: it has ended, its parent (PID {me}, ")),
            "{found}"
        );
        let mut another = record.as_beads().unwrap().clone();
        if let Some(mark) = &mut another.beadlock {
            mark.start_ticks = Some(1);
        }
        assert_eq!(
            Zombie::holder_of(&another.into()),
            None,
            "its PID is another process now"
        );
        child.wait().unwrap();
        assert_eq!(Zombie::holder_of(&record), None, "collected");
        let mine: Record = ProcessRecord::new("vc", "1").unwrap().into();
        assert_eq!(Zombie::holder_of(&mine), None, "alive");
    }
}
