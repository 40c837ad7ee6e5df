//! The members of a fleet, at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Fleet;
use crate::etcd::{KeyValue, Op, Txn};
use crate::keys::{FleetKeys, Lease};
use crate::record::read;
use crate::transactions::SeenClaim;
use crate::{BrokenValue, Error, MemberValue, Name, SessionValue};

/// How much of each kind is read.
const MOST: u32 = 5000;

/// A session of a fleet, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenSession {
    /// The lease of the session.
    pub session: Lease,
    /// The owner of the session, and since when; `None`: that cannot be read.
    pub value: Option<SessionValue>,
    /// The mark of a session that somebody has broken; `None`: nobody has.
    pub broken: Option<BrokenValue>,
    /// The names that it has a right to run cycles of.
    pub rights: BTreeSet<Name>,
}

/// A clone that has joined a fleet, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    /// The name of the clone's database in the fleet.
    pub name: Name,
    /// The random name of the clone.
    pub clone: String,
    /// The host and the directory of the clone.
    pub value: MemberValue,
    /// Whether there is a session of the fleet on the clone's host.
    pub is_seen: bool,
}

/// All of a fleet, up to 5,000 of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// Time, at most, until claims and cycles may begin in a new fleet; `None`: the fleet is old enough.
    pub is_new: Option<Duration>,
    /// The names that were joined.
    pub names: BTreeSet<Name>,
    /// The claims that stand.
    pub claims: BTreeMap<Name, SeenClaim>,
    /// The sessions, of claims and of agents.
    pub sessions: BTreeMap<Lease, SeenSession>,
    /// The clones.
    pub members: Vec<SeenMember>,
    /// Whether there is more of a kind than was read.
    pub more: bool,
}

impl Fleet {
    /// The members of it.
    ///
    /// # Errors
    /// As [`Fleet::open`].
    pub fn overview(&self) -> Result<Overview, Error> {
        let keys = &self.known.keys;
        let (names, claims, sessions) = (keys.names(), keys.claims(), keys.sessions());
        let (agents, members, broken) = (keys.agents(), keys.members(), keys.brokens());
        let mut answer = self.txn(&Txn::look(&[
            Op::Keys(&names, MOST),
            Op::List(&claims, MOST),
            Op::List(&sessions, MOST),
            Op::List(&broken, MOST),
            Op::Keys(&agents, MOST),
            Op::List(&members, MOST),
        ]))?;
        let found: [_; 6] = std::array::from_fn(|_| answer.next());
        let more = found.iter().any(|range| range.more);
        let [named, claimed, sessions_found, broken_found, rights, joined] =
            found.map(|range| range.kvs);
        let mut seen: BTreeMap<Lease, SeenSession> = sessions_found
            .iter()
            .filter_map(|found| session(&sessions, found))
            .collect();
        for found in &broken_found {
            let lease = FleetKeys::rest(&broken, &found.key).and_then(Lease::parse);
            if let Some(session) = lease.and_then(|lease| seen.get_mut(&lease)) {
                session.broken = read(&found.value).ok();
            }
        }
        for found in &rights {
            let Some((name, lease)) = FleetKeys::pair(&agents, &found.key) else {
                continue;
            };
            if let Some(session) = Lease::parse(lease).and_then(|lease| seen.get_mut(&lease)) {
                session.rights.insert(name);
            }
        }
        let hosts: BTreeSet<String> = seen
            .values()
            .filter_map(|session| Some(session.value.as_ref()?.who.host.clone()))
            .collect();
        Ok(Overview {
            is_new: self.is_new()?,
            names: named
                .iter()
                .filter_map(|found| Name::of_key(FleetKeys::rest(&names, &found.key)?))
                .collect(),
            claims: SeenClaim::all(keys, &claimed),
            sessions: seen,
            members: joined
                .iter()
                .filter_map(|found| member(&members, &hosts, found))
                .collect(),
            more,
        })
    }
}

fn session(folder: &str, found: &KeyValue) -> Option<(Lease, SeenSession)> {
    let session = Lease::parse(FleetKeys::rest(folder, &found.key)?)?;
    let value = read(&found.value).ok();
    Some((
        session,
        SeenSession {
            session,
            value,
            broken: None,
            rights: BTreeSet::new(),
        },
    ))
}

fn member(folder: &str, hosts: &BTreeSet<String>, found: &KeyValue) -> Option<SeenMember> {
    let (name, clone) = FleetKeys::pair(folder, &found.key)?;
    let value: MemberValue = read(&found.value).ok()?;
    Some(SeenMember {
        name,
        clone: clone.to_owned(),
        is_seen: hosts.contains(&value.host),
        value,
    })
}
