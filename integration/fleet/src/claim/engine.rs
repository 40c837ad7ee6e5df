//! The thread that obtains a claim: it does what the machine says, and waits for a bell between.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::{io, time::Duration};

use beadlock_core::facts;

use super::machine::{ClaimMachine, ClaimStep};
use super::{AgentSeen, ClaimState, HeldClaim, Shared};
use crate::connect;
use crate::deadline::{T, THIRD};
use crate::etcd::watch::{EtcdWatch, WatchedKeys};
use crate::etcd::{CallFailure, KeyValue, Op, Txn, TxnAnswer, http::random_byte};
use crate::keys::Lease;
use crate::record::{self, written};
use crate::session::{LeaseSession, NotBegun, SessionStanding};
use crate::transactions::{
    Drained, KnownFleet, Present, SHOWN_AGENTS, Scope, SeenClaim, TransactionRefusal,
};
use crate::wait::Alarm;
use crate::{ClaimValue, Error, ErrorKind, MemberValue, Name, Phase, SessionValue};

/// How often the caller is told whom it waits for.
const TELL: Duration = Duration::from_secs(1);

/// Number of agents, at most, whose lease is asked for: it shows whether they still renew.
const MOST_ASKED: usize = 5;

pub(super) struct ClaimEngine {
    shared: Arc<Shared>,
    alarm: Alarm,
    /// When the caller was last told whom it waits for.
    told: Cell<Duration>,
}

/// Why a session is given up before the claim is held.
enum Stop {
    /// Begin anew.
    Again,
    /// The claim is held, over, or has failed for good.
    Rest,
}

