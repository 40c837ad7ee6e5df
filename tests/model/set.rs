//! A set of actors.

use std::fmt;

/// The number of an actor: its place in the state.
pub type Who = u8;

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(u8);

impl Set {
    pub fn up_to(count: usize) -> Self {
        (0..count).fold(Self::default(), |set, who| {
            set.with(u8::try_from(who).expect("few actors"))
        })
    }

    pub fn with(self, who: Who) -> Self {
        Self(self.0 | 1 << who)
    }

    pub fn without(self, who: Who) -> Self {
        Self(self.0 & !(1 << who))
    }

    pub fn insert(&mut self, who: Who) {
        *self = self.with(who);
    }

    pub fn remove(&mut self, who: Who) {
        *self = self.without(who);
    }

    pub fn has(self, who: Who) -> bool {
        self.0 & 1 << who != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those of either.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of this one alone.
    pub fn but(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn members(self) -> impl Iterator<Item = Who> {
        (0..8).filter(move |who| self.has(*who))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.members()).finish()
    }
}
