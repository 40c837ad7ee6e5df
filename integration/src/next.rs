//! What to type next, for each situation: a command that can be pasted, and after a `#` what it is for. What cannot
//! be undone comes after the `#`, so that it is typed by somebody who means it.

use beadlock_checker::closed;
use beadlock_checker::dialect::Dialect;
use beadlock_checker::dialect::memory::UNREFRESHED;
use beadlock_checker::duration::shown;
use beadlock_checker::{FileKind, Reason, Zombie};

use crate::no_lock;
use crate::situation::{Here, Inside, Situation};
use crate::target::Found;
use crate::witnesses::Witnesses;
use crate::words::quoted;

/// The command to type, and why.
pub fn to_type(witnesses: &Witnesses<'_>) -> String {
    let (command, comment) = Next::of(witnesses).answer(witnesses);
    if comment.is_empty() { command } else { format!("{command}   # {comment}") }
}

/// The words that commands are made of, ready for a shell.
struct Next {
    target: String,
    lock: String,
    pid: i64,
    host: String,
    /// Breaks it although nothing proves its holder dead.
    by_hand: String,
    /// What a claim of it takes besides.
    claim: String,
}

impl Next {
    fn of(witnesses: &Witnesses<'_>) -> Self {
        let record = witnesses.look.record.as_ref();
        let target = witnesses.target.typed();
        let id = quoted(witnesses.look.id.as_deref().unwrap_or_default().as_ref());
        let glue = if id.starts_with('-') { "=" } else { " " };
        Self {
            lock: quoted(witnesses.target.path().as_os_str()),
            pid: record.map_or(0, |record| record.pid()),
            host: record.map(|record| quoted(record.hostname().as_ref())).unwrap_or_default(),
            claim: claim_options(witnesses),
            by_hand: format!("beadlock break {target} --id{glue}{id} --even-if-live"),
            target,
        }
    }

    fn answer(&self, witnesses: &Witnesses<'_>) -> (String, String) {
        let Self { target, lock, pid, host, by_hand, claim } = self;
        let check = format!("beadlock check {target}");
        let reap = format!("beadlock check --reap-proven-dead {target}");
        let wait = format!("beadlock wait --wait 10m {target}");
        let see = |pid: i64| format!("ps -fp {pid}");
        let again = format!("sleep 2; beadlock status {target}");
        let malformed = format!("beadlock break {target} --malformed");
        let once_gone = format!("once it is gone: {by_hand}");
        match witnesses.situation {
            Situation::Free => self.claim(witnesses),
            Situation::SetAside => (check, "puts right what a crash has left".to_owned()),
            Situation::Alive | Situation::AliveOfAnotherUser => {
                (wait, format!("waits until it is free; to see its process: {}", see(*pid)))
            }
            Situation::Zombie => {
                let zombie = witnesses.zombie().cloned().map(Zombie::in_plain_text);
                (reap, zombie.map(|zombie| zombie.to_string()).unwrap_or_default())
            }
            Situation::Recycled => (reap, "removes it: pid_reused".to_owned()),
            Situation::Rebooted { proved: true } => (reap, "removes it: other_boot".to_owned()),
            Situation::ContainerGone { proved: true } => (reap, "removes it: namespace_gone".to_owned()),
            Situation::Rebooted { proved: false } => (
                see(*pid),
                format!("a process that was started since the boot is not its holder; then: {by_hand}"),
            ),
            Situation::Gone { .. } if witnesses.gate.is_shut() => {
                (check, "removes it, once the gate is open".to_owned())
            }
            Situation::Gone { .. } => (check, "removes it".to_owned()),
            Situation::NoSuchPid => {
                (format!("cat {lock}"), format!("ask whoever runs the tool that wrote it; {once_gone}"))
            }
            Situation::Unanswered => (see(*pid), once_gone),
            Situation::Renamed(Here::Lives) => {
                (wait, format!("waits until it is free; to see its process: {}", see(*pid)))
            }
            Situation::Renamed(Here::Gone | Here::Recycled) => {
                (see(*pid), format!("it is not its holder; then: {by_hand}"))
            }
            Situation::Renamed(Here::Unknown) => (see(*pid), once_gone),
            Situation::Container(Inside::Process(here)) => {
                (see(here.into()), format!("its process, as it is seen from here; {once_gone}"))
            }
            Situation::Container(Inside::Others(other)) => (
                format!("nsenter -t {other} -p -m ps -p {pid}"),
                format!("looks for it in its container; {once_gone}"),
            ),
            Situation::Container(Inside::Nothing) => (
                format!("sudo beadlock status {target}"),
                format!("on the host, outside of every container: there root sees into them; {once_gone}"),
            ),
            Situation::ContainerGone { proved: false } => {
                (by_hand.clone(), "nobody lives in its container any more".to_owned())
            }
            Situation::Remote { .. } => (format!("ssh -- {host} ps -p {pid}"), once_gone),
            Situation::Namesake => (
                format!("ssh -- {host} ps -p {pid}"),
                format!("by an address that leads to the other machine of this name; {once_gone}"),
            ),
            Situation::Nameless => {
                ("hostname -F /etc/hostname".to_owned(), format!("gives this machine its name; {once_gone}"))
            }
            Situation::Beating => (wait, "waits until it is free".to_owned()),
            Situation::Recent => (wait, "waits until it is free, or too old".to_owned()),
            Situation::Ageless if *pid <= 0 => {
                (format!("beadlock status --raw {target}"), format!("shows it; when nobody works: {by_hand}"))
            }
            Situation::Ageless if witnesses.look.verdict.reason() == Reason::OtherHost => {
                (format!("ssh -- {host} ps -p {pid}"), once_gone)
            }
            Situation::Ageless => (see(*pid), once_gone),
            Situation::Old => (check, "removes it".to_owned()),
            Situation::OldByTheClock => {
                let comment =
                    format!("looks at it for {} and removes it if it is not refreshed", shown(UNREFRESHED));
                let process = match witnesses.look.verdict.reason() {
                    Reason::OtherPidNamespace => String::new(),
                    _ => format!("; to see its process: {}", see(*pid)),
                };
                (format!("beadlock wait {target}"), comment + &process)
            }
            Situation::Silent => (
                format!("beadlock hold {target} --force-lock{claim} -- CMD"),
                format!(
                    "takes it, and writes that down; without a command: {}",
                    by_hand.trim_end_matches(" --even-if-live")
                ),
            ),
            Situation::BeatingInFuture => {
                (format!("ssh -- {host} date -u; date -u"), format!("compares the two clocks; {once_gone}"))
            }
            Situation::Empty { fresh: true } | Situation::Malformed { fresh: true } => {
                (again, "somebody may be writing it".to_owned())
            }
            Situation::Data => self.meant(witnesses),
            Situation::TooLarge if no_lock::is_it(witnesses.look, witnesses.target) => self.meant(witnesses),
            Situation::Empty { fresh: false } if witnesses.target.path_of_lock().is_some() => {
                (malformed, "if nobody uses it".to_owned())
            }
            Situation::Empty { fresh: false } => {
                (malformed, "there is nothing in it; was the disk full? df -h".to_owned())
            }
            Situation::Malformed { fresh: false } | Situation::Invalid => (
                format!("beadlock status --raw {target}"),
                format!("shows it; when nobody needs it: {malformed}"),
            ),
            Situation::NotAFile(FileKind::Directory) => {
                (format!("ls -la {lock}"), format!("when nobody needs it: {malformed}"))
            }
            Situation::NotAFile(_) | Situation::TooLarge => {
                (format!("ls -ld {lock}"), format!("when nobody needs it: {malformed}"))
            }
            Situation::Unread => match closed::directory_above(&witnesses.target.path()) {
                Some(why) => (format!("namei -l {lock}"), why),
                None => (format!("ls -ld {lock}"), "as a user who may read it: beadlock status".to_owned()),
            },
        }
    }

