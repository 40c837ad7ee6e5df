//! How it came to that, in lines.

use std::fmt;

use stateright::Path;

use crate::actors::{Actor, Deed};
use crate::set::Who;
use crate::system::State;

/// The way from a first state to one that must not be.
pub struct Trace(Path<State, (Who, Deed)>);

impl Trace {
    pub fn new(path: Path<State, (Who, Deed)>) -> Self {
        Self(path)
    }

    pub fn steps(&self) -> usize {
        self.0.clone().into_actions().len()
    }
}

/// A line for each step: the actor, and what it was about to do.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (state, action) in self.0.clone().into_vec() {
            let Some((who, deed)) = action else { continue };
            let actor = state.actors[usize::from(who)];
            let deed = match deed {
                Deed::Step => "",
                Deed::GiveUp => " gives up at",
                Deed::ByForce => " gets the file by force at",
                Deed::Crash => " is killed at",
            };
            write!(f, "  {who}{deed} ")?;
            match (actor, actor.site()) {
                (Actor::Claimer(_), Some(site)) => {
                    writeln!(f, "Claimer({:?}, {:?})", site.wanted, site.next)?
                }
                (Actor::Agent(_), Some(site)) => writeln!(f, "Agent({:?})", site.next)?,
                (Actor::Check(_), Some(site)) => writeln!(f, "Check({:?})", site.next)?,
                (Actor::Naive(naive), _) => writeln!(f, "{:?}({:?})", naive.way, naive.stage)?,
                (actor, _) => writeln!(f, "{actor:?}")?,
            }
        }
        Ok(())
    }
}
