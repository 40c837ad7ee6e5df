//! The steps under the gate: recover, remove, release (`checker/core/src/take/{mod,recover,remove,release}.rs`).
//!
//! A read and the `kill(pid, 0)` after it are one step: a process that has gone does not come back. So are the open
//! and the read of the lock during a recovery, of which nothing stays open.

use crate::file::{Content, Name};
use crate::protocol::Protocol;
use crate::set::Who;
use crate::world::{Verdict, World};

/// What comes next. The names are of the functions and system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// `recover`: opens the side file.
    OpenSide,
    /// `recover`: `watch` on the side file.
    LeaseSide,
    /// `side_may_go`.
    JudgeSide,
    /// `recover`: `unbroken_for`.
    WatchSide,
    /// `recover`: `delete_aside`.
    DeleteSide,
    /// `recover`: what is aside is somebody's claim, and the lock decides where it goes.
    LookAtLock,
    /// `recover`: `move_back`.
    PutSideBack,
    /// `recover`: `exchange`.
    Exchange,
    /// `settle_once`, `release_once`: opens the lock.
    OpenLock,
    /// The same: reads and judges it.
    Judge,
    /// `remove`: `watch`.
    Lease,
    /// `remove`: `may_go`.
    JudgeAgain,
    /// `remove`: `move_aside`.
    MoveAside,
    /// `remove`: `is_aside`, the first one.
    Compare,
    /// `remove`: `unbroken_for`, and `is_aside` once more.
    WatchAside,
    /// `remove`: `delete_aside`.
    Delete,
    /// `remove`: `move_back`.
    MoveBack,
    /// `settle`, `release`: somebody was at the file. It is looked at again, or given up.
    Contended,
}

/// Whose lock may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// A dead one.
    Dead,
    /// A dead one, but nothing is touched, because there is no gate (`claim_without_gate`).
    Nothing,
    /// One's own; in a recovery a dead one as well.
    Mine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    pub next: Next,
    pub wanted: Wanted,
    /// What the file said when it was judged.
    pub judged: Option<Content>,
}

/// What a step has come to.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// Not to the end yet.
    To(Site),
    /// There is no lock and no side file.
    Free,
    /// There is one that must stay.
    Refused,
    /// The release is over: the lock is gone, or is not the releaser's.
    Released,
}

impl Site {
    pub fn new(wanted: Wanted) -> Self {
        Self {
            next: Next::OpenSide,
            wanted,
            judged: None,
        }
    }

    fn to(self, next: Next) -> Came {
        Came::To(Self { next, ..self })
    }

    fn judged(self, content: Content, next: Next) -> Came {
        Came::To(Self {
            judged: Some(content),
            next,
            ..self
        })
    }

    /// Closes what is open and starts again.
    fn again(self, next: Next, who: Who, world: &mut World) -> Came {
        world.close(who);
        Came::To(Self {
            next,
            judged: None,
            ..self
        })
    }

    fn may_go(self, content: Content, who: Who, world: &World) -> bool {
        match self.wanted {
            Wanted::Dead | Wanted::Nothing => world.judge(content) == Verdict::Stale,
            Wanted::Mine => content == Content::Of(who),
        }
    }

    /// It stays as it is.
    pub fn give_up(self, who: Who, world: &mut World) -> Came {
        world.close(who);
        if self.wanted == Wanted::Mine {
            Came::Released
        } else {
            Came::Refused
        }
    }

    /// One step; `None` when it has to wait.
    pub fn step(self, who: Who, world: &mut World, protocol: &Protocol) -> Option<Came> {
        Some(match self.next {
            Next::OpenSide
            | Next::LeaseSide
            | Next::JudgeSide
            | Next::WatchSide
            | Next::DeleteSide => {
                return self.recover(who, world, protocol);
            }
            Next::LookAtLock => match world.look(Name::Lock) {
                None => self.to(Next::PutSideBack),
                Some(Verdict::Stale) => self.to(Next::Exchange),
                Some(_) if self.wanted == Wanted::Mine && self.is_at_lock(who, world) => {
                    self.to(Next::Exchange)
                }
                Some(Verdict::Held | Verdict::Malformed) => self.give_up(who, world),
            },
            Next::PutSideBack => {
                world.rename(Name::Aside, Name::Lock);
                self.again(Next::OpenSide, who, world)
            }
            Next::Exchange => {
                world.exchange();
                self.again(Next::Contended, who, world)
            }
            Next::OpenLock => match world.open(Name::Lock, who) {
                true => self.to(Next::Judge),
                false if self.wanted == Wanted::Mine => Came::Released,
                false => Came::Free,
            },
            Next::Judge => match self.may_go(world.read(who).content, who, world) {
                true if self.wanted != Wanted::Nothing => self.to(Next::Lease),
                _ => self.give_up(who, world),
            },
            Next::Contended => self.to(Next::OpenSide),
            _ => return self.remove(who, world, protocol),
        })
    }

