//! `beadlock-agent` in a fleet, and the work of its cycles.
//!
//! Comes again for ever. One that was killed is started again at once, while its work may still run.

use super::rules::{RightRule, Rules};
use super::server::{Answer, Ask, Claim, Fleet, Lease, Request, Revision, Verdict};
use super::world::{Delivery, World};
use crate::set::Who;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Knows the fleet; asks for the session.
    Asking,
    Up,
    /// Somebody has broken it: no cycle begins, and it ends when none runs.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    pub lease: Lease,
    pub fleet: Fleet,
    pub stage: Stage,
    /// The revision of its last right.
    pub right_at: Revision,
}

/// What the agent believes about its right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    No,
    /// Of a mutant: has looked, and is about to put.
    Looked,
    /// The answer is under way.
    Answered(Answer),
    Held,
}

/// Whether the yield for the known claim was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Yield {
    No,
    Unanswered,
    Answered,
}

/// What a renewal has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    pub verdict: Verdict,
    pub modified: Revision,
    pub claim: Option<Revision>,
    /// The claim that was read drains.
    pub draining: bool,
    /// It was read after whatever happened to the keys last.
    pub fresh: bool,
}

/// A cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    pub lease: Lease,
    pub fleet: Fleet,
    /// The work runs; else the cycle has its permit and the gate, and no more.
    pub runs: bool,
    /// Its agent was killed.
    pub orphaned: bool,
    /// The cycle runner lives.
    pub guard: bool,
}

/// What an agent does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Reads `fleet`, and chooses a lease.
    Begin,
    Open,
    AskRight,
    /// The answer to the request for the right arrives.
    TakeRight,
    /// Enters a cycle, works, leaves.
    Cycle,
    Yield,
    Read,
    Heed,
    /// Sees that its own deadline has passed.
    Notice,
    /// Ends a session that was broken.
    End,
}

impl Step {
    pub const ALL: [Self; 10] = [
        Self::Begin,
        Self::Open,
        Self::AskRight,
        Self::TakeRight,
        Self::Cycle,
        Self::Yield,
        Self::Read,
        Self::Heed,
        Self::Notice,
        Self::End,
    ];