impl ClaimEngine {
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        Ok(Self {
            shared,
            alarm: Alarm::new()?,
            told: Cell::default(),
        })
    }

    pub(super) fn run(&self) {
        while !self.shared.is_over() {
            match self.once() {
                Ok(Stop::Rest) => return,
                Ok(Stop::Again) => {}
                Err(error) if error.kind() == ErrorKind::New => {
                    self.shared.set(ClaimState::New);
                    self.pause(Duration::from_millis(500));
                }
                Err(error) if error.kind().is_retryable() => {
                    let since = match &*self.shared.state() {
                        ClaimState::Connecting { since, .. } => *since,
                        _ => facts::boottime(),
                    };
                    self.shared.set(ClaimState::Connecting {
                        why: Some(error),
                        since,
                    });
                    self.pause(Duration::from_millis(200));
                }
                Err(error) => return self.shared.set(ClaimState::Failed(error)),
            }
        }
    }

    /// Waits for the bell, or so long; up to as long again at random.
    fn pause(&self, least: Duration) {
        let more = least * u32::from(random_byte()) / 255;
        self.alarm
            .wait(&self.shared.wake, facts::boottime() + least + more);
    }

    fn name(&self) -> &Name {
        &self.shared.request.mark.name
    }

    /// One session, until the claim is held or it is of no use.
    fn once(&self) -> Result<Stop, Error> {
        let (shared, client) = (&self.shared, &self.shared.client);
        let known = connect::fleet_of(client, &shared.request.mark)?;
        let ring = ringing(Arc::downgrade(shared));
        let scope = Scope::One(self.name().clone());
        let session = match LeaseSession::begin(client, &known, &shared.request.who, scope, ring) {
            Ok(session) => Arc::new(session),
            Err(NotBegun::Failed(failure)) => return Err(failure.error(client)),
            Err(NotBegun::Hindered(hindrance)) => {
                return self.hindered(hindrance).map(|()| Stop::Again);
            }
            Err(NotBegun::Io(error)) => {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("failed to begin a session: {error}"),
                ));
            }
        };
        *shared.session() = Some(Arc::clone(&session));
        // Without a watch the looks of every T/3 still find everything.
        let _watch = EtcdWatch::begin(
            Arc::clone(client),
            &watched(&session, self.name()),
            |_| true,
            session.looker(),
        );
        let stop = self.obtain(&session);
        if matches!(stop, Ok(Stop::Rest)) && matches!(*shared.state(), ClaimState::Held(_)) {
            self.stay();
            return stop;
        }
        // Nothing has run under it.
        shared.session().take();
        let _ = session.end();
        stop
    }

    /// Keeps the watch, so that a break is known at once.
    fn stay(&self) {
        while !self.shared.is_over() {
            self.alarm.wait(&self.shared.wake, facts::boottime() + T);
        }
    }

    fn obtain(&self, session: &LeaseSession) -> Result<Stop, Error> {
        let mut machine = ClaimMachine::new();
        let mut drained = Tally::default();
        loop {
            if self.shared.is_over() {
                return Ok(Stop::Rest);
            }
            if session.standing() != SessionStanding::Live {
                return Ok(Stop::Again);
            }
            let done = match machine.step() {
                ClaimStep::Wait => {
                    self.show(session, &machine);
                    self.pause(THIRD - THIRD / 8);
                    machine.stir();
                    continue;
                }
                ClaimStep::Rest => return self.at_rest(session, &machine, drained),
                step => self.take(session, &mut machine, step, &mut drained),
            };
            match done {
                Ok(Ok(())) => {}
                Ok(Err(hindrance)) => self.hindered(hindrance)?,
                Err(failure) if failure.may_pass() => {
                    machine.unanswered();
                    self.pause(Duration::from_millis(200));
                    machine.stir();
                }
                Err(failure) => return Err(failure.error(&self.shared.client)),
            }
        }
    }

    /// Does what the machine asks for. The outer error: no answer.
    fn take(
        &self,
        session: &LeaseSession,
        machine: &mut ClaimMachine,
        step: ClaimStep,
        drained: &mut Tally,
    ) -> Result<Result<(), TransactionRefusal>, CallFailure> {
        let (client, known, lease, name) = (
            &self.shared.client,
            session.known(),
            session.lease(),
            self.name(),
        );
        match (step, &*machine) {
            (ClaimStep::LookForHolder, _) => {
                let key = known.keys.claim(name);
                let found = client.txn(&Txn::look(&[Op::Get(&key)]))?.next_one();
                machine.holder_seen(found.map(|found| SeenClaim::of(name, &found)));
                if machine.step() == ClaimStep::Raise {
                    // A pause, so that not all waiting claims try at once.
                    self.pause(Duration::from_millis(5));
                }
                Ok(Ok(()))
            }
            (ClaimStep::Raise, _) => {
                let mut answer =
                    client.txn(&known.raise(lease, name, &self.value(Phase::Draining)))?;
                if answer.succeeded {
                    *drained = self.tally(known, &mut answer);
                }
                let answer = known.raise_answer(lease, name, answer);
                if let Ok(created) = answer {
                    session.has_claim(created);
                }
                Ok(machine.raised(answer))
            }
            (ClaimStep::LookForAgents, _) => {
                if drained.members.is_none() {
                    // The answer to the raise was lost: those that have given way since are not counted.
                    let present = known.present(name);
                    let mut answer =
                        client.txn(&Txn::look(&present.each_ref().map(Present::op)))?;
                    *drained = self.tally(known, &mut answer);
                }
                let below = known.keys.agents_of(name);
                let found = client
                    .txn(&Txn::look(&[Op::Keys(&below, SHOWN_AGENTS)]))?
                    .next();
                let agents = known.agents(name, &found.kvs);
                // A key of another form there is somebody's right too.
                let is_empty = found.kvs.is_empty();
                machine.agents_seen(
                    if is_empty || !agents.is_empty() {
                        agents
                    } else {
                        vec![Lease(1)]
                    },
                    found.more,
                );
                Ok(Ok(()))
            }
            (ClaimStep::Drain, ClaimMachine::Raised { created, .. }) => {
                let created = *created;
                let answer =
                    client.txn(&known.drained(lease, name, created, &self.value(Phase::Held)))?;
                let drained = known.drained_answer(name, created, answer);
                if drained == Drained::Held {
                    session.claim_is_held();
                }
                Ok(machine.drained(drained))
            }
            _ => Ok(Ok(())),
        }
    }

    /// Handles an answer that hinders the claim. `Err`: the fleet is new, or has no such name. Else the session is
    /// asked to look.
    fn hindered(&self, hindrance: TransactionRefusal) -> Result<(), Error> {
        let client = &self.shared.client;
        match hindrance {
            TransactionRefusal::New => {
                Err(Error::new(ErrorKind::New, new_words(client.config().url())))
            }
            TransactionRefusal::NoName => Err(connect::no_name(&self.shared.request.mark)),
            // The session's own look says so too, or the next one is begun in the new fleet.
            _ => {
                if let Some(session) = &*self.shared.session() {
                    session.want_look();
                }
                self.pause(Duration::from_millis(100));
                Ok(())
            }
        }
    }

    fn at_rest(
        &self,
        session: &LeaseSession,
        machine: &ClaimMachine,
        drained: Tally,
    ) -> Result<Stop, Error> {
        let ClaimMachine::Held { created } = *machine else {
            return Ok(Stop::Again);
        };
        let Some(token) = session.known().value.token(created) else {
            return Err(Error::new(
                ErrorKind::NoFleet,
                "the fencing tokens of this fleet are used up: make a new fleet",
            ));
        };
        let (agents, hosts, not_seen) = (
            drained.agents,
            drained.hosts,
            drained.members.unwrap_or_default(),
        );
        self.shared.set(ClaimState::Held(HeldClaim {
            token,
            created,
            session: session.lease(),
            agents,
            hosts,
            not_seen,
        }));
        Ok(Stop::Rest)
    }

    fn value(&self, phase: Phase) -> Vec<u8> {
        let request = &self.shared.request;
        let started_at = facts::now();
        let (id, holder, host, pid) = (
            request.id.clone(),
            request.holder.clone(),
            request.who.host.clone(),
            request.who.pid,
        );
        written(&ClaimValue {
            id,
            holder,
            host,
            pid,
            started_at,
            phase,
        })
    }

    /// The members that are there, by the answers to the questions of [`KnownFleet::present`].
    fn tally(&self, known: &KnownFleet, answer: &mut TxnAnswer) -> Tally {
        let agents: BTreeSet<Lease> = known
            .agents(self.name(), &answer.next().kvs)
            .into_iter()
            .collect();
        let sessions = answer.next().kvs;
        let host =
            |found: &KeyValue| Some(record::read::<SessionValue>(&found.value).ok()?.who.host);
        let of_agents = sessions
            .iter()
            .filter(|found| agents.contains(&Lease(found.lease)));
        let hosts: BTreeSet<String> = of_agents.filter_map(host).collect();
        let here = &self.shared.request.who.host;
        let alive: BTreeSet<String> = sessions
            .iter()
            .filter_map(host)
            .chain([here.clone()])
            .collect();
        let members = answer
            .next()
            .kvs
            .into_iter()
            .filter_map(|found| record::read::<MemberValue>(&found.value).ok());
        let members = members
            .filter(|member| !alive.contains(&member.host))
            .collect();
        Tally {
            agents: agents.len(),
            hosts: hosts.len(),
            members: Some(members),
        }
    }

    /// Tells the caller what is waited for.
    fn show(&self, session: &LeaseSession, machine: &ClaimMachine) {
        match machine {
            ClaimMachine::Below {
                holder: Some(claim),
                ..
            } => self.shared.set(ClaimState::Waiting(claim.clone())),
            // While a thousand agents give way, nobody reads who is left.
            ClaimMachine::Raised {
                agents: Some((agents, more)),
                ..
            } if self.told.get() + TELL <= facts::boottime() => {
                self.told.set(facts::boottime());
                let agents = self.described(session.known(), agents);
                self.shared.set(ClaimState::Draining {
                    agents,
                    more: *more,
                });
            }
            _ => {}
        }
    }

    /// The owners of these sessions, as far as they can be read now.
    fn described(&self, known: &KnownFleet, agents: &[Lease]) -> Vec<AgentSeen> {
        let keys: Vec<String> = agents
            .iter()
            .map(|lease| known.keys.session(*lease))
            .collect();
        let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Get(key)).collect();
        let mut answer = self.shared.client.txn(&Txn::look(&ops)).unwrap_or_default();
        let described = agents.iter().enumerate().map(|(number, lease)| {
            let value = answer
                .next_one()
                .and_then(|found| record::read::<SessionValue>(&found.value).ok());
            let asked = (number < MOST_ASKED).then(|| {
                self.shared
                    .client
                    .lease_left(*lease)
                    .ok()
                    .flatten()
                    .map(|lease| lease.left)
            });
            let left = asked.flatten();
            // A renewal is due when two thirds are left.
            let gone_within = left.filter(|left| *left < T - THIRD - Duration::from_secs(2));
            let (since, who) =
                value.map_or((None, None), |value| (Some(value.since), Some(value.who)));
            AgentSeen {
                session: *lease,
                who,
                since,
                gone_within,
            }
        });
        described.collect()
    }
}

/// The members that were there when the claim was raised; `members`: those on whose hosts there is no session; `None`:
/// not looked yet.
#[derive(Debug, Default)]
struct Tally {
    agents: usize,
    hosts: usize,
    members: Option<Vec<MemberValue>>,
}

pub(crate) fn new_words(url: String) -> String {
    format!("the fleet at {url} is younger than 15s: until then nobody may begin anything")
}

/// Wakes the engine and the caller.
fn ringing(shared: Weak<Shared>) -> impl Fn() + Send + Sync + 'static {
    move || {
        if let Some(shared) = shared.upgrade() {
            shared.wake.ring();
            shared.bell.ring();
        }
    }
}

fn watched(session: &LeaseSession, name: &Name) -> [WatchedKeys; 4] {
    let keys = &session.known().keys;
    let (claim, agents) = (keys.claim(name), keys.agents_of(name));
    [
        WatchedKeys::Key(claim),
        WatchedKeys::Below(agents),
        WatchedKeys::Key(keys.broken(session.lease())),
        WatchedKeys::Key(keys.fleet()),
    ]
}
