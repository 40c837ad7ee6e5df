//! The work of the commands of `beadlock fleet`: make a fleet, join it, look at it, end sessions of others, destroy it.
//!
//! ```text
//! create.rs    a fleet, and the time in which nobody may begin
//! overview.rs  who is in it
//! nodes.rs     what its etcd is like
//! renewal.rs   whether sessions are renewed
//! ```

mod create;
mod nodes;
mod overview;
mod renewal;

use crate::connect;
use crate::etcd::{Client, Compare, Op, Txn};
use crate::keys::Lease;
use crate::record::{self, written};
use crate::transactions::{KnownFleet, SeenClaim};
use crate::{BrokenValue, Config, Error, ErrorKind, Mark, MemberValue, Name, SessionValue};

pub use create::Created;
pub use nodes::{EtcdReport, NodeReport, examine};
pub use overview::{Overview, SeenMember, SeenSession};
pub use renewal::RENEWAL_WATCH;

/// A fleet, to be looked at and changed.
#[derive(Debug)]
pub struct Fleet {
    client: Client,
    known: KnownFleet,
}

/// Result of [`Fleet::evict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evicted {
    /// The session is marked as broken: its owner ends its work and then the session, or the session lapses.
    Marked(SessionValue),
    /// There is no such session.
    NotThere,
}

impl Fleet {
    /// The fleet of the configuration.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`], [`ErrorKind::Refused`], [`ErrorKind::NoFleet`], [`ErrorKind::TooOld`], [`ErrorKind::Config`].
    pub fn open(config: &Config) -> Result<Self, Error> {
        let client = Client::new(config.clone())?;
        let known = connect::fleet(&client)?;
        Ok(Self { client, known })
    }

    /// The fleet that the mark names.
    ///
    /// # Errors
    /// As [`Self::open`], and [`ErrorKind::OtherFleet`].
    pub fn of_mark(config: &Config, mark: &Mark) -> Result<Self, Error> {
        let client = Client::new(config.clone())?;
        let known = connect::fleet_of(&client, mark)?;
        Ok(Self { client, known })
    }

    /// The random name of this fleet, which a fleet that is made anew does not have.
    pub fn nonce(&self) -> &str {
        &self.known.value.nonce
    }

    /// The url of its etcd.
    pub fn url(&self) -> String {
        self.client.config().url()
    }

    fn txn(&self, txn: &Txn) -> Result<crate::etcd::TxnAnswer, Error> {
        self.client
            .txn(txn)
            .map_err(|failure| failure.error(&self.client))
    }

    /// A transaction of the fleet as it is known.
    ///
    /// # Errors
    /// [`ErrorKind::NoFleet`]: it is not there any more.
    fn change(&self, more: &[Compare<'_>], ops: &[Op<'_>]) -> Result<bool, Error> {
        let fleet = self.known.keys.fleet();
        let compare: Vec<_> = [Compare::Value(&fleet, &self.known.bytes)]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        let mut answer = self.txn(&Txn::when(&compare).then(ops).otherwise(&[Op::Get(&fleet)]))?;
        if answer.succeeded {
            return Ok(true);
        }
        match answer.next_one() {
            Some(found) if found.value == self.known.bytes => Ok(false),
            _ => Err(Error::new(
                ErrorKind::NoFleet,
                format!(
                    "the fleet at {} was destroyed or made anew just now",
                    self.url()
                ),
            )),
        }
    }

    /// Joins a clone: its name and itself are there from now on, until it leaves. The same clone may join again.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn join(&self, mark: &Mark, member: &MemberValue) -> Result<(), Error> {
        let keys = &self.known.keys;
        let (name, of_clone, value) = (
            keys.name(&mark.name),
            keys.member(&mark.name, &mark.clone),
            written(member),
        );
        self.change(
            &[],
            &[Op::Put(&name, b"", None), Op::Put(&of_clone, &value, None)],
        )
        .map(drop)
    }

    /// Takes a clone out, and with the last one the name.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn leave(&self, mark: &Mark) -> Result<(), Error> {
        let keys = &self.known.keys;
        let (name, members) = (keys.name(&mark.name), keys.members_of(&mark.name));
        self.change(&[], &[Op::Delete(&keys.member(&mark.name, &mark.clone))])?;
        let claim = keys.claim(&mark.name);
        self.change(
            &[Compare::NothingBelow(&members), Compare::Absent(&claim)],
            &[Op::Delete(&name)],
        )
        .map(drop)
    }

    /// The claim that stands on a name.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn claim_of(&self, name: &Name) -> Result<Option<SeenClaim>, Error> {
        let key = self.known.keys.claim(name);
        let found = self.txn(&Txn::look(&[Op::Get(&key)]))?.next_one();
        Ok(found.map(|found| SeenClaim::of(name, &found)))
    }

    /// The fencing token of a claim; `None`: the number would not be below 2^53.
    pub fn token(&self, claim: &SeenClaim) -> Option<u64> {
        self.known.value.token(claim.created)
    }

    /// Marks a session as broken: a claim's or an agent's. Nothing is revoked, for the work under it may still run.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn evict(&self, session: Lease, why: &BrokenValue) -> Result<Evicted, Error> {
        let key = self.known.keys.session(session);
        let Some(found) = self.txn(&Txn::look(&[Op::Get(&key)]))?.next_one() else {
            return Ok(Evicted::NotThere);
        };
        let answer = self.txn(
            &self
                .known
                .break_session(session, found.create_revision, why),
        )?;
        if !answer.succeeded {
            return Ok(Evicted::NotThere);
        }
        let unread = |_| SessionValue {
            nonce: String::new(),
            who: crate::Who {
                host: String::new(),
                pid: 0,
                version: String::new(),
            },
            since: why.at,
        };
        Ok(Evicted::Marked(
            record::read(&found.value).unwrap_or_else(unread),
        ))
    }

    /// Destroys the fleet, with all that is below the prefix: whatever runs under it is ended. The marks stay.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn destroy(&self) -> Result<(), Error> {
        self.change(&[], &[Op::DeleteBelow(self.known.keys.top())])
            .map(drop)
    }
}