    /// Sends a request.
    pub fn sends(self) -> bool {
        matches!(self, Self::Open | Self::AskRight | Self::Yield | Self::End)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Agent {
    pub machine: u8,
    pub stopped: bool,
    pub session: Option<Session>,
    pub right: Right,
    /// The claim that it knows of.
    pub claim: Option<Revision>,
    pub yielded: Yield,
    pub view: Option<View>,
    pub work: Option<Work>,
    /// How many sessions it has had.
    pub sessions: u8,
}

impl Agent {
    pub fn new(machine: u8) -> Self {
        Self {
            machine,
            stopped: false,
            session: None,
            right: Right::No,
            claim: None,
            yielded: Yield::No,
            view: None,
            work: None,
            sessions: 0,
        }
    }

    /// A cycle's work runs.
    pub fn works(self) -> bool {
        self.work.is_some_and(|work| work.runs)
    }

    /// It has its right, and nothing keeps it from running cycles.
    pub fn is_ready(self) -> bool {
        let is_up = self
            .session
            .is_some_and(|session| session.stage == Stage::Up);
        is_up
            && self.right == Right::Held
            && self.claim.is_none()
            && self.work.is_none()
            && !self.stopped
    }

    /// One step; `None` when it has to wait.
    pub fn step(
        self,
        who: Who,
        step: Step,
        delivery: Delivery,
        world: &mut World,
        rules: &Rules,
    ) -> Option<Self> {
        if self.stopped || delivery != Delivery::Well && !step.sends() {
            return None;
        }
        match step {
            Step::Begin => self.begin(who, world, rules),
            Step::Open => self.open(delivery, world, rules),
            Step::AskRight => self.ask_right(delivery, world, rules),
            Step::TakeRight => self.take_right(),
            Step::Cycle => self.cycle(who, world, rules),
            Step::Yield => self.send_yield(delivery, world, rules),
            Step::Read => self.read(world, rules),
            Step::Heed => self.heed(world, rules),
            Step::Notice => self.notice(world),
            Step::End => self.end(delivery, world, rules),
        }
    }

    fn begin(mut self, who: Who, world: &mut World, rules: &Rules) -> Option<Self> {
        if self.session.is_some() {
            return None;
        }
        let fleet = world.server.fleet?;
        assert!(
            self.sessions < 4,
            "more sessions than there are numbers for"
        );
        let lease = who * 4 + self.sessions;
        self.session = Some(Session {
            lease,
            fleet,
            stage: Stage::Asking,
            right_at: 0,
        });
        self.sessions += 1;
        if let Some(old) = self.work.filter(|_| !rules.end_after_work) {
            world.server.revoke(old.lease);
        }
        Some(self)
    }

    fn open(mut self, delivery: Delivery, world: &mut World, rules: &Rules) -> Option<Self> {
        let session = self
            .session
            .as_mut()
            .filter(|session| session.stage == Stage::Asking)?;
        if world.has_passed(session.lease) {
            return None;
        }
        let answer = world.send(
            Request {
                lease: session.lease,
                fleet: session.fleet,
                ask: Ask::Session,
            },
            delivery,
            rules,
        );
        if answer.is_some_and(|answer| {
            answer.done || world.server.sessions[usize::from(session.lease)] > 0
        }) {
            session.stage = Stage::Up;
        }
        Some(self)
    }

    /// The session, if it may go on.
    fn up(self, world: &World) -> Option<Session> {
        self.session
            .filter(|session| session.stage == Stage::Up && !world.has_passed(session.lease))
    }

    fn ask_right(mut self, delivery: Delivery, world: &mut World, rules: &Rules) -> Option<Self> {
        let session = self.up(world)?;
        let ask = match (self.right, rules.right) {
            (Right::Looked, _) => Ask::Put,
            (Right::No, _) if self.claim.is_some() => return None,
            (Right::No, RightRule::Transaction) => Ask::Right,
            (Right::No, _) => Ask::Look,
            _ => return None,
        };
        let answer = world.send(
            Request {
                lease: session.lease,
                fleet: session.fleet,
                ask,
            },
            delivery,
            rules,
        );
        self.right = match answer {
            None => Right::No,
            Some(answer)
                if answer.done && ask == Ask::Look && rules.right == RightRule::LookThenPut =>
            {
                Right::Looked
            }
            Some(answer) if answer.done => Right::Answered(Answer {
                claim: None,
                ..answer
            }),
            Some(Answer {
                claim: Some(claim), ..
            }) => {
                let claim = Claim {
                    lease: 0,
                    held: false,
                    ..claim
                };
                Right::Answered(Answer {
                    done: false,
                    revision: 0,
                    claim: Some(claim),
                })
            }
            Some(_) => Right::No,
        };
        Some(self)
    }

    fn take_right(mut self) -> Option<Self> {
        let Right::Answered(answer) = self.right else {
            return None;
        };
        let session = self.session.as_mut()?;
        self.right = Right::No;
        if answer.done {
            self.right = Right::Held;
            session.right_at = answer.revision;
        } else if let Some(claim) = answer
            .claim
            .filter(|claim| self.claim != Some(claim.created))
        {
            self.claim = Some(claim.created);
            self.yielded = Yield::No;
        }
        Some(self)
    }

    fn cycle(mut self, who: Who, world: &mut World, rules: &Rules) -> Option<Self> {
        let local = usize::from(self.machine);
        match &mut self.work {
            None => {
                let session = self.session.filter(|session| session.stage == Stage::Up)?;
                let permitted = self.right == Right::Held
                    && self.claim.is_none()
                    && !world.has_passed(session.lease);
                if !permitted || !world.local[local].is_free() {
                    return None;
                }
                world.local[local].gate = Some(who);
                let Session { lease, fleet, .. } = session;
                self.work = Some(Work {
                    lease,
                    fleet,
                    runs: false,
                    orphaned: false,
                    guard: true,
                });
            }
            Some(work)
                if !work.runs && (!rules.looks_at_deadline || !world.has_passed(work.lease)) =>
            {
                work.runs = true
            }
            Some(_) => self.leave(world),
        }
        Some(self)
    }

    /// The work has ended, and the gate opens.
    fn leave(&mut self, world: &mut World) {
        world.local[usize::from(self.machine)].gate = None;
        self.work = None;
    }

    fn send_yield(mut self, delivery: Delivery, world: &mut World, rules: &Rules) -> Option<Self> {
        let session = self.session.filter(|session| session.stage == Stage::Up)?;
        let claim = self.claim?;
        let is_permitted = self.work.is_some_and(|work| work.lease == session.lease);
        if self.yielded != Yield::No || rules.yield_waits && is_permitted {
            return None;
        }
        self.yielded = Yield::Answered;
        if rules.yields_whatever || self.right == Right::Held {
            let Session { lease, fleet, .. } = session;
            if rules.right_after_yield || self.right == Right::Held {
                self.right = Right::No;
            }
            if world
                .send(
                    Request {
                        lease,
                        fleet,
                        ask: Ask::Yield(claim),
                    },
                    delivery,
                    rules,
                )
                .is_none()
            {
                self.yielded = Yield::Unanswered;
            }
        } else if delivery != Delivery::Well {
            return None;
        }
        Some(self)
    }

    /// What the next renewal would find.
    pub fn verdict(self, world: &World, rules: &Rules) -> Verdict {
        let Some(session) = self.session else {
            return Verdict::Lost;
        };
        if session.stage == Stage::Asking {
            return world.server.before_session(session.fleet, rules);
        }
        world
            .server
            .renew(session.lease, session.fleet, session.right_at, 0, rules)
    }

    /// The read of a renewal, if it says something new.
    fn read(mut self, world: &World, rules: &Rules) -> Option<Self> {
        let session = self.up(world)?;
        let verdict = self.verdict(world, rules);
        let found = world.server.claim;
        let claim = found.map(|claim| claim.created);
        let draining = found.is_some_and(|claim| !claim.held);
        let yields_again = self.yielded == Yield::Unanswered
            || rules.yields_again
                && self.yielded == Yield::Answered
                && draining
                && world.server.has_right(session.lease, rules);
        let is_new = verdict != Verdict::Good
            || claim != self.claim
            || claim.is_some() && yields_again
            || world.unverified.has(session.lease)
            || !rules.compares_with_sent;
        if self.view.is_some() || verdict == Verdict::Foreign || !is_new {
            return None;
        }
        let modified = world.server.sessions[usize::from(session.lease)];
        // The answer to a right that is under way may be older than this read; the renewal after it tells.
        let fresh = !matches!(self.right, Right::Answered(_));
        self.view = Some(View {
            verdict,
            modified,
            claim,
            draining,
            fresh,
        });
        Some(self)
    }

    /// Acts on what was read.
    fn heed(mut self, world: &mut World, rules: &Rules) -> Option<Self> {
        let view = self.view.take()?;
        let session = self.session.as_mut()?;
        let is_older = !rules.compares_with_sent
            && rules.renewal_reads_revision
            && view.modified < session.right_at;
        match view.verdict {
            Verdict::Lost => self.lose(world),
            _ if is_older => self.lose(world),
            Verdict::Broken => session.stage = Stage::Broken,
            Verdict::Foreign => {}
            Verdict::Good => {
                if view.fresh {
                    world.unverified.remove(session.lease);
                }
                let again =
                    self.yielded == Yield::Unanswered || rules.yields_again && view.draining;
                if view.claim != self.claim || again {
                    self.yielded = Yield::No;
                }
                self.claim = view.claim;
            }
        }
        Some(self)
    }

    /// Kills its work at once, and begins anew.
    fn lose(&mut self, world: &mut World) {
        let Some(session) = self.session else { return };
        world.count_loss(session.lease);
        if self.work.is_some_and(|work| !work.orphaned) {
            self.leave(world);
        }
        self.forget();
    }

    /// There is no session any more.
    fn forget(&mut self) {
        self.session = None;
        self.right = Right::No;
        self.claim = None;
        self.yielded = Yield::No;
        self.view = None;
    }

    fn notice(mut self, world: &mut World) -> Option<Self> {
        self.session
            .filter(|session| world.has_passed(session.lease))?;
        self.lose(world);
        Some(self)
    }

    fn end(mut self, delivery: Delivery, world: &mut World, rules: &Rules) -> Option<Self> {
        let session = self
            .session
            .filter(|session| session.stage == Stage::Broken)?;
        if self.work.is_some_and(|work| work.lease == session.lease) {
            return None;
        }
        world.send(
            Request {
                lease: session.lease,
                fleet: session.fleet,
                ask: Ask::End,
            },
            delivery,
            rules,
        );
        self.forget();
        Some(self)
    }

    /// The deadline of this lease passes: the agent and the cycle runner end the work, each of them that can.
    pub fn pass(&mut self, lease: Lease, world: &mut World, rules: &Rules) {
        let Some(work) = self.work.filter(|work| work.lease == lease && work.runs) else {
            return;
        };
        let by_itself = !work.orphaned && !self.stopped;
        if by_itself || work.guard && rules.watchdog {
            self.leave(world);
        }
    }

    /// The agent is killed and started again; its work lives on, under the runner.
    pub fn kill(mut self, world: &mut World) -> Option<Self> {
        if self.session.is_none() && self.work.is_none_or(|work| work.orphaned) {
            return None;
        }
        match &mut self.work {
            Some(work) if work.runs => work.orphaned = true,
            Some(_) => self.leave(world),
            None => {}
        }
        self.forget();
        self.stopped = false;
        Some(self)
    }
}
