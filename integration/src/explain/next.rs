//! What to type next, for each situation: a command that can be pasted, and after a `#` what it is for. What cannot
//! be undone comes after the `#`, so that it is typed by somebody who means it.

use std::path::PathBuf;

use beadlock_checker::Reason;
use beadlock_checker::internal::closed;
use beadlock_checker::internal::dialect::memory::UNREFRESHED;
use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::obstacle::Obstacle;
use beadlock_checker::internal::{FileKind, Zombie};

use crate::explain::situation::{Here, Inside, Situation};
use crate::explain::witnesses::Witnesses;
use crate::words::{Part, to_type};

/// The command to type, and why.
pub fn next(witnesses: &Witnesses<'_>) -> String {
    let (command, comment) = Next::of(witnesses).answer(witnesses);
    if comment.is_empty() { command } else { format!("{command}   # {comment}") }
}

/// The parts that commands are made of.
struct Next<'a> {
    target: Part<'static>,
    lock: PathBuf,
    pid: Part<'static>,
    host: Part<'a>,
    /// Breaks it although nothing proves its holder dead.
    by_hand: String,
    /// What a claim of it takes besides.
    claim: Part<'static>,
}

impl<'a> Next<'a> {
    fn of(witnesses: &'a Witnesses<'_>) -> Self {
        let record = witnesses.look.record.as_ref();
        let target = witnesses.target.part();
        let host = record.map(|record| record.hostname()).unwrap_or_default();
        Self {
            lock: witnesses.target.path(),
            pid: Part::Pid(record.map_or(0, |record| record.pid())),
            host: Part::Word(host.as_ref()),
            claim: Part::Words(witnesses.target.protocol.options_of_claim(record)),
            by_hand: to_type("beadlock break {} {} --even-if-live", &[target.clone(), id(witnesses)]),
            target,
        }
    }

