//! etcd, as far as the fleet uses it: leases, the keys of one NAME, and the transactions.
//!
//! A grant and the transaction `session` are one request here. A copy of it that comes late makes the lease once more,
//! which needs two late requests of a real client.

use super::rules::Rules;

/// A lease: the number of its actor and of the session, four to each actor.
pub type Lease = u8;

/// A revision of etcd, 0 for none. Only their order matters.
pub type Revision = u8;

/// As many as there can be.
const LEASES: usize = 16;

/// The lease of a key that has none: nobody ever revokes it.
const NO_LEASE: Lease = 15;

/// A set of leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leases(u16);

impl Leases {
    pub fn has(self, lease: Lease) -> bool {
        self.0 & 1 << lease != 0
    }

    pub fn insert(&mut self, lease: Lease) {
        self.0 |= 1 << lease;
    }

    pub fn remove(&mut self, lease: Lease) {
        self.0 &= !(1 << lease);
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn but(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn members(self) -> impl Iterator<Item = Lease> {
        (0..16).filter(move |lease| self.has(*lease))
    }
}

/// The key `fleet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    /// Its nonce, which is its `base` as well: a later fleet has a higher one.
    pub nonce: u8,
    /// Which revision it was put at. It is the same one on every new cluster.
    pub put_at: u8,
}

/// The key `claims/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub lease: Lease,
    pub created: Revision,
    pub held: bool,
}

/// What is asked of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ask {
    Session,
    Raise,
    Right,
    /// Of a mutant: the claim is only read.
    Look,
    /// Of a mutant: the right is put without a look.
    Put,
    Yield(Revision),
    Drained(Revision),
    End,
}

/// A request as it was sent; it may arrive at any time, and twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub lease: Lease,
    pub fleet: Fleet,
    pub ask: Ask,
}

/// The answer, with what the `else` of a transaction gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    pub done: bool,
    pub revision: Revision,
    pub claim: Option<Claim>,
}

/// What a renewal finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Good,
    /// The lease, the session or the claim is gone: the work is killed at once.
    Lost,
    /// Somebody wants the session to end.
    Broken,
    /// There is no fleet, or another one: it does not count, and the deadline comes.
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    pub revision: Revision,
    pub fleet: Option<Fleet>,
    pub new: bool,
    pub leases: Leases,
    /// The mod revision of each `sessions/L`.
    pub sessions: [Revision; LEASES],
    pub broken: Leases,
    pub claim: Option<Claim>,
    /// The lease of each right, by the last part of its name.
    rights: [Option<Lease>; LEASES],
}

impl Server {
    /// A new cluster without a key.
    pub fn empty() -> Self {
        Self {
            revision: 1,
            fleet: None,
            new: false,
            leases: Leases::default(),
            sessions: [0; LEASES],
            broken: Leases::default(),
            claim: None,
            rights: [None; LEASES],
        }
    }

    /// Makes the fleet.
    pub fn create(&mut self, fleet: Fleet, rules: &Rules) {
        self.revision += 1;
        self.fleet = Some(fleet);
        self.new = rules.new_after_loss;
    }

    /// The `N` of the transactions.
    fn is_open(&self, known: Fleet, rules: &Rules) -> bool {
        !self.new && self.is_fleet(known, rules)
    }

    fn is_fleet(&self, known: Fleet, rules: &Rules) -> bool {
        self.fleet.is_some_and(|fleet| {
            if rules.fleet_has_nonce {
                fleet == known
            } else {
                fleet.put_at == known.put_at
            }
        })
    }

    fn has_session(&self, lease: Lease) -> bool {
        self.sessions[usize::from(lease)] > 0
    }

    pub fn has_right(&self, lease: Lease, rules: &Rules) -> bool {
        self.rights[Self::name_of_right(lease, rules)].is_some()
    }

    pub fn has_rights(&self) -> bool {
        self.rights.iter().any(Option::is_some)
    }

    fn name_of_right(lease: Lease, rules: &Rules) -> usize {
        usize::from(if rules.right_names_lease {
            lease
        } else {
            lease & !3
        })
    }

    fn is_claim(&self, created: Revision) -> bool {
        self.claim.is_some_and(|claim| claim.created == created)
    }

