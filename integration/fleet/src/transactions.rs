//! The transactions of the contract (docs/fleet.md), and what their answers mean. Each may be sent again after a
//! time-out, arrive late or arrive twice without harm: none deletes by a name alone, and what another session does
//! fails.

use std::collections::BTreeMap;

use beadlock_core::record::StartedAt;

use crate::etcd::{Compare, KeyValue, Op, Txn, TxnAnswer};
use crate::keys::{FleetKeys, Lease};
use crate::record::{self, written};
use crate::{BrokenValue, ClaimValue, FleetValue, Name, Phase, SessionValue};

/// How many agents a claim that waits is told of.
pub(crate) const SHOWN_AGENTS: u32 = 20;

/// How many claims are read at most.
const MOST_CLAIMS: u32 = 10_000;

/// The fleet that a session is in: its keys, and `fleet` exactly as it was read.
#[derive(Debug, Clone)]
pub(crate) struct KnownFleet {
    pub(crate) keys: FleetKeys,
    pub(crate) value: FleetValue,
    pub(crate) bytes: Vec<u8>,
}

/// A claim as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenClaim {
    /// The name of the database in the fleet.
    pub name: Name,
    /// The claim's value: its holder, since when, and how far it is.
    pub value: ClaimValue,
    /// The revision that made it, which names it.
    pub created: i64,
    /// The session that it belongs to.
    pub session: Lease,
}

/// Identity of a claim. The revision alone names one until a store is restored, which counts from an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimId {
    pub(crate) created: i64,
    pub(crate) session: Lease,
}

impl SeenClaim {
    pub(crate) fn id(&self) -> ClaimId {
        ClaimId {
            created: self.created,
            session: self.session,
        }
    }

    /// A value that cannot be read is a claim all the same.
    pub(crate) fn of(name: &Name, found: &KeyValue) -> Self {
        let value = record::read(&found.value).unwrap_or_else(|why| ClaimValue {
            id: String::new(),
            holder: format!("a claim that cannot be read ({why})"),
            host: String::new(),
            pid: 0,
            started_at: StartedAt::from_unix(0, 0),
            phase: Phase::Held,
        });
        Self {
            name: name.clone(),
            value,
            created: found.create_revision,
            session: Lease(found.lease),
        }
    }

    /// The claims below `claims/`, by name.
    pub(crate) fn all(keys: &FleetKeys, found: &[KeyValue]) -> BTreeMap<Name, Self> {
        let folder = keys.claims();
        let read = |found: &KeyValue| {
            let name = Name::of_key(FleetKeys::rest(&folder, &found.key)?)?;
            Some((name.clone(), Self::of(&name, found)))
        };
        found.iter().filter_map(read).collect()
    }
}

fn broken_value(found: &KeyValue) -> BrokenValue {
    record::read(&found.value).unwrap_or_else(|why| BrokenValue {
        by: "somebody".to_owned(),
        host: "a host".to_owned(),
        why: format!("no reason can be read ({why})"),
        at: StartedAt::from_unix(0, 0),
    })
}

/// Why a transaction of a session did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TransactionRefusal {
    /// `new` is there.
    New,
    /// `fleet` is gone, or has another value.
    FleetGone,
    /// `sessions/L` is not there.
    SessionGone,
    Broken(BrokenValue),
    /// Nobody has joined under this name.
    NoName,
    /// Somebody's claim stands.
    Held(Box<SeenClaim>),
    /// None of these by now: the next try may succeed.
    Passed,
}

/// The keys that explain why a transaction of a session did not happen.
struct Explanation {
    keys: [String; 6],
}

impl Explanation {
    fn of(known: &KnownFleet, lease: Lease, name: &Name) -> Self {
        let keys = &known.keys;
        Self {
            keys: [
                keys.fleet(),
                keys.new_fleet(),
                keys.session(lease),
                keys.broken(lease),
                keys.name(name),
                keys.claim(name),
            ],
        }
    }

    fn ops(&self) -> [Op<'_>; 6] {
        self.keys.each_ref().map(|key| Op::Get(key))
    }

    fn read(known: &KnownFleet, name: &Name, mut answer: TxnAnswer) -> TransactionRefusal {
        let [fleet, new, session, broken, named, claim] =
            std::array::from_fn(|_| answer.next_one());
        match (fleet, new, session, broken, claim) {
            (fleet, ..) if fleet.as_ref().map(|found| &found.value) != Some(&known.bytes) => {
                TransactionRefusal::FleetGone
            }
            (_, Some(_), ..) => TransactionRefusal::New,
            (_, _, None, ..) => TransactionRefusal::SessionGone,
            (_, _, _, Some(broken), _) => TransactionRefusal::Broken(broken_value(&broken)),
            _ if named.is_none() => TransactionRefusal::NoName,
            (.., Some(claim)) => TransactionRefusal::Held(Box::new(SeenClaim::of(name, &claim))),
            _ => TransactionRefusal::Passed,
        }
    }
}

