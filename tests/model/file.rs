//! A file as the kernel sees it.

use crate::set::{Set, Who};

/// The two names that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    Lock,
    Aside,
}

/// What is in it. All records are of one length, so that one written over another is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// The record of somebody who is long gone.
    LongGone,
    /// This actor's record.
    Of(Who),
    /// Empty or torn: malformed.
    Unfinished,
}

/// A file, which has no number: it is known by its name and by the actors that have it open. Each actor has at most
/// one open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File {
    pub name: Option<Name>,
    pub content: Content,
    /// The actors that have it open for reading.
    pub readers: Set,
    /// The actors that have looked its path up for an open for writing that has not arrived yet.
    pub looked_up: Set,
    /// Whose open for writing waits for a lease to be given up.
    pub blocked: Set,
    /// The actors that have it open for writing, and have not truncated it yet.
    pub opened: Set,
    /// The actors that have it open for writing, and have truncated it.
    pub truncated: Set,
    /// Whose read lease on it stands.
    pub leases: Set,
    /// Whose lease on it somebody wants broken, and is not given up yet.
    pub broken: Set,
    /// The actors that compare it, and would find it as it was.
    pub unchanged: Set,
}

impl File {
    pub fn new(name: Option<Name>, content: Content) -> Self {
        let none = Set::default();
        Self {
            name,
            content,
            readers: none,
            looked_up: none,
            blocked: none,
            opened: none,
            truncated: none,
            leases: none,
            broken: none,
            unchanged: none,
        }
    }

    /// Nobody can ever come to it again.
    pub fn is_gone(&self) -> bool {
        let open = [
            self.readers,
            self.looked_up,
            self.blocked,
            self.opened,
            self.truncated,
        ];
        self.name.is_none() && open.iter().all(|set| set.is_empty())
    }

    /// The actors that have it open for writing. The kernel counts an open from before it waits for a lease.
    pub fn writers(&self) -> Set {
        self.blocked.or(self.opened).or(self.truncated)
    }

    pub fn is_leased(&self) -> bool {
        !self.leases.or(self.broken).is_empty()
    }

    /// An open for writing arrives, of somebody who has looked it up: it gets the file, or breaks the leases and waits.
    pub fn open_arrives(&mut self, who: Who) {
        self.looked_up.remove(who);
        if self.is_leased() {
            self.broken = self.broken.or(self.leases);
            self.leases = Set::default();
            self.blocked.insert(who);
        } else {
            self.opened.insert(who);
        }
    }

    /// Closes whatever this actor has of it.
    pub fn close(&mut self, who: Who) {
        for set in [
            &mut self.readers,
            &mut self.looked_up,
            &mut self.blocked,
            &mut self.opened,
            &mut self.truncated,
            &mut self.leases,
            &mut self.broken,
            &mut self.unchanged,
        ] {
            set.remove(who);
        }
    }
}