    fn is_at_lock(self, who: Who, world: &World) -> bool {
        world
            .at(Name::Lock)
            .is_some_and(|file| file.content == Content::Of(who))
    }

    /// `recover.rs`, as far as the deletion of what is proved dead.
    fn recover(self, who: Who, world: &mut World, protocol: &Protocol) -> Option<Came> {
        Some(match self.next {
            Next::OpenSide if self.wanted == Wanted::Nothing => match world.at(Name::Aside) {
                Some(_) => self.give_up(who, world),
                None => self.to(Next::OpenLock),
            },
            Next::OpenSide if !protocol.release_keeps_gate && world.is_being_released(who) => {
                self.to(Next::OpenLock)
            }
            Next::OpenSide => match world.open(Name::Aside, who) {
                true if protocol.side_file_is_judged => self.to(Next::LeaseSide),
                true => self.to(Next::DeleteSide),
                false => self.to(Next::OpenLock),
            },
            Next::LeaseSide => match world.watch(who, protocol) {
                true => self.to(Next::JudgeSide),
                false => self.to(Next::LookAtLock),
            },
            Next::JudgeSide => {
                let content = world.read(who).content;
                if self.may_go(content, who, world) || world.judge(content) == Verdict::Stale {
                    world.begin_grace(who, protocol);
                    self.judged(content, Next::WatchSide)
                } else {
                    self.to(Next::LookAtLock)
                }
            }
            Next::WatchSide if protocol.grace && !world.grace_is_over(who, protocol) => {
                return None;
            }
            Next::WatchSide => match self.is_unbroken(who, world, protocol) {
                true => self.to(Next::DeleteSide),
                false => self.to(Next::LookAtLock),
            },
            _ => {
                world.unlink(Name::Aside);
                match self.wanted == Wanted::Mine && self.judged == Some(Content::Of(who)) {
                    true => self.give_up(who, world),
                    false => self.again(Next::OpenSide, who, world),
                }
            }
        })
    }

    /// `remove.rs`.
    fn remove(self, who: Who, world: &mut World, protocol: &Protocol) -> Option<Came> {
        let content = world.read(who).content;
        Some(match self.next {
            Next::Lease => match world.watch(who, protocol) {
                true if protocol.second_judgement => self.to(Next::JudgeAgain),
                true => self.judged(content, Next::MoveAside),
                false => self.again(Next::Contended, who, world),
            },
            Next::JudgeAgain => match self.may_go(content, who, world) {
                true => self.judged(content, Next::MoveAside),
                false => self.again(Next::OpenSide, who, world),
            },
            Next::MoveAside if !self.moves_aside(protocol) => {
                world.unlink(Name::Lock);
                self.removed(who, world, protocol)
            }
            Next::MoveAside => match world.rename(Name::Lock, Name::Aside) {
                true => self.to(Next::Compare),
                false => self.again(Next::OpenSide, who, world),
            },
            Next::Compare => match world.read(who).name {
                Some(Name::Aside) => {
                    world.begin_grace(who, protocol);
                    if self.waits_without_gate(protocol) {
                        world.let_gate_go(who);
                    }
                    self.to(Next::WatchAside)
                }
                _ => self.to(Next::MoveBack),
            },
            Next::WatchAside if self.has_grace(protocol) && !world.grace_is_over(who, protocol) => {
                return None;
            }
            Next::WatchAside
                if self.waits_without_gate(protocol) && !world.take_gate(who, protocol) =>
            {
                return None;
            }
            Next::WatchAside => match self.is_unbroken(who, world, protocol) {
                true => self.to(Next::Delete),
                false => self.to(Next::MoveBack),
            },
            Next::Delete => {
                world.unlink(Name::Aside);
                self.removed(who, world, protocol)
            }
            _ => {
                if !world.rename(Name::Aside, Name::Lock) && !protocol.stays_aside {
                    world.unlink(Name::Aside);
                }
                self.again(Next::Contended, who, world)
            }
        })
    }

    fn moves_aside(self, protocol: &Protocol) -> bool {
        if self.wanted == Wanted::Mine {
            protocol.release_moves_aside
        } else {
            protocol.move_aside
        }
    }

    /// The file under the side name is watched for a while before it is deleted.
    fn has_grace(self, protocol: &Protocol) -> bool {
        protocol.grace && (self.wanted != Wanted::Mine || protocol.release_grace)
    }

    fn waits_without_gate(self, protocol: &Protocol) -> bool {
        self.wanted == Wanted::Mine && !protocol.release_keeps_gate
    }

    fn is_unbroken(self, who: Who, world: &World, protocol: &Protocol) -> bool {
        let judged = self.judged.expect("it was judged");
        world.is_unbroken(who, judged, protocol) && world.read(who).name == Some(Name::Aside)
    }

    fn removed(self, who: Who, world: &mut World, protocol: &Protocol) -> Came {
        world.close(who);
        if self.wanted == Wanted::Mine {
            Came::Released
        } else if protocol.look_again {
            Came::To(Self::new(self.wanted))
        } else {
            Came::Free
        }
    }
}
