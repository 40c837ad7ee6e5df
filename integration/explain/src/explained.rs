//! The explanation of a lock with a record, by its protocol: values, which `explain` renders for people and for
//! programs.

use std::cell::OnceCell;

use beadlock_base::namespace::{NamespaceMember, Namespaces};
use beadlock_base::process::Liveness;
use beadlock_core::Options;
use beadlock_core::facts::Facts;
use beadlock_core::record::{Record, StartedAt};
use beadlock_core::{gate_holders::GateHolders, look::Look};
use jiff::SignedDuration;

use beadlock_claim::fact::Fact;
use beadlock_claim::target::Target;
use beadlock_claim::words::{self, Part, shown_age, to_type};

/// The processes of this machine that can be seen: looked for once, when first asked, however many locks there are.
#[derive(Debug, Default)]
pub struct HostProcesses {
    gates: OnceCell<GateHolders>,
    namespaces: OnceCell<Namespaces>,
}

impl HostProcesses {
    pub(crate) fn gates(&self) -> &GateHolders {
        self.gates.get_or_init(GateHolders::now)
    }

    pub(crate) fn members(&self, namespace: &str) -> &[NamespaceMember] {
        self.namespaces
            .get_or_init(Namespaces::scan)
            .members(namespace)
    }
}

/// The command to type, and why; the reason may be empty.
pub type NextCommand = (String, String);

#[derive(Debug)]
pub(crate) struct Explained {
    /// A word for the lock's situation, for JSON: `container_gone`.
    pub situation: &'static str,
    pub why: String,
    pub next: NextCommand,
    pub facts: Vec<Fact>,
    /// The words before the holder's name, such as `a zombie, `; empty for most holders.
    pub holder_is: &'static str,
}

/// A lock with a record, as it was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inspected<'a> {
    pub look: &'a Look,
    pub record: &'a Record,
    pub facts: &'a Facts,
    pub target: &'a Target,
    pub machine: &'a HostProcesses,
    /// The rules by which the lock was judged.
    pub options: &'a Options,
    pub now: StartedAt,
    pub is_gate_shut: bool,
}

impl Inspected<'_> {
    /// [`since`] of the claim, by the clock that knows best.
    pub fn since_claimed(&self) -> String {
        let by_the_clock = || {
            self.record
                .started_at()
                .map(|at| at.age(self.now))
                .unwrap_or_default()
        };
        since(
            words::known_age(self.look)
                .and_then(|age| age.try_into().ok())
                .unwrap_or_else(by_the_clock),
        )
    }

    /// How long ago a time of the lock file was; negative when it is yet to come.
    pub fn age_of(&self, time: StartedAt) -> SignedDuration {
        let known = words::age_of_time(time, self.look).and_then(|age| age.try_into().ok());
        known.unwrap_or_else(|| time.age(self.now))
    }

    pub fn of_target(&self, template: &'static str) -> String {
        to_type(template, &[self.target.part()])
    }

    pub fn wait(&self, comment: &str) -> NextCommand {
        (
            self.of_target("beadlock wait --wait 10m {}"),
            comment.to_owned(),
        )
    }

    /// The command that removes a lock whose process is gone, and when it does.
    pub fn removed_by_check(&self) -> NextCommand {
        let when = if self.is_gate_shut {
            "removes it, once the gate is open"
        } else {
            "removes it"
        };
        (self.of_target("beadlock check {}"), when.to_owned())
    }

    pub fn see_process(&self) -> String {
        words::see(self.record.pid())
    }

    pub fn see_on_its_host(&self) -> String {
        see_on(self.record.hostname(), self.record.pid())
    }

    pub fn id(&self) -> Part<'_> {
        Part::Value("--id", self.look.id.as_deref().unwrap_or_default().as_ref())
    }

    /// The command that breaks the lock although nothing proves its holder dead.
    pub fn by_hand(&self) -> String {
        to_type(
            "beadlock break {} {} --even-if-live",
            &[self.target.part(), self.id()],
        )
    }

    /// The advice to break the lock, once the reader has found its holder to be gone.
    pub fn once_gone(&self) -> String {
        format!("once it is gone: {}", self.by_hand())
    }
}

/// The command that looks for a process on another host. A host whose name is a container's id counts as a container.
pub fn see_on(host: &str, pid: i64) -> String {
    match names_a_container(host) {
        true => in_container(host, pid),
        false => to_type(
            "ssh -- {} ps -p {}",
            &[Part::Word(host.as_ref()), Part::Pid(pid)],
        ),
    }
}

/// The command that looks for a process in its container. By default the name of the host is the container's id; else
/// the reader puts in the name for `CONTAINER`.
pub fn in_container(host: &str, pid: i64) -> String {
    let name = if names_a_container(host) {
        host
    } else {
        "CONTAINER"
    };
    to_type(
        "docker exec {} ps -p {}",
        &[Part::Word(name.as_ref()), Part::Pid(pid)],
    )
}

/// Twelve hex digits: the id of a container, which Docker and Podman give it as the name of its host.
fn names_a_container(host: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    host.len() == 12 && host.bytes().all(is_hex)
}

/// An age in words: `5m ago`, or `5m in the future`.
pub(crate) fn since(age: SignedDuration) -> String {
    let when = if age.is_negative() {
        "in the future"
    } else {
        "ago"
    };
    format!("{} {when}", shown_age(age.unsigned_abs()))
}

pub(crate) fn millis(age: SignedDuration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

/// The answer of `kill(pid, 0)`: the word for JSON, and the words for people.
pub(crate) fn kill_words(liveness: Liveness) -> (&'static str, &'static str) {
    match liveness {
        Liveness::Alive => ("ok", "succeeds: it lives"),
        Liveness::NotPermitted => ("EPERM", "says EPERM: it lives, and belongs to another user"),
        Liveness::Gone => ("ESRCH", "says ESRCH: it is gone"),
        Liveness::Unknown => (
            "unknown",
            "gives no answer that can be trusted: counts as alive",
        ),
        Liveness::NotAsked => (
            "not_asked",
            "was not asked: it is not a process of this place",
        ),
    }
}
