//! `beadlock hold` and its command (`integration/claim/src/*`, `checker/core/src/take/{mod,create,release}.rs`).
//!
//! Claims once. The command is forked first, and its process is the one in the record, so that it lives from the
//! start. A time-out of a wait is not in the model: a claimer that gives up has changed nothing.

use crate::file::{Content, File, Name};
use crate::protocol::Protocol;
use crate::set::Who;
use crate::site::{Came, Site, Wanted};
use crate::world::{World, Wrong};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claimer {
    /// `integration/claim/src/gate.rs`: blocked in `flock`, which is the drain.
    Waiting,
    /// `Site::settle`.
    Settling(Site),
    /// There is no lock: the record is written, and about to be linked (`create.rs`, `link`).
    Linking,
    /// Linked; the gate is still held.
    Linked,
    /// The gate is open again, and the command waits for its byte.
    Starting,
    /// The command runs.
    Running,
    /// The command has ended and is not reaped; the gate is waited for.
    Ended,
    /// `Site::release`.
    Releasing(Site),
    /// Released, or given up; the gate is still held.
    Leaving,
    /// beadlock was killed; its command lives on, or waits for the end of the pipe.
    Orphaned { runs: bool },
    /// All is over.
    Gone,
}

impl Claimer {
    /// The command runs.
    pub fn works(self) -> bool {
        matches!(self, Self::Running | Self::Orphaned { runs: true })
    }

    pub fn site(self) -> Option<Site> {
        match self {
            Self::Settling(site) | Self::Releasing(site) => Some(site),
            _ => None,
        }
    }

    /// One step; `None` when it has to wait.
    pub fn step(self, who: Who, world: &mut World, protocol: &Protocol) -> Option<Self> {
        Some(match self {
            Self::Waiting if !protocol.claim_under_gate => Self::settle(protocol),
            Self::Waiting => world
                .take_gate(who, protocol)
                .then(|| Self::settle(protocol))?,
            Self::Settling(site) => Self::settled(site.step(who, world, protocol)?, who, world),
            Self::Linking if world.at(Name::Lock).is_some() => Self::settle(protocol),
            Self::Linking => {
                if !world.standing().is_empty() {
                    world.wrong = Some(Wrong::Claim);
                }
                world
                    .files
                    .push(File::new(Some(Name::Lock), Content::Of(who)));
                world.claims.insert(who);
                Self::Linked
            }
            Self::Linked => {
                world.let_gate_go(who);
                Self::Starting
            }
            Self::Starting => Self::Running,
            Self::Running => {
                world.claims.remove(who);
                Self::Ended
            }
            Self::Ended => world
                .take_gate(who, protocol)
                .then_some(Self::Releasing(Site::new(Wanted::Mine)))?,
            Self::Releasing(site) => Self::released(site.step(who, world, protocol)?),
            Self::Leaving => {
                world.let_gate_go(who);
                world.alive.remove(who);
                Self::Gone
            }
            Self::Orphaned { .. } => {
                world.alive.remove(who);
                Self::Gone
            }
            Self::Gone => return None,
        })
    }

    /// Where there is a gate nobody removes anything without it.
    fn settle(protocol: &Protocol) -> Self {
        let without_it = protocol.gate && !protocol.claim_under_gate;
        Self::Settling(Site::new(if without_it {
            Wanted::Nothing
        } else {
            Wanted::Dead
        }))
    }

    fn settled(came: Came, who: Who, world: &mut World) -> Self {
        match came {
            Came::To(site) => Self::Settling(site),
            Came::Free => Self::Linking,
            Came::Refused | Came::Released => {
                world.let_gate_go(who);
                Self::Waiting
            }
        }
    }

    fn released(came: Came) -> Self {
        match came {
            Came::To(site) => Self::Releasing(site),
            Came::Free | Came::Refused | Came::Released => Self::Leaving,
        }
    }

    /// Gives up a file that somebody keeps touching.
    pub fn give_up(self, who: Who, world: &mut World) -> Option<Self> {
        match self {
            Self::Settling(site) => Some(Self::settled(site.give_up(who, world), who, world)),
            Self::Releasing(site) => Some(Self::released(site.give_up(who, world))),
            _ => None,
        }
    }

    /// beadlock is killed: its descriptors are closed, its command is not killed with it.
    pub fn crash(self, who: Who, world: &mut World) -> Option<Self> {
        let left = match self {
            Self::Orphaned { .. } | Self::Gone => return None,
            Self::Running => Self::Orphaned { runs: true },
            Self::Ended | Self::Releasing(_) | Self::Leaving => {
                world.alive.remove(who);
                Self::Gone
            }
            _ => Self::Orphaned { runs: false },
        };
        world.close(who);
        world.let_gate_go(who);
        Some(left)
    }
}
