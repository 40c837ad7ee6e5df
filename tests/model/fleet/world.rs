//! What all actors share: etcd, the requests under way, each machine's local lock, and how far the deadlines are.
//!
//! There is no clock. A lease cannot lapse at etcd before the deadline of its session has passed, because a renewal is
//! counted from when it was sent and the deadline comes earlier than T. So the passing of a deadline and the lapse of
//! the lease are two events in this order, with any number of other steps before, between and after them.

use super::rules::Rules;
use super::server::{Answer, Fleet, Lease, Leases, Request, Revision, Server};
use crate::set::Who;

/// The local lock file and the gate of one machine's clone, which the other model is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Local {
    /// The agent that runs a cycle.
    pub gate: Option<Who>,
    /// The claimer that has the claim.
    pub lock: Option<Who>,
}

impl Local {
    pub fn is_free(self) -> bool {
        self.gate.is_none() && self.lock.is_none()
    }
}

/// How a request and its answer travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    Well,
    /// The client stops waiting; the request arrives later, or never.
    Late,
    /// It is applied, and the answer is lost.
    AnswerLost,
    /// It is applied and answered, and arrives once more later.
    Doubled,
}

impl Delivery {
    pub const ALL: [Self; 4] = [Self::Well, Self::Late, Self::AnswerLost, Self::Doubled];
}

/// How many faults of each kind may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A program is killed. What it has started lives on.
    pub kills: u8,
    /// A watchdog or a cycle runner is killed.
    pub guards: u8,
    /// A program is stopped, until somebody lets it go on.
    pub stops: u8,
    /// A living session does not get through to etcd until its deadline has passed.
    pub cuts: u8,
    /// A request is late or doubled, or its answer is lost.
    pub messages: u8,
    /// etcd loses all data.
    pub losses: u8,
    /// A snapshot is restored behind the clients' backs.
    pub restores: u8,
    /// A snapshot is restored as the runbook says.
    pub announced: u8,
    /// A lease is revoked by somebody who is not of the fleet.
    pub revokes: u8,
    /// `beadlock break` or `beadlock fleet evict`.
    pub breaks: u8,
}

impl Faults {
    /// Nothing happens to anybody.
    pub const NONE: Self = Self {
        kills: 0,
        guards: 0,
        stops: 0,
        cuts: 0,
        messages: 0,
        losses: 0,
        restores: 0,
        announced: 0,
        revokes: 0,
        breaks: 0,
    };
}

/// What went wrong at one moment, and is not to be seen in the world afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A command got a token that is not above all earlier ones.
    Token,
    /// A session counted itself lost, and nothing had happened to it.
    Loss,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub server: Server,
    /// A backup of it.
    pub snapshot: Option<Box<Server>>,
    /// The newest fleet that there has been.
    pub newest: Fleet,
    /// Requests whose client waits no longer. Sorted, so that two worlds that differ only in their order are one;
    /// copies of one request count as one.
    pub strays: Vec<Request>,
    pub local: [Local; 2],
    /// Sessions whose deadline has passed.
    pub passed: Leases,
    /// Sessions that began before the newest fleet and whose deadline lies ahead: for these `new` is waited out.
    pub older: Leases,
    /// Sessions that have not renewed since somebody revoked their lease or restored a snapshot.
    pub unverified: Leases,
    /// Something happened to the keys that no program of the fleet did.
    pub harmed: bool,
    /// A snapshot was restored behind the clients' backs, and revisions went back.
    pub rolled_back: bool,
    /// The highest token so far: the fleet's base, and the claim.
    pub token: (u8, Revision),
    pub faults: Faults,
    pub wrong: Option<Wrong>,
}

impl World {
    pub fn new(faults: Faults) -> Self {
        let fleet = Fleet {
            nonce: 0,
            put_at: 0,
        };
        let mut server = Server::empty();
        server.fleet = Some(fleet);
        Self {
            server,
            snapshot: None,
            newest: fleet,
            strays: Vec::new(),
            local: [Local::default(); 2],
            passed: Leases::default(),
            older: Leases::default(),
            unverified: Leases::default(),
            harmed: false,
            rolled_back: false,
            token: (0, 0),
            faults,
            wrong: None,
        }
    }

    /// Sends a request. `None`: the client gets no answer.
    pub fn send(&mut self, request: Request, delivery: Delivery, rules: &Rules) -> Option<Answer> {
        if delivery != Delivery::Well {
            self.faults.messages = self.faults.messages.checked_sub(1)?;
        }
        if matches!(delivery, Delivery::Late | Delivery::Doubled) {
            self.strays.push(request);
        }
        if delivery == Delivery::Late {
            return None;
        }
        let answer = self.server.apply(request, rules);
        (delivery != Delivery::AnswerLost).then_some(answer)
    }

    pub fn has_passed(&self, lease: Lease) -> bool {
        self.passed.has(lease)
    }

    /// A session counts itself lost.
    pub fn count_loss(&mut self, lease: Lease) {
        if !self.harmed && !self.passed.has(lease) {
            self.wrong = Some(Wrong::Loss);
        }
    }

    /// The command of a claim starts, and gets this token.
    pub fn use_token(&mut self, lease: Lease, token: (u8, Revision)) {
        let is_excused = self.rolled_back || self.unverified.has(lease);
        if token <= self.token && self.token > (0, 0) && !is_excused {
            self.wrong = Some(Wrong::Token);
        }
        self.token = self.token.max(token);
    }

    /// Forgets what can never matter again. `used`: the leases of living sessions and of work.
    pub fn tidy(&mut self, used: Leases) {
        let in_snapshot = self
            .snapshot
            .as_ref()
            .map(|snapshot| snapshot.leases)
            .unwrap_or_default();
        let mut known = used.or(self.server.leases).or(in_snapshot);
        self.strays
            .iter()
            .for_each(|stray| known.insert(stray.lease));
        self.passed = self.passed.and(known);
        self.older = self.older.and(used).but(self.passed);
        self.unverified = self.unverified.and(used);
        self.strays
            .sort_unstable_by_key(|stray| (stray.lease, stray.ask, stray.fleet.nonce));
        self.strays.dedup();
    }
}