impl KnownFleet {
    /// `fleet` below these keys, as a look has found it. `Err`: what is wrong with it.
    pub(crate) fn read(keys: FleetKeys, found: Option<KeyValue>) -> Result<Option<Self>, String> {
        let Some(found) = found else { return Ok(None) };
        let value = record::read(&found.value)?;
        Ok(Some(Self {
            keys,
            value,
            bytes: found.value,
        }))
    }

    /// Begins a session under a lease that was granted.
    pub(crate) fn session(&self, lease: Lease, value: &[u8]) -> Txn {
        let (fleet, new, session) = (
            self.keys.fleet(),
            self.keys.new_fleet(),
            self.keys.session(lease),
        );
        Txn::when(&[
            Compare::Absent(&new),
            Compare::Value(&fleet, &self.bytes),
            Compare::Absent(&session),
        ])
        .then(&[Op::Put(&session, value, Some(lease))])
        .otherwise(&[Op::Get(&fleet), Op::Get(&new), Op::Get(&session)])
    }

    /// Whether the session with this value has begun. `Ok(false)`: another session has this lease.
    pub(crate) fn session_answer(
        &self,
        value: &[u8],
        mut answer: TxnAnswer,
    ) -> Result<bool, TransactionRefusal> {
        if answer.succeeded {
            return Ok(true);
        }
        let [fleet, new, session] = std::array::from_fn(|_| answer.next_one());
        match session {
            Some(session) if session.value == value => Ok(true),
            Some(_) => Ok(false),
            None if fleet.map(|found| found.value).as_ref() != Some(&self.bytes) => {
                Err(TransactionRefusal::FleetGone)
            }
            None if new.is_some() => Err(TransactionRefusal::New),
            None => Err(TransactionRefusal::Passed),
        }
    }

    pub(crate) fn raise(&self, lease: Lease, name: &Name, value: &[u8]) -> Txn {
        let why = Explanation::of(self, lease, name);
        let [fleet, new, session, broken, named, claim] = &why.keys;
        Txn::when(&[
            Compare::Absent(new),
            Compare::Value(fleet, &self.bytes),
            Compare::Present(session),
            Compare::Present(named),
            Compare::Absent(broken),
            Compare::Absent(claim),
        ])
        .then(&[Op::Put(claim, value, Some(lease))])
        .then(&self.present(name).each_ref().map(Present::op))
        .otherwise(&why.ops())
    }

    /// The keys that are read when a claim is raised: those of the agents, the sessions and the clones.
    pub(crate) fn present(&self, name: &Name) -> [Present; 3] {
        let keys = &self.keys;
        let [agents, sessions, members] =
            [keys.agents_of(name), keys.sessions(), keys.members_of(name)];
        [
            Present::Keys(agents),
            Present::List(sessions),
            Present::List(members),
        ]
    }

    /// The revision that made the claim.
    pub(crate) fn raise_answer(
        &self,
        lease: Lease,
        name: &Name,
        answer: TxnAnswer,
    ) -> Result<i64, TransactionRefusal> {
        if answer.succeeded {
            return Ok(answer.revision);
        }
        match Explanation::read(self, name, answer) {
            TransactionRefusal::Held(claim) if claim.session == lease => Ok(claim.created),
            hindrance => Err(hindrance),
        }
    }

    /// The right of an agent. It puts the session again, so that a later renewal can tell a restored store by its
    /// age.
    pub(crate) fn right(&self, lease: Lease, name: &Name, session: &[u8]) -> Txn {
        let why = Explanation::of(self, lease, name);
        let [fleet, new, session_key, broken, _, claim] = &why.keys;
        let agent = self.keys.agent(name, lease);
        Txn::when(&[
            Compare::Absent(new),
            Compare::Value(fleet, &self.bytes),
            Compare::Present(session_key),
            Compare::Absent(broken),
            Compare::Absent(claim),
        ])
        .then(&[
            Op::Put(&agent, b"", Some(lease)),
            Op::Put(session_key, session, Some(lease)),
        ])
        .otherwise(&why.ops())
    }

    /// The revision of the session from now on.
    pub(crate) fn right_answer(
        &self,
        name: &Name,
        answer: TxnAnswer,
    ) -> Result<i64, TransactionRefusal> {
        if answer.succeeded {
            Ok(answer.revision)
        } else {
            Err(Explanation::read(self, name, answer))
        }
    }

    /// Lets the right go before this claim. Once that has gone it does nothing.
    pub(crate) fn give_way(&self, lease: Lease, name: &Name, way: ClaimId) -> Txn {
        let (claim, agent) = (self.keys.claim(name), self.keys.agent(name, lease));
        Txn::when(&[
            Compare::Created(&claim, way.created),
            Compare::Lease(&claim, way.session),
        ])
        .then(&[Op::Delete(&agent)])
    }