    /// What to type where somebody's data is.
    fn meant(&self, witnesses: &Witnesses<'_>) -> (String, String) {
        let (file, lock) = no_lock::meant(witnesses.target);
        let comment = format!("locks the file itself; for a lock file beside it: {lock}");
        (format!("beadlock hold {file}{} -- CMD", self.claim), comment)
    }

    /// What to type where there is no lock.
    fn claim(&self, witnesses: &Witnesses<'_>) -> (String, String) {
        let hold = format!("beadlock hold {}{} -- CMD", self.target, self.claim);
        match witnesses.gate.orphaned() {
            Some(orphaned) => {
                let pids: Vec<String> = orphaned.work.iter().map(|work| work.pid.to_string()).collect();
                let end = orphaned.to_end_it();
                let comment = format!("what is left running; a claim waits for it; to end it: {end}");
                (format!("ps -fp {}", pids.join(",")), comment)
            }
            None if witnesses.gate.is_shut() => (hold, "waits until the gate is open".to_owned()),
            None => (hold, String::new()),
        }
    }
}

/// What a claim of a named lock must say: which intent, in which version.
fn claim_options(witnesses: &Witnesses<'_>) -> String {
    let record = witnesses.look.record.as_ref().and_then(|record| record.as_tower());
    match (witnesses.target.place.dialect(), record) {
        (Dialect::Beads | Dialect::Memory, _) => String::new(),
        (Dialect::Tower, None) => " --intent-name NAME --intent-version VERSION".to_owned(),
        (Dialect::Tower, Some(record)) => {
            let [intent, version] =
                [&record.intent, &record.intent_version].map(|word| quoted(word.as_ref()));
            format!(" --intent-name={intent} --intent-version={version}")
        }
    }
}

/// How to look at a lock that cannot be understood, and how to be rid of it. What cannot be read may block whoever
/// tries, as a FIFO does.
pub fn to_look_at(reason: Reason, target: &Found) -> String {
    let typed = target.typed();
    let look = match reason {
        Reason::Unreadable => format!("ls -la {}", quoted(target.path().as_os_str())),
        _ => format!("beadlock status --raw {typed}"),
    };
    format!("{look}; when nobody needs it: beadlock break {typed} --malformed")
}
