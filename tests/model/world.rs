//! What all actors share: the files of one database's directory, the gate, and which processes live.

use crate::file::{Content, File, Name};
use crate::protocol::{Protocol, Watch};
use crate::set::{Set, Who};

/// What a reader makes of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Held,
    Stale,
    Malformed,
}

/// What went wrong at one moment, and is not to be seen in the world afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A cycle was begun while a claim stood.
    Cycle,
    /// A check came to "proceed" beside a claim that was there before it.
    Check,
    /// A lock was linked beside a claim that stands.
    Claim,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// Sorted, so that two worlds that differ only in the order of files are one.
    pub files: Vec<File>,
    /// The actor that has the gate, with whatever shares its open file.
    pub gate: Option<Who>,
    /// Whose recorded process lives, or is a zombie that nobody has reaped.
    pub alive: Set,
    /// Whose claim is complete, and whose work is not over.
    pub claims: Set,
    /// Whose claim a writer without the gate has itself overwritten or removed: that is nobody else's fault.
    pub overwritten: Set,
    /// How many more actors may be killed.
    pub crashes: u8,
    pub wrong: Option<Wrong>,
}

impl World {
    pub fn new(lock: Option<Content>, actors: usize, crashes: u8) -> Self {
        let files = lock
            .map(|content| File::new(Some(Name::Lock), content))
            .into_iter()
            .collect();
        let none = Set::default();
        let alive = Set::up_to(actors);
        Self {
            files,
            gate: None,
            alive,
            claims: none,
            overwritten: none,
            crashes,
            wrong: None,
        }
    }

    /// Forgets what can never matter again.
    pub fn tidy(&mut self) {
        self.files.retain(|file| !file.is_gone());
        self.files.sort_unstable();
        self.claims = self.claims.and(self.alive);
        self.overwritten = self.overwritten.and(self.alive);
    }

    /// Claims that everybody has to respect.
    pub fn standing(&self) -> Set {
        self.claims.and(self.alive).but(self.overwritten)
    }

    pub fn at(&self, name: Name) -> Option<&File> {
        self.files.iter().find(|file| file.name == Some(name))
    }

    fn at_mut(&mut self, name: Name) -> Option<&mut File> {
        self.files.iter_mut().find(|file| file.name == Some(name))
    }

    pub fn judge(&self, content: Content) -> Verdict {
        match content {
            Content::Unfinished => Verdict::Malformed,
            Content::Of(who) if self.alive.has(who) => Verdict::Held,
            Content::Of(_) | Content::LongGone => Verdict::Stale,
        }
    }

    /// Opens, reads, judges and closes what has this name.
    pub fn look(&self, name: Name) -> Option<Verdict> {
        self.at(name).map(|file| self.judge(file.content))
    }

    /// Takes the gate without waiting. False: somebody has it.
    pub fn take_gate(&mut self, who: Who, protocol: &Protocol) -> bool {
        if protocol.gate {
            if self.gate.is_some() {
                return false;
            }
            self.gate = Some(who);
        }
        true
    }

    pub fn let_gate_go(&mut self, who: Who) {
        if self.gate == Some(who) {
            self.gate = None;
        }
    }

    /// Opens for reading. False: there is nothing.
    pub fn open(&mut self, name: Name, who: Who) -> bool {
        self.at_mut(name)
            .map(|file| file.readers.insert(who))
            .is_some()
    }

    /// The file that this actor has open for reading.
    pub fn read(&self, who: Who) -> &File {
        self.files
            .iter()
            .find(|file| file.readers.has(who))
            .expect("it has one open")
    }

    fn read_mut(&mut self, who: Who) -> &mut File {
        self.files
            .iter_mut()
            .find(|file| file.readers.has(who))
            .expect("it has one open")
    }

    /// Closes everything that this actor has open; its leases go with it.
    pub fn close(&mut self, who: Who) {
        self.files.iter_mut().for_each(|file| file.close(who));
    }

