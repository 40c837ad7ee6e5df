//! What `status` explains of a lock whose process is judged: what the process is now, and what to type next.

mod facts;
mod situation;
#[cfg(test)]
mod tests;

use beadlock_base::process::Liveness;
use beadlock_base::{escape::escaped, namespace::NamespaceMember, process};
use beadlock_core::facts::Facts;
use beadlock_core::{record::beads::Record, zombie::Zombie};

use crate::explained::{Explained, HostProcesses, Inspected, NextCommand, in_container};
use crate::process::situation::{Here, Inside, LiveFacts, ProcessSituation};
use beadlock_base::escape::process_name;
use beadlock_claim::words::{Part, to_type};

/// A record, and what the machine answers about its process.
pub struct Inquiry<'a> {
    pub seen: &'a Inspected<'a>,
    pub record: &'a Record,
    pub facts: &'a Facts,
    pub asked: LiveFacts<'a>,
    pub situation: ProcessSituation,
    /// The command of the process that has the recorded PID on this machine now; untrusted.
    pub command_now: Option<String>,
    zombie: Option<Zombie>,
    /// The stopped process, where the holder or the `beadlock` that ends its claim is one.
    stopped: Option<StoppedProcess>,
}

/// A process in state T.
#[derive(Debug, Clone, Copy)]
enum StoppedProcess {
    Holder(i32),
    /// The `beadlock` that runs the holder.
    Beadlock(i32),
}

impl StoppedProcess {
    /// The process with this PID here, or the `beadlock` that is its parent; `None`: neither is stopped, or `/proc`
    /// does not show it.
    fn of(pid: i32) -> Option<Self> {
        let stat = process::Stat::read(pid).filter(|_| process::proc_is_ours())?;
        if stat.is_stopped() {
            return Some(Self::Holder(pid));
        }
        let above = process::Stat::read(stat.ppid)?;
        let is_ours =
            above.is_stopped() && process::name(above.pid).is_some_and(|name| name == "beadlock");
        is_ours.then_some(Self::Beadlock(above.pid))
    }

    fn pid(self) -> i32 {
        match self {
            Self::Holder(pid) | Self::Beadlock(pid) => pid,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Holder(_) => "it stands still: it was stopped by a signal (state T)".to_owned(),
            Self::Beadlock(pid) => format!(
                "beadlock (PID {pid}), which ends its claim, stands still: it was stopped by a signal (state T)"
            ),
        }
    }
}

const CONTAINER: &str = "it was claimed in a container of this machine";

/// The word of a situation, why the lock has its verdict, and what to type.
type Words = (&'static str, String, NextCommand);

pub fn explain(seen: &Inspected<'_>) -> Option<Explained> {
    let record = seen.record.process()?;
    let inquiry = Inquiry::of(seen, &record);
    let (situation, why, next) = match inquiry.situation {
        ProcessSituation::Renamed(here) => inquiry.of_renamed(here),
        ProcessSituation::Container(inside) => inquiry.of_container(inside),
        ProcessSituation::ContainerGone { .. }
        | ProcessSituation::Remote { .. }
        | ProcessSituation::Namesake
        | ProcessSituation::Nameless => inquiry.of_another_place(),
        _ => inquiry.of_this_place(),
    };
    let holder_is = match inquiry.stopped {
        _ if inquiry.zombie.is_some() => "a zombie, ",
        Some(StoppedProcess::Holder(_)) => "a stopped process, ",
        _ => "",
    };
    Some(Explained {
        situation,
        why,
        next,
        facts: inquiry.to_facts(),
        holder_is,
    })
}

fn ask<'a>(record: &Record, facts: &Facts, machine: &'a HostProcesses) -> LiveFacts<'a> {
    let mut asked = LiveFacts {
        liveness: Liveness::NotAsked,
        members: &[],
    };
    if facts.other_boot(record) == Some(false)
        && let (Some(theirs), Some(ours)) = (record.pid_ns(), facts.ids.pid_ns.as_deref())
    {
        if theirs != ours {
            asked.members = machine.members(theirs);
        } else if facts.liveness == Liveness::NotAsked {
            asked.liveness = process::probe(record.pid);
        }
    }
    asked
}

impl<'a> Inquiry<'a> {
    fn of(seen: &'a Inspected<'a>, record: &'a Record) -> Self {
        let facts = seen.facts;
        let asked = ask(record, facts, seen.machine);
        let situation = situation::of(seen.look.verdict.reason(), record, facts, &asked);
        let pid = i32::try_from(record.pid).ok();
        let lives = |liveness| matches!(liveness, Liveness::Alive | Liveness::NotPermitted);
        let command_now = pid.filter(|_| lives(facts.liveness) || lives(asked.liveness));
        let zombie = pid
            .filter(|_| situation == ProcessSituation::Zombie)
            .map(Zombie::of);
        let command_now = command_now.and_then(process::command_line);
        let here = match situation {
            ProcessSituation::Alive
            | ProcessSituation::AliveOfAnotherUser
            | ProcessSituation::Renamed(Here::Lives) => pid,
            ProcessSituation::Container(Inside::Process(here)) => Some(here),
            _ => None,
        };
        let stopped = here.and_then(StoppedProcess::of);
        Self {
            seen,
            record,
            facts,
            asked,
            situation,
            command_now,
            zombie,
            stopped,
        }
    }

