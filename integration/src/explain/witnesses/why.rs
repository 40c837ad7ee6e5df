//! What the witnesses amount to, in one sentence for whoever looks.

use std::fmt::Write;
use std::time::Duration;

use beadlock_checker::internal::dialect::{memory, tower};
use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts::Liveness;

use super::Witnesses;
use super::lines::kind_words;
use crate::explain::situation::{Here, Inside, Situation};

impl Witnesses<'_> {
    /// Why the lock counts as what it counts as.
    pub fn why(&self) -> String {
        let pid = self.look.record.as_ref().map_or(0, |record| record.pid());
        let host = self.look.record.as_ref().map(|record| escaped(record.hostname()).to_string());
        let host = host.unwrap_or_default();
        match self.situation {
            Situation::Free => self.of_free(),
            Situation::SetAside if self.gate.is_shut() => {
                "no lock, but one is aside: somebody is removing one at this moment".to_owned()
            }
            Situation::SetAside => "no lock, but one is aside: a crash has left it there".to_owned(),
            Situation::Alive => match self.recorded_start_is_known() {
                true => "its process lives here, and started when the record says".to_owned(),
                false => {
                    format!("PID {pid} lives here; whether it is still the one that claimed is not recorded")
                }
            },
            Situation::AliveOfAnotherUser => "its process lives here, and is another user's".to_owned(),
            Situation::Zombie => self.zombie().map(ToString::to_string).unwrap_or_default(),
            Situation::Recycled => {
                format!("its process is gone: PID {pid} is another one now{}", self.now_is())
            }
            Situation::Rebooted { proved: true } => {
                format!(
                    "this machine has booted since: its process is gone, and PID {pid} is another one{}",
                    self.now_is()
                )
            }
            Situation::Rebooted { proved: false } => format!(
                "this machine has booted since, and PID {pid} is in use again{}; the boot alone is no proof here, because {}",
                self.now_is(),
                self.why_boot_is_no_proof()
            ),
            Situation::Gone { rebooted: false } => "its process is gone".to_owned(),
            Situation::Gone { rebooted: true } => {
                "its process is gone; this machine has booted since".to_owned()
            }
            Situation::NoSuchPid => {
                format!("no process can have PID {pid}, so nothing can ever prove it dead")
            }
            Situation::Unanswered => format!("the system gives no answer about PID {pid}"),
            Situation::Renamed(here) => self.of_renamed(here, pid, &host),
            Situation::Container(inside) => self.of_container(inside, pid),
            Situation::ContainerGone { proved: true } => {
                "it was claimed in a container of this machine, and nobody lives in that any more".to_owned()
            }
            Situation::ContainerGone { proved: false } => format!(
                "it was claimed in a container of this machine called {host}, and nobody lives in that any more; \
                 by its name it is another host's, so no check removes it"
            ),
            Situation::Remote { same_machine: false } => {
                format!("it was claimed on another host, {host}; only there can its process be looked up")
            }
            Situation::Remote { same_machine: true } => format!(
                "it was claimed on {host}, with the machine id of this one: this machine has another name and another \
                 boot since, or {host} is a copy of its disk"
            ),
            Situation::Namesake => {
                format!(
                    "it was claimed on another machine that is called {host} too; only there can its process be looked up"
                )
            }
            Situation::Nameless => "this machine has no host name to compare with".to_owned(),
            Situation::Beating | Situation::Silent | Situation::BeatingInFuture => self.of_heartbeat(&host),
            Situation::Recent | Situation::Old | Situation::OldByTheClock | Situation::Ageless => self.of_age(),
            Situation::Empty { fresh: true } => {
                format!("the file is empty, and {} old: somebody may be writing it", self.file_age())
            }
            Situation::Data | Situation::TooLarge if let Some(data) = self.not_a_lock() => data.words,
            Situation::Data => "it is somebody's data".to_owned(),
            Situation::Empty { fresh: false } if let Some(why) = self.why_empty() => {
                format!("the file is empty: {why}")
            }
            Situation::Empty { fresh: false } => {
                "the file is empty: who made it died before the first byte, or the disk is full".to_owned()
            }
            Situation::Malformed { fresh: true } => {
                format!("it is no lock record, and {} old: somebody may be writing it", self.file_age())
            }
            Situation::Malformed { fresh: false } => {
                "it is no lock record, so nobody can tell whose it is".to_owned()
            }
            Situation::Invalid => {
                "it is a record in which a value that is needed is missing or wrong, so nobody can tell whose it is"
                    .to_owned()
            }
            Situation::NotAFile(kind) => {
                format!(
                    "there is {} where a lock is a regular file; it is neither opened nor followed",
                    kind_words(kind)
                )
            }
            Situation::TooLarge => "no lock is that large; it is not read".to_owned(),
            Situation::NotOpened(obstacle) => obstacle.advice().to_owned(),
            Situation::Unread => "it could not be read, so nobody can tell whose it is".to_owned(),
        }
    }

    fn of_free(&self) -> String {
        match self.gate.orphaned() {
            Some(orphaned) => format!(
                "no lock; a claim waits for the gate, which a cycle of {} keeps shut",
                orphaned.daemon()
            ),
            None if self.gate.is_shut() => "no lock; a claim waits for the gate".to_owned(),
            None => "no lock".to_owned(),
        }
    }

    fn of_heartbeat(&self, host: &str) -> String {
        let Some((record, facts)) = self.named() else { return String::new() };
        let ttl = record.ttl_seconds;
        let silence = tower::silence(record, facts.now).as_secs();
        match self.situation {
            Situation::BeatingInFuture => {
                format!(
                    "its last heartbeat lies in the future: a clock is wrong, here or on {host}; it counts as held"
                )
            }
            Situation::Silent => {
                format!("its holder has said nothing for {silence}s, and may be silent for {ttl}s")
            }
            _ => format!("its holder said {silence}s ago that it lives, and may be silent for {ttl}s"),
        }
    }

    fn of_age(&self) -> String {
        let Some((record, facts)) = self.aged() else { return String::new() };
        let limits = self.limits;
        if let Some(evidence) = memory::evidence(record, facts, &limits) {
            return escaped(&evidence.to_string()).to_string();
        }
        let process = match facts.liveness {
            Liveness::Alive | Liveness::NotPermitted => "its process lives",
            _ => "its process is not known to be gone",
        };
        if memory::is_old(record, facts, &limits) {
            let age = record.acquired_at.map(|time| time.age(facts.now)).unwrap_or_default();
            return format!(
                "{process}, and by the clock the lock is {:.1}s old (>{}s); a clock that was set makes a refreshed lock old, so \
                 it is stale only when it stays unrefreshed for {}",
                age.as_secs_f64(),
                limits.age.as_secs_f64(),
                shown(memory::UNREFRESHED)
            );
        }
        match (record.acquired_at.map(|time| time.age(facts.now)), memory::fresh_for(record, facts, &limits))
        {
            (Some(age), _) if age.is_negative() => {
                format!("{process}, and its time lies in the future: a clock is wrong, here or there")
            }
            (Some(_), Some(left)) => {
                format!("{process}, and it is stale by its age in {} if nobody refreshes it", shown(left))
            }
            _ => format!("{process}; when it was acquired it does not say, so it is never too old"),
        }
    }

    fn recorded_start_is_known(&self) -> bool {
        let recorded = self.look.record.as_ref().and_then(|record| record.mark()?.start_ticks);
        let now = self.look.facts.as_ref().and_then(|facts| facts.proof.as_ref()?.start_ticks);
        recorded.is_some() && now.is_some()
    }

    /// ` (sleep 300)`.
    fn now_is(&self) -> String {
        self.command_now().map(|command| format!(" ({})", escaped(&command))).unwrap_or_default()
    }

    fn why_boot_is_no_proof(&self) -> &'static str {
        let local = self.look.facts.as_ref().and_then(|facts| facts.proof.as_ref());
        match local.is_some_and(|proof| proof.local_file_system) {
            true => "which machine it was is not recorded",
            false => "the lock is not known to lie on a file system that only this machine writes",
        }
    }

    fn of_renamed(&self, here: Here, pid: i64, host: &str) -> String {
        let facts = self.look.facts.as_ref();
        let name = facts.and_then(|facts| facts.hostname.as_deref()).unwrap_or_default();
        let mut words = match name.eq_ignore_ascii_case(host) {
            false => format!(
                "this machine was renamed: it was {host} when this was claimed, and is {} now, ",
                escaped(name)
            ),
            true => "this machine's id has changed since this was claimed, ".to_owned(),
        };
        let _ = write!(words, "on the same boot; so PID {pid} can be looked up here: ");
        words.push_str(&match here {
            Here::Lives => format!("it lives{}", self.now_is()),
            Here::Recycled => format!("it is another process now{}", self.now_is()),
            Here::Gone => "it is gone".to_owned(),
            Here::Unknown => "the system gives no answer about it".to_owned(),
        });
        words
    }

    fn of_container(&self, inside: Inside, pid: i64) -> String {
        let what = "it was claimed in a container of this machine";
        match inside {
            Inside::Process(here) => {
                let command = beadlock_checker::internal::process::command_line(here).unwrap_or_default();
                format!("{what}, and its process lives: {} here", crate::words::process_name(here, &command))
            }
            Inside::Others(_) => format!("{what}, which lives; nobody that we can see there is PID {pid}"),
            Inside::Nothing => format!("{what}; only root outside of every container sees who lives in it"),
        }
    }

    fn file_age(&self) -> String {
        let age = self.look.on_disk.map(|file| file.modified.age(self.now));
        shown(age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default())
    }
}