    pub(crate) fn drained(&self, lease: Lease, name: &Name, created: i64, value: &[u8]) -> Txn {
        let (claim, broken, agents) = (
            self.keys.claim(name),
            self.keys.broken(lease),
            self.keys.agents_of(name),
        );
        Txn::when(&[
            Compare::Created(&claim, created),
            Compare::Lease(&claim, lease),
            Compare::Absent(&broken),
            Compare::NothingBelow(&agents),
        ])
        .then(&[Op::Put(&claim, value, Some(lease))])
        .otherwise(&[
            Op::Get(&claim),
            Op::Get(&broken),
            Op::Keys(&agents, SHOWN_AGENTS),
        ])
    }

    pub(crate) fn drained_answer(
        &self,
        name: &Name,
        created: i64,
        mut answer: TxnAnswer,
    ) -> Drained {
        if answer.succeeded {
            return Drained::Held;
        }
        let (claim, broken, agents) = (answer.next_one(), answer.next_one(), answer.next());
        match (claim, broken) {
            (_, Some(broken)) => Drained::Broken(broken_value(&broken)),
            (Some(claim), None) if claim.create_revision == created => {
                Drained::Agents(self.agents(name, &agents.kvs), agents.more)
            }
            _ => Drained::Lost,
        }
    }

    /// Marks the session that the revision `created` made as broken. It is not revoked: its work may still run.
    pub(crate) fn break_session(&self, lease: Lease, created: i64, why: &BrokenValue) -> Txn {
        let (session, broken) = (self.keys.session(lease), self.keys.broken(lease));
        Txn::when(&[Compare::Created(&session, created)])
            .then(&[Op::Put(&broken, &written(why), Some(lease))])
            .otherwise(&[Op::Get(&session)])
    }

    /// The sessions of keys below `agents/NAME/`.
    pub(crate) fn agents(&self, name: &Name, found: &[KeyValue]) -> Vec<Lease> {
        let folder = self.keys.agents_of(name);
        found
            .iter()
            .filter_map(|found| Lease::parse(FleetKeys::rest(&folder, &found.key)?))
            .collect()
    }

    /// A look at a session, and at the claims that its owner wants to know of.
    pub(crate) fn look(&self, lease: Lease, scope: &Scope) -> Txn {
        let (fleet, session, broken) = (
            self.keys.fleet(),
            self.keys.session(lease),
            self.keys.broken(lease),
        );
        let claims = match scope {
            Scope::All => self.keys.claims(),
            Scope::One(name) => self.keys.claim(name),
        };
        let claims = match scope {
            Scope::All => Op::List(&claims, MOST_CLAIMS),
            Scope::One(_) => Op::Get(&claims),
        };
        Txn::look(&[Op::Get(&fleet), Op::Get(&session), Op::Get(&broken), claims])
    }

    pub(crate) fn look_answer(&self, nonce: &str, mut answer: TxnAnswer) -> SessionLook {
        let [fleet, session, broken] = std::array::from_fn(|_| answer.next_one());
        let is_mine = |found: &KeyValue| {
            record::read(&found.value).is_ok_and(|value: SessionValue| value.nonce == nonce)
        };
        SessionLook {
            fleet_stands: fleet.is_some_and(|found| found.value == self.bytes),
            session: session.filter(is_mine).map(|found| found.mod_revision),
            broken: broken.as_ref().map(broken_value),
            claims: SeenClaim::all(&self.keys, &answer.next().kvs),
        }
    }
}

/// Keys that are read when a claim is raised.
#[derive(Debug, Clone)]
pub(crate) enum Present {
    Keys(String),
    List(String),
}

impl Present {
    /// How many of each kind are read.
    const MOST: u32 = 5000;

    pub(crate) fn op(&self) -> Op<'_> {
        match self {
            Self::Keys(folder) => Op::Keys(folder, Self::MOST),
            Self::List(folder) => Op::List(folder, Self::MOST),
        }
    }
}

/// Which claims a session looks at.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    All,
    One(Name),
}

/// Result of a look at a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionLook {
    /// Whether `fleet` has the value that is known.
    pub(crate) fleet_stands: bool,
    /// The revision of `sessions/L` with our nonce.
    pub(crate) session: Option<i64>,
    pub(crate) broken: Option<BrokenValue>,
    pub(crate) claims: BTreeMap<Name, SeenClaim>,
}

/// Result of the transaction that makes a raised claim held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Nobody has a right any more: the claim is held.
    Held,
    /// These agents still have a right; true: there are more.
    Agents(Vec<Lease>, bool),
    Broken(BrokenValue),
    /// The claim has gone.
    Lost,
}

#[cfg(test)]
mod tests;
