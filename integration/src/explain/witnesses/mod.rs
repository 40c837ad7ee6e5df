//! Every witness that a verdict rests on, and what it amounts to for whoever looks (docs/design.md#looking).
//!
//! [`Witnesses::lines`] has them for people, one fact a line; [`Witnesses::json`] the same facts for programs.

mod gate;
mod json;
mod lines;
mod why;

use std::cell::OnceCell;

use beadlock_checker::internal::dialect::beads::{Record, StartedAt};
use beadlock_checker::internal::dialect::{memory, tower};
use beadlock_checker::internal::facts::{self, Facts, Liveness};
use beadlock_checker::internal::{Gates, Look, Member, Namespaces, Zombie, process};
use gate::Shut;
pub use lines::{counted, kind_words};

use crate::claim::protocol::NotALock;
use crate::claim::target::Target;
use crate::explain::situation::{Asked, Situation};

/// What is to be seen of this machine's processes: looked for once, when first asked, however many locks there are.
#[derive(Debug, Default)]
pub struct Machine {
    gates: OnceCell<Gates>,
    namespaces: OnceCell<Namespaces>,
}

/// What is known about one lock and its gate.
#[derive(Debug)]
pub struct Witnesses<'a> {
    pub look: &'a Look,
    pub target: &'a Target,
    /// What it amounts to.
    pub situation: Situation,
    /// Who has the gate, and who waits for it.
    pub gate: Shut,
    now: StartedAt,
    /// How old a lock that is judged by its age may be.
    limits: memory::Limits,
    /// What `kill` says of the recorded PID here, where the rule does not ask.
    asked: Liveness,
    /// Who lives in the recorded PID namespace, when it is not ours.
    members: Vec<Member>,
    /// What the holder is now, where it has ended and was not collected.
    zombie: Option<Zombie>,
}

impl<'a> Witnesses<'a> {
    /// Of a look at `target`.
    pub fn gather(look: &'a Look, target: &'a Target) -> Self {
        Self::on(&Machine::default(), look, target)
    }

    /// One of many, on a machine that is the same for all of them.
    pub fn on(machine: &Machine, look: &'a Look, target: &'a Target) -> Self {
        let now = facts::now();
        let mut asked = Liveness::NotAsked;
        let mut members = Vec::new();
        if let (Some(record), Some(facts)) =
            (look.record.as_ref().and_then(|record| record.as_beads()), &look.facts)
            && facts.other_boot(record) == Some(false)
            && let (Some(theirs), Some(ours)) = (record.pid_ns(), facts.ids.pid_ns.as_deref())
        {
            if theirs != ours {
                let namespaces = machine.namespaces.get_or_init(Namespaces::scan);
                members = namespaces.members(theirs).to_vec();
            } else if facts.liveness == Liveness::NotAsked {
                asked = process::probe(record.pid);
            }
        }
        let gates = machine.gates.get_or_init(Gates::now);
        let situation = Situation::of(look, &Asked { now, liveness: asked, members: &members });
        let (gate, limits) = (Shut::of(gates, target.dir()), memory::Limits::default());
        let pid = look.record.as_ref().and_then(|record| i32::try_from(record.pid()).ok());
        let zombie = pid.filter(|_| situation == Situation::Zombie).map(Zombie::of);
        Self { look, target, situation, gate, now, limits, asked, members, zombie }
    }

    /// Where the look went by other limits than the document's.
    pub fn by(self, limits: memory::Limits) -> Self {
        Self { limits, ..self }
    }

    /// Somebody's data in the place of the lock.
    pub fn not_a_lock(&self) -> Option<NotALock> {
        self.target.protocol.not_a_lock(self.look, self.target)
    }

    /// Why an empty file lies there.
    pub fn why_empty(&self) -> Option<&'static str> {
        self.target.protocol.why_empty(self.look)
    }

    /// The holder, where it is a zombie.
    pub fn zombie(&self) -> Option<&Zombie> {
        self.zombie.as_ref()
    }

    /// The record that is judged by its process.
    fn record(&self) -> Option<(&'a Record, &'a Facts)> {
        self.look.record.as_ref()?.as_beads().zip(self.look.facts.as_ref())
    }

    /// The record that is judged by its heartbeats.
    fn named(&self) -> Option<(&'a tower::Record, &'a Facts)> {
        self.look.record.as_ref()?.as_tower().zip(self.look.facts.as_ref())
    }

    /// The record that is judged by its age.
    fn aged(&self) -> Option<(&'a memory::Record, &'a Facts)> {
        self.look.record.as_ref()?.as_memory().zip(self.look.facts.as_ref())
    }

    /// The command of the process that has the recorded PID on this machine now; untrusted.
    fn command_now(&self) -> Option<String> {
        let (record, facts) = self.record()?;
        let lives = [facts.liveness, self.asked]
            .iter()
            .any(|liveness| matches!(liveness, Liveness::Alive | Liveness::NotPermitted));
        process::command_line(i32::try_from(record.pid).ok().filter(|_| lives)?)
    }
}