    fn put_right(&mut self, lease: Lease, rules: &Rules) {
        let attached = if rules.right_has_lease {
            lease
        } else {
            NO_LEASE
        };
        self.rights[Self::name_of_right(lease, rules)] = Some(attached);
        self.sessions[usize::from(lease)] = self.revision;
    }

    /// One transaction, whole or not at all.
    pub fn apply(&mut self, request: Request, rules: &Rules) -> Answer {
        let Request { lease, fleet, ask } = request;
        let open = self.is_open(fleet, rules);
        let may_begin =
            open && self.has_session(lease) && !self.broken.has(lease) && self.claim.is_none();
        let done = match ask {
            Ask::Session => open && !self.has_session(lease),
            Ask::Raise | Ask::Right => may_begin,
            Ask::Look => open && self.claim.is_none(),
            Ask::Put => self.has_session(lease),
            Ask::Yield(created) => !rules.yield_names_claim || self.is_claim(created),
            Ask::Drained(created) => {
                let is_mine =
                    self.is_claim(created) && self.claim.is_some_and(|claim| claim.lease == lease);
                let may_put = if rules.drained_compares_claim {
                    is_mine
                } else {
                    self.leases.has(lease)
                };
                may_put && !self.broken.has(lease) && !self.has_rights()
            }
            Ask::End => true,
        };
        if done {
            self.act(request, rules);
        }
        Answer {
            done,
            revision: self.revision,
            claim: self.claim,
        }
    }

    fn act(&mut self, request: Request, rules: &Rules) {
        let Request { lease, ask, .. } = request;
        match ask {
            Ask::Look => {}
            Ask::End if rules.end_names_lease => self.revoke(lease),
            Ask::Yield(_) => {
                let name = Self::name_of_right(lease, rules);
                if self.rights[name].take().is_some() {
                    self.revision += 1;
                }
            }
            Ask::End => {
                self.claim = None;
                self.revision += 1;
                self.revoke(lease);
            }
            Ask::Session => {
                self.revision += 1;
                self.leases.insert(lease);
                self.sessions[usize::from(lease)] = self.revision;
            }
            Ask::Raise => {
                self.revision += 1;
                self.claim = Some(Claim {
                    lease,
                    created: self.revision,
                    held: false,
                });
            }
            Ask::Right | Ask::Put => {
                self.revision += 1;
                self.put_right(lease, rules);
            }
            Ask::Drained(_) => {
                self.revision += 1;
                let created = self.claim.map_or(self.revision, |claim| claim.created);
                self.claim = Some(Claim {
                    lease,
                    created,
                    held: true,
                });
            }
        }
    }

    /// All keys of a lease go, in one revision.
    pub fn revoke(&mut self, lease: Lease) {
        if !self.leases.has(lease) {
            return;
        }
        self.revision += 1;
        self.leases.remove(lease);
        self.sessions[usize::from(lease)] = 0;
        self.broken.remove(lease);
        if self.claim.is_some_and(|claim| claim.lease == lease) {
            self.claim = None;
        }
        for right in &mut self.rights {
            if *right == Some(lease) {
                *right = None;
            }
        }
    }

    /// What a request for a session finds: with another fleet there will never be one.
    pub fn before_session(&self, fleet: Fleet, rules: &Rules) -> Verdict {
        if self.is_fleet(fleet, rules) {
            Verdict::Good
        } else {
            Verdict::Foreign
        }
    }

    /// A keep-alive and the read behind it, by what the session knew when it was sent.
    pub fn renew(
        &self,
        lease: Lease,
        fleet: Fleet,
        last_right: Revision,
        claim: Revision,
        rules: &Rules,
    ) -> Verdict {
        let session = self.sessions[usize::from(lease)];
        let is_mine = |found: Claim| found.created == claim && found.lease == lease;
        let has_claim = claim == 0 || !rules.renewal_reads_claim || self.claim.is_some_and(is_mine);
        if !self.leases.has(lease)
            || session == 0
            || rules.renewal_reads_revision && session < last_right
            || !has_claim
        {
            return Verdict::Lost;
        }
        if rules.renewal_reads_fleet && !self.is_fleet(fleet, rules) {
            return Verdict::Foreign;
        }
        if self.broken.has(lease) {
            Verdict::Broken
        } else {
            Verdict::Good
        }
    }
}
