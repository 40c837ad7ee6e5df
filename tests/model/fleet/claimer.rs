//! `beadlock hold` in a clone that has joined: the local claim, the session, the claim, the drain, the command.
//!
//! Claims once. A claimer that loses its session before the command has started gives up, which is exit 5.

use super::rules::Rules;
use super::server::{Ask, Fleet, Lease, Request, Revision, Verdict};
use super::world::{Delivery, World};
use crate::set::Who;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub enum Stage {
    /// Waits for the local lock, which is the drain of the own machine.
    Waiting,
    /// Has the local lock, and has read `fleet`; asks for a session.
    Known,
    /// Has a session; raises the claim, or waits for another one to end.
    Up,
    /// The claim stands; waits until no right is left.
    Raised,
    /// Drained; about to look at the deadline and to start the command.
    Drained,
    /// The command runs.
    Running,
    /// The whole tree of the command has ended, and the local lock is released; the session is about to end.
    Released,
    /// The session ends first, because there was no command.
    GivingUp,
    /// The session is lost, and no work runs; the local lock is about to be released.
    Lost,
    /// beadlock was killed; its command runs on.
    Orphaned,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claimer {
    pub machine: u8,
    pub stage: Stage,
    /// Somebody has sent SIGSTOP.
    pub stopped: bool,
    /// The watchdog lives.
    pub guard: bool,
    pub fleet: Fleet,
    /// The create revision of its claim.
    pub claim: Revision,
    /// That revision is of a newer cluster than the fleet that it knows, so it is lower than those of before.
    pub is_low: bool,
}

impl Claimer {
    pub fn new(machine: u8) -> Self {
        let fleet = Fleet {
            nonce: 0,
            put_at: 0,
        };
        Self {
            machine,
            stage: Stage::Waiting,
            stopped: false,
            guard: true,
            fleet,
            claim: 0,
            is_low: false,
        }
    }

    pub fn lease(who: Who) -> Lease {
        who * 4
    }

    /// The command runs.
    pub fn works(self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Orphaned)
    }

    /// Its session can have a deadline.
    pub fn has_session(self) -> bool {
        !matches!(self.stage, Stage::Waiting | Stage::Lost | Stage::Gone)
    }

    /// beadlock lives and is not stopped, so it renews.
    pub fn renews(self) -> bool {
        self.has_session() && !self.stopped && self.stage != Stage::Orphaned
    }

    pub fn may_give_up(self) -> bool {
        matches!(self.stage, Stage::Up | Stage::Raised)
    }

    /// Next step; `None` when it has to wait.
    pub fn step(
        mut self,
        who: Who,
        delivery: Delivery,
        world: &mut World,
        rules: &Rules,
    ) -> Option<Self> {
        let lease = Self::lease(who);
        if self.has_session()
            && self.renews()
            && world.has_passed(lease)
            && self.stage < Stage::Released
        {
            return self.notice(who, world, rules);
        }
        let request = |ask| Request {
            lease,
            fleet: self.fleet,
            ask,
        };
        let local = usize::from(self.machine);
        let sends = matches!(
            self.stage,
            Stage::Known | Stage::Up | Stage::Raised | Stage::Released | Stage::GivingUp
        );
        if !sends && delivery != Delivery::Well {
            return None;
        }
        self.stage = match self.stage {
            Stage::Waiting => {
                if !world.local[local].is_free() {
                    return None;
                }
                self.fleet = world.server.fleet?;
                world.local[local].lock = Some(who);
                Stage::Known
            }
            Stage::Known => {
                let answer = world.send(request(Ask::Session), delivery, rules);
                let is_there = |done| done || world.server.sessions[usize::from(lease)] > 0;
                if answer.is_some_and(|answer| is_there(answer.done)) {
                    Stage::Up
                } else {
                    Stage::Known
                }
            }
            Stage::Up => match world.send(request(Ask::Raise), delivery, rules) {
                Some(answer) => match answer.claim.filter(|claim| claim.lease == lease) {
                    Some(claim) => {
                        self.claim = claim.created;
                        self.is_low = world.server.fleet != Some(self.fleet);
                        Stage::Raised
                    }
                    None => Stage::Up,
                },
                None => Stage::Up,
            },
            Stage::Raised => {
                let answer = world.send(request(Ask::Drained(self.claim)), delivery, rules);
                if answer.is_some_and(|answer| answer.done) {
                    Stage::Drained
                } else {
                    Stage::Raised
                }
            }
            Stage::Drained => {
                self.use_token(who, world);
                Stage::Running
            }
            Stage::Running => {
                world.local[local].lock = None;
                Stage::Released
            }
            Stage::Released => {
                world.send(request(Ask::End), delivery, rules);
                Stage::Gone
            }
            Stage::GivingUp => {
                world.send(request(Ask::End), delivery, rules);
                Stage::Lost
            }
            Stage::Lost | Stage::Orphaned => {
                world.local[local].lock = None;
                Stage::Gone
            }
            Stage::Gone => return None,
        };
        self.forget();
        Some(self)
    }

    fn use_token(self, who: Who, world: &mut World) {
        let claim = if self.is_low { 0 } else { self.claim };
        world.use_token(Self::lease(who), (self.fleet.nonce, claim));
    }

    /// Looks at its own deadline, which has passed.
    fn notice(mut self, who: Who, world: &mut World, rules: &Rules) -> Option<Self> {
        if self.stage == Stage::Drained && !rules.looks_at_deadline {
            self.use_token(who, world);
            self.stage = Stage::Running;
        } else {
            self.stage = Stage::Lost;
        }
        Some(self)
    }

    /// What the next renewal would find.
    pub fn verdict(self, who: Who, world: &World, rules: &Rules) -> Verdict {
        if self.stage == Stage::Known {
            return world.server.before_session(self.fleet, rules);
        }
        world
            .server
            .renew(Self::lease(who), self.fleet, 0, self.claim, rules)
    }

    /// A renewal that says something new.
    pub fn renew(mut self, who: Who, world: &mut World, rules: &Rules) -> Option<Self> {
        let lease = Self::lease(who);
        if !self.renews() || self.stage >= Stage::Released || world.has_passed(lease) {
            return None;
        }
        match self.verdict(who, world, rules) {
            Verdict::Good if world.unverified.has(lease) => world.unverified.remove(lease),
            Verdict::Good | Verdict::Foreign => return None,
            Verdict::Lost => {
                world.count_loss(lease);
                self.stage = Stage::Lost;
            }
            Verdict::Broken if self.works() => {
                world.local[usize::from(self.machine)].lock = None;
                self.stage = Stage::Released;
            }
            Verdict::Broken => self.stage = Stage::GivingUp,
        }
        Some(self)
    }

    /// The deadline passes: beadlock and the watchdog end the command, each of them that can.
    pub fn pass(&mut self, world: &mut World, rules: &Rules) {
        let by_itself = self.stage == Stage::Running && !self.stopped;
        let is_ended = by_itself || self.guard && rules.watchdog;
        match self.stage {
            Stage::Running if is_ended => self.stage = Stage::Lost,
            Stage::Orphaned if is_ended => {
                world.local[usize::from(self.machine)].lock = None;
                self.stage = Stage::Gone;
            }
            _ => {}
        }
        self.forget();
    }

    /// What is over is all the same.
    fn forget(&mut self) {
        if self.stage == Stage::Gone {
            *self = Self {
                stage: Stage::Gone,
                ..Self::new(self.machine)
            };
        }
    }

    /// beadlock is killed.
    pub fn kill(mut self, world: &mut World) -> Option<Self> {
        match self.stage {
            Stage::Orphaned | Stage::Gone => return None,
            Stage::Running => self.stage = Stage::Orphaned,
            _ => {
                let lock = &mut world.local[usize::from(self.machine)].lock;
                *lock = lock.filter(|_| matches!(self.stage, Stage::Waiting | Stage::Released));
                self.stage = Stage::Gone;
            }
        }
        self.stopped = false;
        self.forget();
        Some(self)
    }
}