    /// The command that continues a stopped process, so that it can end.
    fn go_on(&self, stopped: StoppedProcess) -> NextCommand {
        let wait = self.seen.of_target("beadlock wait --wait 10m {}");
        (
            to_type("kill -CONT {}", &[Part::Pid(stopped.pid().into())]),
            format!("it goes on; then: {wait}"),
        )
    }

    /// The words for a lock whose process can be looked up here.
    #[expect(
        clippy::too_many_lines,
        reason = "one table: each situation and its words"
    )]
    fn of_this_place(&self) -> Words {
        let (seen, pid, now) = (self.seen, self.record.pid, self.now_is());
        let reap = |comment: &str| {
            (
                seen.of_target("beadlock check --reap-proven-dead {}"),
                comment.to_owned(),
            )
        };
        match self.situation {
            ProcessSituation::Alive | ProcessSituation::AliveOfAnotherUser
                if self.stopped.is_some() =>
            {
                let stopped = self
                    .stopped
                    .map(|stopped| (stopped.words(), self.go_on(stopped)));
                let (words, next) = stopped.unwrap_or_default();
                (
                    "stopped",
                    format!("its process lives here, and {words}"),
                    next,
                )
            }
            ProcessSituation::Alive => {
                let why = match self.recorded_start_is_known() {
                    true => "its process lives here, and started when the record says".to_owned(),
                    false => format!(
                        "PID {pid} lives here; whether it is still the one that claimed is not recorded"
                    ),
                };
                ("alive", why, self.wait())
            }
            ProcessSituation::AliveOfAnotherUser => (
                "alive",
                "its process lives here, and is another user's".to_owned(),
                self.wait(),
            ),
            ProcessSituation::Zombie => {
                let zombie = self
                    .zombie
                    .as_ref()
                    .map(|zombie| (zombie.to_string(), zombie.clone()));
                let (why, zombie) = zombie
                    .map(|(why, it)| (why, it.in_plain_text().to_string()))
                    .unwrap_or_default();
                ("zombie", why, reap(&zombie))
            }
            ProcessSituation::Recycled => {
                let why = format!("its process is gone: PID {pid} is another one now{now}");
                ("pid_recycled", why, reap("removes it: pid_reused"))
            }
            ProcessSituation::Rebooted { proved } => {
                let booted = "this machine has booted since";
                let (why, next) = match proved {
                    true => (
                        format!("{booted}: its process is gone, and PID {pid} is another one{now}"),
                        reap("removes it: other_boot"),
                    ),
                    false => (
                        format!(
                            "{booted}, and PID {pid} is in use again{now}; the boot alone is no proof here, because {}",
                            self.why_boot_is_no_proof()
                        ),
                        self.not_its_holder(
                            "a process that was started since the boot is not its holder",
                        ),
                    ),
                };
                ("rebooted", why, next)
            }
            ProcessSituation::Gone { rebooted } => {
                let booted = if rebooted {
                    "; this machine has booted since"
                } else {
                    ""
                };
                (
                    "gone",
                    format!("its process is gone{booted}"),
                    seen.removed_by_check(),
                )
            }
            ProcessSituation::NoSuchPid => {
                let why =
                    format!("no process can have PID {pid}, so nothing can ever prove it dead");
                let path = seen.target.path();
                let comment = format!(
                    "ask whoever runs the tool that wrote it; {}",
                    seen.once_gone()
                );
                (
                    "pid_unknown",
                    why,
                    (to_type("cat {}", &[Part::Path(&path)]), comment),
                )
            }
            _ => {
                let why = format!("the system gives no answer about PID {pid}");
                ("pid_unknown", why, (seen.see_process(), seen.once_gone()))
            }
        }
    }

    /// The words for a lock whose process cannot be looked up here.
    fn of_another_place(&self) -> Words {
        let (seen, host) = (self.seen, escaped(&self.record.hostname));
        let once_gone = seen.once_gone();
        let only_there = "only there can its process be looked up";
        match self.situation {
            ProcessSituation::ContainerGone { proved } => {
                let nobody = "and nobody lives in that any more";
                let (of_host, next) = match proved {
                    true => {
                        let reap = seen.of_target("beadlock check --reap-proven-dead {}");
                        (
                            format!(", {nobody}"),
                            (reap, "removes it: namespace_gone".to_owned()),
                        )
                    }
                    false => (
                        format!(
                            " called {host}, {nobody}; by its name it is another host's, so no check removes it"
                        ),
                        (
                            seen.by_hand(),
                            "nobody lives in its container any more".to_owned(),
                        ),
                    ),
                };
                ("container_gone", format!("{CONTAINER}{of_host}"), next)
            }
            ProcessSituation::Namesake => {
                let why = format!(
                    "it was claimed on another machine that is called {host} too; {only_there}"
                );
                let comment = format!(
                    "by an address that leads to the other machine of this name; {once_gone}"
                );
                ("namesake", why, (seen.see_on_its_host(), comment))
            }
            ProcessSituation::Nameless => {
                let why = "this machine has no host name to compare with".to_owned();
                let comment = format!("gives this machine its name; {once_gone}");
                (
                    "nameless",
                    why,
                    ("hostname -F /etc/hostname".to_owned(), comment),
                )
            }
            situation => {
                let why = match situation {
                    ProcessSituation::Remote { same_machine: true } => format!(
                        "it was claimed on {host}, with the machine id of this one: this machine has another name and \
                         another boot since, or {host} is a copy of its disk"
                    ),
                    _ => format!("it was claimed on another host, {host}; {only_there}"),
                };
                ("remote", why, (seen.see_on_its_host(), once_gone))
            }
        }
    }

    fn of_renamed(&self, here: Here) -> Words {
        let (host, pid) = (escaped(&self.record.hostname).to_string(), self.record.pid);
        let name = self.facts.hostname.as_deref().unwrap_or_default();
        let what = match name.eq_ignore_ascii_case(&host) {
            false => {
                format!(
                    "this machine was renamed: it was {host} when this was claimed, and is {} now",
                    escaped(name)
                )
            }
            true => "this machine's id has changed since this was claimed".to_owned(),
        };
        let other = || self.not_its_holder("it is not its holder");
        let (now, next) = match here {
            Here::Lives => (format!("it lives{}", self.now_is()), self.wait()),
            Here::Recycled => (
                format!("it is another process now{}", self.now_is()),
                other(),
            ),
            Here::Gone => ("it is gone".to_owned(), other()),
            Here::Unknown => (
                "the system gives no answer about it".to_owned(),
                (self.seen.see_process(), self.seen.once_gone()),
            ),
        };
        (
            "renamed",
            format!("{what}, on the same boot; so PID {pid} can be looked up here: {now}"),
            next,
        )
    }

    fn of_container(&self, inside: Inside) -> Words {
        let pid = self.record.pid;
        let in_it = format!("in it: {}", in_container(&self.record.hostname, pid));
        if let (Some(stopped), Inside::Process(_)) = (self.stopped, inside) {
            let why = format!("{CONTAINER}; its process lives, and {}", stopped.words());
            let (command, comment) = self.go_on(stopped);
            return ("container", why, (command, format!("{comment}; {in_it}")));
        }
        let (why, command, comment) = match inside {
            Inside::Process(here) => {
                let name = process_name(here, &process::command_line(here).unwrap_or_default());
                let why = format!(", and its process lives: {name} here");
                (
                    why,
                    to_type("ps -o pid,stat,etime,args -p {}", &[Part::Pid(here.into())]),
                    "its process, as it is seen from here",
                )
            }
            Inside::Others(other) => (
                format!(", which lives; nobody that we can see there is PID {pid}"),
                to_type(
                    "nsenter -t {} -p -m ps -p {}",
                    &[Part::Pid(other.into()), Part::Pid(pid)],
                ),
                "looks for it in its container",
            ),
            Inside::Nothing => (
                "; only root outside of every container sees who lives in it".to_owned(),
                self.seen.of_target("sudo beadlock status {}"),
                "on the host, outside of every container: there root sees into them",
            ),
        };
        let comment = format!("{comment}; {in_it}; {}", self.seen.once_gone());
        let next = (command, comment);
        ("container", format!("{CONTAINER}{why}"), next)
    }

    fn wait(&self) -> NextCommand {
        let see = self.seen.see_process();
        self.seen.wait(&format!(
            "waits until it is free; to see its process: {see}"
        ))
    }

    fn not_its_holder(&self, comment: &str) -> NextCommand {
        (
            self.seen.see_process(),
            format!("{comment}; then: {}", self.seen.by_hand()),
        )
    }

    fn recorded_start_is_known(&self) -> bool {
        let recorded = self
            .record
            .beadlock
            .as_ref()
            .and_then(|mark| mark.start_ticks);
        recorded.is_some()
            && self
                .facts
                .proof
                .as_ref()
                .is_some_and(|proof| proof.start_ticks.is_some())
    }

    fn now_is(&self) -> String {
        let command = self.command_now.as_ref();
        command
            .map(|command| format!(" ({})", escaped(command)))
            .unwrap_or_default()
    }

    fn why_boot_is_no_proof(&self) -> &'static str {
        match self.is_local() {
            true => "which machine it was is not recorded",
            false => "the lock is not known to lie on a file system that only this machine writes",
        }
    }

    /// Whether only this machine writes the file system of the lock.
    pub fn is_local(&self) -> bool {
        self.facts
            .proof
            .as_ref()
            .is_some_and(|proof| proof.local_file_system)
    }

    /// The process of a container that the record names.
    pub fn member(&self) -> Option<&NamespaceMember> {
        self.asked
            .members
            .iter()
            .find(|member| i64::from(member.pid_there) == self.record.pid)
    }
}