    fn answer(&self, witnesses: &Witnesses<'_>) -> (String, String) {
        let Self { target, lock, pid, host, by_hand, claim } = self;
        let of_target = |template| to_type(template, std::slice::from_ref(target));
        let of_lock = |template| to_type(template, &[Part::Path(lock)]);
        let of_host = |template| to_type(template, &[host.clone(), pid.clone()]);
        let check = of_target("beadlock check {}");
        let reap = of_target("beadlock check --reap-proven-dead {}");
        let wait = of_target("beadlock wait --wait 10m {}");
        let see = |pid: &Part<'_>| to_type("ps -fp {}", std::slice::from_ref(pid));
        let again = of_target("sleep 2; beadlock status {}");
        let malformed = of_target("beadlock break {} --malformed");
        let raw = of_target("beadlock status --raw {}");
        let far = || of_host("ssh -- {} ps -p {}");
        let once_gone = format!("once it is gone: {by_hand}");
        match witnesses.situation {
            Situation::Free => self.claim(witnesses),
            Situation::SetAside => (check, "puts right what a crash has left".to_owned()),
            Situation::Alive | Situation::AliveOfAnotherUser => {
                (wait, format!("waits until it is free; to see its process: {}", see(pid)))
            }
            Situation::Zombie => {
                let zombie = witnesses.zombie().cloned().map(Zombie::in_plain_text);
                (reap, zombie.map(|zombie| zombie.to_string()).unwrap_or_default())
            }
            Situation::Recycled => (reap, "removes it: pid_reused".to_owned()),
            Situation::Rebooted { proved: true } => (reap, "removes it: other_boot".to_owned()),
            Situation::ContainerGone { proved: true } => (reap, "removes it: namespace_gone".to_owned()),
            Situation::Rebooted { proved: false } => (
                see(pid),
                format!("a process that was started since the boot is not its holder; then: {by_hand}"),
            ),
            Situation::Gone { .. } if witnesses.gate.is_shut() => {
                (check, "removes it, once the gate is open".to_owned())
            }
            Situation::Gone { .. } => (check, "removes it".to_owned()),
            Situation::NoSuchPid => {
                (of_lock("cat {}"), format!("ask whoever runs the tool that wrote it; {once_gone}"))
            }
            Situation::Unanswered => (see(pid), once_gone),
            Situation::Renamed(Here::Lives) => {
                (wait, format!("waits until it is free; to see its process: {}", see(pid)))
            }
            Situation::Renamed(Here::Gone | Here::Recycled) => {
                (see(pid), format!("it is not its holder; then: {by_hand}"))
            }
            Situation::Renamed(Here::Unknown) => (see(pid), once_gone),
            Situation::Container(Inside::Process(here)) => {
                (see(&Part::Pid(here.into())), format!("its process, as it is seen from here; {once_gone}"))
            }
            Situation::Container(Inside::Others(other)) => (
                to_type("nsenter -t {} -p -m ps -p {}", &[Part::Pid(other.into()), pid.clone()]),
                format!("looks for it in its container; {once_gone}"),
            ),
            Situation::Container(Inside::Nothing) => (
                of_target("sudo beadlock status {}"),
                format!("on the host, outside of every container: there root sees into them; {once_gone}"),
            ),
            Situation::ContainerGone { proved: false } => {
                (by_hand.clone(), "nobody lives in its container any more".to_owned())
            }
            Situation::Remote { .. } => (far(), once_gone),
            Situation::Namesake => {
                (far(), format!("by an address that leads to the other machine of this name; {once_gone}"))
            }
            Situation::Nameless => {
                ("hostname -F /etc/hostname".to_owned(), format!("gives this machine its name; {once_gone}"))
            }
            Situation::Beating => (wait, "waits until it is free".to_owned()),
            Situation::Recent => (wait, "waits until it is free, or too old".to_owned()),
            Situation::Ageless if witnesses.look.record.as_ref().is_none_or(|record| record.pid() <= 0) => {
                (raw, format!("shows it; when nobody works: {by_hand}"))
            }
            Situation::Ageless if witnesses.look.verdict.reason() == Reason::OtherHost => (far(), once_gone),
            Situation::Ageless => (see(pid), once_gone),
            Situation::Old => (check, "removes it".to_owned()),
            Situation::OldByTheClock => {
                let comment =
                    format!("looks at it for {} and removes it if it is not refreshed", shown(UNREFRESHED));
                let process = match witnesses.look.verdict.reason() {
                    Reason::OtherPidNamespace => String::new(),
                    _ => format!("; to see its process: {}", see(pid)),
                };
                (of_target("beadlock wait {}"), comment + &process)
            }
            Situation::Silent => (
                to_type("beadlock hold {} --force-lock {} -- CMD", &[target.clone(), claim.clone()]),
                format!(
                    "takes it, and writes that down; without a command: {}",
                    to_type("beadlock break {} {}", &[target.clone(), id(witnesses)])
                ),
            ),
            Situation::BeatingInFuture => (
                to_type("ssh -- {} date -u; date -u", std::slice::from_ref(host)),
                format!("compares the two clocks; {once_gone}"),
            ),
            Situation::Empty { fresh: true } | Situation::Malformed { fresh: true } => {
                (again, "somebody may be writing it".to_owned())
            }
            Situation::Data => self.meant(witnesses),
            Situation::TooLarge if witnesses.not_a_lock().is_some() => self.meant(witnesses),
            Situation::Empty { fresh: false } if witnesses.why_empty().is_some() => {
                (malformed, "if nobody uses it".to_owned())
            }
            Situation::Empty { fresh: false } => {
                (malformed, "there is nothing in it; was the disk full? df -h".to_owned())
            }
            Situation::Malformed { fresh: false } | Situation::Invalid => {
                (raw, format!("shows it; when nobody needs it: {malformed}"))
            }
            Situation::NotAFile(FileKind::Directory) => {
                (of_lock("ls -la {}"), format!("when nobody needs it: {malformed}"))
            }
            Situation::NotAFile(_) | Situation::TooLarge => {
                (of_lock("ls -ld {}"), format!("when nobody needs it: {malformed}"))
            }
            Situation::NotOpened(Obstacle::Descriptors) => (
                format!("ulimit -n \"$(ulimit -Hn)\"; {}", of_target("beadlock status {}")),
                "this process may open too few files".to_owned(),
            ),
            Situation::NotOpened(Obstacle::FileTable) => {
                (again, "this machine has too many open files: fs.file-max".to_owned())
            }
            Situation::NotOpened(Obstacle::Lease) => (
                again,
                "a process has it under a write lease; to see those that have leases: grep LEASE /proc/locks"
                    .to_owned(),
            ),
            Situation::Unread => match closed::directory_above(&witnesses.target.path()) {
                Some(why) => (of_lock("namei -l {}"), why),
                None => (of_lock("ls -ld {}"), "as a user who may read it: beadlock status".to_owned()),
            },
        }
    }

    /// What to type where somebody's data is.
    fn meant(&self, witnesses: &Witnesses<'_>) -> (String, String) {
        let Some(data) = witnesses.not_a_lock() else { return self.claim(witnesses) };
        let [file, lock] = data.meant.map(|name| Part::Words(vec![name]));
        let comment = format!("locks the file itself; for a lock file beside it: {}", to_type("{}", &[lock]));
        (to_type("beadlock hold {} {} -- CMD", &[file, self.claim.clone()]), comment)
    }

    /// What to type where there is no lock.
    fn claim(&self, witnesses: &Witnesses<'_>) -> (String, String) {
        let hold = to_type("beadlock hold {} {} -- CMD", &[self.target.clone(), self.claim.clone()]);
        match witnesses.gate.orphaned() {
            Some(orphaned) => {
                let pids: Vec<String> = orphaned.work.iter().map(|work| work.pid.to_string()).collect();
                let end = orphaned.to_end_it();
                let comment = format!("what is left running; a claim waits for it; to end it: {end}");
                (to_type("ps -fp {}", &[Part::Word(pids.join(",").as_ref())]), comment)
            }
            None if witnesses.gate.is_shut() => (hold, "waits until the gate is open".to_owned()),
            None => (hold, String::new()),
        }
    }
}

/// Its id as an option of `break`.
fn id<'a>(witnesses: &'a Witnesses<'_>) -> Part<'a> {
    Part::Value("--id", witnesses.look.id.as_deref().unwrap_or_default().as_ref())
}
