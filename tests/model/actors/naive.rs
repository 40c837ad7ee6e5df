//! A tool that obeys the lock file and has never heard of the gate: the shell recipe, `vc`, older tools.
//!
//! Claims once: looks, then overwrites what it found dead, or makes what it found absent. Whatever came in between
//! it destroys: that is its own doing, and counts as no fault of the protocol.

use crate::file::{Content, File, Name};
use crate::set::{Set, Who};
use crate::world::{Verdict, World};

/// How it writes its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// `open(O_CREAT | O_TRUNC)`, `write`, `close`.
    InPlace,
    /// A file of its own, renamed over the lock.
    ByRename,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Looks at the lock.
    Idle,
    /// Has found it dead or absent.
    Looked,
    /// Inside `open`: the path is looked up, the open has not arrived at the file.
    LookedUp,
    /// The open has met a lease, and waits.
    Blocked,
    Opened,
    Truncated,
    /// The record is complete, and with it the claim.
    Written,
    /// Works.
    Working,
    /// Has removed its lock by its path, or was killed.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Naive {
    pub way: Way,
    pub stage: Stage,
}

impl Naive {
    pub fn new(way: Way) -> Self {
        Self {
            way,
            stage: Stage::Idle,
        }
    }

    /// One step; `None` when it has to wait.
    pub fn step(self, who: Who, world: &mut World) -> Option<Self> {
        let stage = match self.stage {
            Stage::Idle => match world.look(Name::Lock) {
                None | Some(Verdict::Stale) => Stage::Looked,
                Some(Verdict::Held | Verdict::Malformed) => return None,
            },
            Stage::Looked => match self.way {
                Way::InPlace => Self::look_up(who, world),
                Way::ByRename => Self::rename_over(who, world),
            },
            Stage::LookedUp => {
                let file = world
                    .files
                    .iter_mut()
                    .find(|file| file.looked_up.has(who))
                    .expect("looked up");
                file.open_arrives(who);
                if file.blocked.has(who) {
                    Stage::Blocked
                } else {
                    Stage::Opened
                }
            }
            Stage::Blocked => {
                let file = world
                    .files
                    .iter_mut()
                    .find(|file| file.blocked.has(who))
                    .expect("it waits");
                if file.is_leased() {
                    return None;
                }
                file.blocked.remove(who);
                file.opened.insert(who);
                Stage::Opened
            }
            Stage::Opened => {
                world.overwrite(who, Content::Unfinished);
                let file = world
                    .files
                    .iter_mut()
                    .find(|file| file.opened.has(who))
                    .expect("open");
                file.opened.remove(who);
                file.truncated.insert(who);
                Stage::Truncated
            }
            Stage::Truncated => {
                world.overwrite(who, Content::Of(who));
                world.claims.insert(who);
                Stage::Written
            }
            Stage::Written => {
                world.close(who);
                Stage::Working
            }
            Stage::Working => {
                world.unlink_blindly(who);
                world.claims.remove(who);
                world.alive.remove(who);
                Stage::Gone
            }
            Stage::Gone => return None,
        };
        Some(Self { stage, ..self })
    }

    fn look_up(who: Who, world: &mut World) -> Stage {
        match world
            .files
            .iter_mut()
            .find(|file| file.name == Some(Name::Lock))
        {
            Some(file) => {
                file.looked_up.insert(who);
                Stage::LookedUp
            }
            None => {
                let mut file = File::new(Some(Name::Lock), Content::Unfinished);
                file.truncated.insert(who);
                world.files.push(file);
                Stage::Truncated
            }
        }
    }

    fn rename_over(who: Who, world: &mut World) -> Stage {
        world.unlink_blindly(who);
        world
            .files
            .push(File::new(Some(Name::Lock), Content::Of(who)));
        world.claims.insert(who);
        Stage::Working
    }

    /// After 45 s (`/proc/sys/fs/lease-break-time`) the kernel takes the leases that keep it waiting.
    pub fn gets_it_by_force(self, who: Who, world: &mut World) -> Option<Self> {
        let file = world
            .files
            .iter_mut()
            .find(|file| file.blocked.has(who) && file.is_leased())?;
        file.broken = Set::default();
        Some(self)
    }

    pub fn crash(self, who: Who, world: &mut World) -> Option<Self> {
        if self.stage == Stage::Gone {
            return None;
        }
        world.close(who);
        world.alive.remove(who);
        Some(Self {
            stage: Stage::Gone,
            ..self
        })
    }
}
