//! A daemon without cycles of ours, that calls `should_skip_database` (`checker/core/src/check.rs`).
//!
//! It looks without the gate, and takes it only to change something. Comes again for ever. What it does after a
//! "proceed" is its own business: of that a claim knows nothing.

use crate::file::Name;
use crate::protocol::Protocol;
use crate::set::{Set, Who};
use crate::site::{Came, Site, Wanted};
use crate::world::{Verdict, World, Wrong};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    Idle,
    /// `plain`: the lock was absent; the side name is next. `before`: the claims that stood when it began.
    Absent {
        before: Set,
    },
    /// The side name was absent too; the lock is next, for the second time.
    BothAbsent {
        before: Set,
    },
    /// The lock is malformed; the side name is next.
    Malformed,
    /// Something is to be changed: the gate is next.
    NeedsGate,
    /// `Site::settle`.
    Settling(Site),
}

impl Check {
    pub fn site(self) -> Option<Site> {
        match self {
            Self::Settling(site) => Some(site),
            _ => None,
        }
    }

    /// One step; `None` when it has to wait, or would do nothing.
    pub fn step(self, who: Who, world: &mut World, protocol: &Protocol) -> Option<Self> {
        Some(match self {
            Self::Idle => match world.look(Name::Lock) {
                None if protocol.three_looks => Self::Absent {
                    before: world.standing(),
                },
                None => Self::proceed(world.standing(), world),
                Some(verdict) => Self::judged(verdict)?,
            },
            Self::Absent { before } => match world.at(Name::Aside) {
                None => Self::BothAbsent {
                    before: before.and(world.standing()),
                },
                Some(_) => Self::NeedsGate,
            },
            // A claim that has come since it began is none that it could have known of.
            Self::BothAbsent { before } => match world.look(Name::Lock) {
                None => Self::proceed(before.and(world.standing()), world),
                Some(verdict) => Self::judged(verdict).unwrap_or(Self::Idle),
            },
            Self::Malformed => match world.at(Name::Aside) {
                None => Self::Idle,
                Some(_) => Self::NeedsGate,
            },
            Self::NeedsGate => {
                let settling = Self::Settling(Site::new(Wanted::Dead));
                world.take_gate(who, protocol).then_some(settling)?
            }
            Self::Settling(site) => Self::settled(site.step(who, world, protocol)?, who, world),
        })
    }

    /// `None`: skip.
    fn judged(verdict: Verdict) -> Option<Self> {
        match verdict {
            Verdict::Held => None,
            Verdict::Stale => Some(Self::NeedsGate),
            Verdict::Malformed => Some(Self::Malformed),
        }
    }

    fn proceed(claims: Set, world: &mut World) -> Self {
        if !claims.is_empty() {
            world.wrong = Some(Wrong::Check);
        }
        Self::Idle
    }

    fn settled(came: Came, who: Who, world: &mut World) -> Self {
        let done = match came {
            Came::To(site) => return Self::Settling(site),
            Came::Free => Self::proceed(world.standing(), world),
            Came::Refused | Came::Released => Self::Idle,
        };
        world.let_gate_go(who);
        done
    }

    /// Gives up: a gate that stays busy, or a file that somebody keeps touching.
    pub fn give_up(self, who: Who, world: &mut World) -> Option<Self> {
        match self {
            Self::NeedsGate => Some(Self::Idle),
            Self::Settling(site) => Some(Self::settled(site.give_up(who, world), who, world)),
            _ => None,
        }
    }

    pub fn crash(self, who: Who, world: &mut World) -> Option<Self> {
        world.close(who);
        world.let_gate_go(who);
        (self != Self::Idle).then_some(Self::Idle)
    }
}