    /// Puts the open file under watch. False: somebody has it open for writing (`take/lease.rs`, `watch`).
    pub fn watch(&mut self, who: Who, protocol: &Protocol) -> bool {
        let file = self.read_mut(who);
        if protocol.watch == Watch::Lease {
            if !file.writers().is_empty() {
                return false;
            }
            file.leases.insert(who);
        }
        true
    }

    /// Begins the grace: what is compared at its end is what is seen now.
    pub fn begin_grace(&mut self, who: Who, protocol: &Protocol) {
        if protocol.watch == Watch::Comparison {
            self.read_mut(who).unchanged.insert(who);
        }
    }

    /// The grace may end: whatever was looked up before the file was moved has had the time to arrive. A lease sees
    /// the open; an actor that compares has to wait for the truncation as well (docs/design.md#grace).
    pub fn grace_is_over(&self, who: Who, protocol: &Protocol) -> bool {
        let file = self.read(who);
        let unseen = if protocol.watch == Watch::Lease {
            file.looked_up
        } else {
            file.looked_up.or(file.blocked).or(file.opened)
        };
        unseen.is_empty()
    }

    /// A releaser has the side file under an unbroken watch, and nobody has claimed in it.
    pub fn is_being_released(&self, who: Who) -> bool {
        self.at(Name::Aside).is_some_and(|file| {
            let is_claimed = |owner| file.content == Content::Of(owner);
            !file.leases.or(file.unchanged).without(who).is_empty()
                && !self.standing().members().any(is_claimed)
        })
    }

    /// Nobody has touched the open file since it said `judged` (`take/lease.rs`, `unbroken_for`).
    pub fn is_unbroken(&self, who: Who, judged: Content, protocol: &Protocol) -> bool {
        let file = self.read(who);
        match protocol.watch {
            Watch::Lease => file.leases.has(who),
            Watch::Comparison => file.unchanged.has(who) && file.content == judged,
            Watch::Nothing => true,
        }
    }

    /// `renameat2` with `RENAME_NOREPLACE`. False: there is nothing to move, or something in the way.
    pub fn rename(&mut self, from: Name, to: Name) -> bool {
        if self.at(to).is_some() {
            return false;
        }
        self.at_mut(from).map(|file| file.name = Some(to)).is_some()
    }

    /// `renameat2` with `RENAME_EXCHANGE`, which needs both.
    pub fn exchange(&mut self) {
        if self.at(Name::Lock).is_some() && self.at(Name::Aside).is_some() {
            for file in &mut self.files {
                file.name = match file.name {
                    Some(Name::Lock) => Some(Name::Aside),
                    Some(Name::Aside) => Some(Name::Lock),
                    None => None,
                };
            }
        }
    }

    pub fn unlink(&mut self, name: Name) {
        if let Some(file) = self.at_mut(name) {
            file.name = None;
        }
    }

    /// A writer without the gate changes the content of a file that it has open. A claim in it is lost by that.
    pub fn overwrite(&mut self, who: Who, content: Content) {
        let mine = |file: &&mut File| file.writers().has(who);
        let file = self
            .files
            .iter_mut()
            .find(mine)
            .expect("it has it open for writing");
        let before = std::mem::replace(&mut file.content, content);
        file.unchanged = Set::default();
        if let Content::Of(owner) = before {
            self.overwritten = self
                .overwritten
                .or(Set::default().with(owner).and(self.claims).without(who));
        }
    }

    /// A writer without the gate takes the lock's name from whatever has it. The claim in that file is lost by it,
    /// and so is the claim of everybody who is about to write there.
    pub fn unlink_blindly(&mut self, who: Who) {
        if let Some(file) = self.at_mut(Name::Lock) {
            file.name = None;
            let mut lost = file.looked_up.or(file.writers());
            if let Content::Of(owner) = file.content {
                lost.insert(owner);
            }
            self.overwritten = self.overwritten.or(lost.without(who));
        }
    }
}
